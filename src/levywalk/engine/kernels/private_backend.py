"""A plan under privacy: the walk of a piece first, then the updates along it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levywalk.arrays import Floats, Ints32, Words64
from levywalk.engine.bind import sample_counts
from levywalk.engine.kernels import private_rows
from levywalk.engine.kernels.private_rows import (
    PrivateReplicas,
    PrivateRows,
    PrivateScratch,
    private_scratch,
)
from levywalk.engine.kernels.several_outputs import SOFTMAX, SQUARES
from levywalk.engine.kernels.walk_ahead import DesignWalk, OwnWalk
from levywalk.engine.kernels.walk_then_update import TableBlock
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.privacy import RELEASES
from levywalk.privacy.private_data import sensitivity
from levywalk.problem import GeneralizedLinear, is_logistic
from levywalk.problem.losses import SoftmaxLoss
from levywalk.walks import is_plain_design


class PrivateWalk:
    """A plan in the arrays of `levywalk.engine.kernels.private_rows`."""

    width = 1

    def __init__(self, plan: RunPlan, problem: GeneralizedLinear) -> None:
        self.plan, (self.phase,) = plan, plan.phases
        bound, private = self.phase.bound, plan.method.privacy
        assert private is not None
        self.outputs = problem.sample_loss.n_outputs
        loss = int(is_logistic(problem))
        if self.outputs > 1:
            loss = SOFTMAX if isinstance(problem.sample_loss, SoftmaxLoss) else SQUARES
        features, counts = problem.sorted_features, sample_counts(problem, bound)
        change = [sensitivity(private.privacy, max(int(count), 1)) for count in counts]
        self.data = PrivateRows(
            np.ascontiguousarray(features),
            np.ascontiguousarray(problem.sorted_targets, dtype=np.float64).reshape(-1),
            np.sum(features**2, axis=1),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.asarray(bound.spread(bound.weights, np.nan), dtype=np.float64),
            private.privacy.noise * np.array(change),
            loss,
            self.outputs,
            int(problem.sorted_targets[:1].size),
            float(problem.ridge),
            private.privacy.clip,
            private.cap,
        )
        own = bound.idle is not None or not is_plain_design(bound.walk)
        self.walk: DesignWalk | OwnWalk = OwnWalk(plan, problem) if own else DesignWalk(plan)

    def compiled(self, width: int) -> Callable[..., None]:
        """Return the loop."""
        return private_rows.compiled_private(self.outputs > 1)

    def rows(self, state: RunState, keys: Words64, scale: Floats, nodes: Ints32) -> PrivateReplicas:
        """Return the replicas' arrays in the form that the loop changes."""
        return PrivateReplicas(
            keys,
            scale,
            state.active,
            state.model,
            state.node_memory[RELEASES],
            state.diverged_at,
            nodes,
        )

    def scratch(self, width: int, steps: int) -> PrivateScratch:
        """Return the buffers of the loop."""
        return private_scratch(self.plan.problem.dim, self.outputs)

    def block(self, state: RunState, keys: Words64, scale: Floats) -> TableBlock:
        """Return the object that advances these replicas."""
        return TableBlock(self, state, keys, scale)
