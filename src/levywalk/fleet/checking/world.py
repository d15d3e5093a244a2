"""A network, disks and clocks with the faults of a schedule, around real nodes.

The same schedule gives the same run.

Time is virtual. A node that crashes loses its `Node`, and starts again with what was persisted. A
crash can happen between any two effects of one event. A write happens completely or not at all, as
SQLite guarantees. Messages are lost, doubled, delayed and so reordered. A message can reach a node
after a restart, but never after its disk was lost: a transport must bind its connections to a disk.

The operator is part of the world: when a node has died (only under `wait`) or lost its disk, every
node is told once that it is gone; after a lost disk this happens before the node starts again. A
node that is down is told when it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

from levywalk.fleet.checking.faults import GUARDIAN, HOLDER, NEXT, FaultSchedule, ScheduledFault
from levywalk.fleet.checking.invariants import Invariants, Violation
from levywalk.fleet.checking.transcript import shown, slot_text
from levywalk.fleet.protocol.events import (
    Again,
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Joins,
    Leaves,
    Notice,
    Persist,
    Send,
    SetTimer,
    Silent,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import Disk, HeldStatus
from levywalk.fleet.protocol.terms import GuardianPolicy
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet

Maker = Callable[[Fleet, int, Disk], Node]
WRITING = 10  # added to the amount of a crash: wait for the next event that writes


def genuine(fleet: Fleet, v: int, disk: Disk) -> Node:
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
    gone: list[int] = field(default_factory=list)  # nodes that it must be told are gone, when it starts

    @property
    def up(self) -> bool:
        """Whether the node runs."""
        return self.node is not None

    def clock(self, time: float) -> float:
        """Return the time that the clock shows."""
        return self.offset + self.rate * time


class World:
    """One run of a schedule.

    Parameters
    ----------
    schedule
        The schedule.
    make
        A function that makes a node from a fleet, its number and its disk.
    keep
        Whether to write down what happens, for `transcript`.

    Examples
    --------
    >>> from levywalk.fleet.checking.faults import draw
    >>> world = World(draw(1))
    >>> world.run(until=30.0)
    >>> world.time <= 30.0, world.events > 50
    (True, True)
    """

    def __init__(self, schedule: FaultSchedule, make: Maker = genuine, *, keep: bool = False) -> None:
        self.schedule, self.make = schedule, make
        self.fleet = schedule.fleet
        self.rng = Random(schedule.seed + 1)
        self.time, self.events = 0.0, 0
        self.done: Counter[str] = Counter()  # faults by kind
        self.transcript: list[str] | None = [] if keep else None
        self.loss, self.blocked = schedule.loss, Counter[tuple[int, int]]()
        self.healed = False
        self.said: set[int] = set()  # dead nodes that the operator has reported
        self.joined: list[tuple[int, int]] = []
        self._order = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        n, drift = self.fleet.network.n, schedule.drift
        self.sites = [
            WorldMachine(self.fleet.disk(v), 1.0 + self.rng.uniform(-drift, drift), self.rng.uniform(0.0, 1000.0))
            for v in range(n)
        ]
        self.invariants = Invariants(self.fleet, [site.disk for site in self.sites])
        self._do: dict[type, Callable[[int, Any], None]] = {
            Persist: self._persist,
            Send: self._send,
            SetTimer: self._set_timer,
            Again: self._again,
            Notice: self._recorded,
        }
        self._faults: dict[str, Callable[[ScheduledFault], None]] = {
            **dict.fromkeys(("crash", "torn", "die", "wipe"), self._arm),
            "full": self._fill,
            "cut": self._cut,
            "split": self._split,
            "deaf": self._deaf,
            "mute": self._mute,
            "slow": self._slow,
            "storm": self._storm,
            "clock": self._leap,
            "silent": self._suspect,
            "rumour": self._rumour,
            "joins": self._join,
            "leaves": self._leave,
        }
        for v in range(n):
            self._at(0.0, self._start, v)
        for fault in schedule.faults:
            self._at(fault.at, self._strike, fault)

    # Time

    def _at(self, time: float, what: Callable[..., None], *about: Any) -> None:
        self._order += 1
        heappush(self._queue, (time, self._order, what, about))

    def run(self, until: float) -> None:
        """Let everything happen up to a time. After `heal`, stop at the end of the walk."""
        queue = self._queue
        while queue and queue[0][0] <= until and not (self.healed and self.finished):
            self.time, _, what, about = heappop(queue)
            what(*about)

    @property
    def finished(self) -> bool:
        """Whether all living nodes know the same end."""
        ends = self.invariants.ended
        if not ends:
            return False
        epochs = {ends.get(v) for v, site in enumerate(self.sites) if not site.dead}
        return len(epochs) == 1 and None not in epochs

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
        self.receive(v, Start())
        if v == self.fleet.start and not self.invariants.started:
            self.receive(v, Genesis(self.fleet.token))
        for a, b in self.joined:
            if v in (a, b):
                self.receive(v, Joins(a + b - v))
        for gone in site.gone[:]:
            self._hear_gone(v, gone)

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
            self.tell(v, f"← {shown(event)}")
        try:
            effects = site.node.receive(event, site.clock(self.time))
        except Exception as error:
            raise Violation("error", f"node {v} at {shown(event)}: {type(error).__name__}: {error}") from error
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
        disk = site.disk
        if self.transcript is not None:
            self.tell(v, "writes " + ", ".join(slot_text(name, value) for name, value in effect.slots.items()))
        for name, value in effect.slots.items():
            setattr(disk, name, value)
        self.invariants.persisted(v, effect.slots, effect.lines)

    def _send(self, v: int, effect: Send) -> None:
        to, rng = effect.to, self.rng
        if self.transcript is not None:
            self.tell(v, f"→ {to} {shown(effect.message)}")
        for _ in range(1 + (rng.random() < self.schedule.duplicates)):
            if rng.random() < self.loss or self.blocked[v, to]:
                continue
            delay = self.schedule.delay * rng.random() ** 2 + self.sites[v].slow + self.sites[to].slow
            if rng.random() < 0.02:
                delay *= 10.0  # sometimes a message arrives much later than others
            self._at(self.time + delay, self._deliver, v, to, effect.message, self.sites[to].disks_lost)

    def _deliver(self, v: int, to: int, message: Any, disks_lost: int) -> None:
        if self.sites[to].disks_lost == disks_lost and not self.blocked[v, to]:
            self.receive(to, Got(v, message))

    def _set_timer(self, v: int, effect: SetTimer) -> None:
        site = self.sites[v]
        site.timer += 1
        time = max(self.time + 0.001, (effect.at - site.offset) / site.rate + 0.001)
        self._at(time, self._ring, v, site.life, site.timer)

    def _ring(self, v: int, life: int, timer: int) -> None:
        site = self.sites[v]
        if site.life == life and site.timer == timer:
            self.receive(v, Timer())

    def _again(self, v: int, effect: Again) -> None:
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
        if self.transcript is not None:
            self.tell(v, effect.what + "".join(f" {key}={value}" for key, value in effect.about.items()))

    # Faults

    def _roles(self) -> dict[int, int]:
        """Return the holder of the highest active token, its guardian, and the next node."""
        found = [(role[:3], role[3]) for v in range(len(self.sites)) for role in self._roles_of(v)]
        return max(found, key=lambda role: role[0])[1] if found else {}

    def _roles_of(self, v: int) -> Iterator[tuple[Epoch, int, int, dict[int, int]]]:
        disk = self.sites[v].disk
        held, guarded = disk.held, disk.guarded
        if held is not None and held.status != HeldStatus.PREPARED and not self.sites[v].dead:
            yield held.token.epoch, held.token.seq, 1, {HOLDER: v, GUARDIAN: held.guardian, NEXT: held.to}
        if guarded is not None and guarded.register is None and not self.sites[v].dead:
            roles = {HOLDER: guarded.holder, GUARDIAN: v, NEXT: guarded.holder}
            yield guarded.copy.epoch, guarded.copy.seq, 0, roles

    def _strike(self, fault: ScheduledFault) -> None:
        """Let a fault happen, if it can: there may be no node with that role, and dead nodes stay
        dead.
        """
        roles = self._roles()
        fault = fault._replace(nodes=tuple(v if v >= 0 else roles.get(v, -1) for v in fault.nodes))
        if any(v < 0 or self.sites[v].dead for v in fault.nodes):
            return
        self.tell(fault.nodes[0] if fault.nodes else -1, f"*** {fault.kind} {fault.nodes} for {fault.lasts} s")
        self.done[fault.kind] += 1
        self._faults[fault.kind](fault)

    def _arm(self, fault: ScheduledFault) -> None:
        """Let a node crash at its next event."""
        site = self.sites[fault.nodes[0]]
        if site.node is not None and site.armed is None:
            site.armed = fault

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
        if kind in ("die", "wipe") and not self.invariants.whole:
            kind = "crash"  # the promise is for one permanent death at a time
        self.stop(v, kind)
        if kind == "die":
            self.sites[v].dead = True
            self.invariants.died(v)
            self._at(self.time + fault.lasts, self._say_gone, v)
        elif kind == "wipe":
            site = self.sites[v]
            site.disk, site.disks_lost, site.gone = self.fleet.disk(v), site.disks_lost + 1, []
            site.blank = True
            self.invariants.wiped(v, site.disk)
            self._at(self.time + fault.lasts, self._start, v)
        else:
            self._at(self.time + fault.lasts, self._start, v)

    def _say_gone(self, gone: int) -> None:
        """Tell every node that one will never come back.

        Nodes that are down are told when they start.
        """
        if self.sites[gone].dead:
            if gone in self.said or self.schedule.policy == GuardianPolicy.EAGER:
                return  # an eager fleet continues by itself
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

    def _fill(self, fault: ScheduledFault) -> None:
        v = fault.nodes[0]
        self.sites[v].room = False
        self._at(self.time + fault.lasts, self._make_room, v)

    def _make_room(self, v: int) -> None:
        self.sites[v].room = True
        self._start(v)

    def _cut(self, fault: ScheduledFault) -> None:
        a, b = fault.nodes
        self._block([(a, b)], fault.lasts)

    def _split(self, fault: ScheduledFault) -> None:
        inside = set(fault.nodes)
        outside = set(range(len(self.sites))) - inside
        self._block([pair for a in inside for b in outside for pair in ((a, b), (b, a))], fault.lasts)

    def _deaf(self, fault: ScheduledFault) -> None:
        self._block([(u, fault.nodes[0]) for u in range(len(self.sites))], fault.lasts)

    def _mute(self, fault: ScheduledFault) -> None:
        self._block([(fault.nodes[0], u) for u in range(len(self.sites))], fault.lasts)

    def _block(self, links: list[tuple[int, int]], lasts: float) -> None:
        self.blocked.update(links)
        self._at(self.time + lasts, self._unblock, links)

    def _unblock(self, links: list[tuple[int, int]]) -> None:
        if not self.healed:
            self.blocked.subtract(links)

    def _slow(self, fault: ScheduledFault) -> None:
        self.sites[fault.nodes[0]].slow = fault.amount
        self._at(self.time + fault.lasts, self._hurry, fault.nodes[0])

    def _hurry(self, v: int) -> None:
        self.sites[v].slow = 0.0

    def _storm(self, fault: ScheduledFault) -> None:
        self.loss = fault.amount
        self._at(self.time + fault.lasts, self._calm)

    def _calm(self) -> None:
        self.loss = 0.0 if self.healed else self.schedule.loss

    def _leap(self, fault: ScheduledFault) -> None:
        self.sites[fault.nodes[0]].offset += fault.amount

    def _suspect(self, fault: ScheduledFault) -> None:
        self.receive(fault.nodes[0], Silent())

    def _rumour(self, fault: ScheduledFault) -> None:
        self.invariants.misled = True
        self.receive(fault.nodes[0], Gone(fault.nodes[1]))

    def _join(self, fault: ScheduledFault) -> None:
        a, b = fault.nodes
        self.joined.append((a, b))
        self.receive(a, Joins(b))
        self.receive(b, Joins(a))

    def _leave(self, fault: ScheduledFault) -> None:
        self.receive(fault.nodes[0], Leaves())

    def heal(self) -> None:
        """End all faults: links work, all living nodes start, and the operator says which nodes are
        dead.
        """
        self.tell(-1, "*** all faults end")
        self.healed, self.loss = True, 0.0
        self.blocked.clear()
        for v, site in enumerate(self.sites):
            site.room, site.slow, site.armed = True, 0.0, None
            self._start(v)
        for v, site in enumerate(self.sites):
            if site.dead:
                self._say_gone(v)
