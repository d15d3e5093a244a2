"""The batched backend: the kernel makes a piece of the walk, a framework updates models along it.

A walk does not see the model (a switching one does, and is not supported), so nodes, samples,
weights and step sizes of many steps are known before the first update. They are written into
buffers, and torch or JAX consumes them for all replicas at once. The walk and the samples are
exactly those of the reference backend; the models agree to the rounding of the model's type in each
update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Bools, Ints
from levywalk.contracts import keeps
from levywalk.draws import expanded_keys
from levywalk.engine.backends import compiled_walk
from levywalk.engine.batched.rules import NAMES, BatchRule, batch_rule
from levywalk.engine.batched.stretch import Models, Stretch
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.problem import LeastSquares
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.jax_models import JaxProblem
from levywalk.problem.torch_models import TorchProblem
from levywalk.step import UPDATE
from levywalk.walks import is_plain_design

_SAMPLES = 1 << 19  # samples of updates in the buffers
# What gives a node's gradient; the batched backend asks for `batch_loss` and `weighted_loss` only.
_GRADIENT = ("local_gradient", "gradient_of", "node_samples", "sample_count")
_LEAST, _LONGEST = 16, 1024  # steps of a piece


def without_batches(plan: RunPlan) -> str | None:
    """Return why the models of a plan cannot be updated together, or None if they can."""
    problem, update = plan.problem, plan.update
    kind = JaxProblem if isinstance(problem, JaxProblem) else TorchProblem
    if not isinstance(problem, kind):
        return (
            "the batched backend is for problems of torch and JAX (lw.torch_problem, "
            f"lw.jax_problem), and {type(problem).__name__} is none"
        )
    if not keeps(problem, kind, *_GRADIENT):
        return (
            f"{type(problem).__name__} has a local_gradient, or samples, of its own, and the "
            "batched backend computes gradients by the loss of a batch"
        )
    if len(plan.method.phases) > 1 or plan.detector is not None:
        return "a switching walk depends on the model, so it cannot be made before the updates"
    if plan.method.privacy is not None:
        return "the batched backend does not support privacy (clipped gradients with noise)"
    if plan.meeting != "pass":
        return "the batched backend does not support tokens that are averaged when they meet"
    if plan.links is not None:
        return "the batched backend does not support links that differ (costs with per_link)"
    if batch_rule(update, problem.n) is None:
        return (
            f"the batched backend does not support the update {update.name}; it supports "
            f"{', '.join(NAMES)}"
        )
    walk = plan.method.phases[0].walk
    if not is_plain_design(walk) and compiled_walk(walk) is None:
        return f"the walk {walk.name} has no compiled form (Walk.compiled)"
    if not _even(plan) and not problem.is_mean_of_samples:
        return (
            "nodes have different numbers of samples, and the loss of a batch is not the mean of "
            "the losses of its samples"
        )
    return problem.why_one_at_a_time()


def _used(plan: RunPlan) -> Ints:
    """Return how many samples an update at each node of the problem reads."""
    counts = np.diff(plan.problem.offsets)  # type: ignore[attr-defined]
    minibatch = getattr(plan.update, "minibatch", None)
    return np.asarray(counts if minibatch is None else np.minimum(counts, minibatch))


def _even(plan: RunPlan) -> bool:
    used = _used(plan)
    return bool((used == used[0]).all())


class BatchedBackend:
    """Advances all replicas of a plan; the state is up to date after each call of `through`."""

    def __init__(self, plan: RunPlan, state: RunState) -> None:
        problem = plan.problem
        assert isinstance(problem, DifferentiableProblem)
        rule = batch_rule(plan.update, problem.n)
        assert rule is not None
        self.plan, self.state, self.problem, self.rule = plan, state, problem, rule
        (self.phase,) = plan.phases
        self.advance = _advance_of(problem, rule, weighted=not _even(plan))
        self.keys = expanded_keys(plan.keys)
        count, self.batch = plan.walkers, int(_used(plan).max())
        steps = _SAMPLES // (count * self.batch)
        self.steps = min(max(steps, _LEAST), _LONGEST, max(plan.steps, 2))
        bound = self.phase.bound
        self.position = np.arange(plan.network.n)
        if bound.holders is not None:
            self.position[bound.holders] = np.arange(problem.n)
        self.weights = bound.spread(bound.weights, np.nan)
        self.nodes, self.ahead = self._walk()
        self.rows = np.zeros((self.steps, count, self.batch), np.int32)
        self.gains = np.zeros((2, self.steps, count), problem.dtype)

    def through(self, start: int, marks: Ints) -> Standings:
        """Advance the replicas from step ``start`` to the last mark; return their state at each."""
        state = self.state
        seen = Standings.empty(len(state.node), len(marks), state.model.shape[1])
        column, last = 0, int(marks[-1])
        while start < last:
            stop = min(start + self.steps, last)
            inside = marks[column : int(np.searchsorted(marks, stop, side="right"))]
            ends = inside if len(inside) and inside[-1] == stop else np.append(inside, stop)
            walked = Standings.empty(len(state.node), len(ends), 0)
            self.ahead(start, ends, walked)
            nodes = np.concatenate([part.nodes[:, : stop - start] for part in self.nodes]).T
            if state.walk.shape[1]:
                state.walk[:, start:stop] = nodes.T
            at = start
            for i, end in enumerate(ends.tolist()):
                self._update(at, nodes[at - start : end - start])
                at = end
                if i < len(inside):
                    _note(seen, column + i, walked, i, state)
            start, column = stop, column + len(inside)
        return seen

    def _walk(self) -> tuple[Any, Any]:
        """Return the buffers for the nodes of a piece, and what walks and fills them."""
        from levywalk.engine.kernels.machine import shape
        from levywalk.engine.kernels.walk_ahead import DesignWalk, OwnWalk, WalkPart, room_for_nodes

        plan, bound, count = self.plan, self.phase.bound, self.plan.walkers
        plain = is_plain_design(bound.walk) and bound.idle is None
        group = shape().group if plain else 1
        whole = count // group * group
        parts = [
            WalkPart(width, rows, room_for_nodes(width, rows, self.steps))
            for width, rows in ((group, slice(0, whole)), (1, slice(whole, count)))
            if rows.stop > rows.start
        ]
        walk = DesignWalk(plan) if plain else OwnWalk(plan, _placeholder(self.problem))
        return parts, walk.block(self.state, self.keys, parts)

    def _update(self, start: int, nodes: Ints) -> None:
        """Update all models at these nodes: one row per step."""
        from levywalk.engine.kernels.minibatches import sample_rows

        plan, state, count = self.plan, self.state, len(nodes)
        own = self.position[nodes]
        minibatch = getattr(plan.update, "minibatch", None) or 0
        sample_rows(self.keys, start, own, self.problem.offsets, minibatch, self.rows[:count])
        self.gains[0, :count] = self.weights[nodes]
        sizes = self.phase.step_sizes(start, start + count)[:, None]
        self.gains[1, :count] = sizes * plan.scale if self.phase.published.scaled else sizes
        stretch = Stretch(count, self.rows, *self.gains)
        if not self.rule.keeps_gradient:
            self._make(start, stretch, np.empty((plan.walkers, 0), self.problem.dtype))
            return
        every, stored = np.arange(plan.walkers), self._stored()
        for t, here in enumerate(nodes):
            one = Stretch(1, *(array[t : t + 1] for array in stretch[1:]))
            kept = self._make(start + t, one, stored[every, here])
            rows = state.active
            stored[every[rows], here[rows]] = kept[rows]

    def _make(self, start: int, stretch: Stretch, kept: AnyArray) -> AnyArray:
        """Make the updates of a stretch; return what its nodes keep."""
        state = self.state
        before = Models(state.model, self._token(), kept)
        after: Models = self.advance(before, stretch)
        if not np.isfinite(after.model[state.active]).all():
            after = self._one_by_one(before, stretch, start)
        self._keep(after, state.active)
        return after.kept

    def _stored(self) -> AnyArray:
        """Return the gradients that nodes store, (replicas, nodes, dim): a view of the state."""
        stored = self.state.node_memory[f"{UPDATE}gradient"]
        return stored.reshape(len(stored), -1, self.problem.dim)

    def _token(self) -> dict[str, AnyArray]:
        names = [*self.rule.like, *([self.rule.number] if self.rule.number else [])]
        return {name: self.state.token_memory[f"{UPDATE}{name}"] for name in names}

    def _keep(self, after: Models, rows: Bools) -> None:
        """Write the models of some replicas, and what travels with them, into the state."""
        self.state.model[rows] = after.model[rows]
        for name, array in after.token.items():
            self.state.token_memory[f"{UPDATE}{name}"][rows] = array[rows]

    def _one_by_one(self, before: Models, stretch: Stretch, start: int) -> Models:
        """Repeat a stretch step by step; a replica that overflows keeps its last finite model.

        The same compiled code makes the steps, so the other replicas get the same bits.
        """
        state = self.state
        models = before
        for t in range(stretch.steps):
            one = Stretch(1, *(np.roll(array, -t, axis=0) for array in stretch[1:]))
            after = self.advance(models, one)
            broken = state.active & ~np.isfinite(after.model).all(axis=1)
            if broken.any():
                self._keep(models, broken)
                state.diverged_at[broken], state.active[broken] = start + t, False
            models = after
        return models


def _note(seen: Standings, mark: int, walked: Standings, i: int, state: RunState) -> None:
    """Write the state of the replicas at a mark: the walk's counts, and the models."""
    for name in ("node", "hops", "transfers", "small_messages"):
        getattr(seen, name)[:, mark] = getattr(walked, name)[:, i]
    seen.model[:, mark], seen.active[:, mark] = state.model, state.active


def _advance_of(problem: DifferentiableProblem, rule: BatchRule, weighted: bool) -> Any:
    if isinstance(problem, JaxProblem):
        from levywalk.engine.batched.jax_advance import JaxAdvance

        return JaxAdvance(problem, rule, weighted)
    from levywalk.engine.batched.torch_advance import TorchAdvance

    assert isinstance(problem, TorchProblem)
    return TorchAdvance(problem, rule, weighted)


def _placeholder(problem: DifferentiableProblem) -> LeastSquares:
    """Return a problem for a loop that walks without models: the same nodes have data."""
    if problem.holders is None:
        return LeastSquares(np.ones((problem.n, 1)), np.zeros(problem.n))
    return LeastSquares(
        np.ones((problem.n, 1)), np.zeros(problem.n), node=problem.holders, idle="pass"
    )
