"""Write docs/performance.md and its figures from a results file: ``python -m benchmarks.page``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import draw
from benchmarks.peers import PEERS
from benchmarks.ratios import ratio_table
from benchmarks.sentences import one_per_line
from benchmarks.timing import short

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"

TITLES = {
    "chain": (
        "One chain",
        "One model walks on one thread. The kernel and C make the same walk, draw for draw; the "
        "plain loops use their own random numbers. Before anything is timed, kernel and C are "
        "compared: walks exactly, models to 1e-9.",
    ),
    "walkers": (
        "Many replicas",
        "Independent walks of one design run on one thread: together in the kernel, one after the "
        "other, and in C.",
    ),
    "widths": (
        "Every width of registers, beside C",
        "The kernels are compiled for registers of 512, 256 and 128 bits, each in a process that "
        "may use no wider ones, and compared with C by hand for the same width and the same "
        "draws. With 128 bits both may use a fused multiply-add. One chain is compared with C for "
        "the same width under -ffast-math, which may reorder sums; the kernels may not, because "
        "their results have the same bits on every processor. The goals are 1.1 for one chain, "
        "1.15 for 64 replicas in the cache and 1.25 at a million nodes, and 1.15 for the walk "
        "alone in the cache. At a million nodes the walk alone should read four fifths of the "
        "random cache lines that the machine can read. A width that the machine does not have is "
        "not measured.",
    ),
    "walk": (
        "The walk alone, against other libraries",
        "These are steps of a walk without any model, on one thread. Every peer has its fastest "
        "settings. Building its graph is not counted, but levywalk's whole call is. Each peer's "
        "walks were checked: they have their length, every move is an edge, and neighbours are "
        "chosen alike.",
    ),
    "memory": (
        "Updates and walks that remember",
        "Methods with memory at the nodes or in the token are compared with plain SGD, on one "
        "thread. The note has the bytes that each node keeps for each replica. SAG, SAGA and "
        "Point-SAGA have kernels in lanes; the others run in the plain loop.",
    ),
    "dims": (
        "Dimensions, losses and samples",
        "The network is a ring of 1,000 nodes. From dimension 60 on the data no longer fit into "
        "half a megabyte, and from dimension 250 on not into two.",
    ),
    "threads": (
        "Threads",
        "The same replicas run on more threads; the result does not depend on their number. As "
        "many processes, each with its share, show what the machine gains if nothing is shared. "
        "The goal for threads is 0.95 of that.",
    ),
    "sizes": (
        "Sizes",
        "The networks are Watts-Strogatz, each in a process of its own. Memory is resident bytes "
        "above those of the imported library: network, data, bound design and the kernel's own "
        "arrays. The limits are those of the section on growth. Most neighbours of these networks "
        "lie beside each other, so that walks find many lines in the cache, and may be faster "
        "than random lines.",
    ),
    "checkpoints": (
        "Checkpoints",
        "The table compares the cost of measuring the model 200 times, the default, with once.",
    ),
    "visits": (
        "Visits and draws",
        "The table shows the cost of counting the visits, and of the draws compared with cheaper "
        "ones.",
    ),
    "loops": (
        "The plain loop, and user-defined functions",
        "Switching designs, and user-defined compiled walks, updates and losses "
        "([extending.md](extending.md)), run one replica after the other in a loop without lanes. "
        "The functions are the examples of that page, and the squared error, which is built in "
        "too: the goal for it is 1.3 times the plain loop. The plain loop is what a compilation "
        "for this one loss would give, and compiling it takes 5 to 10 s of CPU; a user-defined "
        "function compiles in less than one. The kernel beside them is the loop for built-in "
        "methods, also one replica after the other.",
    ),
    "sparse": (
        "Sparse features",
        "This is logistic regression on data like rcv1 with one replica, compared with a loop "
        "that is written by hand for this case with numba. The goal is 3 times that loop. A soft "
        "threshold (l1) changes all entries of the model at every step; they are brought up to "
        "date when they are needed.",
    ),
    "models": (
        "Models of torch and JAX",
        "The network is ring(1000) with one sample of 64 features per node; 64 replicas of plain "
        "SGD run together on one thread. The torch loop is what anybody would write: one model, "
        "one optimiser, one sample after the other, and no walk; numpy has a loop of that kind. "
        "The goals are 400 ns for softmax in the kernel and 1,500 ns for the MLP with JAX.",
    ),
    "growth": (
        "Growth",
        "The figure shows how the cost of an update grows with replicas, dimension and nodes, one "
        "at a time, with the others at 64, 10 and 1,000, on one thread. The limits are measured "
        "by small C programs (benchmarks/probes.c). *Random cache lines* is the time of the lines "
        "that an update must read, the record of its node and one edge, in tables of the same "
        "sizes, if many are asked for at once. The lines of a record beyond the fourth count as "
        "read in order. *Floating-point peak* is the time of its 2 dim products with additions in "
        "full registers. Neither has the words of the step, the decision, or any waiting in it.",
    ),
    "generators": ("Generators", "The table has the seconds that it takes to make a network."),
}

# What a case is limited by: latency, bandwidth or arithmetic, and how one knows. The key is a
# section, a section and a case ("chain/ring(1000), dim 10"), or these and a contender
# ("chain/ring(1000), dim 10/kernel"); the longest wins.
_WAITING = "latency: the dot product before the next update, the neighbour before the next node"
_LOOKING_UP = (
    "latency: the neighbour comes from the second or third cache; it is looked up for both answers "
    "of the decision, so that no step waits for it or guesses it"
)
_MISSING = "latency: two misses that wait for each other, the node's place and the edge"
_COMPUTING = (
    "arithmetic: more walkers change nothing; for the words see the row with the cheapest draws"
)
_FETCHING = "misses in flight: three cache lines an update, all asked for ahead"
_STEPPING = "arithmetic: the words of the step are most of it"
_LINES = "misses in flight: place and edge, both asked for half a round ahead"
LIMITED_BY: dict[str, str] = {
    "chain/ring(1000), dim 10": _WAITING,
    "chain/erdos_renyi(1000, 0.1), dim 10": _LOOKING_UP,
    "chain/watts_strogatz(1000000, 4, 0.1), dim 10": _MISSING,
    "chain/random_regular(1000000, 4), dim 10": _MISSING,
    "walkers/ring(1000), dim 10, 64 replicas": _COMPUTING,
    "walkers/erdos_renyi(1000, 0.1), dim 10, 64 replicas": f"{_COMPUTING}; edges from a slow cache",
    "walkers/watts_strogatz(1000000, 4, 0.1), dim 10, 64 replicas": _FETCHING,
    "walkers/random_regular(1000000, 4), dim 10, 64 replicas": _FETCHING,
    "walk/ring(1000), simple random walk/levywalk": _STEPPING,
    "walk/erdos_renyi(1000, 0.1), simple random walk/levywalk": _STEPPING,
    "walk/watts_strogatz(1000000, 4, 0.1), simple random walk/levywalk": _LINES,
    "walk/random_regular(1000000, 4), simple random walk/levywalk": _LINES,
    "dims": (
        "arithmetic up to dim 200; beyond, bandwidth after L2: a record is read once, "
        "the model stays"
    ),
    "threads": "the machine: two processes gain as much",
    "sizes": "misses in flight from 100,000 nodes on",
    "loops": "latency, as for one chain, and a call by address for each user-defined function",
    "visits": (
        "one more load and store a step; on large networks one more miss, "
        "in an array of its own per replica"
    ),
}


def page(
    results: Mapping[str, Any], once: Sequence[Mapping[str, Any]], figures: Mapping[str, Path]
) -> str:
    """Return the page."""
    parts = [_head(results), _short_version(results), *ratio_table(results)]
    for name, section in results["sections"].items():
        title, text = TITLES.get(name, (name.capitalize(), ""))
        parts.append(f"## {title}\n\n{one_per_line(text)}\n")
        if section.get("about"):  # measured apart from the rest
            parts.append(f"{one_per_line(section['about'])}\n")
        if name in figures:
            parts.append(f"![{title}](figures/{figures[name].name})\n")
        parts.append("\n".join(_table(name, section["rows"])) + "\n")
        if name == "walk":
            parts.append(_peers() + "\n")
            parts.append(_once(once) + "\n")
    notes = (HERE / "performance_notes.md").read_text().partition("-->\n")[2].strip()
    if notes:
        parts.append(f"## What was tried and did not help\n\n{notes}\n")
    return "\n".join(parts)


def _head(results: Mapping[str, Any]) -> str:
    about = "\n".join(f"| {name} | {value} |" for name, value in results["machine"].items())
    quick = "" if results["scale"] == "full" else "\n**From a quick run, on smaller networks.**\n"
    return (
        "# Performance\n\n"
        "<!-- Written by `python -m benchmarks.page`; do not edit. -->\n\n"
        "`make bench` measures all of this in one run of about ten minutes, and `make bench-page` "
        "writes this page.\n"
        "Figures are medians of interleaved repetitions, with the lowest and the highest in "
        "brackets; a ratio is the median of the ratios within repetitions, so that what slows all "
        "contenders down at once cancels.\n"
        "No test asserts a time.\n"
        f"{quick}\n| machine | |\n|---|---|\n{about}\n"
    )


def _short_version(results: Mapping[str, Any]) -> str:
    """Return the four networks in one table: one chain, many replicas, the walk alone."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for section, contender in (("chain", "kernel"), ("walkers", "kernel"), ("walk", "levywalk")):
        for row in results["sections"].get(section, {"rows": []})["rows"]:
            network, plus, _ = row["case"].partition(
                ", dim 10" if section != "walk" else ", simple random walk"
            )
            if plus and row["contender"] == contender and row["median"] is not None:
                found.setdefault(network, {}).setdefault(section, row)
    lines = [
        "One thread, dimension 10, MHLJ at its defaults, no visits; the walk alone is the simple "
        "random walk.\n",
        "| network | one chain | 64 replicas | the walk alone |",
        "|---|--:|--:|--:|",
    ]
    for network, rows in found.items():
        cells = [
            f"{_median(row)} {_ratio(row)}".strip()
            for row in (rows[s] for s in ("chain", "walkers") if s in rows)
        ]
        cells += (
            [f"{short(rows['walk']['median'])} ns, {rows['walk']['note']}"]
            if "walk" in rows
            else []
        )
        lines.append(f"| {network} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table(section: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    limits = {key for key in LIMITED_BY if key == section or key.startswith(f"{section}/")}
    columns = ["case", "contender", "median", "ratio"]
    notes = any(row["note"] for row in rows)
    columns += ["note"] if notes else []
    columns += ["limited by"] if limits else []
    yield f"| {' | '.join(columns)} |"
    yield (
        "|"
        + "|".join("--:" if column in ("median", "ratio") else "---" for column in columns)
        + "|"
    )
    previous = ""
    for row in rows:
        cells = [
            row["case"] if row["case"] != previous else "",
            row["contender"],
            _median(row),
            _ratio(row),
        ]
        cells += [row["note"]] if notes else []
        cells += (
            [_limited_by(section, row) if row["case"] != previous else ""] if limits else []
        )  # the kernel's row
        yield f"| {' | '.join(cells)} |"
        previous = row["case"]


def _median(row: Mapping[str, Any]) -> str:
    if row["median"] is None:
        return "–"
    spread = f" ({short(row['low'])}–{short(row['high'])})" if row["repetitions"] > 1 else ""
    return f"{short(row['median'])} {row['unit']}{spread}"


def _ratio(row: Mapping[str, Any]) -> str:
    if row["ratio"] is None:
        return ""
    if row["contender"] == row["ratio_to"]:
        return "1"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] >= 0.1 else f"{row['ratio']:.2g}"
    return f"{ratio} × {row['ratio_to']}"


