"""Events, which a node's state machine receives, and effects, which it asks for."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.evidence import Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.messages import Message
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.token import Token


class Persist(NamedTuple):
    """Write these slots of the disk, and append these lines to the log, in one transaction."""

    slots: dict[str, object]  # a field of `Disk` and its new value; values are immutable
    lines: tuple[Line, ...]


class Send(NamedTuple):
    """Send a message. It may be lost."""

    to: int
    message: Message
    start: int = 0  # the name of the sender's start …
    commit: int = 0  # … and the number of the write that the message depends on; 0: not told


class SetTimer(NamedTuple):
    """Send `Timer` at that time. A later `SetTimer` replaces an earlier one."""

    at: float


class TurnRequest(NamedTuple):
    """Send `Turn` soon, after the events that wait already: the token is here and there is work."""


class Notice(NamedTuple):
    """Something to report to people: a kind, and its details."""

    what: str
    about: dict[str, object]


Effect = Persist | Send | SetTimer | TurnRequest | Notice


class Start(NamedTuple):
    """The node starts, for the first time or again with its disk."""

    draw: bytes = b""  # random bytes, if a process has started; empty if one only slept
    joins: tuple[int, ...] = ()  # new neighbours: those of its node file that its disk lacks


class Genesis(NamedTuple):
    """The first token is created here."""

    token: Token


class Got(NamedTuple):
    """A message has arrived. The transport has checked who sent it."""

    sender: int
    message: Message
    start: int = 0  # see `Send`
    commit: int = 0


class Timer(NamedTuple):
    """The time of `SetTimer` has come."""


class Turn(NamedTuple):
    """Work on the token."""


class Reached(NamedTuple):
    """The connection to a neighbour is open. The transport has checked who it is."""

    node: int


class Silent(NamedTuple):
    """The holder of the guarded token is considered dead.

    (The state machine's own timers have the same effect.)
    """


class Gone(NamedTuple):
    """The operator says that a node will never come back.

    If it is not for good, the operating system has said that its process does not exist now.
    """

    node: int
    for_good: bool = True


class Excused(NamedTuple):
    """A node is not a neighbour any more: nobody waits for its answer to a greeting."""

    node: int


class Revive(NamedTuple):
    """The operator says that no node can continue the walk, and that this copy, which is on this
    node's disk, is to become a new epoch.
    """

    token: Token
    word: Certificate  # of the operator; see `levywalk.fleet.protocol.links.operators_word`
    over: bool = False  # whether also if the node knows that the walk is over


class Pardoned(NamedTuple):
    """The operator lets a node in again that was shut out because it had lied."""

    pardon: Pardon


class Revoke(NamedTuple):
    """The operator says that a node takes no part any more."""

    word: Revocation


class Forgive(NamedTuple):
    """The operator says that the refused models of a node are to be forgotten."""

    node: int


class Resize(NamedTuple):
    """The operator says how many nodes the fleet has."""

    size: FleetSize


class Joins(NamedTuple):
    """The operator adds an edge to a node."""

    node: int


class Leaves(NamedTuple):
    """The operator removes this node."""


Event = (
    Start
    | Genesis
    | Got
    | Timer
    | Turn
    | Reached
    | Silent
    | Gone
    | Excused
    | Revive
    | Pardoned
    | Revoke
    | Forgive
    | Resize
    | Joins
    | Leaves
)
