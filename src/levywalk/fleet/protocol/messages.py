"""What nodes say to each other. Every message is about one (epoch, seq), may come twice or never, and in any order.

==============  ======================  ===========================================================================
message         from → to               meaning
==============  ======================  ===========================================================================
`Prepare`       holder → next           here is the token; keep it, and do nothing with it yet
`Prepared`      next → holder           it is on my disk
`Refused`       next → holder           not now: I am leaving, or the token is not what it should be
`Release`       holder → guardian       may the token go there? (sent once it is prepared, and the holder is frozen)
`Released`      guardian → holder       yes: the register is written, here is the certificate
`Activate`      giver → next            the certificate; the giver is the guardian now
`Certified`     neighbour → neighbour   the certificate of a giver that is silent, on its way to the node that it names
`Alive`         holder → guardian       I have the token, and am at work
`Renew`         holder → guardian       a newer copy, after updates without a hand-off
`Renewed`       guardian → holder       it is on my disk
`Guard`         would-be holder → …     be my guardian: of the first token, or of one that I bring back
`Guarding`      … → would-be holder     the copy is on my disk
`Fenced`        anyone → anyone         you are behind: there is a higher epoch
`Heartbeat`     neighbour → neighbour   I am here; what I know of epochs, and of our edge
`Finished`      neighbour → neighbour   the walk is over, this is the model
==============  ======================  ===========================================================================
"""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.token import Epoch, Token


class Certificate(NamedTuple):
    """A guardian's word, signed: the token of (epoch, seq) goes to that node, and to no other."""

    guardian: int
    epoch: Epoch
    seq: int
    to: int
    digest: bytes  # of the token that was prepared there
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return what is signed."""
        return b"%b|%d|%d|%d|%d|%d|%d|%b" % (run, self.guardian, *self.epoch, self.seq, self.to, self.digest)


class Prepare(NamedTuple):
    """Keep this token; it counts only with a certificate of the guardian that is named here."""

    token: Token
    guardian: int


class Prepared(NamedTuple):
    """The token is on disk."""

    epoch: Epoch
    seq: int
    digest: bytes


class Refused(NamedTuple):
    """The token was not taken, and why."""

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


class Released(NamedTuple):
    """It may."""

    certificate: Certificate


class Activate(NamedTuple):
    """The token that you have prepared is yours."""

    certificate: Certificate


class Certified(NamedTuple):
    """The token is that node's; whoever else gets this passes it on."""

    certificate: Certificate


class Alive(NamedTuple):
    """The holder of (epoch, seq) is at work."""

    epoch: Epoch
    seq: int


class Renew(NamedTuple):
    """A newer copy for the guardian."""

    token: Token


class Renewed(NamedTuple):
    """The guardian has the copy of that step."""

    epoch: Epoch
    seq: int
    step: int


class Guard(NamedTuple):
    """Keep this copy and be its guardian."""

    token: Token
    parent: Epoch  # the epoch before


class Guarding(NamedTuple):
    """The copy is kept."""

    epoch: Epoch
    seq: int


class Fenced(NamedTuple):
    """There is a higher epoch, which began at that step."""

    epoch: Epoch
    base: int


class Heartbeat(NamedTuple):
    """A sign of life, with what the sender knows of epochs and of the edge to the receiver."""

    epoch: Epoch
    base: int
    finished: bool
    heard: bool  # whether the sender hears the receiver
    edge_version: int
    edge_up: bool
    degree: int  # the sender's, also if it is not in use yet
    known_degree: int  # the receiver's, as the sender has it on disk
    scores: tuple[float, ...]


class Finished(NamedTuple):
    """The last token."""

    token: Token


Message = (
    Prepare
    | Prepared
    | Refused
    | Release
    | Released
    | Activate
    | Certified
    | Alive
    | Renew
    | Renewed
    | Guard
    | Guarding
    | Fenced
    | Heartbeat
    | Finished
)
