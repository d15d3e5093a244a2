"""Figures of a comparison for a paper: one column wide, readable in grey, with embedded fonts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from levywalk.report.curves import Curve, axes_of, axis_range, drawn_quantity
from levywalk.report.figures.style import COLOURS, X_AXES, drawable, show_range, spread, tidy
from levywalk.trace import Comparison

COLUMN = 3.4  # inches: one of two columns
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1)),
    (0, (6, 2, 1, 2)),
    (0, (3, 3)),
    (0, (8, 2, 1, 2, 1, 2)),
)
MARKS = "o^sDvP*X"
PAPER_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,  # TrueType: embedded, and text stays text
    "savefig.dpi": 400,
}


def paper_figures(results: Comparison, curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Write each figure as PDF and PNG: the error against steps, hops and transfers, and visits
    against target.

    Examples
    --------
    >>> import tempfile, pathlib, levywalk as lw
    >>> from levywalk.report.curves import curves_of
    >>> designs = {"MHLJ": lw.mhlj()}
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> results = lw.compare(network, problem, designs, steps=50, replicas=2, step_size=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [
    ...         path.name
    ...         for path in paper_figures(results, curves_of(results), pathlib.Path(folder))
    ...     ][:2]
    ['error-steps.pdf', 'error-steps.png']
    """
    written = []
    with mpl.rc_context(PAPER_STYLE):
        for axis in axes_of(curves):
            figure = _figure()
            _error(figure.axes[0], curves, axis, results)
            written += _save(figure, folder / f"error-{axis}")
        if any(trace.visits is not None for trace in results.traces.values()):
            figure = _figure()
            _visits(figure.axes[0], results)
            written += _save(figure, folder / "visits")
    return written


def _figure() -> Figure:
    figure = Figure(figsize=(COLUMN, 0.72 * COLUMN), layout="constrained")
    figure.add_subplot()
    return figure


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".pdf"), stem.with_suffix(".png")]
    for path in paths:
        figure.savefig(path, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    return paths


def _plain(text: str) -> str:
    """Return text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def _error(axes: Axes, curves: Sequence[Curve], axis: str, results: Comparison) -> None:
    for i, line in enumerate(curves):
        log = not results.ranking.recorded
        shown = drawable(line.mean) if log else np.isfinite(line.mean)
        x, colour = line.x[axis][shown], COLOURS[i % len(COLOURS)]
        axes.plot(
            x,
            line.mean[shown],
            color=colour,
            linestyle=DASHES[i % len(DASHES)],
            marker=MARKS[i % len(MARKS)],
            markevery=(0.03 + 0.1 * i / len(curves), 0.17) if shown.any() else None,
            label=_plain(line.name),
        )
        high = np.where(np.isfinite(line.high) & (line.high < 1e300), line.high, line.mean)[shown]
        axes.fill_between(x, line.low[shown], high, color=colour, alpha=0.2, linewidth=0)
    if results.accuracy is not None:
        axes.axhline(results.accuracy, color="black", linewidth=0.6, linestyle=(0, (2, 2)))
    if not results.ranking.recorded:
        axes.set_yscale("log")
    axes.set_xlabel(X_AXES[axis])
    axes.set_ylabel(_quantity(results))
    extent = axis_range(curves, axis)
    show_range(axes, extent)
    if not extent.log:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.legend(frameon=False, handlelength=3.2)
    tidy(axes)


def _quantity(results: Comparison) -> str:
    quantity = drawn_quantity(results)
    return f"{quantity} relative to the start" if results.ranking.relative else quantity


def _visits(axes: Axes, results: Comparison) -> None:
    ends: list[float] = []
    for i, (name, trace) in enumerate(results.traces.items()):
        if trace.visits is None:
            continue
        keep = spread(trace.target)
        share = (trace.visits.sum(axis=0) / max(int(trace.visits.sum()), 1))[keep]
        target = trace.target[keep]
        style: dict[str, Any] = {
            "marker": MARKS[i % len(MARKS)],
            "color": COLOURS[i % len(COLOURS)],
        }
        seen = share > 0
        axes.plot(
            target[seen],
            share[seen],
            linestyle="none",
            markersize=3,
            alpha=0.6,
            markeredgewidth=0,
            label=_plain(name),
            rasterized=len(keep) > 500,
            **style,
        )
        ends += [float(target.min()), float(target.max())]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="black", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("share of updates under the target")
    axes.set_ylabel("share of updates that it got")
    axes.legend(frameon=False, markerscale=1.4)
    tidy(axes)
