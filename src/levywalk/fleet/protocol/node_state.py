"""What a node's state machine works on: its disk, what it has heard, and the effects that it wants done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from levywalk.fleet.protocol.events import Effect, Notice, Persist, Send
from levywalk.fleet.protocol.messages import Certificate, Message
from levywalk.fleet.protocol.node_step import Neighbour, NodeSite, PublishedWalk
from levywalk.fleet.protocol.records import Disk, Held, HeldStatus, Line
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Token


class Signer(Protocol):
    """How certificates are signed, and checked whoever signed them."""

    def sign(self, statement: bytes) -> bytes:
        """Return this node's signature."""

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether the node has signed that."""


class Unsigned:
    """No signatures: for tests of the protocol, and where the transport is trusted."""

    def sign(self, statement: bytes) -> bytes:
        """Return nothing."""
        return b""

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Believe everything."""
        return True


class NodeState:
    """The state of one node, and the small steps that all parts of its protocol are made of.

    Parameters
    ----------
    site
        Its data and key: what it does with the model.
    terms
        What all nodes agree on.
    disk
        What it knows; after a crash, what was persisted.
    """

    def __init__(self, site: NodeSite, terms: HandOffTerms, disk: Disk, signer: Signer | None = None) -> None:
        self.site, self.terms, self.disk = site, terms, disk
        self.signer: Signer = Unsigned() if signer is None else signer
        self.id = site.node
        self.published: PublishedWalk = site.published
        # What a crash may take: what was heard when, what is waited for.
        self.heard: dict[int, float] = {}
        self.holder_heard = 0.0
        self.tick_at = self.retry_at = self.timer_at = float("inf")
        self.activated = False
        self.burst: int | None = None  # decisions of one turn, after which others are to be heard
        self.made = 0  # decisions of the last turn
        self.told: set[int] = set()  # who is known to have the end
        self.word: Certificate | None = None  # of a silent giver, to be passed on
        self.acknowledged: set[int] = set()  # who knows of the larger degree
        self.out: list[Effect] = []
        self._changed: dict[str, object] = {}
        self._lines: list[Line] = []
        self._hashed: tuple[Token | None, bytes] = (None, b"")
        self._sent: tuple[Token | None, Token, bytes] = (None, Token.first(np.zeros(0)), b"")

    def _put(self, slot: str, value: object) -> None:
        setattr(self.disk, slot, value)
        self._changed[slot] = value

    def _commit(self) -> None:
        """Make what was put durable, before anything is sent that rests on it."""
        self.out.append(Persist(self._changed, tuple(self._lines)))
        self._changed, self._lines = {}, []

    def _send(self, to: int, message: Message) -> None:
        if self._changed:
            self._commit()
        self.out.append(Send(to, message))

    def _record(self, what: str, **about: object) -> None:
        self.out.append(Notice(what, about))

    def _digest(self, token: Token) -> bytes:
        """Return the token's hash, which costs time for a large model, once."""
        if self._hashed[0] is not token:
            self._hashed = (token, token.digest())
        return self._hashed[1]

    def _outgoing(self, held: Held) -> tuple[Token, bytes]:
        """Return the token as the next node gets it, and its hash."""
        if self._sent[0] is not held.token or self._sent[1].seq != held.token.seq + 1:
            sent = held.token.handed_over(self.id, held.to)
            self._sent = (held.token, sent, sent.digest())
        return self._sent[1:]

    def _signed(self, certificate: Certificate) -> bool:
        return self.signer.verify(certificate.guardian, certificate.statement(self.terms.run), certificate.signature)

    def _look(self) -> None:
        """Tell the walk what the edge records say."""
        degree = self.disk.own.degree
        joined = [(u, edge) for u, edge in sorted(self.disk.edges.items()) if edge.joined]
        around = [Neighbour(u, degree if u == self.id else e.degree, e.scores, e.up) for u, e in joined]
        self.site.know(around, degree)

    @property
    def neighbours(self) -> Iterable[int]:
        """The nodes at the other ends of its edges, without itself."""
        return (u for u in self.disk.edges if u != self.id)

    def _hears(self, u: int, now: float) -> bool:
        return now - self.heard.get(u, float("-inf")) <= self.terms.dead_after

    def stirred(self, u: int, now: float) -> None:
        """Take note that a neighbour lives; of a long message every part is a sign of life."""
        self.heard[u] = now
        if self.disk.guarded is not None and self.disk.guarded.holder == u:
            self.holder_heard = now

    def _idle(self) -> bool:
        """Whether the walk does not need this node at present."""
        held, guarded = self.disk.held, self.disk.guarded
        return (held is None or held.status == HeldStatus.PREPARED) and (
            guarded is None or guarded.register is not None
        )
