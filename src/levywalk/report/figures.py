"""Figures: the only home of matplotlib. `plot` draws a trace or a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks, resampled_means

# Okabe and Ito's colours: told apart by everyone, and by grey level when printed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#7F7F7F", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "-", "-", "--", "-.", ":", "--", "-.")
X_AXES = {
    "steps": "steps (updates)",
    "hops": "hops",
    "transfers": "transfers (messages between nodes)",
    "bytes": "bytes sent",
}
Y_AXES = {
    "error": "error  ‖x − x*‖² / ‖x⁰ − x*‖²",
    "distance2": "‖x − x*‖²",
    "excess_loss": "f(x) − f(x*)",
    "loss": "f(x)",
}
_MOST_POINTS = 4000


@runtime_checkable
class HasTraces(Protocol):
    """Anything with traces by name, such as a Comparison."""

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces."""


def plot(
    thing: Trace | HasTraces | Mapping[str, Trace],
    *,
    x: str | None = None,
    y: str = "error",
    path: str | Path | None = None,
) -> Figure:
    """Draw a trace, a comparison or a dict of traces.

    Parameters
    ----------
    thing
        What to draw.
    x
        "steps", "hops", "transfers" or "bytes" draws that one panel; by default the whole picture: error against
        steps and against transfers, visits against target, and where the model was (if the walk was recorded).
    y
        "error" (relative distance²), "distance2", "excess_loss" or "loss".
    path
        Where to save the figure; the suffix (.png, .pdf, .svg) decides the format.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(lw.ring(50), lw.homogeneous(50), lw.mhlj(), steps=500, step_size=0.01, replicas=4)
    >>> figure = lw.plot(trace)
    >>> len(figure.axes)
    3
    """
    traces = _traces(thing)
    checks.choice("y", y, Y_AXES)
    if x is not None:
        checks.choice("x", x, X_AXES)
        figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=150)
        _curves(figure.add_subplot(), traces, x, y)
        figure.axes[0].legend(frameon=False)
    else:
        figure = _whole_picture(traces, y)
    if path is not None:
        _save(figure, Path(path))
    return figure


def _traces(thing: Any) -> dict[str, Trace]:
    if isinstance(thing, Trace):
        return {thing.name: thing}
    if isinstance(thing, HasTraces):
        return dict(thing.traces)
    if isinstance(thing, Mapping) and thing and all(isinstance(value, Trace) for value in thing.values()):
        return dict(thing)
    raise InvalidParameter(f"plot needs a Trace, a Comparison or a dict of traces, got {type(thing).__name__}")


def _save(figure: Figure, path: Path) -> None:
    known = (".png", ".pdf", ".svg")
    if path.suffix.lower() not in known:
        raise InvalidParameter(f"path must end in one of {', '.join(known)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"path must lie in a folder that exists, got {str(path)!r}; create {str(path.parent)!r} first"
        )
    figure.savefig(path)


