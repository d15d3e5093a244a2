"""A plan in the vector loop: tables that are packed once, and blocks of replicas that go through
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.engine.kernels import tables, walkers
from levywalk.engine.kernels.machine import shape
from levywalk.engine.kernels.rows import SHORT
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings, last_finite
from levywalk.problem import GeneralizedLinear, is_logistic

_NO_DIARY = walkers.no_diary()


class Walkers:
    """A plan in the tables of `levywalk.engine.kernels.walkers`."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan = plan
        (self.phase,) = plan.phases
        self.tables, reach = tables.pack(plan.network, self.phase.bound, problem, plan.update)
        lines = self.tables.lines if self.tables.lines <= SHORT else 0
        ridge, iid = problem.ridge > 0.0, self.phase.bound.table is not None
        self.case = (lines, is_logistic(problem), ridge, iid, reach)
        self.kind = tables.kind_of(problem)
        self.widths = tables.widths_of(self.tables.lines, self.kind, iid)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop for this number of walkers per group."""
        return walkers.compiled_walkers(self.kind, width, shape().chunk, *self.case)

    def step_parameters(self, start: int, stop: int) -> walkers.StepParameters:
        """Return the parameters of the walk in the steps start, …, stop-1."""
        phase = self.phase
        return walkers.StepParameters(
            phase.step_sizes(start, stop), phase.jump_probabilities(start, stop), phase.distances()
        )

    def block(self, state: RunState, keys: Words64, scale: Floats) -> WalkersBlock:
        """Return the object that advances these replicas."""
        return WalkersBlock(self, state, keys, scale)


class WalkersBlock:
    """Some replicas: whole groups of them in vector lanes, the others one by one."""

    def __init__(self, made: Walkers, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.state = made, state
        self.constant = None if made.plan.scheduled else made.step_parameters(0, 1)
        self.rows = walkers.Rows(
            keys,
            scale,
            state.active,
            state.node,
            state.model,
            state.hops,
            state.transfers,
            state.visits,
            state.walk,
        )
        step_parameters = made.step_parameters(0, 1)
        self.parts = [
            (
                made.compiled(width),
                part,
                part_of(self.rows, part),
                walkers.scratch(made.tables, step_parameters, width),
            )
            for width, part in tables.parts_of(0, len(keys), made.widths)
        ]

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        state, made = self.state, self.made
        step_parameters = self.constant or made.step_parameters(start, int(marks[-1]))
        seen = Standings.empty(len(state.node), len(marks), state.model.shape[1])
        for compiled, part, rows, scratch in self.parts:
            compiled(
                rows,
                part_of(seen, part),
                start,
                marks,
                made.tables,
                step_parameters,
                _NO_DIARY,
                scratch,
            )
        if not seen.active.all():
            for r in np.flatnonzero(state.active & ~seen.active[:, -1]):
                self._rest(int(r), start, marks, seen)
        seen.last_into(state)
        return seen

    def _rest(self, r: int, start: int, marks: Ints, seen: Standings) -> None:
        """Set a model that has overflowed to its last finite value.

        The step is found by repeating the walk.
        """
        mark = int(np.argmin(seen.active[r]))
        before = start if mark == 0 else int(marks[mark - 1])
        node, model = self.state.node[r], self.state.model[r]
        if mark > 0:
            node, model = seen.node[r, mark - 1], seen.model[r, mark - 1]
        step, rest = last_finite(
            lambda stop: self._model_at(r, node, model, before, stop),
            before,
            int(marks[mark]),
            model,
        )
        seen.model[r, mark:] = rest
        self.state.diverged_at[r] = step

    def _model_at(self, r: int, node: int, model: Floats, before: int, stop: int) -> Floats:
        """Return replica r's model at step ``stop``, recomputed from the state ``before``."""
        again = part_of(self.rows, slice(r, r + 1))._replace(
            active=np.ones(1, np.bool_),
            node=np.array([node]),
            model=model[None],
            visits=self.state.visits[r : r + 1, :0],
            walk=self.state.walk[r : r + 1, :0],
        )
        seen = Standings.empty(1, 1, len(model))
        step_parameters = self.constant or self.made.step_parameters(before, stop)
        scratch = walkers.scratch(self.made.tables, step_parameters, 1)
        self.made.compiled(1)(
            again,
            seen,
            before,
            np.array([stop]),
            self.made.tables,
            step_parameters,
            _NO_DIARY,
            scratch,
        )
        return np.asarray(seen.model[0, 0])


def part_of(arrays: Any, part: slice) -> Any:
    """Return some rows of all arrays of a named tuple."""
    return type(arrays)(*(array[part] for array in arrays))
