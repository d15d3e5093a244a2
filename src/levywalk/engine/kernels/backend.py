"""The kernel backend: packs a plan into tables once, then advances replicas by compiled loops."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words
from levywalk.engine.kernels import tables, walkers
from levywalk.engine.kernels.loop import Data, Graph, Phases, Rows, Watch, compiled_loop
from levywalk.engine.plan import Plan, State
from levywalk.engine.seen import Seen
from levywalk.problem import LinearModelProblem, Logistic
from levywalk.walks import BoundDetector
from levywalk.walks.detector import WHOLE

_NO_DIARY = walkers.no_diary()
PLAIN = os.environ.get("LEVYWALK_KERNELS", "") == "plain"


class KernelBackend:
    """What advances a plan's replicas: walkers side by side, or the plain loop where those do not serve.

    ``plain`` asks for the loop without vectors; so does the environment's ``LEVYWALK_KERNELS=plain``.
    """

    def __init__(self, plan: Plan, plain: bool = PLAIN) -> None:
        assert isinstance(plan.problem, LinearModelProblem)
        self.plan = plan
        self.side_by_side = plan.detector is None and tables.fit(plan.problem) and not plain
        self._make = _Walkers(plan, plan.problem) if self.side_by_side else _Loop(plan, plan.problem)

    @property
    def tables(self) -> walkers.Tables | None:
        """The tables of walkers side by side, if those serve."""
        return self._make.tables if isinstance(self._make, _Walkers) else None

    @property
    def kind(self) -> int | None:
        """Their layout of a node."""
        return self._make.kind if isinstance(self._make, _Walkers) else None

    def block(self, state: State, replicas: range) -> WalkersBlock | LoopBlock:
        """Return what advances these replicas of the state."""
        rows = slice(replicas.start, replicas.stop)
        return self._make.block(state.rows(rows), self.plan.keys[rows], self.plan.scale[rows])


# ---- walkers side by side --------------------------------------------------------------------------------------------


class _Walkers:
    """A plan in the tables of `levywalk.engine.kernels.walkers`."""

    def __init__(self, plan: Plan, problem: LinearModelProblem) -> None:
        self.plan = plan
        (self.phase,) = plan.phases
        self.tables, far = tables.pack(plan.network, self.phase.bound, problem, plan.update)
        lines = self.tables.lines if self.tables.lines <= walkers.UNROLLED else 0
        ridge, iid = problem.ridge > 0.0, self.phase.bound.table is not None
        self.case = (lines, isinstance(problem, Logistic), ridge, iid, far)
        self.kind, self.width = tables.kind_of(problem), tables.width_of(self.tables.lines)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop for so many walkers side by side."""
        return walkers.compiled_walkers(self.kind, width, *self.case)

    def course(self, start: int, stop: int) -> walkers.Course:
        """Return how to walk in the steps start, …, stop-1."""
        phase = self.phase
        return walkers.Course(phase.step_sizes(start, stop), phase.jump_probabilities(start, stop), phase.distances())

    def block(self, state: State, keys: Words, scale: Floats) -> WalkersBlock:
        return WalkersBlock(self, state, keys, scale)


class WalkersBlock:
    """Some replicas: whole groups of them side by side, the rest one by one."""

    def __init__(self, made: _Walkers, state: State, keys: Words, scale: Floats) -> None:
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
        self.parts = [
            (made.compiled(width), part, _part(self.rows, part))
            for width, part in ((made.width, slice(0, whole)), (1, slice(whole, len(keys))))
            if part.stop > part.start
        ]

    def through(self, start: int, marks: Ints) -> Seen:
        """Take the replicas from step ``start`` to the last of the marks; return where they stood at each."""
        state, made = self.state, self.made
        course = self.constant or made.course(start, int(marks[-1]))
        seen = Seen.empty(len(state.node), len(marks), state.model.shape[1])
        for compiled, part, rows in self.parts:
            compiled(rows, _part(seen, part), start, marks, made.tables, course, _NO_DIARY)
        if not seen.active.all():
            for r in np.flatnonzero(state.active & ~seen.active[:, -1]):
                self._rest(int(r), start, marks, seen)
        seen.last_into(state)
        return seen

    def _rest(self, r: int, start: int, marks: Ints, seen: Seen) -> None:
        """Let a model that has overflowed rest at its last finite value; find the step by walking there again."""
        mark = int(np.argmin(seen.active[r]))
        before = start if mark == 0 else int(marks[mark - 1])
        node, model = self.state.node[r], self.state.model[r]
        if mark > 0:
            node, model = seen.node[r, mark - 1], seen.model[r, mark - 1]
        step, rest = last_finite(
            lambda stop: self._model_at(r, node, model, before, stop), before, int(marks[mark]), model
        )
        seen.model[r, mark:] = rest
        self.state.diverged_at[r] = step

    def _model_at(self, r: int, node: int, model: Floats, before: int, stop: int) -> Floats:
        """Return replica r's model at step ``stop``, walked again from ``before``."""
        again = _part(self.rows, slice(r, r + 1))._replace(
            active=np.ones(1, np.bool_),
            node=np.array([node]),
            model=model[None],
            visits=self.state.visits[r : r + 1, :0],
            walk=self.state.walk[r : r + 1, :0],
        )
        seen = Seen.empty(1, 1, len(model))
        course = self.constant or self.made.course(before, stop)
        self.made.compiled(1)(again, seen, before, np.array([stop]), self.made.tables, course, _NO_DIARY)
        return np.asarray(seen.model[0, 0])


