"""Where a claim holds, as data of one picture: a row for each comparison, a column for each ratio
of signal to noise and accuracy, an answer in each cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from levywalk.report.figures.figure_data import RegionCell, RegionData
from levywalk.reproduction.verdicts import Claim, ClaimPoint

_FEWEST = 2  # columns of a picture; a claim with fewer is a list


def region_name(claim: Claim) -> str:
    """Return the name of the picture of a claim.

    Examples
    --------
    >>> from levywalk.reproduction.verdicts import Verdict
    >>> region_name(Claim(3, "simentrap", "…", Verdict.HOLDS, ()))
    'where-3'
    """
    return f"where-{claim.id}"


def picture(claim: Claim) -> RegionData | None:
    """Return what the picture of a claim shows, or None if it has no columns to speak of."""
    points = [point for point in claim.points if point.column[0]]
    columns = list(dict.fromkeys(point.column for point in points))
    if len(columns) < _FEWEST:
        return None
    judged = {point.row for point in points if point.primary}
    points = [point for point in points if not judged or point.row in judged]
    rows = list(dict.fromkeys(point.row for point in points))
    cells = {
        (point.row, point.column): RegionCell(str(point.answer), effect(point)) for point in points
    }
    title = f"[{claim.label}] {claim.verdict}"
    together = " (95 % for all cells together)" if claim.level > 0.95 else ""
    note = (
        "Numbers are medians over instances of the ratio. Coloured: its whole interval says yes or "
        f"no, at the level {100.0 * claim.level:.5g} %{together}."
    )
    return RegionData(
        region_name(claim),
        title,
        note,
        tuple(rows),
        tuple(columns),
        tuple(tuple(cells.get((row, column)) for column in columns) for row in rows),
    )


def effect(point: ClaimPoint) -> str:
    """Return the effect of a cell as short text.

    Examples
    --------
    >>> from levywalk.reproduction.ratios import Ratio
    >>> from levywalk.point_answer import PointAnswer
    >>> effect(ClaimPoint("", Ratio(0.1234, 0.1, 0.2, 0, 9), PointAnswer.YES))
    '0.12'
    >>> effect(ClaimPoint("", Ratio(math.inf, 2.0, math.inf, 0, 9), PointAnswer.YES))
    '∞'
    >>> effect(ClaimPoint("", Ratio(231.4, 200.0, 250.0, 0, 9), PointAnswer.YES))
    '230'
    """
    value = point.ratio.effect
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    short = f"{value:.2g}"
    return f"{float(short):,.0f}" if 100.0 <= float(short) < 1e5 else short


def compared_ranges(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return a table, in Markdown, of the verdicts of two ranges of seeds, and the cells that say
    yes in one and no in the other.

    Parameters
    ----------
    first, second
        The contents of claims.json of both runs.

    Examples
    --------
    >>> def run(answer, high):
    ...     point = {"where": "A/B, SNR 10", "answer": answer, "primary": True}
    ...     points = [point | {"interval": [0.5, high], "undefined": 0, "instances": 9}]
    ...     return {"claims": [{"id": 3, "label": "ring", "verdict": answer, "points": points}]}
    >>> compared_ranges(run("yes", 0.9), run("unclear", None))[-1]
    '| 3 [ring] | yes | unclear | 0 of 1 | 1 | none | 0 |'
    """
    lines = [
        "## A second, independent range of seeds",
        "",
        "A cell whose interval includes the threshold is unclear, so an answer may become unclear "
        "and back; that a cell says yes in one range and no in the other should not happen.\n"
        "Intervals of both ranges have the level of their claim, so hardly any pair of them should "
        "lie apart; what has no interval, such as the least of all instances, is not counted.",
        "",
        "| claim | verdict | verdict, second range | same answers | yes or no became unclear, or "
        "back | yes became no, or back | intervals that lie apart |",
        "|---|---|---|---|---|---|---|",
    ]
    others = {claim["id"]: claim for claim in second["claims"]}
    for claim in first["claims"]:
        other = others[claim["id"]]
        known = {p["where"]: p for p in other["points"] if p["primary"]}
        pairs = [
            (p, known[p["where"]]) for p in claim["points"] if p["primary"] and p["where"] in known
        ]
        flips = [
            one["where"] for one, two in pairs if {one["answer"], two["answer"]} == {"yes", "no"}
        ]
        same = sum(one["answer"] == two["answer"] for one, two in pairs)
        apart = sum(
            _apart(one["interval"], two["interval"])
            for one, two in pairs
            if all(p["undefined"] < p["instances"] and _is_wide(p["interval"]) for p in (one, two))
        )
        lines.append(
            f"| {claim['id']} [{claim['label']}] | {claim['verdict']} | {other['verdict']} | "
            f"{same} of {len(pairs)} | {len(pairs) - same - len(flips)} | "
            f"{'; '.join(flips) or 'none'} | {apart} |"
        )
    return lines


def _is_wide(interval: Sequence[float | None]) -> bool:
    """Return whether it is an interval, and not a single number.

    Examples
    --------
    >>> _is_wide([0.5, 0.9]), _is_wide([0.5, None]), _is_wide([0.5, 0.5])
    (True, True, False)
    """
    return interval[0] != interval[1]


def _apart(one: Sequence[float | None], two: Sequence[float | None]) -> bool:
    """Return whether two intervals of claims.json have no number in common; null is infinite.

    Examples
    --------
    >>> _apart([0.5, 0.7], [0.8, None]), _apart([None, None], [2.0, None])
    (True, False)
    """
    low, high = (
        [math.inf if (end := ends[i]) is None else end for ends in (one, two)] for i in range(2)
    )
    return max(low) > min(high)
