"""Draw where a claim holds: one coloured cell for each comparison and column."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from levywalk.point_answer import PointAnswer
from levywalk.report.figures.figure_data import RegionData
from levywalk.report.figures.paper import PAGE, write_formats

# Readable in grey too: yes is dark, no is light with a cross hatch, unclear is white with lines.
LOOKS: dict[str, tuple[str, str, str]] = {
    PointAnswer.YES: ("#0072B2", "", "white"),
    PointAnswer.NO: ("#E69F00", "", "black"),
    PointAnswer.UNCLEAR: ("white", "////", "black"),
    PointAnswer.SHOWN: ("#EEEEEE", "", "black"),
}
_ROW = 0.2  # inches
_HATCH = "#BBBBBB"


def write_region(data: RegionData, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw a picture into a folder, which is created if it is missing; return the files.

    Examples
    --------
    >>> import tempfile
    >>> from levywalk.report.figures.figure_data import RegionCell
    >>> cell = RegionCell("yes", "0.5")
    >>> data = RegionData("one", "One", "", ("A/B",), (("SNR 10", "1 %"),), ((cell,),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_region(data, Path(folder), ["png"])]
    ['one.png']
    """
    return write_formats(data.name, lambda: draw_region(data), folder, formats)


def draw_region(data: RegionData) -> Figure:
    """Draw the picture of a claim."""
    note = textwrap.wrap(data.note, 130)
    height = 1.0 + _ROW * len(data.rows) + 0.13 * len(note)
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    axes = figure.subplots()
    for i, row in enumerate(data.cells):
        for j, cell in enumerate(row):
            if cell is not None:
                _cell(axes, i, j, cell.answer, cell.text)
    _axes(axes, data)
    used = dict.fromkeys(cell.answer for row in data.cells for cell in row if cell is not None)
    handles = [
        Patch(facecolor=LOOKS[a][0], hatch=LOOKS[a][1], edgecolor=_HATCH, label=a)
        for a in LOOKS
        if a in used
    ]
    figure.legend(
        handles=handles, loc="outside upper right", ncols=4, frameon=False, handlelength=1.5
    )
    figure.suptitle(data.title, fontsize=9, fontweight="bold", x=0.01, ha="left")
    figure.supxlabel("\n".join(note), fontsize=6.5, x=0.01, ha="left")
    return figure


def _cell(axes: Axes, i: int, j: int, answer: str, text: str) -> None:
    colour, hatch, ink = LOOKS.get(answer, LOOKS["shown"])
    axes.add_patch(
        Rectangle((j, i), 1, 1, facecolor=colour, hatch=hatch, edgecolor=_HATCH, linewidth=0.5)
    )
    box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(
        j + 0.5,
        i + 0.5,
        text,
        ha="center",
        va="center",
        fontsize=6.5,
        color=ink,
        bbox=box if hatch else None,
    )


def _axes(axes: Axes, data: RegionData) -> None:
    rows, columns = len(data.rows), len(data.columns)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_yticks([i + 0.5 for i in range(rows)], data.rows, fontsize=6.5)
    axes.set_xticks([j + 0.5 for j in range(columns)], [item for _, item in data.columns])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    groups = [group for group, _ in data.columns]
    for group in dict.fromkeys(groups):
        first, count = groups.index(group), groups.count(group)
        axes.text(first + count / 2, -0.15, group, ha="center", va="bottom", fontsize=7.5)
        if first:
            axes.plot([first, first], [0, rows], color="black", linewidth=1.2)
