"""One step of a walking model: the node's update changes the model, then the walk moves it.

`step` is used by the reference backend, the virtual fleet and the real node alike. Its result
depends only on what the node has (`Site`), what travels (the token) and the step's random words;
the same arguments give the same result. The kernels are its compiled twins, and the checks of the
fleet's invariants replay it with independent code.

A move of several hops (a jump) takes one call per hop: the first call updates the model and makes
the first hop, each further call, at the next node, makes one more.

A node without data (an idle node) does not update the model: if a move ends there, one more call
decides the next move, with the words of the step's next pass. So step t is one update at a node
with data, and moves until the model is at a node with data again.

What a step needs (`Method`, `Site` and `Travelling`) stands in this file too, though it is long:
it is the one place where a model is updated and moved, and can be read from top to bottom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.contracts import is_known_class, keeps
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import (
    NO_MEMORY,
    Kind,
    Like,
    Memory,
    Number,
    Slots,
    parts,
    token_arrays,
    token_bytes,
)
from levywalk.problem.l1 import soft_threshold
from levywalk.schedule import Constant, Schedule, schedule_values
from levywalk.updates import LocalData, Update, threshold_steps
from levywalk.walks import (
    BoundDetector,
    Decision,
    Design,
    DetectorState,
    LocalView,
    Walk,
    is_plain_design,
)

if TYPE_CHECKING:
    from levywalk.privacy import (
        BoundPrivacy,
        NoiseSource,
    )  # it needs scipy, a fleet's node does not

MOST_PASSES = 1 << 31  # of one step: a walk that needs more never reaches a node with data
UPDATE, DETECTOR = "update.", "detector."  # prefixes of the names of memory
WALKS = ("walk.", "then.")  # of the walk of each phase
_DETECTOR_MEMORY: dict[str, Kind] = {
    "mean": Like("model"),
    "power": Number(),
    "mass": Number(),
    "streak": Number(np.int64),
}


class StepValues:
    """The numbers of a schedule by step; those of many consecutive steps are computed at once.

    Examples
    --------
    >>> from levywalk.schedule import Decaying
    >>> StepValues("p_jump", Decaying(0.1, timescale=2), high=1.0).at(2)
    0.05
    """

    def __init__(self, name: str, schedule: Schedule, high: float = math.inf) -> None:
        self.name, self.schedule, self.high = name, schedule, high
        self.constant = schedule.value if isinstance(schedule, Constant) else None
        self._start, self._values = 0, np.empty(0)

    def prepare(self, start: int, stop: int) -> None:
        """Compute the numbers of the steps start, …, stop-1."""
        if self.constant is None:
            self._values, self._start = (
                schedule_values(self.name, self.schedule, start, stop, self.high),
                start,
            )

    def at(self, t: int) -> float:
        """Return the number of step t."""
        if self.constant is not None:
            return self.constant
        if not 0 <= t - self._start < len(self._values):
            self.prepare(t, t + 1)
        return float(self._values[t - self._start])


class PublishedPhase:
    """The published constants of one phase of a walk, which every node knows.

    Attributes
    ----------
    mean_score
        t̄ (L̄ for the weighted laws), or None if updates are not weighted.
    step_size
        γ as a schedule.
    most
        The largest step size that is used; larger values are replaced by it.
    scaled
        Whether a replica's scale multiplies the step size (in a simulation of a grid of step
        sizes).
    """

    def __init__(
        self,
        walk: Walk,
        mean_score: float | None,
        step_size: Schedule,
        most: float = math.inf,
        scaled: bool = True,
    ) -> None:
        self.walk, self.mean_score, self.step_size = walk, mean_score, step_size
        self.most, self.scaled = most, scaled
        self.sizes = StepValues("step_size", step_size)
        self.plain = is_plain_design(walk)  # its decisions need no check
        self.asks = bool(walk.asks_neighbours)
        self.remembers = bool(walk.token_memory or walk.node_memory)
        self.values = {
            name: StepValues(name, schedule, 1.0 if name == "p_jump" else math.inf)
            for name, schedule in walk.schedules.items()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublishedPhase) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.mean_score, self.most, self.scaled))

    def _facts(self) -> tuple[Any, ...]:
        return self.walk, self.mean_score, self.step_size, self.most, self.scaled

    def weight(self, score: float) -> float:
        """Return w(v) = t̄/t_v."""
        return 1.0 if self.mean_score is None else self.mean_score / score

    def step_size_at(self, t: int, scale: float) -> float:
        """Return γ of step t."""
        size = self.sizes.at(t)
        if self.scaled:
            size *= scale
        return self.most if self.most < size else size

    def scheduled(self, t: int) -> Mapping[str, float]:
        """Return the values at step t of the numbers that the walk declares."""
        return (
            {name: values.at(t) for name, values in self.values.items()}
            if self.values
            else _NOTHING
        )

    def prepare(self, start: int, stop: int) -> None:
        """Compute all scheduled numbers of the steps start, …, stop-1 at once."""
        for values in (self.sizes, *self.values.values()):
            values.prepare(start, stop)


_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True)
class Method:
    """The published constants of a run's walk and update, which every node knows."""

    phases: tuple[PublishedPhase, ...]
    update: Update
    detector: BoundDetector | None
    dim: int
    n: int
    itemsize: int = 8  # bytes of a number of the model, to which every update rounds it
    in_doubles: bool = False  # whether updates compute and remember in float64 all the same
    privacy: BoundPrivacy | None = None

    @cached_property
    def token_memory(self) -> dict[str, Kind]:
        """All entries that travel with the model, by full name."""
        found = _prefixed(UPDATE, self.update.token_memory)
        for prefix, phase in zip(WALKS, self.phases, strict=False):
            found |= _prefixed(prefix, phase.walk.token_memory)
        found |= _prefixed(DETECTOR, _DETECTOR_MEMORY) if self.detector is not None else {}
        return found if self.in_doubles else _as_the_model(found, self.itemsize)

    @cached_property
    def node_memory(self) -> dict[str, Kind]:
        """All entries that stay at a node, by full name."""
        found = _prefixed(UPDATE, self.update.node_memory)
        for prefix, phase in zip(WALKS, self.phases, strict=False):
            found |= _prefixed(prefix, phase.walk.node_memory)
        found |= {} if self.privacy is None else self.privacy.node_memory
        return found if self.in_doubles else _as_the_model(found, self.itemsize)

    @property
    def token_bytes(self) -> int:
        """The number of bytes of a model and the memory that travels with it."""
        return self.itemsize * self.dim + token_bytes(self.token_memory, self.dim)

    @property
    def max_hops(self) -> int:
        """The longest move in hops."""
        return max(phase.walk.max_hops for phase in self.phases)

    @cached_property
    def moves_by_direction(self) -> bool:
        """Whether the update is x - γ · direction, so that the detector can use the direction."""
        return keeps(self.update, Update, "apply")

    @cached_property
    def has_own_update(self) -> bool:
        """Whether the update, or one that it contains, is a user's own."""
        return _is_own(self.update)

    @cached_property
    def threshold_steps(self) -> float | None:
        """The soft threshold of l1 after an update, in units of γ l1."""
        return threshold_steps(self.update)

    @cached_property
    def update_remembers(self) -> bool:
        """Whether the update has memory, in the token or at the nodes."""
        return bool(self.update.token_memory or self.update.node_memory)

    def first_memory(self) -> dict[str, AnyArray]:
        """Return the memory of the first token."""
        return token_arrays(self.token_memory, self.dim)

    def prepare(self, start: int, stop: int) -> None:
        """Compute all scheduled numbers of the steps start, …, stop-1 at once."""
        for phase in self.phases:
            phase.prepare(start, stop)


