"""The walk of a piece before its updates: a walk that does not see the model can run ahead.

The loop of `levywalk.engine.kernels.walkers` walks for designs, and the plain loop for walks that
remember or that pass nodes without data. Both count hops and transfers, and write the nodes of a
piece into a buffer along which the models are then updated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from levywalk.arrays import Ints, Ints32, Words64
from levywalk.engine.kernels import tables, walkers
from levywalk.engine.kernels.loop_backend import Loop, LoopBlock
from levywalk.engine.kernels.machine import shape
from levywalk.engine.kernels.vector_backend import part_of
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.problem import GeneralizedLinear

_NO_DIARY = walkers.no_diary()


class WalkPart(NamedTuple):
    """Replicas that are advanced by one loop, and the nodes of their updates in a piece."""

    width: int
    rows: slice
    nodes: Ints32  # (replicas, steps)


def room_for_nodes(width: int, rows: slice, steps: int) -> Ints32:
    """Return room for the nodes of a piece, in the order in which the loop reads them."""
    order: Literal["C", "F"] = "C" if width == 1 else "F"
    return np.empty((rows.stop - rows.start, steps), np.int32, order=order)


Ahead = Callable[[int, Ints, Standings], None]


class DesignWalk:
    """The walk of a design, by the vector loop without a model."""

    def __init__(self, plan: RunPlan) -> None:
        (self.phase,) = plan.phases
        self.tables, reach = tables.pack(plan.network, self.phase.bound, None, None)
        self.case = (0, False, False, self.phase.bound.table is not None, reach)

    def block(self, state: RunState, keys: Words64, parts: list[WalkPart]) -> Ahead:
        """Return what walks to each end, counts, and writes the nodes of the parts."""
        loops: list[tuple[Any, ...]] = []
        for width, some, nodes in parts:
            here, count = state.rows(some), some.stop - some.start
            rows = walkers.Rows(
                keys[some],
                np.ones(count),
                np.ones(count, np.bool_),
                here.node,
                np.empty((count, 0)),
                here.hops,
                here.transfers,
                here.visits,
                nodes,
            )
            loops.append(
                (
                    walkers.compiled_walkers(walkers.WALK, width, shape().chunk, *self.case),
                    some,
                    rows,
                    walkers.scratch(self.tables, self._step_parameters(0, 1), width),
                )
            )

        def ahead(start: int, ends: Ints, seen: Standings) -> None:
            step_parameters = self._step_parameters(start, int(ends[-1]))
            walked = seen._replace(model=seen.model[:, :, :0].copy())
            for compiled, some, rows, scratch in loops:
                compiled(
                    rows, part_of(walked, some), start, ends, self.tables, step_parameters,
                    _NO_DIARY, scratch,
                )  # fmt: skip
            for name in ("node", "hops", "transfers"):
                getattr(state, name)[...] = getattr(seen, name)[:, -1]
            seen.small_messages[...] = state.small_messages[:, None]

        return ahead

    def _step_parameters(self, start: int, stop: int) -> walkers.StepParameters:
        phase = self.phase
        return walkers.StepParameters(
            np.ones(1), phase.jump_probabilities(start, stop), phase.distances(), start
        )


class OwnWalk:
    """A walk with a compiled decision, by the plain loop with models that rest."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.loop = Loop(plan, problem, still=True)

    def block(self, state: RunState, keys: Words64, parts: list[WalkPart]) -> Ahead:
        """Return what walks to each end, counts, and writes the nodes of the parts."""
        count = len(keys)
        buffer = np.empty((count, parts[0].nodes.shape[1]), np.int32)
        walking = replace(
            state, model=np.empty((count, 0)), active=np.zeros(count, np.bool_), walk=buffer
        )
        block = LoopBlock(self.loop, walking, keys, np.ones(count))

        def ahead(start: int, ends: Ints, seen: Standings) -> None:
            block.records_from(start)
            at = start
            for i, stop in enumerate(ends.tolist()):
                block.walk(at, stop)
                at = stop
                for name in ("node", "hops", "transfers", "small_messages"):
                    getattr(seen, name)[:, i] = getattr(state, name)
            for part in parts:
                part.nodes[:, : at - start] = buffer[part.rows, : at - start]

        return ahead
