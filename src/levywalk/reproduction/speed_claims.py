"""The claims about speed: steps to an accuracy, at each ratio of signal to noise, for both readings
of p_J.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from levywalk.reproduction import paper
from levywalk.reproduction.evidence import Evidence, column_of, mixed_rw
from levywalk.reproduction.paper import (
    GRAPHS,
    IID,
    JUMPS,
    LABELS,
    MHLJ,
    MHLJ_CODE,
    READINGS,
    SCENES,
    SNRS,
    UNIF,
    WEIGHT,
    Scene,
    Section,
)
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.verdicts import (
    Cell,
    Claim,
    Rule,
    above,
    at_least,
    at_most,
    below,
    level_of,
    verdict,
    within,
)


def claim_of(evidence: Evidence, number: int, text: str, cells: Sequence[Cell]) -> Claim:
    """Judge all cells of a claim, at the level that their number asks for."""
    level = level_of(sum(cell.rule is not None for cell in cells), evidence.effort.corrected)
    points = [cell.claim_point(level) for cell in cells]
    return Claim(number, LABELS[number - 1], text, verdict(points), tuple(points), level)


def claim_1(evidence: Evidence) -> Claim:
    """[homo]: on homogeneous data the methods are alike."""
    pairs = [(WEIGHT, UNIF), *((method, other) for method in READINGS for other in (UNIF, WEIGHT))]
    cells = [
        cell
        for a, b in pairs
        for cell in evidence.compared("er-homogeneous", a, b, within(0.8, 1.25))
    ]
    cells += evidence.prices("er-homogeneous", (UNIF, WEIGHT, *READINGS))
    text = (
        "“The three algorithms perform similarly when the data are homogeneous” "
        "(similar: ratios within [0.8, 1.25], our threshold)"
    )
    return claim_of(evidence, 1, text, cells)


def claim_2(evidence: Evidence) -> Claim:
    """[hete]: on Erdős-Rényi with heterogeneous data weighting is faster, and jumps are faster
    still.
    """
    pairs = [(WEIGHT, UNIF), *((method, other) for method in READINGS for other in (WEIGHT, UNIF))]
    cells = [cell for a, b in pairs for cell in evidence.compared("er", a, b, below(1.0))]
    cells += evidence.prices("er", (UNIF, WEIGHT, *READINGS))
    text = (
        "“When the data are heterogeneous, WeightRW beats UnifRW, and MHLJ is even faster”, "
        "on Erdős–Rényi"
    )
    return claim_of(evidence, 2, text, cells)


def claim_3(evidence: Evidence) -> Claim:
    """[simentrap]: on the ring weighting is slower than uniform sampling and than i.i.d. sampling,
    and jumps are faster than both walks.
    """
    text = (
        "On the ring “the convergence rate of … weighted sampling is dramatically slower” "
        "(than UnifRW, and than i.i.d. weighted sampling); MHLJ “speeds up convergence compared "
        "with uniform sampling and weighted sampling”"
    )
    return claim_of(evidence, 3, text, list(_entrapped(evidence, "ring")))


def claim_4(evidence: Evidence) -> Claim:
    """[grid]: entrapment, and jumps that help."""
    return _entrapment(evidence, 4, "grid", "the 2D grid")


def claim_5(evidence: Evidence) -> Claim:
    """[wsju]: entrapment, and jumps that help."""
    return _entrapment(evidence, 5, "ws", "Watts–Strogatz")


def _entrapment(evidence: Evidence, number: int, graph: str, name: str) -> Claim:
    def dwell(level: float) -> Ratio:
        numbers = evidence.theory(SCENES[graph], "entrapment", paper.METHODS[WEIGHT])
        own, iid = (np.array([n[key] for n in numbers]) for key in ("dwell", "iid_dwell"))
        return ratio(own, iid, level=level)

    trapped = Cell(f"dwell against i.i.d. dwell on {graph}", ("", ""), dwell, at_least(10.0))
    text = (
        f"On {name} “the entrapment problem occurs” (WeightRW dwells ten times as long as i.i.d. "
        "sampling, our threshold, and is slower than it and than UnifRW), “and MHLJ significantly "
        "speeds up convergence” (than WeightRW and than UnifRW)"
    )
    return claim_of(evidence, number, text, [trapped, *_entrapped(evidence, graph)])


def _entrapped(evidence: Evidence, graph: str) -> Iterator[Cell]:
    yield from evidence.compared(graph, WEIGHT, UNIF, above(1.0))
    yield from evidence.compared(graph, WEIGHT, IID, above(1.0))
    for method in READINGS:
        yield from evidence.compared(graph, method, WEIGHT, below(1.0))
        yield from evidence.compared(graph, method, UNIF, below(1.0))
    yield from evidence.prices(graph, (UNIF, WEIGHT, *READINGS))


def claim_8(evidence: Evidence) -> Claim:
    """[fig:mixeddist]: a mixed target is a compromise that jumps beat."""
    cells: list[Cell] = []
    others: list[tuple[str, Rule]] = [
        (WEIGHT, below(1.0)),
        (UNIF, below(1.0)),
        (MHLJ, above(1.0)),
        (MHLJ_CODE, above(1.0)),
    ]
    columns = [
        (snr, accuracy) for snr in evidence.effort.snrs for accuracy in evidence.effort.accuracies
    ]
    cells += [
        Cell(
            f"MixedRW(best λ)/{name} on ring",
            column_of(snr, accuracy),
            partial(_mixed, evidence, SCENES["ring"].at(snr), paper.METHODS[name], accuracy),
            rule,
        )
        for name, rule in others
        for snr, accuracy in columns
    ]
    elsewhere = [paper.published_scene(graph) for graph in ("ring-mild", "er", "grid", "ws")]
    cells += [
        Cell(
            f"the ring's best λ/the best λ on {scene.title}",
            ("", ""),
            partial(_moved, evidence, scene),
            above(1.0),
        )
        for scene in elsewhere
    ]
    tuned = [(SCENES["ring"].at(snr), accuracy) for snr, accuracy in columns]
    tuned += [(scene, evidence.effort.accuracies[0]) for scene in elsewhere]
    cells += [
        Cell(
            f"best λ on {scene.title}",
            ("", f"{100 * accuracy:g} %"),
            partial(_best_mix, evidence, scene, accuracy),
            None,
        )
        for scene, accuracy in tuned
    ]
    text = (
        "“The mixed distribution can also significantly improve the convergence rate, but it is "
        "still slower than MHLJ”; “the best λ depends largely on the dataset and the graph "
        f"structure” (λ of {', '.join(f'{mix:g}' for mix in evidence.effort.mixes)})"
    )
    return claim_of(evidence, 8, text, cells)


def _mixed(
    evidence: Evidence, scene: Scene, design: Section, accuracy: float, level: float
) -> Ratio:
    """Return T(MixedRW at its best λ)/T(design); the interval covers the choice of λ too."""
    best = evidence.mixed(scene, accuracy)
    own, other = (evidence.steps(scene, a, accuracy) for a in (mixed_rw(best.mix), design))
    others = best.others, evidence.other_choices(scene, design, accuracy)
    return ratio(own, other, others=others, level=level)


def _moved(evidence: Evidence, scene: Scene, level: float) -> Ratio:
    """Compare the λ that is best on the ring with the one that is best on another scene, there."""
    accuracy = evidence.effort.accuracies[0]
    ours = evidence.mixed(paper.published_scene("ring"), accuracy)
    best = evidence.mixed(scene, accuracy)
    return evidence.ratio(scene, mixed_rw(ours.mix), mixed_rw(best.mix), accuracy, level)


def _best_mix(evidence: Evidence, scene: Scene, accuracy: float, level: float) -> Ratio:
    best = evidence.mixed(scene, accuracy)
    return Ratio(best.mix, best.low, best.high, 0, evidence.effort.tuning_instances)


def claim_13(evidence: Evidence) -> Claim:
    """[Erimp]: on Erdős-Rényi the walk recovers i.i.d. weighted sampling."""
    cells = [
        *evidence.compared("er", WEIGHT, IID, at_most(1.5)),
        *evidence.compared("er", WEIGHT, UNIF, below(1.0)),
    ]
    text = (
        "On Erdős–Rényi a walk shows “the speedup using weighted sampling” over UnifRW and is "
        "“comparable to the centralized weighted sampling except for the mixing factor” (at most "
        "1.5 times the steps of i.i.d. sampling, which is our threshold)"
    )
    return claim_of(evidence, 13, text, cells)


def claim_14(evidence: Evidence) -> Claim:
    """Our own question: is the Metropolis part needed at all?"""
    cells = [
        cell for graph in GRAPHS for cell in evidence.compared(graph, MHLJ_CODE, JUMPS, below(1.0))
    ]
    for graph in GRAPHS:
        for method in (MHLJ, MHLJ_CODE, JUMPS):
            cells += list(_occupation(evidence, graph, method))
    text = (
        "Our question, not the paper's: the Metropolis part of the walk is needed "
        "(MHLJ(0.9) is faster than jumps alone)"
    )
    return claim_of(evidence, 14, text, cells)


_NUMBERS = {
    "mass under the chain's law/under the target": "kept",
    "total variation between the two": "distance",
    "bias of jumps, relative squared": "bias",
}


def _occupation(evidence: Evidence, graph: str, method: str) -> Iterator[Cell]:
    """Yield how much of the weighted sampling is left under jumps, and the bias that they cause."""

    def number(name: str, level: float) -> Ratio:
        numbers: Any = evidence.theory(SCENES[graph].at(SNRS[0]), "occupation", method_of(method))
        values = np.array([n[name] for n in numbers])
        values = values[np.isfinite(values)]
        return ratio(values, np.ones(len(values)), level=level)

    for title, name in _NUMBERS.items():
        yield Cell(f"{method} on {graph}: {title}", ("", ""), partial(number, name), None)


def method_of(name: str) -> Section:
    """Return the section of a method."""
    return paper.METHODS[name]
