"""The section of the page that shows theory beside the measured numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levywalk.report.page.markup import Markup, section, tag, with_commands
from levywalk.trace import Comparison
from levywalk.trace.tables import percent, whole


@dataclass(frozen=True)
class Theory:
    """What theory says about each design.

    Attributes
    ----------
    rows
        By design: "dwell", "iid_dwell", "spectral_gap", "spectral_gap_trusted", "total_variation",
        and where they are known "floor", "bias2", "steps" (predicted, at the best step size) and
        "bound" (its terms by name).
    notes
        Sentences: findings, and reasons why something is missing.
    """

    rows: Mapping[str, Mapping[str, Any]]
    notes: Sequence[str] = ()


def theory_section(results: Comparison, theory: Theory | None) -> Markup:
    """Return the theory as a table beside the measured numbers, or why it is missing."""
    if theory is None:
        return Markup()
    notes = [tag("p", *with_commands(note), class_="note") for note in theory.notes]
    if not theory.rows:
        return section("theory", "What theory says", *notes)
    columns: list[tuple[str, Any]] = [
        ("steps per visit at the worst place", lambda row, _: f"{row['dwell']:.3g}"),
        ("… if drawn i.i.d.", lambda row, _: f"{row['iid_dwell']:.3g}"),
        (
            "right spectral gap",
            lambda row, _: (
                f"{'' if row['spectral_gap_trusted'] else '≤ '}{row['spectral_gap']:.3g}"
            ),
        ),
        ("total variation, target to chain", lambda row, _: _tiny(row["total_variation"])),
        ("floor from jumps", lambda row, _: _share(row.get("bias2"))),
        ("floor at this γ, predicted", lambda row, _: _share(row.get("floor"))),
        ("error at the end, measured", lambda _, name: percent(results.final(name))),
        (
            f"steps to {percent(results.accuracy)}, predicted at the best γ",
            lambda row, _: _steps(row.get("steps")),
        ),
        ("… is this trusted?", lambda row, _: _trust(row.get("steps_trusted"))),
        ("… measured", lambda _, name: whole(results.steps_to[name])),
    ]
    if any(row.get("bound") for row in theory.rows.values()):
        columns.append(
            (
                "corrected bound: transient + variance + bias + rest",
                lambda row, _: _bound(row.get("bound")),
            )
        )
    names = list(results.traces)
    head = tag(
        "tr",
        tag("th", "design", scope="col"),
        *[tag("th", title.replace(" %", "\u00a0%"), scope="col") for title, _ in columns],
    )
    body = [
        tag(
            "tr",
            tag("th", name, scope="row", data_swatch=names.index(name)),
            *[tag("td", cell(row, name)) for _, cell in columns],
        )
        for name, row in theory.rows.items()
        if name in results.traces
    ]
    table = tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", *body), class_="sortable"),
        class_="wide",
        tabindex="0",
        role="group",
        aria_label="Theory beside measurement",
    )
    return section("theory", "What theory says, beside what was measured", table, *notes)


def _tiny(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "–" if value is None else "0 %" if abs(value) < 1e-12 else percent(value)


def _steps(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if math.isfinite(value) and value < 1e15 else "never"


def _trust(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def _bound(terms: Mapping[str, float] | None) -> str:
    return (
        "–"
        if not terms
        else f"{percent(sum(terms.values()))} = "
        + " + ".join(percent(term) for term in terms.values())
    )
