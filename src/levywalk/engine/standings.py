"""Where replicas stood at several steps (`Standings`): what a backend hands back from a piece of
the walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from levywalk.arrays import Bools, Floats, Ints
from levywalk.engine.run_state import RunState


class Standings(NamedTuple):
    """Of every replica at every mark: arrays of shape (replicas, marks), the models' (replicas,
    marks, dim).
    """

    node: Ints
    model: Floats
    hops: Ints
    transfers: Ints
    small_messages: Ints
    active: Bools  # False once the model has overflowed; it rests at its last finite value

    @classmethod
    def empty(cls, replicas: int, marks: int, dim: int) -> Self:
        """Return room for what a backend will hand back.

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
        """Advance a state from mark to mark and note where it stands at each."""
        seen = cls.empty(len(state.node), len(marks), state.model.shape[1])
        for i, stop in enumerate(marks.tolist()):
            advance(start, stop)
            start = stop
            for name, array in zip(seen._fields, seen, strict=True):
                array[:, i] = getattr(state, name)
        return seen

    def last_into(self, state: RunState) -> None:
        """Let a state stand where the replicas stood at the last mark."""
        for name, array in zip(self._fields, self, strict=True):
            getattr(state, name)[...] = array[:, -1]
