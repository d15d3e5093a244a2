"""Tokens as they were given to a node, which its disk keeps if guardians compare models.

What makes a node holder or guardian is signed by another node, and has the hash of a token: a
release, the link that names it as the first guardian, or the operator's order. The node keeps that
token, as it was, for as long as it holds or guards a result of it. If it opens an epoch, it shows
that token to the new guardian, which can then compare (`update_check.refuses_opening`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levywalk.fleet.protocol.links import Right
from levywalk.fleet.protocol.token import Token


def named(right: Right) -> bytes:
    """Return the hash of the token that a right is about; nothing if it is the first one."""
    signed = right.release or right.link
    return b"" if signed is None else signed.digest


class GivenTokens(NamedTuple):
    """The tokens, the newest one last: of what the node holds, of what it guards, and at most one
    more, until the next one is given to it.
    """

    tokens: tuple[Token, ...] = ()

    def of(self, right: Right) -> Token | None:
        """Return the token that a right is about, if it is kept.

        Examples
        --------
        >>> import numpy as np
        >>> first = Token.first(np.zeros(2))
        >>> GivenTokens((first,)).of(Right()) is first
        True
        """
        wanted = named(right)
        for token in self.tokens:
            if (token.step, token.seq) == (0, 0) if not wanted else token.digest() == wanted:
                return token
        return None

    def kept(self, token: Token, rights: Iterable[Right]) -> GivenTokens:
        """Return the tokens with one more, without those that no right is about."""
        more = GivenTokens((*self.tokens, token))
        found = {id(one): one for right in rights if (one := more.of(right)) is not None}
        return GivenTokens(tuple(one for one in more.tokens if id(one) in found))


NOTHING_GIVEN = GivenTokens()
