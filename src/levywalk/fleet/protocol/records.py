"""What a node keeps on disk: its records, and the lines of its log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.checkpoints import Checkpoints
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.given import GivenTokens
from levywalk.fleet.protocol.kept_memory import KeptMemory
from levywalk.fleet.protocol.links import NO_RIGHT, EpochLink, Right
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.refusals import Refusals
from levywalk.fleet.protocol.revocation import NOBODY_REVOKED, Revocations
from levywalk.fleet.protocol.starts import StartChain, Starts
from levywalk.fleet.protocol.token import Epoch, Token

NOBODY = -1
REVIVED = "revived"  # of an archived token: the operator has made it a new epoch
FALSE_END = "false end"  # of an archived token: it was said to be the final one, and was not


class HeldStatus(StrEnum):
    """What a node may do with the token that it holds; `hand_off` says how a status changes."""

    PREPARED = "prepared"  # on disk, and not to be used yet
    ACTIVE = "active"
    MOVING = "moving"  # the next node is chosen
    ENDING = "ending"  # the walk is over, and the guardian is asked to say so
    SEEKING = "seeking"  # it has no guardian yet
    WITHDRAWING = "withdrawing"  # it cannot go to the chosen node, and the guardian is asked


class RegisterValue(StrEnum):
    """What a guardian's register holds if it is not a certificate."""

    REGENERATED = "regenerated"
    FINISHED = "finished"


class Held(NamedTuple):
    """The token that a node holds, and its status."""

    status: HeldStatus
    token: Token
    guardian: int
    giver: int  # who has sent a prepared token, and will guard it
    to: int  # the node that was chosen, or NOBODY
    copied: int  # the step of the guardian's copy
    parent: Epoch  # the previous epoch, if the token was restored
    right: Right = NO_RIGHT  # what made this node its holder
    link: EpochLink | None = None  # that opens its epoch; signed once a guardian is chosen


class Guarded(NamedTuple):
    """The copy that a node guards, its write-once register, and the certificate with which it
    became the guardian.
    """

    copy: Token
    holder: int
    register: Certificate | RegisterValue | None
    activate: Certificate | None
    withdrawn: int = 0  # the holder's choices up to this decision (`Token.hops`) do not count


class Known(NamedTuple):
    """The highest epoch that a node knows, the step at which it began, and its link."""

    epoch: Epoch
    base: int
    link: EpochLink | None = None  # None if no epoch is known


class Edge(NamedTuple):
    """One end's record of an edge.

    Both ends must agree on ``up``, or the walk has another stationary law.
    """

    version: int
    up: bool
    degree: int
    scores: tuple[float, ...]
    joined: bool  # whether it counts in this node's degree


class Own(NamedTuple):
    """A node's degree, a larger degree that its neighbours have not all acknowledged yet, and
    whether it is leaving.
    """

    degree: int
    pending: int
    leaving: bool


class Spending(NamedTuple):
    """What a node's privacy budget has spent: how many releases of its data it has made.

    It never falls. It does not belong to a token: one that is brought back, in whatever epoch, does
    not bring back the budget.
    """

    releases: int
    first: bool = False  # whether this is said to be the first disk of the node


@dataclass
class Disk:
    """Everything that a node keeps on disk.

    The state machine changes it in memory and asks for the write with `Persist`.
    """

    known: Known
    own: Own
    edges: dict[int, Edge]
    held: Held | None = None
    guarded: Guarded | None = None
    final: Token | None = None
    starts: Starts | None = None  # None before the first start that drew a random number
    chain: StartChain | None = None
    memory: KeptMemory | None = None  # what the node remembers for walk and update
    end: Ending | None = None  # the last guardian's statement that `final` is the end
    liars: tuple[Lie, ...] = ()  # nodes that have signed contradictions, each once
    revoked: Revocations = NOBODY_REVOKED  # nodes that the operator has revoked
    spent: Spending | None = None  # None without privacy
    size: FleetSize | None = None  # the last version; None if it is the manifest's
    refusals: Refusals | None = None  # whose models it has refused; None if it never did
    given: GivenTokens | None = None  # tokens as they were given to it; None: nobody compares
    checkpoints: Checkpoints | None = None  # how far the walk went in earlier epochs


class Archived(NamedTuple):
    """A log line: a token or a copy of an older epoch, and the number of updates that are lost with
    it. The holder and the guardian may both log such a line about one epoch; the larger number
    counts.
    """

    token: Token
    what: str
    by: Epoch
    lost: int


class Began(NamedTuple):
    """A log line: a new epoch began at this node, from a copy of step ``base``."""

    epoch: Epoch
    parent: Epoch
    base: int

    @property
    def possible(self) -> bool:
        """Whether the parent is an earlier epoch. Readers that follow parents leave out a line of
        which this is not true, since they would never come to an end.

        Examples
        --------
        >>> Began(Epoch(1, 7, 3), Epoch(0, 0, 2), 41).possible
        True
        >>> Began(Epoch(1, 7, 3), Epoch(1, 7, 3), 41).possible
        False
        """
        return self.parent < self.epoch


class NewGeneration(NamedTuple):
    """A log line: with this visit the memory of walk and update starts again, and why.

    There is one line for each reason.
    """

    token_epoch: Epoch
    step: int  # updates before the visit
    hops: int  # decisions before the visit: what is remembered of them does not count any more
    generation: int
    why: str  # one of `kept_memory.REASONS`
    node: int  # whose memory is lost; -1 if there is no such node

    def plain(self) -> dict[str, object]:
        """Return what operators want to know of it, ready for JSON."""
        return {
            "epoch": list(self.token_epoch),
            "step": self.step,
            "generation": self.generation,
            "why": self.why,
            "node": None if self.node < 0 else self.node,
        }


class SilentNeighbour(NamedTuple):
    """A log line: a neighbour did not answer before this decision, so the walk decided without it.

    (What neighbours answer is not logged: it is what the replay of the walk gives.)
    """

    token_epoch: Epoch
    step: int
    hops: int  # decisions before this one
    node: int


class BudgetSpent(NamedTuple):
    """A log line: with this visit the node's privacy budget is spent. It makes no further
    update, and passes the model on.
    """

    token_epoch: Epoch
    step: int  # updates before the visit
    releases: int


class NewSize(NamedTuple):
    """A log line: from this visit on the token uses a later version of the fleet's size."""

    token_epoch: Epoch
    step: int  # updates before the visit
    hops: int  # decisions before the visit
    version: int
    nodes: int
    mean_smoothness: float


Line = Visit | Archived | Began | Measured | NewGeneration | SilentNeighbour | BudgetSpent | NewSize
