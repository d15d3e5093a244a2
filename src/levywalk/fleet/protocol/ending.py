"""The end of a walk: the value *finished* of the guardian's register, signed.

The holder asks its guardian, which can do nothing else from then on: what is finished is neither
released nor regenerated. Other nodes accept the end with the guardian's signature and the `Right`
that made it the guardian, signed by another node.

A guardian can still lie: a former one about a register that says *released*, the present one about
a token that its holder still works with. So nodes refuse an end if they know that the walk went on
(`went_on`), and the holder, which knows best, then continues in a higher epoch, for which all
others give up the false end.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.links import Right, Verifier
from levywalk.fleet.protocol.token import Epoch, Token

_END = struct.Struct("<6q")


class Ending(NamedTuple):
    """A guardian's statement that the walk is over, with what made it the guardian."""

    guardian: int
    epoch: Epoch
    seq: int
    step: int
    digest: bytes  # hash of the final token
    signature: bytes
    right: Right

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed."""
        numbers = _END.pack(self.guardian, *self.epoch, self.seq, self.step)
        return b"end|" + run + b"|" + numbers + self.digest


def unsigned_ending(guardian: int, token: Token, right: Right) -> Ending:
    """Return the statement about a final token, without a signature yet."""
    return Ending(guardian, token.epoch, token.seq, token.step, token.digest(), b"", right)


def went_on(end: Ending, release: Certificate) -> bool:
    """Return whether a release, if it is true, shows that the walk continued after this end.

    An honest node never signs both: registers are written once, and nothing of an epoch is released
    after its end.

    Examples
    --------
    >>> e = Epoch(0, 0, 3)
    >>> end = Ending(4, e, 7, 300, b"", b"", Right())
    >>> release = Certificate(4, e, 7, 6, 3, b"", b"")
    >>> went_on(end, release), went_on(end, release._replace(seq=6))
    (True, False)
    """
    by_guardian = release.guardian != OPERATOR
    return by_guardian and release.epoch == end.epoch and release.seq >= end.seq


def refuses_ending(end: Ending, token: Token, run: bytes, keys: Verifier) -> str | None:
    """Return why other nodes do not accept that the walk is over with this token, or None."""
    right = end.right
    signed = right.release or right.link
    if (end.epoch, end.seq, end.step, end.digest) != (
        *(token.epoch, token.seq, token.step),
        token.digest(),
    ):
        return "the reported end of the walk is that of another token"
    if signed is None or right.signer in (None, end.guardian) or (right.release and right.link):
        return f"node {end.guardian} gives no proof that it is the guardian"
    if right.place != (end.epoch, end.seq) or right.guardian != end.guardian:
        return (
            f"the proof of node {end.guardian} does not make it the guardian of hand-off "
            f"{end.seq} of epoch {tuple(end.epoch)}"
        )
    assert right.signer is not None
    if not keys.verify(end.guardian, end.statement(run), end.signature):
        return f"the end of the walk is not signed by node {end.guardian}"
    if not keys.verify(right.signer, signed.statement(run), signed.signature):
        return f"the proof that it is the guardian is not signed by node {right.signer}"
    return None
