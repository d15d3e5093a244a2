"""Tune step sizes on instances that are not reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.experiments.tuning import (
    DRAWS,
    MOST,
    Score,
    four_fifths_quantile,
    relative_sizes,
    search_step_sizes,
)
from levywalk.reproduction.paper import Effort, Scene, Section, tuning
from levywalk.trace.statistics import OtherChoices, settled_at

Outcome = tuple[dict[str, AnyArray], dict[str, Any]]
Runner = Callable[[Sequence[Mapping[str, Any]]], list[Outcome]]


@dataclass(frozen=True, eq=False)
class TunedStepSizes:
    """The result of tuning: for each exponent k of γL* = 10^(k/16), the error of each tuning
    instance, the mean over its walks, at each checkpoint.

    Examples
    --------
    >>> step = np.array([0, 300, 400, 500])
    >>> slow, fast = np.array([[1.0, 0.9, 0.5, 0.1]]), np.array([[1.0, 0.1, 0.1, 0.1]])
    >>> tuned = TunedStepSizes(step, {-1: slow, 0: fast})
    >>> tuned.best(0.2), tuned.score(0.2), tuned.relative(0.2)
    (0, (300.0, 0.1), 1.0)
    """

    step: Ints
    errors: Mapping[int, Floats]  # exponent -> (instances, checkpoints)

    def steps(self, accuracy: float, exponent: int) -> Floats:
        """Return the steps to an accuracy, by instance."""
        return settled_at(self.step, self.errors[exponent], accuracy)

    def best(self, accuracy: float) -> int:
        """Return the exponent of the best step size: the fewest steps that suffice on four of five
        instances, then the least error at the end.
        """
        return best_of({k: self._score(accuracy, k) for k in self.errors})

    def score(self, accuracy: float) -> Score:
        """Return the steps that suffice on four of five instances at the best step size, and the
        error at the end that four of five do not exceed.
        """
        return self._score(accuracy, self.best(accuracy))

    def relative(self, accuracy: float) -> float:
        """Return the best γL*."""
        return relative_sizes([self.best(accuracy)])[0]

    def other_choices(self, accuracy: float) -> OtherChoices:
        """Return how the steps would change if other tuning instances chose (bootstrap).

        In each draw of instances the rule chooses again. The factor is the median, over the drawn
        instances on which both settle, of the steps there over those at the best step size. It is
        taken on the same draw because a few lucky instances would choose a step size that fails on
        the others, which says something about few instances and nothing about the method.
        """
        steps = {k: self.steps(accuracy, k) for k in self.errors}
        best = steps[self.best(accuracy)]
        factors = np.ones(DRAWS)
        for draw, (i, chosen) in enumerate(zip(self._drawn(), self.choices(accuracy), strict=True)):
            both = i[np.isfinite(steps[chosen][i]) & np.isfinite(best[i]) & (best[i] > 0.0)]
            if len(both):
                factors[draw] = np.median(steps[chosen][both] / best[both])
        return OtherChoices(factors, np.full(DRAWS, 1.0 / DRAWS))

    def choices(self, accuracy: float) -> list[int]:
        """Return the exponent that the rule chooses in each bootstrap draw of the instances."""
        drawn, exponents = self._drawn(), list(self.errors)
        steps = np.array([_most_of(self.steps(accuracy, k)[drawn]) for k in exponents])
        ends = np.array([_most_of(self.errors[k][:, -1][drawn]) for k in exponents])
        chosen = np.where(steps == steps.min(axis=0), ends, np.inf).argmin(axis=0)
        return [exponents[i] for i in chosen]

    def _drawn(self) -> Ints:
        count = len(next(iter(self.errors.values())))
        return generator(0, Domain.BOOTSTRAP).integers(0, count, (DRAWS, count))

    def _score(self, accuracy: float, exponent: int) -> Score:
        return four_fifths_quantile(self.steps(accuracy, exponent)), four_fifths_quantile(
            self.errors[exponent][:, -1]
        )


def _most_of(values: Floats) -> Floats:
    """Return what four of five values of each row do not exceed."""
    return np.asarray(np.quantile(values, MOST, axis=1, method="inverted_cdf"))


@dataclass(frozen=True)
class BestMix:
    """The best λ of MixedRW: its value, the 95 % interval over tuning instances, and how the steps
    would change with other tuning instances, which may choose another λ and another step size.
    """

    mix: float
    low: float
    high: float
    others: OtherChoices


def best_mix(tuned: Mapping[float, TunedStepSizes], accuracy: float) -> BestMix:
    """Choose λ and the step size together, by the rule of tuning, and again in bootstrap draws.

    Examples
    --------
    >>> step = np.array([0, 300, 400, 500])
    >>> slow, fast = np.array([[1.0, 0.9, 0.5, 0.1]]), np.array([[1.0, 0.1, 0.1, 0.1]])
    >>> tuned = {0.3: TunedStepSizes(step, {0: slow}), 0.9: TunedStepSizes(step, {0: fast})}
    >>> found = best_mix(tuned, 0.2)
    >>> found.mix, found.low, found.high
    (0.9, 0.9, 0.9)
    """
    together = [(mix, exponent) for mix, found in tuned.items() for exponent in found.errors]
    errors = {i: tuned[mix].errors[k] for i, (mix, k) in enumerate(together)}
    both = TunedStepSizes(next(iter(tuned.values())).step, errors)
    chosen = [together[i][0] for i in both.choices(accuracy)]
    low, high = np.quantile(chosen, [0.025, 0.975], method="inverted_cdf")
    mix = together[both.best(accuracy)][0]
    return BestMix(mix, min(float(low), mix), max(float(high), mix), both.other_choices(accuracy))


def best_of(scores: Mapping[int, Score]) -> int:
    """Return the exponent with the least score: by steps, then by the error at the end.

    Examples
    --------
    >>> best_of({-8: (np.inf, 0.2), -4: (500.0, 0.1), 0: (500.0, 0.05)})
    0
    """
    return min(scores, key=lambda exponent: scores[exponent])


def tune(scene: Scene, design: Section, effort: Effort, runner: Runner) -> TunedStepSizes:
    """Tune a design's step size for all accuracies, by the rule and the search that `compare` has
    too.
    """
    step: list[Ints] = []

    def try_out(exponents: tuple[int, ...]) -> dict[int, Floats]:
        outcomes = runner(list(tuning(scene, design, effort, exponents)))
        step[:] = [outcomes[0][0]["step"]]
        errors = np.array([arrays["distance"] for arrays, _ in outcomes])
        return {k: errors[:, i] for i, k in enumerate(exponents)}

    def winners(tried: Mapping[int, Floats]) -> set[int]:
        tuned = TunedStepSizes(step[0], tried)
        return {tuned.best(accuracy) for accuracy in effort.accuracies}

    def diverged(errors: Floats) -> bool:
        return not np.isfinite(four_fifths_quantile(errors[:, -1]))

    found = search_step_sizes(try_out, winners, diverged)
    return TunedStepSizes(step[0], found)
