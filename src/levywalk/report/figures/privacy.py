"""The figure of a privacy curve: ε against the accuracy that was reached in simulations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from levywalk.report.figures.canvas import new_figure, save
from levywalk.report.figures.style import line_style, tidy


def plot_privacy(
    curves: Mapping[str, Mapping[str, Any]],
    *,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one curve per design; a dotted line is the same design without privacy.

    ``curves`` are `PrivacyCurve.document()` by the names of the designs.
    """
    figure = new_figure(6.4, 4.0, path=path)
    axes = figure.subplots()
    values: list[float] = []
    for i, (name, curve) in enumerate(curves.items()):
        where = [row["budget"] for row in curve["budgets"]]
        middle, low, high = (
            [row[key] for row in curve["budgets"]] for key in ("value", "low", "high")
        )
        style = line_style(i)
        axes.plot(where, middle, marker="o", markersize=3.5, label=name, **style)
        axes.fill_between(where, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.axhline(curve["without"]["value"], color=style["color"], linewidth=0.9, linestyle=":")
        values += [*low, *high, curve["without"]["value"]]
        quantity, delta = curve["quantity"], curve["privacy"]["delta"]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    shown = [value for value in values if value > 0.0]
    if not curve["higher_is_better"] and shown and max(shown) > 10 * min(shown):
        axes.set_yscale("log")
    axes.set_xlabel(f"budget ε of each node (δ = {delta:g})")
    axes.set_ylabel(f"{quantity} at the end of the run")
    axes.set_title(title or "dotted: without privacy", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    tidy(axes)
    if path is not None:
        save(figure, path)
    return figure
