"""The states of replicas at several steps (`Standings`), which a backend returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from levywalk.arrays import Bools, Floats, Ints
from levywalk.engine.run_state import RunState


class Standings(NamedTuple):
    """The state of every replica at every mark.

    The arrays have the shape (replicas, marks); the models have the shape (replicas, marks, dim).
    """

    node: Ints
    model: Floats
    hops: Ints
    transfers: Ints
    small_messages: Ints
    active: Bools  # False once the model has overflowed; it keeps its last finite value

    @classmethod
    def empty(cls, replicas: int, marks: int, dim: int) -> Self:
        """Return empty arrays for the results of a backend.

        Examples
        --------
        >>> Standings.empty(2, 3, 10).model.shape
        (2, 3, 10)
        """
        shape = (replicas, marks)
        return cls(
            np.empty(shape, np.int64),
            np.empty((*shape, dim)),
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
            np.zeros(shape, np.int64),
            np.empty(shape, np.bool_),
        )

    @classmethod
    def by_steps(
        cls, state: RunState, start: int, marks: Ints, advance: Callable[[int, int], None]
    ) -> Self:
        """Advance a state from mark to mark and record it at each mark."""
        seen = cls.empty(len(state.node), len(marks), state.model.shape[1])
        for i, stop in enumerate(marks.tolist()):
            advance(start, stop)
            start = stop
            seen.note(state, i)
        return seen

    def note(self, state: RunState, mark: int) -> None:
        """Write the present state of the replicas as that at a mark."""
        for name, array in zip(self._fields, self, strict=True):
            array[:, mark] = getattr(state, name)

    def last_into(self, state: RunState) -> None:
        """Set a state to that of the replicas at the last mark."""
        for name, array in zip(self._fields, self, strict=True):
            getattr(state, name)[...] = array[:, -1]


def last_finite(
    model_at: Callable[[int], Floats], finite: int, broken: int, model: Floats
) -> tuple[int, Floats]:
    """Return the last step at which a model was finite, and the model at that step.

    Bisection finds it, because a model that is not finite remains so.
    """
    while broken - finite > 1:
        middle = (finite + broken) // 2
        trial = model_at(middle)
        if np.isfinite(trial).all():
            finite, model = middle, trial
        else:
            broken = middle
    return finite, model
