"""`plot`: draw a trace, a comparison or a tuning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from levywalk import checks
from levywalk.arrays import Bools, Floats
from levywalk.errors import InvalidParameter
from levywalk.theory import Tuning
from levywalk.trace import Comparison, Trace
from levywalk.trace.ranking import Criterion
from levywalk.trace.statistics import mean_over_walks, resampled_means

# Okabe and Ito's colours: colour-blind readers can tell them apart, and so can readers of a grey
# print.
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
_ROUNDING = 1e-20  # a relative floor below this counts as zero


@runtime_checkable
class HasTraces(Protocol):
    """Anything with traces by name, such as a Comparison."""

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces."""


_LARGEST = 1e300  # matplotlib's margins around larger values overflow


def plot(
    thing: Trace | HasTraces | Mapping[str, Trace] | Tuning,
    *,
    x: str | None = None,
    y: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw a trace, a comparison, a dict of traces, or what `levywalk.tune` found.

    Parameters
    ----------
    thing
        What to draw.
    x
        "steps", "hops", "transfers" or "bytes" draws that one panel; by default the whole picture:
        error against steps and against transfers, visits against target, and where the model was
        (if the walk was recorded).
    y
        "error" (relative distance²), "distance2", "excess_loss" or "loss". Default: what a
        comparison is ranked by; else the error, or the loss if the optimum is not known.
    path
        Where to save the figure; the suffix (.png, .pdf, .svg) decides the format.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(
    ...     lw.ring(50), lw.homogeneous(50), lw.mhlj(), steps=500, step_size=0.01, replicas=4
    ... )
    >>> figure = lw.plot(trace)
    >>> len(figure.axes)
    3
    """
    if isinstance(thing, Tuning):
        return plot_tuning(thing, path=path)
    traces = _traces(thing)
    y = _default_y(thing, traces) if y is None else checks.choice("y", y, Y_AXES)
    if x is not None:
        checks.choice("x", x, X_AXES)
        figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=150)
        _curves(figure.add_subplot(), traces, x, y)
        figure.axes[0].legend(frameon=False)
    else:
        figure = _whole_picture(traces, y)
    if path is not None:
        save(figure, Path(path))
    return figure


def _default_y(thing: Any, traces: Mapping[str, Trace]) -> str:
    if isinstance(thing, Comparison) and thing.rank_by in (Criterion.EXCESS_LOSS, Criterion.LOSS):
        return thing.rank_by
    return "loss" if any(trace.optimum is None for trace in traces.values()) else "error"


def _traces(thing: Any) -> dict[str, Trace]:
    if isinstance(thing, Trace):
        return {thing.name: thing}
    if isinstance(thing, HasTraces):
        return dict(thing.traces)
    if (
        isinstance(thing, Mapping)
        and thing
        and all(isinstance(value, Trace) for value in thing.values())
    ):
        return dict(thing)
    raise InvalidParameter(
        f"plot needs a Trace, a Comparison or a dict of traces, got {type(thing).__name__}"
    )


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix decides the format."""
    known = (".png", ".pdf", ".svg")
    if path.suffix.lower() not in known:
        raise InvalidParameter(f"path must end in one of {', '.join(known)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"path must lie in a folder that exists, got {str(path)!r}; create "
            f"{str(path.parent)!r} first"
        )
    figure.savefig(path)


def _whole_picture(traces: dict[str, Trace], y: str) -> Figure:
    # Independent draws have no path to show.
    walks = {
        name: trace
        for name, trace in traces.items()
        if trace.walk is not None and "i.i.d." not in name
    }
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
        shown = drawable(line)
        axes.plot(where[shown], line[shown], label=name, linewidth=1.6, **_style(i))
        if trace.replicas > 1:
            low, high = np.quantile(
                resampled_means(values, seed=0), [0.025, 0.975], axis=0, method="inverted_cdf"
            )
            axes.fill_between(
                where[shown],
                low[shown],
                np.where(drawable(high), high, line)[shown],
                color=COLOURS[i % len(COLOURS)],
                alpha=0.2,
                linewidth=0,
            )
    axes.set_yscale("log")
    axes.set_xlabel(X_AXES[x])
    axes.set_ylabel(_y_label(traces, y))
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_title(
        f"mean over walks, band: 95 % interval ({most} walks)" if most > 1 else "one walk",
        fontsize=9,
    )
    tidy(axes)


def _y_label(traces: dict[str, Trace], y: str) -> str:
    """Name the axis, and what a loss was measured on if not on all nodes."""
    samples = (
        sorted({trace.sampled_loss for trace in traces.values()} - {""}) if "loss" in y else []
    )
    return f"sampled {Y_AXES[y]}  ({', '.join(samples)})" if samples else Y_AXES[y]


def _visits(axes: Axes, traces: dict[str, Trace], names: list[str]) -> None:
    """Draw each node's share of updates against its share under the target; equal shares lie on the
    diagonal.
    """
    edges: list[float] = []
    for name, trace in traces.items():
        assert trace.visits is not None
        i = names.index(name)
        share = trace.visits.sum(axis=0) / max(int(trace.visits.sum()), 1)
        keep = spread(trace.target)
        aimed, got = trace.target[keep], share[keep]
        seen = got > 0
        node_marks(axes, aimed[seen], got[seen], i)
        edges += [float(aimed.min()), float(aimed.max())]
    low, high = min(edges) / 1.5, max(edges) * 1.5
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    axes.annotate(
        "as targeted",
        (high, high),
        xytext=(-30, -8),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("share of updates that the target gives a node")
    axes.set_ylabel("share of updates that it got")
    axes.set_title("visits against target, one mark per node", fontsize=9)
    tidy(axes)


def node_marks(axes: Axes, x: Floats, y: Floats, i: int, label: str | None = None) -> None:
    """Draw one mark per node in the i-th design's colour and shape."""
    style: dict[str, Any] = {
        "marker": "o^sDvP*X"[i % 8],
        "color": COLOURS[i % len(COLOURS)],
        "label": label,
    }
    axes.plot(x, y, linestyle="none", markersize=3.5, alpha=0.6, markeredgewidth=0, **style)


def spread(target: Floats) -> Any:
    """Return which nodes to draw: all, or if there are too many, the most important and every
    k-th.
    """
    if len(target) <= _MOST_POINTS:
        return np.arange(len(target))
    order = np.argsort(target)
    return np.unique(np.concatenate([order[-200:], order[:: len(target) // _MOST_POINTS + 1]]))


def _walks(axes: Axes, traces: dict[str, Trace], names: list[str]) -> None:
    """Draw where the model was, in the replica that was held longest by one node.

    A horizontal line is a trapped model.
    """
    paths = {name: trace.walk for name, trace in traces.items() if trace.walk is not None}
    held = [
        [np.bincount(walk).max() for walk in walks[: min(map(len, paths.values()))]]
        for walks in paths.values()
    ]
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
    axes.set_title(
        f"where the model is, walk {r}: a horizontal line is a trapped model", fontsize=9
    )
    tidy(axes)


def _thousands(value: float, _: Any) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e3 else f"{value:g}"


def drawable(values: Floats) -> Bools:
    """Return which values a logarithmic axis can show; a diverging model's error may be too large.

    Examples
    --------
    >>> drawable(np.array([1.0, 0.0, 1e305, np.inf, np.nan])).tolist()
    [True, False, False, False, False]
    """
    return np.asarray((values > 0) & (values < _LARGEST))


def tidy(axes: Axes) -> None:
    """Remove lines that carry no information, and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)


def plot_tuning(tuning: Tuning, *, path: str | Path | None = None) -> Figure:
    """Draw predicted cost, spectral gap and error floor against p_jump or λ."""
    axis = next(iter(tuning.parameters))
    table = tuning.table()
    where = table[axis].to_numpy()
    figure = Figure(figsize=(10.5, 3.4), layout="constrained", dpi=150)
    label = {"p_jump": "p_jump", "mix": "λ, the share of the uniform law"}[axis]
    panels = {
        "cost": "predicted cost to the accuracy",
        "spectral_gap": "right spectral gap",
        "bias2": "floor: ‖x̃ − x*‖² / ‖x*‖²",
    }
    for axes, (column, title) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        values = table[column].to_numpy()
        shown = np.isfinite(values) & (values > _ROUNDING)
        axes.plot(where[shown], values[shown], marker="o", markersize=3.5, color=COLOURS[0])
        axes.axvline(tuning.parameters[axis], color=COLOURS[1], linewidth=1.0, linestyle="--")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(label)
        if axis == "p_jump" and (where > 0).any():
            axes.set_xscale("symlog", linthresh=float(where[where > 0].min()))
        axes.set_xlim(left=0.0)
        if not shown.any():
            axes.annotate("none", (0.5, 0.5), xycoords="axes fraction", ha="center")
        if shown.any() and values[shown].max() > 10 * values[shown].min():
            axes.set_yscale("log")
        tidy(axes)
    rest = ", ".join(f"{name} = {value:g}" for name, value in tuning.parameters.items())
    figure.suptitle(f"least predicted cost {tuning.cost:,.0f} at {rest}", fontsize=10)
    if path is not None:
        save(figure, Path(path))
    return figure
