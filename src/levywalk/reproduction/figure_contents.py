"""What each figure of the paper shows: its curves and numbers, taken from the evidence, ready to be
drawn.

A line is the median over instances of the mean over walks; its band is what the middle 80 % of the
instances do, so it says how much instances differ, not how well the median is known. Walks that a
claim asks for are not run again; what only a figure shows is run on the first few
reported instances (`figure_recipes.DRAWN`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import walks as designs
from levywalk.arrays import Floats, Ints
from levywalk.network import ring
from levywalk.problem import LeastSquares
from levywalk.report.figures.figure_data import FigureData, Line, Mark, Panel, Table
from levywalk.reproduction import figure_recipes, paper
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_recipes import FIGURES, Recipe
from levywalk.reproduction.paper import (
    METHODS,
    MHLJ,
    MHLJ_CODE,
    P_JUMPS,
    UNIF,
    WEIGHT,
    Effort,
    Section,
    scene_of,
)
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.theory import transition

POINTS = 140  # number of points of all curves of a panel
FROM = 10  # the first step that is drawn
DIVERGED = 1e3  # an error this many times the initial one counts as diverged
CAP = 100.0  # upper end of the figure of stability
DEFAULT = 0.1  # MHLJ's p_jump
AXES = ("steps", "hops", "transfers")
TOP = 5.0  # upper end of the figures of errors
ERROR = "relative error"
BAND = "Line: median over instances of the mean over walks; band: 10 to 90 % of instances"
_LOOKS = {
    UNIF: 0,
    WEIGHT: 1,
    MHLJ: 2,
    MHLJ_CODE: 4,
    paper.IID: 3,
    "p_jump = 0.1 (MHLJ)": 2,
    "no jumps (WeightRW)": 1,
}
_FIRST_LOOK = 5  # for lines without a look of their own

Shown = tuple[ReportedWalks, int]  # walks, and the index of a step size


def write_figures(
    evidence: Evidence, labels: Sequence[str], folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Draw the figures of some labels (all, if there are none) into a folder; return the files.

    Parameters
    ----------
    evidence
        What runs, or reads what was run.
    labels
        Of `paper.LABELS`, names of figures, or none; see `figure_recipes.figures_of`.
    folder
        Where the files go, one per figure and format; it is made if need be.
    formats
        Of "svg", "png" and "pdf".

    Examples
    --------
    >>> import tempfile
    >>> from levywalk.reproduction.measurement import measure
    >>> evidence = Evidence(
    ...     paper.QUICK, lambda asked: [measure(description) for description in asked]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figures(evidence, ["ringMC"], folder)]
    ['ringmc.svg']
    """
    from levywalk.report.figures.paper import write_figure

    names = figure_recipes.figures_of(labels)
    return [
        path
        for name in names
        for path in write_figure(figure_data(evidence, name), Path(folder), formats)
    ]


def figure_data(evidence: Evidence, name: str) -> FigureData:
    """Collect what one figure shows.

    Examples
    --------
    >>> toy = figure_data(Evidence(paper.QUICK, lambda asked: []), "ringmc")
    >>> toy.rows[0][0].text[0]
    ('99/100', '1/200', '0', '0', '1/200')
    """
    return _KINDS[FIGURES[name].kind](evidence, FIGURES[name])


def drawn(effort: Effort) -> Effort:
    """Return the effort for walks that only figures show: the first few of the reported instances.

    Examples
    --------
    >>> len(drawn(paper.FULL).seeds), drawn(paper.FULL).seeds == paper.FULL.seeds[:10]
    (10, True)
    """
    return replace(effort, instances=min(effort.instances, figure_recipes.DRAWN))


