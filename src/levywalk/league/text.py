"""The league as Markdown: which method where, goals, all ranks, and the list of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from levywalk.report.league_document import (
    GOAL_HEAD,
    Document,
    cells_of,
    duration_text,
    failure_sentences,
    goal_rows,
    goal_text,
    map_rows,
    name_of,
    places_of,
    short_number,
    tuned_on,
)


def markdown(document: Document) -> str:
    """Return the league's results as Markdown."""
    lines = [
        "# The league",
        "",
        f"Written by `{document['command']}` in {duration_text(document)} ({document['effort']}).",
        tuned_on(document),
        "A number is the median over instances; in brackets its 95 % interval.",
        f"Time is that of the profile {document['profile']}.",
        *(f"{line}  " for line in failure_sentences(document)),
        "",
        "## Which method where",
        "",
        *table(*map_rows(document)),
        "",
        "## Goals",
        "",
        *goals_text(document),
    ]
    for network, problem in places_of(document):
        lines += ["", f"## {network}, {problem}", "", *rank_table(document, network, problem)]
    reasons = [[pair["name"], pair["reason"]] for pair in document["pairs"]]
    lines += ["", "## The pairs, and why each competes", ""]
    return "\n".join([*lines, *table(["pair", "why it competes"], reasons)]) + "\n"


def goals_text(document: Document) -> list[str]:
    """Return the goals as a table, or a sentence if there are none."""
    if not document["goals"]:
        return ["No goal is about these networks and problems."]
    return table(GOAL_HEAD, goal_rows(document))


def rank_table(document: Document, network: str, problem: str) -> list[str]:
    """Return all pairs on a network and problem, the fewest transfers first."""
    keys = [f"{accuracy:g}" for accuracy in document["accuracies"]]
    others = [(measure, keys[-1]) for measure in ("bytes", "steps", "time")]
    columns = [("transfers", key) for key in keys] + others
    rows = [
        [name_of(cell), *(with_range(cell[measure][key]) for measure, key in columns)]
        for cell in cells_of(document, network, problem)
    ]
    return table(["pair", *(f"{m} to {goal_text(document, key)}" for m, key in columns)], rows)


def with_range(values: Sequence[float | None]) -> str:
    """Return a median and its interval.

    Examples
    --------
    >>> with_range([1200.0, 1100.0, None])
    '1.2k [1.1k, –]'
    """
    middle, low, high = values
    return (
        "–"
        if middle is None
        else f"{short_number(middle)} [{short_number(low)}, {short_number(high)}]"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    lines = [list(head), ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
