"""What is published about a walk, and what one node does with the model while it holds it.

`PublishedWalk` holds the constants that every node knows: mean scores, step sizes, jumps, when to
stop. `NodeSite` is one node: its own data, its own key, and what its edge records say about its
neighbours. `NodeSite.decide` is the walk's step, made of the same `rule` and `update` as the
reference backend, so a fleet without faults makes the same walk, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import HOP, JUMP, Key, unit
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.protocol.token import DetectorAverages, Token
from levywalk.problem import Problem
from levywalk.schedule import Constant, Schedule, is_schedule
from levywalk.updates import Sgd
from levywalk.walks import (
    AnyDesign,
    BoundDetector,
    Detector,
    JumpLaw,
    LocalView,
    Switching,
    hop,
    jump_distance,
    metropolis_hastings,
)

if TYPE_CHECKING:
    from levywalk.network import Network

STOPS = ("steps", "detector")
_MOST = 1 << 62  # largest counter in a token, so that counting on never overflows


@dataclass(frozen=True)
class PublishedPhase:
    """The published constants of one phase of the walk.

    Attributes
    ----------
    mean_score
        t̄ (L̄ for the weighted laws), or None if updates are not weighted.
    """

    mean_score: float | None
    step_size: Schedule
    most: float  # the largest step size that is used
    jump: JumpLaw | None

    def weight(self, score: float) -> float:
        """Return w(v) = t̄/t_v."""
        return 1.0 if self.mean_score is None else self.mean_score / score


@dataclass(frozen=True)
class PublishedWalk:
    """The published constants of a walk, which all nodes know.

    Attributes
    ----------
    stop
        "steps": after this many updates; "detector": also when the model has settled.
    record_every
        The model is kept in the log once every this many steps.

    Examples
    --------
    >>> import levywalk as lw
    >>> published = PublishedWalk.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=10, step_size="theory")
    >>> published.ends(Token.first(np.zeros(10))), published.ends(Token.first(np.zeros(10))._replace(step=10))
    (False, True)
    """

    phases: tuple[PublishedPhase, ...]
    steps: int
    dim: int
    update: Sgd = field(default_factory=Sgd)
    detector: BoundDetector | None = None
    stop: str = "steps"
    record_every: int = 1

    @classmethod
    def of(
        cls,
        network: Network,
        problem: Problem,
        design: AnyDesign,
        *,
        steps: int,
        step_size: float | str | Schedule,
        update: Sgd | None = None,
        stop: str = "steps",
        detector: Detector | None = None,
        record_every: int | None = None,
    ) -> PublishedWalk:
        """Bind a design to a network and a problem, and return the constants to publish."""
        from levywalk.engine.prepare import phases_of  # imported here because a node does not need it

        checks.choice("stop", stop, STOPS)
        steps = checks.integer("steps", steps, low=1)
        if stop == "detector" and isinstance(design, Switching):
            raise InvalidParameter("stop must be 'steps' for a switching design: its detector tells when to switch")
        designs = (design.first, design.then) if isinstance(design, Switching) else (design,)
        phases = []
        for part, phase in zip(designs, phases_of(network, problem, design, step_size), strict=True):
            if part.moves != "walk":
                raise InvalidParameter(
                    f"design must walk over the edges in a fleet, got {part.name}, which needs a server"
                )
            mean = float(phase.bound.scores.mean()) if part.reweight else None
            phases.append(PublishedPhase(mean, phase.step_size, phase.most, phase.bound.jump))
        if isinstance(design, Switching):
            detector = design.detector
        elif stop == "detector":
            detector = detector or Detector()
        bound = None if detector is None else detector.bind(problem.dim, float(np.mean(problem.smoothness)))
        every = max(1, steps // 200) if record_every is None else checks.integer("record_every", record_every, low=1)
        return cls(tuple(phases), steps, problem.dim, update or Sgd(), bound, stop, every)

    def ends(self, token: Token) -> bool:
        """Return whether the walk is over: the move after the last update is made."""
        if token.distance:
            return False
        return token.step >= self.steps or (self.stop == "detector" and token.switched_at >= 0)

    def recorded(self, step: int) -> bool:
        """Return whether the model after this many updates is kept in the log."""
        return step % self.record_every == 0 or step == self.steps

    def refuses(self, token: Token) -> str | None:
        """Return what is wrong with a received token, or None."""
        model = token.model
        if model.dtype != np.float64 or model.shape != (self.dim,):
            return f"a model of {self.dim} numbers of type float64 was expected, got {model.shape} of {model.dtype}"
        if not np.isfinite(model).all():
            return "the model contains NaN or infinity"
        if not 0 <= token.phase < len(self.phases):
            return f"phase must be below {len(self.phases)}, got {token.phase}"
        most = max((p.jump.distance.max_hops for p in self.phases if p.jump is not None), default=0)
        if not 0 <= token.hop <= token.distance <= most or (token.distance and token.hop == token.distance):
            return f"a jump of at most {most} hops was expected, got hop {token.hop} of {token.distance}"
        if not 0 <= token.base <= token.step <= self.steps:
            return f"step {token.step} of {self.steps} in an epoch that began at step {token.base} is impossible"
        counts = {name: getattr(token, name) for name in ("seq", "version", "hops", "transfers")}
        if not all(0 <= count < _MOST for count in counts.values()):
            return ", ".join(f"{name} {count}" for name, count in counts.items()) + " is impossible"
        if not all(-1 <= step < self.steps for step in (token.switched_at, token.diverged_at)):
            where = f"switched at {token.switched_at}, diverged at {token.diverged_at}"
            return f"{where} of {self.steps} steps is impossible"
        if (token.watch is None) != (self.detector is None):
            return "the detector's averages are missing, or are there without a detector"
        if token.watch is not None and token.watch.mean.shape != (self.dim,):
            return f"detector averages of {self.dim} numbers were expected, got {token.watch.mean.shape}"
        return None


class Visit(NamedTuple):
    """A log line: the token was here before update ``step`` or, at the end, after the last update."""

    token_epoch: tuple[int, int, int]
    step: int
    hops: int
    transfers: int
    switched_at: int
    diverged_at: int
    model: Floats | None  # kept at the recorded steps


def visit_of(token: Token, keep: bool) -> Visit:
    """Return the log line about a token before its update, or at the end."""
    return Visit(
        token.epoch,
        token.step,
        token.hops,
        token.transfers,
        token.switched_at,
        token.diverged_at,
        token.model if keep else None,
    )


class Neighbour(NamedTuple):
    """What an edge record says about the node at the other end."""

    node: int
    degree: int
    scores: tuple[float, ...]  # by phase
    up: bool


class NodeSite:
    """One node: its data, its key, and what it knows about its neighbours.

    If the network counts self-loops, a node is one of its own neighbours.
    """

    def __init__(
        self, published: PublishedWalk, node: int, problem: Problem, index: int, scores: tuple[float, ...], key: Key
    ) -> None:
        self.published, self.node, self.problem, self.index, self.key = published, node, problem, index, key
        self.scores = scores
        self.weights = [phase.weight(score) for phase, score in zip(published.phases, scores, strict=True)]
        self.views: list[LocalView] = []
        self.live: list[LocalView] = []
        self.down: frozenset[int] = frozenset()
        self._constants = [_constants(phase) for phase in published.phases]

    def know(self, neighbours: Sequence[Neighbour], degree: int) -> None:
        """Use these edge records. The degree also counts dead neighbours."""
        self.down = frozenset(u.node for u in neighbours if not u.up)
        self.views = [self._view(neighbours, degree, phase) for phase in range(len(self.scores))]
        alive = [u for u in neighbours if u.up]
        self.live = [self._view(alive, len(alive), phase) for phase in range(len(self.scores))]

    def _view(self, neighbours: Sequence[Neighbour], degree: int, phase: int) -> LocalView:
        return LocalView(
            self.node,
            degree,
            self.scores[phase],
            [u.node for u in neighbours],
            [u.degree for u in neighbours],
            [u.scores[phase] for u in neighbours],
        )

    def decide(self, token: Token) -> tuple[Token, int]:
        """Update the model, unless it is in a jump, and choose the next node; return the new token
        and that node. The result depends only on the token, the data and the key. So it is the same
        when it is computed again after a crash.
        """
        if not token.jumping:
            token = self._updated(token)
            _, p_jump, distances = self._at(token.phase, token.step - 1)
            distance = jump_distance(unit(self.key.word(token.step - 1, JUMP)), p_jump, distances)
            if distance == 0:
                view, word = self.views[token.phase], self.key.word(token.step - 1, HOP)
                to = metropolis_hastings(view, word) if view.degree else self.node  # no edge is in use yet
                to = self.node if to in self.down else to
                return token._replace(version=token.version + 1, hops=token.hops + 1), to
            token = token._replace(hop=0, distance=distance)
        return self._hopped(token)

    def _hopped(self, token: Token) -> tuple[Token, int]:
        """Choose a live neighbour uniformly for a hop of a jump.

        Without live neighbours the model stays.
        """
        view = self.live[token.phase]
        to = hop(view, self.key.word(token.step - 1, HOP + token.hop)) if view.degree else self.node
        done = token.hop + 1
        last = done == token.distance
        return (
            token._replace(
                version=token.version + 1,
                hops=token.hops + 1,
                hop=0 if last else done,
                distance=0 if last else token.distance,
            ),
            to,
        )

    def _updated(self, token: Token) -> Token:
        """Return the token after x ← x - γ w(v) ∇f_v(x), with the detector's averages updated."""
        t, x = token.step, token.model
        if token.diverged_at >= 0:
            return token._replace(step=t + 1)
        step_size = self._at(token.phase, t)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = self.published.update.gradient(self.problem, self.index, x, partial(self.key.word, t))
            scaled = self.weights[token.phase] * gradient
            moved = x - step_size * scaled
        if not np.isfinite(moved).all():
            return token._replace(step=t + 1, diverged_at=t)
        token = token._replace(step=t + 1, model=sealed_model(moved))
        if self.published.detector is None or token.watch is None or token.switched_at >= 0:
            return token
        state = token.watch.opened()
        with np.errstate(over="ignore", invalid="ignore"):
            settled = self.published.detector.observe(state, scaled, step_size)
        token = token._replace(watch=DetectorAverages.sealed(state))
        if settled:
            token = token._replace(switched_at=t, phase=min(1, len(self.published.phases) - 1))
        return token

    def _at(self, phase: int, t: int) -> tuple[float, float, Floats]:
        """Return γ, p_jump and the distribution of the jump distance at a step."""
        constants = self._constants[phase]
        if constants is not None:
            return constants
        law = self.published.phases[phase]
        p_jump = 0.0 if law.jump is None else float(law.jump.p_jump_at(t, t + 1)[0])
        return min(float(law.step_size.values(t, t + 1)[0]), law.most), p_jump, _distances(law)


def _distances(law: PublishedPhase) -> Floats:
    return np.empty(0) if law.jump is None else law.jump.cumulative()


def _constants(law: PublishedPhase) -> tuple[float, float, Floats] | None:
    """Return γ, p_jump and the distribution of the jump distance if they never change."""
    if not isinstance(law.step_size, Constant) or (law.jump is not None and is_schedule(law.jump.p_jump)):
        return None
    p_jump = 0.0 if law.jump is None else law.jump.p_jump
    assert not isinstance(p_jump, Schedule)
    return min(law.step_size.value, law.most), p_jump, _distances(law)
