"""Tuning step sizes: one rule and one search, for `compare` and `levywalk reproduce`.

A step size is judged by draws: each draw says after how many steps the error stays at or below the
accuracy, and how large the error is at the end. For `levywalk reproduce` a draw is a tuning
instance; for `compare`, which has one instance, it is a bootstrap sample of the tuning walks. The
best step size is the one with which the fewest steps *suffice in four of five draws*; if none
reaches the accuracy so often, the one whose error at the end is least in four of five. The best
mean would be another rule, and a bad one: it lies at the step size whose noise floor is just below
the accuracy in these walks, and in other walks is not.

The search tries a coarse grid of relative step sizes γL*, extends it while the best lies at an
edge, and then halves the distance around the best until step sizes are sixteen a decade.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine import checkpoints_of, run_step_sizes
from levywalk.experiments.state_files import StateFolder
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.trace.comparison import Trial
from levywalk.trace.ranking import Criterion, Ranking
from levywalk.trace.statistics import mean_over_walks, resampled_means, settled_at, settled_draws
from levywalk.walks import Walk

PER_DECADE = 16
COARSE = 4  # the distance of exponents on the grid: four step sizes a decade
REFINEMENTS = (2, 1)  # the distances from the best at which step sizes are tried next
# The exponents k of γL* = 10^(k/16), from 0.01 to 10^¼. For every design, L* = max w(v)L_v is its
# own.
GRID = tuple(range(-2 * PER_DECADE, COARSE + 1, COARSE))
MOST_EXTENSIONS = 12  # three decades
DRAWS = 200  # bootstrap samples of the tuning walks
MOST = 0.8  # the share of draws in which the steps must suffice

_METRICS = ("metrics", "measure_metrics")  # what tuning by another number does not need

Found = TypeVar("Found")
Score = tuple[float, float]  # the steps, and then the error, that most draws do not exceed


def relative_sizes(exponents: Sequence[int]) -> list[float]:
    """Return γL* = 10^(k/16) for each exponent k.

    Examples
    --------
    >>> relative_sizes([-16, 0])
    [0.1, 1.0]
    """
    return [10.0 ** (k / PER_DECADE) for k in exponents]


def four_fifths_quantile(values: Floats) -> float:
    """Return the least value that four of five values do not exceed; infinite if more than a fifth
    are.

    Examples
    --------
    >>> four_fifths_quantile(np.array([1.0, 2.0, 3.0, 4.0, np.inf]))
    4.0
    """
    return float(np.quantile(values, MOST, method="inverted_cdf"))


def search_step_sizes(
    try_out: Callable[[tuple[int, ...]], Mapping[int, Found]],
    winners: Callable[[Mapping[int, Found]], Collection[int]],
    diverged: Callable[[Found], bool],
) -> dict[int, Found]:
    """Try the grid, extend it while a winner is at its edge, and refine it around the winners.

    Parameters
    ----------
    try_out
        Tries the step sizes of some exponents, and returns what it found for each.
    winners
        Returns the best exponents of all that were tried, which it gets in increasing order: one
        for each accuracy, and the least among equals.
    diverged
        Returns whether a step size was too large to be of use; the grid is not extended beyond it.

    Returns
    -------
    dict
        What was found, by exponent in increasing order. If the best is the first or the last, the
        extensions ran out.

    Examples
    --------
    >>> def nearest_to_21(tried):
    ...     return {min(tried, key=lambda k: abs(k - 21))}
    >>> list(search_step_sizes(lambda ks: {k: k for k in ks}, nearest_to_21, lambda k: k > 99))[-7:]
    [16, 18, 19, 20, 21, 22, 24]
    """
    found = dict(try_out(GRID))
    for _ in range(MOST_EXTENSIONS):
        best, low, high = set(winners(found)), min(found), max(found)
        more: tuple[int, ...] = (low - COARSE,) if low in best else ()
        more += (high + COARSE,) if high in best and not diverged(found[high]) else ()
        if not more:
            break
        found = _in_order(found, try_out(more))
    for distance in REFINEMENTS:
        best = set(winners(found))
        near = {k + side for k in best for side in (-distance, distance)} - found.keys()
        if near:
            found = _in_order(found, try_out(tuple(sorted(near))))
    return found


def _in_order(one: Mapping[int, Found], more: Mapping[int, Found]) -> dict[int, Found]:
    return dict(sorted({**one, **more}.items()))


def tuning_values(
    network: Network,
    problem: Problem,
    design: Walk,
    step_sizes: Floats,
    ranking: Ranking,
    *,
    measure_loss: str | int = "auto",
    **options: Any,
) -> Floats:
    """Return what methods are ranked by, for each (step size, tuning walk, checkpoint).

    A metric, which is known at the end only, has one checkpoint. All step sizes have the same
    walks. ``options`` are those of `levywalk.engine.run_step_sizes`.
    """
    by_distance = ranking.name not in (Criterion.EXCESS_LOSS, Criterion.LOSS)
    if not ranking.recorded:
        options = {key: value for key, value in options.items() if key not in _METRICS}
    elif ranking.accuracy is None:
        options |= {"measure_metrics": 1}  # the value at the end decides
    trace = run_step_sizes(
        network,
        problem,
        design,
        step_sizes,
        measure_loss=None if by_distance else measure_loss,
        **options,
    )
    values = ranking.values(trace)
    return values.reshape(len(step_sizes), -1, values.shape[1])


def tune_step_size(
    network: Network,
    problem: Problem,
    design: Walk,
    unit: float,
    ranking: Ranking,
    states: StateFolder | None = None,
    *,
    steps: int,
    record_every: Any,
    **options: Any,
) -> tuple[Trial, ...]:
    """Return all step sizes that were tried, in increasing order; `best` is the one to take.

    Parameters
    ----------
    unit
        The step size whose relative step size is 1: the update's own default, 1/L* for SGD.
    """
    step = checkpoints_of(steps, record_every)

    def try_out(exponents: tuple[int, ...]) -> dict[int, _StepSizeScore]:
        values = tuning_values(
            network,
            problem,
            design,
            np.array(relative_sizes(exponents)) * unit,
            ranking,
            steps=steps,
            record_every=record_every,
            resume=states.file(design.name, f"tuning{exponents[0]:+d}") if states else None,
            **options,
        )
        level = None if ranking.accuracy is None else ranking.oriented(ranking.accuracy)
        scores = (_StepSizeScore(step, of_size, level) for of_size in values)
        return dict(zip(exponents, scores, strict=True))

    found = search_step_sizes(
        try_out,
        lambda tried: {min(tried, key=lambda k: tried[k].limits)},
        lambda score: not math.isfinite(score.error),
    )
    shares = _shares(list(found.values()))
    return tuple(
        Trial(
            size,
            size * unit,
            score.steps,
            ranking.oriented(score.error),
            score.limits[0],
            score.limits[1],
            float(share),
        )
        for size, score, share in zip(
            relative_sizes(list(found)), found.values(), shares, strict=True
        )
    )


def best(trials: Sequence[Trial]) -> Trial:
    """Return the trial with which the fewest steps suffice in most draws; among equals, the one
    with the least error at the end.

    Examples
    --------
    >>> slow = Trial(0.1, 1.0, 400.0, 0.02, 500.0, 0.03, 0.1)
    >>> fast = Trial(0.2, 2.0, 300.0, 0.04, 350.0, 0.06, 0.9)
    >>> best((slow, fast)).step_size
    2.0
    """
    return min(trials, key=lambda trial: (trial.steps_limit, trial.error_limit))


class _StepSizeScore:
    """One step size of `compare`: the steps and the error at the end, of the mean over walks and of
    bootstrap samples of the walks. All step sizes have the same samples.
    """

    def __init__(self, step: Ints, values: Floats, accuracy: float | None) -> None:
        mean = mean_over_walks(values)
        self.error = float(mean[-1])
        self.error_draws = resampled_means(values[:, -1:], 0, DRAWS)[:, 0]
        if accuracy is None:
            self.steps, self.steps_draws = math.inf, np.full(DRAWS, np.inf)
        else:
            self.steps = float(settled_at(step, mean[None], accuracy)[0])
            self.steps_draws = settled_draws(step, values, accuracy, 0, DRAWS)
        self.limits: Score = (
            four_fifths_quantile(self.steps_draws),
            four_fifths_quantile(self.error_draws),
        )


def _shares(tried: Sequence[_StepSizeScore]) -> Floats:
    """Return how often each step size would have been chosen with other tuning walks.

    In each draw the limits of a step size are moved by as much as the draw differs from the mean
    over all walks: its limit has been found from the same draws, and resampling each draw again
    would give nearly the same at two hundred times the cost.
    """
    steps = np.array([_moved(t.steps_draws, t.steps, t.limits[0]) for t in tried])
    errors = np.array([_moved(t.error_draws, t.error, t.limits[1]) for t in tried])
    fewest = steps == steps.min(axis=0)
    chosen = np.where(fewest, errors, np.inf).argmin(axis=0)
    return np.bincount(chosen, minlength=len(tried)) / DRAWS


def _moved(draws: Floats, point: float, limit: float) -> Floats:
    if not math.isfinite(limit):
        return np.full(len(draws), np.inf)
    return draws + (limit - point if math.isfinite(point) else 0.0)
