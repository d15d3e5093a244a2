"""How a claim is judged: its points, the answer at each point, and the verdict over all points.

A claim is judged at several points: accuracies, starts, pairs of methods. At a point the effect is
a median over instances, with a 95 % bootstrap interval over instances. The answer is *yes* if the
whole interval supports the claim, *no* if the whole interval contradicts it, and *unclear*
otherwise. The claim **holds** if all primary points say yes, **holds in part** if some do, and
**does not hold** if none does. Points with exactly two important nodes are secondary: they are
reported and change no verdict. An instance on which neither method gets to the accuracy says
nothing about their ratio: it is left out and counted as undefined, and a point with more than half
of them undefined is unclear. These rules were written before the reported instances were run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from levywalk.notebook import table_html
from levywalk.reproduction.ratios import Ratio


class PointAnswer(StrEnum):
    """What one point says about a claim."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


class Verdict(StrEnum):
    """What all points together say about a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


_SHOWN = 4  # points, where a line is all there is


@dataclass(frozen=True)
class ClaimPoint:
    """One comparison: what is compared, the effect with its interval, and the answer."""

    where: str
    ratio: Ratio
    answer: PointAnswer
    primary: bool = True
    beside: Mapping[str, Ratio] = field(
        default_factory=dict
    )  # the same comparison by other measures; it changes no verdict


@dataclass(frozen=True, repr=False)
class Claim:
    """A claim of the paper, its points and its verdict."""

    id: int
    label: str
    text: str
    verdict: Verdict
    points: tuple[ClaimPoint, ...]

    @property
    def leading(self) -> Ratio:
        """The effect to show: that of the first primary point."""
        return next(point.ratio for point in self.points if point.primary)

    @property
    def where(self) -> str:
        """Where the claim holds and where it does not, in words."""
        if self.verdict == Verdict.HOLDS:
            return "everywhere"
        names = {
            answer: [
                point.where for point in self.points if point.primary and point.answer == answer
            ]
            for answer in (PointAnswer.YES, PointAnswer.UNCLEAR, PointAnswer.NO)
        }
        told = "; ".join(
            f"{answer}: {', '.join(points)}" for answer, points in names.items() if points
        )
        return (
            told
            if names[PointAnswer.YES] or names[PointAnswer.NO]
            else f"neither shown nor refuted; {told}"
        )

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
            "points": [
                {"where": point.where}
                | _ratio_as_json(point.ratio)
                | {"answer": point.answer, "primary": point.primary}
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
    if all(answer == PointAnswer.YES for answer in answers):
        return Verdict.HOLDS
    return Verdict.IN_PART if PointAnswer.YES in answers else Verdict.FAILS


# ---- answers -------------------------------------------------------------------------------------

Rule = Callable[[Ratio], PointAnswer]


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
