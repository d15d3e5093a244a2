"""How a claim is judged: its cells, the answer in each cell, and the verdict over all cells.

A claim is judged in cells: a comparison of two methods (the row) at a ratio of signal to noise and
an accuracy (the column), or whatever else the claim is about. In a cell the effect is a median over
instances. Its interval is the exact one of a median (the number of instances below the true median
is binomial), widened by a bootstrap of the tuning instances. The answer is *yes* if the whole
interval supports the claim, *no* if the whole interval contradicts it, and *unclear* otherwise.

**Correction for the number of cells** (Bonferroni): a claim with m primary cells uses intervals of
the level 1 - 0.05/m, so that with 95 % confidence no answer of the claim is wrong. m is the number
of cells that the claim could judge; it is known before any data. A quick run has too few instances
for that: its intervals have the level 95 % each.

The claim **holds** if all primary cells say yes, **holds in part** if some do, and **does not
hold** if none says yes and some say no; otherwise it is **undecided**. `Claim.where` is the region
in which it holds. Cells that are *shown* are reported and change no verdict.

An instance on which neither method gets to the accuracy says nothing about their ratio: it is left
out and counted as undefined, and a cell with more than half of them undefined is unclear.

Thresholds other than 1 are ours, because the paper gives no number; each is marked so where it is
used: alike is a ratio within [0.8, 1.25], trapped is a dwell of ten times that of i.i.d. sampling,
no loss of speed is a ratio of at most 1.1, an error gap is a floor more than a tenth above, and
"recovers i.i.d. sampling" is at most 1.5 times its steps. The measured ratio is the answer.

These rules were written before the reported instances were run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from levywalk.notebook import table_html
from levywalk.point_answer import PointAnswer
from levywalk.reproduction.ratios import Ratio


class Verdict(StrEnum):
    """What all points together say about a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNDECIDED = "undecided"


ALPHA = 0.05  # the probability that any answer of a claim is wrong
_SHOWN = 4  # points, where a line is all there is


Rule = Callable[[Ratio], PointAnswer]
Column = tuple[str, str]  # such as ("SNR 115", "10 %")


@dataclass(frozen=True)
class ClaimPoint:
    """One cell, judged: what is compared, the effect with its interval, and the answer.

    ``row`` and ``column`` are its place in the picture of the claim.
    """

    where: str
    ratio: Ratio
    answer: PointAnswer
    primary: bool = True
    beside: Mapping[str, Ratio] = field(
        default_factory=dict
    )  # the same comparison by other measures; it changes no verdict
    row: str = ""
    column: Column = ("", "")


@dataclass(frozen=True)
class Cell:
    """One cell, before it is judged.

    Attributes
    ----------
    ask
        Returns the effect with an interval of the given level.
    rule
        Answers; None for a number that is only shown.
    beside
        Returns the same comparison by other measures, with intervals of the given level.
    """

    row: str
    column: Column
    ask: Callable[[float], Ratio]
    rule: Rule | None
    beside: Callable[[float], Mapping[str, Ratio]] | None = None

    def claim_point(self, level: float) -> ClaimPoint:
        """Return the cell with its answer."""
        found = self.ask(level)
        column = ", ".join(part for part in self.column if part)
        return ClaimPoint(
            f"{self.row}, {column}" if column else self.row,
            found,
            PointAnswer.SHOWN if self.rule is None else self.rule(found),
            self.rule is not None,
            {} if self.beside is None else self.beside(level),
            self.row,
            self.column,
        )


def level_of(cells: int, corrected: bool = True) -> float:
    """Return the level of the intervals of a claim with some primary cells (Bonferroni).

    Examples
    --------
    >>> level_of(1), round(level_of(50), 6)
    (0.95, 0.999)
    """
    return 1.0 - ALPHA / (max(cells, 1) if corrected else 1)


