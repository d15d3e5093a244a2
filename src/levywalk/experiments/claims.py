"""The paper's claims, each as a question to the evidence; `judge` has the rules that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

from levywalk.arrays import Floats
from levywalk.experiments import paper
from levywalk.experiments.evidence import Evidence
from levywalk.experiments.judge import Claim, Point, Rule, above, at_least, at_most, below, verdict, within
from levywalk.experiments.paper import IID, MHLJ, MIXES, P_JUMPS, SCENES, STARTS, UNIF, WEIGHT, Scene
from levywalk.experiments.tuned import Report, most, ratio, report


def claim_1(evidence: Evidence) -> Claim:
    """[homo]: on homogeneous data the methods are alike."""
    scene = SCENES["er-homogeneous"]
    points = [
        point
        for a, b in ((WEIGHT, UNIF), (MHLJ, UNIF), (MHLJ, WEIGHT))
        for point in evidence.compared(scene, a, b, within(0.8, 1.25))
    ]
    return _claim(1, "homo", "On homogeneous data the methods are alike: ratios within [0.8, 1.25]", points)


def claim_2(evidence: Evidence) -> Claim:
    """[hete]: on Erdős-Rényi with heterogeneous data weighting is faster, and jumps are faster still."""
    scene = SCENES["er"]
    points = [
        *evidence.compared(scene, WEIGHT, UNIF, below(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
    ]
    return _claim(2, "hete", "WeightRW is faster than UnifRW, and MHLJ even faster than WeightRW", points)


def claim_3(evidence: Evidence) -> Claim:
    """[simentrap]: on the ring weighting is slower than uniform, and jumps are faster than both."""
    scene = SCENES["ring"]
    points = [
        *evidence.compared(scene, WEIGHT, UNIF, above(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
        *evidence.compared(scene, MHLJ, UNIF, below(1.0)),
    ]
    return _claim(3, "simentrap", "WeightRW is trapped and slower than UnifRW; MHLJ is faster than both", points)


def claim_4(evidence: Evidence) -> Claim:
    """[grid]: entrapment, and jumps that help."""
    return _entrapment(evidence, 4, "grid", SCENES["grid"])


def claim_5(evidence: Evidence) -> Claim:
    """[wsju]: entrapment, and jumps that help."""
    return _entrapment(evidence, 5, "wsju", SCENES["ws"])


def _entrapment(evidence: Evidence, number: int, label: str, scene: Scene) -> Claim:
    numbers = evidence.theory(scene, "entrapment", paper.METHODS[WEIGHT])
    dwell = ratio(np.array([n["dwell"] for n in numbers]), np.array([n["iid_dwell"] for n in numbers]))
    points = [
        Point(f"dwell against i.i.d. dwell on {scene.name}", dwell, at_least(10.0)(dwell)),
        *evidence.compared(scene, WEIGHT, IID, above(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
    ]
    return _claim(
        number,
        label,
        "WeightRW is trapped (dwells ten times as long as i.i.d. sampling and is slower), MHLJ is faster",
        points,
    )


def claim_6(evidence: Evidence) -> Claim:
    """[switch]: switching to uniform sampling lowers the floor and costs no speed."""
    points: list[Point] = []
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
            Point(f"floor, switching/MHLJ, on {name}", floor, below(1.0)(floor)),
            Point(f"steps to {accuracy:g}, switching/MHLJ, on {name}", speed, at_most(1.1)(speed)),
            Point(f"floor, switching/MHLJ with the same drop, on {name}", control, below(1.0)(control), primary=False),
        ]
    return _claim(6, "switch", "Switching to uniform sampling lowers the error floor and loses no speed", points)


def _dropped(evidence: Evidence, scene: Scene, sizes: Sequence[float], switching: Report) -> Report:
    """Return MHLJ with the step size of the second phase from when most walks had switched, and no switch."""
    when = [float(numbers["switched_at"][0]) for numbers in switching.numbers]
    return report(
        scene,
        paper.METHODS[MHLJ],
        evidence.effort,
        sizes,
        evidence.runner,
        drop_at=int(np.quantile(when, 0.5, method="inverted_cdf")),
    )


def claim_7(evidence: Evidence) -> Claim:
    """[Decay]: decreasing p_jump does not recover the floor."""
    points: list[Point] = []
    for name in ("er", "ring", "grid", "ws"):
        scene = SCENES[name]
        sizes = evidence.relative(scene, paper.METHODS[MHLJ])[:1]
        without = report(scene, paper.METHODS[WEIGHT], evidence.effort, sizes, evidence.runner).floor(0)
        for design in paper.DECAYS:
            schedule = design["schedule"]
            found = ratio(report(scene, design, evidence.effort, sizes, evidence.runner).floor(0), without)
            where = f"timescale {schedule['timescale']:g}, power {schedule['power']:g}, on {name}"
            points.append(Point(where, found, above(1.1)(found)))
    text = "No schedule of decreasing jumps brings the error down to the floor without jumps"
    return _claim(7, "Decay", text, points)


def claim_8(evidence: Evidence) -> Claim:
    """[fig:mixeddist]: a mixed target is a compromise that jumps beat."""
    scene = SCENES["ring"]
    mixed = [{"kind": "mixed_rw", "mix": mix} for mix in MIXES]
    jumping = [{"kind": "mhlj", "p_jump": p_jump} for p_jump in P_JUMPS]
    points: list[Point] = []
    for i, accuracy in enumerate(evidence.effort.accuracies):
        best_mix = _best(evidence, scene, mixed, accuracy)
        best_jump = _best(evidence, scene, jumping, accuracy)
        for start in STARTS:
            mixed_steps = evidence.walks(scene, best_mix, start).steps_to(accuracy, i)
            jump_steps = evidence.walks(scene, best_jump, start).steps_to(accuracy, i)
            where = f"to {accuracy:g}, {start} start"
            name = f"MixedRW({best_mix['mix']:g})"
            pairs: list[tuple[str, Floats, Rule]] = [
                (f"{name}/{WEIGHT}", evidence.steps(scene, WEIGHT, accuracy, start, None), below(1.0)),
                (f"{name}/{UNIF}", evidence.steps(scene, UNIF, accuracy, start, None), below(1.0)),
                (f"{name}/{MHLJ}", evidence.steps(scene, MHLJ, accuracy, start, None), above(1.0)),
                (f"{name}/MHLJ({best_jump['p_jump']:g})", jump_steps, above(1.0)),
            ]
            for title, other, rule in pairs:
                found = ratio(mixed_steps, other)
                points.append(Point(f"{title} {where}", found, rule(found)))
    return _claim(8, "fig:mixeddist", "MixedRW at its best λ beats WeightRW and UnifRW but stays behind MHLJ", points)


def _best(evidence: Evidence, scene: Scene, designs: Sequence[Mapping[str, Any]], accuracy: float) -> Mapping[str, Any]:
    """Return the design that tuning finds fastest, on the tuning instances."""

    def cost(design: Mapping[str, Any]) -> tuple[float, float]:
        tuned = evidence.tuned(scene, design)
        i = tuned.best(accuracy)
        return most(tuned.steps[accuracy][i]), float(np.median(tuned.final[i]))

    return min(designs, key=cost)


def claim_9(evidence: Evidence) -> Claim:
    """At most 1.1 hops per update at the defaults."""
    points: list[Point] = []
    for name in ("er", "ring", "grid", "ws"):
        scene = SCENES[name]
        jumping, weighted = (evidence.walks(scene, paper.METHODS[method]) for method in (MHLJ, WEIGHT))
        steps = np.full(len(jumping.numbers), float(jumping.step[-1]))
        hops = ratio(jumping.curves["hops"][:, 0, -1], steps)
        points.append(Point(f"hops per update on {name}", hops, at_most(1.1)(hops)))
        transfers = ratio(jumping.curves["transfers"][:, 0, -1], weighted.curves["transfers"][:, 0, -1])
        points.append(Point(f"transfers, MHLJ/WeightRW, on {name}", transfers, at_most(1.1)(transfers), primary=False))
    return _claim(9, "alg:jump", "At most 1.1 hops per update at the defaults", points)


def claim_10(evidence: Evidence) -> Claim:
    """Jumps make the walk converge to another point."""
    design = paper.METHODS[MHLJ]
    noisy, quiet = (
        _asked(evidence, "limit", design, dict(paper.SMALL_DATA) | {"noise": noise}) for noise in (1.0, 0.0)
    )
    ones = np.ones(len(noisy))
    limit = ratio(np.array([n["to_limit"] for n in noisy]), ones)
    optimum = ratio(np.array([n["to_optimum"] for n in noisy]), ones)
    still = ratio(np.array([n["error"] for n in quiet]), ones)
    dim = paper.SMALL_DATA["dim"]
    least, largest = (float(chi2.ppf(q, dim)) / dim for q in (0.001, 0.999))
    points = [
        Point("mean of the models against the limit, squared, in errors", limit, within(least, largest)(limit)),
        Point("… against the optimum", optimum, above(largest)(optimum)),
        Point("relative error at the end without noise", still, below(1e-9)(still)),
    ]
    return _claim(
        10,
        "thmhlj",
        "With jumps the walk converges to another point than the optimum, unless there is no noise",
        points,
    )


def _asked(
    evidence: Evidence, question: str, design: Mapping[str, Any], problem: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return what theory answers about a design on small rings."""
    asked = [
        {
            "network": dict(paper.SMALL_RING),
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
        points.append(Point(f"{form} bound/exact error, the counterexample", found, rule(found)))
    for method in (UNIF, WEIGHT, MHLJ):
        numbers = _asked(evidence, "bounds", paper.METHODS[method], paper.SMALL_DATA)
        for form in ("printed", "corrected"):
            found = ratio(np.array([n[form] for n in numbers]), np.array([n["exact"] for n in numbers]))
            points.append(Point(f"{form} bound/exact error, {method} on Ring(30)", found, above(1.0)(found)))
    return _claim(12, "thmhlj", "The theorems' bounds are bounds", points)


def claim_11(evidence: Evidence) -> Claim:
    """Jumps raise the spectral gap on sparse graphs."""
    points: list[Point] = []
    for name in ("ring", "grid", "ws"):
        scene = SCENES[name]
        gaps = {method: evidence.theory(scene, "gaps", paper.METHODS[method]) for method in (UNIF, WEIGHT, MHLJ)}
        for kind in ("right", "absolute", "singular"):
            values = {method: np.array([n[kind] for n in numbers]) for method, numbers in gaps.items()}
            for other in (WEIGHT, UNIF):
                found = ratio(values[MHLJ], values[other])
                primary = kind == "right" and other == WEIGHT
                points.append(Point(f"{kind} gap, MHLJ/{other}, on {name}", found, above(1.0)(found), primary))
    return _claim(11, "thmhlj", "Jumps raise the spectral gap on sparse graphs", points)


def claim_13(evidence: Evidence) -> Claim:
    """[Erimp]: on Erdős-Rényi the walk recovers i.i.d. weighted sampling."""
    points = list(evidence.compared(SCENES["er"], WEIGHT, IID, at_most(1.5)))
    return _claim(
        13, "Erimp", "On Erdős–Rényi WeightRW needs at most 1.5 times the steps of i.i.d. weighted sampling", points
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


def _claim(number: int, label: str, text: str, points: Sequence[Point]) -> Claim:
    return Claim(number, label, text, verdict(points), tuple(points))
