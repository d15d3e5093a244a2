"""Refuse messages with impossible counters, and too many new epochs from one neighbour.

Counters only grow, so a false one would stay permanently. A new epoch makes a node archive the
models of older ones, so epochs without end would fill its disk. To refuse a message is always safe:
for the protocol it is a message that was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from levywalk.fleet.protocol.messages import (
    Activate,
    Certified,
    Exposed,
    Fenced,
    Finished,
    Greeting,
    Guard,
    Heartbeat,
    Message,
    Prepare,
    Released,
    Renew,
    Revoked,
    Sighting,
    Sized,
)
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.token import FIRST, Epoch

PLAUSIBLE = (
    1_000_000  # how far a neighbour's epoch or edge version may be ahead; more is certainly false
)


def implausible(disk: Disk, nodes: int, node: int, message: Message) -> str | None:
    """Return what is impossible in a message, or None."""
    epoch = _epoch(message)
    if epoch.counter > disk.known.epoch.counter + PLAUSIBLE:
        return f"epoch {tuple(epoch)} is impossible"
    if isinstance(message, Heartbeat) and node in disk.edges:
        if message.edge_version > disk.edges[node].version + PLAUSIBLE:
            return f"version {message.edge_version} of the edge is impossible"
        if message.degree > nodes:
            return f"a degree of {message.degree} in a fleet of {nodes} nodes is impossible"
    return None


def _epoch(message: Message) -> Epoch:
    """Return the epoch that a message is about."""
    found: Epoch = _EPOCHS.get(type(message), _OWN_EPOCH)(message)
    return found


_OWN_EPOCH = attrgetter("epoch")
_EPOCHS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((Prepare, Renew, Guard, Finished), attrgetter("token.epoch")),
    **dict.fromkeys((Released, Activate, Certified), attrgetter("certificate.epoch")),
    Fenced: attrgetter("link.epoch"),
    Exposed: attrgetter("lie.epoch"),
    Revoked: attrgetter("word.epoch"),
    **dict.fromkeys((Greeting, Sighting, Sized), lambda _: FIRST),  # they are about no epoch
}


class EpochBudget:
    """Limits how many new epochs one neighbour may bring about.

    An honest neighbour needs about one per ``dead_after``, when a node has died.

    Parameters
    ----------
    dead_after
        Seconds after which a neighbour may bring about one more.
    burst
        How many it may bring about at once.

    Examples
    --------
    >>> at = 0.0
    >>> budget = EpochBudget(60.0, burst=1, clock=lambda: at)
    >>> budget.count(3)
    >>> budget.exhausted(3), budget.exhausted(4)
    (True, False)
    >>> at = 60.0
    >>> budget.exhausted(3)
    False
    """

    def __init__(
        self, dead_after: float, burst: int = 32, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.dead_after, self.burst, self._clock = dead_after, burst, clock
        self._left: dict[int, tuple[float, float]] = {}  # by neighbour: how many are left, and when

    def refuses(self, disk: Disk, node: int, message: Message) -> str | None:
        """Return why a message of a new epoch comes too soon, or None."""
        if not isinstance(message, Fenced | Guard):
            return None  # no other message brings about an epoch
        epoch = _epoch(message)
        if epoch > disk.known.epoch and self.exhausted(node):
            return f"epoch {tuple(epoch)} comes too soon: at most {self.burst} new epochs at once"
        return None

    def exhausted(self, node: int) -> bool:
        """Return whether a neighbour must wait."""
        return self._now_left(node) < 1.0

    def count(self, node: int) -> None:
        """Note that a neighbour has brought about a new epoch."""
        self._left[node] = self._now_left(node) - 1.0, self._clock()

    def _now_left(self, node: int) -> float:
        left, since = self._left.get(node, (float(self.burst), 0.0))
        return min(self.burst, left + (self._clock() - since) / self.dead_after)
