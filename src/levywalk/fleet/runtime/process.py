"""A node as a process of its own: ``levywalk node node.toml``.

It reads its node file, the manifest, its keys and its data, and locks its state folder. Then it
runs the state machine (`protocol.node.Node`): one event at a time, one transaction per event, and
only then are messages sent.

Everything happens in one thread. Time is monotonic: if the machine's clock is set, only the
validity of certificates is affected.

It is one class of short methods, because all of them share the state machine, the store and the
timer; what answers questions, carries messages and keeps files is elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from levywalk.draws import Domain, Key
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.identity.certificates import date_text, fingerprint
from levywalk.fleet.identity.errors import ExpiryWarning
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.events import (
    Again,
    Effect,
    Event,
    Excused,
    Gone,
    Got,
    Joins,
    Notice,
    Persist,
    Reached,
    Send,
    SetTimer,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.messages import (
    Message,
    Prepare,
    Refused,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.protocol.records import Disk, Edge, Known, Own
from levywalk.fleet.protocol.token import FIRST
from levywalk.fleet.runtime import control, metrics
from levywalk.fleet.runtime.few_connections import SpareDescriptors
from levywalk.fleet.runtime.incarnation import Incarnation
from levywalk.fleet.runtime.launch import ENVIRONMENT, command
from levywalk.fleet.runtime.log_writer import LogWriter
from levywalk.fleet.runtime.node_status import is_dead, needed_nodes
from levywalk.fleet.runtime.operator_port import OperatorPort
from levywalk.fleet.runtime.orders import Orders
from levywalk.fleet.runtime.own_data import own_part, scores
from levywalk.fleet.runtime.peer_files import PeerFiles
from levywalk.fleet.runtime.plausible import EpochBudget, implausible
from levywalk.fleet.runtime.sightings import Sightings
from levywalk.fleet.runtime.spending import system_noise
from levywalk.fleet.runtime.transport import Transport
from levywalk.fleet.runtime.wire import Hello
from levywalk.fleet.setup.budget_file import first_spending, use_up
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.size_file import SIZE_FILE, read_size, sized, write_size
from levywalk.fleet.storage.errors import DiskFull, NoDescriptors, NodeStoreError
from levywalk.fleet.storage.store import NodeStore, whole
from levywalk.printable import printable
from levywalk.version import __version__

_KEPT = 2000  # lines of the log that operators elsewhere can see
_PAUSE = 5.0  # seconds until a node whose disk was full tries again


class Process:
    """One node: connects its state machine to the disk, the network, the clock and the operator."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()
        self.file = file = NodeFile.read(path)
        self.log_writer = LogWriter(file.id, keep=0 if file.operator is None else _KEPT)
        self.manifest = manifest = Manifest.read(file.manifest)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ExpiryWarning)
            self.identity = Identity.load(file.key, file.certificate, file.authority, node=file.id)
        for warning in caught:
            self.log("expires soon", level="warning", message=str(warning.message))
        if not 0 <= file.id < manifest.nodes:
            raise InvalidParameter(
                f"{path}: id must be below {manifest.nodes}, the number of the fleet's nodes, got "
                f"{file.id}; a node that has joined needs the size.json of its folder"
            )
        self.problem, self.metrics = own_part(manifest, file)
        if manifest.published.privacy is not None:
            self.metrics = None  # they are functions of the data
        self._founded = Manifest.parse(manifest.text)  # before any node has joined
        self._degree = len(file.neighbours) + (manifest.self_loops == "counted")
        self.scores = scores(self._founded, self.problem, self._degree, file.score)
        self.store = NodeStore(file.state, manifest.digest, limits=manifest.limits)
        self.incarnation = Incarnation.of(file.state)
        self.peer_files = PeerFiles(file.state, self._not_kept)
        disk = self.store.load()
        if disk is None:
            disk = self._blank()
            self.store.persist(whole(disk))
        use_up(self._path.parent)
        told = read_size(file.manifest.parent, self._founded)
        if told is not None and (disk.size is None or disk.size < told):
            disk.size = told
            self.store.persist(Persist({"size": told}, ()))
        self.manifest = sized(self._founded, disk.size)
        self.node = self._node(disk)
        self._draw = secrets.token_bytes(16)  # of this start, until it is on the disk
        self.began = time.time()
        self.counts: Counter[str] = Counter()
        measured = self.problem if manifest.published.privacy is None else None
        self.sightings = Sightings(disk, measured, self.metrics)
        self.orders = Orders(self)
        self.door = None if file.operator is None else OperatorPort(self, file.operator)
        self.hellos: dict[int, Hello] = {}  # the last hello of each neighbour
        self.out_of_order = self.failed = ""
        self._told_stall = False
        self.spare = SpareDescriptors()
        self.epochs = EpochBudget(manifest.terms.dead_after)
        self.over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self.transport = Transport(
            self.identity,
            file.listen,
            file.neighbours,
            manifest.limits,
            manifest.digest,
            self.incarnation.incarnation,
            self,
            known=self.peer_files.certificates(),
            learned=self._keep_certificate,
        )
        self.transport.bar(disk.revoked.nodes)

    def _key(self) -> Key:
        shared = self.manifest.shared_key
        return (
            Key.of(self.incarnation.entropy, Domain.FLEET)
            if shared is None
            else Key.of(shared, Domain.WALK)
        )

    def _blank(self) -> Disk:
        """Return the disk of a new node: it knows its neighbours' ids, and uses an edge once both
        ends have agreed on it.
        """
        ids = [peer.id for peer in self.file.neighbours]
        edges = {u: Edge(0, False, 1, self.scores, joined=True) for u in ids}
        if self.manifest.self_loops == "counted":
            ids.append(self.file.id)
            edges[self.file.id] = Edge(0, True, len(ids), self.scores, joined=True)
        spent = first_spending(self._path.parent, self.manifest)
        private = self.manifest.published.privacy
        if spent is not None and private is not None:
            level = "warning" if spent.releases == private.cap else "info"
            self.log("budget begins", level=level, spent=spent.releases, cap=private.cap)
        return Disk(Known(FIRST, 0), Own(len(ids), 0, leaving=False), edges, spent=spent)

    def _node(self, disk: Disk) -> Node:
        site = NodeSite(
            self._founded.published,
            self.file.id,
            self.problem,
            0,
            self.scores,
            self._key(),
            self.metrics,
            system_noise(self.manifest),
            self._rescored,
        )
        signer = self.identity.signer(self.manifest.operator)
        return Node(site, self.manifest.terms, disk, signer)

    def _rescored(self, mean: float) -> tuple[float, ...]:
        """Return the node's scores for another L̄."""
        grown = replace(self._founded, mean_smoothness=mean)
        return scores(grown, self.problem, self._degree, self.file.score)

    def _grow(self) -> None:
        """Use the new size of the fleet wherever nodes are counted, and keep it in a file for the
        operator's commands.
        """
        size = self.node.disk.size
        assert size is not None
        self.manifest = sized(self._founded, size)
        try:
            write_size(self.file.manifest.parent, size)
        except OSError as error:  # it is on the disk of the state machine, which counts
            self._not_kept(self.file.manifest.parent / SIZE_FILE, str(error.strerror))

    def take_keys(self) -> bool:
        """Use the keys and the certificate that the node file names now, without a stop; return
        whether they are others than before.
        """
        file = NodeFile.read(self._path)
        identity = Identity.load(file.key, file.certificate, file.authority, node=self.file.id)
        if fingerprint(identity.certificate) == fingerprint(self.identity.certificate):
            return False
        self.identity.adopt(identity)
        self.file = replace(
            self.file, key=file.key, certificate=file.certificate, authority=file.authority
        )
        self.node.signer = self.identity.signer(self.manifest.operator)
        self.transport.renew_identity()
        self.log(
            "new keys",
            rotation=self.identity.rotation,
            expires=date_text(self.identity.certificate.not_valid_after_utc),
        )
        return True

    def _keep_certificate(self, node: int, der: bytes) -> None:
        if not self.out_of_order:
            self.peer_files.keep_certificate(node, der)

    def _not_kept(self, path: Path, why: str) -> None:
        self.log("not kept", level="warning", path=str(path), message=why)

    # Events and effects

    def event(self, event: Event) -> None:
        """Pass an event to the state machine: one transaction, then everything that
        depends on it.
        """
        if self.out_of_order or self.failed:
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
            self._fail(error)
            return
        except Exception:  # a bug: what was not written has not happened
            self._begin_again("fault", traceback.format_exc())
            return
        try:
            for effect in effects:
                self._perform(effect)
            self.sightings.look(self.node.disk)
        except Exception:  # what was not sent will be sent again
            self._begin_again("fault", traceback.format_exc())

    def _received(self, event: Event) -> list[Effect]:
        effects = self.node.receive(event, time.monotonic())
        if any(type(effect) is Again for effect in effects):
            # The updates join this transaction, which saves one write. Messages leave a moment
            # later, which is allowed.
            rest = [effect for effect in effects if type(effect) is not Again]
            effects = rest + self._worked()
        return effects

    def _worked(self) -> list[Effect]:
        """Make updates, but not for so long that heartbeats are late."""
        began = time.monotonic()
        effects = self.node.receive(Turn(), began)
        taken = (time.monotonic() - began) / max(1, self.node.made)
        self.node.burst = max(1, int(self.manifest.terms.heartbeat / 4 / max(taken, 1e-6)))
        return effects

    def _persist(self, changes: list[Persist]) -> None:
        if changes:
            slots: dict[str, object] = {}
            for change in changes:
                slots |= change.slots
            self.store.persist(
                Persist(slots, tuple(line for change in changes for line in change.lines))
            )
            self.counts["commits"] += 1

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.transport.send(*effect)
        elif isinstance(effect, SetTimer):
            self._set_timer(effect.at)
        elif isinstance(effect, Notice):
            self.counts[effect.what] += 1
            level = "warning" if effect.what == "fenced" else "info"
            self.log_writer.write(effect.what, level, effect.about)
            if effect.what == "revoked":
                self.transport.bar(self.node.disk.revoked.nodes)
                # a moment later, so that the node itself learns why
                asyncio.get_running_loop().call_later(1.0, self.transport.drop_barred)
            if effect.what == "size":
                self._grow()
            if effect.what == "fenced":
                asyncio.get_running_loop().create_task(self.transport.stop())
        elif isinstance(effect, Again):
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
            self._fail(error)
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

    def _fail(self, error: NodeStoreError) -> None:
        """End the process: its memory and its disk differ, so it must not send anything."""
        self.failed = str(error)
        self.over.set()

    def _begin_again(self, what: str, message: str) -> None:
        """Continue from what is on the disk after a pause, when there may be room."""
        self.counts[what] += 1
        self.log(what, level="error", message=message)
        self.out_of_order = what
        if self._timer is not None:
            self._timer.cancel()
        self.spare.give_up()
        try:
            disk = self.store.load()
            assert disk is not None
            before, self.node = self.node, self._node(disk)
            self.node.go_on_waiting(before)
        except NoDescriptors:
            asyncio.get_running_loop().call_later(_PAUSE, self._begin_again, what, message)
            return
        except Exception as error:
            self._fail(NodeStoreError(str(error)))
            return

        def again() -> None:
            self.spare.take_back()
            self.out_of_order = ""
            self._start()
            for u, link in self.transport.links.items():
                if link.open:
                    self.opened(u, self.hellos[u])

        asyncio.get_running_loop().call_later(
            min(_PAUSE, self.manifest.terms.dead_after / 4), again
        )

    # Calls by the transport

    def opened(self, node: int, hello: Hello) -> None:
        """A neighbour is connected.

        If it has a new disk, it has forgotten everything, and counts as another node that replaces
        the one that is gone.
        """
        self.hellos[node] = hello
        before = self.peer_files.incarnation(node)
        if before is not None and before != hello.incarnation:
            self.log("lost its disk", level="warning", neighbour=node)
            self.event(Gone(node))
        if self.out_of_order:
            return  # this is called again later
        if before != hello.incarnation:
            self.peer_files.keep_incarnation(node, hello.incarnation)
        self.event(Reached(node))

    def closed(self, node: int, why: str) -> None:
        """A connection was closed."""
        self.log("link closed", neighbour=node, why=why)

    def got(self, node: int, message: Message, start: int = 0, commit: int = 0) -> None:
        """A message has arrived."""
        before = self.node.disk.known.epoch
        why = implausible(self.node.disk, self.manifest.nodes, node, message)
        why = why or self.epochs.refuses(self.node.disk, node, message)
        if why is not None:
            self.counts["refused"] += 1
            self.log("refused", level="warning", sender=node, why=why)
            return
        self.event(Got(node, message, start, commit))
        if self.node.disk.known.epoch > before:
            self.epochs.count(node)

    def part_received(self, node: int) -> None:
        """A part of a large message has arrived, so its sender is alive."""
        self.node.part_received(node, time.monotonic())

    def certificate_refused(self, node: int, message: Message, why: str) -> None:
        """A message has arrived with a certificate that is not valid.

        A token that depends on it is refused.
        """
        self.counts["refused"] += 1
        self.log("refused", level="warning", sender=node, why=why)
        if isinstance(message, Prepare):
            token = message.token
            self.transport.send(node, Refused(token.epoch, token.seq, token.digest(), why[:500]))

    def log(self, what: str, level: str = "info", **about: object) -> None:
        """Write a log line for people and programs."""
        self.log_writer.write(what, level, about)

    # Running

    def _trouble(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        """Report an error in a task of the loop, in the log with its limits and not beside it."""
        error = about.get("exception")
        self.log("trouble", level="warning", message=f"{about.get('message')}: {error!r}")

    def _start(self) -> None:
        """Start the state machine; only the first start of a process draws a random number."""
        self.event(Start(self._draw))
        if not self.out_of_order:
            self._draw = b""

    def _begin(self) -> None:
        """Start, and tell the state machine which neighbours the operator has added or removed."""
        for u in {peer.id for peer in self.file.neighbours} - set(self.node.disk.edges):
            self.event(Joins(u))
        self._start()
        for u in set(self.node.disk.edges) - set(self.transport.links) - {self.file.id}:
            self.log("no longer a neighbour", neighbour=u)
            guarded = self.node.disk.guarded
            if guarded is None or guarded.holder != u or guarded.register is not None:
                self.event(Gone(u))
            else:  # it may be alive and hold the token, and then finds another guardian by itself
                self.event(Excused(u))

    async def live(self) -> None:
        """Run the node until it is told to stop."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._trouble)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.over.set)
        self._begin()  # before anything can arrive: an old disk must not be acted on yet
        if not self.node.fenced:
            await self.transport.start()
        if self.door is not None:
            await self.door.start()
        shown = None if self.file.metrics is None else metrics.serve(self.file.metrics, self)
        orders = control.serve(
            self.file.state,
            self.orders.answer,
            lambda why: self.log("orders wait", level="warning", why=why),
        )
        self.log(
            "started",
            version=__version__,
            listen=self.file.listen,
            degree=self.node.disk.own.degree,
        )
        await self.over.wait()
        orders.close()
        if shown is not None:
            shown.close()
        if self.door is not None:
            await self.door.stop()
        await self.transport.stop()
        self.store.close()
        self.log("stopped")
        if self.failed:
            raise NodeStoreError(self.failed)


def main(arguments: list[str] | None = None) -> int:
    """Run the node of a node file; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        print("usage: python -m levywalk.fleet.runtime.process NODE.toml", file=sys.stderr)  # noqa: T201
        return 2
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [*command(given[0])], os.environ | ENVIRONMENT)
    try:

        async def run() -> None:
            await Process(given[0]).live()

        asyncio.new_event_loop().run_until_complete(
            run()
        )  # the process ends afterwards, so nothing needs to be cancelled
    except (LevywalkError, NodeStoreError) as error:
        line = json.dumps({"level": "error", "event": "cannot run", "message": str(error)})
        print(line, flush=True)  # noqa: T201
        print(f"Error: {printable(str(error), lines=True)}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)  # otherwise gRPC's threads may keep the process alive
