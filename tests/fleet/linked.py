"""Releases and links for tests, made as honest nodes make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.ending import Ending, unsigned_ending
from levywalk.fleet.protocol.links import (
    NO_RIGHT,
    EpochLink,
    LinkKind,
    Right,
    operators_word,
    unsigned_link,
)
from levywalk.fleet.protocol.node_state import Signer, Unsigned
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.simulate.virtual import VirtualFleet


def stepped(virtual: VirtualFleet, until: Callable[[], bool]) -> None:
    """Let a virtual fleet go on until something is so, which is soon."""
    for _ in range(20_000):
        if until():
            return
        virtual.step()
    raise AssertionError("it does not happen")


class Hands:
    """Signs in the name of every node; without keys, with the empty signatures of `Unsigned`."""

    def __init__(self, run: bytes, keys: Mapping[int, Signer] | None = None) -> None:
        self.run, self.keys = run, keys

    def of(self, node: int) -> Signer:
        return Unsigned() if self.keys is None else self.keys[node]

    def released(
        self, guardian: int, epoch: Epoch, seq: int, to: int, giver: int, digest: bytes = b""
    ) -> Certificate:
        blank = Certificate(guardian, epoch, seq, to, giver, digest, b"")
        return blank._replace(signature=self.of(guardian).sign(blank.statement(self.run)))

    def word(self, token: Token, node: int, counter: int) -> Certificate:
        blank = operators_word(token, node, counter)
        return blank._replace(signature=self.of(OPERATOR).sign(blank.statement(self.run)))

    def signed(self, link: EpochLink, by: int | None = None) -> EpochLink:
        who = link.epoch.node if by is None else by
        signature = self.of(who).sign(link.opening.statement(self.run))
        return link._replace(opening=link.opening._replace(signature=signature))

    def link(
        self,
        kind: LinkKind,
        token: Token,
        guardian: int,
        parent: Epoch = FIRST,
        right: Right = NO_RIGHT,
    ) -> EpochLink:
        return self.signed(unsigned_link(kind, token, parent, right, guardian))

    def end(self, token: Token, guardian: int, before: int) -> Ending:
        """Return the word of a token's guardian that it is the final one; ``before`` released the
        token.
        """
        release = self.released(before, token.epoch, token.seq - 1, -1, guardian)
        blank = unsigned_ending(guardian, token, Right(release))
        return blank._replace(signature=self.of(guardian).sign(blank.statement(self.run)))

    def first(self, token: Token, guardian: int) -> EpochLink:
        """Return the link of the epoch in which a token is, as the start node made it."""
        begun = token._replace(seq=0, step=0, base=0, version=0)
        return self.link(LinkKind.FIRST, begun, guardian)

    def regenerated(self, token: Token, guardian: int, before: int) -> EpochLink:
        """Return the link of a token that its guardian has restored from the epoch with one counter
        less; ``before`` released it to a third node.
        """
        who = token.epoch.node
        parent = Epoch(token.epoch.counter - 1, 0, before)
        release = self.released(before, parent, token.seq - 1, guardian, who)
        return self.link(LinkKind.REGENERATED, token, guardian, parent, Right(release))
