"""The figures of the authors' earlier version (ISIT 2024) from its own settings, beside published
points.

Two sources are kept apart. "notebook": what the published code does (no noise, feature 0 equal to
1, γ = 0.01 for all methods, start at the last node, 50 paths, the first model drawn from N(0, I)).
"text": what the paper and its earlier version say (noise, 50 paths from the last node, step sizes
by their rule: UnifRW its largest converging γ, WeightRW the γ that reaches the same accuracy, MHLJ
WeightRW's). Errors are mean squared errors as shares of the first one; on grid and WS the published
axis says ‖x - x*‖², but all its curves end at the same level, as a mean squared error does that has
come down to the noise. Facts and figures only: none of the authors' code is used here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.engine import run
from levywalk.experiments.tuning import relative_sizes
from levywalk.network import Network
from levywalk.problem import LeastSquares
from levywalk.registry import from_dict
from levywalk.report.figures.figure_data import FigureData, Line, Panel
from levywalk.reproduction.measurement import build, geometric_checkpoints
from levywalk.reproduction.paper import PUBLISHED_SNR, SCENES, SNRS, Section
from levywalk.trace.statistics import settled_at
from levywalk.walks import Walk

SEEDS = range(81_000, 81_008)
PATHS = 50
LONG = {"ring": 16_000, "grid": 8_000, "ws": 8_000}  # as in the published figures
LOWEST = 3e-6  # shares that are drawn: published curves end above it, those without noise do not
SHORT = 1_500  # printed jumps have no kernel, and their published curves have settled by then
THEIR_GAMMA = 0.01  # of the loss (y - aᵀx)²/2; the same step of our loss (y - aᵀx)² is half of it
GRAPHS = ("ring", "grid", "ws")
SOURCES = ("notebook", "text")
METHODS: Mapping[str, Section] = {
    "UnifRW": {"kind": "unif_rw"},
    "WeightRW": {"kind": "weight_rw"},
    "MHLJ(0.1)": {"kind": "mhlj", "levy": "printed"},
    "MHLJ(0.9)": {"kind": "mhlj", "p_jump": 0.9, "levy": "printed"},
}


@dataclass(frozen=True)
class PublishedPoints:
    """Points of a published curve: the first error, further errors, and the steps after which the
    curve stays below each, with their source.
    """

    graph: str
    method: str
    first: float
    errors: tuple[float, ...]
    steps: tuple[float, ...]
    source: str

    @property
    def shares(self) -> tuple[float, ...]:
        """The errors as shares of the first one: what does not depend on the unit of the y axis."""
        return tuple(error / self.first for error in self.errors)


def _read(
    graph: str, method: str, first: float, steps: Sequence[float], figure: str
) -> PublishedPoints:
    errors = (0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)[: len(steps)]
    source = f"{figure}, vector figure in the extended PDF of the earlier version; read by us"
    return PublishedPoints(graph, method, first, errors, tuple(steps), source)


# The figures of the PDF are vector graphics, so these are the authors' own numbers, to the width of
# a line. On the ring 361, 641 and 992 had been read by others for MHLJ at 1e-2, 1e-3 and 1e-4.
POINTS = (
    _read("ring", "UnifRW", 0.227, (527, 1526, 2524, 4644, 6939, 10_037), "Updates"),
    _read("ring", "WeightRW", 0.236, (761, 2426, 3980, 8088, 13_537), "Updates"),
    _read("ring", "MHLJ", 0.236, (110, 245, 360, 640, 991, 1795), "Updates"),
    _read("grid", "UnifRW", 0.221, (737, 1974, 3337), "Gridjump"),
    _read("grid", "WeightRW", 0.222, (705, 1851, 3066), "Gridjump"),
    _read("grid", "MHLJ", 0.222, (128, 258, 383), "Gridjump"),
    _read("ws", "UnifRW", 0.222, (927, 2136, 3225), "WSjump"),
    _read("ws", "WeightRW", 0.226, (713, 1742, 2661), "WSjump"),
    _read("ws", "MHLJ", 0.225, (143, 233, 390), "WSjump"),
)


def descriptions(seeds: Sequence[int] = SEEDS) -> list[dict[str, Any]]:
    """Return all runs as plain data.

    Examples
    --------
    >>> len(descriptions([1]))
    24
    """
    return [
        {
            "source": source,
            "graph": graph,
            "method": method,
            "seed": seed,
            "steps": SHORT if graph != "ring" and "MHLJ" in method else LONG[graph],
            "paths": PATHS,
        }
        for source in SOURCES
        for graph in GRAPHS
        for method in METHODS
        for seed in seeds
    ]


def measure_published(
    description: Mapping[str, Any],
) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Run one method on one instance; return the mean squared error, the mean over paths."""
    graph, seed = description["graph"], description["seed"]
    network, problem = instance(description["source"], graph, seed)
    if description["source"] == "notebook":
        gamma = THEIR_GAMMA / 2.0
    else:
        longer = dict(description) | {"steps": max(description["steps"], LONG[graph])}
        gamma = their_rule(network, problem, description["method"], longer)
    curve, step = _curve(
        network, problem, _design(graph, description["method"]), gamma, description
    )
    return {"step": step, "mse": curve}, {"gamma": gamma}


