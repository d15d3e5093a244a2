"""What happens from a state on if nothing else goes wrong: all messages arrive, timers fire, time
passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Send,
    Start,
    Timer,
    Turn,
    TurnRequest,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NOBODY, Disk, HeldStatus
from levywalk.fleet.protocol.terms import GuardianPolicy
from levywalk.fleet.protocol.token import FIRST

PATIENCE = (
    6.0  # more than twice ``dead_after``: if no disk changes for so long, none will change any more
)


class FairRuns:
    """Fair runs from many states, each computed once."""

    def __init__(self, setting: SmallFleet, kind: type[Node] = Node) -> None:
        self.setting, self.kind = setting, kind
        self.known: dict[Hashable, str | None] = {}
        self.paused = 0

    def run(self, key: Hashable, dead: int, forgot: int, disks: list[Disk]) -> str | None:
        """Return why the walk does not end, or None if it does."""
        key = (key, dead, forgot)
        if key not in self.known:
            self.known[key] = self._run(dead, forgot, disks)
        return self.known[key]

    def _run(self, dead: int, forgot: int, disks: list[Disk]) -> str | None:
        run = FairRun(self.setting, self.kind, dead, forgot, disks)
        if forgot != NOBODY:  # all hear it with the first hello, before anything else
            run.queue.extendleft((v, Gone(forgot)) for v in run.nodes if v != forgot)
        if run.until_quiet():
            return None
        lost = forgot if dead == NOBODY else dead
        if lost == NOBODY:
            return "the walk does not continue, although all nodes are alive"
        if dead != NOBODY and (
            self.setting.policy != GuardianPolicy.WAIT or not run.waits_for(dead)
        ):
            return (
                f"after the death of node {dead} the walk does not continue, "
                "although that node was not the guardian"
            )
        self.paused += 1
        run.gone(lost)
        return (
            None
            if run.until_quiet()
            else f"the walk does not continue after all nodes were told that node {lost} is gone"
        )


class FairRun:
    """A run without faults, except that one node is dead or has lost its disk."""

    def __init__(
        self, setting: SmallFleet, kind: type[Node], dead: int, forgot: int, disks: list[Disk]
    ) -> None:
        self.now, self.dead = 0.0, dead
        self.queue: deque[tuple[int, Event]] = deque()
        self.nodes = {v: setting.node(v, disk, kind) for v, disk in enumerate(disks) if v != dead}
        self.queue.extend((v, Start()) for v in self.nodes)
        self.started = setting.start not in (dead, forgot)
        if self.started:
            self.queue.append((setting.start, Genesis(setting.token())))

    def gone(self, dead: int) -> None:
        """Tell all other nodes that this one is gone."""
        self.queue.extend((v, Gone(dead)) for v in self.nodes if v != dead)

    def until_quiet(self) -> bool:
        """Let time pass until all nodes know the end, or nothing new happens any more; return
        whether it is the end.
        """
        quiet, last = self.now, self._looks()
        while self.now - quiet <= PATIENCE:
            self._deliver()
            if self._over():
                return True
            looks = self._looks()
            if looks != last:
                quiet, last = self.now, looks
            self.now = min(node.timer_at for node in self.nodes.values())
            self.queue.extend(
                (v, Timer()) for v, node in self.nodes.items() if node.timer_at <= self.now
            )
        return False

    def _deliver(self) -> None:
        while self.queue:
            v, event = self.queue.popleft()
            self._perform(v, self.nodes[v].receive(event, self.now))

    def _perform(self, v: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.to != self.dead:
                self.queue.append((effect.to, Got(v, effect.message)))
            elif isinstance(effect, TurnRequest):
                self.queue.append((v, Turn()))

    def _looks(self) -> list[object]:
        """Return what shows progress.

        Edges are left out, because they go up and down without progress.
        """
        return [
            (node.disk.known, node.disk.held, node.disk.guarded, node.disk.final)
            for node in self.nodes.values()
        ]

    def _over(self) -> bool:
        finals = [node.disk.final for node in self.nodes.values()]
        if not self.started and all(node.disk.known.epoch == FIRST for node in self.nodes.values()):
            return True  # the first token was lost with its node, before another node had it
        return None not in finals and len(set(finals)) == 1

    def waits_for(self, dead: int) -> bool:
        """Return whether the token's holder is alive and a dead node is its guardian."""
        helds = [node.disk.held for node in self.nodes.values() if node.disk.held is not None]
        top = max((held.token.epoch for held in helds), default=None)
        return any(
            held.guardian == dead and held.token.epoch == top and held.status != HeldStatus.PREPARED
            for held in helds
        )
