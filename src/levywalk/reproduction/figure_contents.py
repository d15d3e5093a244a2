"""What each figure of the paper shows: its curves and numbers, taken from the evidence, ready to be
drawn.

A line is the median over instances of the mean over walks; its band is what the middle 80 % of the
instances do, so it says how much instances differ, not how well the median is known. Walks that a
claim asks for are not run again; what only a figure shows is run on the first few
reported instances (`figure_recipes.DRAWN`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import walks as designs
from levywalk.network import ring
from levywalk.problem import LeastSquares
from levywalk.report.figures.figure_data import FigureData, Panel, Table
from levywalk.reproduction import figure_recipes, paper
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_lines import BAND, POINTS, curve, figure_effort, looks_of
from levywalk.reproduction.figure_recipes import FIGURES, Recipe
from levywalk.reproduction.figure_sweeps import accuracy_figure, p_jump_figure, stability_figure
from levywalk.reproduction.paper import (
    METHODS,
    MHLJ,
    Effort,
    Section,
    scene_of,
)
from levywalk.reproduction.reported_walks import ReportedWalks, report
from levywalk.theory import transition

AXES = ("steps", "hops", "transfers")
TOP = 5.0  # upper end of the figures of errors
ERROR = "relative error"

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


# ---- error against steps, hops and transfers -----------------------------------------------------


def _walks(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show methods, each tuned, at the theory's step size, and at a common one."""
    scene = scene_of(recipe.scenes[0])
    few = figure_effort(evidence.effort)
    accuracy = evidence.effort.accuracies[-1]

    def at_tuned_size(design: Section) -> Shown:
        if design in METHODS.values():
            return evidence.walks(scene, design, recipe.start), -1
        return report(
            scene,
            design,
            few,
            [evidence.tuned_step_sizes(scene, design).relative(accuracy)],
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
            name: at_tuned_size(design) for name, design in recipe.designs.items()
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
    few = figure_effort(evidence.effort)
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


_KINDS: Mapping[str, Callable[[Evidence, Recipe], FigureData]] = {
    "walks": _walks,
    "floors": _floors,
    "toy": _toy,
    "accuracy": accuracy_figure,
    "p_jump": p_jump_figure,
    "stability": stability_figure,
}
