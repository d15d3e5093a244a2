"""Refuse messages whose counters cannot be true: counters only grow, so a false one would stay for good."""

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

PLAUSIBLE = 1_000_000  # epochs, or versions, that a neighbour may be ahead: more is a lie, and would end the walk


def implausible(disk: Disk, nodes: int, node: int, message: Message) -> str | None:
    """Return what is too much to be true in a message: counters only grow, and a lie would stay for good."""
    epoch = _epoch(message)
    if epoch.counter > disk.known.epoch.counter + PLAUSIBLE:
        return f"epoch {tuple(epoch)} cannot be"
    if isinstance(message, Heartbeat) and node in disk.edges:
        if message.edge_version > disk.edges[node].version + PLAUSIBLE:
            return f"version {message.edge_version} of the edge cannot be"
        if message.degree > nodes:
            return f"a degree of {message.degree} in a fleet of {nodes} nodes cannot be"
    return None


def _epoch(message: Message) -> Epoch:
    """Return the epoch that a message is about."""
    if isinstance(message, Prepare | Renew | Guard | Finished):
        return message.token.epoch
    if isinstance(message, Released | Activate | Certified):
        return message.certificate.epoch
    return message.epoch
