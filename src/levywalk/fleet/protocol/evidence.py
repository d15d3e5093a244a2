"""Lies: two signatures of one node that contradict each other.

A guardian writes its register once. If it has signed that a token was released, and also a link
that denies this, one of the two is a lie, whoever is asked and whenever. A node that holds both
keeps them, sends them to its neighbours, which send them to theirs, and takes no message from the
liar any more, and no link that it has signed. For its neighbours the liar is gone. (Rights that it
gave to others stay valid: the release that it denies may be the right of the honest holder.)

The same holds for a guardian that has signed that the walk is over with a token, and also that this
token, or a later one of its epoch, was released.

- A node that has not accepted the false link, or the false end, refuses it.
- A node that has accepted a false link keeps the number of its epoch (I5), archives what it holds
  or guards of it, and so stops that branch. One that has accepted a false end archives that model,
  and takes part again.
- The holder of the token that the link denies continues in an epoch above the false one, with
  another guardian. If there is no such holder any more, the operator revives the walk.
- The operator can let the node in again, without its disk (`fleet rejoin`): the proof is kept and
  spread together with a `Pardon`, which the operator has signed. It covers what the node has signed
  up to the epoch of the lie; a lie about a later epoch shuts the node out again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.ending import Ending, went_on
from levywalk.fleet.protocol.links import Opening, Verifier, contradicts
from levywalk.fleet.protocol.token import Epoch

_PARDON = struct.Struct("<4q")


class Pardon(NamedTuple):
    """The operator's signed order that a node which has lied may take part again."""

    node: int
    epoch: Epoch  # of the false link or end; lies about later epochs are not covered
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed.

        Examples
        --------
        >>> one = Pardon(3, Epoch(1, 7, 3), b"")
        >>> one.statement(b"run") == one._replace(node=4).statement(b"run")
        False
        """
        return b"pardon|" + run + b"|" + _PARDON.pack(self.node, *self.epoch)


class Lie(NamedTuple):
    """A release of a node, and a link or an end that it has signed and that contradicts it."""

    link: Opening | None  # None if it is an end
    release: Certificate
    pardon: Pardon | None = None  # if the operator has let the node in again
    end: Ending | None = None  # None if it is a link

    @property
    def liar(self) -> int:
        """Who has signed both."""
        return self.release.guardian

    @property
    def epoch(self) -> Epoch:
        """The epoch that the false link has opened, or in which the false end is."""
        if self.link is not None:
            return self.link.epoch
        return self.release.epoch if self.end is None else self.end.epoch

    @property
    def denied(self) -> tuple[Epoch, int]:
        """The epoch in which the walk went on, and the hand-off at which the lie stops it."""
        if self.link is not None:
            return self.release.epoch, self.link.seq  # the parent, or what the start node began
        return self.epoch, self.release.seq if self.end is None else self.end.seq

    @property
    def weight(self) -> tuple[Epoch, bool]:
        """Of what is known about the lies of one node, the value with the highest weight counts,
        so that all nodes come to the same result, whichever they receive first.
        """
        return self.epoch, self.pardon is not None

    def covers(self, node: int, epoch: Epoch) -> bool:
        """Return whether nothing is accepted that a node has signed about an epoch.

        Examples
        --------
        >>> from levywalk.fleet.protocol.links import LinkKind
        >>> first, false = Epoch(0, 0, 1), Epoch(1, 7, 3)
        >>> link = Opening(LinkKind.REGENERATED, false, first, first, 7, True, 7, 9, b"", 4, b"")
        >>> lie = Lie(link, Certificate(3, first, 7, 5, 2, b"", b""))
        >>> lie.covers(3, Epoch(2, 8, 3)), lie.covers(4, Epoch(2, 8, 4))
        (True, False)
        >>> after = lie._replace(pardon=Pardon(3, false, b""))
        >>> after.covers(3, Epoch(2, 8, 3)), after.covers(3, false)
        (False, True)
        """
        return node == self.liar and (self.pardon is None or epoch <= self.epoch)


def refuses_lie(lie: Lie, run: bytes, keys: Verifier) -> str | None:
    """Return why two statements do not prove a lie, or None."""
    who, link, end = lie.liar, lie.link, lie.end
    claim = link or end
    if claim is None or (link is not None and end is not None):
        return "the proof of a lie must have a release, and either a link or an end"
    if isinstance(claim, Opening):
        signer, denied = claim.epoch.node, contradicts(claim, lie.release)
    else:
        signer, denied = claim.guardian, went_on(claim, lie.release)
    if who == OPERATOR or signer != who:
        return "the two statements were not made by the same node"
    if not denied:
        return f"the two statements of node {who} do not contradict each other"
    for one in (claim, lie.release):
        if not keys.verify(who, one.statement(run), one.signature):
            return f"node {who} has not signed both statements"
    pardon = lie.pardon
    if pardon is None:
        return None
    if pardon[:2] != (who, lie.epoch):
        return f"the operator's signed order is not about this lie of node {who}"
    if not keys.verify(OPERATOR, pardon.statement(run), pardon.signature):
        return f"the operator has not signed that node {who} may take part again"
    return None
