"""What reaches a node's state machine (events), and what it wants done (effects)."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.messages import Message
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.protocol.token import Token


class Persist(NamedTuple):
    """Write these slots of the disk, and add these lines to the log, in one transaction."""

    slots: dict[str, object]  # a field of `Disk` and what it holds from now on; values never change
    lines: tuple[Line, ...]


class Send(NamedTuple):
    """Send a message; it may be lost."""

    to: int
    message: Message


class SetTimer(NamedTuple):
    """Call again with `Timer` at that time; a later call replaces an earlier one."""

    at: float


class Again(NamedTuple):
    """Call again with `Turn`, after what else there is to do: the token is here and there is work."""


class Notice(NamedTuple):
    """Something to tell people: a word and what it is about."""

    what: str
    about: dict[str, object]


Effect = Persist | Send | SetTimer | Again | Notice


class Start(NamedTuple):
    """The node begins, or begins again with its disk."""


class Genesis(NamedTuple):
    """The first token is born here."""

    token: Token


class Got(NamedTuple):
    """A message came, and the transport vouches for its sender."""

    sender: int
    message: Message


class Timer(NamedTuple):
    """It is time."""


class Turn(NamedTuple):
    """Work on the token."""


class Reached(NamedTuple):
    """The connection to a neighbour is open, or open again, and the transport vouches for who it is."""

    node: int


class Silent(NamedTuple):
    """The holder of the guarded token is believed dead. (The machine's own clock leads to the same.)"""


class Gone(NamedTuple):
    """The operator says that a node will never come back."""

    node: int


class Joins(NamedTuple):
    """The operator adds an edge to a node."""

    node: int


class Leaves(NamedTuple):
    """The operator wants this node to leave."""


Event = Start | Genesis | Got | Timer | Turn | Reached | Silent | Gone | Joins | Leaves