def _is_own(update: Update) -> bool:
    inside = getattr(update, "__dict__", {}).values()
    return (
        not all(map(is_known_class, type(update).__mro__))
        or any(isinstance(value, FunctionType) for value in inside)
        or any(isinstance(value, Update) and _is_own(value) for value in inside)
    )


def _prefixed(prefix: str, declared: Mapping[str, Kind]) -> dict[str, Kind]:
    return {prefix + name: kind for name, kind in declared.items()}


def _as_the_model(declared: dict[str, Kind], itemsize: int) -> dict[str, Kind]:
    """Return a declaration in which what is like the model has the model's type, float32 say."""
    if itemsize == 8:
        return declared
    return {
        name: replace(kind, dtype=np.float32)
        if isinstance(kind, Like) and kind.dtype == np.float64
        else kind
        for name, kind in declared.items()
    }


class Travelling(NamedTuple):
    """The token that travels: the model, its memory and the state of the walk.

    A step returns a new token and does not change the old one.

    Attributes
    ----------
    memory
        What travels with the model, by full name.
    step
        The number of updates done.
    hop, distance
        The number of hops already made in the current move, and the total number of hops of this
        move; both are 0 between two moves.
    came_from
        The node that sent the model, -1 at the start and after a stay.
    switched_at, diverged_at
        The step after whose update the phase changed, and the step whose update overflowed; -1 if
        none.
    hops, small_messages
        The total number of hops, and the number of messages that do not carry a model.
    passes
        The number of nodes without data that have passed the model on since the last update.
    """

    model: Floats
    memory: Mapping[str, AnyArray]
    step: int = 0
    hop: int = 0
    distance: int = 0
    came_from: int = -1
    phase: int = 0
    switched_at: int = -1
    diverged_at: int = -1
    hops: int = 0
    small_messages: int = 0
    passes: int = 0


