"""The section of the page with the claims of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from levywalk.point_answer import PointAnswer
from levywalk.report.page.markup import Markup, plain, section, tag
from levywalk.report.page.summary import copy_tools, csv_line, latex, latex_table

_BESIDE = ("excess loss", "median", "transfers")
_SHORT = 160  # longest text of a cell, in characters
_PLURALS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}


def besides(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the other measures by which some points were compared, as names of columns.

    Examples
    --------
    >>> besides(
    ...     [{"where": "ring"}, {"where": "grid", "beside": {"transfers": {}, "excess loss": {}}}]
    ... )
    ['excess loss', 'transfers']
    """
    there = {name for point in points for name in _mapping(point.get("beside"))}
    return [name for name in _BESIDE if name in there] + sorted(there - set(_BESIDE))


def effect_text(found: Mapping[str, Any] | None) -> str:
    """Return an effect with its interval as text; null in claims.json is infinite, or undefined if
    all are.

    Examples
    --------
    >>> effect_text({"effect": 2.0, "interval": [1.25, None], "undefined": 1, "instances": 20})
    '2 [1.25, ∞], 1 of 20 undefined'
    >>> (
    ...     effect_text(
    ...         {"effect": None, "interval": [None, None], "undefined": 20, "instances": 20}
    ...     ),
    ...     effect_text(None),
    ... )
    ('–', '–')
    """
    if found is None or "effect" not in found:
        return "–"
    undefined, instances = found.get("undefined"), found.get("instances")
    if undefined and undefined == instances:
        return "–"
    effect, interval = found["effect"], found.get("interval")
    text = "∞" if effect is None else plain(float(effect) if isinstance(effect, int) else effect)
    text += f" {plain(interval)}" if interval else ""
    return text + (f", {undefined} of {instances} undefined" if undefined else "")


