"""SAG, SAGA and Point-SAGA in vector lanes: the walk of a piece first, then the updates along it.

A walk does not see the model, so its loop can run ahead: that of
`levywalk.engine.kernels.walkers` for designs, and the plain loop for walks that remember. Both
write the nodes of a piece into a buffer, and `levywalk.engine.kernels.gradient_tables` updates the
models along it. The buffer takes about 4 bytes times `_BUFFER`; the slopes are the run's own
memory, 8 bytes per (replica, sample).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.contracts import keeps
from levywalk.engine.backends import compiled_walk, has_builtin_loss
from levywalk.engine.kernels import gradient_tables, tables, walkers
from levywalk.engine.kernels.gradient_tables import NodeData, TableRows, table_scratch
from levywalk.engine.kernels.machine import shape
from levywalk.engine.kernels.rows import SHORT
from levywalk.engine.kernels.vector_backend import part_of
from levywalk.engine.kernels.walk_ahead import DesignWalk, OwnWalk, Part, room_for_nodes
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.problem import GeneralizedLinear, is_logistic
from levywalk.updates import PointSaga, Sag, Saga, Update
from levywalk.walks import is_plain_design

_BUFFER = 1 << 19  # nodes of walks that are made ahead; a call of the two loops costs 0.2 ms
_LEAST, _LONGEST = 256, 1 << 16  # steps of a piece


def table_rule(update: Update, problem: GeneralizedLinear) -> int | None:
    """Return which of the three updates this is, or None.

    Minibatches, and Point-SAGA at nodes with several samples, take the plain loop.
    """
    shared = ("node_memory", "token_memory", "refresh", "ridge")
    several = problem.n_samples > problem.n
    if keeps(update, PointSaga, "apply", "direction", *shared):
        return None if several else gradient_tables.POINT
    for rule, kind in ((gradient_tables.SAG, Sag), (gradient_tables.SAGA, Saga)):
        if keeps(update, kind, "apply", "direction", *shared):
            return rule if update.minibatch is None else None  # type: ignore[attr-defined]
    return None


def walks_ahead(plan: RunPlan, problem: GeneralizedLinear) -> bool:
    """Return whether a plan can run like this: one phase, an update and a loss that have it, and
    data at every node.
    """
    (phase, *others) = plan.method.phases
    return (
        not others
        and plan.detector is None
        and plan.phases[0].bound.idle is None
        and tables.fit(problem)
        and has_builtin_loss(problem)
        and table_rule(plan.update, problem) is not None
        and (is_plain_design(phase.walk) or compiled_walk(phase.walk) is not None)
    )


class WalkThenUpdate:
    """A plan in the tables of `levywalk.engine.kernels.gradient_tables`."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan, (self.phase,) = plan, plan.phases
        rule = table_rule(plan.update, problem)
        assert rule is not None
        table, samples = tables.pack_samples(problem)
        features = problem.sorted_features
        table[:, walkers.WEIGHT] = self.phase.bound.weights
        if rule == gradient_tables.POINT:
            table[:, gradient_tables.SQUARE] = _squares(features)
        lines, far = walkers.lines_of(problem.dim), tables.is_far(table.nbytes + samples.nbytes)
        nodes = table.reshape(-1)
        self.data = NodeData(
            nodes,
            nodes.view(np.uint64),
            samples,
            lines,
            float(problem.ridge),
            float(problem.n),
            float(np.abs(features).max()),
            tables.batch_of(2 * lines, far),
        )
        kind, short = tables.kind_of(problem), lines if lines <= SHORT else 0
        self.case = (short, is_logistic(problem), problem.ridge > 0.0, far)
        self.rule, self.kind, self.width = rule, kind, tables.width_of(2 * lines)
        own = not is_plain_design(self.phase.bound.walk)
        self.walk: DesignWalk | OwnWalk = OwnWalk(plan, problem) if own else DesignWalk(plan)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop for this number of walkers per group."""
        return gradient_tables.compiled_tables(
            self.rule, self.kind, width, shape().chunk, *self.case
        )

    def block(self, state: RunState, keys: Words64, scale: Floats) -> TableBlock:
        """Return the object that advances these replicas."""
        return TableBlock(self, state, keys, scale)


def _squares(features: Floats) -> Floats:
    """Return ‖a‖² of every row, added column by column: the same bits on every machine."""
    total = np.zeros(len(features))
    for column in range(features.shape[1]):
        total += features[:, column] * features[:, column]
    return total


class TableBlock:
    """Some replicas: whole groups of them in vector lanes, the others one by one."""

    def __init__(self, made: WalkThenUpdate, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.state = made, state
        count = len(keys)
        self.steps = min(_LONGEST, max(_LEAST, _BUFFER // max(count, 1)), max(made.plan.steps, 2))
        whole = count - count % made.width
        self.parts = [
            Part(width, rows, room_for_nodes(width, rows, self.steps))
            for width, rows in ((made.width, slice(0, whole)), (1, slice(whole, count)))
            if rows.stop > rows.start
        ]
        self.ahead = made.walk.block(state, keys, self.parts)
        self.loops = []
        for part in self.parts:
            some = state.rows(part.rows)
            rows = TableRows(
                scale[part.rows],
                some.active,
                some.model,
                some.token_memory["update.sum"],
                some.node_memory["update.slopes"],
                some.diverged_at,
                part.nodes,
            )
            self.loops.append(
                (made.compiled(part.width), rows, table_scratch(made.data, part.width))
            )

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        seen = Standings.empty(*self._shape(len(marks)))
        column, last = 0, int(marks[-1])
        while start < last:
            stop = min(start + self.steps, last)
            inside = marks[column : int(np.searchsorted(marks, stop, side="right"))]
            ends = inside if len(inside) and inside[-1] == stop else np.append(inside, stop)
            found = self._piece(start, ends)
            for array, piece in zip(seen, found, strict=True):
                array[:, column : column + len(inside)] = piece[:, : len(inside)]
            start, column = stop, column + len(inside)
        return seen

    def _piece(self, start: int, ends: Ints) -> Standings:
        """Advance the replicas through one piece, whose last step is the last end."""
        state, made, stop = self.state, self.made, int(ends[-1])
        seen = Standings.empty(*self._shape(len(ends)))
        self.ahead(start, ends, seen)
        sizes = made.phase.step_sizes(start, stop)
        for part, (compiled, rows, scratch) in zip(self.parts, self.loops, strict=True):
            compiled(rows, part_of(seen, part.rows), start, ends, made.data, sizes, scratch)
            if state.walk.shape[1]:
                state.walk[part.rows, start:stop] = part.nodes[:, : stop - start]
        return seen

    def _shape(self, marks: int) -> tuple[int, int, int]:
        count, dim = self.state.model.shape
        return count, marks, dim
