"""Epoch links: every epoch is opened by a signed statement that says why it may exist.

A link names the epoch and its parent, the hand-off, the step and the hash of the token at which it
branches, and the first guardian. The node that opens the epoch signs it; it is part of the epoch's
own number (`Epoch.node`). A link also carries a `Right`: one statement that another node signed and
that made the signer the guardian or the holder of the parent. So one liar cannot make a link, and
the size of a link is constant: the right's own right is left out, since whoever signed it, or acted
on it, has checked that.

=================  =========================================================================
kind               what a stranger accepts
=================  =========================================================================
first              signed by the start node of the manifest, for the lowest epoch alone; it
                   needs no right
regenerated        signed by the guardian of (parent, seq): a release that made it the next
                   guardian, or the parent's link that names it as the first guardian
guardian replaced  signed by the holder of (parent, seq): a release to it. If it had released
                   the token to itself, what made it the guardian before. If it had opened the
                   parent itself, the right of that link. The start node needs none before the
                   first hand-off, from strangers that know of no later one
giver gone         signed by the next node: the guardian's release to it
revived            signed by the node that the operator's order names, which is its right
=================  =========================================================================

In all kinds the signatures must be valid, the parent must be an earlier epoch, the guardian another
node than the signer, and the number of the epoch at most `AHEAD` above what the right proves (each
attempt to find a guardian takes one number).

Where the right was given (its epoch and its hand-off) is part of the signed statement, so that it
is known also where the link is itself the right of a later one. A node may have opened several
epochs with one right, none of which went on, and strangers have never heard of any but the last: so
a link is compared not only with what is known of its parent (`denies`, `repeats`).

`contradicts` finds links that an honest signer cannot have made, because the walk went on from
where they branch.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import NamedTuple, Protocol

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.token import FIRST, Epoch, Token

AHEAD = 10_000  # how many epochs one right can open: one per guardian that did not answer
_OPENING = struct.Struct("<15q")


class LinkKind(StrEnum):
    """Why an epoch was opened."""

    FIRST = "first"
    REGENERATED = "regenerated"
    GUARDIAN_REPLACED = "guardian replaced"
    GIVER_GONE = "giver gone"
    REVIVED = "revived"


KINDS = tuple(LinkKind)  # in this order: a new one goes to the end


class Opening(NamedTuple):
    """The signed part of a link."""

    kind: LinkKind
    epoch: Epoch  # its node is the one that signs
    parent: Epoch
    right_epoch: Epoch  # where its signer's right was given, as `Right.place` says: the epoch
    right_seq: int  # and the hand-off; `FIRST` and 0 without a right
    as_guardian: bool  # whether the right made it the guardian, and not the holder
    seq: int
    step: int
    digest: bytes  # hash of the token with which the epoch begins
    guardian: int  # its first guardian
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed.

        Examples
        --------
        >>> born = Epoch(0, 0, 3)
        >>> one = Opening(LinkKind.FIRST, born, FIRST, FIRST, 0, False, 0, 0, bytes(32), 4, b"")
        >>> far = one._replace(epoch=Epoch(9**9, 9**9, 3), seq=9**9, step=9**9)
        >>> len(one.statement(b"run")) == len(far.statement(b"run"))
        True
        """
        kind = KINDS.index(LinkKind(self.kind))
        epochs = *self.epoch, *self.parent, *self.right_epoch
        others = self.right_seq, self.as_guardian, self.seq, self.step, self.guardian
        numbers = _OPENING.pack(kind, *epochs, *others)
        return b"link|" + run + b"|" + numbers + self.digest


