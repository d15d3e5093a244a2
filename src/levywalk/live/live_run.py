"""One running design: the engine's own state, advanced a few steps at a time.

Nothing here computes a walk. The loops of `lw.run` advance the state, so what a page shows at step
t is what ``lw.run(..., steps=t)`` returns. When the jumps are changed, the state continues under
the new design; the run as a whole is that of one `ChangingJumps`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, keys
from levywalk.engine.drive import shares_of
from levywalk.engine.measure import Measure
from levywalk.engine.prepare import prepare
from levywalk.engine.run_state import RunState
from levywalk.engine.standings import Standings
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem, is_quadratic
from levywalk.updates import Update
from levywalk.walks import ChangingJumps, Design, TruncatedGeometric, Walk, is_plain_design
from levywalk.walks.target import Degree, Importance, Mixed, Uniform

MOST_STEPS = 1 << 40
MOST_CHANGES = 500
_PIECE = 8_192  # steps that the engine makes in one call
_PATH = 256  # the last steps whose nodes are shown one by one
_CURVE = 1_500  # points of a curve; with more, every second one is dropped
_WORDS = {Uniform: "uniform", Importance: "importance", Degree: "degree", Mixed: "mixed"}


class Jumps(NamedTuple):
    """p_J, p_d and r from a step on."""

    begin: int
    p_jump: float
    p_distance: float
    max_hops: int


@dataclass
class RunChanges:
    """What happened since the page last got a frame."""

    steps: int = 0
    path: list[int] = field(default_factory=list)  # the nodes after the last steps
    hops: list[int] = field(default_factory=list)  # the hops of each of these steps
    curve: list[tuple[int, int, float]] = field(default_factory=list)


class StayCounts:
    """How long the model stays: now, at most so far, and how often it came to each node."""

    def __init__(self, n: int) -> None:
        self.now, self.longest = 0, 0
        self.arrivals = np.zeros(n, np.int64)

    def follow(self, nodes: Ints) -> None:
        """Go on with the nodes of some updates, and the node after them.

        Examples
        --------
        >>> stays = StayCounts(9)
        >>> stays.follow(np.array([4, 4, 4, 7, 7]))
        >>> stays.longest, stays.now  # three updates at node 4, and one so far at node 7
        (3, 1)
        """
        moved = np.flatnonzero(nodes[1:] != nodes[:-1]) + 1
        if len(moved):
            stays = np.diff(np.concatenate([[-self.now], moved]))
            self.longest = max(self.longest, int(stays.max()))
            np.add.at(self.arrivals, nodes[moved], 1)
            self.now = len(nodes) - 1 - int(moved[-1])
        else:
            self.now += len(nodes) - 1
        self.longest = max(self.longest, self.now)


class LiveRun:
    """A design that walks on a network, from step 0 on."""

    def __init__(
        self,
        network: Network,
        problem: Problem,
        walk: Walk,
        update: Update | None,
        *,
        step_size: float | str,
        seed: int,
    ) -> None:
        self.network, self.problem, self.update = network, problem, update
        self.step_size, self.seed = step_size, seed
        self.original = self.walk = walk
        self.changes = jumps_of(walk)
        self.done, self.stays, self.end = 0, StayCounts(network.n), MOST_STEPS
        self._through, self.state = self._engine(None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # a problem without an optimum: no curve
            self.measure = Measure(problem, only_distance=not is_quadratic(problem))
        self.stays.arrivals[self.node] += 1
        self.since = RunChanges()
        self.curve: list[tuple[int, int, float]] = []
        self._note(_standing(self.state), np.zeros(1, np.int64))

    # --- the walk ---------------------------------------------------------------------------------

    def _engine(self, state: RunState | None) -> tuple[Callable[[int, Ints], Standings], RunState]:
        """Return what advances the state by the present walk, and the state."""
        job = prepare(
            self.network,
            self.problem,
            self.walk,
            steps=MOST_STEPS,
            step_size=self.step_size,
            keys=keys(self.seed, Domain.WALK, range(1)),
            start_keys=keys(self.seed, Domain.START, range(1)),
            start="uniform",
            x0=None,
            record_every=[0],
            record_walk=False,
            record_visits=True,
            threads=1,
            backend="auto",
            update=self.update,
            measure_loss="exact",
            seed=self.seed,
        )
        self.plan, self.backend = job.run_plan, job.backend
        state = RunState.new(job.run_plan, job.start, job.x0) if state is None else state
        ((_, through),) = shares_of(job, state)
        return through, state

    def advance(self, steps: int) -> None:
        """Make some steps."""
        goal = self.done + steps
        if goal > self.end:
            raise InvalidParameter(f"steps must end at {self.end} at most, got {goal}")
        while self.done < goal:
            self._piece(min(goal, self.done + _PIECE))

    def _piece(self, stop: int) -> None:
        start, state = self.done, self.state
        first, hops = int(state.node[0]), int(state.hops[0])
        marks = np.arange(start + 1, stop + 1)
        seen = self._through(start, marks)
        nodes = np.concatenate([[first], seen.node[0]])
        self.stays.follow(nodes)
        self.done = stop
        kept = slice(max(0, len(marks) - _PATH), None)
        self.since.steps += len(marks)
        self.since.path = (self.since.path + seen.node[0, kept].tolist())[-_PATH:]
        each = np.diff(np.concatenate([[hops], seen.hops[0]]))[kept]
        self.since.hops = (self.since.hops + each.tolist())[-_PATH:]
        some = np.unique(np.linspace(0, len(marks) - 1, 3).astype(np.int64))[-2:]
        columns: list[Any] = [array[:, some] for array in seen]
        self._note(Standings(*columns), marks[some])

    def _note(self, seen: Standings, steps: Ints) -> None:
        errors = np.full((1, 3, len(steps)), np.nan)
        self.measure(seen, errors, 0)
        self.errors = errors[0, :, -1]
        points = zip(steps.tolist(), seen.transfers[0].tolist(), errors[0, 0], strict=True)
        new = [(step, sent, float(error)) for step, sent, error in points]
        self.since.curve += new
        self.curve += new
        if len(self.curve) > _CURVE:
            self.curve = self.curve[::2]

    def new_changes(self) -> RunChanges:
        """Return what happened since the last call."""
        found, self.since = self.since, RunChanges()
        return found

    # --- what can be changed ----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the design."""
        return self.original.name

    @property
    def transfers(self) -> int:
        """The messages that carried the model."""
        return int(self.state.transfers[0])

    @property
    def hops(self) -> int:
        """The decisions so far."""
        return int(self.state.hops[0])

    @property
    def error(self) -> float:
        """‖x - x*‖² now."""
        return float(self.errors[0])

    @property
    def node(self) -> int:
        """The node that holds the model."""
        return int(self.state.node[0])

    @property
    def visits(self) -> Ints:
        """The updates of each node."""
        found: Ints = self.state.visits[0]
        return found

    @property
    def target(self) -> Floats:
        """The share of updates that each node of the network should get."""
        bound = self.plan.phases[0].bound
        return bound.spread(bound.law)

    def jump_by(self, p_jump: float, p_distance: float, max_hops: int) -> None:
        """Change the jumps from the present step on."""
        if not self.changes:
            raise InvalidParameter(
                f"the jumps of {self.original.name} cannot be changed; only a walk by "
                "Metropolis-Hastings over edges, such as weight_rw or mhlj, has them"
            )
        kept = [piece for piece in self.changes if piece.begin < self.done]
        if len(kept) >= MOST_CHANGES:
            raise InvalidParameter(
                f"jumps can be changed {MOST_CHANGES} times in one run; restart to change them more"
            )
        law = TruncatedGeometric(p_distance, max_hops)  # refuses what is no law
        new = Jumps(self.done, float(p_jump), law.p_distance, law.max_hops)
        trial = as_changing(self.original, [*kept, new])
        self.changes = [*kept, new]
        self.walk = trial.piece_at(self.done)
        self._through, _ = self._engine(self.state)

    def whole(self) -> Walk:
        """Return the walk of the run from step 0 on."""
        if len(self.changes) <= 1 and self.changes == jumps_of(self.original):
            return self.original
        return as_changing(self.original, self.changes)


