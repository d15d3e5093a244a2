"""The state of one node, and the effects that its state machine asks for."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from levywalk.fleet.protocol.events import Effect, Event, Notice, Persist, Send
from levywalk.fleet.protocol.messages import Certificate, Message
from levywalk.fleet.protocol.node_step import Neighbour, NodeSite, PublishedWalk
from levywalk.fleet.protocol.records import Disk, Held, HeldStatus, Line
from levywalk.fleet.protocol.starts import NeighbourStart, Starts, start_name
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Token

_NEVER = float("-inf")


class Signer(Protocol):
    """Signs certificates as this node, and checks the signatures of all nodes."""

    def sign(self, statement: bytes) -> bytes:
        """Return this node's signature."""

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether the node has signed the statement."""


class Unsigned:
    """No signatures, for tests of the protocol and where the transport is trusted."""

    def sign(self, statement: bytes) -> bytes:
        """Return an empty signature."""
        return b""

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Accept every signature."""
        return True


class NodeState:
    """The state of one node, and the helpers that all parts of its protocol use.

    Parameters
    ----------
    site
        The node's data and key, and its step of the walk.
    terms
        The times and rules of the hand-off.
    disk
        What the node remembers; after a crash, what was persisted.
    """

    def __init__(
        self, site: NodeSite, terms: HandOffTerms, disk: Disk, signer: Signer | None = None
    ) -> None:
        self.site, self.terms, self.disk = site, terms, disk
        self.signer: Signer = Unsigned() if signer is None else signer
        self.id = site.node
        # Only in memory, and lost in a crash: who was heard when, and which answers are awaited.
        self.heard: dict[int, float] = {}
        self.holder_heard = 0.0
        self.tick_at = self.retry_at = self.timer_at = float("inf")
        self.activated = False
        self.ready: Token | None = None  # held, and known to be prepared at the next node
        # What the token here waits for, and since when: the next node's answer or the guardian's.
        self.waits_about: tuple[object, ...] = ()
        self.waits_since = 0.0
        # how often in a row a neighbour that runs has not taken the model
        self.not_taken: dict[int, int] = {}
        self.burst: int | None = (
            None  # most decisions in one turn, so that messages are not kept waiting
        )
        self.made = 0  # number of decisions in the last turn
        self.told: dict[int, bytes] = {}  # by neighbour: which end of the walk it knows
        self.word: Certificate | None = (
            None  # certificate to forward because its receiver may not have got it
        )
        self.refuted = 0  # the highest epoch of a link that the disk has shown to be false
        self.acknowledged: set[int] = set()  # neighbours that know this node's new degree
        # What was seen of the neighbours: ahead of the disk until the next write (`witnesses`).
        self.sightings: dict[int, NeighbourStart] = (
            {} if disk.starts is None else dict(disk.starts.seen)
        )
        self.saw_more = False
        self.awaited: set[int] = set()  # neighbours without whose answers it must not act
        self.ungreeted: set[int] = set()  # neighbours that have not answered the greeting
        self.postponed: list[Event] = []  # what the operator asked for while answers are awaited
        self.started_at = 0.0
        self.start_name = 0 if disk.chain is None else start_name(disk.chain.links)
        self.out: list[Effect] = []
        self._changed: dict[str, object] = {}
        self._lines: list[Line] = []
        self._hashed: tuple[Token | None, bytes] = (None, b"")
        self._sent: tuple[Token | None, Token, bytes] = (None, Token.first(np.zeros(0)), b"")

    @property
    def published(self) -> PublishedWalk:
        """What is published about the walk, for the fleet's present size."""
        return self.site.published

    def _put(self, slot: str, value: object) -> None:
        setattr(self.disk, slot, value)
        self._changed[slot] = value

    def _commit(self) -> None:
        """Persist all changes so far.

        This happens before any message is sent that depends on them.
        """
        starts = self.disk.starts
        if starts is not None:
            seen = dict(self.sightings) if self.saw_more else starts.seen
            self.saw_more = False
            origin, number, commits, fenced, _ = starts  # `_replace` takes three times as long
            self._put("starts", Starts(origin, number, commits + 1, fenced, seen))
        self.out.append(Persist(self._changed, tuple(self._lines)))
        self._changed, self._lines = {}, []

    def _send(self, to: int, message: Message) -> None:
        if self._changed:
            self._commit()
        starts = self.disk.starts
        if starts is None:
            self.out.append(Send(to, message))
        else:
            commit = 0 if self.awaited else starts.commits
            self.out.append(Send(to, message, self.start_name, commit))

    def _record(self, what: str, **about: object) -> None:
        self.out.append(Notice(what, about))

    def _digest(self, token: Token) -> bytes:
        """Return the hash of a token, computed once, since it takes time for a large model."""
        if self._hashed[0] is not token:
            self._hashed = (token, token.digest())
        return self._hashed[1]

    def _outgoing(self, held: Held) -> tuple[Token, bytes]:
        """Return the token in the form that is sent to the next node, and its hash."""
        if self._sent[0] is not held.token or self._sent[1].seq != held.token.seq + 1:
            sent = held.token.handed_over(self.id, held.to)
            self._sent = (held.token, sent, sent.digest())
        return self._sent[1:]

    def _signed(self, certificate: Certificate) -> bool:
        """Return whether the guardian has signed a certificate, which may be this node itself."""
        guarded = self.disk.guarded
        if guarded is not None and guarded.register == certificate:
            return True
        return self.signer.verify(
            certificate.guardian, certificate.statement(self.terms.run), certificate.signature
        )

    def _look(self) -> None:
        """Pass the edge records on to the walk's step."""
        degree = self.disk.own.degree
        joined = [(u, edge) for u, edge in sorted(self.disk.edges.items()) if edge.joined]
        around = [
            Neighbour(u, degree if u == self.id else e.degree, e.scores, e.up) for u, e in joined
        ]
        self.site.know(around, degree)

    def _avoids(self, u: int) -> bool:
        """Return whether a node is avoided, because models that it has sent were refused."""
        return self.disk.refusals is not None and u in self.disk.refusals.avoided

    @property
    def neighbours(self) -> list[int]:
        """The neighbours of this node, without the node itself."""
        return [u for u in self.disk.edges if u != self.id]

    def _hears(self, u: int, now: float) -> bool:
        return now - self.heard.get(u, _NEVER) <= self.terms.dead_after

    def part_received(self, u: int, now: float) -> None:
        """Note a sign of life of a neighbour. Every part of a long message counts as one."""
        self.heard[u] = now
        if self.disk.guarded is not None and self.disk.guarded.holder == u:
            self.holder_heard = now

    def _idle(self) -> bool:
        """Return whether this node neither holds nor guards a live token."""
        held, guarded = self.disk.held, self.disk.guarded
        return (held is None or held.status == HeldStatus.PREPARED) and (
            guarded is None or guarded.register is not None
        )
