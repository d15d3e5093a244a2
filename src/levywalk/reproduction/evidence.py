"""The walks and the theory that claims and figures need; each is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.reproduction import paper
from levywalk.reproduction.paper import Effort, Scene, Section
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.reproduction.tuning import BestMix, Runner, TunedStepSizes, best_mix, tune
from levywalk.reproduction.verdicts import Cell, Column, Rule
from levywalk.trace.statistics import OtherChoices


@dataclass
class Evidence:
    """Computes what claims and figures need, each only once."""

    effort: Effort
    runner: Runner
    _step_sizes: dict[Any, TunedStepSizes] = field(default_factory=dict)
    _others: dict[Any, OtherChoices] = field(default_factory=dict)
    _reports: dict[Any, ReportedWalks] = field(default_factory=dict)
    _mixed: dict[Any, BestMix] = field(default_factory=dict)

    def tuned_step_sizes(self, scene: Scene, design: Section) -> TunedStepSizes:
        """Return what tuning found for a design."""
        key = (scene.name, repr(sorted(design.items())))
        if key not in self._step_sizes:
            self._step_sizes[key] = tune(scene, design, self.effort, self.runner)
        return self._step_sizes[key]

    def other_choices(self, scene: Scene, design: Section, accuracy: float) -> OtherChoices:
        """Return which step sizes other tuning instances would have chosen, and the steps there."""
        key = (scene.name, repr(sorted(design.items())), accuracy)
        if key not in self._others:
            self._others[key] = self.tuned_step_sizes(scene, design).other_choices(accuracy)
        return self._others[key]

    def relative(self, scene: Scene, design: Section) -> list[float]:
        """Return the tuned γL* for each accuracy."""
        return [
            self.tuned_step_sizes(scene, design).relative(accuracy)
            for accuracy in self.effort.accuracies
        ]

    def walks(self, scene: Scene, design: Section, start: str = "uniform") -> ReportedWalks:
        """Return the reported walks of a design at its tuned step sizes."""
        key = (scene.name, repr(sorted(design.items())), start)
        if key not in self._reports:
            sizes = self.relative(scene, design)
            self._reports[key] = report(scene, design, self.effort, sizes, self.runner, start=start)
        return self._reports[key]

    def steps(self, scene: Scene, design: Section, accuracy: float) -> Floats:
        """Return the steps that a design needs, by instance, at the step size tuned for this
        accuracy.
        """
        walks = self.walks(scene, design)
        return walks.steps_to(accuracy, self.effort.accuracies.index(accuracy))

    def beside(
        self, scene: Scene, a: Section, b: Section, accuracy: float, level: float
    ) -> dict[str, Ratio]:
        """Compare two designs by other measures: excess loss, the median over walks, and transfers
        instead of steps.
        """
        size = self.effort.accuracies.index(accuracy)
        one, other = (self.walks(scene, design) for design in (a, b))
        costs = {
            name: (one.steps_to(accuracy, size, curve), other.steps_to(accuracy, size, curve))
            for name, curve in (("excess loss", "excess"), ("median", "median"))
        } | {"transfers": (one.transfers_to(accuracy, size), other.transfers_to(accuracy, size))}
        others = self.other_choices(scene, a, accuracy), self.other_choices(scene, b, accuracy)
        return {name: ratio(*both, others=others, level=level) for name, both in costs.items()}

    def ratio(self, scene: Scene, a: Section, b: Section, accuracy: float, level: float) -> Ratio:
        """Return T(a)/T(b), each at its own step size; the interval is over reported and over
        tuning instances.
        """
        one, other = (self.steps(scene, design, accuracy) for design in (a, b))
        others = self.other_choices(scene, a, accuracy), self.other_choices(scene, b, accuracy)
        return ratio(one, other, others=others, level=level)

    def price(self, scene: Scene, design: Section, accuracy: float, level: float) -> Ratio:
        """Return what one relative step size for all instances costs a design: on the tuning
        instances, the steps at the chosen one over those at the instance's own best.
        """
        tuned = self.tuned_step_sizes(scene, design)
        own = np.min([tuned.steps(accuracy, k) for k in tuned.errors], axis=0)
        return ratio(tuned.steps(accuracy, tuned.best(accuracy)), own, level=level)

    def prices(self, graph: str, methods: Sequence[str]) -> Iterator[Cell]:
        """Yield, to be shown, what one step size for all instances costs each method: a comparison
        is fair if it costs them about the same.
        """
        for method in methods:
            for snr in self.effort.snrs:
                for accuracy in self.effort.accuracies:
                    ask = partial(
                        self.price, paper.SCENES[graph].at(snr), paper.METHODS[method], accuracy
                    )
                    row = f"price of one step size, {method} on {graph}"
                    yield Cell(row, column_of(snr, accuracy), ask, None)

    def compared(self, graph: str, a: str, b: str, rule: Rule) -> Iterator[Cell]:
        """Yield the cells of T(a)/T(b) on a graph: every ratio of signal to noise and accuracy."""
        designs = paper.METHODS[a], paper.METHODS[b]
        for snr in self.effort.snrs:
            scene = paper.SCENES[graph].at(snr)
            for accuracy in self.effort.accuracies:
                yield Cell(
                    f"{a}/{b} on {graph}",
                    column_of(snr, accuracy),
                    partial(self.ratio, scene, *designs, accuracy),
                    rule,
                    partial(self.beside, scene, *designs, accuracy),
                )

    def mixed(self, scene: Scene, accuracy: float) -> BestMix:
        """Return the λ of MixedRW with which the fewest steps suffice on four of five tuning
        instances, and what other tuning instances would have chosen.
        """
        key = (scene.name, accuracy)
        if key not in self._mixed:
            tuned = {mix: self.tuned_step_sizes(scene, mixed_rw(mix)) for mix in self.effort.mixes}
            self._mixed[key] = best_mix(tuned, accuracy)
        return self._mixed[key]

    def theory(self, scene: Scene, question: str, design: Section) -> list[Mapping[str, Any]]:
        """Return what theory answers about a design on each reported instance."""
        asked = [
            paper.instance(scene, seed) | {"design": dict(design), "ask": question}
            for seed in self.effort.seeds
        ]
        return [numbers for _, numbers in self.runner(asked)]


def column_of(snr: float, accuracy: float | None = None) -> Column:
    """Return the column of a cell.

    Examples
    --------
    >>> column_of(33_000.0, 0.03)
    ('SNR 33,000', '3 %')
    """
    return f"SNR {snr:,.0f}", "" if accuracy is None else f"{100.0 * accuracy:g} %"


def mixed_rw(mix: float) -> Section:
    """Return the section of MixedRW."""
    return {"kind": "mixed_rw", "mix": mix}