def swept(effort: Effort) -> Effort:
    """Return the effort for sweeps, which take many short walks: half of the instances, fewer
    walks.

    Examples
    --------
    >>> swept(paper.QUICK).instances, swept(paper.FULL).walks
    (3, 32)
    """
    return replace(
        effort,
        instances=-(-effort.instances // 2),
        walks=min(effort.walks, figure_recipes.SWEPT_WALKS),
    )


# ---- error against steps, hops and transfers -----------------------------------------------------


def _walks(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show methods, each tuned, at the theory's step size, and at a common one."""
    scene = scene_of(recipe.scenes[0])
    few = drawn(evidence.effort)
    accuracy = evidence.effort.accuracies[-1]

    def tuned(design: Section) -> Shown:
        if design in METHODS.values():
            return evidence.walks(scene, design, recipe.start), -1
        return report(
            scene,
            design,
            few,
            [evidence.tuned(scene, design).relative(accuracy)],
            evidence.runner,
            start=recipe.start,
        ), 0

    def at(size: float, **more: Any) -> dict[str, Shown]:
        return {
            name: (
                report(scene, design, few, [size], evidence.runner, start=recipe.start, **more),
                0,
            )
            for name, design in recipe.designs.items()
        }

    columns = {
        f"tuned for error {accuracy:g}": {
            name: tuned(design) for name, design in recipe.designs.items()
        },
        "theory’s: γL* = 1": at(1.0),
        f"common: γL̄ = {paper.COMMON:g}": at(paper.COMMON, of="mean"),
    }
    return _against_all(
        recipe, columns, f"{recipe.start.capitalize()} start. Step sizes by column."
    )


def _floors(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show variants of MHLJ, all at the same step sizes: MHLJ's tuned one, the theory's, and the
    common one.
    """
    scene = scene_of(recipe.scenes[0])
    few = drawn(evidence.effort)
    accuracy = evidence.effort.accuracies[0]
    size = evidence.relative(scene, METHODS[MHLJ])[:1]

    def at(effort: Effort, sizes: Sequence[float], **more: Any) -> dict[str, Shown]:
        found: dict[str, Shown] = {}
        for name, design in recipe.designs.items():
            drop: dict[str, Any] = (
                {"drop_at": list(found.values())[-1][0].switched_at()}
                if "same drop" in name
                else {}
            )
            if sizes is size and design is METHODS[MHLJ] and not drop:
                found[name] = evidence.walks(scene, design), 0
            else:
                found[name] = (
                    report(scene, design, effort, sizes, evidence.runner, **more, **drop),
                    0,
                )
        return found

    columns = {
        f"MHLJ’s, tuned for {accuracy:g}": at(evidence.effort, size),
        "theory’s: γL* = 1": at(few, [1.0]),
        f"common: γL̄ = {paper.COMMON:g}": at(few, [paper.COMMON], of="mean"),
    }
    return _against_all(recipe, columns, "In each column all lines begin with the same step size.")


def _against_all(
    recipe: Recipe, columns: Mapping[str, Mapping[str, Shown]], remark: str
) -> FigureData:
    looks, points = looks_of(recipe.designs), POINTS // len(recipe.designs)
    rows = tuple(
        tuple(
            Panel(
                title if axis == AXES[0] else "",
                axis,
                ERROR,
                tuple(
                    curve(name, looks[name], *shown, axis, points) for name, shown in lines.items()
                ),
                top=TOP,
            )
            for title, lines in columns.items()
        )
        for axis in AXES
    )
    counts = [len(next(iter(lines.values()))[0].numbers) for lines in columns.values()]
    scene = scene_of(recipe.scenes[0])
    label, what = recipe.title.split("] ")
    note = f"{BAND} ({', '.join(map(str, counts))} instances by column). {remark}"
    return FigureData(recipe.name, f"{label}] {scene.title}: {what}", note, rows)


def looks_of(names: Mapping[str, Any]) -> dict[str, int]:
    """Return a look (colour, dashes, marks) for each line: that of its method, or the next free
    one.

    Examples
    --------
    >>> looks_of({"MHLJ(0.1)": {}, "MixedRW, λ = 0.1": {}, "MixedRW, λ = 0.4": {}})
    {'MHLJ(0.1)': 2, 'MixedRW, λ = 0.1': 5, 'MixedRW, λ = 0.4': 6}
    """
    others = [name for name in names if name not in _LOOKS]
    return {
        name: _LOOKS[name] if name in _LOOKS else _FIRST_LOOK + others.index(name) for name in names
    }


def curve(
    name: str, look: int, walks: ReportedWalks, size: int, axis: str, points: int = POINTS
) -> Line:
    """Return the error of some walks against steps, hops or transfers, at some of the
    checkpoints.
    """
    keep = _kept(walks.step, points)
    where = (
        walks.step.astype(np.float64)
        if axis == "steps"
        else np.median(walks.curves[axis][:, size], axis=0)
    )
    low, middle, high = over_instances(walks.curves["distance"][:, size])
    diverges = not middle[-1] < DIVERGED
    return Line(
        name, look, where[keep], middle[keep], low[keep], high[keep], "diverges" if diverges else ""
    )


def over_instances(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the 10 %, 50 % and 90 % quantiles over rows, as order statistics, because some are
    infinite.

    Examples
    --------
    >>> [float(q[0]) for q in over_instances(np.array([[1.0], [2.0], [3.0], [4.0], [np.inf]]))]
    [1.0, 3.0, inf]
    """
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0, method="inverted_cdf")
    return low, middle, high


def _kept(step: Ints, points: int) -> Ints:
    first = int(np.searchsorted(step, FROM))
    return np.unique(np.round(np.linspace(first, len(step) - 1, points)).astype(np.int64))


# ---- the toy chain -------------------------------------------------------------------------------


def _toy(_: Evidence, recipe: Recipe) -> FigureData:
    """Show the chain of [fivring] as [impmh] gives it, under both policies of self-loops, beside
    the printed one.
    """
    smoothness = np.array([100.0, 1.0, 1.0, 1.0, 1.0])
    problem = LeastSquares(np.sqrt(smoothness / 2.0)[:, None], np.zeros(len(smoothness)))
    tables = []
    for loops in ("none", "counted"):
        matrix = transition(ring(5, self_loops=loops), problem, designs.weight_rw()).toarray()
        text = tuple(
            tuple(str(Fraction(p).limit_denominator(1000)) for p in row) for row in matrix.tolist()
        )
        stay = f"leaves node 1 once in {1.0 / (1.0 - matrix[0, 0]):.0f} steps"
        tables.append(Table(f"[impmh], self-loops {loops}", matrix, text, stay))
    printed = {(0, 0): "50/51", (0, 1): "1/102", (1, 1): "0", (1, 2): "1/2", (2, 2): "1/2"}
    text = tuple(tuple(printed.get((v, u), "") for u in range(5)) for v in range(5))
    values = np.array(
        [[float(Fraction(entry)) if entry else np.nan for entry in row] for row in text]
    )
    tables.append(Table("as printed in [ringMC]", values, text, "no self-loop policy gives these"))
    note = "P(from, to) with L₁ = 100 and L = 1 elsewhere. Empty: the paper prints no number."
    return FigureData(recipe.name, recipe.title, note, (tuple(tables),))


# ---- beyond the paper ----------------------------------------------------------------------------


def _accuracy(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show steps and transfers to each accuracy, at the step size that tuning finds best for that
    accuracy.
    """
    looks = looks_of(recipe.designs)
    rows: list[list[Panel]] = [[], []]
    for name in recipe.scenes:
        costs = {
            method: costs_of(evidence, name, design) for method, design in recipe.designs.items()
        }
        for row, (what, label) in zip(
            rows, (("steps", "steps to ε"), ("transfers", "transfers to ε")), strict=True
        ):
            lines = tuple(replace(found[what], name=m, look=looks[m]) for m, found in costs.items())
            title = scene_of(name).title.replace(", h", "\nh") if what == "steps" else ""
            row.append(Panel(title, "accuracy ε", label, lines, falling_x=True))
    few = swept(evidence.effort)
    note = (
        f"Until the mean over {few.walks} walks stays below ε. Step sizes: those that tuning, on "
        f"others, finds "
        f"best for one of these ε; of them the one with the least median here. {BAND} "
        f"({few.instances} instances). "
        "A line ends (×) where half of the instances do not get there with any of them."
    )
    return FigureData(recipe.name, recipe.title, note, tuple(tuple(row) for row in rows))


def costs_of(evidence: Evidence, name: str, design: Section) -> dict[str, Line]:
    """Return "steps" and "transfers" to each of `figure_recipes.EPSILONS`, as lines.

    The step sizes are those that tuning finds best for one of these accuracies; of them, for each
    accuracy, the one whose median over the reported instances is least.
    """
    tuned = evidence.tuned(scene_of(name), design)
    sizes = sorted({tuned.relative(accuracy) for accuracy in figure_recipes.EPSILONS})
    walks = report(scene_of(name), design, swept(evidence.effort), sizes, evidence.runner)
    found: dict[str, list[tuple[Floats, ...]]] = {"steps": [], "transfers": []}
    for accuracy in figure_recipes.EPSILONS:
        steps = [over_instances(walks.steps_to(accuracy, i)) for i in range(len(sizes))]
        best = min(range(len(sizes)), key=lambda i: float(steps[i][1]))
        found["steps"].append(steps[best])
        found["transfers"].append(over_instances(walks.transfers_to(accuracy, best)))
    return {what: _to_accuracy(np.array(costs)) for what, costs in found.items()}


def _to_accuracy(costs: Floats) -> Line:
    low, middle, high = np.maximum(costs, 1.0).T
    fate = "" if np.isfinite(middle[-1]) else "ends"
    return Line("", 0, np.array(figure_recipes.EPSILONS), middle, low, high, fate)


def _p_jump(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show the error that is left at the end, and the spectral gap, against p_jump."""
    errors, gaps = [], []
    few = swept(evidence.effort)
    for name in recipe.scenes:
        scene = scene_of(name)
        methods: dict[str | float, Section] = {WEIGHT: METHODS[WEIGHT]}
        methods |= {p: _jumping(p) for p in swept_p_jumps(evidence.effort)}
        left = {
            key: report(scene, design, few, [paper.COMMON], evidence.runner).floor(0)
            for key, design in methods.items()
        }
        errors.append(
            _over_p_jump(
                scene.title.replace(", h", "\nh"), f"error at the end, γL* = {paper.COMMON:g}", left
            )
        )
        methods |= {UNIF: METHODS[UNIF]}
        found = {key: gaps_of(evidence, name, design) for key, design in methods.items()}
        gaps.append(_over_p_jump("", "spectral gap 1 − λ₂", found))
    note = (
        f"Error: mean over the last tenth of {few.walks} walks, median and 10 to 90 % of "
        f"{few.instances} instances. "
        f"Gap: the first {_gap_instances(evidence.effort)} of them. The y axes differ."
    )
    return FigureData(recipe.name, recipe.title, note, (tuple(errors), tuple(gaps)), shared=False)


def _jumping(p_jump: float) -> Section:
    """Return MHLJ with another p_jump; at the default's, the very design that claims ask about."""
    return METHODS[MHLJ] if p_jump == DEFAULT else {"kind": "mhlj", "p_jump": p_jump}


def swept_p_jumps(effort: Effort) -> tuple[float, ...]:
    """Return the p_jump that are tried: all, or with few instances the ends and the default."""
    return (
        P_JUMPS if effort.instances > figure_recipes.DRAWN else (P_JUMPS[0], DEFAULT, P_JUMPS[-1])
    )


def _gap_instances(effort: Effort) -> int:
    return figure_recipes.GAP_INSTANCES if effort.instances > figure_recipes.DRAWN else 1


def gaps_of(evidence: Evidence, name: str, design: Section) -> Floats:
    """Return the right spectral gap by instance."""
    name = name.partition("@")[0]  # noise changes no chain
    asked_by_claims = name != "er" and design in METHODS.values()
    question = "gaps" if asked_by_claims else "right_gap"
    seeds = evidence.effort.seeds[: _gap_instances(evidence.effort)]
    asked = [
        paper.instance(scene_of(name), seed) | {"design": dict(design), "ask": question}
        for seed in seeds
    ]
    return np.array([numbers["right"] for _, numbers in evidence.runner(asked)])


def _over_p_jump(title: str, label: str, values: Mapping[str | float, Floats]) -> Panel:
    """Draw what depends on p_jump as a line, and what does not as a level."""
    where = np.array([key for key in values if not isinstance(key, str)])
    low, middle, high = over_instances(np.array([values[p] for p in where.tolist()]).T)
    lines = [Line(MHLJ, _LOOKS[MHLJ], where, middle, low, high)]
    for method in (key for key in values if isinstance(key, str)):
        level = np.full(2, float(over_instances(values[method])[1]))
        lines.append(Line(method, _LOOKS[method], where[[0, -1]], level, level, level))
    return Panel(title, "p_jump", label, tuple(lines))


def _stability(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show the error after some steps against the step size: where it blows up."""
    few = swept(evidence.effort)
    steps = figure_recipes.STABILITY_STEPS // evidence.effort.shorter
    panels = []
    for name in recipe.scenes:
        lines, edge = [], 1.0
        for method, design in recipe.designs.items():
            walks = report(
                scene_of(name),
                design,
                few,
                figure_recipes.STABILITY,
                evidence.runner,
                of="mean",
                steps=steps,
            )
            low, middle, high = over_instances(walks.curves["distance"][:, :, -1])
            lines.append(
                Line(method, _LOOKS[method], np.array(figure_recipes.STABILITY), middle, low, high)
            )
            edge = float(
                np.median([n["mean_smoothness"] / n["largest_smoothness"] for n in walks.numbers])
            )
        marks = Mark(edge, "1/L_max"), Mark(1.0, "1/L̄")
        label = f"error after {steps:,} steps"
        panels.append(
            Panel(scene_of(name).title, "step size γL̄", label, tuple(lines), marks, CAP, True)
        )
    note = f"{BAND} ({few.instances}, {few.walks} walks). At the upper edge: larger, or not finite."
    return FigureData(recipe.name, recipe.title, note, (tuple(panels),))


_KINDS: Mapping[str, Callable[[Evidence, Recipe], FigureData]] = {
    "walks": _walks,
    "floors": _floors,
    "toy": _toy,
    "accuracy": _accuracy,
    "p_jump": _p_jump,
    "stability": _stability,
}
