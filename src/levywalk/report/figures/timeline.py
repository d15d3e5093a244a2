"""The timeline of a fleet: which node had the model at which time, in which epoch, and the
faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from levywalk.report.figures.canvas import save
from levywalk.report.figures.style import COLOURS, tidy

Leg = tuple[
    str, Sequence[float], Sequence[int], bool
]  # name, times, nodes, whether it was overtaken
Mark = tuple[float, int, str]  # time, node, what
Bar = tuple[int, float, float, str]  # node, from, to, what

_MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "kill": ("killed", {"marker": "X", "color": "#B00020", "markersize": 9}),
    "lose disk": (
        "disk lost",
        {"marker": "X", "color": "#B00020", "markersize": 9, "markeredgecolor": "black"},
    ),
    "restart": ("starts again", {"marker": "^", "color": "#2E7D32", "markersize": 8}),
    "leave": ("leaves", {"marker": "<", "color": "#555555", "markersize": 8}),
    "join": ("joins", {"marker": ">", "color": "#2E7D32", "markersize": 8}),
    "model refused": ("model refused", {"marker": "X", "color": "#D81B60", "markersize": 11}),
    "poison": ("sends false models", {"marker": "P", "color": "#D81B60", "markersize": 9}),
    "regenerated": ("brought back", {"marker": "*", "color": "#FFB300", "markersize": 14}),
    "guardian gone": (
        "continues without its guardian",
        {"marker": "P", "color": "#FFB300", "markersize": 10},
    ),
    "finished": ("the end", {"marker": "s", "color": "black", "markersize": 7}),
}
_BARS: dict[str, tuple[str, dict[str, Any]]] = {
    "away": ("not running", {"color": "#9E9E9E", "alpha": 0.45}),
    "cut": ("cut off", {"color": "#B3D4FC", "alpha": 0.55}),
}
_MOST_TICKS = 16


def plot_timeline(
    n: int,
    end: float,
    legs: Sequence[Leg],
    marks: Sequence[Mark] = (),
    bars: Sequence[Bar] = (),
    *,
    title: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Draw which node had the model at which time: one colour per epoch, faults as marks.

    Parameters
    ----------
    n, end
        How many nodes, and the last time.
    legs
        The model's way in each epoch: (name, times, nodes, lost). What was lost is dotted.
    marks, bars
        What happened to a node at a time, and how a node was between two times.

    Examples
    --------
    >>> figure = plot_timeline(
    ...     3, 2.0, [("epoch 0", [0.0, 1.0, 2.0], [0, 1, 1], False)], [(1.5, 2, "kill")]
    ... )
    >>> figure.axes[0].get_ylabel()
    'node'
    """
    figure = Figure(
        figsize=(11.0, float(np.clip(1.8 + 0.15 * n, 3.6, 9.0))), layout="constrained", dpi=150
    )
    axes = figure.add_subplot()
    for v, since, until, what in bars:
        axes.barh(v, until - since, left=since, height=0.9, linewidth=0, zorder=1, **_BARS[what][1])
    colours = {
        name: COLOURS[i % len(COLOURS)]
        for i, name in enumerate(dict.fromkeys(leg[0] for leg in legs))
    }
    for leg in legs:
        _way(axes, leg, colours[leg[0]], n)
    for time, v, what in marks:
        axes.plot(time, v, linestyle="none", zorder=5, **_MARKS[what][1])
    axes.set_xlim(0.0, end * 1.01)
    axes.set_ylim(-0.7, n - 0.3)
    axes.set_xlabel("virtual seconds")
    axes.set_ylabel("node")
    axes.yaxis.set_major_locator(MaxNLocator(min(n, _MOST_TICKS), integer=True))
    if title:
        axes.set_title(title, loc="left", fontsize=10)
    tidy(axes)
    handles = _legend(colours, legs, marks, bars)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 6),
        frameon=False,
        fontsize=8,
    )
    if path is not None:
        save(figure, Path(path))
    return figure


def _way(axes: Axes, leg: Leg, colour: str, n: int) -> None:
    """Draw stays as thick lines and moves as thin ones; long moves are very faint."""
    _, times, nodes, lost = leg
    when, where = np.asarray(times, dtype=float), np.asarray(nodes, dtype=float)
    style: dict[str, Any] = {"colors": colour, "zorder": 2 if lost else 3}
    if lost:
        axes.plot(
            when[-1],
            where[-1],
            linestyle="none",
            marker="x",
            color=colour,
            markersize=9,
            markeredgewidth=2,
        )
    stays = np.stack([np.c_[when[:-1], where[:-1]], np.c_[when[1:], where[:-1]]], axis=1)
    axes.add_collection(
        LineCollection(list(stays), linewidths=2.2, linestyles=":" if lost else "-", **style)
    )
    moves = np.stack([np.c_[when[1:], where[:-1]], np.c_[when[1:], where[1:]]], axis=1)
    far = np.abs(np.diff(where)) > max(n / 2, 2)
    for part, alpha in ((moves[~far], 0.3 if lost else 0.75), (moves[far], 0.12)):
        axes.add_collection(LineCollection(list(part), linewidths=0.9, alpha=alpha, **style))


def _legend(
    colours: dict[str, str], legs: Sequence[Leg], marks: Iterable[Mark], bars: Iterable[Bar]
) -> list[Line2D | Patch]:
    """Return the entries of the legend, each once."""
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=c, linewidth=2.2, label=name) for name, c in colours.items()
    ]
    if any(lost for *_, lost in legs):
        handles.append(
            Line2D([], [], color="black", linewidth=1.5, linestyle=":", marker="x", label="lost")
        )
    seen = {what for _, _, what in marks}
    handles += [
        Line2D([], [], linestyle="none", label=_MARKS[w][0], **_MARKS[w][1])
        for w in _MARKS
        if w in seen
    ]
    spans = {what for *_, what in bars}
    handles += [Patch(label=_BARS[w][0], **_BARS[w][1]) for w in _BARS if w in spans]
    return handles
