"""The kernel backend: packs a plan into tables once and advances replicas in compiled loops."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.draws import expanded_keys
from levywalk.engine.backends import (
    compiled_update,
    compiled_walk,
    has_builtin_loss,
    is_plain_sgd,
)
from levywalk.engine.kernels import tables, twins, walkers
from levywalk.engine.kernels.loop import (
    LEAST_SQUARES,
    LOGISTIC_LOSS,
    OWN_LOSS,
    Data,
    Graph,
    LoopRows,
    Phases,
    Watch,
    compiled_loop,
)
from levywalk.engine.kernels.machine import shape
from levywalk.engine.kernels.rows import SHORT
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.errors import InvalidParameter
from levywalk.problem import GeneralizedLinear, is_logistic
from levywalk.problem.losses import compiled_slope
from levywalk.walks import BoundDetector, is_plain_design
from levywalk.walks.detector import WHOLE

_NO_DIARY = walkers.no_diary()
PLAIN = os.environ.get("LEVYWALK_KERNELS", "") == "plain"


class KernelBackend:
    """Advances a plan's replicas in the vector loop, or in the plain loop where that is not
    possible.

    The vector loop advances several walkers at once. ``plain``, or the environment variable
    ``LEVYWALK_KERNELS=plain``, selects the loop without vectors.
    """

    def __init__(self, plan: RunPlan, plain: bool = PLAIN) -> None:
        assert isinstance(plan.problem, GeneralizedLinear)
        self.plan, self.keys = plan, expanded_keys(plan.keys)
        self.side_by_side = not plain and _side_by_side(plan, plan.problem)
        self._make = (
            _Walkers(plan, plan.problem) if self.side_by_side else _Loop(plan, plan.problem)
        )

    @property
    def tables(self) -> walkers.Tables | None:
        """The tables of the vector loop, or None for the plain loop."""
        return self._make.tables if isinstance(self._make, _Walkers) else None

    @property
    def kind(self) -> int | None:
        """The layout of a node in the vector loop, or None for the plain loop."""
        return self._make.kind if isinstance(self._make, _Walkers) else None

    def block(self, state: RunState, replicas: range) -> WalkersBlock | LoopBlock:
        """Return the object that advances these replicas of the state."""
        rows = slice(replicas.start, replicas.stop)
        return self._make.block(state.rows(rows), self.keys[rows], self.plan.scale[rows])


def _side_by_side(plan: RunPlan, problem: GeneralizedLinear) -> bool:
    """Return whether the vector loop is possible.

    It supports one phase of a design, plain SGD and the built-in losses.
    """
    return (
        plan.detector is None
        and tables.fit(problem)
        and has_builtin_loss(problem)
        and is_plain_sgd(plan.update)
        and all(is_plain_design(phase.walk) for phase in plan.method.phases)
    )


# ---- walkers side by side ------------------------------------------------------------------------


class _Walkers:
    """A plan in the tables of `levywalk.engine.kernels.walkers`."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan = plan
        (self.phase,) = plan.phases
        self.tables, far = tables.pack(plan.network, self.phase.bound, problem, plan.update)
        lines = self.tables.lines if self.tables.lines <= SHORT else 0
        ridge, iid = problem.ridge > 0.0, self.phase.bound.table is not None
        self.case = (lines, is_logistic(problem), ridge, iid, far)
        self.kind, self.width = tables.kind_of(problem), tables.width_of(self.tables.lines)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop for this number of walkers per group."""
        return walkers.compiled_walkers(self.kind, width, shape().chunk, *self.case)

    def course(self, start: int, stop: int) -> walkers.Course:
        """Return the parameters of the walk in the steps start, …, stop-1."""
        phase = self.phase
        return walkers.Course(
            phase.step_sizes(start, stop), phase.jump_probabilities(start, stop), phase.distances()
        )

    def block(self, state: RunState, keys: Words64, scale: Floats) -> WalkersBlock:
        return WalkersBlock(self, state, keys, scale)


class WalkersBlock:
    """Some replicas: whole groups of them in vector lanes, the others one by one."""

    def __init__(self, made: _Walkers, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.state = made, state
        self.constant = None if made.plan.scheduled else made.course(0, 1)
        whole = len(keys) - len(keys) % made.width
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
        course = made.course(0, 1)
        self.parts = [
            (
                made.compiled(width),
                part,
                _part(self.rows, part),
                walkers.scratch(made.tables, course, width),
            )
            for width, part in ((made.width, slice(0, whole)), (1, slice(whole, len(keys))))
            if part.stop > part.start
        ]

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        state, made = self.state, self.made
        course = self.constant or made.course(start, int(marks[-1]))
        seen = Standings.empty(len(state.node), len(marks), state.model.shape[1])
        for compiled, part, rows, scratch in self.parts:
            compiled(rows, _part(seen, part), start, marks, made.tables, course, _NO_DIARY, scratch)
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
        again = _part(self.rows, slice(r, r + 1))._replace(
            active=np.ones(1, np.bool_),
            node=np.array([node]),
            model=model[None],
            visits=self.state.visits[r : r + 1, :0],
            walk=self.state.walk[r : r + 1, :0],
        )
        seen = Standings.empty(1, 1, len(model))
        course = self.constant or self.made.course(before, stop)
        scratch = walkers.scratch(self.made.tables, course, 1)
        self.made.compiled(1)(
            again, seen, before, np.array([stop]), self.made.tables, course, _NO_DIARY, scratch
        )
        return np.asarray(seen.model[0, 0])


def _part(arrays: Any, part: slice) -> Any:
    """Return some rows of all arrays of a named tuple."""
    return type(arrays)(*(array[part] for array in arrays))


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


# ---- the plain loop ------------------------------------------------------------------------------


class _Loop:
    """A plan in the tables of `levywalk.engine.kernels.loop`."""

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan = plan
        network, bounds = plan.network, [phase.bound for phase in plan.phases]
        self.graph = Graph(network.indptr.view(np.uint64), network.indices.view(np.uint32))
        self.data = Data(
            problem.sorted_features,
            problem.sorted_targets,
            problem.offsets,
            getattr(plan.update, "minibatch", None) or 0,
            problem.ridge,
            problem.n_samples == problem.n,
        )
        self.weight = _two_rows([bound.weights for bound in bounds])
        self.ratio = _two_rows([bound.ratio for bound in bounds])
        table = bounds[0].table
        self.keep, self.other = (
            (np.empty(0), np.empty(0, np.int32)) if table is None else (table.keep, table.other)
        )
        walk = bounds[0].walk
        self.own_update, self.own_walk = not is_plain_sgd(plan.update), not is_plain_design(walk)
        self.own_loss = not has_builtin_loss(problem)
        loss = (
            OWN_LOSS if self.own_loss else LOGISTIC_LOSS if is_logistic(problem) else LEAST_SQUARES
        )
        self.loop = compiled_loop(loss, self.own_update, self.own_walk)
        self.functions = self._compiled(problem)

    def _compiled(self, problem: GeneralizedLinear) -> list[Any]:
        """Return the user's own slope, update and decision as C functions, or None if built in."""
        plan = self.plan
        walk = plan.method.phases[0].walk
        slope = compiled_slope(problem.sample_loss) if self.own_loss else None
        update = compiled_update(plan.update) if self.own_update else None
        decide = compiled_walk(walk) if self.own_walk else None
        return [
            slope
            and twins.once(problem.sample_loss, lambda: twins.compile_slope(slope, problem.kind)),
            update and twins.once(plan.update, lambda: twins.compile_update(update, plan)),
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
            token=twins.entries(self.plan, method.token_memory, state.token_memory),
            node=twins.entries(self.plan, method.node_memory, state.node_memory),
        )
        if self.own_walk:
            found = found._replace(
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
        return LoopBlock(self, state, keys, scale)


class LoopBlock:
    """Some replicas, one after the other."""

    def __init__(self, made: _Loop, state: RunState, keys: Words64, scale: Floats) -> None:
        self.made, self.state = made, state
        self.keys, self.scale = keys, scale
        self.before = state.copy()
        self.packed = _pack(state, keys, scale, made.plan.detector)
        self.constant = None if made.plan.scheduled else made.phases(0, 1)
        self.twins = made.twins(state)

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        return Standings.by_steps(self.state, start, marks, self._advance)

    def _advance(self, start: int, stop: int) -> None:
        self.before.overwrite(self.state)
        self._walk(start, stop)
        model = self.state.model
        if not np.isfinite(model).all():
            for r in np.flatnonzero(self.state.active & ~np.isfinite(model).all(axis=1)):
                self._rest(int(r), start, stop)

    def _walk(self, start: int, stop: int) -> None:
        """Advance the replicas from step ``start`` to step ``stop``; do not check for overflow."""
        made = self.made
        phases = self.constant or made.phases(start, stop)
        made.loop(
            self.packed[0], start, stop, made.graph, made.data, phases, self.packed[1], self.twins
        )
        if self.twins.bad[0]:
            walk = made.plan.method.phases[0].walk
            raise InvalidParameter(
                f"the compiled decision of walk {walk.name} returned a node outside the network; "
                "compare it with decide, which backend='reference' uses"
            )

    def _rest(self, r: int, start: int, stop: int) -> None:
        """Set a model that has overflowed to its last finite value.

        The step is found by repeating the walk.
        """

        def model_at(middle: int) -> Floats:
            one = slice(r, r + 1)
            trial = LoopBlock(
                self.made, self.before.rows(one).copy(), self.keys[one], self.scale[one]
            )
            trial._walk(start, middle)
            return np.asarray(trial.state.model[0])

        self.state.diverged_at[r], self.state.model[r] = last_finite(
            model_at, start, stop, self.before.model[r]
        )
        self.state.active[r] = False


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
