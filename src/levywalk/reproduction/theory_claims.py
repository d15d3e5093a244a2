"""The claims that do not depend on the ratio of signal to noise: communication, limits, spectral
gaps and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2

from levywalk.arrays import Floats
from levywalk.reproduction import paper
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.paper import GRAPHS, READINGS, SCENES, UNIF, WEIGHT, Section
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.speed_claims import claim_of
from levywalk.reproduction.verdicts import Cell, Claim, above, at_most, below, within

_ALONE = ("", "")


def claim_9(evidence: Evidence) -> Claim:
    """At most 1.1 hops per update, at both readings of p_J."""
    cells: list[Cell] = []
    for method in READINGS:
        for graph in GRAPHS:
            ask = partial(_hops, evidence, graph, method)
            cells.append(Cell(f"hops per update, {method} on {graph}", _ALONE, ask, at_most(1.1)))
    for method in READINGS:
        for graph in GRAPHS:
            ask = partial(_transfers, evidence, graph, method)
            cells.append(
                Cell(f"transfers per step, {method}/WeightRW on {graph}", _ALONE, ask, None)
            )
    text = (
        "“At most a 10 % increase in the average communication cost”: at most 1.1 hops per update"
    )
    return claim_of(evidence, 9, text, cells)


def _hops(evidence: Evidence, graph: str, method: str, level: float) -> Ratio:
    walks = evidence.walks(paper.published_scene(graph), paper.METHODS[method])
    steps = np.full(len(walks.numbers), float(walks.step[-1]))
    return ratio(walks.curves["hops"][:, 0, -1], steps, level=level)


def _transfers(evidence: Evidence, graph: str, method: str, level: float) -> Ratio:
    jumping, weighted = (
        evidence.walks(paper.published_scene(graph), paper.METHODS[name])
        for name in (method, WEIGHT)
    )
    one, other = (walks.curves["transfers"][:, 0, -1] for walks in (jumping, weighted))
    return ratio(one, other, level=level)


def claim_10(evidence: Evidence) -> Claim:
    """Jumps make the walk converge to another point, the one that ruling 15's recursion gives.

    A constant step size does so too, without jumps: WeightRW is shown beside.
    """
    cells: list[Cell] = []
    dim = paper.SMALL_DATA["dim"]
    least, largest = (float(chi2.ppf(q, dim)) / dim for q in (0.001, 0.999))
    for network in (paper.SMALL_RING, paper.SMALL_TREE):
        title = f"{network['family']} of {network['n']} nodes"
        for method in READINGS:
            rows = {
                "mean model to the limit, squared, in errors": (
                    1.0,
                    "to_limit",
                    within(least, largest),
                ),
                "mean model to the optimum, squared, in errors": (
                    1.0,
                    "to_optimum",
                    above(largest),
                ),
                "relative error at the end without noise": (0.0, "error", below(1e-9)),
            }
            for row, (noise, name, rule) in rows.items():
                ask = partial(_limit, evidence, method, network, noise, name)
                cells.append(Cell(f"{row}, {method}, {title}", _ALONE, ask, rule))
        ask = partial(_limit, evidence, WEIGHT, network, 1.0, "to_optimum")
        row = f"without jumps: mean model to the optimum, squared, in errors, {title}"
        cells.append(Cell(row, _ALONE, ask, None))
    text = "With jumps “the algorithm will converge to the wrong point”, unless there is no noise"
    return claim_of(evidence, 10, text, cells)


def _limit(
    evidence: Evidence, method: str, network: Section, noise: float, name: str, level: float
) -> Ratio:
    """Return a number's median over instances, with its interval."""
    problem = dict(paper.SMALL_DATA) | {"noise": noise}
    numbers = _asked(evidence, "limit", paper.METHODS[method], problem, network)
    values = np.array([found[name] for found in numbers])
    return ratio(values, np.ones(len(values)), level=level)


def _asked(
    evidence: Evidence,
    question: str,
    design: Section,
    problem: Section,
    network: Section = paper.SMALL_RING,
) -> list[Mapping[str, Any]]:
    """Return what theory answers about a design on small networks."""
    asked = [
        {
            "network": dict(network) | ({"seed": seed} if network is paper.SMALL_TREE else {}),
            "problem": dict(problem) | {"seed": seed},
            "design": dict(design),
            "ask": question,
        }
        for seed in evidence.effort.seeds
    ]
    return [numbers for _, numbers in evidence.runner(asked)]


def claim_11(evidence: Evidence) -> Claim:
    """Jumps raise the spectral gap on sparse graphs."""
    cells: list[Cell] = []
    for method in READINGS:
        for graph in ("ring", "grid", "ws"):
            for kind in ("right", "absolute", "singular"):
                for other in (WEIGHT, UNIF):
                    judged = kind == "right" and other == WEIGHT
                    cells.append(
                        Cell(
                            f"{kind} gap, {method}/{other} on {graph}",
                            _ALONE,
                            partial(_gap, evidence, graph, method, other, kind),
                            above(1.0) if judged else None,
                        )
                    )
    return claim_of(
        evidence, 11, "Jumps raise the spectral gap of weighted walks on sparse graphs", cells
    )


def _gap(evidence: Evidence, graph: str, method: str, other: str, kind: str, level: float) -> Ratio:
    def gaps(name: str) -> Floats:
        numbers = evidence.theory(SCENES[graph], "gaps", paper.METHODS[name])
        return np.array([n[kind] for n in numbers])

    return ratio(gaps(method), gaps(other), level=level)


def claim_12(evidence: Evidence) -> Claim:
    """[thmhlj], [thmnojump]: the bounds, by the instance on which each is tightest.

    A bound that fails once is none, so the least ratio over the instances is judged, not a median.
    """
    ring = {"network": {"family": "ring", "n": 20}, "problem": {"data": "homogeneous", "seed": 0}}
    asked = ring | {"design": dict(paper.METHODS[WEIGHT]), "ask": "counterexample"}
    ((_, refuted),) = evidence.runner([asked])
    one = np.ones(1)
    cells: list[Cell] = []
    for form in ("printed", "corrected"):
        ask = partial(_bound, one * refuted[form], one * refuted["exact"])
        cells.append(Cell(f"{form} bound/exact error, the counterexample", _ALONE, ask, above(1.0)))
    for method in (UNIF, WEIGHT, *READINGS):
        numbers = _asked(evidence, "bounds", paper.METHODS[method], paper.SMALL_DATA)
        for form in ("printed", "corrected"):
            bound, exact = (np.array([n[name] for n in numbers]) for name in (form, "exact"))
            row = f"least {form} bound/exact error, {method} on Ring(30)"
            cells.append(Cell(row, _ALONE, partial(_bound, bound, exact), above(1.0)))
    return claim_of(evidence, 12, "The theorems' bounds are bounds", cells)


def _bound(bound: Floats, exact: Floats, level: float) -> Ratio:
    least = float((bound / exact).min())
    return Ratio(least, least, least, 0, len(bound))
