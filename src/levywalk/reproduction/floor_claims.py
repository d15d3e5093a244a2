"""The claims about the error that is left at the end, and what switching and rarer jumps change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from levywalk.arrays import Floats
from levywalk.point_answer import PointAnswer
from levywalk.reproduction import paper
from levywalk.reproduction.evidence import Evidence, column_of
from levywalk.reproduction.paper import (
    GRAPHS,
    READINGS,
    SCENES,
    SNRS,
    WEIGHT,
    Scene,
    Section,
)
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.reproduction.speed_claims import claim_of
from levywalk.reproduction.verdicts import (
    Cell,
    Claim,
    ClaimPoint,
    above,
    at_most,
    below,
    level_of,
    verdict,
)

GAP = 1.1  # an error gap: a floor more than a tenth above (ours)


def claim_6(evidence: Evidence) -> Claim:
    """[switch]: switching to uniform sampling lowers the floor and costs no speed."""
    cells: list[Cell] = []
    for method in READINGS:
        for graph in GRAPHS:
            for snr in evidence.effort.snrs:
                found = _Switched(evidence, SCENES[graph].at(snr), method)
                rows = {
                    f"floor, switching/{method} on {graph}": (found.floor, below(1.0)),
                    f"steps, switching/{method} on {graph}": (found.speed, at_most(1.1)),
                    f"floor, switching/{method} with the same drop on {graph}": (
                        found.control,
                        None,
                    ),
                }
                cells += [Cell(row, column_of(snr), ask, rule) for row, (ask, rule) in rows.items()]
    text = (
        "“Switching the sampling and updating strategy to uniform sampling eliminates the error "
        "gap without sacrificing convergence speed” (a lower floor; at most 1.1 times the steps, "
        "our threshold)"
    )
    return claim_of(evidence, 6, text, cells)


@dataclass(frozen=True)
class _Switched:
    """MHLJ, and MHLJ that switches, at the step size tuned for the first accuracy."""

    evidence: Evidence
    scene: Scene
    method: str

    @property
    def _design(self) -> Section:
        return paper.METHODS[self.method]

    @property
    def _sizes(self) -> list[float]:
        return self.evidence.relative(self.scene, self._design)[:1]

    def floor(self, level: float) -> Ratio:
        """Compare the errors at the end."""
        jumping = self.evidence.walks(self.scene, self._design)
        return ratio(self._switching().floor(0), jumping.floor(0), level=level)

    def speed(self, level: float) -> Ratio:
        """Compare the steps to the accuracy."""
        accuracy = self.evidence.effort.accuracies[0]
        jumping = self.evidence.walks(self.scene, self._design)
        one, other = (walks.steps_to(accuracy, 0) for walks in (self._switching(), jumping))
        return ratio(one, other, level=level)

    def control(self, level: float) -> Ratio:
        """Compare with MHLJ that takes the step size of the second phase from when most walks had
        switched, and does not switch.
        """
        switching = self._switching()
        evidence = self.evidence
        dropped = report(
            self.scene,
            self._design,
            evidence.effort,
            self._sizes,
            evidence.runner,
            drop_at=switching.switched_at(),
        )
        return ratio(switching.floor(0), dropped.floor(0), level=level)

    def _switching(self) -> ReportedWalks:
        evidence = self.evidence
        design = paper.switching(self.method)
        return report(self.scene, design, evidence.effort, self._sizes, evidence.runner)


def claim_7(evidence: Evidence) -> Claim:
    """[Decay]: decreasing p_jump does not recover the error gap, judged where there is one.

    At the floor everything is proportional to the noise, so the ratio of signal to noise does not
    matter; the smallest one is used, where the floor is reached soonest. There is something to
    recover where the floor of constant jumps lies above `GAP` times that of no jumps at the same
    step size, with its whole interval. Elsewhere the numbers are shown and judge nothing.
    """
    places = [
        (graph, size, method)
        for graph in GRAPHS
        for size in paper.DECAY_SIZES
        for method in READINGS
    ]
    count = len(places) * (1 + len(paper.decays(next(iter(READINGS)))))
    level = level_of(count, evidence.effort.corrected)
    points: list[ClaimPoint] = []
    for graph, size, method in places:
        floors = _floors(evidence, graph, size)
        row = f"{method} on {graph}, γL* = {size:g}"
        constant = Cell(
            row, ("constant p_J/no jumps", ""), partial(_over, floors, method), None
        ).claim_point(level)
        gap = above(GAP)(constant.ratio) == PointAnswer.YES
        points.append(constant)
        for design in paper.decays(method):
            schedule = design["schedule"]
            column = (
                "falling p_J/no jumps (timescale; power)",
                f"{schedule['timescale']:g}; {schedule['power']:g}",
            )
            rule = above(GAP) if gap else None
            key = str(sorted(design.items()))
            points.append(Cell(row, column, partial(_over, floors, key), rule).claim_point(level))
    text = (
        "“Gradually reduce the jump probability … this method doesn't recover the error gap”, "
        "judged where there is a gap (a floor more than a tenth above that of no jumps: our "
        "threshold)"
    )
    return Claim(7, paper.LABELS[6], text, verdict(points), tuple(points), level)


def _floors(evidence: Evidence, graph: str, size: float) -> Mapping[str, Floats]:
    """Return the errors at the end without jumps, with constant and with rarer ones."""
    scene = SCENES[graph].at(SNRS[0])
    effort = replace(evidence.effort, walks=min(evidence.effort.walks, paper.DECAY_WALKS))
    steps = paper.DECAY_STEPS // evidence.effort.shorter
    designs = {method: paper.METHODS[method] for method in (WEIGHT, *READINGS)}
    designs |= {
        str(sorted(design.items())): design
        for method in READINGS
        for design in paper.decays(method)
    }
    return {
        name: report(scene, design, effort, [size], evidence.runner, steps=steps).floor(0)
        for name, design in designs.items()
    }


def _over(floors: Mapping[str, Floats], name: str, level: float) -> Ratio:
    return ratio(floors[name], floors[WEIGHT], level=level)
