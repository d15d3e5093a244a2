"""Schedules: numbers that change with the step t = 0, 1, …, such as p_jump or a step size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.registry import registered


@runtime_checkable
class Schedule(Protocol):
    """Any object with ``values(start, stop)``, which returns the numbers of steps start, …, stop-1.

    The reference backend and the kernels read the same array, so that they make the same decisions.
    A value may depend only on its step, not on ``start`` or ``stop``.
    """

    def values(self, start: int, stop: int) -> Floats:
        """Return one value per step."""


@registered("schedule", "constant")
@dataclass(frozen=True, slots=True)
class Constant:
    """The same value at every step.

    Examples
    --------
    >>> Constant(0.1).values(0, 3)
    array([0.1, 0.1, 0.1])
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", checks.real("value", self.value, "at least 0", low=0.0))

    def values(self, start: int, stop: int) -> Floats:
        """Return the constant, once per step."""
        return np.full(stop - start, self.value)


@registered("schedule", "decaying")
@dataclass(frozen=True, slots=True)
class Decaying:
    """initial · (1 + t/timescale)^-power: half the initial value at t = timescale when power is 1.

    The default ``timescale`` is meant for p_jump. Among the values that were tried, it is the
    shortest that did not slow down convergence on the paper's four networks (docs/paper.md). Jumps
    are needed until the model is near the optimum, so a much smaller step size needs a longer
    timescale, about ten times dim/(γL̄). For step sizes there is no timescale that is good in
    general.

    Examples
    --------
    >>> Decaying(0.1, timescale=2).values(0, 3)
    array([0.1       , 0.06666667, 0.05      ])
    """

    initial: float
    timescale: float = 10_000.0
    power: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "initial", checks.real("initial", self.initial, "at least 0", low=0.0)
        )
        object.__setattr__(self, "timescale", checks.positive("timescale", self.timescale))
        object.__setattr__(self, "power", checks.positive("power", self.power))

    def values(self, start: int, stop: int) -> Floats:
        """Return the decaying values of the steps."""
        t = np.arange(start, stop, dtype=np.float64)
        return np.asarray(self.initial * (1.0 + t / self.timescale) ** -self.power)


@registered("schedule", "dropping")
@dataclass(frozen=True, slots=True)
class Dropping:
    """``initial`` before step ``at``, and ``then`` from step ``at`` on.

    Examples
    --------
    >>> Dropping(0.1, at=2, then=0.0).values(0, 4)
    array([0.1, 0.1, 0. , 0. ])
    """

    initial: float
    at: int
    then: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "initial", checks.real("initial", self.initial, "at least 0", low=0.0)
        )
        object.__setattr__(self, "at", checks.integer("at", self.at, low=0))
        object.__setattr__(self, "then", checks.real("then", self.then, "at least 0", low=0.0))

    def values(self, start: int, stop: int) -> Floats:
        """Return the values of the steps."""
        return np.where(np.arange(start, stop) < self.at, self.initial, self.then)


def is_schedule(value: Any) -> TypeGuard[Schedule]:
    """Return whether ``value`` is a schedule.

    A dict is not one, because its method ``values`` has another meaning.

    Examples
    --------
    >>> is_schedule(Constant(0.1)), is_schedule({"MHLJ": 0.1})
    (True, False)
    """
    return isinstance(value, Schedule) and callable(value.values) and not isinstance(value, Mapping)


def schedule_values(
    name: str, schedule: Schedule, start: int, stop: int, high: float = np.inf
) -> Floats:
    """Return the schedule's numbers of the steps start, …, stop-1, each checked to be finite and in
    [0, high].

    Examples
    --------
    >>> schedule_values("p_jump", Constant(0.1), 5, 7, high=1.0)
    array([0.1, 0.1])
    """
    try:
        values = np.ascontiguousarray(schedule.values(start, stop), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"{name} schedule {schedule!r} must give numbers for values(start, stop): {error}"
        ) from None
    if values.shape != (stop - start,):
        raise InvalidParameter(
            f"{name} schedule must give {stop - start} values for the steps {start} to {stop - 1}, "
            f"got an array of shape {values.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0) & (values <= high)))
    if bad.size:
        domain = (
            f"lie in [0, {high:g}]" if np.isfinite(high) else "be a finite number of at least 0"
        )
        raise InvalidParameter(
            f"{name} must {domain}, got {float(values[bad[0]])!r} at step {start + int(bad[0])} of "
            "the schedule"
        )
    return values
