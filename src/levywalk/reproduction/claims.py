"""The paper's claims, each as a question to the evidence; `verdicts` has the rules that answer
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import chi2

from levywalk.reproduction import paper
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.paper import (
    IID,
    LABELS,
    MHLJ,
    MIXES,
    P_JUMPS,
    SCENES,
    STARTS,
    UNIF,
    WEIGHT,
    Scene,
    Section,
)
from levywalk.reproduction.ratios import Ratio, ratio
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.reproduction.tuning import most
from levywalk.reproduction.verdicts import (
    Claim,
    ClaimPoint,
    Rule,
    above,
    at_least,
    at_most,
    below,
    verdict,
    within,
)

MIXED: tuple[Section, ...] = tuple({"kind": "mixed_rw", "mix": mix} for mix in MIXES)


def claim_1(evidence: Evidence) -> Claim:
    """[homo]: on homogeneous data the methods are alike."""
    scene = SCENES["er-homogeneous"]
    points = [
        point
        for a, b in ((WEIGHT, UNIF), (MHLJ, UNIF), (MHLJ, WEIGHT))
        for point in evidence.compared(scene, a, b, within(0.8, 1.25))
    ]
    return _claim(1, "On homogeneous data the methods are alike: ratios within [0.8, 1.25]", points)


def claim_2(evidence: Evidence) -> Claim:
    """[hete]: on Erdős-Rényi with heterogeneous data weighting is faster, and jumps are faster
    still.
    """
    scene = SCENES["er"]
    faster = [
        *evidence.compared(scene, WEIGHT, UNIF, below(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
    ]
    no_worse = [
        replace(
            point,
            where=f"no worse by a tenth: {point.where}",
            answer=at_most(1.1)(point.ratio),
            primary=False,
        )
        for point in faster
        if point.primary and point.where.startswith(MHLJ)
    ]
    points = faster + no_worse
    return _claim(2, "WeightRW is faster than UnifRW, and MHLJ even faster than WeightRW", points)


def claim_3(evidence: Evidence) -> Claim:
    """[simentrap]: on the ring weighting is slower than uniform, and jumps are faster than both."""
    scene = SCENES["ring"]
    points = [
        *evidence.compared(scene, WEIGHT, UNIF, above(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
        *evidence.compared(scene, MHLJ, UNIF, below(1.0)),
    ]
    return _claim(3, "WeightRW is trapped and slower than UnifRW; MHLJ is faster than both", points)


def claim_4(evidence: Evidence) -> Claim:
    """[grid]: entrapment, and jumps that help."""
    return _entrapment(evidence, 4, SCENES["grid"])


def claim_5(evidence: Evidence) -> Claim:
    """[wsju]: entrapment, and jumps that help."""
    return _entrapment(evidence, 5, SCENES["ws"])


def _entrapment(evidence: Evidence, number: int, scene: Scene) -> Claim:
    numbers = evidence.theory(scene, "entrapment", paper.METHODS[WEIGHT])
    dwell = ratio(
        np.array([n["dwell"] for n in numbers]), np.array([n["iid_dwell"] for n in numbers])
    )
    points = [
        ClaimPoint(f"dwell against i.i.d. dwell on {scene.name}", dwell, at_least(10.0)(dwell)),
        *evidence.compared(scene, WEIGHT, IID, above(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
    ]
    return _claim(
        number,
        "WeightRW is trapped (dwells ten times as long as i.i.d. sampling and is slower), MHLJ is "
        "faster",
        points,
    )


def claim_6(evidence: Evidence) -> Claim:
    """[switch]: switching to uniform sampling lowers the floor and costs no speed."""
    points: list[ClaimPoint] = []
    accuracy = evidence.effort.accuracies[0]
    for name in ("er", "ring", "grid", "ws"):
        scene = SCENES[name]
        sizes = evidence.relative(scene, paper.METHODS[MHLJ])[:1]
        jumping = evidence.walks(scene, paper.METHODS[MHLJ])
        switching = report(scene, paper.SWITCHING, evidence.effort, sizes, evidence.runner)
        floor = ratio(switching.floor(0), jumping.floor(0))
        speed = ratio(switching.steps_to(accuracy, 0), jumping.steps_to(accuracy, 0))
        control = ratio(switching.floor(0), _dropped(evidence, scene, sizes, switching).floor(0))
        points += [
            ClaimPoint(f"floor, switching/MHLJ, on {name}", floor, below(1.0)(floor)),
            ClaimPoint(
                f"steps to {accuracy:g}, switching/MHLJ, on {name}", speed, at_most(1.1)(speed)
            ),
            ClaimPoint(
                f"floor, switching/MHLJ with the same drop, on {name}",
                control,
                below(1.0)(control),
                primary=False,
            ),
        ]
    return _claim(
        6, "Switching to uniform sampling lowers the error floor and loses no speed", points
    )


def _dropped(
    evidence: Evidence, scene: Scene, sizes: Sequence[float], switching: ReportedWalks
) -> ReportedWalks:
    """Return MHLJ with the step size of the second phase from when most walks had switched, and no
    switch.
    """
    return report(
        scene,
        paper.METHODS[MHLJ],
        evidence.effort,
        sizes,
        evidence.runner,
        drop_at=switching.switched_at(),
    )


def claim_7(evidence: Evidence) -> Claim:
    """[Decay]: decreasing p_jump does not recover the floor; a floor within a tenth is
    recovered.
    """
    points: list[ClaimPoint] = []
    for name in ("er", "ring", "grid", "ws"):
        scene = SCENES[name]
        sizes = evidence.relative(scene, paper.METHODS[MHLJ])[:1]
        without = report(
            scene, paper.METHODS[WEIGHT], evidence.effort, sizes, evidence.runner
        ).floor(0)
        constant = ratio(
            evidence.walks(scene, paper.METHODS[MHLJ]).floor(0), without
        )  # how much there is to recover
        points.append(
            ClaimPoint(f"constant p_jump, on {name}", constant, above(1.1)(constant), primary=False)
        )
        for design in paper.DECAYS:
            schedule = design["schedule"]
            found = ratio(
                report(scene, design, evidence.effort, sizes, evidence.runner).floor(0), without
            )
            where = f"timescale {schedule['timescale']:g}, power {schedule['power']:g}, on {name}"
            points.append(ClaimPoint(where, found, above(1.1)(found)))
    text = "No schedule of decreasing jumps brings the error down to the floor without jumps"
    return _claim(7, text, points)


def claim_8(evidence: Evidence) -> Claim:
    """[fig:mixeddist]: a mixed target is a compromise that jumps beat."""
    scene = SCENES["ring"]
    jumping = [{"kind": "mhlj", "p_jump": p_jump} for p_jump in P_JUMPS]
    points: list[ClaimPoint] = []
    for accuracy in evidence.effort.accuracies:
        mix = _best(evidence, scene, MIXED, accuracy)
        jump = _best(evidence, scene, jumping, accuracy)
        others: list[tuple[str, Section, Rule]] = [
            (WEIGHT, paper.METHODS[WEIGHT], below(1.0)),
            (UNIF, paper.METHODS[UNIF], below(1.0)),
            (MHLJ, paper.METHODS[MHLJ], above(1.0)),
            (f"MHLJ({jump['p_jump']:g})", jump, above(1.0)),
        ]
        for start in STARTS:
            for name, design, rule in others:
                found = evidence.ratio(scene, mix, design, accuracy, start)
                where = f"MixedRW({mix['mix']:g})/{name} to {accuracy:g}, {start} start"
                points.append(
                    ClaimPoint(
                        where,
                        found,
                        rule(found),
                        beside=evidence.beside(scene, mix, design, accuracy, start),
                    )
                )
    points += [
        _moved(evidence, other)
        for other in (paper.MILD_RING, SCENES["er"], SCENES["grid"], SCENES["ws"])
    ]
    text = (
        "MixedRW at its best λ beats WeightRW and UnifRW but stays behind MHLJ; "
        "the best λ moves with data and graph"
    )
    return _claim(8, text, points)


def _moved(evidence: Evidence, scene: Scene) -> ClaimPoint:
    """Compare the λ that is best on the ring with the one that is best on another scene, there."""
    accuracy = evidence.effort.accuracies[0]
    ours, best = (
        _best(evidence, tuned_on, MIXED, accuracy) for tuned_on in (SCENES["ring"], scene)
    )
    found = evidence.ratio(scene, ours, best, accuracy, "uniform")
    where = (
        f"the ring's best λ ({ours['mix']:g})/the best λ ({best['mix']:g}) on {scene.title} to "
        f"{accuracy:g}"
    )
    return ClaimPoint(where, found, above(1.0)(found))


def _best(evidence: Evidence, scene: Scene, designs: Sequence[Section], accuracy: float) -> Section:
    """Return the design that tuning finds fastest, on the tuning instances."""

    def cost(design: Section) -> tuple[float, float]:
        tuned = evidence.tuned(scene, design)
        i = tuned.best(accuracy)
        return most(tuned.steps[accuracy][i]), float(np.median(tuned.final[i]))

    return min(designs, key=cost)


def claim_9(evidence: Evidence) -> Claim:
    """At most 1.1 hops per update at the defaults."""
    points: list[ClaimPoint] = []
    for name in ("er", "ring", "grid", "ws"):
        scene = SCENES[name]
        jumping, weighted = (
            evidence.walks(scene, paper.METHODS[method]) for method in (MHLJ, WEIGHT)
        )
        steps = np.full(len(jumping.numbers), float(jumping.step[-1]))
        hops = ratio(jumping.curves["hops"][:, 0, -1], steps)
        points.append(ClaimPoint(f"hops per update on {name}", hops, at_most(1.1)(hops)))
        transfers = ratio(
            jumping.curves["transfers"][:, 0, -1], weighted.curves["transfers"][:, 0, -1]
        )
        points.append(
            ClaimPoint(
                f"transfers, MHLJ/WeightRW, on {name}",
                transfers,
                at_most(1.1)(transfers),
                primary=False,
            )
        )
    return _claim(9, "At most 1.1 hops per update at the defaults", points)


def claim_10(evidence: Evidence) -> Claim:
    """Jumps make the walk converge to another point, the one that ruling 15's recursion gives.

    A constant step size does so too, without jumps: WeightRW is added as a secondary point.
    """
    points: list[ClaimPoint] = []
    dim = paper.SMALL_DATA["dim"]
    least, largest = (float(chi2.ppf(q, dim)) / dim for q in (0.001, 0.999))
    for network in (paper.SMALL_RING, paper.SMALL_TREE):
        title = f"{network['family']} of {network['n']} nodes"
        noisy, quiet = (
            _asked(
                evidence,
                "limit",
                paper.METHODS[MHLJ],
                dict(paper.SMALL_DATA) | {"noise": noise},
                network,
            )
            for noise in (1.0, 0.0)
        )
        without = _asked(
            evidence,
            "limit",
            paper.METHODS[WEIGHT],
            dict(paper.SMALL_DATA) | {"noise": 1.0},
            network,
        )
        limit, optimum, still, control = (
            _alone(numbers, name)
            for numbers, name in (
                (noisy, "to_limit"),
                (noisy, "to_optimum"),
                (quiet, "error"),
                (without, "to_optimum"),
            )
        )
        points += [
            ClaimPoint(
                f"mean model to the limit, squared, in errors, {title}",
                limit,
                within(least, largest)(limit),
            ),
            ClaimPoint(
                f"mean model to the optimum, squared, in errors, {title}",
                optimum,
                above(largest)(optimum),
            ),
            ClaimPoint(
                f"relative error at the end without noise, {title}", still, below(1e-9)(still)
            ),
            ClaimPoint(
                f"without jumps (WeightRW): mean model to the optimum, squared, in errors, {title}",
                control,
                above(largest)(control),
                primary=False,
            ),
        ]
    return _claim(
        10,
        "With jumps the walk converges to another point than the optimum, unless there is no noise",
        points,
    )


def _alone(numbers: Sequence[Mapping[str, Any]], name: str) -> Ratio:
    """Return a number's median over instances, with its interval."""
    values = np.array([found[name] for found in numbers])
    return ratio(values, np.ones(len(values)))


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


