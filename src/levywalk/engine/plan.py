"""What a run will do (`Plan`), where it stands (`State`) and what was measured (`Record`): for every backend alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from levywalk.arrays import Bools, Floats, Ints, Ints32, Words
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.schedule import Constant, Schedule, is_schedule, schedule_values
from levywalk.updates import Sgd
from levywalk.walks import Bound, BoundDetector


@dataclass(frozen=True)
class Phase:
    """A way to walk and its step size; a switching design has two."""

    bound: Bound
    step_size: Schedule
    scaled: bool = True  # whether a replica's scale multiplies the step size
    most: float = math.inf  # the step size is cut here, once scaled

    def step_sizes(self, start: int, stop: int) -> Floats:
        """Return γ of the steps; a constant comes as one number."""
        if isinstance(self.step_size, Constant):
            return np.array([self.step_size.value])
        return schedule_values("step_size", self.step_size, start, stop)

    def jump_probabilities(self, start: int, stop: int) -> Floats:
        """Return p_jump of the steps; none at all without a jump law, one number if constant."""
        jump = self.bound.jump
        if jump is None:
            return np.empty(0)
        if not is_schedule(jump.p_jump):
            return np.array([jump.p_jump])
        return jump.p_jump_at(start, stop)

    def distances(self) -> Floats:
        """Return the cumulative law of the jump distance, empty without jumps."""
        return np.empty(0) if self.bound.jump is None else self.bound.jump.cumulative()


@dataclass(frozen=True)
class Plan:
    """Everything that a backend needs to know."""

    network: Network
    problem: Problem
    phases: tuple[Phase, ...]
    detector: BoundDetector | None
    update: Sgd
    keys: Words
    scale: Floats  # of the step sizes of scaled phases, per replica: one batch can hold a whole grid of step sizes
    steps: int
    record_walk: bool
    record_visits: bool

    @property
    def replicas(self) -> int:
        """How many walks."""
        return len(self.keys)

    @property
    def scheduled(self) -> bool:
        """Whether a step size or p_jump changes with the step."""
        jumps = [phase.bound.jump for phase in self.phases]
        return any(not isinstance(phase.step_size, Constant) for phase in self.phases) or any(
            jump is not None and is_schedule(jump.p_jump) for jump in jumps
        )


@dataclass
class State:
    """Where every replica stands: plain arrays, one row per replica."""

    node: Ints
    model: Floats
    hops: Ints
    transfers: Ints
    active: Bools  # False once a model has overflowed: the walk goes on, the model rests
    diverged_at: Ints  # the step whose update overflowed, -1 if none
    phase: Ints
    switched_at: Ints  # the step after whose update the design switched, -1 if not
    mean: Floats  # the detector's averages, as in walks.detector
    power: Floats
    mass: Floats
    streak: Ints
    visits: Ints  # (replicas, n), or (replicas, 0) when not recorded
    walk: Ints32  # (replicas, steps), or (replicas, 0)

    @classmethod
    def new(cls, plan: Plan, start: Ints, x0: Floats) -> State:
        """Return the state before step 0."""
        count, dim = plan.replicas, plan.problem.dim
        return cls(
            node=start.astype(np.int64),
            # In C order: a broadcast array would be copied with the replicas side by side, and two threads that write
            # into one cache line run slower than one.
            model=np.array(np.broadcast_to(x0, (count, dim)), dtype=np.float64, order="C"),
            hops=np.zeros(count, np.int64),
            transfers=np.zeros(count, np.int64),
            active=np.ones(count, np.bool_),
            diverged_at=np.full(count, -1, np.int64),
            phase=np.zeros(count, np.int64),
            switched_at=np.full(count, -1, np.int64),
            mean=np.zeros((count, dim)),
            power=np.zeros(count),
            mass=np.zeros(count),
            streak=np.zeros(count, np.int64),
            visits=np.zeros((count, plan.network.n if plan.record_visits else 0), np.int64),
            walk=np.zeros((count, plan.steps if plan.record_walk else 0), np.int32),
        )

    def rows(self, rows: slice) -> State:
        """Return the state of some replicas: views, not copies."""
        return State(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def copy(self) -> State:
        """Return a copy that records neither visits nor walk."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        records = {"visits": self.visits[:, :0], "walk": self.walk[:, :0]}
        return State(**{name: array.copy() for name, array in (arrays | records).items()})

    def overwrite(self, other: State) -> None:
        """Take over another state's values, but for visits and walk."""
        for name in _WITHOUT_RECORDS:
            np.copyto(getattr(self, name), getattr(other, name))


_WITHOUT_RECORDS = tuple(field.name for field in fields(State) if field.name not in ("visits", "walk"))


class Record:
    """What is measured of each (replica, checkpoint); a replica's numbers lie together, as its thread writes them."""

    def __init__(self, replicas: int, checkpoints: int) -> None:
        self.errors: Floats = np.full((replicas, 3, checkpoints), np.nan)  # distance2, excess_loss, loss
        self.counts: Ints = np.zeros((replicas, 2, checkpoints), np.int64)  # hops, transfers
