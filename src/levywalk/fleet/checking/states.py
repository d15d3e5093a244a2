"""The states of a small fleet, and how an event changes them.

The real state machine is asked once per disk and event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.checkpoints import Checkpoints
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Leaves,
    Persist,
    Resize,
    Revive,
    Send,
    Silent,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.kept_memory import KeptMemory
from levywalk.fleet.protocol.links import operators_word
from levywalk.fleet.protocol.messages import (
    Alive,
    Fenced,
    Guarding,
    Heartbeat,
    Message,
    Prepared,
    Question,
    Refused,
    Released,
    Renewed,
    Sized,
    Withdrawn,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import (
    NOBODY,
    Disk,
    Edge,
    Guarded,
    Held,
    HeldStatus,
    Known,
    Own,
    RegisterValue,
    SilentNeighbour,
)
from levywalk.fleet.protocol.remembering import Inquiry
from levywalk.fleet.protocol.token import Epoch, Token

T = TypeVar("T")
INFINITY = float("inf")
ALL = -2
LIVE = (HeldStatus.ACTIVE, HeldStatus.MOVING, HeldStatus.WITHDRAWING)
FLEETING = (*(Heartbeat, Fenced, Prepared, Refused, Released, Withdrawn, Renewed, Guarding, Sized),)
UNANSWERED = "turn, although neighbours are silent"
SIMPLE: dict[str, Event] = {
    "turn": Turn(),
    UNANSWERED: Turn(),
    "start": Start(),
    "leaves": Leaves(),
    "silent": Silent(),
    "passes its certificate on": Silent(),
}


class DiskValue(NamedTuple):
    """The contents of a node's disk, as an immutable value, and what the node has asked."""

    known: Known
    own: Own
    edges: tuple[tuple[int, Edge], ...]
    held: Held | None
    guarded: Guarded | None
    final: Token | None
    end: Ending | None
    liars: tuple[Lie, ...]
    memory: KeptMemory | None = None
    size: FleetSize | None = None
    checkpoints: Checkpoints | None = None
    asked: AskedValue | None = None  # not on the disk: a crash loses it

    @classmethod
    def of(cls, disk: Disk, inquiry: Inquiry | None = None) -> DiskValue:
        """Return a disk as a value, and beside it what the node has asked."""
        return cls(
            disk.known,
            disk.own,
            tuple(sorted(disk.edges.items())),
            disk.held,
            disk.guarded,
            disk.final,
            disk.end,
            disk.liars,
            disk.memory,
            disk.size,
            disk.checkpoints,
            None if inquiry is None else AskedValue.of(inquiry),
        )

    def disk(self) -> Disk:
        """Return a disk that a node can change."""
        edges = dict(self.edges)
        return Disk(
            *(self.known, self.own, edges, self.held, self.guarded, self.final),
            end=self.end,
            liars=self.liars,
            memory=self.memory,
            size=self.size,
            checkpoints=self.checkpoints,
        )

    def with_slots(self, slots: dict[str, Any]) -> DiskValue:
        """Return the value after a commit."""
        values = dict(slots)
        if "edges" in values:
            values["edges"] = tuple(sorted(values["edges"].items()))
        return self._replace(**values)


class AskedValue(NamedTuple):
    """What a node has asked its neighbours, and what they have answered, as an immutable value."""

    question: Question
    since: int
    answers: tuple[tuple[int, bytes | None], ...]
    due: tuple[int, ...]

    @classmethod
    def of(cls, inquiry: Inquiry) -> AskedValue:
        """Return it as a value. When it was asked is left out, since no clock is trusted."""
        answers = tuple(sorted(inquiry.answers.items()))
        return cls(inquiry.question, inquiry.since, answers, tuple(sorted(inquiry.due)))

    def inquiry(self, asked_at: float) -> Inquiry:
        """Return it as a node can change it."""
        return Inquiry(self.question, self.since, asked_at, dict(self.answers), set(self.due))


class SentMessage(NamedTuple):
    """A message between two nodes. Its type belongs to it: messages of two types with the same
    fields, such as `Released` and `Certified`, are equal as tuples.
    """

    sender: int
    receiver: int
    kind: type
    message: Message


