"""Lies: two signatures of one node that contradict each other.

A guardian writes its register once. If it has signed that a token was released, and also a link
that denies this, one of the two is a lie, whoever is asked and whenever. A node that holds both
keeps them, sends them to its neighbours, which send them to theirs, and takes no message from the
liar any more, and no link that it has signed. For its neighbours the liar is gone. (Rights that it
gave to others stay valid: the release that it denies may be the right of the honest holder.)

- A node that has not accepted the false link refuses it.
- A node that has accepted it keeps the number of its epoch (I5), archives what it holds or guards
  of it, and so stops that branch.
- The holder of the token that the link denies continues in an epoch above the false one, with
  another guardian. If there is no such holder any more, the operator revives the walk.
"""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.links import Opening, Verifier, contradicts


class Lie(NamedTuple):
    """A link and a release of one node that contradict each other."""

    link: Opening
    release: Certificate

    @property
    def liar(self) -> int:
        """Who has signed both."""
        return self.release.guardian


def refuses_lie(lie: Lie, run: bytes, keys: Verifier) -> str | None:
    """Return why two statements do not prove a lie, or None."""
    who = lie.liar
    if who == OPERATOR or lie.link.epoch.node != who:
        return "the two statements are not of one node"
    if not contradicts(lie.link, lie.release):
        return f"the two statements of node {who} do not contradict each other"
    for one in lie:
        if not keys.verify(who, one.statement(run), one.signature):
            return f"node {who} has not signed both statements"
    return None