def claim_12(evidence: Evidence) -> Claim:
    """[thmhlj], [thmnojump]: the bounds."""
    ring = {"network": {"family": "ring", "n": 20}, "problem": {"data": "homogeneous", "seed": 0}}
    asked = ring | {"design": dict(paper.METHODS[WEIGHT]), "ask": "counterexample"}
    ((_, refuted),) = evidence.runner([asked])
    points = []
    one = np.ones(1)
    for form, rule in (("printed", above(1.0)), ("corrected", above(1.0))):
        found = ratio(one * refuted[form] / refuted["exact"], one)
        points.append(
            ClaimPoint(f"{form} bound/exact error, the counterexample", found, rule(found))
        )
    for method in (UNIF, WEIGHT, MHLJ):
        numbers = _asked(evidence, "bounds", paper.METHODS[method], paper.SMALL_DATA)
        for form in ("printed", "corrected"):
            found = ratio(
                np.array([n[form] for n in numbers]), np.array([n["exact"] for n in numbers])
            )
            points.append(
                ClaimPoint(
                    f"{form} bound/exact error, {method} on Ring(30)", found, above(1.0)(found)
                )
            )
    return _claim(12, "The theorems' bounds are bounds", points)


def claim_11(evidence: Evidence) -> Claim:
    """Jumps raise the spectral gap on sparse graphs."""
    points: list[ClaimPoint] = []
    for name in ("ring", "grid", "ws"):
        scene = SCENES[name]
        gaps = {
            method: evidence.theory(scene, "gaps", paper.METHODS[method])
            for method in (UNIF, WEIGHT, MHLJ)
        }
        for kind in ("right", "absolute", "singular"):
            values = {
                method: np.array([n[kind] for n in numbers]) for method, numbers in gaps.items()
            }
            for other in (WEIGHT, UNIF):
                found = ratio(values[MHLJ], values[other])
                primary = kind == "right" and other == WEIGHT
                points.append(
                    ClaimPoint(
                        f"{kind} gap, MHLJ/{other}, on {name}", found, above(1.0)(found), primary
                    )
                )
    return _claim(11, "Jumps raise the spectral gap on sparse graphs", points)


def claim_13(evidence: Evidence) -> Claim:
    """[Erimp]: on Erdős-Rényi the walk recovers i.i.d. weighted sampling."""
    points = list(evidence.compared(SCENES["er"], WEIGHT, IID, at_most(1.5)))
    return _claim(
        13,
        "On Erdős–Rényi WeightRW needs at most 1.5 times the steps of i.i.d. weighted sampling",
        points,
    )


CLAIMS = (
    claim_1,
    claim_2,
    claim_3,
    claim_4,
    claim_5,
    claim_6,
    claim_7,
    claim_8,
    claim_9,
    claim_10,
    claim_11,
    claim_12,
    claim_13,
)


def _claim(number: int, text: str, points: Sequence[ClaimPoint]) -> Claim:
    return Claim(number, LABELS[number - 1], text, verdict(points), tuple(points))