def _part(arrays: Any, part: slice) -> Any:
    """Return some rows of all arrays of a named tuple."""
    return type(arrays)(*(array[part] for array in arrays))


def last_finite(model_at: Callable[[int], Floats], finite: int, broken: int, model: Floats) -> tuple[int, Floats]:
    """Return the last step at which a model was finite, and the model there, by bisection: one that is not stays so."""
    while broken - finite > 1:
        middle = (finite + broken) // 2
        trial = model_at(middle)
        if np.isfinite(trial).all():
            finite, model = middle, trial
        else:
            broken = middle
    return finite, model


# ---- the plain loop --------------------------------------------------------------------------------------------------


class _Loop:
    """A plan in the tables of `levywalk.engine.kernels.loop`."""

    def __init__(self, plan: Plan, problem: LinearModelProblem) -> None:
        self.plan = plan
        network, bounds = plan.network, [phase.bound for phase in plan.phases]
        self.graph = Graph(network.indptr.view(np.uint64), network.indices.view(np.uint32))
        self.data = Data(
            problem.sorted_features,
            problem.sorted_targets,
            problem.offsets,
            plan.update.minibatch or 0,
            problem.ridge,
        )
        self.weight = _two_rows([bound.weights for bound in bounds])
        self.ratio = _two_rows([bound.ratio for bound in bounds])
        table = bounds[0].table
        self.keep, self.other = (np.empty(0), np.empty(0, np.int32)) if table is None else (table.keep, table.other)
        self.loop = compiled_loop(isinstance(problem, Logistic))

    def phases(self, start: int, stop: int) -> Phases:
        """Return how to walk in the steps start, …, stop-1."""
        phases = self.plan.phases
        return Phases(
            self.weight,
            self.ratio,
            _two_rows([phase.step_sizes(start, stop) for phase in phases]),
            np.array([phases[0].scaled, phases[-1].scaled]),
            np.array([phases[0].most, phases[-1].most]),
            _two_rows([phase.jump_probabilities(start, stop) for phase in phases]),
            _two_rows([phase.distances() for phase in phases], fill=1.0),
            self.keep,
            self.other,
        )

    def block(self, state: State, keys: Words, scale: Floats) -> LoopBlock:
        return LoopBlock(self, state, keys, scale)


class LoopBlock:
    """Some replicas, one after the other."""

    def __init__(self, made: _Loop, state: State, keys: Words, scale: Floats) -> None:
        self.made, self.state = made, state
        self.keys, self.scale = keys, scale
        self.before = state.copy()
        self.packed = _pack(state, keys, scale, made.plan.detector)
        self.constant = None if made.plan.scheduled else made.phases(0, 1)

    def through(self, start: int, marks: Ints) -> Seen:
        """Take the replicas from step ``start`` to the last of the marks; return where they stood at each."""
        return Seen.by_steps(self.state, start, marks, self._advance)

    def _advance(self, start: int, stop: int) -> None:
        self.before.overwrite(self.state)
        self._walk(start, stop)
        model = self.state.model
        if not np.isfinite(model).all():
            for r in np.flatnonzero(self.state.active & ~np.isfinite(model).all(axis=1)):
                self._rest(int(r), start, stop)

    def _walk(self, start: int, stop: int) -> None:
        """Take the replicas from step ``start`` to step ``stop``, whatever becomes of their models."""
        made = self.made
        phases = self.constant or made.phases(start, stop)
        made.loop(self.packed[0], start, stop, made.graph, made.data, phases, self.packed[1])

    def _rest(self, r: int, start: int, stop: int) -> None:
        """Let a model that has overflowed rest at its last finite value; find the step by walking there again."""

        def model_at(middle: int) -> Floats:
            one = slice(r, r + 1)
            trial = LoopBlock(self.made, self.before.rows(one).copy(), self.keys[one], self.scale[one])
            trial._walk(start, middle)
            return np.asarray(trial.state.model[0])

        self.state.diverged_at[r], self.state.model[r] = last_finite(model_at, start, stop, self.before.model[r])
        self.state.active[r] = False


def _pack(state: State, keys: Words, scale: Floats, detector: BoundDetector | None) -> tuple[Rows, Watch]:
    """Return the loop's view of a state."""
    rows = Rows(
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
    watch = Watch(
        state.phase,
        state.switched_at,
        state.mean,
        state.power,
        state.mass,
        state.streak,
        detector.threshold if detector else 0.0,
        detector.steady if detector else 0.0,
        detector.rate if detector else 0.0,
        detector.patience if detector else 1,
        WHOLE,
    )
    return rows, watch


def _two_rows(rows: list[Floats], fill: float = 0.0) -> Floats:
    """Stack one or two rows to two of one length: a single number is repeated, a short table filled up."""
    first, second = rows[0], rows[-1]
    length = max(len(first), len(second), 1)
    out = np.full((2, length), fill)
    for row, values in zip(out, (first, second), strict=True):
        row[: len(values)] = values
        if len(values) == 1:
            row[:] = values[0]
    return out