def answers_text(points: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the primary points say yes, and how many say what else.

    Examples
    --------
    >>> answers_text([{"answer": "yes"}, {"answer": "no"}, {"answer": "no", "primary": False}])
    '1 of 2; 1 no'
    """
    answers = [plain(point.get("answer")) for point in points if point.get("primary", True)]
    yes = answers.count(PointAnswer.YES)
    others = [text for text in dict.fromkeys(answers) if text != PointAnswer.YES]
    return "; ".join(
        [f"{yes} of {len(answers)}", *(f"{answers.count(text)} {text}" for text in others)]
    )


def claims_section(claims: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the claims as a table, and the points of each; a value may be a number, a list or
    text.
    """
    titles = {
        "claim": "text",
        "verdict": "word",
        "effect": "text",
        "interval": None,
        "where": "text",
    }
    head = tag(
        "tr", *[tag("th", title, scope="col", class_=kind) for title, kind in titles.items()]
    )
    rows = [_claim_row(i, claim) for i, claim in enumerate(claims)]
    table = tag(
        "table", tag("thead", head), tag("tbody", *rows), class_="sortable", id="claims-table"
    )
    note = (
        "An effect is a median over instances with its interval, whose level is corrected for the "
        "number of points of its claim; the one here is that of the first of the points "
        "below. Where a claim holds in part, open “where”."
    )
    points = [claim for claim in claims if _listed(claim.get("points"))]
    return section(
        "claims",
        "Claims of the paper",
        tag("p", _counts([str(claim.get("verdict")) for claim in claims])),
        copy_tools("claims-table", "claims-"),
        tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Claims"),
        tag("p", note, class_="note") if points else "",
        *[_points(claim) for claim in points],
    )


def _counts(verdicts: Sequence[str]) -> str:
    """Return how many claims hold, hold in part and do not.

    Examples
    --------
    >>> _counts(["does not hold", "holds", "holds", "holds in part"])
    '2 hold, 1 holds in part, 1 does not hold'
    """
    order = [
        *(text for text in _PLURALS if text in verdicts),
        *dict.fromkeys(v for v in verdicts if v not in _PLURALS),
    ]
    counts = {text: verdicts.count(text) for text in order}
    return ", ".join(
        f"{n} {text if n == 1 else _PLURALS.get(text, text)}" for text, n in counts.items()
    )


def claims_copies(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table of claims as CSV and LaTeX, with separate rows, so that the page can sort
    them.
    """
    keys = ("id", "label", "text", "verdict", "effect", "interval", "where")

    def cells(claim: Mapping[str, Any]) -> list[object]:
        interval = claim.get("interval")
        ends = interval if isinstance(interval, list) and len(interval) == 2 else [None, None]
        return [*(claim.get(key) for key in keys[:5]), *ends, claim.get("where")]

    head = [*keys[:5], "low", "high", "where"]
    rows = [
        " & ".join(
            latex(text)
            for text in (
                plain(claim.get("id")),
                plain(claim.get("label")),
                plain(claim.get("text")),
                plain(claim.get("verdict")),
                f"{plain(claim.get('effect'))} {plain(claim.get('interval'))}",
            )
        )
        + " \\\\\n"
        for claim in claims
    ]
    return {
        "claims-csv": {
            "head": csv_line(head),
            "rows": [csv_line(cells(claim)) for claim in claims],
            "foot": "",
        },
        "claims-latex": latex_table("rllll", "& label & claim & verdict & effect", rows),
    }


def _claim_row(i: int, claim: Mapping[str, Any]) -> Markup:
    name, text, effect = (claim.get(key) for key in ("id", "text", "effect"))
    points = _listed(claim.get("points"))
    first = next((point for point in points if point.get("primary", True)), {})
    return tag(
        "tr",
        tag(
            "th",
            f"{plain(name)} [{plain(claim.get('label'))}]",
            tag("small", plain(text)) if text else "",
            scope="row",
            data_value=plain(name),
        ),
        tag("td", plain(claim.get("verdict")), class_="word"),
        tag(
            "td",
            plain(effect),
            tag("small", plain(first["where"])) if "where" in first else "",
            class_="text",
            data_value=effect if isinstance(effect, (int, float)) else None,
        ),
        tag("td", plain(claim.get("interval"))),
        tag("td", _where(claim, points), class_="text"),
        data_index=i,
    )


def _where(claim: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> str:
    """Return where a claim holds: as text if it is short, else as counts, with the points to be
    opened.
    """
    text = plain(claim.get("where"))
    if not points or len(text) <= _SHORT:
        return text
    answers = dict.fromkeys(
        plain(point.get("answer")) for point in points if point.get("primary", True)
    )
    lists = [
        tag(
            "li",
            tag("b", answer),
            ": ",
            "; ".join(
                plain(point.get("where"))
                for point in points
                if point.get("primary", True) and plain(point.get("answer")) == answer
            ),
        )
        for answer in sorted(answers, key=lambda answer: answer == PointAnswer.YES)
    ]
    return tag("details", tag("summary", f"yes at {answers_text(points)}"), tag("ul", *lists))


def _points(claim: Mapping[str, Any]) -> Markup:
    """Return the points at which a claim was judged, to be opened, with other measures beside."""
    points = _listed(claim.get("points"))
    more = besides(points)
    head = tag(
        "tr",
        *[
            tag("th", text, scope="col", class_="text")
            for text in ("point", "effect [interval]", "answer", *more)
        ],
    )
    rows = [
        tag(
            "tr",
            tag("th", plain(point.get("where")), scope="row"),
            tag("td", effect_text(point), class_="text"),
            tag("td", _answer(point), class_="text"),
            *[
                tag("td", effect_text(_mapping(point.get("beside")).get(name)), class_="text")
                for name in more
            ],
        )
        for point in points
    ]
    summary = f"{plain(claim.get('id'))} [{plain(claim.get('label'))}] {plain(claim.get('text'))}: "
    return tag(
        "details",
        tag("summary", summary, tag("b", plain(claim.get("verdict")))),
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide"),
    )


def _answer(point: Mapping[str, Any]) -> str:
    return plain(point.get("answer")) + ("" if point.get("primary", True) else " (secondary)")


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; a file may hold anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return (
        {key: item for key, item in value.items() if isinstance(item, dict)}
        if isinstance(value, dict)
        else {}
    )