class FaultBudget(NamedTuple):
    """The faults that may still happen."""

    silences: int
    mistakes: int
    suspicions: int
    leaving: int
    forgetful: int
    revivals: int = 0
    told: int = 0  # the nodes, as bits, that know that another one has lost its disk
    sizes: int = 0  # that the operator may still tell

    def no_more_than(self, other: FaultBudget) -> bool:
        """Return whether the other budget allows everything that this one allows."""
        fewer = self[0] <= other[0] and self[1] <= other[1] and self[2] <= other[2]
        fewer = fewer and self.revivals <= other.revivals and self.told == other.told
        fewer = fewer and self.sizes == other.sizes and self.forgetful == other.forgetful
        return fewer and not self.leaving & ~other.leaving


class WorldState(NamedTuple):
    """One state of the whole fleet. Numbers stand for disks, and bits for messages and facts."""

    nodes: tuple[int, ...]
    sent: int
    dead: int
    budget: FaultBudget
    facts: int

    def poorer_than(self, other: WorldState) -> bool:
        """Return whether another state of the same disks has all messages and faults of this."""
        return not self.sent & ~other.sent and self.budget.no_more_than(other.budget)

    def after(self, v: int, outcome: MoveOutcome, budget: FaultBudget) -> WorldState:
        """Return the state after an event at a node."""
        nodes = self.nodes
        if nodes[v] != outcome.memory:
            nodes = (*nodes[:v], outcome.memory, *nodes[v + 1 :])
        sent, facts = self.sent | outcome.sent, self.facts | outcome.facts
        return WorldState(nodes, sent, self.dead, budget, facts)


class Move(NamedTuple):
    """An event at a node, and which neighbours it has heard recently: all, one, or none."""

    what: str
    about: int = NOBODY  # a message, or a node
    hears: int = ALL


class MoveOutcome(NamedTuple):
    """A node's disk after some effects of an event, and what was sent and became fact until then.

    A crash between two sends is not a case of its own: what is sent may be lost as well.
    """

    memory: int
    sent: int
    facts: int
    effects: int = 0  # number of performed effects, if not all


