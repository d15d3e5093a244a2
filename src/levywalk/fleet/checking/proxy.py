"""A network that can be broken: every link between two nodes goes through this proxy.

Each node's file contains a port of this proxy instead of its neighbour's. The proxy forwards the
bytes late, slowly, or not at all: then it does not read, so that both ends find the other one
silent. Or it resets the connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from levywalk.fleet.setup.node_file import NodeFile, host_port

Way = tuple[int, int]
_PIECE = 1 << 16  # bytes that are forwarded at once
_SLOW = 300.0  # seconds after which the thread hangs, however busy the machine is
_T = TypeVar("_T")


class Proxy:
    """A proxy in its own thread, for all links of one fleet.

    Attributes
    ----------
    passed
        Bytes from one node to another so far.

    Examples
    --------
    >>> proxy = Proxy()
    >>> 0 < proxy.route(0, 1, "127.0.0.1", 7401) < 65536
    True
    >>> proxy.rate(0, 1, 1e6), proxy.cut(0, 1), proxy.heal(0, 1), proxy.close()
    (None, None, None, None)
    """

    name = "proxy"
    kinds: tuple[str, ...] = (
        *("cut link", "cut node", "one way", "flapping", "halves"),
        *("delay", "reset"),
    )

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._gates: dict[Way, asyncio.Event] = {}
        self._late: dict[int, float] = {}
        self._rates: dict[Way, float] = {}
        self.passed: Counter[Way] = Counter()
        self._open: dict[Way, set[asyncio.WriteTransport]] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def settle(self, files: list[Path]) -> None:
        """Put the proxy between the nodes of these node files.

        The node with the lower id connects.
        """
        nodes = {path: NodeFile.read(path) for path in files}
        for path, node in nodes.items():
            peers = []
            for peer in node.neighbours:
                if node.id < peer.id:
                    host, port = host_port(peer.address) or ("", 0)
                    peer = replace(
                        peer, address=f"127.0.0.1:{self.route(node.id, peer.id, host, port)}"
                    )
                peers.append(peer)
            replace(node, neighbours=tuple(peers)).write(path)

    def command(self, v: int, command: list[str]) -> list[str]:
        """Return the command unchanged."""
        return command

    def route(self, dialler: int, other: int, host: str, port: int) -> int:
        """Open a port for the connecting node, and forward to the other node's address; return the
        port.
        """
        return self._do(self._route(dialler, other, host, port))

    def cut(self, a: int, b: int) -> None:
        """Forward nothing from a to b."""
        self._do(self._set(a, b, passes=False))

    def heal(self, a: int, b: int) -> None:
        """Forward everything again."""
        self._do(self._set(a, b, passes=True))

    def delay(self, v: int, seconds: float) -> None:
        """Delay everything that a node sends; 0 ends it."""
        self._late[v] = seconds

    def rate(self, a: int, b: int, most: float) -> None:
        """Forward at most this many bytes per second from a to b, on each connection; infinity ends
        it.
        """
        self._rates[a, b] = most

    def reset(self, a: int, b: int) -> None:
        """Break the connections between two nodes. They may connect again at once."""
        self._do(self._reset(a, b))

    def close(self) -> None:
        """Close everything."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SLOW)

    async def _route(self, dialler: int, other: int, host: str, port: int) -> int:
        for way in ((dialler, other), (other, dialler)):
            self._gates[way] = asyncio.Event()
            self._gates[way].set()

        async def dialled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._join(dialler, other, host, port, reader, writer)
            except asyncio.CancelledError:
                pass  # closing
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(dialled, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _join(
        self,
        a: int,
        b: int,
        host: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        ends = [writer.transport]
        self._open.setdefault((a, b), set()).add(writer.transport)
        try:
            await self._gates[a, b].wait()
            await self._gates[b, a].wait()
            with contextlib.suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(host, port)
                ends.append(far_writer.transport)
                self._open[a, b].add(far_writer.transport)
                pumps = [
                    asyncio.create_task(self._pump((a, b), reader, far_writer)),
                    asyncio.create_task(self._pump((b, a), far_reader, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
        finally:
            for end in ends:
                self._open[a, b].discard(end)
                end.abort()

    async def _pump(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                if late := self._late.get(way[0]):
                    await asyncio.sleep(late)
                await self._gates[way].wait()
                writer.write(data)
                await writer.drain()
                self.passed[way] += len(data)
                await asyncio.sleep(len(data) / self._rates.get(way, float("inf")))

    async def _set(self, a: int, b: int, *, passes: bool) -> None:
        gate = self._gates.get((a, b))
        if gate is not None:
            (gate.set if passes else gate.clear)()

    async def _reset(self, a: int, b: int) -> None:
        for way in ((a, b), (b, a)):
            for end in list(self._open.get(way, ())):
                end.abort()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
