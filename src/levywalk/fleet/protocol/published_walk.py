"""What is published about a walk: the constants that every node knows, and what they tell about a
token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.lineage import (
    LINEAGE,
    LINEAGE_BYTES,
    LINEAGE_MEMORY,
    MOST_ANSWER,
    Lineage,
    MemoryLoss,
)
from levywalk.fleet.protocol.tensors import is_finite, sealed_model
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.protocol.update_check import UpdateCheck
from levywalk.memory import (
    Kind,
    Number,
    PerNode,
    packed,
    token_arrays,
    token_bytes,
    unpacked,
)
from levywalk.problem import Problem
from levywalk.schedule import Schedule
from levywalk.step import DETECTOR, MOST_PASSES, UPDATE, WALKS, Method, PublishedPhase
from levywalk.updates import Update, as_update, check_update
from levywalk.walks import BoundDetector, Detector, Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.privacy import BoundPrivacy, Privacy  # it needs scipy, most nodes do not

STOPS = ("steps", "detector")
PASSES = "passes"  # the entry of a token's memory that counts passes
_MOST = 1 << 62  # of a counter in a token: there must be room to go on counting
_COUNTS = ("seq", "version", "hops", "transfers", "small_messages", "size")


@dataclass(frozen=True)
class PublishedWalk:
    """Everything about the walk that all nodes know.

    Attributes
    ----------
    method
        The walk of each phase, the update, the detector, and their published constants.
    steps
        How many updates.
    stop
        "steps": after that many updates; "detector": also when the model has settled.
    record_every
        One model is kept in the log every so many steps.
    idle
        The number of nodes without data, which pass the model on. If there are some, the memory of
        a token begins with the number of passes since the last update.
    check
        What guardians compare before a model continues; None if they compare nothing.

    Examples
    --------
    >>> import levywalk as lw
    >>> published = PublishedWalk.of(
    ...     lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=10, step_size="theory"
    ... )
    >>> (
    ...     published.ends(Token.first(np.zeros(10))),
    ...     published.ends(Token.first(np.zeros(10))._replace(step=10)),
    ... )
    (False, True)
    """

    method: Method
    steps: int
    stop: str = "steps"
    record_every: int = 1
    idle: int = 0
    check: UpdateCheck | None = None

    @classmethod
    def of(
        cls,
        network: Network,
        problem: Problem,
        design: Walk,
        *,
        steps: int,
        step_size: float | str | Schedule,
        update: Update | str | None = None,
        stop: str = "steps",
        detector: Detector | None = None,
        record_every: int | None = None,
        privacy: Privacy | None = None,
        known: Problem | None = None,
        checked: bool = False,
        tokens: int = 1,
    ) -> PublishedWalk:
        """Bind a walk to a network and a problem, and keep what is to be published.

        ``known`` is the problem with the L_v that nodes may know under privacy, ``checked`` says
        whether guardians will compare models, and ``tokens`` share the budget of each node.
        """
        from levywalk.engine.bind import (  # a node does without all that a simulation needs
            bind_phases,
            method_of,
        )

        checks.choice("stop", stop, STOPS)
        steps = checks.integer("steps", steps, low=1)
        update, private = as_update(update), None
        if privacy is None:
            update = update.fitted(problem)
        else:
            from levywalk.privacy import bind_privacy, fitted_update

            update = fitted_update(privacy, update, problem)
            private = bind_privacy(privacy, steps, tokens, checked=checked)
        check_update(update, problem)
        known = problem if known is None else known
        phases = bind_phases(network, known, design, update, step_size)
        check_local(design, update)
        if stop == "detector" and design.detector is not None:
            raise InvalidParameter(
                "stop must be 'steps' for a switching walk: its detector tells when to switch"
            )
        if design.detector is not None:
            detector = design.detector
        elif stop == "detector":
            detector = detector or Detector()
        else:
            detector = None
        every = (
            max(1, steps // 200)
            if record_every is None
            else checks.integer("record_every", record_every, low=1)
        )
        method = method_of(phases, update, detector, known, private)
        return cls(method, steps, stop, every, network.n - problem.n)

    @property
    def phases(self) -> tuple[PublishedPhase, ...]:
        """The walk of each phase and its constants."""
        return self.method.phases

    @property
    def dim(self) -> int:
        """The number of the model's entries."""
        return self.method.dim

    @property
    def update(self) -> Update:
        """What a visited node does."""
        return self.method.update

    @property
    def privacy(self) -> BoundPrivacy | None:
        """Clip, noise and each node's cap for a token; None without privacy, also if there is a
        clip and no noise, so that nothing is private.
        """
        bound = self.method.privacy
        return None if bound is None or not bound.privacy.hides else bound

    @property
    def detector(self) -> BoundDetector | None:
        """What detects that the model has settled."""
        return self.method.detector

    @cached_property
    def token_memory(self) -> dict[str, Kind]:
        """All entries that travel with the model, by full name, in the order of the bytes."""
        passes: dict[str, Kind] = {PASSES: Number(np.int64)} if self.idle else {}
        lineage = LINEAGE_MEMORY if self.remembers else {}
        return passes | lineage | self.method.token_memory

    @cached_property
    def node_memory(self) -> dict[str, Kind]:
        """All entries that stay at a node and belong to the walk of a token, by full name.

        The count of what a node's budget has spent is none of them: a token that is brought back
        must not bring back the budget.
        """
        privacy = self.method.privacy
        counted = () if privacy is None else privacy.node_memory
        return {name: kind for name, kind in self.method.node_memory.items() if name not in counted}

    @cached_property
    def remembers(self) -> bool:
        """Whether nodes keep memory, so that tokens carry their `Lineage`."""
        return bool(self.node_memory)

    @cached_property
    def memory_bytes(self) -> int:
        """How many bytes travel with the model."""
        return token_bytes(self.token_memory, self.dim)

    def first_token(self, model: Floats) -> Token:
        """Return the token before step 0."""
        first = token_arrays(self.token_memory, self.dim)
        return Token.first(model, packed(first, self.token_memory))

    def lineage(self, token: Token) -> Lineage:
        """Return the ancestors and the memory generation of a token; none if nodes keep nothing."""
        if not self.remembers:
            return Lineage()
        start = 8 if self.idle else 0
        content = token.memory[start : start + LINEAGE_BYTES].tobytes()
        return Lineage.read(np.frombuffer(content, "<i8"))

    def asked(self, phase: int) -> dict[str, Kind]:
        """Return the entries that the walk of a phase asks its neighbours for, by full name."""
        kinds, prefix = self.node_memory, WALKS[phase]
        names = self.phases[phase].walk.asks_neighbours
        return {prefix + name: kinds[prefix + name] for name in names}

    def _with_lineage(self, token: Token, lineage: Lineage) -> Token:
        start, memory = 8 if self.idle else 0, token.memory.copy()
        content = lineage.numbers().astype("<i8").tobytes()
        memory[start : start + LINEAGE_BYTES] = np.frombuffer(content, np.uint8)
        return token._replace(memory=sealed_model(memory))

    def reopened(self, token: Token, epoch: Epoch, parent: Epoch) -> Token:
        """Return a token that is brought back in a new epoch.

        Parameters
        ----------
        parent
            The epoch that it comes from; another one than the token's own if nobody has worked in
            that, since it never had a guardian.
        """
        fresh = token._replace(epoch=epoch, base=token.step, size=0)  # the next visit sets it
        if not self.remembers or parent != token.epoch:
            return fresh
        return self._with_lineage(fresh, self.lineage(token).reopened(parent, token.hops))

    def risen(self, token: Token, losses: tuple[MemoryLoss, ...] = ()) -> Token:
        """Return a token with a new memory generation: what it carries for walk and update is as at
        the beginning, and what nodes keep counts as empty.
        """
        kinds, lineage = self.token_memory, self.lineage(token).risen(token.hops, losses)
        carried = unpacked(token.memory, kinds, self.dim)
        first = token_arrays(kinds, self.dim)
        for name in carried:
            if name.startswith((UPDATE, *WALKS)):
                carried[name] = first[name]
        carried[LINEAGE] = lineage.numbers()
        return token._replace(memory=sealed_model(packed(carried, kinds)))

    def ends(self, token: Token) -> bool:
        """Return whether the walk is over: the last update's move is made."""
        if token.distance:
            return False
        return token.step >= self.steps or (self.stop == "detector" and token.switched_at >= 0)

    def recorded(self, step: int) -> bool:
        """Return whether the model after so many updates belongs into the log."""
        return step % self.record_every == 0 or step == self.steps

    def refuses(self, token: Token) -> str | None:
        """Return what is wrong with a token that came from elsewhere, or None."""
        model = token.model
        if model.dtype != np.float64 or model.shape != (self.dim,):
            return (
                f"a model of {self.dim} numbers of type float64 was expected, "
                f"got {model.shape} of {model.dtype}"
            )
        if not is_finite(model):
            return "the model holds NaN or infinity"
        if not 0 <= token.phase < len(self.phases):
            return f"phase must be below {len(self.phases)}, got {token.phase}"
        most = self.method.max_hops
        if not 0 <= token.hop <= token.distance <= most or (
            token.distance and token.hop == token.distance
        ):
            return (
                f"a jump of at most {most} hops was expected, "
                f"got hop {token.hop} of {token.distance}"
            )
        if not 0 <= token.base <= token.step <= self.steps:
            return (
                f"step {token.step} of {self.steps} is impossible in an epoch that began at step "
                f"{token.base}"
            )
        counts = (
            *(token.seq, token.version, token.hops),
            *(token.transfers, token.small_messages, token.size),
        )
        if min(counts) < 0 or max(counts) >= _MOST:
            named = zip(_COUNTS, counts, strict=True)
            return "impossible counts: " + ", ".join(f"{name} {count}" for name, count in named)
        if not (-1 <= token.switched_at < self.steps and -1 <= token.diverged_at < self.steps):
            return (
                f"a switch at step {token.switched_at} and a divergence at step "
                f"{token.diverged_at} are impossible in a walk of {self.steps} steps"
            )
        nodes = self.method.n + self.idle
        if not -1 <= token.came_from < nodes:
            return f"came_from must be a node below {nodes}, or -1, got {token.came_from}"
        if token.memory.dtype != np.uint8 or token.memory.shape != (self.memory_bytes,):
            return f"a memory of {self.memory_bytes} bytes was expected, got {len(token.memory)}"
        if self.idle:
            passes = int(unpacked(token.memory, self.token_memory, self.dim)[PASSES])
            if not 0 <= passes <= MOST_PASSES:
                return f"{passes} visits to nodes without data since the last update are impossible"
        if self.remembers:
            wrong = self.lineage(token).impossible(token.epoch, token.hops)
            if wrong is not None:
                return wrong
        return None if self.detector is None else self._refuses_averages(token)

    def _refuses_averages(self, token: Token) -> str | None:
        """Return what is wrong with the detector's averages, which are the last part of the memory,
        or None.
        """
        kinds = {
            name: kind
            for name, kind in self.method.token_memory.items()
            if name.startswith(DETECTOR)
        }
        averages = unpacked(token.memory[-token_bytes(kinds, self.dim) :], kinds, self.dim)
        if not all(np.isfinite(averages[DETECTOR + name]).all() for name in ("mean", "mass")):
            return "the detector's averages hold NaN or infinity"
        streak = int(averages[DETECTOR + "streak"])
        return (
            None
            if 0 <= streak < _MOST
            else f"the detector cannot have counted {streak} updates in a row"
        )


def check_local(design: Walk, update: Update) -> None:
    """Refuse a method that needs more than local knowledge: a fleet has no server, and neighbours
    are asked for numbers alone.
    """
    for part in design.phases:
        for name in part.asks_neighbours:
            if type(part.node_memory[name]) not in (Number, PerNode):
                raise InvalidParameter(
                    f"design {part.name} asks its neighbours for {name!r}, which must be one "
                    f"number in a fleet, got {part.node_memory[name]!r}"
                )
        if len(part.asks_neighbours) > MOST_ANSWER // 8:
            raise InvalidParameter(
                f"design {part.name} asks its neighbours for {len(part.asks_neighbours)} entries, "
                f"at most {MOST_ANSWER // 8} are possible in a fleet"
            )
    for part in design.phases:
        if not part.local:
            raise InvalidParameter(
                f"design must walk over the edges in a fleet, got {part.name}, which only a server "
                "can do"
            )
    if not update.local:
        raise InvalidParameter(
            f"update {update.name} needs more than a node's own data, so it cannot run in a fleet"
        )
