"""A whole fleet in one process: the real state machines with an in-memory transport, in virtual
time.

Every message takes ``latency`` and messages arrive in order. Work takes no time. What a node
persists is kept apart from its memory: a kill loses the memory, and a restart begins with the disk.
Faults happen at given times (`PlannedFault`). Random faults (loss, duplication, torn writes, …) are
in `levywalk.fleet.checking`.

The fleet, its faults and its result are in one file, because each of them needs the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import count
from typing import Any, NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.signing import new_signers
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Joins,
    Leaves,
    Persist,
    Resize,
    Send,
    SetTimer,
    Start,
    Timer,
    Turn,
    TurnRequest,
)
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_state import Signer
from levywalk.fleet.protocol.records import NOBODY, Disk, Held, HeldStatus, Line
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.poisoned import poison

HOLDER, GUARDIAN = "holder", "guardian"
_TIMER, _TURN = Timer(), Turn()


class FaultKind(StrEnum):
    """What happens to a node, or to a connection; `PlannedFault` says what each means."""

    KILL = "kill"
    RESTART = "restart"
    LOSE_DISK = "lose disk"
    BACK_UP = "back up"
    ROLL_BACK = "roll back"
    REJOIN = "rejoin"
    LEAVE = "leave"
    JOIN = "join"
    GONE = "gone"
    CUT = "cut"
    HEAL = "heal"
    POISON = "poison"


_FOR_THE_DEAD = (FaultKind.RESTART, FaultKind.JOIN)


class PlannedFault(NamedTuple):
    """Something that happens to a node, or to a connection, at a given time.

    ============  ==================================================================================
    what          meaning
    ============  ==================================================================================
    ``kill``      the process dies; its disk stays
    ``restart``   it starts again with its disk, or as a new node if the disk was lost
    ``lose disk`` the process dies and its disk is gone
    ``back up``   a copy of its disk is made
    ``roll back`` the process dies, and starts again with that copy
    ``rejoin``    it starts again as a new node, and the operator tells the neighbours so
    ``leave``     the operator asks the node to leave
    ``join``      a node that was absent starts, and gets its edges
    ``gone``      the operator tells the neighbours that the node will not come back
    ``cut``       nothing passes between ``nodes`` and all others
    ``heal``      the connections of ``nodes`` work again, or all connections if none are given
    ``poison``    from now on the node sends other models than its updates have made
    ============  ==================================================================================

    Attributes
    ----------
    what
        A `FaultKind`, or its value.
    node
        A node, or "holder" or "guardian": the node that has this role at the time.
    """

    what: FaultKind | str
    node: int | str = -1
    nodes: frozenset[int] = frozenset()


class TimedReport(NamedTuple):
    """A report of a node, or a fault."""

    time: float
    node: int
    what: str
    about: dict[str, Any]


class Stay(NamedTuple):
    """The token became active at a node at that time."""

    time: float
    node: int
    epoch: Epoch
    step: int


@dataclass
class _Machine:
    """One node: its process, if it runs, and its disk."""

    disk: dict[str, Any]
    node: Node | None = None
    log: list[Line] = field(default_factory=list)
    timer_at: float = float("inf")
    backup: tuple[dict[str, Any], list[Line]] | None = None


class VirtualFleet:
    """All nodes of a fleet in one process.

    Parameters
    ----------
    fleet
        What determines the walk.
    signed
        Whether certificates are signed by Ed25519 (needs the package cryptography).
    latency
        Virtual seconds that a message takes.
    absent
        Nodes that do not take part at the beginning; a fault "join" adds them.
    grows
        The size that the operator tells when a node joins; None if the fleet was created for it.

    Attributes
    ----------
    first_absent, absent
        The nodes that did not take part at the beginning, and those that still do not.
    now
        Virtual seconds since the beginning.
    reports, path
        What was reported, and where the token was when.
    messages
        Number of delivered messages.

    Examples
    --------
    >>> import levywalk as lw
    >>> ring, problem = lw.ring(12), lw.homogeneous(12)
    >>> virtual = VirtualFleet(Fleet.of(ring, problem, lw.mhlj(), steps=200, step_size="theory"))
    >>> virtual.run()
    True
    >>> trace = lw.run(ring, problem, lw.mhlj(), steps=200, step_size="theory", backend="reference")
    >>> bool((virtual.final.model == trace.model[0]).all())
    True
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        signed: bool = False,
        latency: float = 0.001,
        absent: Collection[int] = (),
        grows: FleetSize | None = None,
    ) -> None:
        self.fleet, self.latency = fleet, checks.positive("latency", latency)
        self.grows = grows
        n = fleet.network.n
        self.first_absent = frozenset(self._checked(v) for v in absent)
        self.absent = set(self.first_absent)
        if fleet.start in self.absent:
            raise InvalidParameter(
                f"node {fleet.start} cannot be absent at the beginning: the walk starts there"
            )
        self.signers: dict[int, Signer] = {}  # the operator's among them
        if signed:
            self.signers = dict(new_signers([OPERATOR, *range(n)]))
        self.now = 0.0
        self.messages = 0
        self.reports: list[TimedReport] = []
        self.path: list[Stay] = []
        self.cuts: list[frozenset[int]] = []
        self._ended: set[int] = set()
        self._poisoned: set[int] = set()
        self._running = 0
        self._starts = 0
        self._moved_at = 0.0  # when something last happened
        self._queue: list[tuple[float, int, int, Event | PlannedFault]] = []
        self._order: Iterator[int] = count()
        self._faults = 0
        self.machines = [_Machine(_slots(self._first_disk(v))) for v in range(n)]
        for v in range(n):
            if v not in self.absent:
                self._begin(v)
        self._tell(fleet.start, Genesis(fleet.token))

    def at(self, time: float, fault: PlannedFault) -> None:
        """Plan a fault for that time."""
        self.check_fault(fault)
        self._faults += 1
        self._push(max(self.now, time), -1, fault)

    def check_fault(self, fault: PlannedFault) -> None:
        """Refuse a fault that cannot be planned."""
        if fault.what not in _FAULTS:
            raise InvalidParameter(f"what must be one of {', '.join(_FAULTS)}, got {fault.what!r}")
        for v in fault.nodes:
            self._checked(v)
        if fault.what not in (FaultKind.CUT, FaultKind.HEAL) and fault.node not in (
            HOLDER,
            GUARDIAN,
        ):
            self._checked(fault.node)

    def run(self, *, patience: float | None = None, until: float = float("inf")) -> bool:
        """Run until all running nodes know the end (True), or nothing has happened for ``patience``
        seconds (False). The default patience is 10 ``dead_after``: longer than any wait that ends
        by itself.
        """
        wait = 10.0 * self.fleet.terms.dead_after if patience is None else patience
        while self._queue and self._queue[0][0] <= until:
            if self._ended and self.over:
                return True
            if self.rests(wait) and not self.expects_faults:
                return False
            self.step()
        return self.over

    def rests(self, wait: float) -> bool:
        """Whether nothing has happened for longer than ``wait`` seconds."""
        return self.now > self._moved_at + wait

    @property
    def expects_faults(self) -> bool:
        """Whether faults are planned that have not happened yet."""
        return self._faults > 0

    @property
    def next_at(self) -> float:
        """When the next event happens."""
        return self._queue[0][0] if self._queue else float("inf")

    @property
    def over(self) -> bool:
        """Whether all running nodes know the end."""
        return 0 < self._running == len(self._ended)

    @property
    def final(self) -> Token:
        """The final token."""
        found = [
            machine.disk["final"] for machine in self.machines if machine.disk["final"] is not None
        ]
        if not found:
            raise InvalidParameter("the walk is not over: there is no final token yet")
        last: Token = max(found, key=lambda token: token.epoch)
        return last

    @property
    def logs(self) -> dict[int, list[Line]]:
        """Every node's log, except on disks that are lost."""
        return {v: machine.log for v, machine in enumerate(self.machines)}

    @property
    def to_come(self) -> list[tuple[float, PlannedFault]]:
        """Faults that have not happened yet."""
        return [
            (time, event)
            for time, _, _, event in sorted(self._queue)
            if isinstance(event, PlannedFault)
        ]

    def node(self, v: int) -> Node:
        """Return the state machine of a running node."""
        node = self.machines[v].node
        if node is None:
            raise InvalidParameter(f"node {v} does not run")
        return node

    def step(self) -> None:
        """Handle the next event."""
        self.now, _, v, event = heapq.heappop(self._queue)
        machine = self.machines[v]
        node = machine.node
        if isinstance(event, PlannedFault):
            self._faults -= 1
            self._moved_at = self.now
            self._fault(event)
            return
        if node is None:
            return
        if event is _TIMER:
            if machine.timer_at != self.now:
                return  # replaced by an earlier one
            machine.timer_at = float("inf")
        else:
            self.messages += 1
        self._perform(v, machine, node.receive(event, self.now))

    # Effects

    def _tell(self, v: int, event: Event) -> None:
        """Send an event to a node at once, if it runs."""
        machine = self.machines[v]
        if machine.node is not None:
            self._perform(v, machine, machine.node.receive(event, self.now))

    def _perform(self, v: int, machine: _Machine, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                if not self.cuts or self._connected(v, effect.to):
                    self._push(self.now + self.latency, effect.to, Got(v, *effect[1:]))
            elif isinstance(effect, Persist):
                self._persist(v, machine, effect)
            elif isinstance(effect, SetTimer):
                machine.timer_at = effect.at
                self._push(effect.at, v, _TIMER)
            elif isinstance(effect, TurnRequest):
                self._push(self.now, v, _TURN)
            else:
                self.reports.append(TimedReport(self.now, v, effect.what, effect.about))

    def _persist(self, v: int, machine: _Machine, effect: Persist) -> None:
        machine.disk.update(effect.slots)
        if effect.lines:
            machine.log.extend(effect.lines)
            self._moved_at = self.now
        held = effect.slots.get("held")
        if isinstance(held, Held) and held.status == HeldStatus.ACTIVE:
            self.path.append(Stay(self.now, v, held.token.epoch, held.token.step))
        if "final" in effect.slots:
            self._moved_at = self.now
            (self._ended.discard if effect.slots["final"] is None else self._ended.add)(v)

    def _push(self, time: float, v: int, event: Event | PlannedFault) -> None:
        heapq.heappush(self._queue, (time, next(self._order), v, event))

    def _connected(self, v: int, u: int) -> bool:
        return all((v in side) == (u in side) for side in self.cuts)

    # Members

    def _checked(self, v: object) -> int:
        return checks.integer("node", v, low=0, high=self.fleet.network.n - 1)

    def _first_disk(self, v: int, *, alone: bool = False) -> Disk:
        """Return a new disk, with the edges to the nodes that take part, or with no edge yet."""
        disk = self.fleet.disk(v)
        away = set(disk.edges) - {v} if alone else self.absent & set(disk.edges)
        if not self.absent and not away:
            return disk
        edges = {
            u: edge._replace(degree=edge.degree - self._absent_around(u))
            for u, edge in disk.edges.items()
            if u not in away
        }
        return replace(disk, own=disk.own._replace(degree=len(edges)), edges=edges)

    def _absent_around(self, v: int) -> int:
        return len(self.absent.intersection(self.fleet.network.neighbours(v).tolist()))

    def _begin(self, v: int) -> None:
        """Start a node's process with its disk."""
        machine = self.machines[v]
        machine.node = self.fleet.node(v, Disk(**machine.disk), self.signers.get(v))
        if v in self._poisoned:
            poison(machine.node.site)
        machine.timer_at = float("inf")
        self._running += 1
        if machine.disk["final"] is not None:
            self._ended.add(v)
        self._starts += 1
        self._tell(v, Start(b"%d|%d" % (self.fleet.seed, self._starts)))

    def _end(self, v: int) -> None:
        """End a node's process."""
        if self.machines[v].node is not None:
            self.machines[v].node = None
            self._running -= 1
            self._ended.discard(v)

    def whose(self, node: int | str) -> int | None:
        """Return the node that is meant: its number, or the present holder or guardian of the
        token; None if there is none.
        """
        if not isinstance(node, str):
            return node
        found = [
            (held.token.epoch, held.token.seq, v, held.guardian)
            for v, machine in enumerate(self.machines)
            if (held := machine.disk["held"]) is not None and held.status != HeldStatus.PREPARED
        ]
        found += [
            (guarded.copy.epoch, guarded.copy.seq, guarded.holder, v)
            for v, machine in enumerate(self.machines)
            if (guarded := machine.disk["guarded"]) is not None and guarded.register is None
        ]
        _, _, holder, guardian = max(found, default=(None, 0, NOBODY, NOBODY))
        who = holder if node == HOLDER else guardian
        return None if who == NOBODY else who

    # Faults

    def _fault(self, fault: PlannedFault) -> None:
        v = self.whose(fault.node)
        if v is None:
            self.reports.append(
                TimedReport(self.now, -1, "nobody", {"meant": fault.node, "fault": fault.what})
            )
            return
        if (
            v >= 0
            and (self.machines[v].node is None) != (fault.what in _FOR_THE_DEAD)
            and fault.what != FaultKind.GONE
        ):
            self.reports.append(TimedReport(self.now, v, "no use", {"fault": fault.what}))
            return
        about = {"nodes": sorted(fault.nodes)} if fault.nodes else {}
        self.reports.append(TimedReport(self.now, v, fault.what, about))
        _FAULTS[fault.what](self, v, fault.nodes)

    def _kill(self, v: int, nodes: frozenset[int]) -> None:
        self._end(v)

    def _restart(self, v: int, nodes: frozenset[int]) -> None:
        if v not in self.absent:
            self._begin(v)
            self._add_edges(v)

    def _lose_disk(self, v: int, nodes: frozenset[int]) -> None:
        self._end(v)
        empty = replace(self._first_disk(v), spent=self.fleet.lost_disk(v).spent)
        self.machines[v] = _Machine(_slots(empty))
        # Messages to the node with its old disk must not reach it with its new one.
        self._queue = [entry for entry in self._queue if entry[2] != v]
        heapq.heapify(self._queue)

    def _back_up(self, v: int, nodes: frozenset[int]) -> None:
        machine = self.machines[v]
        machine.backup = dict(machine.disk), list(machine.log)

    def _roll_back(self, v: int, nodes: frozenset[int]) -> None:
        backup = self.machines[v].backup
        if backup is None:
            raise InvalidParameter(f"node {v} has no backup: plan a fault 'back up' before")
        self._end(v)
        self.machines[v] = _Machine(dict(backup[0]), log=list(backup[1]), backup=backup)
        self._begin(v)

    def _rejoin(self, v: int, nodes: frozenset[int]) -> None:
        self._lose_disk(v, nodes)
        self._gone(v, nodes)
        self._begin(v)

    def _leave(self, v: int, nodes: frozenset[int]) -> None:
        self._tell(v, Leaves())

    def _join(self, v: int, nodes: frozenset[int]) -> None:
        if v in self.absent:
            self.machines[v] = _Machine(_slots(self._first_disk(v, alone=True)))
            self.absent.discard(v)
            self._begin(v)
            if self.grows is not None:
                self._tell(v, Resize(self._signed_size(self.grows)))
            self._add_edges(v)

    def _signed_size(self, size: FleetSize) -> FleetSize:
        if not self.signers:
            return size
        statement = size.statement(self.fleet.terms.run)
        return size._replace(signature=self.signers[OPERATOR].sign(statement))

    def _add_edges(self, v: int) -> None:
        """Let the operator add the missing edges of a node, at both ends."""
        for u in self.fleet.network.neighbours(v).tolist():
            if u != v and u not in self.absent:
                self._tell(v, Joins(u))
                self._tell(u, Joins(v))

    def _gone(self, v: int, nodes: frozenset[int]) -> None:
        for u in self.fleet.network.neighbours(v).tolist():
            self._tell(u, Gone(v))

    def _cut(self, v: int, nodes: frozenset[int]) -> None:
        self.cuts = [*self.cuts, nodes]

    def _heal(self, v: int, nodes: frozenset[int]) -> None:
        self.cuts = [side for side in self.cuts if nodes and side != nodes]

    def _poison(self, v: int, nodes: frozenset[int]) -> None:
        if v not in self._poisoned:
            self._poisoned.add(v)
            poison(self.node(v).site)


_FAULTS: dict[str, Callable[[VirtualFleet, int, frozenset[int]], None]] = {
    FaultKind.KILL: VirtualFleet._kill,
    FaultKind.RESTART: VirtualFleet._restart,
    FaultKind.LOSE_DISK: VirtualFleet._lose_disk,
    FaultKind.BACK_UP: VirtualFleet._back_up,
    FaultKind.ROLL_BACK: VirtualFleet._roll_back,
    FaultKind.REJOIN: VirtualFleet._rejoin,
    FaultKind.LEAVE: VirtualFleet._leave,
    FaultKind.JOIN: VirtualFleet._join,
    FaultKind.GONE: VirtualFleet._gone,
    FaultKind.CUT: VirtualFleet._cut,
    FaultKind.HEAL: VirtualFleet._heal,
    FaultKind.POISON: VirtualFleet._poison,
}


def _slots(disk: Disk) -> dict[str, Any]:
    return {slot.name: getattr(disk, slot.name) for slot in fields(disk)}
