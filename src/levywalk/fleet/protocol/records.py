"""What a node must not forget, and the lines of its log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.token import Epoch, Token

NOBODY = -1


class HeldStatus(StrEnum):
    """What a node may do with the token that it holds; `hand_off` says how a status changes."""

    PREPARED = "prepared"  # on disk, and not to be used yet
    ACTIVE = "active"
    MOVING = "moving"  # the next node is chosen
    RELEASING = "releasing"  # the guardian is asked
    SEEKING = "seeking"  # it has no guardian yet


class RegisterValue(StrEnum):
    """What a guardian's register holds if it is not a certificate."""

    REGENERATED = "regenerated"


class Held(NamedTuple):
    """The token that a node has, in one of the five statuses."""

    status: HeldStatus
    token: Token
    guardian: int
    giver: int  # of a prepared token: who will guard it
    to: int  # where a decision leads, NOBODY if there is none
    copied: int  # the step of the guardian's copy
    parent: Epoch  # the epoch before, of a token that is brought back


class Guarded(NamedTuple):
    """The copy that a node keeps for a holder, the write-once register, and the certificate that made it guardian."""

    copy: Token
    holder: int
    register: Certificate | RegisterValue | None
    activate: Certificate | None


class Known(NamedTuple):
    """The highest epoch that a node has seen, and the step at which it began."""

    epoch: Epoch
    base: int


class Edge(NamedTuple):
    """One end's record of an edge; both ends must agree on ``up``, or the walk's law is wrong."""

    version: int
    up: bool
    degree: int
    scores: tuple[float, ...]
    joined: bool  # whether it counts in this node's degree yet


class Own(NamedTuple):
    """A node's own degree, a larger one that its neighbours have yet to acknowledge, and whether it is leaving."""

    degree: int
    pending: int
    leaving: bool


@dataclass
class Disk:
    """All that a node must not forget. The machine changes it in memory and says so by `Persist`."""

    known: Known
    own: Own
    edges: dict[int, Edge]
    held: Held | None = None
    guarded: Guarded | None = None
    final: Token | None = None


class Archived(NamedTuple):
    """A line of the log: a token or a copy that a higher epoch has overtaken; updates that are lost with it.

    Holder and guardian may both have a line about one epoch: the larger count is the one that was lost.
    """

    token: Token
    what: str
    by: Epoch
    lost: int


class Began(NamedTuple):
    """A line of the log: a new epoch was begun here, from a copy of that step."""

    epoch: Epoch
    parent: Epoch
    base: int


Line = Visit | Archived | Began
