"""The kernel backend: chooses the compiled loop that advances a plan."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from levywalk.draws import expanded_keys
from levywalk.engine.backends import has_builtin_loss, is_plain_sgd
from levywalk.engine.kernels import tables, walkers
from levywalk.engine.kernels.loop_backend import Loop
from levywalk.engine.kernels.pieces import Pieces
from levywalk.engine.kernels.private_backend import PrivateWalk
from levywalk.engine.kernels.sparse_backend import SparseWalk
from levywalk.engine.kernels.vector_backend import Walkers
from levywalk.engine.kernels.walk_then_update import WalkThenUpdate, walks_ahead
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.problem import GeneralizedLinear, has_l1, is_single, is_sparse
from levywalk.walks import is_plain_design, is_plain_in_pieces

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
        if plan.noise_keys is not None:  # behind those of the walk
            self.keys = np.hstack([self.keys, expanded_keys(plan.noise_keys)])
        self._make = _maker(plan, plan.problem, plain)
        self.side_by_side = not isinstance(self._make, Loop)

    @property
    def tables(self) -> walkers.Tables | None:
        """The tables of the vector loop, or None for the plain loop."""
        return self._make.tables if isinstance(self._make, Walkers) else None

    @property
    def kind(self) -> int | None:
        """The layout of a node in the vector loop, or None for the plain loop."""
        return self._make.kind if isinstance(self._make, Walkers) else None

    def block(self, state: RunState, replicas: range) -> Any:
        """Return the object that advances these replicas of the state."""
        rows = slice(replicas.start, replicas.stop)
        return self._make.block(state.rows(rows), self.keys[rows], self.plan.scale[rows])


def _maker(plan: RunPlan, problem: GeneralizedLinear, plain: bool) -> Any:
    """Return what advances a plan: a vector loop if one exists for it, else the plain loop."""
    if is_plain_in_pieces(plan.phases[0].bound.walk):
        return Pieces(plan, lambda piece: _maker(piece, problem, plain))
    if plan.method.privacy is not None:
        return PrivateWalk(plan, problem)
    if is_sparse(problem.sorted_features):
        return SparseWalk(plan, problem)
    if not plain and _side_by_side(plan, problem):
        return Walkers(plan, problem)
    if not plain and walks_ahead(plan, problem):
        return WalkThenUpdate(plan, problem)
    return Loop(plan, problem)


def _side_by_side(plan: RunPlan, problem: GeneralizedLinear) -> bool:
    """Return whether the vector loop is possible.

    It supports one phase of a design, plain SGD and the built-in losses without l1 and float32, on
    a network whose nodes all have data.
    """
    return (
        plan.detector is None
        and plan.phases[0].bound.idle is None
        and tables.fit(problem)
        and has_builtin_loss(problem)
        and is_plain_sgd(plan.update)
        and not has_l1(problem)
        and not is_single(problem)
        and all(is_plain_design(phase.walk) for phase in plan.method.phases)
    )