def jumps_of(walk: Walk) -> list[Jumps]:
    """Return the jumps of a walk as its only piece; empty if they cannot be changed."""
    if not is_plain_design(walk) or not isinstance(walk, Design) or walk.moves != "walk":
        return []
    if type(walk.target) not in _WORDS:
        return []
    if walk.jump is None:
        return [Jumps(0, 0.0, 0.5, 3)]
    law = walk.jump.distance
    if not isinstance(walk.jump.p_jump, float) or not isinstance(law, TruncatedGeometric):
        return []
    return [Jumps(0, walk.jump.p_jump, law.p_distance, law.max_hops)]


def as_changing(walk: Walk, pieces: Sequence[Jumps]) -> ChangingJumps:
    """Return a design as one whose jumps change."""
    target: Any = walk.target
    columns: list[Any] = [list(column) for column in zip(*pieces, strict=True)]
    given = dict(zip(("begins", "p_jump", "p_distance", "max_hops"), columns, strict=True))
    return ChangingJumps(
        _WORDS[type(target)],
        **given,
        mix=getattr(target, "mix", None),
        reweight=walk.reweight,
        name=walk.name,
    )


def _standing(state: RunState) -> Standings:
    return Standings(*(getattr(state, name)[:, None] for name in Standings._fields))