def _whole_picture(traces: dict[str, Trace], y: str) -> Figure:
    # Independent draws have no path to show.
    walks = {name: trace for name, trace in traces.items() if trace.walk is not None and "i.i.d." not in name}
    counted = {name: trace for name, trace in traces.items() if trace.visits is not None}
    panels = 2 + bool(counted) + bool(walks)
    rows = 2 if panels > 2 else 1
    figure = Figure(figsize=(10.5, 4.0 * rows), layout="constrained", dpi=150)
    axes = [figure.add_subplot(rows, 2, i + 1) for i in range(panels)]
    _curves(axes[0], traces, "steps", y)
    _curves(axes[1], traces, "transfers", y)
    if counted:
        _visits(axes[2], counted, list(traces))
    if walks:
        _walks(axes[-1], walks, list(traces))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _style(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def _curves(axes: Axes, traces: dict[str, Trace], x: str, y: str) -> None:
    """Draw the mean over walks and its 95 % interval."""
    most = max(trace.replicas for trace in traces.values())
    for i, (name, trace) in enumerate(traces.items()):
        where = trace.step if x == "steps" else getattr(trace, x).mean(axis=0)
        values: Floats = getattr(trace, y)
        line = mean_over_walks(values)
        shown = np.isfinite(line) & (line > 0)
        axes.plot(where[shown], line[shown], label=name, linewidth=1.6, **_style(i))
        if trace.replicas > 1:
            low, high = np.quantile(resampled_means(values, seed=0), [0.025, 0.975], axis=0, method="inverted_cdf")
            axes.fill_between(
                where[shown],
                low[shown],
                np.where(np.isfinite(high), high, line)[shown],
                color=COLOURS[i % len(COLOURS)],
                alpha=0.2,
                linewidth=0,
            )
    axes.set_yscale("log")
    axes.set_xlabel(X_AXES[x])
    axes.set_ylabel(Y_AXES[y])
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_title(f"mean over walks, band: 95 % interval ({most} walks)" if most > 1 else "one walk", fontsize=9)
    _tidy(axes)


def _visits(axes: Axes, traces: dict[str, Trace], names: list[str]) -> None:
    """Draw each node's share of updates against the target's; on the diagonal the walk does as it aims."""
    edges: list[float] = []
    for name, trace in traces.items():
        assert trace.visits is not None
        i = names.index(name)
        share = trace.visits.sum(axis=0) / max(int(trace.visits.sum()), 1)
        keep = _spread(trace.target)
        aimed, got = trace.target[keep], share[keep]
        seen = got > 0
        axes.plot(
            aimed[seen],
            got[seen],
            linestyle="none",
            marker="o^sDvP*X"[i % 8],
            markersize=3.5,
            alpha=0.6,
            color=COLOURS[i % len(COLOURS)],
            markeredgewidth=0,
        )
        edges += [float(aimed.min()), float(aimed.max())]
    low, high = min(edges) / 1.5, max(edges) * 1.5
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    axes.annotate("as aimed", (high, high), xytext=(-30, -8), textcoords="offset points", ha="right", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("share of updates that the target gives a node")
    axes.set_ylabel("share it got")
    axes.set_title("visits against target, one mark per node", fontsize=9)
    _tidy(axes)


def _spread(target: Floats) -> Any:
    """Return which nodes to draw: all, or of very many an even choice that keeps the most important ones."""
    if len(target) <= _MOST_POINTS:
        return np.arange(len(target))
    order = np.argsort(target)
    return np.unique(np.concatenate([order[-200:], order[:: len(target) // _MOST_POINTS + 1]]))


def _walks(axes: Axes, traces: dict[str, Trace], names: list[str]) -> None:
    """Draw where the model was, in the replica that one node held most: a level line is a trapped model."""
    paths = {name: trace.walk for name, trace in traces.items() if trace.walk is not None}
    held = [[np.bincount(walk).max() for walk in walks[: min(map(len, paths.values()))]] for walks in paths.values()]
    r = int(np.max(held, axis=0).argmax())
    for name, walks in paths.items():
        i = names.index(name)
        every = max(1, walks.shape[1] // _MOST_POINTS)
        axes.plot(
            np.arange(0, walks.shape[1], every),
            walks[r, ::every],
            linestyle="none",
            marker=".",
            markersize=1.6,
            color=COLOURS[i % len(COLOURS)],
            alpha=0.7,
        )
    axes.set_xlabel(X_AXES["steps"])
    axes.set_ylabel("node that holds the model")
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_title(f"where the model is, walk {r}: a level line is a trapped model", fontsize=9)
    _tidy(axes)


def _thousands(value: float, _: Any) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e3 else f"{value:g}"


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)


def plot_inspection(
    rows: list[dict[str, Any]], laws: Mapping[str, tuple[Floats, Floats]], *, path: str | Path | None = None
) -> Figure:
    """Draw an inspection: dwell against i.i.d. dwell, mass under the target and under the chain, spectral gaps.

    ``rows`` are `Inspection.rows()`, ``laws`` the target and the chain's own law of each design.
    """
    names = [row["design"] for row in rows]
    figure = Figure(figsize=(10.5, 3.8), layout="constrained", dpi=150)
    dwell, mass, gap = figure.subplots(1, 3)
    where = np.arange(len(names))
    for shift, key, label, colour in (
        (-0.2, "dwell", "this walk", COLOURS[1]),
        (0.2, "iid_dwell", "i.i.d. from the same law", COLOURS[3]),
    ):
        bars = dwell.bar(where + shift, [row[key] for row in rows], 0.38, label=label, color=colour)
        dwell.bar_label(bars, fmt="%.3g", fontsize=8)
    dwell.set_yscale("log")
    dwell.set_ylabel("steps per visit, worst region")
    dwell.legend(frameon=False, fontsize=8, loc="upper left")
    for i, (name, (target, law)) in enumerate(laws.items()):
        keep = _spread(target)
        mass.plot(
            target[keep],
            law[keep],
            linestyle="none",
            marker="o^sDvP*X"[i % 8],
            markersize=3.5,
            alpha=0.6,
            label=name,
            color=COLOURS[i % len(COLOURS)],
            markeredgewidth=0,
        )
    ends = [
        min(float(target.min()) for target, _ in laws.values()),
        max(float(target.max()) for target, _ in laws.values()),
    ]
    mass.plot(ends, ends, color="black", linewidth=0.8)
    mass.set_xscale("log")
    mass.set_yscale("log")
    mass.set_xlabel("share under the target π")
    mass.set_ylabel("share under the chain's own law")
    mass.legend(frameon=False, fontsize=8)
    bars = gap.bar(
        where, [row["spectral_gap"] for row in rows], 0.5, color=[COLOURS[i % len(COLOURS)] for i in range(len(rows))]
    )
    gap.bar_label(
        bars,
        labels=[f"{'' if row['spectral_gap_trusted'] else '≤ '}{row['spectral_gap']:.2g}" for row in rows],
        fontsize=8,
    )
    gaps = [row["spectral_gap"] for row in rows]
    if min(gaps) > 0 and max(gaps) / min(gaps) > 50:
        gap.set_yscale("log")
    gap.set_ylabel("right spectral gap")
    for axes in (dwell, gap):
        axes.set_xticks(where, names)
        axes.margins(y=0.25)
    for axes in (dwell, mass, gap):
        _tidy(axes)
    if path is not None:
        _save(figure, Path(path))
    return figure
