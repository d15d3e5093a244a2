"""The paper's claims, each as a question to the evidence, and the rule that answers it.

A claim is judged at several points: accuracies, starts, pairs of methods. At a point the effect is a median over
instances, with a 95 % bootstrap interval over instances. The answer is *yes* if the whole interval supports the claim,
*no* if the whole interval contradicts it, and *unclear* otherwise. The claim **holds** if all primary points say yes,
**holds in part** if some do, and **does not hold** if none does. Points with exactly two important nodes are secondary:
they are reported and change no verdict. These rules were written before the reported instances were run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import chi2

from levywalk.arrays import Floats
from levywalk.experiments import paper
from levywalk.experiments.paper import IID, MHLJ, MIXES, P_JUMPS, SCENES, STARTS, UNIF, WEIGHT, Effort, Scene
from levywalk.experiments.tuned import Ratio, Report, Runner, Tuned, most, ratio, report, tune

YES, NO, UNCLEAR = "yes", "no", "unclear"
HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
TWO = 2  # important nodes of the secondary data


@dataclass(frozen=True)
class Point:
    """One comparison: what, the effect with its interval, and the answer."""

    where: str
    ratio: Ratio
    answer: str
    primary: bool = True


@dataclass(frozen=True)
class Claim:
    """A claim and what became of it."""

    id: int
    label: str
    text: str
    verdict: str
    points: tuple[Point, ...]

    @property
    def leading(self) -> Ratio:
        """The effect to show: the first primary point's."""
        return next(point.ratio for point in self.points if point.primary)

    @property
    def where(self) -> str:
        """Where it holds and where not, in words."""
        if self.verdict == HOLDS:
            return "everywhere"
        parts = []
        for answer in (YES, UNCLEAR, NO):
            names = [point.where for point in self.points if point.primary and point.answer == answer]
            if names:
                parts.append(f"{answer}: {', '.join(names)}")
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the claim as plain JSON."""
        return {
            "id": self.id,
            "label": self.label,
            "text": self.text,
            "verdict": self.verdict,
            "effect": _number(self.leading.effect),
            "interval": [_number(self.leading.low), _number(self.leading.high)],
            "where": self.where,
            "points": [
                {
                    "where": point.where,
                    "effect": _number(point.ratio.effect),
                    "interval": [_number(point.ratio.low), _number(point.ratio.high)],
                    "undefined": point.ratio.undefined,
                    "instances": point.ratio.of,
                    "answer": point.answer,
                    "primary": point.primary,
                }
                for point in self.points
            ],
        }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def verdict(points: Sequence[Point]) -> str:
    """Return the verdict of some points.

    Examples
    --------
    >>> unknown = Ratio(1.0, 0.5, 2.0, 0, 9)
    >>> verdict([Point("a", unknown, YES), Point("b", unknown, UNCLEAR), Point("c", unknown, NO, primary=False)])
    'holds in part'
    """
    answers = [point.answer for point in points if point.primary]
    if all(answer == YES for answer in answers):
        return HOLDS
    return IN_PART if YES in answers else FAILS


# ---- answers ---------------------------------------------------------------------------------------------------------

Rule = Callable[[Ratio], str]


def below(limit: float) -> Rule:
    """Answer yes if the interval lies below the limit.

    Examples
    --------
    >>> below(1.0)(Ratio(0.8, 0.7, 0.9, 0, 10)), below(1.0)(Ratio(0.8, 0.7, 1.1, 0, 10))
    ('yes', 'unclear')
    """
    return lambda r: _answer(r, r.high < limit, r.low >= limit)


def above(limit: float) -> Rule:
    """Answer yes if the interval lies above the limit."""
    return lambda r: _answer(r, r.low > limit, r.high <= limit)


def within(low: float, high: float) -> Rule:
    """Answer yes if the interval lies within the limits."""
    return lambda r: _answer(r, low <= r.low and r.high <= high, r.high < low or r.low > high)


def _answer(found: Ratio, yes: bool, no: bool) -> str:
    if math.isnan(found.effect) or found.undefined > found.of // 2:
        return UNCLEAR
    return YES if yes else NO if no else UNCLEAR


# ---- evidence --------------------------------------------------------------------------------------------------------


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


# ---- the claims ------------------------------------------------------------------------------------------------------


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
        Point(f"dwell against i.i.d. dwell on {scene.name}", dwell, _at_least(10.0)(dwell)),
        *evidence.compared(scene, WEIGHT, IID, above(1.0)),
        *evidence.compared(scene, MHLJ, WEIGHT, below(1.0)),
    ]
    return _claim(
        number,
        label,
        "WeightRW is trapped (dwells ten times as long as i.i.d. sampling and is slower), MHLJ is faster",
        points,
    )


def _at_least(limit: float) -> Rule:
    return lambda r: _answer(r, r.low >= limit, r.high < limit)


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
            Point(f"steps to {accuracy:g}, switching/MHLJ, on {name}", speed, _at_most(1.1)(speed)),
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
        points.append(Point(f"hops per update on {name}", hops, _at_most(1.1)(hops)))
        transfers = ratio(jumping.curves["transfers"][:, 0, -1], weighted.curves["transfers"][:, 0, -1])
        points.append(Point(f"transfers, MHLJ/WeightRW, on {name}", transfers, _at_most(1.1)(transfers), primary=False))
    return _claim(9, "alg:jump", "At most 1.1 hops per update at the defaults", points)


def _at_most(limit: float) -> Rule:
    return lambda r: _answer(r, r.high <= limit, r.low > limit)


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
    points = list(evidence.compared(SCENES["er"], WEIGHT, IID, _at_most(1.5)))
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
