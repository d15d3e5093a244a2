"""What all figures share: colours, dashes, axes, marks."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from levywalk.arrays import Bools, Floats
from levywalk.report.x_range import XRange

# Okabe and Ito's colours: colour-blind readers can tell them apart, and so can readers of a grey
# print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#7F7F7F", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "-", "-", "--", "-.", ":", "--", "-.")
X_AXES = {
    "steps": "steps (updates)",
    "hops": "hops",
    "transfers": "transfers (messages between nodes)",
    "bytes": "bytes sent",
    "time": "time (s)",
}
_MOST_POINTS = 4000
_LARGEST = 1e300  # matplotlib's margins around larger values overflow


def line_style(i: int) -> dict[str, Any]:
    """Return the colour and the dashes of the i-th design."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


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
    k-th; never a node without data, which has no share.
    """
    if len(target) <= _MOST_POINTS:
        return np.flatnonzero(target > 0)
    order = np.argsort(target)
    order = order[target[order] > 0]
    return np.unique(np.concatenate([order[-200:], order[:: len(target) // _MOST_POINTS + 1]]))


def show_range(axes: Axes, shown: XRange) -> None:
    """Set the scale and the limits of the horizontal axis, and how its numbers are written."""
    if shown.log:
        axes.set_xscale("log")
        axes.set_xlim(shown.left, shown.right)
    elif shown.is_cut:
        axes.set_xlim(-0.02 * shown.right, shown.right)
    # after the scale, which has a formatter of its own
    axes.xaxis.set_major_formatter(FuncFormatter(short_count))


def short_count(value: float, _: Any = None) -> str:
    """Return a count for an axis.

    Examples
    --------
    >>> short_count(250), short_count(2500), short_count(1e7), short_count(3e9)
    ('250', '2.5k', '10M', '3G')
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


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
