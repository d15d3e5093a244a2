"""Write the results in docs/league.md from what `levywalk league` left in a folder; nothing is run.

python -m benchmarks.league levywalk-league
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levywalk.league.scenes import FULL, PROBLEMS
from levywalk.league.text import table
from levywalk.report.league_document import (
    GOAL_HEAD,
    duration_text,
    failure_sentences,
    goal_rows,
    map_rows,
    name_of,
    short_number,
)

PAGE = Path(__file__).parents[1] / "docs" / "league.md"
BEGIN, END = "<!-- results: written by benchmarks/league.py -->", "<!-- end of the results -->"


def results(document: Mapping[str, Any]) -> str:
    """Return the results of a league as the section of docs/league.md."""
    missed = sum(not goal["met"] for goal in document["goals"])
    lines = [
        f"Written by `{document['command']}` in {duration_text(document)}; every number is the "
        "median over the reported instances.",
        "The folder's league.md has all of them with their intervals.",
        *failure_sentences(document),
        "",
        "### Which method where",
        "",
        "This is the pair that needed least.",
        f"Time is that of {document['profile']}.",
        "",
        *table(*map_rows(document)),
        "",
        "### Goals: found",
        "",
        f"{len(document['goals']) - missed} of {len(document['goals'])} are met.",
        "",
        *table(GOAL_HEAD, goal_rows(document)),
    ]
    for problem, title in PROBLEMS.items():
        rows = transfer_rows(document, problem)
        if rows:
            networks = list(dict.fromkeys(c["network"] for c in document["cells"]))
            lines += ["", f"### Transfers to 1e-3 / 1e-6: {title}", ""]
            lines += table(["pair", *networks], rows)
    return "\n".join(lines)


def transfer_rows(document: Mapping[str, Any], problem: str) -> list[list[str]]:
    """Return the transfers of each pair on each network; the best on all networks first."""
    networks = list(dict.fromkeys(c["network"] for c in document["cells"]))
    cells = {(name_of(c), c["network"]): c["transfers"] for c in document["cells"]
             if c["problem"] == problem}  # fmt: skip
    rows = []
    for pair in dict.fromkeys(pair for pair, _ in cells):
        mine = [cells.get((pair, network)) for network in networks]
        ends = [float("inf") if m is None or m["1e-06"][0] is None else m["1e-06"][0] for m in mine]
        shown = [
            "" if m is None else f"{short_number(m['0.001'][0])} / {short_number(m['1e-06'][0])}"
            for m in mine
        ]
        rows.append((sorted(ends, reverse=True), [pair, *shown]))
    return [row for _, row in sorted(rows, key=lambda entry: entry[0])]


def written(page: str, text: str) -> str:
    """Return the page with its results replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"docs/league.md has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(folder: Path) -> None:
    document = json.loads((folder / "league.json").read_text(encoding="utf-8"))
    if document["effort"] != FULL.name:
        raise SystemExit(
            f"{folder} holds a {document['effort']} league; docs/league.md is of a full one"
        )
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(written(page, results(document)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
