"""A plan in the plain loop: tables that are packed once, and blocks of replicas that go through
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.engine.backends import (
    compiled_update,
    compiled_walk,
    has_builtin_loss,
    has_several_outputs,
    is_plain_sgd,
    samples_update,
)
from levywalk.engine.bind import sample_counts
from levywalk.engine.kernels import tables, twins
from levywalk.engine.kernels.loop import (
    BY_GRADIENT,
    BY_SAMPLES,
    LEAST_SQUARES,
    LOGISTIC_LOSS,
    OWN_LOSS,
    SEVERAL_OUTPUTS,
    Data,
    Graph,
    LoopRows,
    Phases,
    Watch,
    compiled_loop,
)
from levywalk.engine.kernels.several_outputs import SOFTMAX, SQUARES, room_of
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings, last_finite
from levywalk.errors import InvalidParameter
from levywalk.problem import GeneralizedLinear, is_logistic, is_single
from levywalk.problem.losses import SoftmaxLoss, compiled_curvature, compiled_slope
from levywalk.remedy import python_or_command
from levywalk.updates import threshold_steps
from levywalk.walks import BoundDetector, is_plain_design
from levywalk.walks.detector import WHOLE

_NOTHING = Standings.empty(0, 0, 0)


class Loop:
    """A plan in the tables of `levywalk.engine.kernels.loop`; ``still`` walks without a model."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear, still: bool = False) -> None:
        self.plan = plan
        network, bounds = plan.network, [phase.bound for phase in plan.phases]
        one = bounds[0]
        idle = np.empty(0, np.bool_) if one.idle is None else one.idle
        self.graph = Graph(network.indptr.view(np.uint64), network.indices.view(np.uint32), idle)
        counts = sample_counts(problem, one)
        walk = bounds[0].walk
        self.own_walk, self.own_update = not is_plain_design(walk), 0
        if not still and not is_plain_sgd(plan.update):
            by_samples = samples_update(plan.update, problem) is not None
            self.own_update = BY_SAMPLES if by_samples else BY_GRADIENT
        outputs = problem.sample_loss.n_outputs
        # An update that is given the samples themselves computes its own dot products.
        unpadded = still or self.own_update == BY_SAMPLES or outputs > 1
        self.data = Data(
            np.empty((0, 0)) if still else problem.sorted_features,
            np.empty(0) if unpadded else tables.padded_rows(problem),
            problem.sorted_targets.reshape(-1),
            np.concatenate([[0], np.cumsum(counts)]) if len(idle) else problem.offsets,
            getattr(plan.update, "minibatch", None) or 0,
            problem.ridge,
            problem.n_samples == problem.n and (outputs == 1 or plan.detector is None),
            one.spread(np.asarray(problem.smoothness, dtype=np.float64), np.nan),
            problem.n,
            SOFTMAX if isinstance(problem.sample_loss, SoftmaxLoss) else SQUARES,
            outputs,
            problem.sorted_targets[:1].size,
            room_of(outputs) if outputs > 1 else 0,
            is_single(problem),
            problem.l1 * (threshold_steps(plan.update) or 0.0),
        )
        self.weight = _two_rows([bound.spread(bound.weights, np.nan) for bound in bounds])
        self.ratio = _two_rows([bound.ratio for bound in bounds])
        table = bounds[0].table
        self.keep, self.other = (
            (np.empty(0), np.empty(0, np.int32)) if table is None else (table.keep, table.other)
        )
        several = has_several_outputs(problem)
        self.own_loss = not still and not has_builtin_loss(problem) and not several
        loss = (
            LEAST_SQUARES
            if still
            else OWN_LOSS
            if self.own_loss
            else SEVERAL_OUTPUTS
            if several
            else LOGISTIC_LOSS
            if is_logistic(problem)
            else LEAST_SQUARES
        )
        passes = len(idle) > 0 and one.table is None
        self.loop = compiled_loop(loss, self.own_update, self.own_walk, passes)
        self.functions = self._compiled(problem)

    def _compiled(self, problem: GeneralizedLinear) -> list[Any]:
        """Return the user's own slope, update and decision as C functions, or None if built in."""
        plan = self.plan
        walk = plan.method.phases[0].walk
        loss = problem.sample_loss
        slope = compiled_slope(loss) if self.own_loss else None
        update = _update_twin(self.own_update, plan)
        decide = compiled_walk(walk) if self.own_walk else None
        # Only an update that is given samples asks for curvatures.
        asks = slope is not None and self.own_update == BY_SAMPLES
        bend = compiled_curvature(loss) if asks else None
        self.curvature = bend and twins.once(
            loss,
            lambda: twins.compile_slope(bend, f"Loss.compiled_curvature of {loss.name}"),
            "compiled_curvature",
        )
        return [
            slope
            and twins.once(
                loss, lambda: twins.compile_slope(slope, f"Loss.compiled of {loss.name}")
            ),
            update and twins.once(plan.update, update),
            decide and twins.once(walk, lambda: twins.compile_decision(decide, plan)),
        ]

    def twins(self, state: RunState) -> twins.Twins:
        """Return the addresses of the user's own functions and of their memory."""
        found = twins.no_twins(state)
        if not any(self.functions):
            return found
        addresses = [
            0 if function is None else int(function.address) for function in self.functions
        ]
        method, bound, network = self.plan.method, self.plan.phases[0].bound, self.plan.network
        found = found._replace(
            slope=addresses[0],
            update=addresses[1],
            decide=addresses[2],
            loss=np.array([addresses[0], getattr(self.curvature, "address", 0)], np.int64),
            token=twins.entries(self.plan, method.token_memory, state.token_memory),
            node=twins.entries(self.plan, method.node_memory, state.node_memory),
        )
        if self.own_walk:
            names = list(method.node_memory)
            walk = method.phases[0].walk
            found = found._replace(
                asked=np.array(
                    [names.index(f"walk.{name}") for name in walk.asks_neighbours], np.int64
                ),
                degrees=network.degree[network.indices].astype(np.int64),
                scores=bound.scores[network.indices],
                own_scores=bound.scores,
            )
        return found

    def phases(self, start: int, stop: int) -> Phases:
        """Return the parameters of the walk in the steps start, …, stop-1."""
        phases = self.plan.phases
        return Phases(
            self.weight,
            self.ratio,
            _two_rows([phase.step_sizes(start, stop) for phase in phases]),
            np.array([phases[0].published.scaled, phases[-1].published.scaled]),
            np.array([phases[0].published.most, phases[-1].published.most]),
            _two_rows([phase.jump_probabilities(start, stop) for phase in phases]),
            _two_rows([phase.distances() for phase in phases], fill=1.0),
            self.keep,
            self.other,
        )

    def block(self, state: RunState, keys: Words64, scale: Floats) -> LoopBlock:
        """Return the object that advances these replicas."""
        return LoopBlock(self, state, keys, scale)


