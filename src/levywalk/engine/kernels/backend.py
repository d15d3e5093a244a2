"""The kernel backend: packs a plan into arrays once, then advances replicas by compiled loops."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import AnyArray, Floats, Words
from levywalk.engine.kernels.loop import UNROLLED, Data, Graph, Phases, Rows, Watch, compiled_loop, record_stride
from levywalk.engine.plan import Plan, State
from levywalk.problem import LinearModelProblem, Logistic

_LINE = 8  # numbers in a cache line


class KernelBackend:
    """Advances the replicas of one plan."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.problem, LinearModelProblem)
        self.plan = plan
        self.problem = plan.problem
        self.logistic = isinstance(plan.problem, Logistic)
        network = plan.network
        self.graph = Graph(network.indptr.view(np.uint64), network.indices.view(np.uint32))
        self.simple = self.problem.samples == self.problem.n and plan.detector is None
        self.data = _data(plan, self.problem, self.simple)
        bounds = [] if self.simple else [phase.bound for phase in plan.phases]
        self.weight = _two_rows([bound.weights for bound in bounds])
        self.ratio = _two_rows([bound.ratio for bound in bounds])
        table = plan.phases[0].bound.table
        self.keep, self.other = (np.empty(0), np.empty(0, np.int32)) if table is None else (table.keep, table.other)

    def advance(self, state: State, replicas: range, start: int, stop: int) -> None:
        """Take the replicas from step ``start`` to step ``stop``; find the step of any overflow."""
        rows = slice(replicas.start, replicas.stop)
        before = _snapshot(state, rows)
        self._loop(state, rows, self.plan.keys[rows], self.plan.scale[rows], start, stop)
        overflowed = state.active[rows] & ~np.isfinite(state.model[rows]).all(axis=1)
        for i in np.flatnonzero(overflowed):
            self._locate_overflow(state, replicas.start + int(i), before, int(i), start, stop)

    def _loop(self, state: State, rows: slice, keys: Words, scale: Floats, start: int, stop: int) -> None:
        plan, detector = self.plan, self.plan.detector
        loop_rows = Rows(
            keys,
            scale,
            state.node[rows],
            state.model[rows],
            state.active[rows],
            state.hops[rows],
            state.transfers[rows],
            state.visits[rows],
            state.walk[rows],
        )
        phases = Phases(
            self.weight,
            self.ratio,
            _two_rows([phase.step_sizes(start, stop) for phase in plan.phases]),
            _two_rows([phase.jump_probabilities(start, stop) for phase in plan.phases]),
            _two_rows([phase.distances() for phase in plan.phases], fill=1.0),
            self.keep,
            self.other,
        )
        watch = Watch(
            state.phase[rows],
            state.switched_at[rows],
            state.mean[rows],
            state.power[rows],
            state.mass[rows],
            state.streak[rows],
            detector.threshold if detector else 0.0,
            detector.decay if detector else 0.0,
            detector.patience if detector else 1,
        )
        dim = self.problem.dim if self.simple and self.problem.dim <= UNROLLED else 0
        loop = compiled_loop(self.logistic, self.simple, dim)
        loop(loop_rows, start, stop, self.graph, self.data, phases, watch)

    def _locate_overflow(self, state: State, r: int, before: State, i: int, start: int, stop: int) -> None:
        """Find the step by bisection: a model that is not finite stays so, so the steps before it can be run again."""
        finite, broken = start, stop
        while broken - finite > 1:
            middle = (finite + broken) // 2
            if np.isfinite(self._rerun(before, i, r, start, middle)).all():
                finite = middle
            else:
                broken = middle
        state.model[r] = self._rerun(before, i, r, start, finite)
        state.active[r] = False
        state.diverged_at[r] = finite

    def _rerun(self, before: State, i: int, r: int, start: int, stop: int) -> Floats:
        """Return replica r's model at ``stop``, from its state at ``start``, touching nothing else."""
        trial = _snapshot(before, slice(i, i + 1))
        one = slice(r, r + 1)
        self._loop(trial, slice(0, 1), self.plan.keys[one], self.plan.scale[one], start, stop)
        return np.asarray(trial.model[0])


def _data(plan: Plan, problem: LinearModelProblem, simple: bool) -> Data:
    """Return the problem in the loop's layout; what the layout does not read is empty."""
    if simple:
        records, stride = _records(plan, problem)
        return Data(records, stride, np.empty((0, 0)), np.empty(0), np.empty(0, np.int64), 0, problem.ridge)
    return Data(
        np.empty(0),
        0,
        problem.sorted_features,
        problem.sorted_targets,
        problem.offsets,
        plan.update.minibatch or 0,
        problem.ridge,
    )


def _records(plan: Plan, problem: LinearModelProblem) -> tuple[Floats, int]:
    """Return each node's features, target, weight and ratio in one aligned record, and the record's length."""
    bound, dim = plan.phases[0].bound, problem.dim
    stride = record_stride(dim)
    raw = np.zeros(problem.n * stride + _LINE)
    shift = (-(raw.ctypes.data // 8)) % _LINE
    flat = raw[shift : shift + problem.n * stride]
    table = flat.reshape(problem.n, stride)
    table[:, :dim] = problem.sorted_features
    table[:, dim] = problem.sorted_targets
    table[:, dim + 1] = bound.weights
    table[:, dim + 2] = bound.ratio
    return flat, stride


def _two_rows(rows: list[Floats], fill: float = 0.0) -> Floats:
    """Stack one or two rows to two of one length: a single number is repeated, a short table filled up."""
    first, second = (rows[0], rows[-1]) if rows else (np.empty(0), np.empty(0))
    length = max(len(first), len(second), 1)
    out = np.full((2, length), fill)
    for row, values in zip(out, (first, second), strict=True):
        row[: len(values)] = values
        if len(values) == 1:
            row[:] = values[0]
    return out


def _snapshot(state: State, rows: slice) -> State:
    """Copy the rows' state, without visits and walk."""

    def copy(array: AnyArray) -> AnyArray:
        return array[rows].copy()

    return State(
        node=copy(state.node),
        model=copy(state.model),
        hops=copy(state.hops),
        transfers=copy(state.transfers),
        active=copy(state.active),
        diverged_at=copy(state.diverged_at),
        phase=copy(state.phase),
        switched_at=copy(state.switched_at),
        mean=copy(state.mean),
        power=copy(state.power),
        mass=copy(state.mass),
        streak=copy(state.streak),
        visits=state.visits[rows, :0],
        walk=state.walk[rows, :0],
    )
