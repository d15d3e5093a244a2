"""A plan on sparse features: the walk of a piece first, then the updates along it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levywalk.arrays import Floats, Ints32, Words64
from levywalk.engine.backends import has_builtin_loss, sparse_rule
from levywalk.engine.bind import sample_counts
from levywalk.engine.kernels import sparse_outputs, sparse_rows, twins
from levywalk.engine.kernels.several_outputs import SOFTMAX, SQUARES
from levywalk.engine.kernels.sparse_rows import (
    SPARSE_SGD,
    SparseData,
    SparseReplicas,
    SparseScratch,
    sparse_scratch,
)
from levywalk.engine.kernels.walk_ahead import DesignWalk, OwnWalk
from levywalk.engine.kernels.walk_then_update import TableBlock
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.problem import GeneralizedLinear, is_logistic
from levywalk.problem.losses import SoftmaxLoss, compiled_slope
from levywalk.walks import is_plain_design


class SparseWalk:
    """A plan in the arrays of `levywalk.engine.kernels.sparse_rows`."""

    width = 1

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan, (self.phase,) = plan, plan.phases
        rule, bound = sparse_rule(plan.update), self.phase.bound
        assert rule is not None
        self.outputs = problem.sample_loss.n_outputs
        self.loop = _loop_of(rule, problem.l1, self.outputs)
        self.slope, number = None, int(is_logistic(problem))
        if self.outputs > 1:
            number = SOFTMAX if isinstance(problem.sample_loss, SoftmaxLoss) else SQUARES
        elif not has_builtin_loss(problem):
            loss = problem.sample_loss
            slope = compiled_slope(loss)
            assert slope is not None
            self.slope = twins.once(
                loss, lambda: twins.compile_slope(slope, f"Loss.compiled of {loss.name}")
            )
            self.addresses = np.array([self.slope.address, 0], np.int64)
            number = int(self.addresses.ctypes.data)
        features, counts = problem.sorted_features, sample_counts(problem, bound)
        self.minibatch = getattr(plan.update, "minibatch", None) or 0
        self.most_samples = max(int(counts.max()), 1)
        self.data = SparseData(
            features.indptr.astype(np.int64),
            features.indices.astype(np.int32, copy=False),
            features.data,
            problem.sorted_targets.reshape(-1),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.asarray(bound.spread(bound.weights, np.nan), dtype=np.float64),
            np.array([number], np.int64),
            self.minibatch,
            problem.ridge,
            problem.l1,
            float(problem.n),
            self.outputs,
        )
        own = bound.idle is not None or not is_plain_design(bound.walk)
        self.walk: DesignWalk | OwnWalk = OwnWalk(plan, problem) if own else DesignWalk(plan)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop."""
        return self.loop

    def rows(self, state: RunState, keys: Words64, scale: Floats, nodes: Ints32) -> SparseReplicas:
        """Return the replicas' arrays in the form that the loop changes."""
        none = np.empty((len(keys), 0))
        return SparseReplicas(
            keys,
            scale,
            state.active,
            state.model,
            state.token_memory.get("update.sum", none),
            state.node_memory.get("update.slopes", none),
            state.diverged_at,
            nodes,
        )

    def scratch(self, width: int, steps: int) -> SparseScratch:
        """Return the buffers of the loop."""
        return sparse_scratch(self.most_samples, self.plan.problem.dim, steps, self.outputs)

    def block(self, state: RunState, keys: Words64, scale: Floats) -> TableBlock:
        """Return the object that advances these replicas."""
        return TableBlock(self, state, keys, scale)


def _loop_of(rule: int, l1: float, outputs: int) -> Callable[..., None]:
    """Return the loop of an update, for a loss with one output or several."""
    lagged = rule != SPARSE_SGD or l1 > 0.0
    if outputs > 1:
        return (
            sparse_outputs.compiled_outputs_lagged(rule)
            if lagged
            else sparse_outputs.compiled_outputs_sgd()
        )
    return sparse_rows.compiled_sparse_lagged(rule) if lagged else sparse_rows.compiled_sparse_sgd()
