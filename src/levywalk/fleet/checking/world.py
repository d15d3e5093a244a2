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

from collections.abc import Callable, Iterator

from levywalk.fleet.checking.faults import GUARDIAN, HOLDER, NEXT, FaultSchedule, ScheduledFault
from levywalk.fleet.checking.growing import size_of
from levywalk.fleet.checking.machines import Machines, Maker, real_node
from levywalk.fleet.protocol.events import (
    Gone,
    Joins,
    Leaves,
    Resize,
    Revive,
    Silent,
)
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import operators_word
from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet


class World(Machines):
    """One run of a schedule.

    Parameters
    ----------
    schedule
        The schedule.
    make
        A function that makes a node from a fleet, its number and its disk.
    keep
        Whether to write down what happens, for `transcript`.
    fleet
        The fleet, if it is another one than that of the schedule.

    Examples
    --------
    >>> from levywalk.fleet.checking.faults import draw
    >>> world = World(draw(1))
    >>> world.run(until=30.0)
    >>> world.time <= 30.0, world.events > 50
    (True, True)
    """

    def __init__(
        self,
        schedule: FaultSchedule,
        make: Maker = real_node,
        *,
        keep: bool = False,
        fleet: Fleet | None = None,
    ) -> None:
        super().__init__(schedule, make, keep=keep, fleet=fleet)
        self._faults: dict[str, Callable[[ScheduledFault], None]] = {
            **dict.fromkeys(("crash", "torn", "die", "wipe"), self._arm),
            "full": self._fill,
            "rollback": self._restore,
            "cut": self._cut,
            "split": self._split,
            "deaf": self._deaf,
            "mute": self._mute,
            "slow": self._slow,
            "storm": self._storm,
            "clock": self._leap,
            "silent": self._suspect,
            "rumour": self._rumour,
            "revive": self._revive,
            "joins": self._join,
            "grows": self._grow,
            "leaves": self._leave,
        }
        for fault in schedule.faults:
            self._at(fault.at, self._strike, fault)

    # Faults

    def _roles(self) -> dict[int, int]:
        """Return the holder of the highest active token, its guardian, and the next node."""
        found = [(role[:3], role[3]) for v in range(len(self.sites)) for role in self._roles_of(v)]
        return max(found, key=lambda role: role[0])[1] if found else {}

    def _roles_of(self, v: int) -> Iterator[tuple[Epoch, int, int, dict[int, int]]]:
        disk = self.sites[v].disk
        held, guarded = disk.held, disk.guarded
        if held is not None and held.status != HeldStatus.PREPARED and not self.sites[v].dead:
            yield (
                held.token.epoch,
                held.token.seq,
                1,
                {HOLDER: v, GUARDIAN: held.guardian, NEXT: held.to},
            )
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
        self.tell(
            fault.nodes[0] if fault.nodes else -1,
            f"*** {fault.kind} {fault.nodes} for {fault.lasts} s",
        )
        self.done[fault.kind] += 1
        self._faults[fault.kind](fault)

    def _arm(self, fault: ScheduledFault) -> None:
        """Let a node crash at its next event."""
        site = self.sites[fault.nodes[0]]
        if site.node is not None and site.armed is None:
            site.armed = fault

    def _restore(self, fault: ScheduledFault) -> None:
        """Stop a node, and let it start again with an old disk.

        As with a lost disk, the promise is for one at a time, and for operators who are right.
        """
        v = fault.nodes[0]
        site = self.sites[v]
        if site.node is None:
            return
        self.stop(v, fault.kind)
        if self.may_lose_a_disk and not self.invariants.misled:
            self.roll_back(v, int(fault.amount))
        self._at(self.time + fault.lasts, self._start, v)

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
        self._block(
            [pair for a in inside for b in outside for pair in ((a, b), (b, a))], fault.lasts
        )

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
        if any(site.rolled_back for site in self.sites):
            return  # a witness that is declared gone cannot be heard
        self.invariants.misled = True
        self.receive(fault.nodes[0], Gone(fault.nodes[1]))

    def _revive(self, fault: ScheduledFault) -> None:
        """Let the operator revive the walk, although it may be alive."""
        copy = best_copy(self.sites[fault.nodes[0]].disk)
        if copy is not None and self.sites[fault.nodes[0]].node is not None:
            self.invariants.misled = True
            held = self.sites[fault.nodes[0]].disk.held
            if held is not None and held.token is copy:  # prepared, and perhaps never released
                places = self.invariants.revived.setdefault((copy.epoch, copy.seq), set())
                places.add(fault.nodes[0])
            known = self.sites[fault.nodes[0]].disk.known.epoch
            counter = max(known, copy.epoch).counter + 1
            word = operators_word(copy, fault.nodes[0], counter)
            self.receive(fault.nodes[0], Revive(copy, word))

    def _join(self, fault: ScheduledFault) -> None:
        a, b = fault.nodes
        self.joined.append((a, b))
        self.receive(a, Joins(b))
        self.receive(b, Joins(a))

    def _grow(self, fault: ScheduledFault) -> None:
        """Let the operator tell a node the next size, if it runs."""
        if self.sites[fault.nodes[0]].node is None:
            return
        self.sizes += 1
        first = size_of(self.fleet, self.fleet.network.n, self.sizes)
        nodes, mean = first.nodes + self.sizes, first.mean_smoothness * (1.0 + self.sizes / 7)
        self.receive(fault.nodes[0], Resize(first._replace(nodes=nodes, mean_smoothness=mean)))

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

    def say_again(self) -> None:
        """Let the operator say once more that nodes are dead for whose answers others wait: a late
        greeting has made them seem to be back, and the status names them.
        """
        awaited = {u for site in self.sites if site.node is not None for u in site.node.awaited}
        for v, site in enumerate(self.sites):
            if site.dead and v in awaited:
                self.said.discard(v)
                self._say_gone(v)
