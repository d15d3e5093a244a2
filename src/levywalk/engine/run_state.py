"""The plan (`RunPlan`), the state (`RunState`) and the measurements (`RunRecord`) of a run.

All backends use them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Bools, Floats, Ints, Ints32, Words64
from levywalk.engine.bind import BoundPhase, Sites, sample_counts
from levywalk.engine.links import LinkTimes
from levywalk.memory import NodeMemory, node_memory_bytes
from levywalk.network import Network
from levywalk.problem import Problem, array_type
from levywalk.schedule import Constant, is_schedule
from levywalk.step import Method
from levywalk.updates import Update
from levywalk.walks import BoundDetector


@dataclass(frozen=True)
class RunPlan:
    """Everything that a backend needs to know."""

    network: Network
    problem: Problem
    phases: tuple[BoundPhase, ...]
    method: Method
    keys: Words64
    # One factor per replica for the step sizes of scaled phases, so that one batch can contain a
    # whole grid of step sizes.
    scale: Floats
    steps: int
    record_walk: bool
    record_visits: bool
    record_memory: bool = False
    tokens: int = 1  # of each replica; the rows of keys and state are tokens
    meeting: str = "pass"
    links: LinkTimes | None = None  # if links differ
    noise_keys: Words64 | None = None  # of the noise of privacy, one row per token

    @property
    def update(self) -> Update:
        """What a visited node does."""
        return self.method.update

    @property
    def detector(self) -> BoundDetector | None:
        """The detector that decides when the first phase ends."""
        return self.method.detector

    @property
    def walkers(self) -> int:
        """The number of tokens of all replicas together."""
        return len(self.keys)

    @property
    def replicas(self) -> int:
        """The number of repetitions."""
        return len(self.keys) // self.tokens

    @property
    def scheduled(self) -> bool:
        """Whether a step size or p_jump changes with the step."""
        jumps = [phase.bound.jump for phase in self.phases]
        return any(not isinstance(phase.step_size, Constant) for phase in self.phases) or any(
            jump is not None and is_schedule(jump.p_jump) for jump in jumps
        )

    def sites(self) -> Sites:
        """Return the nodes as `Site` objects."""
        return Sites(self.method, self.problem, [phase.bound for phase in self.phases])

    def node_memory_bytes(self) -> int:
        """Return the bytes that the memory of all nodes takes per replica."""
        counts = sample_counts(self.problem, self.phases[0].bound)
        return node_memory_bytes(
            self.method.node_memory, self.problem.dim, self.network.degree, counts
        )

    def node_memory(self, replicas: int) -> NodeMemory:
        """Return the memory of all nodes before step 0."""
        counts = sample_counts(self.problem, self.phases[0].bound)
        return NodeMemory(
            self.method.node_memory, replicas, self.problem.dim, self.network.degree, counts
        )


@dataclass
class RunState:
    """The state of all replicas as plain arrays with one row per replica."""

    node: Ints
    model: Floats
    hops: Ints
    transfers: Ints
    small_messages: Ints
    active: Bools  # False once a model has overflowed: the walk continues, the model is frozen
    diverged_at: Ints  # the step whose update overflowed, -1 if none
    phase: Ints
    switched_at: Ints  # the step after whose update the walk switched, -1 if not
    came_from: Ints  # the node that sent the model, -1 at the start and after a stay
    token_memory: dict[str, AnyArray]  # what travels, by full name: (replicas, …)
    node_memory: dict[str, AnyArray]  # what stays, by full name: (replicas, all nodes' entries)
    visits: Ints  # (replicas, n), or (replicas, 0) when not recorded
    walk: Ints32  # (replicas, steps), or (replicas, 0)
    on_links: (
        Floats  # (replicas, 1): seconds of all messages so far; (replicas, 0) if links are alike
    )

    @classmethod
    def new(cls, plan: RunPlan, start: Ints, x0: Floats) -> RunState:
        """Return the state before step 0."""
        count, dim = plan.walkers, plan.problem.dim
        first = plan.method.first_memory()
        return cls(
            node=start.astype(np.int64),
            # In C order: a copy of a broadcast array would put the replicas next to each other in
            # memory, and two threads that write into the same cache line are slower than one.
            model=np.array(
                np.broadcast_to(x0, (count, dim)), dtype=array_type(plan.problem), order="C"
            ),
            hops=np.zeros(count, np.int64),
            transfers=np.zeros(count, np.int64),
            small_messages=np.zeros(count, np.int64),
            active=np.ones(count, np.bool_),
            diverged_at=np.full(count, -1, np.int64),
            phase=np.zeros(count, np.int64),
            switched_at=np.full(count, -1, np.int64),
            came_from=np.full(count, -1, np.int64),
            token_memory={
                name: np.array(np.broadcast_to(array, (count, *array.shape)), order="C")
                for name, array in first.items()
            },
            node_memory=plan.node_memory(count).arrays,
            visits=np.zeros((count, plan.network.n if plan.record_visits else 0), np.int64),
            walk=np.zeros((count, plan.steps if plan.record_walk else 0), np.int32),
            on_links=np.zeros((count, 0 if plan.links is None else 1)),
        )

    def arrays(self) -> dict[str, AnyArray]:
        """Return all arrays by name, those of memory included."""
        found = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in _MEMORY
        }
        found |= {f"token_memory.{name}": array for name, array in self.token_memory.items()}
        return found | {f"node_memory.{name}": array for name, array in self.node_memory.items()}

    def rows(self, rows: slice) -> RunState:
        """Return the state of some replicas: views, not copies."""
        return self._mapped(lambda array: array[rows])

    def copy(self) -> RunState:
        """Return a copy that records neither visits nor walk; the memory of nodes is shared, not
        copied.
        """
        plain = RunState(**{field.name: getattr(self, field.name) for field in fields(self)})
        plain.visits, plain.walk = self.visits[:, :0], self.walk[:, :0]
        kept, plain.node_memory = plain.node_memory, {}
        made = plain._mapped(np.copy)
        made.node_memory = kept
        return made

    def overwrite(self, other: RunState) -> None:
        """Copy another state's values, except visits, walk and the memory of nodes."""
        for name in _WITHOUT_RECORDS:
            np.copyto(getattr(self, name), getattr(other, name))
        for name, array in self.token_memory.items():
            np.copyto(array, other.token_memory[name])

    def _mapped(self, change: Callable[[AnyArray], AnyArray]) -> RunState:
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, dict):
                values[field.name] = {name: change(array) for name, array in value.items()}
            else:
                values[field.name] = change(value)
        return RunState(**values)


_MEMORY = ("token_memory", "node_memory")
_WITHOUT_RECORDS = tuple(
    field.name for field in fields(RunState) if field.name not in ("visits", "walk", *_MEMORY)
)


class RunRecord:
    """The measurements of each (replica, checkpoint).

    The numbers of a replica are contiguous in memory, because one thread writes them.
    """

    def __init__(
        self, replicas: int, checkpoints: int, timed: bool = False, metrics: int = 0
    ) -> None:
        self.errors: Floats = np.full(
            (replicas, 3, checkpoints), np.nan
        )  # distance2, excess_loss, loss
        # hops, transfers, small messages
        self.counts: Ints = np.zeros((replicas, 3, checkpoints), np.int64)
        # Seconds, if the run has costs.
        self.time: Floats = np.zeros((replicas, checkpoints if timed else 0))
        # NaN where a metric is not evaluated, or of a model that overflowed.
        self.metrics: Floats = np.full((replicas, metrics, checkpoints), np.nan)