class Right(NamedTuple):
    """What made a node the guardian or the holder of a token: a release, or the link of its
    epoch; both None if it has nothing to show.
    """

    release: Certificate | None = None
    link: Opening | None = None

    @property
    def signer(self) -> int | None:
        """Who has signed it."""
        if self.release is not None:
            return self.release.guardian
        return None if self.link is None else self.link.epoch.node

    @property
    def place(self) -> tuple[Epoch, int] | None:
        """The epoch and the hand-off of the token that it is about."""
        if self.release is not None:
            after = self.release.guardian != OPERATOR
            return self.release.epoch, self.release.seq + after
        return None if self.link is None else (self.link.epoch, self.link.seq)

    @property
    def holder(self) -> int | None:
        """The node that it makes the holder."""
        if self.release is not None:
            return self.release.to
        return None if self.link is None else self.link.epoch.node

    @property
    def guardian(self) -> int | None:
        """The node that it makes the guardian; None if it is the operator's order."""
        if self.release is not None:
            return None if self.release.guardian == OPERATOR else self.release.giver
        return None if self.link is None else self.link.guardian


NO_RIGHT = Right()
Reason = tuple[LinkKind, Epoch, Right]  # why a token begins a new epoch: kind, parent, right


class EpochLink(NamedTuple):
    """A link, with what made its signer guardian or holder."""

    opening: Opening
    right: Right

    @property
    def epoch(self) -> Epoch:
        """The epoch that it opens."""
        return self.opening.epoch


