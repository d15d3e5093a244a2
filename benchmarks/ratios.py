"""The table of docs/performance.md that says how far the kernels are from C, width by width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.cases import KERNEL
from benchmarks.probes import RANDOM
from benchmarks.reference_c import BY_HAND, CHEAP
from benchmarks.sentences import one_per_line
from benchmarks.timing import short

Cases = Mapping[str, Mapping[str, Mapping[str, Any]]]  # rows by case and contender

_KINDS = {
    "one chain": "dim 10, one chain",
    "64 replicas": "dim 10, 64 replicas",
    "the walk alone": "the walk alone, simple random walk",
    "the walk alone, MHLJ": "the walk alone, MHLJ",
}


def ratio_table(results: Mapping[str, Any]) -> list[str]:
    """Return the table, in one part, or nothing if the widths were not measured."""
    section = results["sections"].get("widths", {"rows": []})
    rows = section["rows"]
    if not rows:
        return []
    cases: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contender"]] = row
    widths = list(dict.fromkeys(case.partition(",")[0] for case in cases))
    networks = list(dict.fromkeys(filter(None, map(_network, cases))))
    lines = [
        "Nanoseconds, and the ratio to C by hand for the same width with the same draws (one "
        "chain: to C under -ffast-math).\n"
        "*Draws* is what the same C takes with the cheapest usable generator instead of ours.\n"
        "*Limit* is the time of two random cache lines, divided by that of a step.\n",
        f"| width | | {' | '.join(networks)} |",
        f"|---|---|{'--:|' * len(networks)}",
    ]
    for width in widths:
        if width in cases:
            (row,) = cases[width].values()
            lines.append(f"| {width} | {row['note']} |{' |' * len(networks)}")
            continue
        for title, kind in _KINDS.items():
            cells = [_cell(cases, f"{width}, {network}, {kind}") for network in networks]
            lines.append(f"| {width} | {title} | {' | '.join(cells)} |")
    if section.get("about"):  # measured apart from the rest
        lines += ["", one_per_line(section["about"])]
    return ["\n".join(lines) + "\n"]


def _network(case: str) -> str:
    """Return the network that a case names; nothing for a width that was not measured."""
    _, _, rest = case.partition(", ")
    return rest.partition(", dim 10")[0].partition(", the walk alone")[0]


def _cell(cases: Cases, case: str) -> str:
    found = cases.get(case)
    if found is None:
        return "–"
    own = found[KERNEL]
    text = f"{short(own['median'])}, **{own['ratio']:.2f}**"
    if CHEAP in found and BY_HAND in found:
        text += f", draws {found[CHEAP]['ratio']:.2f}"
    if RANDOM in found:
        text += f", limit {found[RANDOM]['median'] / own['median']:.2f}"
    return text
