"""Tune step sizes on some instances, report on others: steps to an accuracy, by instance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.draws import Domain, generator
from levywalk.reproduction.paper import GRID, PER_DECADE, Effort, Scene, Section, reported, tuning
from levywalk.trace.statistics import settled_at

Outcome = tuple[dict[str, AnyArray], dict[str, Any]]
Runner = Callable[[Sequence[Mapping[str, Any]]], list[Outcome]]

_MOST_EXTENSIONS = 3 * PER_DECADE
RESAMPLES = 2000


@dataclass(frozen=True)
class Tuned:
    """What tuning found: for each exponent k of γL* = 10^(k/4), the steps to each accuracy by tuning instance."""

    exponents: tuple[int, ...]
    steps: Mapping[float, Floats]  # accuracy -> (exponents, instances)
    final: Floats  # (exponents, instances): the error at the end

    def best(self, accuracy: float) -> int:
        """Return the place of the winner: the fewest steps that suffice on most instances, then the least error.

        Most, not half: near its noise floor a walk may rise above the accuracy again, and does on some instances.

        Examples
        --------
        >>> tuned = Tuned((-1, 0), {0.1: np.array([[500.0, np.inf], [300.0, 400.0]])}, np.ones((2, 2)))
        >>> tuned.exponents[tuned.best(0.1)]
        0
        """
        order = [(most(self.steps[accuracy][i]), float(np.median(self.final[i]))) for i in range(len(self.exponents))]
        return min(range(len(order)), key=lambda i: order[i])

    def relative(self, accuracy: float) -> float:
        """Return the winning γL*."""
        return float(10.0 ** (self.exponents[self.best(accuracy)] / PER_DECADE))


def most(values: Floats) -> float:
    """Return what four of five values do not exceed: an order statistic, infinite if more than a fifth are.

    Examples
    --------
    >>> most(np.array([1.0, 2.0, 3.0, 4.0, np.inf]))
    4.0
    """
    return float(np.quantile(values, 0.8, method="inverted_cdf"))


def tune(scene: Scene, design: Section, effort: Effort, runner: Runner) -> Tuned:
    """Tune a design's step size for all accuracies; extend the grid while a winner is at its edge."""
    exponents = GRID
    found = _tried(scene, design, effort, exponents, runner)
    for _ in range(_MOST_EXTENSIONS):
        winners = {found.best(accuracy) for accuracy in effort.accuracies}
        low, high = 0 in winners, len(found.exponents) - 1 in winners
        if not (low or high):
            break
        more = ((found.exponents[0] - 1,) if low else ()) + ((found.exponents[-1] + 1,) if high else ())
        fresh = _tried(scene, design, effort, more, runner)
        if high and not low and not np.isfinite(np.median(fresh.final[-1])):
            found = _joined(found, fresh)
            break  # beyond stability
        found = _joined(found, fresh)
    return found


def _tried(scene: Scene, design: Section, effort: Effort, exponents: tuple[int, ...], runner: Runner) -> Tuned:
    outcomes = runner(list(tuning(scene, design, effort, exponents)))
    steps = {
        accuracy: np.array([settled_at(arrays["step"], arrays["distance"], accuracy) for arrays, _ in outcomes]).T
        for accuracy in effort.accuracies
    }
    return Tuned(exponents, steps, np.array([arrays["distance"][:, -1] for arrays, _ in outcomes]).T)


def _joined(a: Tuned, b: Tuned) -> Tuned:
    order = np.argsort([*a.exponents, *b.exponents])
    return Tuned(
        tuple(sorted([*a.exponents, *b.exponents])),
        {accuracy: np.concatenate([a.steps[accuracy], b.steps[accuracy]])[order] for accuracy in a.steps},
        np.concatenate([a.final, b.final])[order],
    )


@dataclass(frozen=True)
class Report:
    """The reported walks of one design: curves (instances, step sizes, checkpoints)."""

    relative: tuple[float, ...]
    step: AnyArray
    curves: Mapping[str, Floats]
    numbers: tuple[Mapping[str, Any], ...]  # by instance

    def steps_to(self, accuracy: float, size: int, error: str = "distance") -> Floats:
        """Return the steps to an accuracy by instance, at one of the step sizes."""
        return settled_at(self.step, self.curves[error][:, size], accuracy)

    def transfers_to(self, accuracy: float, size: int) -> Floats:
        """Return the messages between two nodes until then, by instance: the mean over walks."""
        steps = self.steps_to(accuracy, size)
        column = np.searchsorted(self.step, np.minimum(steps, self.step[-1]))
        sent = self.curves["transfers"][np.arange(len(column)), size, column]
        return np.where(np.isfinite(steps), sent, np.inf)

    def switched_at(self) -> int:
        """Return when most walks had switched, in the median over instances, at the first step size."""
        when = [float(numbers["switched_at"][0]) for numbers in self.numbers]
        return int(np.quantile(when, 0.5, method="inverted_cdf"))

    def floor(self, size: int) -> Floats:
        """Return the error at the end, the mean over the last tenth of the steps, by instance."""
        late = self.step >= 0.9 * self.step[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.curves["distance"][:, size][:, late].mean(axis=1))


def report(
    scene: Scene,
    design: Section,
    effort: Effort,
    relative: Sequence[float],
    runner: Runner,
    *,
    start: str = "uniform",
    important: int | None = None,
    **more: Any,
) -> Report:
    """Run the reported instances of a design at some relative step sizes."""
    descriptions = [d | more for d in reported(scene, design, effort, list(relative), start, important)]
    outcomes = runner(descriptions)
    names = [name for name in outcomes[0][0] if name != "step"]
    return Report(
        tuple(relative),
        outcomes[0][0]["step"],
        {name: np.array([arrays[name] for arrays, _ in outcomes]) for name in names},
        tuple(numbers for _, numbers in outcomes),
    )


@dataclass(frozen=True)
class Ratio:
    """The median over instances of a ratio, its 95 % bootstrap interval over instances, and how many are undefined."""

    effect: float
    low: float
    high: float
    undefined: int
    of: int


def ratio(above: Floats, below: Floats, seed: int = 0) -> Ratio:
    """Compare two costs instance by instance; where both are infinite, nothing can be said.

    Examples
    --------
    >>> ratio(np.array([2.0, 4.0, np.inf, np.inf]), np.array([1.0, 2.0, 5.0, np.inf])).effect
    2.0
    """
    known = ~(np.isinf(above) & np.isinf(below))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.sort(above[known] / below[known])
    undefined = int((~known).sum())
    if not len(values):
        return Ratio(math.nan, math.nan, math.nan, undefined, len(above))
    rng = generator(seed, Domain.BOOTSTRAP)
    # An order statistic, since interpolation between a number and infinity is neither.
    drawn = np.sort(values[rng.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)[:, (len(values) - 1) // 2]
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return Ratio(float(values[(len(values) - 1) // 2]), float(low), float(high), undefined, len(above))
