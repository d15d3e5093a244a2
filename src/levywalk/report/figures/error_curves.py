"""Errors of several traces against steps, hops, transfers or bytes, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import offset_copy

from levywalk.arrays import Floats
from levywalk.report.figures.style import (
    COLOURS,
    X_AXES,
    drawable,
    line_style,
    short_count,
    show_range,
    tidy,
)
from levywalk.report.x_range import XRange, x_range
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks, resampled_means

Y_AXES = {
    "error": "error  ‖x − x*‖² / ‖x⁰ − x*‖²",
    "distance2": "‖x − x*‖²",
    "excess_loss": "f(x) − f(x*)",
    "loss": "f(x)",
}
_HIGHEST = 1e3  # a diverging curve leaves the figure at this multiple of where the curves begin
_LARGEST = 1e300  # matplotlib's margins around larger values overflow
_BETWEEN_BARS = 4.0  # points


@dataclass(frozen=True)
class Goal:
    """The accuracy of a comparison, and the steps to it of each design with its interval."""

    accuracy: float
    steps: Mapping[str, tuple[float, float, float]]


def error_curves(
    axes: Axes, traces: Mapping[str, Trace], x: str, y: str, goal: Goal | None = None
) -> None:
    """Draw the mean over walks and its 95 % interval; a mark shows where a design reaches the goal,
    with the interval of that.
    """
    most = max(trace.replicas for trace in traces.values())
    lines: dict[str, tuple[Floats, Floats]] = {}
    for i, (name, trace) in enumerate(traces.items()):
        where, values = _where(trace, x), _values(trace, y)
        line = mean_over_walks(values)
        shown = drawable(line) if y in Y_AXES else np.isfinite(line)
        axes.plot(where[shown], line[shown], label=name, linewidth=1.6, **line_style(i))
        if trace.replicas > 1:
            low, high = np.quantile(
                resampled_means(values, seed=0), [0.025, 0.975], axis=0, method="inverted_cdf"
            )
            axes.fill_between(
                where[shown],
                low[shown],
                np.where(np.isfinite(high) & (high < _LARGEST), high, line)[shown],
                color=COLOURS[i % len(COLOURS)],
                alpha=0.2,
                linewidth=0,
            )
        # Checkpoints without a metric are no part of its curve.
        lines[name] = (where, line) if y in Y_AXES else (where[shown], line[shown])
    reached = _goal_marks(axes, traces, x, goal) if goal is not None else []
    extent = x_range(list(lines.values()), reached)
    if y in Y_AXES:
        axes.set_yscale("log")
    axes.set_xlabel(X_AXES[x])
    axes.set_ylabel(_y_label(traces, y))
    show_range(axes, extent)
    if y in Y_AXES:
        _limit_height(axes, [line for _, line in lines.values()])
    axes.set_title(_title(most, extent), fontsize=9)
    tidy(axes)


def _values(trace: Trace, y: str) -> Floats:
    found: Floats = trace.metrics[y] if y in trace.metrics else getattr(trace, y)
    return found


def _where(trace: Trace, x: str) -> Floats:
    """Return the mean over walks of what the horizontal axis counts, at each checkpoint."""
    counted = trace.step if x == "steps" else getattr(trace, x).mean(axis=0)
    return np.asarray(counted, dtype=np.float64)


def _goal_marks(axes: Axes, traces: Mapping[str, Trace], x: str, goal: Goal) -> list[float]:
    """Draw the goal and where it is reached; return the latter, on the axis."""
    axes.axhline(goal.accuracy, color="black", linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
    looks = list(traces)
    met = {name: ends for name, ends in goal.steps.items() if math.isfinite(ends[0])}
    reached = []
    for k, (name, ends) in enumerate(met.items()):
        trace, colour = traces[name], COLOURS[looks.index(name) % len(COLOURS)]
        point, low, high = np.interp(ends, trace.step, _where(trace, x)).tolist()
        # beside each other, and not on top
        points = _BETWEEN_BARS * ((len(met) - 1) / 2 - k)
        place = offset_copy(axes.transData, axes.get_figure(root=True), y=points, units="points")
        bar: dict[str, Any] = {"color": colour, "transform": place, "zorder": 3}
        axes.plot([low, high], [goal.accuracy] * 2, linewidth=1.8, solid_capstyle="butt", **bar)
        axes.plot([point], [goal.accuracy], "o", markersize=5, markeredgecolor="white", **bar)
        reached.append(point)
    if met:
        axes.annotate(
            "marks: where the dotted level is reached, with the 95 % interval",
            (0.015, 0.02),
            xycoords="axes fraction",
            fontsize=7,
        )
    return reached


def _y_label(traces: Mapping[str, Trace], y: str) -> str:
    """Name the axis, and what a loss was measured on if not on all nodes."""
    if y not in Y_AXES:
        return y
    samples = (
        sorted({trace.sampled_loss for trace in traces.values()} - {""}) if "loss" in y else []
    )
    return f"sampled {Y_AXES[y]}  ({', '.join(samples)})" if samples else Y_AXES[y]


def _limit_height(axes: Axes, lines: list[Floats]) -> None:
    """Let a diverging curve leave at the top, so that the others can be read."""
    starts = [float(line[0]) for line in lines if drawable(line[:1])[0]]
    if not starts:
        return
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, min(top, _HIGHEST * max(starts)))


def _title(walks: int, extent: XRange) -> str:
    title = f"mean of {walks} walks, 95 % band" if walks > 1 else "one walk"
    end = short_count(float(f"{extent.end:.3g}"))
    return f"{title}; level from here to {end}" if extent.is_cut else title
