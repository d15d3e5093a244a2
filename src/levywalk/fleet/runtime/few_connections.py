"""A small server that anybody on the machine may connect to: it keeps few connections, and never
uses up the node's file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Report = Callable[[str], None]

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0  # seconds to wait when there is no file descriptor left
_SPARE = 16  # file descriptors that are kept for the node's own files


def is_scarce(error: OSError) -> bool:
    """Return whether an error says that file descriptors or memory are used up: wait, and try
    again.

    Examples
    --------
    >>> is_scarce(OSError(errno.EMFILE, "Too many open files"))
    True
    """
    return error.errno in _SCARCE


class FewConnections:
    """Accepts connections on a listening socket, and keeps at most ``most`` of them.

    A new connection closes the oldest one: a client that sends its request at once is answered,
    however many silent connections others have opened.

    Parameters
    ----------
    listening
        A socket that listens.
    handle
        Answers one connection, which is closed afterwards.
    most
        How many connections are kept.
    limit
        How many bytes of a connection are read ahead.
    report
        Called when connections cannot be accepted.
    """

    def __init__(
        self, listening: socket.socket, handle: Handle, *, most: int, limit: int, report: Report
    ) -> None:
        listening.setblocking(False)
        self._listening, self._handle, self._report = listening, handle, report
        self.most, self._limit = most, limit
        self._open: dict[asyncio.Task[None], None] = {}  # in the order in which they were accepted
        self._task = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Close the listening socket and all connections."""
        self._task.cancel()
        for task in self._open:
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                if is_scarce(error):
                    self._report(f"{error.strerror}: connections wait")
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._open) >= self.most:
                oldest = next(iter(self._open))
                oldest.cancel()
                del self._open[oldest]
            task = asyncio.create_task(self._serve(line))
            self._open[task] = None
            task.add_done_callback(lambda done: self._open.pop(done, None))

    async def _serve(self, line: socket.socket) -> None:
        with line:
            reader, writer = await asyncio.open_connection(sock=line, limit=self._limit)
            try:
                with contextlib.suppress(
                    OSError,
                    ValueError,
                    TimeoutError,
                    asyncio.LimitOverrunError,
                    asyncio.IncompleteReadError,
                ):
                    await self._handle(reader, writer)
                    await writer.drain()
            finally:
                writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class SpareDescriptors:
    """File descriptors that are kept open, so that the node has some for its own files when others
    have used up the rest.

    Examples
    --------
    >>> spare = SpareDescriptors()
    >>> spare.give_up()
    >>> spare.take_back()
    >>> spare.give_up()
    """

    def __init__(self) -> None:
        self._kept: list[int] = []
        self.take_back()

    def give_up(self) -> None:
        """Close them: the next files that are opened get their numbers."""
        while self._kept:
            os.close(self._kept.pop())

    def take_back(self) -> None:
        """Open them again, as far as there is room."""
        with contextlib.suppress(OSError):
            while len(self._kept) < _SPARE:
                self._kept.append(os.open(os.devnull, os.O_RDONLY))