Ask = Callable[[str, Sequence[int]], Sequence[Any]]


class Site:
    """A node as a step sees it: its data, weights, memory and knowledge about its neighbours.

    Attributes
    ----------
    local
        The node's data; None for an idle node, which has none.
    views
        What the node knows, one view per phase, since scores differ between phases.
    memory
        What stays at the node, by full name; a step changes it in place.
    scale
        A factor of the step size, for a grid of step sizes in one simulation.
    ask
        A function that asks neighbours for an entry of their memory. It takes the full name and the
        nodes, and returns one value per node, None for a dead node.
    noise
        Where the noise of this visit comes from, if the method has privacy.
    """

    __slots__ = ("ask", "local", "memory", "method", "node", "noise", "scale", "views", "weights")

    def __init__(
        self,
        method: Method,
        node: int,
        local: LocalData | None,
        scores: Sequence[float],
        views: Sequence[LocalView],
    ) -> None:
        self.method, self.node, self.local, self.views = method, node, local, views
        self.weights = [
            phase.weight(score) for phase, score in zip(method.phases, scores, strict=True)
        ]
        self.memory: Mapping[str, AnyArray] = {}
        self.scale = 1.0
        self.ask: Ask | None = None
        self.noise: NoiseSource | None = None


def step(site: Site, token: Travelling, words: Words) -> tuple[Travelling, int]:
    """Update the model and decide where it goes.

    The update is left out while the model is in the middle of a move of several hops, and at a node
    without data.

    Returns the new token and the next node.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.draws import Domain, Key
    >>> from levywalk.engine.bind import bind
    >>> method, sites = bind(lw.ring(5), lw.homogeneous(5), lw.unif_rw(), lw.sgd(), step_size=0.01)
    >>> token = Travelling(np.zeros(10), method.first_memory())
    >>> token, to = step(sites(0), token, Words(Key.of(0, Domain.WALK), 0))
    >>> token.step, to in (1, 4)
    (1, True)
    """
    if not token.distance:
        token = passed(token) if site.local is None else updated(site, token, words)
    return moved(site, token, words)


def passed(token: Travelling) -> Travelling:
    """Return the token at a node without data, which only passes it on."""
    if token.passes >= MOST_PASSES:
        raise InvalidParameter(
            f"design has passed the model on {MOST_PASSES} times without reaching a node with "
            "data; use a design that reaches every node"
        )
    return token._replace(passes=token.passes + 1)


def updated(site: Site, token: Travelling, words: Words) -> Travelling:
    """Return the token after the node's update and the detector's check.

    A model whose update would overflow keeps its last value for the rest of the run, and the memory
    of its update is not read again. Under privacy the update sees noisy gradients alone, and a node
    whose budget is spent passes the model on as it is.
    """
    t, method, x = token.step, site.method, token.model
    if token.diverged_at >= 0:
        return token._replace(step=t + 1, passes=0)
    local = site.local
    assert local is not None
    update, phase = method.update, token.phase
    step_size, weight = method.phases[phase].step_size_at(t, site.scale), site.weights[phase]
    private = None
    if method.privacy is not None:
        private = method.privacy.visit(local, site.memory, weight, site.noise)
        if private is None:
            return token._replace(step=t + 1, passes=0)
        local = private
    memory, carried = NO_MEMORY, token.memory
    if carried:
        carried = {name: array.copy() for name, array in carried.items()}
    if method.update_remembers:
        memory = Memory(Slots(parts(carried, UPDATE)), Slots(parts(site.memory, UPDATE)))
    # A user's own update may change its model in place; the detector needs the old one, and it is
    # what is kept if the new one overflows.
    given = x.copy() if method.has_own_update else x
    with np.errstate(over="ignore", invalid="ignore"):
        if method.moves_by_direction:
            direction = update.direction(given, memory, local, weight, words)
            _require_like(x, direction, update, "direction")
            changed = x - step_size * direction
        else:
            changed = update.apply(given, memory, local, weight, step_size, words)
            _require_like(x, changed, update, "model")
            direction = None
        if private is not None and not private.kept(site.memory):
            return token._replace(step=t + 1, passes=0)
        if local.l1 > 0.0:
            steps = method.threshold_steps
            assert steps is not None  # an update without it was refused by `check_update`
            smooth, changed = changed, soft_threshold(changed, steps * step_size * local.l1)
            if direction is not None:
                direction = direction + (smooth - changed) / step_size
        if method.itemsize == 4:
            changed = changed.astype(np.float32)
        changed = changed.astype(x.dtype, copy=False)  # the array may be one of float64
        if not _all_finite(changed):
            return token._replace(step=t + 1, diverged_at=t, passes=0)
        switched_at = token.switched_at
        if method.detector is not None and switched_at < 0:
            seen = direction if direction is not None else (x - changed) / step_size
            if _settled(method.detector, carried, seen, step_size):
                switched_at, phase = t, min(1, len(method.phases) - 1)
    # By position: `_replace` would take twice as long, which counts in every step.
    return Travelling(changed, carried, t + 1, *token[3:6], phase, switched_at, *token[8:11])


