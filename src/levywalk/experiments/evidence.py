"""The walks and the theory that claims and figures ask for: each is run once, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from levywalk.arrays import Floats
from levywalk.experiments import paper
from levywalk.experiments.judge import Point, Rule
from levywalk.experiments.paper import STARTS, Effort, Scene
from levywalk.experiments.tuned import Report, Runner, Tuned, ratio, report, tune

TWO = 2  # important nodes of the secondary data


@dataclass
class Evidence:
    """Runs what a claim asks for, once."""

    effort: Effort
    runner: Runner
    _tuned: dict[Any, Tuned] = field(default_factory=dict)
    _reports: dict[Any, Report] = field(default_factory=dict)

    def tuned(self, scene: Scene, design: Mapping[str, Any]) -> Tuned:
        """Return what tuning found for a design."""
        key = (scene.name, repr(sorted(design.items())))
        if key not in self._tuned:
            self._tuned[key] = tune(scene, design, self.effort, self.runner)
        return self._tuned[key]

    def relative(self, scene: Scene, design: Mapping[str, Any]) -> list[float]:
        """Return the tuned γL* for each accuracy."""
        return [self.tuned(scene, design).relative(accuracy) for accuracy in self.effort.accuracies]

    def walks(
        self, scene: Scene, design: Mapping[str, Any], start: str = "uniform", important: int | None = None
    ) -> Report:
        """Return the reported walks of a design at its tuned step sizes."""
        key = (scene.name, repr(sorted(design.items())), start, important)
        if key not in self._reports:
            sizes = self.relative(scene, design)
            self._reports[key] = report(
                scene, design, self.effort, sizes, self.runner, start=start, important=important
            )
        return self._reports[key]

    def steps(self, scene: Scene, method: str, accuracy: float, start: str, important: int | None) -> Floats:
        """Return the steps that a method needs, by instance, at the step size tuned for this accuracy."""
        walks = self.walks(scene, paper.METHODS[method], start, important)
        return walks.steps_to(accuracy, self.effort.accuracies.index(accuracy))

    def compared(
        self, scene: Scene, a: str, b: str, rule: Rule, starts: Sequence[str] = STARTS, secondary: bool = True
    ) -> Iterator[Point]:
        """Yield T(a)/T(b) at every accuracy and start; with two important nodes as secondary points."""
        kinds: list[int | None] = [None]
        if secondary and scene.problem["data"] == "heterogeneous":
            kinds.append(TWO)
        for important in kinds:
            for start in starts:
                for accuracy in self.effort.accuracies:
                    found = ratio(
                        self.steps(scene, a, accuracy, start, important),
                        self.steps(scene, b, accuracy, start, important),
                    )
                    where = f"{a}/{b} on {scene.name} to {accuracy:g}, {start} start"
                    where += ", two important nodes" if important else ""
                    yield Point(where, found, rule(found), primary=important is None)

    def theory(self, scene: Scene, question: str, design: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return what theory answers about a design on each reported instance."""
        asked = [paper.instance(scene, seed) | {"design": dict(design), "ask": question} for seed in self.effort.seeds]
        return [numbers for _, numbers in self.runner(asked)]
