"""Jumps: when the model moves without the Metropolis-Hastings rule, and how far it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.contracts import keeps
from levywalk.errors import InvalidParameter
from levywalk.registry import registered
from levywalk.schedule import Constant, Schedule, is_schedule, schedule_values

MOST_HOPS = 1 << 20


@runtime_checkable
class DistanceLaw(Protocol):
    """The law of a jump's distance d = 1, …, max_hops."""

    @property
    def max_hops(self) -> int:
        """The longest distance."""

    def probabilities(self) -> Floats:
        """Return P(d = 1), …, P(d = max_hops)."""


@registered("distance", "geometric")
@dataclass(frozen=True, slots=True)
class TruncatedGeometric:
    """Geom(p_d, r) of Algorithm [alg:jump]: P(d = i) ∝ p_d (1-p_d)^(i-1), i = 1, …, r.

    Examples
    --------
    >>> TruncatedGeometric(0.5, 3).probabilities()
    array([0.57142857, 0.28571429, 0.14285714])
    """

    p_distance: float = 0.5
    max_hops: int = 3

    def __post_init__(self) -> None:
        clean = checks.real(
            "p_distance", self.p_distance, "in (0, 1]", low=0.0, high=1.0, low_open=True
        )
        object.__setattr__(self, "p_distance", clean)
        object.__setattr__(
            self, "max_hops", checks.integer("max_hops", self.max_hops, low=1, high=MOST_HOPS)
        )

    def probabilities(self) -> Floats:
        """Return the geometric law cut at max_hops."""
        law = self.p_distance * (1.0 - self.p_distance) ** np.arange(self.max_hops)
        return np.asarray(law / law.sum())


@registered("distance", "fixed")
@dataclass(frozen=True, slots=True)
class FixedDistance:
    """Every jump has the same distance.

    Examples
    --------
    >>> FixedDistance(3).probabilities()
    array([0., 0., 1.])
    """

    hops: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "hops", checks.integer("hops", self.hops, low=1, high=MOST_HOPS))

    @property
    def max_hops(self) -> int:
        """The distance itself."""
        return self.hops

    def probabilities(self) -> Floats:
        """Return probability 1 for the last distance and 0 for the others."""
        law = np.zeros(self.hops)
        law[-1] = 1.0
        return law


@registered("distance", "power")
@dataclass(frozen=True, slots=True)
class PowerLaw:
    """P(d = i) ∝ i^-exponent, i = 1, …, max_hops: the heavy tail that is typical of Lévy flights.

    Examples
    --------
    >>> PowerLaw(2.0, max_hops=3).probabilities()
    array([0.73469388, 0.18367347, 0.08163265])
    """

    exponent: float
    max_hops: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "exponent", checks.real("exponent", self.exponent, "at least 0", low=0.0)
        )
        object.__setattr__(
            self, "max_hops", checks.integer("max_hops", self.max_hops, low=1, high=MOST_HOPS)
        )

    def probabilities(self) -> Floats:
        """Return the power law cut at max_hops."""
        law = np.arange(1, self.max_hops + 1, dtype=np.float64) ** -self.exponent
        return np.asarray(law / law.sum())


@registered("jump", "jump")
@dataclass(frozen=True, slots=True)
class JumpLaw:
    """With probability ``p_jump`` (a number or a schedule) the model jumps a distance drawn from
    ``distance``.

    Examples
    --------
    >>> JumpLaw(0.1).mean_distance()
    1.5714285714285714
    """

    p_jump: float | Schedule = 0.1
    distance: DistanceLaw = TruncatedGeometric()

    def __post_init__(self) -> None:
        if not is_schedule(self.p_jump):
            object.__setattr__(self, "p_jump", checks.probability("p_jump", self.p_jump))
        if not isinstance(self.distance, DistanceLaw):
            raise InvalidParameter(
                "distance must be TruncatedGeometric(p_distance, max_hops), FixedDistance(hops) "
                "or "
                f"PowerLaw(exponent, max_hops), got {self.distance!r}"
            )

    def p_jump_at(self, start: int, stop: int) -> Floats:
        """Return p_jump of the steps start, …, stop-1, each checked to lie in [0, 1]."""
        schedule = self.p_jump
        if not is_schedule(schedule):
            schedule = Constant(schedule)  # type: ignore[arg-type]
        return schedule_values("p_jump", schedule, start, stop, high=1.0)

    def cumulative(self) -> Floats:
        """Return P(d ≤ 1), …, P(d ≤ max_hops), the last exactly 1."""
        law = np.asarray(self.distance.probabilities(), dtype=np.float64)
        if (
            law.ndim != 1
            or not law.size
            or not (law >= 0).all()
            or not abs(law.sum() - 1.0) <= 1e-9
        ):
            raise InvalidParameter(f"distance must give probabilities that sum to 1, got {law!r}")
        cumulative = np.cumsum(law)
        cumulative[-1] = 1.0
        return cumulative

    def mean_distance(self) -> float:
        """Return E[d], the hops of one jump."""
        law = distance_law(self)
        return float(law @ np.arange(1, len(law) + 1))


def distance_law(jump: JumpLaw) -> Floats:
    """Return P(d = 1), …, P(d = max_hops) of the distances that simulations draw.

    They draw by `JumpLaw.cumulative`, which a subclass may replace.

    Examples
    --------
    >>> distance_law(JumpLaw(0.1, FixedDistance(2)))
    array([0., 1.])
    """
    if keeps(jump, JumpLaw, "cumulative"):
        return jump.distance.probabilities()
    return np.diff(jump.cumulative(), prepend=0.0)


def jump_distance(uniform: float, p_jump: float, cumulative: Floats) -> int:
    """Return the number of hops of a jump, or 0 for a Metropolis-Hastings decision.

    One uniform number decides whether to jump and how far. The distance is d with probability
    p_jump · P(d): d is the first distance with ``uniform < p_jump * cumulative[d - 1]``.

    Examples
    --------
    >>> law = JumpLaw(0.5, FixedDistance(2)).cumulative()
    >>> jump_distance(0.49, 0.5, law), jump_distance(0.51, 0.5, law)
    (2, 0)
    """
    if uniform >= p_jump:
        return 0
    distance = 1
    while uniform >= p_jump * cumulative[distance - 1]:
        distance += 1
    return distance
