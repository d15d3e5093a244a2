"""The kernel backend: packs a plan into arrays once, then advances replicas by compiled loops."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats, Words
from levywalk.design import Detector
from levywalk.engine.kernels.loop import UNROLLED, Data, Graph, Phases, Rows, Watch, compiled_loop, record_stride
from levywalk.engine.plan import Plan, State
from levywalk.problem import LinearModelProblem, Logistic

_LINE = 8  # numbers in a cache line


class KernelBackend:
    """A plan in the arrays that the compiled loop reads."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.problem, LinearModelProblem)
        self.plan = plan
        self.problem = plan.problem
        network = plan.network
        self.graph = Graph(network.indptr.view(np.uint64), network.indices.view(np.uint32))
        self.simple = self.problem.samples == self.problem.n and plan.detector is None
        self.data = _data(plan, self.problem, self.simple)
        bounds = [] if self.simple else [phase.bound for phase in plan.phases]
        self.weight = _two_rows([bound.weights for bound in bounds])
        self.ratio = _two_rows([bound.ratio for bound in bounds])
        table = plan.phases[0].bound.table
        self.keep, self.other = (np.empty(0), np.empty(0, np.int32)) if table is None else (table.keep, table.other)
        dim = self.problem.dim if self.simple and self.problem.dim <= UNROLLED else 0
        self.loop = compiled_loop(isinstance(self.problem, Logistic), self.simple, dim)

    def block(self, state: State, replicas: range) -> Block:
        """Return what advances these replicas of the state."""
        rows = slice(replicas.start, replicas.stop)
        return Block(self, state.rows(rows), self.plan.keys[rows], self.plan.scale[rows])

    def phases(self, start: int, stop: int) -> Phases:
        """Return how to walk in the steps start, …, stop-1."""
        phases = self.plan.phases
        return Phases(
            self.weight,
            self.ratio,
            _two_rows([phase.step_sizes(start, stop) for phase in phases]),
            _two_rows([phase.jump_probabilities(start, stop) for phase in phases]),
            _two_rows([phase.distances() for phase in phases], fill=1.0),
            self.keep,
            self.other,
        )


class Block:
    """Some replicas, packed for the compiled loop once: packing costs as much as a thousand updates."""

    def __init__(self, backend: KernelBackend, state: State, keys: Words, scale: Floats) -> None:
        self.backend = backend
        self.state = state
        self.keys, self.scale = keys, scale
        self.before = state.copy()
        self.models = aligned_rows(len(keys), -(-backend.problem.dim // _LINE) * _LINE)
        self.packed = _pack(state, self.models, keys, scale, backend.plan.detector)
        self.constant = None if backend.plan.scheduled else backend.phases(0, 1)

    def advance(self, start: int, stop: int) -> None:
        """Take the replicas from step ``start`` to step ``stop``; find the step of any overflow."""
        self.before.overwrite(self.state)
        self.walk(start, stop)
        model = self.state.model
        if not np.isfinite(model).all():
            for r in np.flatnonzero(self.state.active & ~np.isfinite(model).all(axis=1)):
                self._locate_overflow(int(r), start, stop)

    def walk(self, start: int, stop: int) -> None:
        """Take the replicas from step ``start`` to step ``stop``, whatever becomes of their models."""
        backend, dim = self.backend, self.backend.problem.dim
        phases = self.constant or backend.phases(start, stop)
        self.models[:, :dim] = self.state.model
        backend.loop(self.packed[0], start, stop, backend.graph, backend.data, phases, self.packed[1])
        self.state.model[...] = self.models[:, :dim]

    def _locate_overflow(self, r: int, start: int, stop: int) -> None:
        """Find the step by bisection: a model that is not finite stays so, so the steps before it can be run again."""
        finite, broken = start, stop
        while broken - finite > 1:
            middle = (finite + broken) // 2
            if np.isfinite(self._model_at(middle, r, start)).all():
                finite = middle
            else:
                broken = middle
        self.state.model[r] = self._model_at(finite, r, start)
        self.state.active[r] = False
        self.state.diverged_at[r] = finite

    def _model_at(self, stop: int, r: int, start: int) -> Floats:
        """Return replica r's model at step ``stop``, walked again from ``start``."""
        one = slice(r, r + 1)
        trial = Block(self.backend, self.before.rows(one).copy(), self.keys[one], self.scale[one])
        trial.walk(start, stop)
        return np.asarray(trial.state.model[0])


def _pack(state: State, models: Floats, keys: Words, scale: Floats, detector: Detector | None) -> tuple[Rows, Watch]:
    """Return the loop's view of a state."""
    rows = Rows(
        keys,
        scale,
        state.node,
        models,
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
        detector.decay if detector else 0.0,
        detector.patience if detector else 1,
    )
    return rows, watch


def _data(plan: Plan, problem: LinearModelProblem, simple: bool) -> Data:
    """Return the problem in the loop's layout; what the layout does not read is empty."""
    if simple:
        records, stride = _records(plan, problem)
        return Data(
            problem.dim, records, stride, np.empty((0, 0)), np.empty(0), np.empty(0, np.int64), 0, problem.ridge
        )
    return Data(
        problem.dim,
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
    table = aligned_rows(problem.n, stride)
    table[:, :dim] = problem.sorted_features
    table[:, dim] = problem.sorted_targets
    table[:, dim + 1] = bound.weights
    table[:, dim + 2] = bound.ratio
    return table.reshape(-1), stride


def aligned_rows(count: int, width: int) -> Floats:
    """Return rows of zeros; with a width of whole cache lines, each row begins at one.

    Examples
    --------
    >>> aligned_rows(3, 8).ctypes.data % 64
    0
    """
    raw = np.zeros(count * width + _LINE)
    shift = (-(raw.ctypes.data // 8)) % _LINE
    return raw[shift : shift + count * width].reshape(count, width)


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
