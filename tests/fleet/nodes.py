"""Real nodes for tests: a small fleet's folder, a node as a process, and a neighbour that says
whatever it likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import grpc
from cryptography.hazmat.primitives.serialization import Encoding

import levywalk as lw
from levywalk.fleet.identity.certificates import server_name
from levywalk.fleet.identity.node_identity import Identity, Tls
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.messages import Message, Prepare, Refused
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.launch import ENVIRONMENT, command
from levywalk.fleet.runtime.plausible import PLAUSIBLE
from levywalk.fleet.runtime.transport import METHOD, SERVICE
from levywalk.fleet.runtime.wire import (
    FORMAT,
    Hello,
    Reader,
    chunk_frames,
    encode_frame,
    hello_frame,
)
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.places import free_ports as ports_of_a_host
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.fleet.storage.codec import encode
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.store import NodeStore, whole
from tests.limits import PATIENCE, eventually

FAR = Epoch(PLAUSIBLE // 2, 0, 0)  # an epoch above all that a test brings about, but not too far


def make(
    folder: Path,
    nodes: int = 4,
    *,
    dim: int = 4,
    steps: int = 50,
    terms: HandOffTerms | None = None,
    metrics: bool = False,
) -> Path:
    """Found a small fleet on a ring: the neighbours of its last node are 0 and the one
    before it.
    """
    problem = lw.heterogeneous(nodes, dim=dim, seed=1, important=1)
    return create(
        folder,
        lw.ring(nodes),
        problem,
        lw.mhlj(),
        steps=steps,
        step_size="theory",
        name="test",
        seed=3,
        start=0,
        metrics=metrics,
        terms=HandOffTerms(run=b"", dead_after=PATIENCE)
        if terms is None
        else terms,  # nobody dies of a slow machine
    )


class Running:
    """A node's process."""

    def __init__(self, folder: Path, code: str | None = None) -> None:
        """Start it, or some code that does."""
        self.folder = folder
        self.file = NodeFile.read(folder / "node.toml")
        self.manifest = Manifest.read(self.file.manifest)
        what = command(folder / "node.toml")
        if code is not None:
            what = [what[0], "-c", code, what[-1]]
        with (folder / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                what, env=os.environ | ENVIRONMENT, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        eventually(self._up)
        return self

    def _up(self) -> bool:
        assert self.process.poll() is None, (self.folder / "node.log").read_text()
        with contextlib.suppress(control.NoAnswer):
            return bool(self.status())
        return False

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the process; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def ask(self, do: str, **about: Any) -> dict[str, Any]:
        return control.ask(self.file.state, do, timeout=PATIENCE, **about)

    def status(self) -> dict[str, Any]:
        return self.ask("status")

    def log(self) -> list[dict[str, Any]]:
        """Return what it has said; whatever is not of its own making would not be JSON."""
        return logged(self.folder)

    def state(self) -> dict[str, object]:
        """Return what is on its disk, in a form that can be compared."""
        with StoreReader(
            self.file.state, self.manifest.digest, limits=self.manifest.limits
        ) as reading:
            disk = reading.load()
            assert disk is not None
            held = {
                slot: None if value is None else encode(value)
                for slot, value in whole(disk).slots.items()
            }
            return held | {"lines": len(reading)}

    def dial(self, neighbour: int, **changes: Any) -> Caller:
        """Return a stream to this node, as one of its neighbours that keeps to the rules so far."""
        return Caller(self, self.folder.parent / f"node-{neighbour}", neighbour, **changes)


def tls_of(folder: Path) -> Tls:
    return Tls(*((folder / name).read_bytes() for name in ("node.key", "node.crt", "ca.crt")))


class Caller:
    """Somebody with keys and certificates, who may say anything."""

    def __init__(
        self,
        to: Running,
        folder: Path,
        node: int,
        *,
        tls: Tls | None = None,
        metadata: Any = None,
        meant: int | None = None,
    ) -> None:
        self.to, self.node, self.identity = to, node, Identity.open(folder)
        key, certificate, authority = tls_of(folder) if tls is None else tls
        options = [
            ("grpc.ssl_target_name_override", server_name(to.file.id)),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_retries", 0),
        ]
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        self.channel = grpc.secure_channel(to.file.listen, credentials, options)
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        talk = self.channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self.call = talk(iter(self._out.get, None), timeout=PATIENCE, metadata=metadata)
        self.reader = Reader(to.manifest.limits, to.file.id)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._out.put(None)
        self.call.cancel()
        self.channel.close()

    def hello(self, **changes: Any) -> bytes:
        own = self.identity.certificate.public_bytes(Encoding.DER)
        right = Hello(
            FORMAT, self.to.manifest.digest, bytes(15) + bytes([self.node]), "hostile", own
        )
        return hello_frame(self.node, right._replace(**changes))

    def write(self, *frames: bytes) -> None:
        for frame in frames:
            self._out.put(frame)

    def say(self, *messages: Message, certificate: bytes = b"") -> None:
        for message in messages:
            frame, tensors = encode_frame(self.node, message, certificate)
            self.write(frame, *(chunk for tensor in tensors for chunk in chunk_frames(tensor)))

    def heard(self) -> Iterator[Hello | Message]:
        """Yield what the node says."""
        for data in self.call:
            found = self.reader.take(data)
            if found is not None:
                yield found if isinstance(found, Hello) else found[0]

    def hears(self, *kinds: type) -> Any:
        """Return the next message of that kind."""
        return next(message for message in self.heard() if isinstance(message, kinds))

    def greet(self) -> Self:
        """Say hello, and hear it."""
        self.write(self.hello())
        assert isinstance(self.hears(Hello), Hello)
        return self

    def sync(self) -> None:
        """Return when the node has taken in all that was said: it answers a token that cannot be,
        in its turn.

        The answer is known by its epoch, which no other message of a test has: a message that was
        said before may have been refused with the same seq.
        """
        self._asked += 1
        bad = self.to.manifest.first_token._replace(epoch=FAR, seq=self._asked, phase=99)
        self.say(Prepare(bad, self.node))
        while True:
            refused = self.hears(Refused)
            if (refused.epoch, refused.seq) == (FAR, self._asked):
                return

    def refused(self) -> grpc.RpcError:
        """Return how the node ends the stream."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return error
        raise AssertionError("the stream was ended without a word")


def logged(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a node's log; the node may be writing the last one just now."""
    whole, _, _ = (folder / "node.log").read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens to, below those that the system gives to clients.

    A port of that range might be given to a client of another test before a node listens to it.
    """
    return ports_of_a_host("127.0.0.1", count)


def stored(folder: Path, virtual: VirtualFleet) -> FleetFolder:
    """Write the disks of a virtual fleet to the folder that it was read from, as if real nodes had
    made its walk and had been stopped.
    """
    fleet = FleetFolder.open(folder).token(virtual.fleet.token_number)
    for v, machine in enumerate(virtual.machines):
        with NodeStore(
            fleet.files[v].state, fleet.manifest.digest, limits=fleet.manifest.limits
        ) as store:
            first = whole(Disk(**machine.disk))
            store.persist(first._replace(lines=tuple(machine.log)))
    (folder / "begun").touch()
    return fleet


@contextlib.contextmanager
def up(fleet: FleetFolder) -> Iterator[FleetFolder]:
    """Let the nodes of a fleet run, and stop them at the end."""
    fleet.up(PATIENCE)
    try:
        yield fleet
    finally:
        fleet.stop(PATIENCE, force=True)
