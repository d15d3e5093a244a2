"""Tune step sizes on instances that are not reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.experiments.tuning import relative_sizes, search_grid
from levywalk.reproduction.paper import Effort, Scene, Section, tuning
from levywalk.trace.statistics import settled_at

Outcome = tuple[dict[str, AnyArray], dict[str, Any]]
Runner = Callable[[Sequence[Mapping[str, Any]]], list[Outcome]]


@dataclass(frozen=True)
class TunedStepSizes:
    """The result of tuning: for each exponent k of γL* = 10^(k/4), the steps to each accuracy by
    instance.
    """

    exponents: tuple[int, ...]
    steps: Mapping[float, Floats]  # accuracy -> (exponents, instances)
    final: Floats  # (exponents, instances): the error at the end

    def best(self, accuracy: float) -> int:
        """Return the index of the best step size: the fewest steps that suffice on most instances,
        then the least error.

        Most means four of five, not half: near its noise floor a walk can rise above the accuracy
        again.

        Examples
        --------
        >>> tuned = TunedStepSizes(
        ...     (-1, 0), {0.1: np.array([[500.0, np.inf], [300.0, 400.0]])}, np.ones((2, 2))
        ... )
        >>> tuned.exponents[tuned.best(0.1)]
        0
        """
        order = [
            (most(self.steps[accuracy][i]), float(np.median(self.final[i])))
            for i in range(len(self.exponents))
        ]
        return min(range(len(order)), key=lambda i: order[i])

    def relative(self, accuracy: float) -> float:
        """Return the best γL*."""
        return relative_sizes([self.exponents[self.best(accuracy)]])[0]


def most(values: Floats) -> float:
    """Return the least value that four of five values do not exceed; infinite if more than a fifth
    are.

    Examples
    --------
    >>> most(np.array([1.0, 2.0, 3.0, 4.0, np.inf]))
    4.0
    """
    return float(np.quantile(values, 0.8, method="inverted_cdf"))


def tune(scene: Scene, design: Section, effort: Effort, runner: Runner) -> TunedStepSizes:
    """Tune a design's step size for all accuracies; extend the grid while a best value is at its
    edge.
    """

    def try_out(exponents: tuple[int, ...]) -> TunedStepSizes:
        return _tried(scene, design, effort, exponents, runner)

    def extension(found: TunedStepSizes, last: tuple[int, ...]) -> tuple[int, ...]:
        highest = found.exponents[-1]
        if last == (highest,) and not np.isfinite(np.median(found.final[-1])):
            return ()  # the last extension was beyond stability
        winners = {found.best(accuracy) for accuracy in effort.accuracies}
        below = (found.exponents[0] - 1,) if 0 in winners else ()
        above = (highest + 1,) if len(found.exponents) - 1 in winners else ()
        return below + above

    return search_grid(try_out, extension, _joined)


def _tried(
    scene: Scene, design: Section, effort: Effort, exponents: tuple[int, ...], runner: Runner
) -> TunedStepSizes:
    outcomes = runner(list(tuning(scene, design, effort, exponents)))
    steps = {
        accuracy: np.array(
            [settled_at(arrays["step"], arrays["distance"], accuracy) for arrays, _ in outcomes]
        ).T
        for accuracy in effort.accuracies
    }
    return TunedStepSizes(
        exponents, steps, np.array([arrays["distance"][:, -1] for arrays, _ in outcomes]).T
    )


def _joined(a: TunedStepSizes, b: TunedStepSizes) -> TunedStepSizes:
    order = np.argsort([*a.exponents, *b.exponents])
    return TunedStepSizes(
        tuple(sorted([*a.exponents, *b.exponents])),
        {
            accuracy: np.concatenate([a.steps[accuracy], b.steps[accuracy]])[order]
            for accuracy in a.steps
        },
        np.concatenate([a.final, b.final])[order],
    )
