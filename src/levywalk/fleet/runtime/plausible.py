"""Refuse messages with impossible counters.

Counters only grow, so a false one would stay for ever.
"""

from __future__ import annotations

from levywalk.fleet.protocol.messages import (
    Activate,
    Certified,
    Finished,
    Guard,
    Heartbeat,
    Message,
    Prepare,
    Released,
    Renew,
)
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.token import Epoch

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
    if isinstance(message, Prepare | Renew | Guard | Finished):
        return message.token.epoch
    if isinstance(message, Released | Activate | Certified):
        return message.certificate.epoch
    return message.epoch