class Verifier(Protocol):
    """Checks the signatures of all nodes."""

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether the node has signed the statement."""


def unsigned_link(
    kind: LinkKind, token: Token, parent: Epoch, right: Right, guardian: int = -1
) -> EpochLink:
    """Return the link with which a token begins its epoch, without a signature yet."""
    given = _given(right, token.epoch.node)
    opening = Opening(
        kind, token.epoch, parent, *given, token.seq, token.step, token.digest(), guardian, b""
    )
    return EpochLink(opening, right)


def _given(right: Right, who: int) -> tuple[Epoch, int, bool]:
    """Return what a link says about the right of its signer."""
    return *(right.place or (FIRST, 0)), right.guardian == who


def operators_word(token: Token, node: int, counter: int) -> Certificate:
    """Return the operator's order to continue from a node's copy, without a signature yet.

    Parameters
    ----------
    counter
        Of the new epoch; above that of every epoch that is known.
    """
    epoch = Epoch(counter, token.seq, node)
    return Certificate(OPERATOR, epoch, token.seq, node, OPERATOR, token.digest(), b"")


def refuses_link(
    link: EpochLink, run: bytes, start: int | None, keys: Verifier, lied: int = 0
) -> str | None:
    """Return why a stranger does not accept a link, or None.

    Parameters
    ----------
    run
        The run's id, which is part of what is signed.
    start
        The node where the manifest says that the walk starts; None for any node.
    lied
        The highest epoch of a link that is known to be a lie: an honest one must be above it.
    """
    one, right = link
    who, place = one.epoch.node, right.place
    if one.kind not in KINDS:
        return f"there is no link of the kind {one.kind!r}"
    if not one.parent < one.epoch:
        return (
            f"epoch {tuple(one.epoch)} cannot follow epoch {tuple(one.parent)}, which is not lower"
        )
    if one.epoch.seq != one.seq or one.seq < 0 or one.step < 0 or who < 0:
        return f"a link of epoch {tuple(one.epoch)} at hand-off {one.seq} is impossible"
    if one.guardian < 0 or one.guardian == who:
        return f"node {one.guardian} cannot guard the token that node {who} holds"
    if (one.right_epoch, one.right_seq, one.as_guardian) != _given(right, who):
        why: str | None = (
            f"the link of epoch {tuple(one.epoch)} says something else about the right of its node "
            f"than its proof: epoch {tuple(one.right_epoch)}, hand-off {one.right_seq}, "
            f"{'guardian' if one.as_guardian else 'holder'}"
        )
    elif right.release is not None and right.link is not None:
        why = "a link must prove its right in one way, and this one has two proofs"
    elif place is None:
        why = _without_right(one, start)
    elif right.signer == who:
        why = f"node {who} has itself signed the proof of its right, which another node must sign"
    elif (
        not place[0].counter - (one.kind == LinkKind.REVIVED)
        < one.epoch.counter
        <= (max(place[0].counter, lied) + AHEAD)
    ):
        why = (
            f"epoch {tuple(one.epoch)} is too far from epoch {tuple(place[0])}, in which its node "
            "was holder or guardian"
        )
    else:
        why = _with_right(one, right, *place)
    if why is not None:
        return why
    if not keys.verify(who, one.statement(run), one.signature):
        return f"the link of epoch {tuple(one.epoch)} is not signed by node {who}"
    signed = right.release or right.link
    if signed is None or right.signer is None:
        return None
    if keys.verify(right.signer, signed.statement(run), signed.signature):
        return None
    by = "the operator" if right.signer == OPERATOR else f"node {right.signer}"
    return f"the proof of the right to open epoch {tuple(one.epoch)} is not signed by {by}"


def _without_right(one: Opening, start: int | None) -> str | None:
    """Return why a link without a right is refused: only the start node needs none, before the
    first hand-off.
    """
    who = one.epoch.node
    if start is not None and who != start:
        return f"node {who} gives no proof that it was holder or guardian"
    if one.seq or one.epoch.counter > AHEAD:
        return f"the start node has no right to open epoch {tuple(one.epoch)}"
    begins = one.parent == FIRST and one.step == 0
    if one.kind == LinkKind.FIRST:
        fine = begins and one.epoch.counter == 0
    else:
        own = one.parent.node == who and one.parent.seq == 0
        fine = one.kind == LinkKind.GUARDIAN_REPLACED and (begins or own)
    return (
        None
        if fine
        else (
            f"a walk cannot begin with a link of the kind {one.kind} from epoch {tuple(one.parent)}"
        )
    )


def _with_right(one: Opening, right: Right, epoch: Epoch, seq: int) -> str | None:
    """Return why a right does not allow a link, or None."""
    who = one.epoch.node
    holds, guards = right.holder == who, right.guardian == who
    revived = right.signer == OPERATOR
    if revived and epoch.node != who:
        return f"the operator's signed order is for node {epoch.node}, not for node {who}"
    continues = one.parent == epoch
    own = (one.parent.node, one.parent.seq) == (who, one.seq) and (
        one.parent.counter > epoch.counter
    )
    fine = {
        LinkKind.FIRST: False,
        LinkKind.REGENERATED: guards and one.seq == seq and continues,
        LinkKind.GUARDIAN_REPLACED: (continues or own)
        and (
            (holds and one.seq == seq)
            or (guards and one.seq == seq + 1)  # it had released the token to itself
            or (guards and one.seq == seq and own)  # it had restored the token
        ),
        LinkKind.GIVER_GONE: continues
        and ((holds and one.seq == seq) or (guards and one.seq == seq + 1)),
        LinkKind.REVIVED: revived and holds and one.seq == seq,
    }[LinkKind(one.kind)]
    if fine and (one.kind == LinkKind.REVIVED or not revived or own or continues):
        return None
    return (
        f"node {who} has no right to open epoch {tuple(one.epoch)} from epoch "
        f"{tuple(one.parent)} at hand-off {one.seq} ({one.kind})"
    )


def denies(one: Opening, epoch: Epoch, seq: int) -> bool:
    """Return whether a link says that a hand-off of an earlier epoch was never released.

    Whoever opens an epoch says so of the parent, from where it branches on, and of the epoch in
    which its right was given. An order of the operator says nothing: nobody knows where the copy
    came from.

    Examples
    --------
    >>> e = Epoch(0, 0, 3)
    >>> mine = Epoch(8, 7, 4), e, 7, False, 7, 9
    >>> again = Opening(LinkKind.GUARDIAN_REPLACED, Epoch(9, 7, 4), *mine, b"", 5, b"")
    >>> denies(again, e, 8), denies(again, e, 7)
    (True, False)
    """
    if one.kind == LinkKind.REVIVED:
        return False
    if one.parent == FIRST:  # the start node begins again, although its token has left it
        begun = (epoch.node, epoch.seq) == (one.epoch.node, 0)
        return begun and epoch < one.epoch and seq >= 0
    replaced = one.kind == LinkKind.GUARDIAN_REPLACED
    # What restored a token was never released; a holder may not know of the last release yet.
    restored = one.as_guardian and one.right_seq == one.seq and epoch == one.right_epoch
    holder = replaced and not restored
    return epoch in (one.parent, one.right_epoch) and seq >= one.seq + holder


def repeats(one: Opening, epoch: Epoch, seq: int) -> bool:
    """Return whether a link uses a right again: its signer has opened an earlier epoch with it, or
    with a later one, and a hand-off of that epoch was released.

    An honest node never does, as long as it has its disk. So such a link is refused, but it is no
    proof of a lie.

    Examples
    --------
    >>> e, opened = Epoch(0, 0, 3), Epoch(2, 7, 4)
    >>> again = Opening(LinkKind.REGENERATED, Epoch(9, 7, 4), e, e, 7, True, 7, 9, b"", 5, b"")
    >>> repeats(again, opened, 7), repeats(again, Epoch(2, 7, 6), 7)
    (True, False)
    """
    if epoch.node != one.epoch.node or not one.right_epoch <= epoch < one.epoch:
        return False
    if epoch.seq == one.seq:  # a holder may not know of the last release yet
        return seq >= one.seq + (one.kind == LinkKind.GUARDIAN_REPLACED)
    return epoch > one.right_epoch and seq > epoch.seq


def excludes(one: Opening, epoch: Epoch, seq: int) -> bool:
    """Return whether a link is not honest if a hand-off of an earlier epoch was released."""
    return denies(one, epoch, seq) or repeats(one, epoch, seq)


def contradicts(one: Opening, release: Certificate) -> bool:
    """Return whether a link denies a release: the token went on from where the link branches, or
    went to another node than the one that says to have received it.

    Examples
    --------
    >>> e = Epoch(0, 0, 3)
    >>> one = Opening(LinkKind.REGENERATED, Epoch(1, 7, 4), e, e, 7, True, 7, 9, b"", 5, b"")
    >>> released = Certificate(4, e, 7, 6, 3, b"", b"")
    >>> contradicts(one, released), contradicts(one, released._replace(seq=6))
    (True, False)
    >>> gone = one._replace(kind=LinkKind.GIVER_GONE, seq=8)
    >>> contradicts(gone, released), contradicts(gone, released._replace(to=4))
    (True, False)
    """
    if release.guardian == OPERATOR:
        return False
    if denies(one, release.epoch, release.seq):
        return True
    received = one.kind in (LinkKind.GUARDIAN_REPLACED, LinkKind.GIVER_GONE)
    before = release.seq == one.seq - 1
    came_back = release.epoch == one.right_epoch and one.right_seq == release.seq
    if received and before and (release.epoch == one.parent or came_back):
        return release.to != one.epoch.node
    return False


def places_shown(one: Opening) -> list[tuple[Epoch, int]]:
    """Return how many hand-offs earlier epochs had at least, as a link shows: nothing, if the
    operator has revived the walk, since nobody knows where the copy came from.

    A parent that the signer has opened itself is left out: no other node has signed it.
    """
    if one.kind == LinkKind.REVIVED:
        return []
    known = {one.right_epoch} if one.parent.node == one.epoch.node else {one.parent}
    return [(epoch, one.seq) for epoch in known - {FIRST}]


def overrides(known: Opening, link: EpochLink) -> bool:
    """Return whether a known link shows that the walk went on from where another one branches.

    Examples
    --------
    >>> e = Epoch(0, 0, 3)
    >>> one = Opening(LinkKind.REGENERATED, Epoch(2, 7, 4), e, e, 7, True, 7, 9, b"", 5, b"")
    >>> later = Opening(LinkKind.REGENERATED, Epoch(1, 9, 6), e, e, 9, True, 9, 12, b"", 5, b"")
    >>> right = Right(Certificate(3, e, 6, 8, 4, b"", b""))
    >>> overrides(later, EpochLink(one, right)), overrides(one, EpochLink(later, right))
    (True, False)
    """
    one = link.opening
    if one.kind != LinkKind.REVIVED and link.right == NO_RIGHT and known.seq > 0:
        return True
    return any(excludes(one, epoch, seq - 1) for epoch, seq in places_shown(known))