class Numbers(Generic[T]):
    """Numbers things, in the order in which they are seen."""

    def __init__(self) -> None:
        self.of: dict[T, int] = {}
        self.all: list[T] = []

    def __call__(self, thing: T) -> int:
        """Return the number of a thing."""
        number = self.of.get(thing)
        if number is None:
            number = self.of[thing] = len(self.all)
            self.all.append(thing)
        return number


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set.

    Examples
    --------
    >>> list(bits(0b1011))
    [0, 1, 3]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Nodes:
    """What events do at nodes. The real state machine is asked once per disk and event."""

    def __init__(self, setting: SmallFleet, kind: type[Node] = Node) -> None:
        self.setting = setting
        self.memories: Numbers[DiskValue] = Numbers()
        self.mail: Numbers[SentMessage] = Numbers()
        self.facts: Numbers[tuple[Any, ...]] = Numbers()
        self.to: list[int] = [0] * setting.n  # the messages to each node, as bits
        self.fresh = [self.memories(DiskValue.of(setting.disk(v))) for v in range(setting.n)]
        self.kind = kind
        self.fences = 0
        self.known: dict[tuple[int, int, Move], list[MoveOutcome]] = {}
        self.problem: tuple[str, str] | None = None

    def outcomes(self, v: int, memory: int, move: Move) -> list[MoveOutcome]:
        """Return the situation before each later commit of an event and, last,
        after all effects.
        """
        key = (v, memory, move)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._ask(v, memory, move)
        return found

    def _ask(self, v: int, memory: int, move: Move) -> list[MoveOutcome]:
        before = self.memories.all[memory]
        node = self._machine(v, before, move)
        memory = self.memories(before._replace(asked=None))
        try:
            effects = node.receive(self._event(v, node, move), 0.0)
        except Violation as broken:  # of the scripted memory
            self.problem = (broken.which, str(broken))
            return [MoveOutcome(memory, 0, 0)]
        found = list(self._performed(v, memory, effects))
        written = self.memories.all[found[-1].memory]
        now = DiskValue.of(node.disk, node.inquiry)
        found[-1] = found[-1]._replace(memory=self.memories(written._replace(asked=now.asked)))
        if written != now._replace(asked=None):
            self.problem = (
                "disk",
                f"node {v} has something in memory that is not on its disk after {move.what}",
            )
        return found

    def _machine(self, v: int, memory: DiskValue, move: Move) -> Node:
        """Return a state machine with that disk, which has just heard all neighbours, one,
        or none. It knows what it has asked, unless it starts.
        """
        node = self.setting.node(v, memory.disk(), self.kind)
        hears = move.hears
        node.heard = dict.fromkeys(node.neighbours, 0.0) if hears == ALL else {hears: 0.0}
        if memory.asked is not None and move.what != "start":
            node.inquiry = memory.asked.inquiry(-INFINITY if move.what == UNANSWERED else 0.0)
        return node

    def _event(self, v: int, node: Node, move: Move) -> Event:
        if move.what == "got":
            letter = self.mail.all[move.about]
            return Got(letter.sender, letter.message)
        if move.what == "gone":
            return Gone(move.about)
        if move.what == "resize":
            return Resize(self.setting.size(move.about))
        if move.what == "revive":
            copy = best_copy(node.disk)
            assert copy is not None
            counter = max(node.disk.known.epoch, copy.epoch).counter + 1
            return Revive(copy, operators_word(copy, v, counter))
        if move.what == "retry":
            node.retry_at = 0.0
            return Timer()
        if move.what == "suspects":
            node.heard[move.about] = -INFINITY
            node.tick_at = 0.0
            return Timer()
        if move.what == "waits too long":
            node._note_waiting(-INFINITY)
            node.tick_at = 0.0
            return Timer()
        if move.what == "genesis":
            return Genesis(self.setting.token())
        if move.what == "tick":
            node.tick_at = 0.0
            return Timer()
        return SIMPLE[move.what]

    def _performed(self, v: int, memory: int, effects: list[Effect]) -> Iterator[MoveOutcome]:
        now, sent, facts = self.memories.all[memory], 0, 0
        for done, effect in enumerate(effects):
            if isinstance(effect, Persist):
                if sent or facts:
                    yield MoveOutcome(memory, sent, facts, done)
                after = now.with_slots(effect.slots)
                if after.known.epoch < now.known.epoch:
                    self.problem = (
                        "I5",
                        f"node {v} falls from {now.known.epoch} to {after.known.epoch}",
                    )
                if _version(after) < _version(now):
                    self.problem = (
                        "size",
                        f"node {v} falls from size {_version(now)} to {_version(after)}",
                    )
                for fact in _facts(v, now, after, effect):
                    facts |= 1 << self.facts(fact)
                now, memory = after, self.memories(after)
            elif isinstance(effect, Send) and not isinstance(effect.message, Alive):
                sent |= 1 << self._posted(v, effect.to, effect.message)
        yield MoveOutcome(memory, sent, facts)

    def _posted(self, v: int, to: int, message: Message) -> int:
        number = self.mail(SentMessage(v, to, type(message), message))
        self.to[to] |= 1 << number
        if isinstance(message, Fenced):
            self.fences |= 1 << number
        return number

    def is_spent(self, v: int, memory: int, number: int) -> bool:
        """Return whether a message has no effect at a node, now and for ever.

        Old news stay old. An answer belongs to a question whose commit cannot happen again. A
        message of a lower epoch is answered with `Fenced`, which says the same as the receiver's
        earlier heartbeats.
        """
        outcome = self.outcomes(v, memory, Move("got", number))[-1]
        if outcome.memory != memory or outcome.sent & ~self.fences:
            return False
        if outcome.sent:
            return self.setting.forgetful == NOBODY  # otherwise the receiver may have forgotten it
        message = self.mail.all[number].message
        if isinstance(message, Heartbeat) and self.memories.all[memory].own.leaving:
            return False  # it may bring an edge up again, if the node is needed
        return isinstance(message, FLEETING)


def _version(memory: DiskValue) -> int:
    return 0 if memory.size is None else memory.size.version


def _facts(
    v: int, before: DiskValue, after: DiskValue, commit: Persist
) -> Iterator[tuple[Any, ...]]:
    """Yield what a commit makes true for ever."""
    was, held = before.held, after.held
    if held is not None and held.status in LIVE:
        place = (held.token.epoch, held.token.seq)
        if (
            was is None
            or was.status in (HeldStatus.PREPARED, HeldStatus.SEEKING)
            or (was.token.epoch, was.token.seq) != place
        ):
            yield ("activated", *place, v)
    guarded = after.guarded
    if (
        guarded is not None
        and guarded.register == RegisterValue.REGENERATED
        and guarded != before.guarded
    ):
        yield ("regenerated", guarded.copy.epoch, guarded.copy.seq, guarded.copy.step, v)
    for line in commit.lines:
        if isinstance(line, Visit):
            yield ("visited", Epoch(*line.token_epoch), line.step, v)
        if isinstance(line, SilentNeighbour):
            yield ("silence", line.token_epoch, line.hops, line.node)
