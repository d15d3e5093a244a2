"""Figures that the paper does not have: what an accuracy costs, p_jump, and stability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from levywalk.arrays import Floats
from levywalk.report.figures.figure_data import FigureData, Line, Mark, Panel
from levywalk.reproduction import figure_recipes, paper
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_lines import BAND, LOOKS, looks_of, over_instances, sweep_effort
from levywalk.reproduction.figure_recipes import Recipe
from levywalk.reproduction.paper import (
    METHODS,
    MHLJ,
    P_JUMPS,
    UNIF,
    WEIGHT,
    Effort,
    Section,
    scene_of,
)
from levywalk.reproduction.reported_walks import report

CAP = 100.0  # upper end of the figure of stability
DEFAULT = 0.1  # MHLJ's p_jump


def accuracy_figure(evidence: Evidence, recipe: Recipe) -> FigureData:
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
    few = sweep_effort(evidence.effort)
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
    tuned = evidence.tuned_step_sizes(scene_of(name), design)
    sizes = sorted({tuned.relative(accuracy) for accuracy in figure_recipes.EPSILONS})
    walks = report(scene_of(name), design, sweep_effort(evidence.effort), sizes, evidence.runner)
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


def p_jump_figure(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show the error that is left at the end, and the spectral gap, against p_jump."""
    errors, gaps = [], []
    few = sweep_effort(evidence.effort)
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
    lines = [Line(MHLJ, LOOKS[MHLJ], where, middle, low, high)]
    for method in (key for key in values if isinstance(key, str)):
        level = np.full(2, float(over_instances(values[method])[1]))
        lines.append(Line(method, LOOKS[method], where[[0, -1]], level, level, level))
    return Panel(title, "p_jump", label, tuple(lines))


def stability_figure(evidence: Evidence, recipe: Recipe) -> FigureData:
    """Show the error after some steps against the step size: where it blows up."""
    few = sweep_effort(evidence.effort)
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
                Line(method, LOOKS[method], np.array(figure_recipes.STABILITY), middle, low, high)
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