def instance(source: str, graph: str, seed: int) -> tuple[Network, LeastSquares]:
    """Return network and data of one instance, by the notebook or by the text.

    Examples
    --------
    >>> _, problem = instance("notebook", "ring", 1)
    >>> bool((problem.features[:, 0] == 1.0).all()), bool(problem.loss(problem.optimum) < 1e-20)
    (True, True)
    """
    scene = SCENES[graph]
    snr = math.inf if source == "notebook" else PUBLISHED_SNR.get(graph, SNRS[1])
    section = dict(scene.network) | ({"seed": seed} if scene.seeded else {})
    data = dict(scene.problem) | {"snr": snr, "seed": seed}
    asked = {"network": section, "problem": data, "design": {"kind": "unif_rw"}}
    network, problem, _, _ = build(asked)
    assert isinstance(problem, LeastSquares)
    if source == "notebook":
        features = np.array(problem.features)
        features[:, 0] = 1.0
        problem = LeastSquares(features, features @ getattr(problem, "truth"))  # noqa: B009
    return network, problem


def their_rule(
    network: Network, problem: LeastSquares, method: str, description: Mapping[str, Any]
) -> float:
    """Choose the step size as the earlier version says it was chosen.

    UnifRW: the largest of a grid (sixteen a decade) whose mean error falls to the end and stays
    finite. WeightRW, and with it MHLJ: the one whose error at the end is nearest to UnifRW's.
    """
    graph = description["graph"]
    uniform = _design(graph, "UnifRW")
    sizes = relative_sizes(range(-24, 9))
    largest = uniform.bind(network, problem).largest
    for size in reversed(sizes):  # if none converges in so few steps, the smallest is taken
        gamma = size / largest
        curve, _ = _curve(network, problem, uniform, gamma, description)
        if np.isfinite(curve).all() and curve[-1] < 0.5 * curve[0]:
            break
    if method == "UnifRW":
        return gamma
    floor = _end(curve)
    weighted = _design(graph, "WeightRW")
    unit = weighted.bind(network, problem).largest
    gaps = {}
    for size in relative_sizes(range(-32, 5, 2)):
        curve, _ = _curve(network, problem, weighted, size / unit, description)
        if np.isfinite(curve).all():
            gaps[size / unit] = abs(math.log(_end(curve) / floor))
    return min(gaps, key=lambda gamma: gaps[gamma])


def _end(curve: Floats) -> float:
    return float(np.mean(curve[-20:]))


def _design(graph: str, method: str) -> Walk:
    section = dict(METHODS[method])
    if graph == "ring":  # a regular network: printed jumps are those of the algorithm
        section.pop("levy", None)
    found = from_dict("design", section)
    assert isinstance(found, Walk)
    return found


