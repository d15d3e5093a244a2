"""The messages between nodes.

Each is about one (epoch, seq), and may arrive twice, late, in any order or never.

==============  ======================  ============================================================
message         from → to               meaning
==============  ======================  ============================================================
`Prepare`       holder → next           store this token, and do not use it yet; if you are its
                                        guardian, release it as well (the answer is `Released`)
`Prepared`      next → holder           the token is on my disk
`Refused`       next → holder           I do not accept the token: I am leaving, or it is not valid
`Release`       holder → guardian       may the token go to that node? (The next node is prepared.)
                                        If guardians compare models, the token itself
`Released`      guardian → holder       yes; here is the certificate from my register
`Withdraw`      holder → guardian       the token cannot go to that node: do not release it any
                                        more (the answer is `Released` if it was released before)
`Withdrawn`     guardian → holder       it is not released, and will not be: choose again
`Activate`      giver → next            the certificate; I am the guardian from now on
`Certified`     neighbour → neighbour   forward this certificate to the node that it names, because
                                        the node that should deliver it is silent
`Alive`         holder → guardian       I hold the token and work on it
`Renew`         holder → guardian       a newer copy, after updates without a hand-off; or the
                                        last one: the walk is over
`Renewed`       guardian → holder       the copy is on my disk
`Guard`         seeker → neighbour      become the guardian of my token: the first one, or one that
                                        I have restored. If guardians compare models, also the
                                        token that I was given
`Guarding`      neighbour → seeker      the copy is on my disk
`Fenced`        any → any               your epoch is old: here is the link of a higher one
`Exposed`       neighbour → neighbour   this node has signed two things that contradict each other
`Revoked`       neighbour → neighbour   the operator has said that this node takes no part any more
`Sized`         neighbour → neighbour   the operator has said how many nodes the fleet has; an
                                        older version asks for a later one
`Heartbeat`     neighbour → neighbour   I am alive; this is the epoch that I know, and what I know
                                        of our edge
`Finished`      neighbour → neighbour   the walk is over, as the last guardian has signed; this is
                                        the final token
`Greeting`      neighbour → neighbour   I have started; what have you seen of me?
`Sighting`      neighbour → neighbour   the answer: this is the last that I saw of you
`Question`      holder → neighbour      what does your memory say, as of my token's walk?
`Answer`        neighbour → holder      the answer, for a walk that decides by its neighbours
==============  ======================  ============================================================
"""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.certificate import Certificate as Certificate
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.links import EpochLink
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.token import Epoch, Token


class Prepare(NamedTuple):
    """Store this token. It may be used only with a certificate of the named guardian."""

    token: Token
    guardian: int


class Prepared(NamedTuple):
    """The token is on disk."""

    epoch: Epoch
    seq: int
    digest: bytes


class Refused(NamedTuple):
    """The token was not accepted, and why."""

    epoch: Epoch
    seq: int
    digest: bytes
    why: str


class Release(NamedTuple):
    """May the token of (epoch, seq) go to that node?"""

    epoch: Epoch
    seq: int
    to: int
    digest: bytes
    hops: int  # decisions of the walk with this one, which tells it from a choice before it
    token: Token | None = None  # as the next node has it, if guardians compare models


class Released(NamedTuple):
    """Yes, it may go there; the certificate proves it."""

    certificate: Certificate


class Withdraw(NamedTuple):
    """The choice that was that decision is given up, if it is not released yet."""

    epoch: Epoch
    seq: int
    hops: int


class Withdrawn(NamedTuple):
    """No choice up to that decision will be released."""

    epoch: Epoch
    seq: int
    hops: int


class Activate(NamedTuple):
    """The prepared token may be used: the receiver is its holder now."""

    certificate: Certificate


class Certified(NamedTuple):
    """The token belongs to the named node. Every other receiver forwards this."""

    certificate: Certificate


class Alive(NamedTuple):
    """The holder of (epoch, seq) is alive."""

    epoch: Epoch
    seq: int


class Renew(NamedTuple):
    """A newer copy for the guardian."""

    token: Token
    last: bool = False  # whether the walk is over, and the guardian is asked to say so


class Renewed(NamedTuple):
    """The guardian has the copy of that step."""

    epoch: Epoch
    seq: int
    step: int


class Guard(NamedTuple):
    """Keep this copy and be its guardian."""

    token: Token
    link: EpochLink  # which opens the token's epoch, and names the receiver as its guardian
    given: Token | None = None  # as the sender was given it, if guardians compare models


class Guarding(NamedTuple):
    """The copy is stored."""

    epoch: Epoch
    seq: int


class Fenced(NamedTuple):
    """There is a higher epoch, which this link has opened."""

    link: EpochLink


class Exposed(NamedTuple):
    """A node has lied; here is the proof."""

    lie: Lie


class Revoked(NamedTuple):
    """A node takes no part any more; here is the operator's signed order."""

    word: Revocation


class Sized(NamedTuple):
    """How many nodes the fleet has, as the operator has signed; version 0 asks for it."""

    size: FleetSize


class Heartbeat(NamedTuple):
    """A sign of life, with the epoch that the sender knows and its record of the edge to the
    receiver. The epoch has no authority: a receiver that knows a higher one sends its link.
    """

    epoch: Epoch
    end: bytes  # the beginning of the final token's hash; empty if the walk is not over
    heard: bool  # whether the sender has heard the receiver lately
    edge_version: int
    edge_up: bool
    degree: int  # the sender's degree, including edges that are not in use yet
    known_degree: int  # the receiver's degree, as the sender has stored it
    scores: tuple[float, ...]


class Finished(NamedTuple):
    """The final token of the walk, and the guardian's signed statement that it is so."""

    token: Token
    end: Ending


class Greeting(NamedTuple):
    """The starts of the sender from its present disk, and the number of its last write."""

    origin: bytes  # the link of the first start
    number: int
    links: bytes  # the links of the last starts; the last one is of the present start
    commits: int


class Sighting(NamedTuple):
    """What the sender has last seen of the receiver; a number of 0 is nothing, and an origin with
    it is that of an earlier disk.
    """

    origin: bytes
    number: int
    link: bytes  # of that start
    commits: int  # the highest number of a write
    replaced: bool  # whether the greeting came from an earlier disk than the last one seen
    answers: bytes  # the last link of the greeting


class Question(NamedTuple):
    """What is asked of a neighbour's memory before a decision."""

    epoch: Epoch
    seq: int
    hops: int  # decisions before this one
    phase: int  # whose walk asks
    lineage: bytes  # tells which of the neighbour's entries belong to the token's walk


class Answer(NamedTuple):
    """The entries that the walk asks for, as bytes; empty if they are not known any more."""

    epoch: Epoch
    seq: int
    hops: int
    since: int  # of the question: when the token's memory generation began
    values: bytes


Message = (
    Prepare
    | Prepared
    | Refused
    | Release
    | Released
    | Withdraw
    | Withdrawn
    | Activate
    | Certified
    | Alive
    | Renew
    | Renewed
    | Guard
    | Guarding
    | Fenced
    | Exposed
    | Revoked
    | Sized
    | Heartbeat
    | Finished
    | Greeting
    | Sighting
    | Question
    | Answer
)
