"""Closes connections of unknown callers before they keep neighbours out.

Anybody can open TCP connections to a node's port. TLS refuses those without a certificate, but
until they have said something they take a file descriptor and a place among the connections that
gRPC allows. gRPC has one limit for all. So that limit is generous here, and of the connections that
have not proved to be a neighbour's only a few may stay: the oldest are closed, those of the address
with the most first.

A process may close its own sockets, also those that gRPC has opened: a copy of the descriptor names
the same socket, whatever happens to the original meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import stat
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import unquote

Address = tuple[str, int]

STRANGERS = 32  # connections that have not proved to be a neighbour's
_OFTEN, _SELDOM = 0.1, 1.0  # seconds between two looks: with many connections, and with few
_OWN = 128  # descriptors that are left for the node's own files and connections
_WANTED = 4096  # descriptors that a node asks the operating system for
_MOST = 1024  # connections that gRPC may accept between two looks
_DESCRIPTORS = Path("/proc/self/fd")


def connections_allowed(needed: int) -> int:
    """Ask for enough file descriptors, and return how many connections may be accepted.

    Parameters
    ----------
    needed
        How many connections the neighbours need.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    room = _MOST if soft == resource.RLIM_INFINITY else soft - _OWN
    least = needed + STRANGERS if _DESCRIPTORS.is_dir() else needed + 64
    return max(least, min(_MOST, room)) if _DESCRIPTORS.is_dir() else least


def address_of(peer: str) -> Address | None:
    """Return the address in gRPC's name of a peer, or None.

    Examples
    --------
    >>> address_of("ipv4:127.0.0.1:4711"), address_of("ipv6:%5B::1%5D:80"), address_of("unix:")
    (('127.0.0.1', 4711), ('::1', 80), None)
    """
    kind, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    return (host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdigit() else None


class ConnectionLimiter:
    """Limits how many connections of strangers one port of this process has.

    Parameters
    ----------
    port
        The port on which the node listens.
    most
        How many connections of strangers may stay.
    """

    def __init__(self, port: int, most: int = STRANGERS) -> None:
        self.port, self.most = port, most
        self._strangers: dict[Address, None] = {}  # in the order in which they were first seen
        self._usual = self._count()

    def _count(self) -> int:
        return len(_descriptors())

    def crowded(self, links: int) -> bool:
        """Return whether so many descriptors are open that strangers may be among them; this takes
        microseconds.
        """
        return self._count() > self._usual + links + self.most

    async def watch(
        self, links: int, neighbours: Collection[Address | None], report: Callable[[str], None]
    ) -> None:
        """Look repeatedly: more often while there are many connections."""
        while True:
            crowded = self.crowded(links)
            if crowded and (closed := self.look(neighbours)):
                report(f"too many connections: closed {closed} that had not proved who they are")
            await asyncio.sleep(_OFTEN if crowded else _SELDOM)

    def look(self, neighbours: Collection[Address | None]) -> int:
        """Close connections of strangers beyond the limit; return how many.

        Parameters
        ----------
        neighbours
            The far ends of the connections that have proved to be neighbours'.
        """
        found = {
            far: line for far, line in self._connections() if far not in neighbours
        }  # copies, which are closed in the end
        try:
            self._strangers = {
                far: None for far in (*self._strangers, *found) if far in found
            }  # known ones first
            crowd = Counter(host for host, _ in self._strangers)
            closed = 0
            while len(self._strangers) > self.most:
                host = crowd.most_common(1)[0][0]
                far = next(one for one in self._strangers if one[0] == host)
                with contextlib.suppress(OSError):
                    found[far].shutdown(socket.SHUT_RDWR)
                del self._strangers[far]
                crowd[host] -= 1
                closed += 1
            return closed
        finally:
            for line in found.values():
                line.close()

    def _connections(self) -> list[tuple[Address, socket.socket]]:
        """Return the far ends of all connections to the port, with copies of their sockets."""
        found = []
        for number in _descriptors():
            with contextlib.suppress(OSError):
                if not stat.S_ISSOCK(os.fstat(number).st_mode):
                    continue
                line = socket.socket(fileno=os.dup(number))
                try:
                    near, far = line.getsockname(), line.getpeername()
                except OSError:  # it listens, or is closed already
                    line.close()
                    continue
                if isinstance(near, tuple) and near[1] == self.port:
                    found.append(((far[0].removeprefix("::ffff:"), far[1]), line))
                else:
                    line.close()
        return found


def _descriptors() -> list[int]:
    """Return the numbers of this process's open file descriptors, or nothing where the system does
    not tell them.
    """
    try:
        with os.scandir(_DESCRIPTORS) as found:
            return [int(one.name) for one in found]
    except OSError:
        return []
