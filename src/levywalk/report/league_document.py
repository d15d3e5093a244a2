"""Readings of a league's document (league.json) that its page and its Markdown share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MEASURES = ("transfers", "bytes", "time", "steps")
MAP_ACCURACIES = (1e-3, 1e-6)  # the accuracies that the map shows
GOAL_HEAD = ("goal", "limit", "found", "by", "met")

Document = Mapping[str, Any]


def places_of(document: Document) -> list[tuple[str, str]]:
    """Return the pairs of a network and a problem, in order."""
    return list(dict.fromkeys((cell["network"], cell["problem"]) for cell in document["cells"]))


def cells_of(document: Document, network: str, problem: str) -> list[Mapping[str, Any]]:
    """Return the cells of a network and a problem; the fewest transfers to the smallest accuracy
    first.
    """
    keys = [f"{accuracy:g}" for accuracy in reversed(document["accuracies"])]
    here = [c for c in document["cells"] if (c["network"], c["problem"]) == (network, problem)]
    return sorted(here, key=lambda cell: [_number(cell["transfers"][key][0]) for key in keys])


def map_rows(document: Document) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the map: the pair that took least, by network, problem, measure and
    accuracy, with and without the Newton token. Servers are limits and not in it; gossip is.
    """
    shown = [a for a in MAP_ACCURACIES if a in document["accuracies"]] or document["accuracies"]
    head = ["network", "problem", "token"]
    head += [f"{measure} to {goal_text(document, f'{a:g}')}" for measure in MEASURES for a in shown]
    rows = []
    for network, problem in places_of(document):
        cells = [c for c in cells_of(document, network, problem) if not c["server"]]
        first_order = [c for c in cells if "newton" not in c["pair"]]
        for label, some in (("first order", first_order), ("any", cells)):
            best = [_best(some, m, f"{a:g}") for m in MEASURES for a in shown]
            rows.append([network, problem, label, *best])
    return head, rows


def goal_text(document: Document, key: str) -> str:
    """Return an accuracy of a league in words: a share of the first error, or a metric's value.

    Examples
    --------
    >>> goal_text({}, "0.001"), goal_text({"metric": "accuracy"}, "0.9")
    ('0.001', 'accuracy 0.9')
    """
    metric = document.get("metric")
    return key if metric is None else f"{metric} {key}"


def tuned_on(document: Document) -> str:
    """Return a sentence about how step sizes were tuned."""
    if document.get("metric") is not None:
        return "Step sizes were tuned with other walks than those reported, on the same instances."
    return "Step sizes were tuned on other instances than those reported."


def goal_rows(document: Document) -> list[list[str]]:
    """Return the rows of the goals."""
    return [
        [
            g["goal"],
            short_number(g["limit"]),
            short_number(g["found"]),
            g["by"],
            "yes" if g["met"] else "no",
        ]
        for g in document["goals"]
    ]


def duration_text(document: Document) -> str:
    """Return how long the run took that wrote a document.

    Examples
    --------
    >>> duration_text({"seconds": 90.0, "stored": 7})
    '1.5 minutes (7 results were stored before)'
    """
    stored = document.get("stored", 0)
    before = f" ({stored} results were stored before)" if stored else ""
    return f"{document['seconds'] / 60:.1f} minutes{before}"


def failure_sentences(document: Document) -> list[str]:
    """Return a sentence for each result that failed and is missing.

    Examples
    --------
    >>> failure_sentences({"failures": [{"name": "mhda + saga on er, snr10", "why": "no memory"}]})
    ['Missing: mhda + saga on er, snr10 (no memory).']
    """
    return [f"Missing: {f['name']} ({f['why']})." for f in document.get("failures", ())]


def name_of(cell: Mapping[str, Any]) -> str:
    """Return the name of a cell's pair, with a mark if it needs a server."""
    return str(cell["pair"]) + (" (server)" if cell["server"] else "")


def short_number(value: float | None) -> str:
    """Return a number with three digits and a unit; not reached is a dash.

    Examples
    --------
    >>> short_number(1234.0), short_number(2.5e6), short_number(None), short_number(3.25)
    ('1.23k', '2.5M', '–', '3.25')
    """
    if value is None:
        return "–"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _best(cells: Sequence[Mapping[str, Any]], measure: str, key: str) -> str:
    best = min(cells, key=lambda cell: _number(cell[measure][key][0]), default=None)
    if best is None or best[measure][key][0] is None:
        return "–"
    return f"{best['pair']}: {short_number(best[measure][key][0])}"


def _number(value: float | None) -> float:
    return float("inf") if value is None else value
