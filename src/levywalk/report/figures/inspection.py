"""The figure of an inspection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from levywalk.arrays import Floats
from levywalk.report.figures.canvas import save
from levywalk.report.figures.style import COLOURS, node_marks, spread, tidy


def plot_inspection(
    rows: list[dict[str, Any]],
    laws: Mapping[str, tuple[Floats, Floats]],
    *,
    path: str | Path | None = None,
) -> Figure:
    """Draw an inspection: dwell against i.i.d. dwell, mass under the target and under the chain,
    spectral gaps.

    ``rows`` are `Inspection.rows()`, ``laws`` the target and the chain's own law of each design.
    """
    names = [row["design"] for row in rows]
    figure = Figure(figsize=(10.5, 3.8), layout="constrained", dpi=150)
    dwell, mass, gap = figure.subplots(1, 3)
    where = np.arange(len(names))
    for shift, key, label, colour in (
        (-0.2, "dwell", "this walk", COLOURS[1]),
        (0.2, "iid_dwell", "i.i.d. from the same law", COLOURS[3]),
    ):
        bars = dwell.bar(where + shift, [row[key] for row in rows], 0.38, label=label, color=colour)
        dwell.bar_label(bars, fmt="%.3g", fontsize=8)
    dwell.set_yscale("log")
    dwell.set_ylabel("steps per visit, worst region")
    dwell.legend(frameon=False, fontsize=8, loc="upper left")
    for i, (name, (target, law)) in enumerate(laws.items()):
        keep = spread(target)
        node_marks(mass, target[keep], law[keep], i, name)
    ends = [
        min(float(target.min()) for target, _ in laws.values()),
        max(float(target.max()) for target, _ in laws.values()),
    ]
    mass.plot(ends, ends, color="black", linewidth=0.8)
    mass.set_xscale("log")
    mass.set_yscale("log")
    mass.set_xlabel("share under the target π")
    mass.set_ylabel("share under the chain's own law")
    mass.legend(frameon=False, fontsize=8)
    bars = gap.bar(
        where,
        [row["spectral_gap"] for row in rows],
        0.5,
        color=[COLOURS[i % len(COLOURS)] for i in range(len(rows))],
    )
    gap.bar_label(
        bars,
        labels=[
            f"{'' if row['spectral_gap_trusted'] else '≤ '}{row['spectral_gap']:.2g}"
            for row in rows
        ],
        fontsize=8,
    )
    gaps = [row["spectral_gap"] for row in rows]
    if min(gaps) > 0 and max(gaps) / min(gaps) > 50:
        gap.set_yscale("log")
    gap.set_ylabel("right spectral gap")
    for axes in (dwell, gap):
        axes.set_xticks(where, names)
        axes.margins(y=0.25)
    for axes in (dwell, mass, gap):
        tidy(axes)
    if path is not None:
        save(figure, Path(path))
    return figure
