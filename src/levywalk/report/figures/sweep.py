"""The figure of a sweep: steps to the accuracy against the first swept key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from levywalk.arrays import Floats
from levywalk.report.figures.canvas import save
from levywalk.report.figures.style import COLOURS, DASHES, tidy

_MARKS = "o^sDvP*X"
_MOST_COLUMNS = 4
_MARGIN = 0.07
_WIDE = 10.0  # a key whose values span more than this factor gets a logarithmic axis


@dataclass(frozen=True)
class _Style:
    """The look of a design; ``aside`` is its horizontal offset in points."""

    label: str
    colour: str
    dashes: str
    mark: str
    aside: float


def _styles(designs: list[str]) -> list[_Style]:
    middle = (len(designs) - 1) / 2
    return [
        _Style(
            name,
            COLOURS[i % len(COLOURS)],
            DASHES[i % len(DASHES)],
            _MARKS[i % len(_MARKS)],
            2.5 * (i - middle),
        )
        for i, name in enumerate(designs)
    ]


def plot_sweep(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], *, path: str | Path | None = None
) -> Figure:
    """Draw steps to the accuracy against the first key, one line per design, one panel per value of
    the second.

    If further keys give several results, each is a faint mark and the line goes through their
    median; if there is one, its 95 % interval is drawn. What was not reached is a hollow mark in a
    band above.

    Parameters
    ----------
    rows
        Dicts with the swept values by key, ``design``, ``accuracy``, ``steps_to`` and its ``_low``
        and ``_high``.
    keys
        The swept keys.
    path
        Where to save the figure.

    Examples
    --------
    >>> row = {"design": "MHLJ", "accuracy": 0.1, "steps_to_low": 10.0, "steps_to_high": math.inf}
    >>> figure = plot_sweep(
    ...     [row | {"n": 5, "steps_to": 20.0}, row | {"n": 9, "steps_to": math.inf}], ["n"]
    ... )
    >>> len(figure.axes)
    1
    """
    panels = _distinct(row[keys[1]] for row in rows) if len(keys) > 1 else [None]
    styles = _styles(_distinct(row["design"] for row in rows))
    columns = min(len(panels), _MOST_COLUMNS)
    lines = -(-len(panels) // columns)
    figure = Figure(
        figsize=(max(6.4, 3.4 * columns + 0.6), 3.4 * lines + 0.9), layout="constrained", dpi=150
    )
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    values = _distinct(row[keys[0]] for row in rows)
    drawn = [
        row[f"steps_to{end}"]
        for row in rows
        for end in (("",) if len(keys) > 2 else ("", "_low", "_high"))
    ]
    seen = [value for value in drawn if 0 < value < math.inf] or [1.0]
    above = 1.6 * max(seen)  # where values that were not reached are drawn
    for axes, panel in zip(grid, panels, strict=False):
        inside = [row for row in rows if len(keys) < 2 or row[keys[1]] == panel]
        for style in styles:
            own = [row for row in inside if row["design"] == style.label]
            _line(axes, own, keys[0], values, above, style)
        if len(keys) > 1:
            axes.set_title(f"{keys[1]} = {_text(panel)}", fontsize=9)
        _x_axis(axes, values)
        _y_axis(axes)
        tidy(axes)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    grid[0].set_ylim(min(seen) / 1.25, 1.25 * (above if math.inf in drawn else max(seen)))
    if math.inf in drawn:
        for axes in grid[: len(panels)]:
            _band_of_not_reached(axes, above)
    _labels(figure, rows, keys, grid[0])
    if path is not None:
        save(figure, Path(path))
    return figure


def _y_axis(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _band_of_not_reached(axes: Axes, above: float) -> None:
    axes.axhline(above / 1.22, color="black", linewidth=0.6, linestyle=":")
    place = (0.01, above * 1.04)
    units = ("axes fraction", "data")
    axes.annotate("not reached", place, xycoords=units, fontsize=7, va="bottom")


def _labels(
    figure: Figure, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], first: Axes
) -> None:
    accuracies = _distinct(row["accuracy"] for row in rows)
    goal = "the accuracy"
    if len(accuracies) == 1:
        goal = f"{100 * accuracies[0]:g} % of the initial error"
    figure.supylabel(f"steps to {goal}", fontsize=10)
    note = "bars: 95 % interval over walks"
    if len(keys) > 2:
        note = f"marks: {', '.join(keys[2:])}; line: median"
    figure.supxlabel(f"{keys[0]}   ({note})", fontsize=10)
    handles, labels = first.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def _line(
    axes: Axes,
    rows: list[Mapping[str, Any]],
    key: str,
    values: list[Any],
    above: float,
    style: _Style,
) -> None:
    """Draw one design in one panel, shifted a little, so that intervals of several designs do not
    overlap.
    """
    figure = axes.figure
    assert figure is not None
    place = axes.transData + ScaledTranslation(style.aside / 72, 0, figure.dpi_scale_trans)
    mark: dict[str, Any] = {"marker": style.mark, "color": style.colour, "transform": place}
    where, middle = [], []
    for position, value in zip(_positions(values), values, strict=True):
        group = [row for row in rows if row[key] == value]
        if not group:
            continue
        steps = np.array([row["steps_to"] for row in group], dtype=float)
        low, high = (float(np.quantile(steps, 0.5, method=end)) for end in ("lower", "higher"))
        where.append(position)
        middle.append(
            math.sqrt(low) * math.sqrt(high)
        )  # as on the axis; infinite if one of them is
        if len(group) > 1:
            single = {**mark, "markersize": 3, "alpha": 0.4, "markeredgewidth": 0}
            axes.plot(
                np.full(len(steps), position), _capped(steps, above), linestyle="none", **single
            )
        else:
            ends = _capped(
                np.array([group[0]["steps_to_low"], group[0]["steps_to_high"]], dtype=float), above
            )
            axes.plot(
                [position, position],
                ends,
                color=style.colour,
                linewidth=1.0,
                alpha=0.7,
                transform=place,
            )
    x, y = np.array(where), np.array(middle)
    reached = np.isfinite(y)
    line: dict[str, Any] = {
        "linestyle": style.dashes,
        "markersize": 5,
        "linewidth": 1.6,
        "label": style.label,
    }
    axes.plot(x, np.where(reached, y, np.nan), **mark, **line)
    axes.plot(
        x[~reached],
        np.full((~reached).sum(), above),
        linestyle="none",
        markerfacecolor="none",
        **mark,
    )


def _capped(values: Floats, above: float) -> Floats:
    return np.where(np.isfinite(values), values, above)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positions(values: list[Any]) -> list[float]:
    """Return where values lie on the axis: themselves if numbers, else one after the other."""
    return (
        [float(v) for v in values]
        if all(map(_is_number, values))
        else [float(i) for i in range(len(values))]
    )


def _x_axis(axes: Axes, values: list[Any]) -> None:
    positions = _positions(values)
    low, high = min(positions), max(positions)
    if all(map(_is_number, values)) and low > 0 and high >= _WIDE * low:
        axes.set_xscale("log")
        axes.set_xlim(low / (high / low) ** _MARGIN, high * (high / low) ** _MARGIN)
    else:
        margin = _MARGIN * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    if len(values) <= 8:
        long = max(len(_text(value)) for value in values) > 8
        axes.set_xticks(
            positions, [_text(value) for value in values], rotation=20 if long else 0, fontsize=8
        )
        axes.set_xticks([], minor=True)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{item}" if key in ("family", "kind", "data") else f"{key}={item}"
            for key, item in value.items()
        )
    return json.dumps(value) if isinstance(value, list) else str(value)


def _distinct(values: Any) -> list[Any]:
    """Return the distinct values in order; tables cannot be hashed."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
