"""Schedules: numbers that change with the step t = 0, 1, …; for p_jump and for step sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats


@runtime_checkable
class Schedule(Protocol):
    """Any object with ``values(start, stop)``: the numbers of the steps start, …, stop-1.

    Oracle and kernels read the same array, so that they make the same decisions; a value may depend on its step alone,
    not on where the piece begins.
    """

    def values(self, start: int, stop: int) -> Floats:
        """Return one value per step."""


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


@dataclass(frozen=True, slots=True)
class Decaying:
    """initial · (1 + t/timescale)^-power: half the initial value at t = timescale when power is 1.

    Examples
    --------
    >>> Decaying(0.1, timescale=2).values(0, 3)
    array([0.1       , 0.06666667, 0.05      ])
    """

    initial: float
    timescale: float
    power: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", checks.real("initial", self.initial, "at least 0", low=0.0))
        object.__setattr__(self, "timescale", checks.positive("timescale", self.timescale))
        object.__setattr__(self, "power", checks.positive("power", self.power))

    def values(self, start: int, stop: int) -> Floats:
        """Return the decaying values of the steps."""
        t = np.arange(start, stop, dtype=np.float64)
        return np.asarray(self.initial * (1.0 + t / self.timescale) ** -self.power)


@dataclass(frozen=True, slots=True)
class Dropping:
    """``initial`` before step ``at``, ``then`` from it on.

    Examples
    --------
    >>> Dropping(0.1, at=2, then=0.0).values(0, 4)
    array([0.1, 0.1, 0. , 0. ])
    """

    initial: float
    at: int
    then: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", checks.real("initial", self.initial, "at least 0", low=0.0))
        object.__setattr__(self, "at", checks.integer("at", self.at, low=0))
        object.__setattr__(self, "then", checks.real("then", self.then, "at least 0", low=0.0))

    def values(self, start: int, stop: int) -> Floats:
        """Return the values of the steps."""
        return np.where(np.arange(start, stop) < self.at, self.initial, self.then)
