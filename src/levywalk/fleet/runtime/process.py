"""A node as a process of its own: ``levywalk node node.toml``.

It reads its node file, the manifest, its keys and its data, and locks its state folder. Then it
runs the state machine of each token (`token_runner.TokenRunner`): one event at a time, one
transaction per event, and only then are messages sent. Tokens share the process, the keys, the data
and the streams to neighbours; a message says which token it is about.

Everything happens in one thread. Time is monotonic: if the machine's clock is set, only the
validity of certificates is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.identity.certificates import date_text, fingerprint
from levywalk.fleet.identity.errors import ExpiryWarning
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.events import Reached
from levywalk.fleet.protocol.messages import Message
from levywalk.fleet.runtime import control, metrics
from levywalk.fleet.runtime.few_connections import FewConnections, SpareDescriptors
from levywalk.fleet.runtime.incarnation import Incarnation
from levywalk.fleet.runtime.launch import ENVIRONMENT, RUNS_ALREADY, command
from levywalk.fleet.runtime.log_writer import LogWriter
from levywalk.fleet.runtime.operator_port import OperatorPort
from levywalk.fleet.runtime.own_data import own_part, scores
from levywalk.fleet.runtime.peer_files import PeerFiles
from levywalk.fleet.runtime.token_runner import TokenRunner
from levywalk.fleet.runtime.transport import Transport
from levywalk.fleet.runtime.wire import Hello
from levywalk.fleet.setup.budget_file import use_up
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.update_check_terms import check_own_samples
from levywalk.fleet.storage.errors import NodeStoreError, StoreInUse
from levywalk.printable import printable
from levywalk.version import __version__

_KEPT = 2000  # lines of the log that operators elsewhere can see


class Process:
    """One node: what its tokens share, and the transport and the operator, who ask for them."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()
        self.folder = self._path.parent
        self.file = file = NodeFile.read(path)
        kept = 0 if file.operator is None else _KEPT
        self.log_writer = LogWriter(file.id, kept, [peer.id for peer in file.neighbours])
        manifest = Manifest.read(file.manifest)
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
        check_own_samples(manifest.published, self.problem)
        if manifest.published.privacy is not None:
            self.metrics = None  # they are functions of the data
        self.founded = Manifest.parse(manifest.text)  # before any node has joined
        self.degree = len(file.neighbours) + (manifest.self_loops == "counted")
        self.scores = scores(self.founded, self.problem, self.degree, file.score)
        self.began = time.time()
        self.hellos: dict[int, Hello] = {}  # the last hello of each neighbour
        self.failed = ""
        self.spare = SpareDescriptors()
        self.over = asyncio.Event()
        self.runners = [TokenRunner(self, number) for number in range(manifest.tokens)]
        self.incarnation = Incarnation.of(file.state)
        self.peer_files = PeerFiles(file.state, self.not_kept)
        self._load_disks()
        self.operator_port = None if file.operator is None else OperatorPort(self, file.operator)
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
            tokens=manifest.tokens,
        )
        self.transport.bar(self._revoked())

    @property
    def manifest(self) -> Manifest:
        """The manifest, with the present size of the fleet."""
        return self.runners[0].manifest

    def _load_disks(self) -> None:
        """Read the disks of all tokens; at the first start, write them, that of the first token
        last. So if there is one of the first token, there was one of each.
        """
        disks = {runner.number: runner.store.load() for runner in self.runners}
        lost = [runner for runner in self.runners if disks[runner.number] is None]
        if lost and disks[0] is not None:
            for runner in self.runners:
                runner.store.close()
            raise InvalidParameter(
                f"{lost[0].file.state} has no disk of token {lost[0].number}, but the node has "
                "run before: put the folder back from where it is now; if it is lost, move all of "
                f"{self.file.state} away, and the node starts as a new one, as after a lost disk"
            )
        for runner in reversed(lost):
            disks[runner.number] = runner.write_blank()
        use_up(self.folder)
        for runner in self.runners:
            disk = disks[runner.number]
            assert disk is not None
            runner.load(disk)

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
        for runner in self.runners:
            runner.node.signer = self.identity.signer(self.manifest.operator)
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

    def not_kept(self, path: Path, why: str) -> None:
        """Report a file that could not be written, and that the walk does not depend on."""
        self.log("not kept", level="warning", path=str(path), message=why)

    def _revoked(self) -> set[int]:
        return {v for runner in self.runners for v in runner.node.disk.revoked.nodes}

    def bar_revoked(self) -> None:
        """Have nothing to do any more with nodes that the operator has revoked."""
        self.transport.bar(self._revoked())
        # a moment later, so that the node itself learns why
        asyncio.get_running_loop().call_later(1.0, self.transport.drop_barred)

    def fail(self, error: NodeStoreError) -> None:
        """End the process: its memory and its disk differ, so it must not send anything."""
        self.failed = str(error)
        self.over.set()

    @property
    def out_of_order(self) -> str:
        """Why the node waits after an error; empty if it does not."""
        return next((one.out_of_order for one in self.runners if one.out_of_order), "")

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
            for runner in self.runners:
                runner.hears_of_new_disk(node, hello.incarnation)
        if before != hello.incarnation and not self.out_of_order:  # else this is called again
            self.peer_files.keep_incarnation(node, hello.incarnation)
        for runner in self.runners:
            runner.event(Reached(node))

    def reopened(self) -> None:
        """Tell the tokens which neighbours are connected, after one of them was out of order."""
        for u, link in self.transport.links.items():
            if link.open:
                self.opened(u, self.hellos[u])

    def closed(self, node: int, why: str) -> None:
        """A connection was closed."""
        self.log("link closed", neighbour=node, why=why)

    def got(
        self, node: int, message: Message, start: int = 0, commit: int = 0, token: int = 0
    ) -> None:
        """A message about a token has arrived."""
        self.runners[token].got(node, message, start, commit)

    def part_received(self, node: int) -> None:
        """A part of a large message has arrived, so its sender is alive."""
        for runner in self.runners:
            runner.node.part_received(node, time.monotonic())

    def certificate_refused(self, node: int, message: Message, why: str, token: int = 0) -> None:
        """A message about a token has arrived with a certificate that is not valid."""
        self.runners[token].certificate_refused(node, message, why)

    def log(self, what: str, level: str = "info", **about: object) -> None:
        """Write a log line for people and programs."""
        self.log_writer.write(what, level, about)

    # Running

    def _trouble(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        """Report an error in a task of the loop, in the log with its limits and not beside it."""
        error = about.get("exception")
        self.log("trouble", level="warning", message=f"{about.get('message')}: {error!r}")

    def _take_orders(self, runner: TokenRunner) -> FewConnections:
        """Answer the operator, at the socket in the folder of a token."""
        return control.serve(
            runner.file.state,
            runner.orders.answer,
            lambda why: runner.log("orders wait", level="warning", why=why),
        )

    async def live(self) -> None:
        """Run the node until it is told to stop."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._trouble)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.over.set)
        for runner in self.runners:
            runner.begin()  # before anything can arrive: an old disk must not be acted on yet
        if not any(runner.node.fenced for runner in self.runners):
            await self.transport.start()
        if self.operator_port is not None:
            await self.operator_port.start()
        shown = None if self.file.metrics is None else metrics.serve(self.file.metrics, self)
        orders = [self._take_orders(runner) for runner in self.runners]
        self.log(
            "started",
            version=__version__,
            listen=self.file.listen,
            degree=self.runners[0].node.disk.own.degree,
        )
        await self.over.wait()
        for one in orders:
            one.close()
        if shown is not None:
            shown.close()
        if self.operator_port is not None:
            await self.operator_port.stop()
        await self.transport.stop()
        for runner in reversed(self.runners):  # the first lock tells others that the node runs
            runner.store.close()
        self.log("stopped")
        if self.failed:
            raise NodeStoreError(self.failed)


def main(arguments: list[str] | None = None) -> int:
    """Run the node of a node file; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        usage = "usage: python -m levywalk.fleet.runtime.process NODE.toml"
        print(usage, file=sys.stderr)  # noqa: T201
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
        twice = isinstance(error, StoreInUse)  # two commands have started the node at once
        level = "warning" if twice else "error"
        line = json.dumps({"level": level, "event": "cannot run", "message": str(error)})
        print(line, flush=True)  # noqa: T201
        print(f"Error: {printable(str(error), lines=True)}", file=sys.stderr)  # noqa: T201
        return RUNS_ALREADY if twice else 1
    return 0


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)  # otherwise gRPC's threads may keep the process alive
