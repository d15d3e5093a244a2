"""One token at one node: its state machine, connected to its disk, the network and the clock.

A fleet with several tokens has one of these for each of them at every node, and they share nothing
but the process: each has its own state machine (`protocol.node.Node`), its own disk and its own
timer. An event goes to one of them, is one transaction on its disk, and only then are messages
sent.

It is one class of short methods, because all of them share the state machine, the store and the
timer.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from levywalk.draws import Domain, Key
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Excused,
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
from levywalk.fleet.protocol.messages import Message, Prepare, Refused
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.protocol.records import Disk, Edge, Known, Own
from levywalk.fleet.protocol.tensors import INLINE
from levywalk.fleet.protocol.token import FIRST
from levywalk.fleet.runtime.node_status import is_dead, needed_nodes
from levywalk.fleet.runtime.orders import Orders
from levywalk.fleet.runtime.own_data import scores
from levywalk.fleet.runtime.plausible import EpochBudget, implausible
from levywalk.fleet.runtime.sightings import Sightings
from levywalk.fleet.runtime.spending import system_noise
from levywalk.fleet.setup.budget_file import first_spending
from levywalk.fleet.setup.size_file import read_size, size_file, sized, write_size
from levywalk.fleet.storage.errors import DiskFull, NoDescriptors, NodeStoreError
from levywalk.fleet.storage.store import NodeStore, whole

if TYPE_CHECKING:
    from levywalk.fleet.runtime.process import Process

_PAUSE = 5.0  # seconds until a node whose disk was full tries again
_THOUGHT = 0.1  # seconds; decisions that take longer are not made ahead, but when they are needed


class TokenRunner:
    """Runs the state machine of one token at a node.

    Parameters
    ----------
    process
        The node, with what all tokens share.
    number
        Which of the tokens it is, from 0 on.
    """

    def __init__(self, process: Process, number: int) -> None:
        self.process, self.number = process, number
        self.file = process.file.of_token(number)
        self._founded = process.founded.of_token(number)  # before any node has joined
        self.manifest = self._founded
        self.store = NodeStore(self.file.state, self.manifest.digest, limits=self.manifest.limits)
        self.orders = Orders(self)
        self.counts: Counter[str] = Counter()
        self.epochs = EpochBudget(self.manifest.terms.dead_after)
        self.out_of_order = ""
        self._told_stall = False
        self._told_lost: dict[int, bytes] = {}  # the new disks that the state machine knows of
        self._draw = secrets.token_bytes(16)  # of this start, until it is on the disk
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._decision = float("inf")  # seconds that the last one took
        self._thought = 0.0  # seconds that were spent on the next one ahead

    def load(self, disk: Disk) -> None:
        """Make the state machine from what is on the disk."""
        told = read_size(self.file.manifest.parent, self._founded)
        if told is not None and (disk.size is None or disk.size < told):
            disk.size = told
            self.store.persist(Persist({"size": told}, ()))
        self.manifest = sized(self._founded, disk.size)
        self.node = self._node(disk)
        private = self.manifest.published.privacy is not None
        measured = None if private else self.process.problem
        self.sightings = Sightings(disk, measured, self.process.metrics)

    def write_blank(self) -> Disk:
        """Write the disk of a new node, and return it."""
        disk = self._blank()
        self.store.persist(whole(disk))
        return disk

    def _key(self) -> Key:
        shared = self.manifest.shared_key
        return (
            Key.of(self.process.incarnation.entropy, Domain.FLEET, token=self.number)
            if shared is None
            else Key.of(shared, Domain.WALK, token=self.number)
        )

    def _blank(self) -> Disk:
        """Return the disk of a new node: it knows its neighbours' ids, and uses an edge once both
        ends have agreed on it.
        """
        own = self.process.scores
        ids = [peer.id for peer in self.file.neighbours]
        edges = {u: Edge(0, False, 1, own, joined=True) for u in ids}
        if self.manifest.self_loops == "counted":
            ids.append(self.file.id)
            edges[self.file.id] = Edge(0, True, len(ids), own, joined=True)
        spent = first_spending(self.process.folder, self.manifest)
        private = self.manifest.published.privacy
        if spent is not None and private is not None:
            level = "warning" if spent.releases == private.cap else "info"
            self.log("budget begins", level=level, spent=spent.releases, cap=private.cap)
        return Disk(Known(FIRST, 0), Own(len(ids), 0, leaving=False), edges, spent=spent)

    def _node(self, disk: Disk) -> Node:
        site = NodeSite(
            self._founded.published,
            self.file.id,
            self.process.problem,
            0,
            self.process.scores,
            self._key(),
            self.process.metrics,
            system_noise(self.manifest),
            self._rescored,
        )
        signer = self.process.identity.signer(self.manifest.operator)
        return Node(site, self.manifest.terms, disk, signer)

    def _rescored(self, mean: float) -> tuple[float, ...]:
        """Return the node's scores for another L̄."""
        grown = replace(self._founded, mean_smoothness=mean)
        return scores(grown, self.process.problem, self.process.degree, self.file.score)

    def _grow(self) -> None:
        """Use the new size of the fleet wherever nodes are counted, and keep it in a file for the
        operator's commands.
        """
        size = self.node.disk.size
        assert size is not None
        self.manifest = sized(self._founded, size)
        folder = self.file.manifest.parent
        try:
            write_size(folder, size, self.number)
        except OSError as error:  # it is on the disk of the state machine, which counts
            self.process.not_kept(folder / size_file(self.number), str(error.strerror))

    def log(self, what: str, level: str = "info", **about: object) -> None:
        """Write a log line, which names the token if there are several."""
        self._write(what, level, about)

    def _write(self, what: str, level: str, about: dict[str, object]) -> None:
        if self.manifest.tokens > 1:
            about = {"token": self.number} | about
        self.process.log_writer.write(what, level, about)

    # Events and effects

    def event(self, event: Event) -> None:
        """Pass an event to the state machine: one transaction, then everything that
        depends on it.
        """
        if self.out_of_order or self.process.failed:
            return  # act like a node that is down: the others send their messages again
        try:
            effects = self._received(event)
            self._persist([effect for effect in effects if type(effect) is Persist])
        except NoDescriptors as error:
            self._begin_again("no file descriptors", str(error))
            return
        except DiskFull as error:
            self._begin_again("disk full", str(error))
            return
        except NodeStoreError as error:
            self.process.fail(error)
            return
        except Exception:  # a bug: what was not written has not happened
            self._begin_again("fault", traceback.format_exc())
            return
        try:
            for effect in effects:
                self._perform(effect)
            self.store.tidy()
            self.sightings.look(self.node.disk)
        except Exception:  # what was not sent will be sent again
            self._begin_again("fault", traceback.format_exc())

    def _received(self, event: Event) -> list[Effect]:
        effects = self.node.receive(event, time.monotonic())
        if any(type(effect) is TurnRequest for effect in effects):
            # The updates join this transaction, which saves one write. Messages leave a moment
            # later, which is allowed.
            rest = [effect for effect in effects if type(effect) is not TurnRequest]
            effects = rest + self._worked()
        return effects

    def _worked(self) -> list[Effect]:
        """Make updates, but not for so long that heartbeats are late."""
        began = time.monotonic()
        effects = self.node.receive(Turn(), began)
        taken = time.monotonic() - began + self._thought
        self._decision, self._thought = taken / max(1, self.node.made), 0.0
        self.node.burst = max(1, int(self.manifest.terms.heartbeat / 4 / max(self._decision, 1e-6)))
        return effects

    def _think_ahead(self) -> None:
        """Prepare what will be written and sent if the token that was just stored comes into use.

        The node has nothing else to do before its certificate arrives, and then all others wait for
        it. (With a large model there is not enough time for that, and one more copy in memory.)
        """
        if self.out_of_order or self.process.failed or self._decision > _THOUGHT:
            return
        began = time.monotonic()
        with suppress(Exception):  # it will happen again when the token is used, and be reported
            found = self.node.think_ahead()
            if found is not None:
                token, message = found
                self.store.encode_ahead(token, message.token)
                self.process.transport.encode_ahead(message, self.number)
        self._thought = time.monotonic() - began

    def _persist(self, changes: list[Persist]) -> None:
        if changes:
            slots: dict[str, object] = {}
            for change in changes:
                slots |= change.slots
            lines = tuple(line for change in changes for line in change.lines)
            self.store.persist(Persist(slots, lines), tidy=False)
            self.counts["commits"] += 1

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.process.transport.send(*effect, self.number)
        elif isinstance(effect, SetTimer):
            self._set_timer(effect.at)
        elif isinstance(effect, Notice):
            self.counts[effect.what] += 1
            level = "warning" if effect.what in ("fenced", "model refused") else "info"
            self._write(effect.what, level, effect.about)
            if effect.what == "revoked":
                self.process.bar_revoked()
            if effect.what == "size":
                self._grow()
            if effect.what == "fenced":
                asyncio.get_running_loop().create_task(self.process.transport.stop())
        elif isinstance(effect, TurnRequest):
            asyncio.get_running_loop().call_soon(self.event, Turn())

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now, beat = time.monotonic(), self.manifest.terms.heartbeat
        if (
            at - now > beat / 2
        ):  # so that nodes that were started together do not all send heartbeats at the same time
            at += random.uniform(0.0, 0.1 * beat)
        self._due = at
        self._timer = (
            asyncio.get_running_loop().call_at(at, self._time) if at < float("inf") else None
        )

    def _time(self) -> None:
        try:
            self.store.check_there()  # also if there is nothing to write
        except NodeStoreError as error:
            self.process.fail(error)
            return
        late = time.monotonic() - self._due
        if late > max(self.manifest.terms.heartbeat, self.manifest.terms.dead_after / 4):
            # This process itself was stopped, or the machine slept: nobody else is considered dead
            # for that.
            self.log("slept", level="warning", seconds=round(late, 1))
            self.event(Start())
        else:
            self._report_dead_neighbours()
            self._report_stall()
            self.event(Timer())

    @property
    def stalled(self) -> bool:
        """Whether the walk has begun, is not over, and no step was seen here for very long."""
        disk, seen = self.node.disk, self.sightings
        begun = disk.final is None and disk.known.epoch != FIRST
        return begun and seen.silence() > seen.patience(self.manifest.terms.dead_after)

    def _report_stall(self) -> None:
        if self.stalled and not self._told_stall:
            seconds = round(self.sightings.silence(), 1)
            self.log("no step seen", level="warning", seconds=seconds)
        self._told_stall = self.stalled

    def _report_dead_neighbours(self) -> None:
        """Tell the state machine that a neighbour on this machine is gone, if its process has not
        existed for ``dead_after``. Under the policy "wait" the walk waits for a silent guardian,
        because it may only be disconnected. A guardian whose process does not exist is not
        disconnected. When it starts again, it learns of the new epoch before it can act in the old
        one.
        """
        needed, now = needed_nodes(self.node.disk), time.monotonic()
        if self.node.awaited or self.node.fenced:
            return
        for peer in self.file.neighbours:
            silent = now - self.node.heard.get(peer.id, now) > self.manifest.terms.dead_after
            if peer.id in needed and silent and peer.state is not None and is_dead(peer.state):
                self.log("process is dead", level="warning", neighbour=peer.id)
                self.event(Gone(peer.id, for_good=False))

    def _begin_again(self, what: str, message: str) -> None:
        """Continue from what is on the disk after a pause, when there may be room."""
        self.counts[what] += 1
        self.log(what, level="error", message=message)
        self.out_of_order = what
        if self._timer is not None:
            self._timer.cancel()
        self.process.spare.give_up()
        try:
            disk = self.store.load()
            assert disk is not None
            before, self.node = self.node, self._node(disk)
            self.node.go_on_waiting(before)
        except NoDescriptors:
            asyncio.get_running_loop().call_later(_PAUSE, self._begin_again, what, message)
            return
        except Exception as error:
            self.process.fail(NodeStoreError(str(error)))
            return

        def open_again() -> None:
            self.process.spare.take_back()
            self.out_of_order = ""
            self._start()
            self.process.reopened()

        asyncio.get_running_loop().call_later(
            min(_PAUSE, self.manifest.terms.dead_after / 4), open_again
        )

    # Calls by the process

    def hears_of_new_disk(self, node: int, incarnation: bytes) -> bool:
        """Tell the state machine, once, that a neighbour has lost its disk; return whether it
        knows.
        """
        if self._told_lost.get(node) != incarnation:
            self.event(Gone(node))
            if self.out_of_order:
                return False
            self._told_lost[node] = incarnation
        return not self.out_of_order

    def got(self, node: int, message: Message, start: int = 0, commit: int = 0) -> None:
        """A message has arrived."""
        before = self.node.disk.known.epoch
        why = implausible(self.node.disk, self.manifest.nodes, node, message)
        why = why or self.epochs.refuses(self.node.disk, node, message)
        if why is not None:
            self._refuse(node, why)
            return
        self.event(Got(node, message, start, commit))
        if self.node.disk.known.epoch > before:
            self.epochs.count(node)
        if type(message) is Prepare and message.token.model.nbytes <= INLINE:
            asyncio.get_running_loop().call_soon(self._think_ahead)

    def _refuse(self, node: int, why: str) -> None:
        self.counts["refused"] += 1
        self.log("refused", level="warning", sender=node, why=why)

    def certificate_refused(self, node: int, message: Message, why: str) -> None:
        """A message has arrived with a certificate that is not valid.

        A token that depends on it is refused.
        """
        self._refuse(node, why)
        if isinstance(message, Prepare):
            token = message.token
            answer = Refused(token.epoch, token.seq, token.digest(), why[:500])
            self.process.transport.send(node, answer, 0, 0, self.number)

    def _start(self) -> None:
        """Start the state machine; only the first start of a process draws a random number."""
        listed = {peer.id for peer in self.file.neighbours}
        joins = tuple(sorted(listed - set(self.node.disk.edges)))
        self.event(Start(self._draw, joins))
        if not self.out_of_order:
            self._draw = b""

    def begin(self) -> None:
        """Start, and tell the state machine which neighbours the operator has added or removed."""
        self._start()
        for u in set(self.node.disk.edges) - set(self.process.transport.links) - {self.file.id}:
            self.log("no longer a neighbour", neighbour=u)
            guarded = self.node.disk.guarded
            if guarded is None or guarded.holder != u or guarded.register is not None:
                self.event(Gone(u))
            else:  # it may be alive and hold the token, and then finds another guardian by itself
                self.event(Excused(u))
