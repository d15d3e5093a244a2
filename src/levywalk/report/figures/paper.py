"""Draw the figures of the paper: two columns wide, readable in grey, in small files."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import LogLocator, NullLocator

from levywalk import checks
from levywalk.report.figures.column import DASHES, MARKS, PAPER_STYLE
from levywalk.report.figures.figure_data import FigureData, Line, Panel, Table
from levywalk.report.figures.style import COLOURS, drawable, tidy

PAGE = 7.0  # inches: both columns
FORMATS = ("svg", "png", "pdf")
_LETTERS_PER_INCH = 20  # letters of the note
_LONG_NUMBER = re.compile(
    rb"(?<![\d.])[1-9]\d*\.\d{2,}"
)  # a coordinate; scale factors are less than 1
_CSS = re.compile(rb'style="[^"]*"')
_MARGIN = re.compile(rb"\s*\n\s*")
_LINES_WITH_FULL_BANDS = 4
_MANY = 20  # points
_BEYOND = 1e3  # a line that leaves the figure is cut off this far above it
_STYLE: dict[Any, Any] = PAPER_STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "levywalk",
    "savefig.dpi": 200,
}
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def write_figure(data: FigureData, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw a figure into a folder, which is created if it is missing; return the files, one per
    format.

    Examples
    --------
    >>> import tempfile
    >>> x = np.array([1.0, 10.0])
    >>> panel = Panel("ring", "steps", "error", (Line("MHLJ", 2, x, 1.0 / x, 0.5 / x, 2.0 / x),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = FigureData("one", "One", "", ((panel,),))
    ...     [path.name for path in write_figure(data, Path(folder), ["svg", "png"])]
    ['one.svg', 'one.png']
    """
    return write_formats(data.name, lambda: draw(data), folder, formats)


def write_formats(
    name: str, drawing: Callable[[], Figure], folder: Path, formats: Sequence[str]
) -> list[Path]:
    """Draw in the style of the paper's figures, and write one file per format into the folder."""
    for suffix in formats:
        checks.choice("formats", suffix, FORMATS)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{suffix}" for suffix in formats]
    with mpl.rc_context(_STYLE):
        figure = drawing()
        for path in paths:
            path.write_bytes(_content(figure, path.suffix[1:]))
    return paths


def _content(figure: Figure, suffix: str) -> bytes:
    """Return a figure as the bytes of its file; coordinates of an SVG are rounded, which halves its
    size.
    """
    file = io.BytesIO()
    figure.savefig(file, format=suffix, metadata=_UNDATED[suffix])
    if suffix != "svg":
        return file.getvalue()
    content = _LONG_NUMBER.sub(lambda found: b"%.1f" % float(found[0]), file.getvalue())
    content = _CSS.sub(lambda found: found[0].replace(b": ", b":").replace(b"; ", b";"), content)
    return _MARGIN.sub(b"\n", content)