def _update_twin(kind: int, plan: RunPlan) -> Callable[[], Any] | None:
    """Return what compiles the twin of the plan's update, or None for plain SGD."""
    if kind == BY_SAMPLES:
        problem = plan.problem
        assert isinstance(problem, GeneralizedLinear)
        found = samples_update(plan.update, problem)
        assert found is not None
        outputs = problem.sample_loss.n_outputs
        if outputs > 1:
            columns = problem.sorted_targets[:1].size
            return lambda: twins.compile_several(found, plan, outputs, columns)
        return lambda: twins.compile_linear(found, plan)
    update = compiled_update(plan.update) if kind else None
    return None if update is None else lambda: twins.compile_update(update, plan)


class LoopBlock:
    """Some replicas, one after the other."""

    def __init__(self, made: Loop, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.state = made, state
        self.keys, self.scale = keys, scale
        self.before = state.copy()
        self.packed = _pack(state, keys, scale, made.plan.detector)
        self.constant = None if made.plan.scheduled else made.phases(0, 1)
        self.twins = made.twins(state)

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        state, before = self.state, self.before
        before.overwrite(state)
        seen = Standings.empty(len(state.node), len(marks), state.model.shape[1])
        self.walk(start, int(marks[-1]), marks, seen)
        finite = state.active & np.isfinite(state.model).all(axis=1)
        for r in np.flatnonzero(before.active & ~finite & (state.diverged_at < 0)):
            self._rest(int(r), start, marks, seen)
        seen.note(state, -1)
        return seen

    def records_from(self, step: int) -> None:
        """Let the first column of the recorded walk be that of this step."""
        rows, watch = self.packed
        self.packed = rows._replace(first=step), watch

    def walk(
        self, start: int, stop: int, marks: Ints | None = None, seen: Standings = _NOTHING
    ) -> None:
        """Advance the replicas from step ``start`` to step ``stop``, and write to ``seen`` where
        they are at the marks before; do not check for overflow at the end.
        """
        made, (rows, watch) = self.made, self.packed
        phases = self.constant or made.phases(start, stop)
        marks = np.array([stop]) if marks is None else marks
        given = (made.graph, made.data, phases, watch, self.twins)
        made.loop(rows, start, stop, *given, marks, seen)
        if self.twins.bad[0]:
            walk = made.plan.method.phases[0].walk
            raise InvalidParameter(
                f"the compiled decision of walk {walk.name} returned a node outside the network, "
                "or never reached a node with data; compare it with decide"
                + python_or_command(
                    ", which backend='reference' uses", ": without compiled() that is used"
                )
            )

    def _rest(self, r: int, start: int, marks: Ints, seen: Standings) -> None:
        """Set a model that has overflowed to its last finite value.

        The step is found by repeating the walk.
        """
        seen.active[r, -1] = False  # the last mark has not been noted yet
        mark = int(np.argmin(seen.active[r]))
        since = start if mark == 0 else int(marks[mark - 1])
        first = self._repeated(r, self.before.rows(slice(r, r + 1)), start, since)
        step, rest = last_finite(
            lambda stop: self._repeated(r, first, since, stop).model[0],
            since,
            int(marks[mark]),
            first.model[0],
        )
        seen.model[r, mark:] = self.state.model[r] = rest
        self.state.diverged_at[r], self.state.active[r] = step, False

    def _repeated(self, r: int, state: RunState, start: int, stop: int) -> RunState:
        """Return replica r's state at step ``stop``, recomputed from that at ``start``."""
        one = slice(r, r + 1)
        again = LoopBlock(self.made, state.copy(), self.keys[one], self.scale[one])
        if stop > start:
            again.walk(start, stop)
        return again.state


def _pack(
    state: RunState, keys: Words64, scale: Floats, detector: BoundDetector | None
) -> tuple[LoopRows, Watch]:
    """Return the arrays of a state in the form that the loop uses."""
    rows = LoopRows(
        keys,
        scale,
        state.node,
        state.model,
        state.active,
        state.hops,
        state.transfers,
        state.visits,
        state.walk,
        0,
    )
    memory, count = state.token_memory, len(state.node)
    watch = Watch(
        state.phase,
        state.switched_at,
        memory.get("detector.mean", np.zeros((count, 0))),
        memory.get("detector.power", np.zeros(count)),
        memory.get("detector.mass", np.zeros(count)),
        memory.get("detector.streak", np.zeros(count, np.int64)),
        detector.threshold if detector else 0.0,
        detector.steady if detector else 0.0,
        detector.rate if detector else 0.0,
        detector.patience if detector else 1,
        WHOLE,
    )
    return rows, watch


def _two_rows(rows: list[Floats], fill: float = 0.0) -> Floats:
    """Stack one or two rows to two rows of the same length.

    A single number is repeated, and a short table is padded.
    """
    first, second = rows[0], rows[-1]
    length = max(len(first), len(second), 1)
    out = np.full((2, length), fill)
    for row, values in zip(out, (first, second), strict=True):
        row[: len(values)] = values
        if len(values) == 1:
            row[:] = values[0]
    return out