def _require_like(model: Floats, found: Any, update: Update, what: str) -> None:
    """Refuse what an update returns if it has not one number for each of the model."""
    shape = getattr(found, "shape", None)
    if shape == model.shape and found.dtype.kind not in "fiu":
        raise InvalidParameter(
            f"update {update.name} must return a {what} of real numbers, got the type {found.dtype}"
        )
    if shape != model.shape:
        got = repr(found) if shape is None else str(shape)
        raise InvalidParameter(
            f"update {update.name} must return a {what} of shape {model.shape}, got {got}"
        )


def _all_finite(model: Floats) -> bool:
    """Return whether all numbers are finite; one product shows it for all but huge models."""
    return math.isfinite(model.dot(model)) or bool(np.isfinite(model).all())


def moved(site: Site, token: Travelling, words: Words) -> tuple[Travelling, int]:
    """Return the token after one decision of the walk, and the node that it goes to.

    ``words`` are those of the step; a decision of a pass reads the words of that pass.
    """
    model, memory, step, hop, distance, came_from, phase = token[:7]
    switched_at, diverged_at, hops, small_messages, passes = token[7:]
    if passes:
        words = words.passed(passes)
    published, view = site.method.phases[phase], site.views[phase]
    walk = published.walk
    done = step - 1 if step else 0  # a token that was restored before its first update may pass
    view.came_from, view.step, view.hop, view.hops_left = came_from, done, hop, distance - hop
    view.scheduled = published.scheduled(done)
    own = NO_MEMORY
    if published.remembers:
        prefix = WALKS[phase]
        memory = {
            name: array.copy() if name.startswith(prefix) else array
            for name, array in memory.items()
        }
        own = Memory(Slots(parts(memory, prefix)), Slots(parts(site.memory, prefix)))
    if published.asks:
        small_messages += _ask(site, walk, view, own, words, phase)
    decision = walk.decide(view, own, words)
    try:
        to, left = decision
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"walk {walk.name}: decide must return lw.Decision(node), got {decision!r}"
        ) from None
    if view.alive is not None or not published.plain:
        to, left = _checked(decision, view, walk)
    hop, distance = (hop + 1, hop + 1 + left) if left else (0, 0)
    came_from = view.node if to != view.node else -1
    rest = (phase, switched_at, diverged_at, hops + 1, small_messages, passes)
    return Travelling(model, memory, step, hop, distance, came_from, *rest), to


def _checked(decision: Decision, view: LocalView, walk: Walk) -> tuple[int, int]:
    """Return the next node and the hops left; if the next node is dead, the model stays."""
    to, left = decision
    own = view.server is None and not keeps(walk, Design, "decide")
    if own and to != view.node and to not in view.neighbours:
        raise InvalidParameter(
            f"walk {walk.name} must go to a neighbour or stay, got {to!r} at node {view.node}; "
            "a walk that goes to other nodes must declare local = False"
        )
    if view.alive is not None and not view.reaches(to):
        to = view.node
    if not 0 <= left < walk.max_hops - view.hop:
        raise InvalidParameter(
            f"walk {walk.name} must make at most max_hops = {walk.max_hops} hops in a move, got "
            f"{left} left "
            f"after {view.hop + 1}"
        )
    return int(to), int(left)


def _ask(site: Site, walk: Walk, view: LocalView, memory: Memory, words: Words, phase: int) -> int:
    """Put the neighbours' answers into the view; return the number of small messages needed."""
    if site.ask is None:
        raise InvalidParameter(f"walk {walk.name} asks its neighbours, which is not possible here")
    asked = walk.questions(view, memory, words)
    answers = {}
    for name in walk.asks_neighbours:
        given = dict(zip(asked, site.ask(WALKS[phase] + name, asked), strict=True))
        answers[name] = [given.get(u) for u in view.neighbours]
    view.answers = answers
    return 2 * len(asked)


def _settled(
    detector: BoundDetector, carried: Mapping[str, AnyArray], direction: Floats, step_size: float
) -> bool:
    """Update the detector, whose averages are in the token; return whether to switch."""
    mine = Slots(parts(carried, DETECTOR))
    state = DetectorState(mine["mean"], mine["power"], mine["mass"], mine["streak"])
    settled = detector.observe(state, direction, step_size)
    mine["mean"], mine["power"], mine["mass"], mine["streak"] = (
        state.mean,
        state.power,
        state.mass,
        state.streak,
    )
    return settled
