"""One panel of the demo: the error of a few traces against transfers, both logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from levywalk.report.figures.style import COLOURS, tidy
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks

_LOWEST = 1e-9  # errors below are rounding


def draw_one_lap(traces: Mapping[str, Trace], colours: Sequence[int], path: Path) -> None:
    """Draw the mean error over walks of each trace in its colour, and the line of 1e-6."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    for i, (label, trace) in zip(colours, traces.items(), strict=True):
        error, sent = mean_over_walks(trace.error), trace.transfers.mean(axis=0)
        shown = (error > 0) & (error < 1e300) & (sent > 0)
        axes.plot(
            sent[shown], error[shown].clip(_LOWEST), label=label, color=COLOURS[i % len(COLOURS)]
        )
    axes.axhline(1e-6, color="black", linewidth=0.7, linestyle=":")
    axes.text(0.99, 1.2e-6, "1e-6", transform=axes.get_yaxis_transform(), ha="right", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=_LOWEST)
    axes.set_xlabel("transfers (messages that carry the model)")
    axes.set_ylabel("error  ‖x − x*‖² / ‖x⁰ − x*‖²")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    tidy(axes)
    figure.savefig(path)