def _limited_by(section: str, row: Mapping[str, Any]) -> str:
    keys = (f"{section}/{row['case']}/{row['contender']}", f"{section}/{row['case']}", section)
    return next((LIMITED_BY[key] for key in keys if key in LIMITED_BY), "")


def _peers() -> str:
    lines = ["| library | licence | what it can walk | how it was called |", "|---|---|---|---|"]
    lines += [f"| {peer.name} | {peer.licence} | {peer.can} | {peer.how} |" for peer in PEERS]
    return "\n".join(lines)


def _once(once: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of what was measured by hand, once."""
    if not once:
        return ""
    networks = list(once[0]["million_steps_per_second"])
    lines = [
        "Engines that `make bench` does not install were measured once, by hand; million steps per "
        "second of the "
        "simple random walk on one thread:\n",
        f"| engine | {' | '.join(networks)} | how |",
        f"|---|{'--:|' * len(networks)}---|",
    ]
    for other in once:
        speeds = (short(other["million_steps_per_second"][network]) for network in networks)
        how = (
            f"{other['version']}, {other['licence']}. {other['settings']}. {other['clock']}; "
            f"{other['machine']}."
        )
        lines.append(f"| {other['name']} | {' | '.join(speeds)} | {how} |")
    return "\n".join(lines)


def _warn_of_unused_limits(results: Mapping[str, Any]) -> None:
    known = set(results["sections"])
    for name, section in results["sections"].items():
        for row in section["rows"]:
            known |= {f"{name}/{row['case']}", f"{name}/{row['case']}/{row['contender']}"}
    for key in LIMITED_BY.keys() - known:
        print(f"LIMITED_BY has {key!r}, which no row answers to")


def main() -> None:
    """Write the page and its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=HERE / "results.json")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder to write to")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    once = json.loads((HERE / "measured_once.json").read_text())
    _warn_of_unused_limits(results)
    rows = {name: section["rows"] for name, section in results["sections"].items()}
    figures = draw(rows, once, options.docs / "figures")
    (options.docs / "performance.md").write_text(page(results, once, figures))
    print(f"wrote performance.md and {len(figures)} figures")


if __name__ == "__main__":
    main()
