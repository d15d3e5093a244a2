"""The figures of docs/performance.md, from the rows of a results file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.cases import KERNEL
from benchmarks.growth import BY_DIM, BY_REPLICAS
from benchmarks.probes import PEAK, RANDOM
from benchmarks.sizes import MANY

Rows = Sequence[Mapping[str, Any]]

_STYLE: Any = {
    "svg.hashsalt": "levywalk",  # equal figures from equal figures
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(sections: Mapping[str, Rows], once: Rows, folder: Path) -> dict[str, Path]:
    """Draw what the sections allow into a folder; return the files by section."""
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], Figure | None]] = {
        "dims": lambda: _dims(sections.get("dims", ())),
        "sizes": lambda: _sizes(sections.get("sizes", ())),
        "walk": lambda: _peers(sections.get("walk", ()), once),
        "growth": lambda: _growth(sections.get("growth", ()), sections.get("sizes", ())),
    }
    files = {}
    mpl.use("svg")
    with mpl.rc_context(_STYLE):
        for name, maker in makers.items():
            figure = maker()
            if figure is not None:
                files[name] = folder / f"performance-{name}.svg"
                figure.savefig(files[name], metadata={"Date": None}, bbox_inches="tight")
                plt.close(figure)
    return files


def _dims(rows: Rows) -> Figure | None:
    """Nanoseconds per update against the dimension, both axes logarithmic."""
    chosen = [
        row for row in rows if "least squares, dim" in row["case"] and "samples" not in row["case"]
    ]
    return _lines(
        chosen,
        "ns per update",
        "dimension of the model",
        "One sample per node, ring of 1,000 nodes",
    )


def _sizes(rows: Rows) -> Figure | None:
    """Nanoseconds per update and step against the number of nodes."""
    chosen = [row for row in rows if row["unit"].startswith("ns/") and row["contender"] != PEAK]
    labelled = [{**row, "contender": f"{row['contender']} ({row['unit']})"} for row in chosen]
    return _lines(labelled, "ns", "nodes", "Watts-Strogatz networks, dimension 10, one thread")


def _lines(rows: Rows, y: str, x: str, title: str) -> Figure | None:
    curves: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for row in rows:
        if row["median"] is not None and row["at"] is not None:
            curves[row["contender"]].append((row["at"], row["median"], row["low"], row["high"]))
    if not curves:
        return None
    figure, axes = plt.subplots(figsize=(6.5, 4.0))
    for (name, points), marker in zip(curves.items(), "osv^Dx+*<>" * 3, strict=False):
        at, median, low, high = zip(*sorted(points), strict=True)
        (line,) = axes.loglog(at, median, marker=marker, markersize=3.5, linewidth=1.2, label=name)
        axes.fill_between(at, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    _label(axes, x, y, title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
    bottom, top = axes.get_ylim()
    ticks = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    axes.set_yticks([tick for tick in ticks if bottom <= tick <= top])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the curves
    return figure


def _growth(rows: Rows, sizes: Rows) -> Figure | None:
    """Nanoseconds per update by replicas, dimension and nodes, beside the machine's limits."""
    panels: dict[str, Rows] = {
        "replicas": [row for row in rows if BY_REPLICAS in row["case"]],
        "dimension": [row for row in rows if BY_DIM in row["case"]],
        "nodes": [
            {**row, "contender": row["contender"].replace(MANY, KERNEL)}
            for row in sizes
            if row["contender"] in (MANY, RANDOM, PEAK)
        ],
    }
    if not all(panels.values()):
        return None
    figure, all_axes = plt.subplots(1, 3, figsize=(10.0, 3.4))
    fixed = {"replicas": (1, 2), "dimension": (0, 2), "nodes": (0, 1)}
    others = ("64 replicas", "dimension 10", "1,000 nodes")
    for axes, (name, chosen) in zip(all_axes, panels.items(), strict=True):
        for contender, style in ((KERNEL, "o-"), (RANDOM, "--"), (PEAK, ":")):
            points = sorted(
                (row["at"], row["median"], row["low"], row["high"])
                for row in chosen
                if row["contender"] == contender and row["median"] is not None
            )
            if points:
                at, median, low, high = zip(*points, strict=True)
                (line,) = axes.loglog(
                    at, median, style, markersize=3.5, linewidth=1.2, label=contender
                )
                axes.fill_between(at, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        _label(axes, name, "ns per update", ", ".join(others[i] for i in fixed[name]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    all_axes[0].legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 0.06))
    figure.tight_layout()
    return figure


def _peers(rows: Rows, once: Rows) -> Figure | None:
    """Million steps per second of the simple random walk: a panel for each network, one logarithmic
    axis.
    """
    networks: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        network, _, kind = row["case"].rpartition(", ")
        if kind == "simple random walk" and row["median"] is not None:
            networks[network][row["contender"]] = 1e3 / row["median"]
    if not networks:
        return None
    for other in once:
        for network, speed in other["million_steps_per_second"].items():
            if network in networks:
                networks[network][f"{other['name']} (measured once)"] = speed
    best = {
        name: max(speeds.get(name, 0.0) for speeds in networks.values())
        for row in networks.values()
        for name in row
    }
    names = sorted(best, key=lambda name: (not _ours(name), -best[name]))
    figure, panels = plt.subplots(
        1, len(networks), figsize=(9.5, 0.32 * len(names) + 1.2), sharey=True, sharex=True
    )
    for axes, (network, speeds) in zip(
        panels if len(networks) > 1 else [panels], networks.items(), strict=True
    ):
        known = [(i, speeds[name]) for i, name in enumerate(names) if name in speeds]
        colours = ["C1" if _ours(names[i]) else "C0" for i, _ in known]
        axes.barh([i for i, _ in known], [speed for _, speed in known], color=colours, log=True)
        for i, speed in known:
            axes.annotate(
                f"{speed:.3g}",
                (speed, i),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
        axes.set_yticks(range(len(names)), names)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.25)
        family, _, sizes = network.partition("(")
        _label(axes, "million steps per second", "", f"{family.replace('_', ' ')}\n({sizes}")
        axes.title.set_fontsize(8)
    panels_first = panels[0] if len(networks) > 1 else panels
    panels_first.invert_yaxis()
    return figure


def _ours(name: str) -> bool:
    return name.startswith("levywalk")


def _label(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=9)