def _curve(
    network: Network,
    problem: LeastSquares,
    design: Walk,
    gamma: float,
    description: Mapping[str, Any],
) -> tuple[Floats, Ints]:
    seed = description["seed"]
    first = generator(seed, Domain.DATA, 77).standard_normal(problem.dim)
    trace = run(
        network,
        problem,
        design,
        steps=description["steps"],
        step_size=gamma,
        replicas=description["paths"],
        seed=seed,
        start=network.n - 1,
        x0=first if description["source"] == "notebook" else None,
        record_every=geometric_checkpoints(description["steps"]),
        record_visits=False,
        threads=1,
        progress=False,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        return trace.excess_loss.mean(axis=0) + problem.loss(problem.optimum), trace.step


# ---- judging -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Misfit:
    """How far our curves are from published points: our median steps, and the typical factor.

    ``factor`` is exp of the root mean square of log(ours/published) over the points that we reach;
    1 is a perfect fit. ``slope_factor`` compares the steps from one point to the next.
    """

    ours: tuple[float, ...]
    factor: float
    slope_factor: float


def misfit(points: PublishedPoints, step: Ints, curves: Floats) -> Misfit:
    """Compare curves (instances, checkpoints) with published points, as shares of the first error.

    Examples
    --------
    >>> step = np.array([0, 100, 200, 300])
    >>> curve = np.array([[8.0, 0.8, 0.08, 0.008]])
    >>> points = PublishedPoints("ring", "MHLJ", 1.0, (1e-1, 1e-2), (50.0, 100.0), "an example")
    >>> found = misfit(points, step, curve)
    >>> found.ours, round(found.factor, 6), round(found.slope_factor, 6)
    ((100.0, 200.0), 2.0, 2.0)
    """
    shares = curves / curves[:, :1]
    ours = tuple(float(np.median(settled_at(step, shares, level))) for level in points.shares)
    return Misfit(
        ours,
        _typical(np.array(ours), np.array(points.steps)),
        _typical(_differences(ours), _differences(points.steps)),
    )


def _differences(steps: Sequence[float]) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.diff(np.array(steps))


def _typical(ours: Floats, theirs: Floats) -> float:
    known = np.isfinite(ours) & (ours > 0.0)
    if not known.any():
        return math.inf
    logs = np.log(ours[known] / theirs[known])
    return float(np.exp(np.sqrt(np.mean(logs**2))))


def figure(results: Mapping[tuple[str, str, str], tuple[Ints, Floats]]) -> FigureData:
    """Return the figure: a row per source, a column per graph, published points on top.

    Parameters
    ----------
    results
        By (source, graph, method): the checkpoints, and a curve per instance.
    """
    rows = []
    for source in SOURCES:
        panels = []
        for graph in GRAPHS:
            lines = []
            for look, method in enumerate(METHODS):
                step, curves = results[source, graph, method]
                low, middle, high = np.quantile(
                    curves / curves[:, :1], [0.1, 0.5, 0.9], axis=0, method="inverted_cdf"
                )
                keep = (step >= 10) & (middle >= LOWEST)
                look = 4 if method == "MHLJ(0.9)" else look
                lines.append(
                    Line(
                        method,
                        look,
                        step[keep].astype(np.float64),
                        middle[keep],
                        low[keep],
                        high[keep],
                    )
                )
            for look, points in zip(range(3), (p for p in POINTS if p.graph == graph), strict=True):
                x, y = np.array(points.steps), np.array(points.shares)
                name = f"published: {points.method}"
                lines.append(Line(name, look, x, y, y, y, points=True))
            title = f"{graph}, {source}" + ("" if graph == "ring" else ", printed jumps")
            panels.append(Panel(title, "steps", "error/first error", tuple(lines), top=2.0))
        rows.append(tuple(panels))
    note = (
        "Lines: median over 8 instances of the mean over 50 paths; bands: 10 to 90 % of instances. "
        "Above: the settings of the published notebook; below: those of the text. Open marks: "
        "points that we read off the vector figures of the earlier version’s extended PDF, in the "
        "colour of their method."
    )
    return FigureData("published", "Their figures from their settings", note, tuple(rows))


def grouped(
    asked: Sequence[Mapping[str, Any]], results: Sequence[Any]
) -> dict[tuple[str, str, str], tuple[Ints, Floats]]:
    """Return the results by (source, graph, method)."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for description, result in zip(asked, results, strict=True):
        key = (description["source"], description["graph"], description["method"])
        found.setdefault(key, []).append(result)
    return {
        key: (own[0].arrays["step"], np.array([result.arrays["mse"] for result in own]))
        for key, own in found.items()
    }


def table(results: Mapping[tuple[str, str, str], tuple[Ints, Floats]]) -> list[str]:
    """Return which setting fits which published curve, with the misfit, in Markdown."""
    lines = [
        "| published curve | settings | our method | published steps | our steps | misfit | steps "
        "between points |",
        "|---|---|---|---|---|---|---|",
    ]
    for points in POINTS:
        methods = [name for name in METHODS if name.partition("(")[0] == points.method]
        for source in SOURCES:
            for method in methods:
                if (source, points.graph, method) not in results:
                    continue
                found = misfit(points, *results[source, points.graph, method])
                ours, theirs = (
                    ", ".join("–" if math.isinf(value) else f"{value:,.0f}" for value in values)
                    for values in (found.ours, points.steps)
                )
                misfits = (
                    "does not settle" if math.isinf(value) else f"{value:.2f}"
                    for value in (found.factor, found.slope_factor)
                )
                lines.append(
                    f"| {points.method} on {points.graph} | {source} | {method} | {theirs} "
                    f"| {ours} | {' | '.join(misfits)} |"
                )
    return lines


def write(
    results: Mapping[tuple[str, str, str], tuple[Ints, Floats]],
    folder: Path,
    formats: Sequence[str] = ("svg",),
) -> list[Path]:
    """Draw the figure into a folder; return the files."""
    from levywalk.report.figures.paper import write_figure

    return write_figure(figure(results), folder, formats)
