"""The page of the league: which method where, goals, and all ranks in tables that can be sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levywalk.report.league_document import (
    GOAL_HEAD,
    MEASURES,
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
from levywalk.report.page.build import page_of
from levywalk.report.page.markup import Markup, section, tag


def league_page(document: Document) -> str:
    """Return the report of a league from its document (league.json).

    Examples
    --------
    >>> empty = {"cells": [], "goals": [], "pairs": [], "accuracies": [], "profile": "mobile"}
    >>> "Which method where" in league_page(empty | {"command": "levywalk league", "seconds": 1.0})
    True
    """
    note = (
        "The pair that took least, the median over instances. Methods that need a server are left "
        f"out. Time is that of the profile {document['profile']}. {tuned_on(document)}"
    )
    missing = [tag("p", line) for line in failure_sentences(document)]
    table = _table(*map_rows(document))
    sections = [section("map", "Which method where", tag("p", note), *missing, table)]
    if document["goals"]:
        met = sum(bool(goal["met"]) for goal in document["goals"])
        text = tag("p", f"{met} of {len(document['goals'])} goals are met.")
        sections.append(section("goals", "Goals", text, _table(GOAL_HEAD, goal_rows(document))))
    sections += [_rank_section(document, *place) for place in places_of(document)]
    reasons = [[pair["name"], pair["reason"]] for pair in document["pairs"]]
    why = _table(["pair", "reason"], reasons)
    sections.append(section("pairs", "The pairs, and why each competes", why))
    data = {"accuracy": 1.0, "relative": True, "walks": 1, "curves": [], "copies": {}}
    subtitle = (
        f"{len(document['pairs'])} pairs of a walk and an update; {document['command']}, "
        f"{duration_text(document)}"
    )
    return page_of("The league", subtitle, sections, data)


def _rank_section(document: Document, network: str, problem: str) -> Markup:
    keys = [f"{accuracy:g}" for accuracy in document["accuracies"]]
    goals = [goal_text(document, key) for key in keys]
    head = ["pair", *(f"{measure} to {one}" for measure in MEASURES for one in goals)]
    rows = [
        [name_of(cell), *(cell[measure][key] for measure in MEASURES for key in keys)]
        for cell in cells_of(document, network, problem)
    ]
    name = f"rank-{len(network)}-{network}-{problem}"
    return section(name, f"{network}, {problem}", _table(head, rows, sortable=True))


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], sortable: bool = False) -> Markup:
    top = tag("tr", *[tag("th", title, scope="col", class_="text") for title in head])
    body = [
        tag("tr", *[_cell(value, i == 0) for i, value in enumerate(row)], data_index=k)
        for k, row in enumerate(rows)
    ]
    made = tag(
        "table", tag("thead", top), tag("tbody", *body), class_="sortable" if sortable else None
    )
    return tag("div", made, class_="wide", tabindex="0", role="group", aria_label="Table")


def _cell(value: Any, first: bool) -> Markup:
    if first:
        return tag("th", *_breakable(value), scope="row")
    if isinstance(value, str):
        return tag("td", *_breakable(value), class_="text")
    middle, low, high = value
    small = "" if middle is None else tag("small", f"[{short_number(low)}, {short_number(high)}]")
    return tag("td", short_number(middle), small, data_value="inf" if middle is None else middle)


def _breakable(text: str) -> list[str]:
    """Return the parts of a text whose lines may break after underscores; copies are unchanged."""
    parts = text.split("_")
    return [piece for part in parts[:-1] for piece in (f"{part}_", Markup("<wbr>"))] + parts[-1:]