def draw(data: FigureData) -> Figure:
    """Draw a figure: panels of a row share the y axis, and all share a legend under the title."""
    rows, columns = len(data.rows), len(data.rows[0])
    note = textwrap.wrap(data.note, int(PAGE * _LETTERS_PER_INCH))
    names = {
        line.name
        for row in data.rows
        for panel in row
        if isinstance(panel, Panel)
        for line in panel.lines
    }
    height = (
        0.5 + 0.13 * len(note) + 0.16 * -(-len(names) // 4) + rows * (1.7 if columns > 2 else 2.3)
    )
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    grid = figure.subplots(rows, columns, sharey="row" if data.shared else "none", squeeze=False)
    for row, axes_of_row in zip(data.rows, grid, strict=True):
        for panel, axes in zip(row, axes_of_row, strict=True):
            if isinstance(panel, Table):
                _table(axes, panel)
            else:
                _panel(axes, panel)
        if isinstance(row[0], Panel):
            _shared(axes_of_row, row)
    _legend(figure, data.title, grid.ravel().tolist())
    figure.supxlabel("\n".join(note), fontsize=6.5, x=0.01, ha="left")
    return figure


def _legend(figure: Figure, title: str, every: Sequence[Axes]) -> None:
    """Name each line once, under the title."""
    named: dict[str, Any] = {}
    for axes in every:
        handles, names = axes.get_legend_handles_labels()
        named |= dict(zip(names, handles, strict=True))
    if len(named) < 2:
        figure.suptitle(title, fontsize=9, fontweight="bold")
        return
    widest = max(len(name) for name in named)
    columns = min(len(named), max(2, int(PAGE * _LETTERS_PER_INCH) // (widest + 16)))
    legend = figure.legend(
        list(named.values()),
        list(named),
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        handlelength=3.4,
    )
    legend.set_title(title, prop=FontProperties(size=9, weight="bold"))


def _shared(axes_of_row: Sequence[Axes], row: Sequence[Any]) -> None:
    """Label the y axis once, and let it begin below the lowest line; bands may be cut off."""
    axes_of_row[0].set_ylabel(row[0].y_label)
    for axes in axes_of_row:
        low, high = axes.get_ylim()
        between = LogLocator(subs=(2.0, 3.0, 5.0, 7.0)) if high < 30.0 * low else NullLocator()
        axes.yaxis.set_minor_locator(between)
    if row[0].top is not None:
        values = np.concatenate([line.y for panel in row for line in panel.lines])
        axes_of_row[0].set_ylim(float(values[values > 0].min()) / 2.0, row[0].top)


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for i, line in enumerate(panel.lines):
        _line(axes, line, panel, i / max(len(panel.lines), 1))
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    if panel.falling_x:
        axes.invert_xaxis()
    _marks(axes, panel)
    _fates(axes, panel)
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    tidy(axes)


def _line(axes: Axes, line: Line, panel: Panel, offset: float) -> None:
    cap = np.inf if panel.top is None else panel.top * (1.0 if panel.capped else _BEYOND)
    y, high = np.minimum(line.y, cap), np.minimum(line.high, cap)
    shown = drawable(y)
    colour = COLOURS[line.look % len(COLOURS)]
    every: Any = (0.04 + 0.18 * offset, 0.22) if shown.sum() > _MANY else None
    style: dict[str, Any] = {
        "linestyle": DASHES[line.look % len(DASHES)],
        "marker": MARKS[line.look % len(MARKS)],
    }
    if line.points:
        style |= {"linestyle": "none", "markersize": 6, "zorder": 4}
        style |= {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.6}
    axes.plot(line.x[shown], y[shown], color=colour, label=line.name, markevery=every, **style)
    band = np.flatnonzero(shown & (line.low > 0))
    if len(band) > _MANY:  # every other point is enough for a band
        band = band[(len(band) - 1) % 2 :: 2]
    upper = np.where(drawable(high), high, y)
    alpha = 0.18 if len(panel.lines) <= _LINES_WITH_FULL_BANDS else 0.07
    axes.fill_between(
        line.x[band], line.low[band], upper[band], color=colour, alpha=alpha, linewidth=0
    )
    if line.fate == "ends" and shown.any():
        last = np.flatnonzero(shown)[-1]
        axes.plot(line.x[last], y[last], marker="x", markersize=6, color=colour, linestyle="none")


def _marks(axes: Axes, panel: Panel) -> None:
    style: dict[str, Any] = {
        "color": "black",
        "linewidth": 0.7,
        "linestyle": (0, (2, 2)),
        "zorder": 1,
    }
    for mark in panel.marks:
        axes.axvline(mark.at, **style)
        axes.text(
            mark.at,
            0.02,
            f" {mark.text}",
            transform=axes.get_xaxis_transform(),
            fontsize=7,
            ha="left",
        )


def _fates(axes: Axes, panel: Panel) -> None:
    """Write which lines diverge."""
    gone = [line for line in panel.lines if line.fate == "diverges"]
    for i, line in enumerate(gone):
        colour = COLOURS[line.look % len(COLOURS)]
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "top"}
        axes.text(
            0.98, 0.97 - 0.11 * i, f"{line.name} diverges", color=colour, fontsize=6.5, **place
        )


def _table(axes: Axes, table: Table) -> None:
    axes.imshow(np.sqrt(np.nan_to_num(table.values)), cmap="Greys", vmin=0.0, vmax=1.6)
    n = len(table.values)
    for v in range(n):
        for u in range(n):
            colour = "white" if table.values[v][u] > 0.8 else "black"
            axes.text(u, v, table.text[v][u], ha="center", va="center", fontsize=4.5, color=colour)
    nodes = [str(v + 1) for v in range(n)]
    axes.set_xticks(range(n), nodes)
    axes.set_yticks(range(n), nodes)
    axes.set_xlabel(f"to node\n{table.note}")
    axes.set_ylabel("from node")
    axes.set_title(table.title)
    axes.tick_params(length=0)
