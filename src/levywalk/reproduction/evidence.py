"""The walks and the theory that claims and figures need; each is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from levywalk.arrays import Floats
from levywalk.reproduction import paper
from levywalk.reproduction.paper import STARTS, Effort, Scene, Section
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.reproduction.tuning import Runner, TunedStepSizes, tune
from levywalk.reproduction.verdicts import ClaimPoint, Rule

TWO = 2  # important nodes of the secondary data


@dataclass
class Evidence:
    """Computes what claims and figures need, each only once."""

    effort: Effort
    runner: Runner
    _tuned: dict[Any, TunedStepSizes] = field(default_factory=dict)
    _reports: dict[Any, ReportedWalks] = field(default_factory=dict)

    def tuned(self, scene: Scene, design: Section) -> TunedStepSizes:
        """Return what tuning found for a design."""
        key = (scene.name, repr(sorted(design.items())))
        if key not in self._tuned:
            self._tuned[key] = tune(scene, design, self.effort, self.runner)
        return self._tuned[key]

    def relative(self, scene: Scene, design: Section) -> list[float]:
        """Return the tuned γL* for each accuracy."""
        return [self.tuned(scene, design).relative(accuracy) for accuracy in self.effort.accuracies]

    def walks(
        self, scene: Scene, design: Section, start: str = "uniform", important: int | None = None
    ) -> ReportedWalks:
        """Return the reported walks of a design at its tuned step sizes."""
        key = (scene.name, repr(sorted(design.items())), start, important)
        if key not in self._reports:
            sizes = self.relative(scene, design)
            self._reports[key] = report(
                scene, design, self.effort, sizes, self.runner, start=start, important=important
            )
        return self._reports[key]

    def steps(
        self,
        scene: Scene,
        design: Section,
        accuracy: float,
        start: str,
        important: int | None = None,
    ) -> Floats:
        """Return the steps that a design needs, by instance, at the step size tuned for this
        accuracy.
        """
        walks = self.walks(scene, design, start, important)
        return walks.steps_to(accuracy, self.effort.accuracies.index(accuracy))

    def beside(
        self,
        scene: Scene,
        a: Section,
        b: Section,
        accuracy: float,
        start: str,
        important: int | None = None,
    ) -> dict[str, Ratio]:
        """Compare two designs by other measures: excess loss, the median over walks, and transfers
        instead of steps.
        """
        size = self.effort.accuracies.index(accuracy)
        one, other = (self.walks(scene, design, start, important) for design in (a, b))
        found = {
            name: ratio(one.steps_to(accuracy, size, curve), other.steps_to(accuracy, size, curve))
            for name, curve in (("excess loss", "excess"), ("median", "median"))
        }
        return found | {
            "transfers": ratio(one.transfers_to(accuracy, size), other.transfers_to(accuracy, size))
        }

    def ratio(
        self,
        scene: Scene,
        a: Section,
        b: Section,
        accuracy: float,
        start: str,
        important: int | None = None,
    ) -> Ratio:
        """Return T(a)/T(b), each at its own step size."""
        one, other = (self.steps(scene, design, accuracy, start, important) for design in (a, b))
        return ratio(one, other)

    def compared(
        self,
        scene: Scene,
        a: str,
        b: str,
        rule: Rule,
        starts: Sequence[str] = STARTS,
        secondary: bool = True,
    ) -> Iterator[ClaimPoint]:
        """Yield T(a)/T(b) at every accuracy and start; instances with two important nodes are
        secondary points.
        """
        kinds: list[int | None] = [None]
        if secondary and scene.problem["data"] == "heterogeneous":
            kinds.append(TWO)
        designs = paper.METHODS[a], paper.METHODS[b]
        for important in kinds:
            for start in starts:
                for accuracy in self.effort.accuracies:
                    found = self.ratio(scene, *designs, accuracy, start, important)
                    beside = self.beside(scene, *designs, accuracy, start, important)
                    where = f"{a}/{b} on {scene.name} to {accuracy:g}, {start} start"
                    where += ", two important nodes" if important else ""
                    yield ClaimPoint(where, found, rule(found), important is None, beside)

    def theory(self, scene: Scene, question: str, design: Section) -> list[Mapping[str, Any]]:
        """Return what theory answers about a design on each reported instance."""
        asked = [
            paper.instance(scene, seed) | {"design": dict(design), "ask": question}
            for seed in self.effort.seeds
        ]
        return [numbers for _, numbers in self.runner(asked)]
