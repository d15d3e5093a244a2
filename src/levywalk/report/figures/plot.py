"""`plot`: draw a trace, a comparison or a tuning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.report.figures.canvas import new_figure, save
from levywalk.report.figures.error_curves import Y_AXES, Goal, error_curves
from levywalk.report.figures.style import COLOURS, X_AXES, node_marks, short_count, spread, tidy
from levywalk.report.figures.tuning import PANELS, tuning_panel, tuning_title
from levywalk.theory import Tuning
from levywalk.trace import Comparison, Trace
from levywalk.trace.ranking import Criterion

_MOST_POINTS = 4000
_MOST_NAMES = 30  # that can be read beside an axis
AxesArray = npt.NDArray[np.object_]  # of matplotlib axes, as pyplot.subplots returns them


@runtime_checkable
class HasTraces(Protocol):
    """Anything with traces by name, such as a Comparison."""

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces."""


Drawn = Trace | HasTraces | Mapping[str, Trace] | Tuning


@overload
def plot(
    thing: Drawn,
    *,
    x: str,
    y: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes: ...
@overload
def plot(
    thing: Drawn,
    *,
    x: None = None,
    y: str | None = None,
    ax: Axes,
    path: str | Path | None = None,
) -> Axes: ...
@overload
def plot(
    thing: Drawn,
    *,
    x: None = None,
    y: str | None = None,
    ax: None = None,
    path: str | Path | None = None,
) -> AxesArray: ...
def plot(
    thing: Drawn,
    *,
    x: str | None = None,
    y: str | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Axes | AxesArray:
    """Draw a trace, a comparison, a dict of traces, or what `levywalk.tune` found.

    A notebook shows the figure at the end of the cell; in a script, ``matplotlib.pyplot.show()``
    does. Curves have bands, the 95 % intervals over walks; a comparison also marks where each
    design reaches the accuracy. The horizontal axis ends where all curves have settled, and is
    logarithmic if some settle much earlier than others; ``axes.set_xlim`` and ``set_xscale`` of
    what is returned change that.

    Parameters
    ----------
    thing
        What to draw.
    x
        "steps", "hops", "transfers", "bytes" or "time" (of runs with ``costs``) draws that one
        panel; by default the whole picture:
        error against steps and against transfers, visits against target, and where the model was
        (if the walk was recorded).
    y
        "error" (relative distance²), "distance2", "excess_loss", "loss" or a metric of the traces,
        such as "accuracy", which is drawn on a linear axis. Default: what a comparison is ranked
        by; else the error, or the loss if the optimum is not known.
    ax
        Axes of yours to draw one panel into: against steps unless ``x`` says otherwise, or the
        predicted cost of a tuning. Default: a new figure.
    path
        Where to save the figure; the suffix (.png, .pdf, .svg) decides the format. Outside a
        notebook a figure that is saved is not shown.

    Returns
    -------
    Axes or array of Axes
        The axes of the panel, if ``x`` or ``ax`` asks for one; else those of all panels.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(
    ...     lw.ring(50), lw.homogeneous(50), lw.mhlj(), steps=500, step_size=0.01, replicas=4
    ... )
    >>> lw.plot(trace).shape
    (3,)
    >>> lw.plot(trace, x="transfers").get_xlabel()
    'transfers (messages between nodes)'
    """
    checks.choice("x", "steps" if x is None else x, X_AXES)
    if ax is not None and not isinstance(ax, Axes):
        raise InvalidParameter(
            f"ax must be matplotlib axes, got {type(ax).__name__}; matplotlib.pyplot.subplots() "
            "returns a figure and its axes"
        )
    if isinstance(thing, Tuning):
        drawn = _tuning(thing, x, y, ax, path)
    else:
        drawn = _comparison(thing, x, y, ax, path)
    if path is not None:
        save(_figure_of(drawn), path)
    return drawn


def _figure_of(drawn: Axes | AxesArray) -> Figure:
    figure = (drawn if isinstance(drawn, Axes) else drawn[0]).get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _comparison(
    thing: Any, x: str | None, y: str | None, ax: Axes | None, path: str | Path | None
) -> Axes | AxesArray:
    traces = _traces(thing)
    metrics = _metrics_of(traces)
    y = _default_y(thing, traces) if y is None else checks.choice("y", y, [*Y_AXES, *metrics])
    if x == "time" and any(trace.time is None for trace in traces.values()):
        raise InvalidParameter(
            "x = 'time' needs runs with costs; give run or compare costs='mobile', or lw.Costs(…)"
        )
    goal = _goal(thing, y)
    if x is None and ax is None:
        return _whole_picture(traces, y, goal, path)
    axes = new_figure(6.4, 4.2, path=path).add_subplot() if ax is None else ax
    error_curves(axes, traces, x or "steps", y, goal)
    axes.legend(frameon=False)
    return axes


def _tuning(
    tuning: Tuning, x: str | None, y: str | None, ax: Axes | None, path: str | Path | None
) -> Axes | AxesArray:
    for name, value in (("x", x), ("y", y)):
        if value is not None:
            raise InvalidParameter(
                f"{name} must be left out for a tuning, got {value!r}: it is drawn against p_jump "
                "or mix"
            )
    if ax is not None:
        tuning_panel(ax, tuning, "cost")
        return ax
    figure = new_figure(10.5, 3.4, path=path)
    panels: AxesArray = figure.subplots(1, len(PANELS))
    for axes, column in zip(panels, PANELS, strict=True):
        tuning_panel(axes, tuning, column)
    figure.suptitle(tuning_title(tuning), fontsize=10)
    return panels


def _goal(thing: Any, y: str) -> Goal | None:
    """Return the accuracy that a comparison is judged by, if ``y`` is what it is ranked by."""
    if not isinstance(thing, Comparison) or thing.accuracy is None:
        return None
    ranked = {"error": Criterion.DISTANCE2, "loss": Criterion.LOSS}.get(y, y)
    if thing.rank_by != ranked:
        return None
    return Goal(thing.accuracy, {name: thing.steps_interval(name) for name in thing.traces})


def _default_y(thing: Any, traces: Mapping[str, Trace]) -> str:
    drawn = (Criterion.EXCESS_LOSS, Criterion.LOSS, *_metrics_of(traces))
    if isinstance(thing, Comparison) and thing.rank_by in drawn:
        return thing.rank_by
    return "loss" if any(trace.optimum is None for trace in traces.values()) else "error"


def _metrics_of(traces: Mapping[str, Trace]) -> list[str]:
    """Return the metrics that all traces have."""
    first, *others = traces.values()
    return [name for name in first.metrics if all(name in other.metrics for other in others)]


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


def _whole_picture(
    traces: dict[str, Trace], y: str, goal: Goal | None, path: str | Path | None
) -> AxesArray:
    # Independent draws have no path to show.
    walks = {
        name: trace
        for name, trace in traces.items()
        if trace.walk is not None and "i.i.d." not in name
    }
    counted = {name: trace for name, trace in traces.items() if trace.visits is not None}
    panels = 2 + bool(counted) + bool(walks)
    rows, columns = (2, 2) if panels == 4 else (1, panels)
    figure = new_figure(5.25 * columns if columns == 2 else 13.5, 4.0 * rows, path=path)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(panels)]
    error_curves(axes[0], traces, "steps", y, goal)
    error_curves(axes[1], traces, "transfers", y, goal)
    if counted:
        _visits(axes[2], counted, list(traces))
    if walks:
        _walks(axes[-1], walks, list(traces))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return np.array(axes, dtype=object)


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


def _walks(axes: Axes, traces: dict[str, Trace], looks: list[str]) -> None:
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
        i = looks.index(name)
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
    names = next(iter(traces.values())).node_names
    if names is not None and len(names) <= _MOST_NAMES:
        axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.xaxis.set_major_formatter(FuncFormatter(short_count))
    axes.set_title(
        f"where the model is, walk {r}: a horizontal line is a trapped model", fontsize=9
    )
    tidy(axes)
