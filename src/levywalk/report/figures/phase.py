"""Draw the phase diagram: the fastest method by signal to noise and importance ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from levywalk.report.figures.paper import PAGE, write_formats
from levywalk.report.figures.style import COLOURS

NAME = "phase-diagram"
_COLOURS = {
    "UnifRW": COLOURS[0],
    "WeightRW": COLOURS[1],
    "MHLJ(0.1)": COLOURS[2],
    "MHLJ(0.9)": COLOURS[4],
    "MixedRW (best λ)": COLOURS[5],
}
_LETTERS = {
    "UnifRW": "U",
    "WeightRW": "W",
    "MHLJ(0.1)": "J",
    "MHLJ(0.9)": "J₉",
    "MixedRW (best λ)": "M",
}
_NONE = "#F2F2F2"


def write_phase(
    document: Mapping[str, Any], folder: Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Draw the diagram into a folder, which is created if it is missing; return the files."""
    return write_formats(NAME, lambda: draw_phase(document), folder, formats)


def draw_phase(document: Mapping[str, Any]) -> Figure:
    """Draw one panel per graph (columns) and accuracy (rows)."""
    graphs, accuracies = document["graphs"], document["accuracies"]
    columns = max(len(graphs), 2)
    figure = Figure(figsize=(PAGE, 1.3 + 1.75 * len(accuracies)), layout="constrained")
    grid = figure.subplots(len(accuracies), columns, squeeze=False, sharex=True, sharey=True)
    for j, graph in enumerate(graphs.values()):
        for i, accuracy in enumerate(accuracies):
            _panel(grid[i][j], document, graph["cells"][f"{accuracy:g}"])
            if i == 0:
                grid[i][j].set_title(graph["title"].replace(" (", "\n("), fontsize=7.5)
            if j == 0:
                grid[i][j].set_ylabel(f"to {100 * accuracy:g} %\nsignal to noise")
            if i == len(accuracies) - 1:
                grid[i][j].set_xlabel("σ²_H/σ²_L")
    for axes in grid[:, len(graphs) :].ravel():
        axes.set_visible(False)
    handles = [
        Patch(facecolor=_COLOURS[name], label=f"{_LETTERS[name]}  {name}")
        for name in document["methods"]
    ]
    handles.append(Patch(facecolor="white", hatch="////", edgecolor="grey", label="undecided"))
    handles.append(Patch(facecolor=_NONE, edgecolor="grey", label="not reached"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    first, last = document["instances"]
    note = (
        f"The method with the fewest steps (median over {last - first + 1} instances, two important"
        " nodes), each at a step size that the other instances choose.\nDecided: faster than every "
        "other method on all instances; hatched otherwise, in the colour of the least median."
    )
    figure.supxlabel(note, fontsize=6.5, x=0.01, ha="left")
    return figure


def _panel(axes: Axes, document: Mapping[str, Any], cells: Sequence[Sequence[Any]]) -> None:
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            name = cell["winner"]
            colour = _NONE if name is None else _COLOURS[name]
            open_ = name is not None and not cell["decided"]
            axes.add_patch(
                Rectangle(
                    (j, i),
                    1,
                    1,
                    facecolor=colour,
                    edgecolor="white",
                    hatch="//////" if open_ else None,
                    linewidth=0.4,
                    alpha=0.55 if open_ else 1.0,
                )
            )
            if name is not None and not open_:
                place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 5.5}
                axes.text(j + 0.5, i + 0.5, _LETTERS[name], color="white", **place)
    snr, ratio = document["snr"], document["ratio"]
    axes.set_xlim(0, len(ratio))
    axes.set_ylim(0, len(snr))
    axes.set_xticks([j + 0.5 for j in range(len(ratio))], [_short(x) for x in ratio], fontsize=6)
    axes.set_yticks([i + 0.5 for i in range(len(snr))], [_short(x) for x in snr], fontsize=6)
    axes.tick_params(length=0)


def _short(value: float) -> str:
    """Return a number with at most two digits.

    Examples
    --------
    >>> _short(1.0), _short(251.189), _short(19306.977), _short(1e6)
    ('1', '250', '19k', '1M')
    """
    rounded = float(f"{value:.1e}")
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if rounded >= size:
            return f"{rounded / size:g}{letter}"
    return f"{np.round(rounded, 1):g}"
