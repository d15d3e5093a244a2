"""Tuning step sizes: one grid of relative step sizes, extended while its best value lies at an
edge.

`compare` and `levywalk reproduce` share the grid, the way it is extended and the walks that it is
tried on. Each has a rule of its own for what is best: `compare` takes the step size with the fewest
steps of the mean over walks, `reproduce` the one with which the fewest steps suffice on four of
five instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine import checkpoints_of, run_step_sizes
from levywalk.experiments.state_files import StateFolder
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.trace.comparison import Trial
from levywalk.trace.ranking import Criterion, Ranking
from levywalk.trace.statistics import mean_over_walks, settled_at
from levywalk.walks import Walk

PER_DECADE = 4
# The exponents k of γL* = 10^(k/4), from 0.01 to 10^¼. For every design, L* = max w(v)L_v is its
# own.
GRID = tuple(range(-2 * PER_DECADE, 2))
MOST_EXTENSIONS = 3 * PER_DECADE

Found = TypeVar("Found")


def relative_sizes(exponents: Sequence[int]) -> list[float]:
    """Return γL* = 10^(k/4) for each exponent k.

    Examples
    --------
    >>> relative_sizes([-4, 0])
    [0.1, 1.0]
    """
    return [10.0 ** (k / PER_DECADE) for k in exponents]


def search_grid(
    try_out: Callable[[tuple[int, ...]], Found],
    extension: Callable[[Found, tuple[int, ...]], tuple[int, ...]],
    join: Callable[[Found, Found], Found],
) -> Found:
    """Try the grid, then one exponent more at each edge where ``extension`` asks for it.

    Parameters
    ----------
    try_out
        Tries the step sizes of some exponents.
    extension
        Returns the exponents to try next, from everything found and the exponents that were tried
        last; none ends the search.
    join
        Puts together what two calls of ``try_out`` found.

    Examples
    --------
    >>> def up_to_five(found, last):
    ...     return (found[-1] + 1,) if found[-1] < 5 else ()
    >>> search_grid(lambda k: k, up_to_five, lambda a, b: a + b)[-3:]
    (3, 4, 5)
    """
    last = GRID
    found = try_out(GRID)
    for _ in range(MOST_EXTENSIONS):
        last = extension(found, last)
        if not last:
            break
        found = join(found, try_out(last))
    return found


def mean_values(
    network: Network,
    problem: Problem,
    design: Walk,
    step_sizes: Floats,
    ranking: Ranking,
    *,
    measure_loss: str | int = "auto",
    **options: Any,
) -> Floats:
    """Return, for each step size, the mean over tuning walks of what methods are ranked by.

    The shape is (step sizes, checkpoints), or (step sizes, 1) for a metric, which is known at the
    end only. ``options`` are those of `levywalk.engine.run_step_sizes`.
    """
    by_distance = ranking.name == Criterion.DISTANCE2 or not ranking.is_criterion
    trace = run_step_sizes(
        network,
        problem,
        design,
        step_sizes,
        measure_loss=None if by_distance else measure_loss,
        **options,
    )
    values = ranking.values(trace)
    values = values.reshape(len(step_sizes), -1, values.shape[1])
    return np.array([mean_over_walks(of_size) for of_size in values])


def tune_step_size(
    network: Network,
    problem: Problem,
    design: Walk,
    largest: float,
    ranking: Ranking,
    states: StateFolder | None = None,
    *,
    steps: int,
    record_every: Any,
    **options: Any,
) -> tuple[Trial, ...]:
    """Return all step sizes that were tried, in increasing order: the grid, extended while its best
    is at an edge.
    """
    step = checkpoints_of(steps, record_every)

    def try_out(exponents: tuple[int, ...]) -> tuple[Trial, ...]:
        relative = relative_sizes(exponents)
        means = mean_values(
            network,
            problem,
            design,
            np.array(relative) / largest,
            ranking,
            steps=steps,
            record_every=record_every,
            resume=states.file(design.name, f"tuning{exponents[0]:+d}") if states else None,
            **options,
        )
        return tuple(
            Trial(size, size / largest, _steps(step, mean, ranking), float(mean[-1]))
            for size, mean in zip(relative, means, strict=True)
        )

    edges = [GRID[0], GRID[-1]]

    def extension(trials: tuple[Trial, ...], _: tuple[int, ...]) -> tuple[int, ...]:
        winner = best(trials)
        for place, (end, outwards) in enumerate(((0, -1), (-1, 1))):
            if winner is trials[end] and math.isfinite(winner.final_error):
                edges[place] += outwards
                return (edges[place],)
        return ()

    def join(a: tuple[Trial, ...], b: tuple[Trial, ...]) -> tuple[Trial, ...]:
        return tuple(sorted(a + b, key=lambda trial: trial.relative))

    return search_grid(try_out, extension, join)


def _steps(step: Ints, mean: Floats, ranking: Ranking) -> float:
    if ranking.accuracy is None:
        return math.inf
    return float(settled_at(step, mean[None], ranking.accuracy)[0])


def best(trials: tuple[Trial, ...]) -> Trial:
    """Return the trial with the fewest steps to the accuracy; among equals, the one with the least
    final error.

    Examples
    --------
    >>> best((Trial(0.1, 1.0, 500.0, 0.02), Trial(0.2, 2.0, 300.0, 0.04))).step_size
    2.0
    """
    return min(trials, key=lambda trial: (trial.steps_to, trial.final_error))