@dataclass(frozen=True, repr=False)
class Claim:
    """A claim of the paper, its points and its verdict."""

    id: int
    label: str
    text: str
    verdict: Verdict
    points: tuple[ClaimPoint, ...]
    level: float = 0.95  # of each interval

    @property
    def leading(self) -> Ratio:
        """The effect to show: that of the first primary point, or of the first one."""
        return next((p.ratio for p in self.points if p.primary), self.points[0].ratio)

    @property
    def where(self) -> str:
        """Where the claim holds and where it does not, in words: row by row of its picture."""
        if self.verdict == Verdict.HOLDS:
            return "everywhere"
        rows = dict.fromkeys(point.row or point.where for point in self.points if point.primary)
        told = []
        for row in rows:
            own = [p for p in self.points if p.primary and (p.row or p.where) == row]
            parts = [
                f"{answer} {region(own, answer)}".strip()
                for answer in (PointAnswer.YES, PointAnswer.NO, PointAnswer.UNCLEAR)
                if any(point.answer == answer for point in own)
            ]
            told.append(f"{row}: {'; '.join(parts)}")
        return " | ".join(told)

    @property
    def tally(self) -> str:
        """How many primary points say what, and the first few of those that do not say yes."""
        primary = [point for point in self.points if point.primary]
        told = (
            f"yes at {sum(point.answer == PointAnswer.YES for point in primary)} of "
            f"{len(primary)} points"
        )
        for answer in (PointAnswer.NO, PointAnswer.UNCLEAR):
            names = [point.where for point in primary if point.answer == answer]
            if names:
                more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                told += f"\n{answer} at {len(names)}: {'; '.join(names[:_SHOWN])}{more}"
        return told

    def __repr__(self) -> str:
        return f"Claim({self.id} [{self.label}] {self.verdict}: {len(self.points)} points)"

    def _repr_html_(self) -> str:
        lines = [
            (
                point.where,
                f"{point.ratio.effect:.3g} [{point.ratio.low:.3g}, {point.ratio.high:.3g}]: "
                f"{point.answer}",
            )
            for point in self.points
        ]
        return table_html(lines, f"{self.id} [{self.label}] {self.text}: {self.verdict}")

    def as_json(self) -> dict[str, Any]:
        """Return the claim as plain JSON."""
        return {
            "id": self.id,
            "label": self.label,
            "text": self.text,
            "verdict": self.verdict,
            "effect": _number(self.leading.effect),
            "interval": [_number(self.leading.low), _number(self.leading.high)],
            "where": self.where,
            "level": self.level,
            "points": [
                {"where": point.where}
                | _ratio_as_json(point.ratio)
                | {"answer": point.answer, "primary": point.primary}
                | {"row": point.row, "column": list(point.column)}
                | {"beside": {name: _ratio_as_json(found) for name, found in point.beside.items()}}
                for point in self.points
            ],
        }


def _ratio_as_json(found: Ratio) -> dict[str, Any]:
    return {
        "effect": _number(found.effect),
        "interval": [_number(found.low), _number(found.high)],
        "undefined": found.undefined,
        "instances": found.of,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def verdict(points: Sequence[ClaimPoint]) -> Verdict:
    """Return the verdict of some points.

    Examples
    --------
    >>> unknown = Ratio(1.0, 0.5, 2.0, 0, 9)
    >>> points = [
    ...     ClaimPoint("a", unknown, PointAnswer.YES),
    ...     ClaimPoint("b", unknown, PointAnswer.UNCLEAR),
    ...     ClaimPoint("c", unknown, PointAnswer.NO, primary=False),
    ... ]
    >>> print(verdict(points))
    holds in part
    """
    answers = [point.answer for point in points if point.primary]
    if answers and all(answer == PointAnswer.YES for answer in answers):
        return Verdict.HOLDS
    if PointAnswer.YES in answers:
        return Verdict.IN_PART
    return Verdict.FAILS if PointAnswer.NO in answers else Verdict.UNDECIDED


def region(points: Sequence[ClaimPoint], answer: PointAnswer) -> str:
    """Return, in words, the columns in which the points of a row give an answer.

    Examples
    --------
    >>> unknown = Ratio(1.0, 0.5, 2.0, 0, 9)
    >>> def point(group, item, answer):
    ...     return ClaimPoint("", unknown, PointAnswer(answer), column=(group, item))
    >>> row = [point("SNR 10", "10 %", "no"), point("SNR 10", "1 %", "yes")]
    >>> row += [point("SNR 115", "10 %", "yes"), point("SNR 115", "1 %", "yes")]
    >>> region(row, PointAnswer.YES)
    'at SNR 10 (1 %) and SNR 115'
    >>> region(row[2:], PointAnswer.YES)
    'everywhere'
    """
    if all(point.answer == answer for point in points):
        return "everywhere" if len(points) > 1 else ""
    told = []
    for group in dict.fromkeys(point.column[0] for point in points):
        own = [point for point in points if point.column[0] == group]
        items = [point.column[1] for point in own if point.answer == answer]
        if len(items) == len(own):
            told.append(group)
        elif items:
            told.append(f"{group} ({', '.join(items)})")
    return f"at {', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else f"at {told[0]}"


# ---- answers -------------------------------------------------------------------------------------


def below(limit: float) -> Rule:
    """Answer yes if the interval lies below the limit.

    Examples
    --------
    >>> str(below(1.0)(Ratio(0.8, 0.7, 0.9, 0, 10))), str(below(1.0)(Ratio(0.8, 0.7, 1.1, 0, 10)))
    ('yes', 'unclear')
    """
    return lambda r: _answer(r, r.high < limit, r.low >= limit)


def above(limit: float) -> Rule:
    """Answer yes if the interval lies above the limit."""
    return lambda r: _answer(r, r.low > limit, r.high <= limit)


def within(low: float, high: float) -> Rule:
    """Answer yes if the interval lies within the limits."""
    return lambda r: _answer(r, low <= r.low and r.high <= high, r.high < low or r.low > high)


def at_least(limit: float) -> Rule:
    """Answer yes if the interval lies at the limit or above."""
    return lambda r: _answer(r, r.low >= limit, r.high < limit)


def at_most(limit: float) -> Rule:
    """Answer yes if the interval lies at the limit or below."""
    return lambda r: _answer(r, r.high <= limit, r.low > limit)


def _answer(found: Ratio, yes: bool, no: bool) -> PointAnswer:
    if math.isnan(found.effect) or found.undefined > found.of // 2:
        return PointAnswer.UNCLEAR
    return PointAnswer.YES if yes else PointAnswer.NO if no else PointAnswer.UNCLEAR
