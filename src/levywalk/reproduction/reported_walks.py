"""The walks of the reported instances: their curves, by instance, and the steps that they
needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.reproduction.paper import Effort, Scene, Section, reported
from levywalk.reproduction.tuning import Runner
from levywalk.trace.statistics import settled_at


@dataclass(frozen=True)
class ReportedWalks:
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
        """Return when most walks had switched, in the median over instances, at the first step
        size.
        """
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
    **more: Any,
) -> ReportedWalks:
    """Run the reported instances of a design at some relative step sizes."""
    descriptions = [d | more for d in reported(scene, design, effort, list(relative), start)]
    outcomes = runner(descriptions)
    names = [name for name in outcomes[0][0] if name != "step"]
    return ReportedWalks(
        tuple(relative),
        outcomes[0][0]["step"],
        {name: np.array([arrays[name] for arrays, _ in outcomes]) for name in names},
        tuple(numbers for _, numbers in outcomes),
    )
