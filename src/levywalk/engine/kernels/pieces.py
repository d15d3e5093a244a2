"""A walk whose jumps change at given steps, in the kernel of each of its pieces.

In each piece the walk is a plain design, so the same loops advance it, and the state goes from one
piece to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.engine.bind import BoundPhase
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.step import PublishedPhase


class Pieces:
    """The plans of all pieces; ``make`` returns what advances a plan."""

    def __init__(self, plan: RunPlan, make: Callable[[RunPlan], Any]) -> None:
        self.plan, self._make = plan, make
        self.walk: Any = plan.phases[0].bound.walk
        self._made: dict[int, Any] = {}

    def made(self, step: int) -> Any:
        """Return what advances the plan of a step's piece."""
        piece = int(np.searchsorted(self.walk.begins, step, side="right"))
        if piece not in self._made:
            self._made[piece] = self._make(piece_plan(self.plan, step))
        return self._made[piece]

    def block(self, state: RunState, keys: Words64, scale: Floats) -> PiecesBlock:
        """Return the object that advances these replicas."""
        return PiecesBlock(self, state, keys, scale)


class PiecesBlock:
    """Some replicas, which one loop after another advances."""

    def __init__(self, made: Pieces, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.given = made, (state, keys, scale)
        self._blocks: dict[int, Any] = {}

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        seen: list[Standings] = []
        while True:
            change = self.made.walk.next_change(start)
            last = change is None or change >= marks[-1]
            goals = marks if last else np.append(marks[marks < change], change)
            block = self._block(start)
            found = block.through(start, goals)
            if last:
                seen.append(found)
                break
            wanted = int((marks <= change).sum())  # the change itself may be no mark
            seen.append(Standings(*(array[:, :wanted] for array in found)))
            start, marks = int(goals[-1]), marks[marks > change]
        return Standings(*(np.concatenate(parts, axis=1) for parts in zip(*seen, strict=True)))

    def _block(self, step: int) -> Any:
        made = self.made.made(step)
        if id(made) not in self._blocks:
            self._blocks[id(made)] = made.block(*self.given)
        return self._blocks[id(made)]


def piece_plan(plan: RunPlan, step: int) -> RunPlan:
    """Return the plan with the design that holds at a step, and the same scores and weights."""
    (phase,) = plan.phases
    design = phase.bound.walk.piece_at(step)  # type: ignore[attr-defined]
    bound = replace(phase.bound, walk=design, _view_of={})
    known = phase.published
    published = PublishedPhase(
        design, known.mean_score, known.step_size, known.most, scaled=known.scaled
    )
    method = replace(plan.method, phases=(published,))
    return replace(plan, phases=(BoundPhase(bound, published),), method=method)
