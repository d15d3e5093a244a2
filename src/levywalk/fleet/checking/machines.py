"""The machines of a virtual fleet: time, nodes, their effects, crashes,
and what the operator says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

from levywalk.fleet.checking.faults import FaultSchedule, ScheduledFault
from levywalk.fleet.checking.invariants import Invariants
from levywalk.fleet.checking.transcript import event_text, slot_text
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Notice,
    Persist,
    Send,
    SetTimer,
    Start,
    Timer,
    Turn,
    TurnRequest,
)
from levywalk.fleet.protocol.messages import Greeting, Sighting
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.starts import Starts
from levywalk.fleet.protocol.terms import GuardianPolicy
from levywalk.fleet.setup.build import Fleet

Maker = Callable[[Fleet, int, Disk], Node]
REJOINS = 5.0  # seconds until the operator lets a fenced node rejoin
OF_STARTS = frozenset((Greeting, Sighting))  # with which a connection begins
WRITING = 10  # added to the amount of a crash: wait for the next event that writes


def real_node(fleet: Fleet, v: int, disk: Disk) -> Node:
    """Return the real node. Tests of these tools use a node with a bug instead."""
    return fleet.node(v, disk)


def made_of(kind: type[Node]) -> Maker:
    """Return a function that makes nodes of another class, such as one of
    `levywalk.fleet.checking.mutants`.
    """
    return partial(_made, kind)


def _made(kind: type[Node], fleet: Fleet, v: int, disk: Disk) -> Node:
    return kind(fleet.site(v), fleet.terms, disk)


@dataclass
class WorldMachine:
    """The machine of a node: its disk, its clock, and its present faults."""

    disk: Disk
    rate: float
    offset: float
    node: Node | None = None
    life: int = 0  # number of starts of the process
    disks_lost: int = 0  # number of disks that were lost
    dead: bool = False
    room: bool = True
    slow: float = 0.0
    armed: ScheduledFault | None = None
    timer: int = 0
    turn: bool = False
    blank: bool = False  # whether the operator still has to say that the disk is lost
    rolled_back: bool = False  # whether the disk is an old one, and nobody has noticed yet
    copies: list[dict[str, Any]] = field(
        default_factory=list
    )  # the disk after each write, for rollbacks
    gone: list[int] = field(
        default_factory=list
    )  # nodes that it must be told are gone, when it starts

    @property
    def up(self) -> bool:
        """Whether the node runs."""
        return self.node is not None

    def clock(self, time: float) -> float:
        """Return the time that the clock shows."""
        return self.offset + self.rate * time


class Machines:
    """All machines of a fleet in virtual time. `World` adds the faults of a schedule."""

    def __init__(
        self,
        schedule: FaultSchedule,
        make: Maker = real_node,
        *,
        keep: bool = False,
        fleet: Fleet | None = None,
    ) -> None:
        self.schedule, self.make = schedule, make
        self.fleet = schedule.fleet if fleet is None else fleet
        self.rng = Random(schedule.seed + 1)
        self.greetings = Random(schedule.seed + 2)  # so that other messages fare as without them
        self.copying = any(fault.kind == "rollback" for fault in schedule.faults)
        self.time, self.events = 0.0, 0
        self.done: Counter[str] = Counter()  # faults by kind
        self.transcript: list[str] | None = [] if keep else None
        self.loss, self.blocked = schedule.loss, Counter[tuple[int, int]]()
        self.healed = False
        self.said: set[int] = set()  # dead nodes that the operator has reported
        self.joined: list[tuple[int, int]] = []
        self.sizes = 0  # versions of the fleet's size that the operator has told
        self._order = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        n, drift = self.fleet.network.n, schedule.drift
        self.sites = [
            WorldMachine(
                self.fleet.disk(v),
                1.0 + self.rng.uniform(-drift, drift),
                self.rng.uniform(0.0, 1000.0),
            )
            for v in range(n)
        ]
        self.invariants = Invariants(self.fleet, [site.disk for site in self.sites])
        self._do: dict[type, Callable[[int, Any], None]] = {
            Persist: self._persist,
            Send: self._send,
            SetTimer: self._set_timer,
            TurnRequest: self._request_turn,
            Notice: self._recorded,
        }
        for v in range(n):
            self._at(0.0, self._start, v)

    # Time

    def _at(self, time: float, what: Callable[..., None], *about: Any) -> None:
        self._order += 1
        heappush(self._queue, (time, self._order, what, about))

    def run(self, until: float) -> None:
        """Handle all events up to a time. After `heal`, stop at the end of the walk."""
        queue = self._queue
        ended = self.invariants.ended  # usually empty, which is asked faster than `finished`
        while queue and queue[0][0] <= until and not (ended and self.healed and self.finished):
            self.time, _, what, about = heappop(queue)
            what(*about)

    @property
    def finished(self) -> bool:
        """Whether all living nodes know the same end."""
        ends = self.invariants.ended
        if not ends:
            return False
        if len(ends) < len(self.sites) - len(self.invariants.dead):
            return False
        epochs = {ends.get(v) for v, site in enumerate(self.sites) if not site.dead}
        return len(epochs) == 1 and None not in epochs

    poisoned: frozenset[int] = frozenset()  # nodes whose models are false

    def tell(self, v: int, what: str) -> None:
        """Write down what happened at a node."""
        if self.transcript is not None:
            self.transcript.append(f"{self.time:8.2f}  {v:>3}  {what}")

    # Nodes

    def _start(self, v: int) -> None:
        site = self.sites[v]
        if site.node is not None or site.dead or not site.room:
            return
        if site.blank:
            site.blank = False
            self._say_gone(v)
        self.tell(v, "starts")
        site.life += 1
        site.timer, site.turn, site.armed = 0, False, None
        site.node = self.make(self.fleet, v, replace(site.disk))
        # as in its node file, whatever its disk says
        joins = tuple(sorted({a + b - v for a, b in self.joined if v in (a, b)}))
        self.receive(v, Start(self._drawn(v, site.life), joins))
        acts = site.node is not None and not (site.node.awaited or site.node.fenced)
        if site.rolled_back and acts:
            site.rolled_back = False  # it acts at once: it has no neighbour left to ask
            self.invariants.rollback_is_unseen(v)
        if v == self.fleet.start and not self.invariants.started:
            self.receive(v, Genesis(self.fleet.token))
        for gone in site.gone[:]:
            self._hear_gone(v, gone)

    def _drawn(self, v: int, life: int) -> bytes:
        """Return the random bytes of a start."""
        return blake2b(b"%d|%d|%d" % (self.schedule.seed, v, life), digest_size=16).digest()

    def stop(self, v: int, why: str) -> None:
        """Stop a node. Its memory is lost, its disk stays."""
        self.tell(v, f"stops: {why}")
        self.sites[v].node, self.sites[v].armed = None, None

    def receive(self, v: int, event: Event) -> None:
        """Give an event to a node, and perform its effects until it crashes."""
        site = self.sites[v]
        if site.node is None:
            return
        self.events += 1
        if self.transcript is not None and not isinstance(event, Timer | Turn):
            self.tell(v, f"← {event_text(event)}")
        try:
            effects = site.node.receive(event, site.clock(self.time))
        except Exception as error:
            raise Violation(
                "error", f"node {v} at {event_text(event)}: {type(error).__name__}: {error}"
            ) from error
        fault = site.armed
        survived = None if fault is None else self._survived(fault, effects)
        for effect in effects if survived is None else survived:
            self._do[type(effect)](v, effect)
            if not site.up:
                return
        if fault is not None and survived is not None:
            self._fall(v, fault)

    # Effects

    def _persist(self, v: int, effect: Persist) -> None:
        site = self.sites[v]
        if not site.room:
            self.stop(v, "the disk is full")
            return
        if self.transcript is not None:
            self.tell(
                v,
                "writes "
                + ", ".join(slot_text(name, value) for name, value in effect.slots.items()),
            )
        for name, value in effect.slots.items():
            setattr(site.disk, name, value)
        self.invariants.persisted(v, effect.slots, effect.lines)
        if self.copying:
            site.copies.append(vars(site.disk).copy())

    def _send(self, v: int, effect: Send) -> None:
        to, message, start, commit = effect
        greets = type(message) in OF_STARTS
        drawn = self.greetings.random if greets else self.rng.random
        if self.transcript is not None:
            self.tell(v, f"→ {to} {event_text(message)}")
        giver, taker = self.sites[v], self.sites[to]
        for _ in (0, 1) if drawn() < self.schedule.duplicates else (0,):
            if drawn() < self.loss or self.blocked.get((v, to)):
                continue
            delay = self.schedule.delay * drawn() ** 2 + giver.slow + taker.slow
            if drawn() < 0.02:
                delay *= 10.0  # sometimes a message arrives much later than others
            # It is bound to the receiver's disk, and a greeting also to the sender's.
            disks = (taker.disks_lost, giver.disks_lost if greets else 0)
            about = (to, Got(v, message, start, commit), disks)
            self._order += 1
            heappush(self._queue, (self.time + delay, self._order, self._deliver, about))

    def _deliver(self, to: int, got: Got, disks: tuple[int, int]) -> None:
        v = got.sender
        if self.sites[to].disks_lost != disks[0] or self.blocked.get((v, to)):
            return
        if type(got.message) in OF_STARTS and self.sites[v].disks_lost != disks[1]:
            return
        self.receive(to, got)

    def _set_timer(self, v: int, effect: SetTimer) -> None:
        site = self.sites[v]
        site.timer += 1
        time = max(self.time + 0.001, (effect.at - site.offset) / site.rate + 0.001)
        self._at(time, self._ring, v, site.life, site.timer)

    def _ring(self, v: int, life: int, timer: int) -> None:
        site = self.sites[v]
        if site.life == life and site.timer == timer:
            self.receive(v, Timer())

    def _request_turn(self, v: int, effect: TurnRequest) -> None:
        site = self.sites[v]
        if not site.turn:
            site.turn = True
            self._at(self.time + 0.01 + site.slow, self._take_turn, v, site.life)

    def _take_turn(self, v: int, life: int) -> None:
        site = self.sites[v]
        if site.life == life:
            site.turn = False
            self.receive(v, Turn())

    def _recorded(self, v: int, effect: Notice) -> None:
        site = self.sites[v]
        if effect.what == "confirmed" and site.rolled_back:  # nobody has seen what it has lost
            site.rolled_back = False
            self.invariants.rollback_is_unseen(v)
        if effect.what == "fenced":
            if not site.rolled_back:
                raise Violation("fence", f"node {v} is fenced, although its disk is right")
            self._at(self.time + REJOINS, self._rejoin, v)
        if effect.what == "model refused" and effect.about["node"] not in self.poisoned:
            raise Violation(
                "honest",
                f"node {v} refuses the model of node {effect.about['node']}, which is honest: "
                f"{effect.about['why']}",
            )
        if self.transcript is not None:
            self.tell(
                v, effect.what + "".join(f" {key}={value}" for key, value in effect.about.items())
            )

    # Crashes, and the operator

    def _survived(self, fault: ScheduledFault, effects: list[Effect]) -> list[Effect] | None:
        """Return the effects that happen before the planned crash of a node, or None if it does not
        crash yet.
        """
        writes = [i for i, effect in enumerate(effects) if type(effect) is Persist]
        if fault.kind == "torn":
            return effects[: writes[0] + int(fault.amount)] if writes else None
        if fault.amount >= WRITING and not writes:
            return None
        return effects[: int(fault.amount) % WRITING]

    def _fall(self, v: int, fault: ScheduledFault) -> None:
        """Stop a node: for a while, for ever, or without its disk."""
        kind = fault.kind
        if kind in ("die", "wipe") and not self.may_lose_a_disk:
            kind = "crash"  # the promise is for one permanent death at a time
        self.stop(v, kind)
        if kind == "die":
            self.sites[v].dead = True
            self.invariants.died(v)
            self._at(self.time + fault.lasts, self._say_gone, v)
        elif kind == "wipe":
            self._wipe(v)
            self._at(self.time + fault.lasts, self._start, v)
        else:
            self._at(self.time + fault.lasts, self._start, v)

    def _wipe(self, v: int) -> None:
        """Replace a node's disk by an empty one."""
        site = self.sites[v]
        site.disk, site.disks_lost = self.fleet.lost_disk(v), site.disks_lost + 1
        site.gone = sorted(self.said)  # the operator repeats what the new disk does not know
        site.blank, site.rolled_back, site.copies = True, False, []
        self.invariants.wiped(v, site.disk)

    def roll_back(self, v: int, writes: int) -> None:
        """Give a node that is down its disk as it was so many writes ago.

        The operator repeats which nodes are gone, because the old disk may not know. An old disk
        that takes a living neighbour for gone does not wait for its answer, so nothing is promised
        for it, and the node keeps its disk.
        """
        site = self.sites[v]
        kept = max(1, len(site.copies) - writes)
        if self._excuses_the_living(site.copies[kept - 1]):
            return
        site.disk = Disk(**site.copies[kept - 1])
        self.invariants.rolled_back(v, site.disk, len(site.copies) - kept)
        del site.copies[kept:]
        site.rolled_back = True
        site.gone += [u for u in sorted(self.said) if u not in site.gone]

    def _excuses_the_living(self, disk: dict[str, Any]) -> bool:
        starts: Starts | None = disk["starts"]
        seen = {} if starts is None else starts.seen
        return any(one.gone and not self.sites[u].dead for u, one in seen.items())

    def _rejoin(self, v: int) -> None:
        """Let the operator start a fenced node again without its disk."""
        starts = self.sites[v].disk.starts
        if starts is not None and starts.fenced and not self.sites[v].dead:
            self.stop(v, "rejoins")
            self._wipe(v)
            self._start(v)

    @property
    def may_lose_a_disk(self) -> bool:
        """Whether the promises allow that a disk is lost or rolled back: holder and guardian have
        copies since the last time, and no node waits to hear whether its own disk is an old one.
        """
        return self.invariants.whole and not self.invariants.doubtful

    def _say_gone(self, gone: int) -> None:
        """Tell every node that one will never come back.

        Nodes that are down are told when they start.
        """
        if self.sites[gone].dead:
            eager = self.schedule.policy == GuardianPolicy.EAGER and not self.healed
            if gone in self.said or eager:
                return  # an eager fleet continues by itself, unless a node has started again
            self.said.add(gone)
        for v, site in enumerate(self.sites):
            if v == gone or site.dead:
                continue
            site.gone.append(gone)
            self._hear_gone(v, gone)

    def _hear_gone(self, v: int, gone: int) -> None:
        """Tell one node; if it crashes meanwhile, it is told again when it starts."""
        site = self.sites[v]
        if site.node is not None:
            self.receive(v, Gone(gone))
        if site.node is not None:
            site.gone.remove(gone)
