"""The guarded hand-off as a pure state machine: events in, effects out; no I/O, no clock, no randomness of its own.

At any time one node holds the token and another one guards it; both have a copy on disk. The guardian owns a register
that is written once per (epoch, seq): *released* to a node, or *regenerated*. That register decides who goes on, and no
clock does: a guardian that is too impatient costs work, never the model.

What a node holds (`Held.status`) and what changes it:

===========  ================================  =========================================================================
status       meaning                           goes on to
===========  ================================  =========================================================================
PREPARED     a token on disk, inert            ACTIVE with the guardian's certificate; forgotten for a later one
ACTIVE       updates and decides               MOVING when a decision leads away; final when the walk is over
MOVING       the choice is on disk             RELEASING when the next node has prepared; ACTIVE (a stay) if it is dead
RELEASING    frozen                            nothing, as the new guardian, with the certificate of the old one
SEEKING      brought back, or the first        ACTIVE (or MOVING, to redo a choice) once another node guards a copy
===========  ================================  =========================================================================

What a node guards (`Guarded.register`):

=============  =======================================================================================================
None           the holder is at work; its silence for longer than ``dead_after`` leads to REGENERATED
Certificate    released: the holder may pass the token on, and guards it from then on; if it is silent the certificate
               goes from neighbour to neighbour until it is at the next node, which may never have got it
REGENERATED    the copy goes on in a new epoch, held by this node as SEEKING
=============  =======================================================================================================

Whoever learns of a higher epoch archives what it holds and guards of lower ones. An epoch is not spoken of before a
second node has its copy. Effects are performed in order; what is sent was persisted before, and a restarted node sends
again what it is still waiting for (`Start`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from levywalk import checks
from levywalk.fleet.protocol.events import (
    Again,
    Effect,
    Event,
    Genesis,
    Gone,
    Got,
    Joins,
    Leaves,
    Persist,
    Reached,
    Record,
    Send,
    SetTimer,
    Silent,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certificate,
    Certified,
    Fenced,
    Finished,
    Guard,
    Guarding,
    Heartbeat,
    Message,
    Prepare,
    Prepared,
    Refused,
    Release,
    Released,
    Renew,
    Renewed,
)
from levywalk.fleet.protocol.node_step import Course, Here, Neighbour, visit_of
from levywalk.fleet.protocol.records import Archived, Began, Disk, Edge, Guarded, Held, Known, Line
from levywalk.fleet.protocol.token import FIRST, Epoch, Token

PREPARED, ACTIVE, MOVING, RELEASING, SEEKING = "prepared", "active", "moving", "releasing", "seeking"
REGENERATED = "regenerated"
WAIT, EAGER = "wait", "eager"
NOBODY = -1


@dataclass(frozen=True)
class Terms:
    """What all nodes agree on about hand-offs.

    Attributes
    ----------
    renew_after
        K: a permanent death loses at most so many updates.
    policy
        When the guardian is gone and the holder lives: "wait" for it, or be "eager" and go on at the risk of a fork.
    heartbeat, dead_after, retry
        In seconds.

    Examples
    --------
    >>> Terms(run=b"test").dead_after
    60.0
    """

    run: bytes
    renew_after: int = 100
    policy: str = WAIT
    heartbeat: float = 5.0
    dead_after: float = 60.0
    retry: float = 1.0

    def __post_init__(self) -> None:
        checks.integer("renew_after", self.renew_after, low=1)
        checks.choice("policy", self.policy, (WAIT, EAGER))
        for name in ("heartbeat", "dead_after", "retry"):
            checks.positive(name, getattr(self, name))


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


class Node:
    """One node's protocol. ``receive(event, now)`` returns the effects, to be performed in order.

    Parameters
    ----------
    here
        Its data and key: what it does with the model.
    terms
        What all nodes agree on.
    disk
        What it knows; after a crash, what was persisted.
    """

    def __init__(self, here: Here, terms: Terms, disk: Disk, signer: Signer | None = None) -> None:
        self.here, self.terms, self.disk = here, terms, disk
        self.signer: Signer = Unsigned() if signer is None else signer
        self.id = here.node
        self.course: Course = here.course
        # What a crash may take: what was heard when, what is waited for.
        self.heard: dict[int, float] = {}
        self.holder_heard = 0.0
        self.tick_at = self.retry_at = self.timer_at = float("inf")
        self.activated = False
        self.burst: int | None = None  # decisions of one turn, after which others are to be heard
        self.made = 0  # decisions of the last turn
        self.told: set[int] = set()  # who is known to have the end
        self.word: Certificate | None = None  # of a silent giver, to be passed on
        self.out: list[Effect] = []
        self._changed: dict[str, object] = {}
        self._lines: list[Line] = []
        self._hashed: tuple[Token | None, bytes] = (None, b"")
        self._sent: tuple[Token | None, Token, bytes] = (None, Token.first(np.zeros(0)), b"")
        self.acknowledged: set[int] = set()  # who knows of the larger degree
        self._answers: dict[type, Callable[..., None]] = {
            Prepare: self._prepare,
            Prepared: self._prepared,
            Refused: self._refused,
            Release: self._release,
            Released: self._released,
            Activate: self._activate,
            Certified: self._certified,
            Alive: self._alive,
            Renew: self._renew,
            Renewed: self._renewed,
            Guard: self._guard,
            Guarding: self._guarding,
            Fenced: self._fenced,
            Heartbeat: self._heartbeat,
            Finished: self._finished,
        }
        self._events: dict[type, Callable[..., None]] = {
            Got: self._got,
            Turn: self._turn,
            Timer: self._timer,
            Start: self._start,
            Genesis: self._genesis,
            Reached: self._reached,
            Silent: self._silent,
            Gone: self._gone,
            Joins: self._joins,
            Leaves: self._leaves,
        }
        self._look()

    def receive(self, event: Event, now: float) -> list[Effect]:
        """Take in one event; return what is to be done."""
        self.out = []
        self._events[type(event)](event, now)
        if self._changed:  # a handler that changes the disk without a message
            self._commit()
        at = min(self.tick_at, self.retry_at)
        if at < self.timer_at or self.timer_at <= now:
            self.timer_at = at
            self.out.append(SetTimer(at))
        return self.out

    # Small helpers

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

    def _record(self, what: str, **about: object) -> None:
        self.out.append(Record(what, about))

    def _look(self) -> None:
        """Tell the walk what the edge records say."""
        degree = self.disk.own.degree
        joined = [(u, edge) for u, edge in sorted(self.disk.edges.items()) if edge.joined]
        around = [Neighbour(u, degree if u == self.id else e.degree, e.scores, e.up) for u, e in joined]
        self.here.know(around, degree)

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

    def _got(self, event: Got, now: float) -> None:
        """Take in a message of a neighbour; nobody else has anything to say."""
        if event.sender not in self.disk.edges or event.sender == self.id:
            self._record("refused", sender=event.sender, why="not a neighbour")
            return
        self.heard[event.sender] = now
        self._answers[type(event.message)](event.sender, event.message, now)

    # Beginning

    def _start(self, event: Start, now: float) -> None:
        """Begin again: nothing is forgotten but who was heard when; go on where the disk says."""
        self.heard = dict.fromkeys(self.neighbours, now)
        self.holder_heard = now
        self.tick_at = now
        self._go_on(now)

    def _reached(self, event: Reached, now: float) -> None:
        """Give a neighbour that is there again a sign of life, and say again what is waited for."""
        if event.node in self.disk.edges:
            self.heard[event.node] = now
            self._beat(event.node, now)
            self._go_on(now)

    def _genesis(self, event: Genesis, now: float) -> None:
        """Bear the first token, unless this was done before; it needs a guardian before it moves."""
        if self.disk.known.epoch != FIRST or self.disk.held is not None or self.disk.final is not None:
            return
        token = event.token._replace(epoch=Epoch(0, 0, self.id))
        self._seek(token, FIRST, NOBODY, now, avoid=())

    def _go_on(self, now: float) -> None:
        """Say again what is waited for."""
        held, guarded = self.disk.held, self.disk.guarded
        self.retry_at = float("inf")
        waits = False
        if held is not None:
            if held.status == ACTIVE:
                if self._must_renew(held):
                    self._send(held.guardian, Renew(held.token))
                    waits = True
                else:
                    self.out.append(Again())
            elif held.status == MOVING:
                self._send(held.to, Prepare(self._outgoing(held)[0], held.guardian))
                waits = True
            elif held.status == RELEASING:
                sent, digest = self._outgoing(held)
                self._send(held.guardian, Release(sent.epoch, held.token.seq, held.to, digest))
                waits = True
            elif held.status == SEEKING:
                if held.guardian == NOBODY:
                    self._choose_guardian(held, now)
                else:
                    self._send(held.guardian, Guard(held.token, held.parent))
                waits = True
        if guarded is not None and self._not_begun(guarded):
            assert guarded.activate is not None
            self._send(guarded.holder, Activate(guarded.activate))
            waits = True
        if waits:
            self.retry_at = now + self.terms.retry

    def _not_begun(self, guarded: Guarded) -> bool:
        """Whether the next node may still be without its certificate."""
        released = guarded.register is None and guarded.activate is not None
        return released and not self.activated and self.disk.final is None

    # The holder

    def _must_renew(self, held: Held) -> bool:
        """Whether the guardian's copy is too old for another update."""
        return held.token.step - held.copied >= self.terms.renew_after and not held.token.jumping

    def _turn(self, event: Turn, now: float) -> None:
        """Update and decide, until the token has to leave, the guardian needs a copy, or the walk is over."""
        held = self.disk.held
        if held is None or held.status != ACTIVE:
            return
        token, to, self.made = held.token, NOBODY, 0
        while not self.course.ends(token):
            if token.step - held.copied >= self.terms.renew_after and not token.jumping:
                break
            if self.made == self.burst:
                break
            self.made += 1
            if not token.jumping:
                self._lines.append(visit_of(token, self.course.recorded(token.step)))
            token, to = self.here.decide(token)
            if to != self.id:
                break
        if to not in (NOBODY, self.id):
            held = held._replace(status=MOVING, token=token, to=to)
            self._put("held", held)
            self._send(to, Prepare(self._outgoing(held)[0], held.guardian))
        elif self.course.ends(token):
            self._end(token)
            return
        else:
            held = held._replace(token=token)
            self._put("held", held)
            if not self._must_renew(held):
                self._commit()
                self.out.append(Again())
                return
            self._send(held.guardian, Renew(token))
        self.retry_at = now + self.terms.retry

    def _end(self, token: Token) -> None:
        """Keep the last token, and tell the neighbours, who tell theirs."""
        self._lines.append(visit_of(token, True))
        self._put("held", None)
        self._put("final", token)
        self._record("finished", step=token.step, epoch=token.epoch)
        self._spread(token)

    def _spread(self, token: Token) -> None:
        for u in self.neighbours:
            if u not in self.told:
                self._send(u, Finished(token))

    def _prepared(self, sender: int, message: Prepared, now: float) -> None:
        """The next node has the token: freeze, and ask the guardian to release it."""
        held = self.disk.held
        if held is None or held.status != MOVING or held.to != sender or held.token.epoch != message.epoch:
            return
        sent, digest = self._outgoing(held)
        if (message.seq, message.digest) != (sent.seq, digest):
            return
        self._put("held", held._replace(status=RELEASING))
        self._send(held.guardian, Release(sent.epoch, held.token.seq, sender, message.digest))
        self.retry_at = now + self.terms.retry

    def _refused(self, sender: int, message: Refused, now: float) -> None:
        """The next node will not take the token: stay, as with a dead one."""
        held = self.disk.held
        if held is None or held.status != MOVING or held.to != sender or held.token.epoch != message.epoch:
            return
        if message.digest == self._outgoing(held)[1]:
            self._stay(held, message.why)

    def _stay(self, held: Held, why: str) -> None:
        """Turn a choice that leads nowhere into a stay; nothing was released, so nobody else can have the token."""
        self._record("stayed", to=held.to, why=why)
        self._put("held", held._replace(status=ACTIVE, to=NOBODY))
        self._commit()
        self.out.append(Again())

    def _released(self, sender: int, message: Released, now: float) -> None:
        """The register says yes: guard the token from now on, and let the next node begin."""
        held, certificate = self.disk.held, message.certificate
        if held is None or held.status != RELEASING or sender != held.guardian:
            return
        sent, digest = self._outgoing(held)
        expected = (held.guardian, sent.epoch, held.token.seq, held.to, digest)
        if certificate[:5] != expected or not self._signed(certificate):
            return
        self._put("guarded", Guarded(sent, held.to, None, certificate))
        self._put("held", None)
        self.holder_heard, self.activated = now, False
        self._send(held.to, Activate(certificate))
        self.retry_at = now + self.terms.retry

    def _signed(self, certificate: Certificate) -> bool:
        return self.signer.verify(certificate.guardian, certificate.statement(self.terms.run), certificate.signature)

    def _renewed(self, sender: int, message: Renewed, now: float) -> None:
        """The guardian's copy is new: go on."""
        held = self.disk.held
        if held is None or held.guardian != sender or (held.token.epoch, held.token.seq) != message[:2]:
            return
        if held.copied < message.step <= held.token.step:
            held = held._replace(copied=message.step)
            self._put("held", held)
            if held.status == ACTIVE:
                self._commit()
                self._go_on(now)

    # The next node

    def _prepare(self, sender: int, message: Prepare, now: float) -> None:
        """Keep an inert token on disk."""
        token = message.token
        if self._behind(sender, token.epoch):
            return
        why = self.course.refuses(token) or ("the node is leaving" if self.disk.own.leaving else None)
        if why is not None:
            self._record("refused", sender=sender, why=why)
            self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
            return
        self._see(token.epoch, token.base, now)
        held, guarded = self.disk.held, self.disk.guarded
        if self.disk.final is not None:
            return  # it was here before, or somewhere else, and came to its end
        if guarded is not None and guarded.copy.epoch == token.epoch and guarded.copy.seq >= token.seq:
            return  # it was here before, and went on
        if held is not None:
            if held.status != PREPARED:
                return  # it is here, or a later one
            if held.token.epoch == token.epoch and (held.token.seq, held.token.hops) > (token.seq, token.hops):
                return
            if self._digest(held.token) == token.digest():  # asked again; that the giver is gone is not forgotten
                self._send(sender, Prepared(token.epoch, token.seq, self._digest(held.token)))
                return
        self._put("held", Held(PREPARED, token, message.guardian, sender, NOBODY, token.step, FIRST))
        self._send(sender, Prepared(token.epoch, token.seq, self._digest(token)))

    def _activate(self, sender: int, message: Activate, now: float) -> None:
        """With the certificate the token comes to life; the sender guards it."""
        held, certificate = self.disk.held, message.certificate
        if self._behind(sender, certificate.epoch) or held is None:
            return
        if held.status == PREPARED:
            if held.giver in (sender, NOBODY):
                self._come_alive(held, certificate, now)
        elif held.guardian == sender and (held.token.epoch, held.token.seq) == (certificate.epoch, certificate.seq + 1):
            self._send(sender, Alive(held.token.epoch, held.token.seq))

    def _come_alive(self, held: Held, certificate: Certificate, now: float) -> None:
        """Begin to work on a prepared token, if the certificate is for it; if its giver is gone, in a new epoch."""
        token = held.token
        if certificate[:5] != (held.guardian, token.epoch, token.seq - 1, self.id, self._digest(token)):
            return
        if not self._signed(certificate):
            self._record("refused", sender=held.giver, why="the certificate is not the guardian's")
            return
        if held.giver == NOBODY:
            self._bring_back(token, token.epoch, NOBODY, now, avoid=())
            return
        self._put("held", Held(ACTIVE, token, held.giver, NOBODY, NOBODY, token.step, FIRST))
        self.out.append(Again())  # the giver hears of it by what is asked of it next, or when it asks again

    def _certified(self, sender: int, message: Certified, now: float) -> None:
        """Use, or pass on, what a guardian has decided when the giver could not say so."""
        if not self._behind(sender, message.certificate.epoch):
            self._pass_on(message.certificate, now)

    def _pass_on(self, certificate: Certificate, now: float) -> None:
        """Bring a certificate closer to the node that it names. (The giver is silent: it may be dead.)"""
        held, word = self.disk.held, self.word
        if held is not None and held.status == PREPARED:
            self._come_alive(held, certificate, now)
        if self._used(certificate) or (word is not None and certificate[1:3] <= word[1:3]):
            return
        if self._signed(certificate):
            self.word = certificate
            self._speak()

    def _used(self, word: Certificate) -> bool:
        """Whether nobody can be waiting for a certificate: what is here is later than the token that it released."""
        held, guarded, final = self.disk.held, self.disk.guarded, self.disk.final
        if word.epoch < self.disk.known.epoch or (final is not None and word.epoch <= final.epoch):
            return True
        lives = (
            held is not None
            and held.token.epoch == word.epoch
            and held.token.seq > word.seq + (held.status == PREPARED)
        )
        return lives or (guarded is not None and guarded.copy.epoch == word.epoch and guarded.copy.seq > word.seq + 1)

    def _speak(self) -> None:
        """Tell all neighbours the certificate that is to be passed on, until it is used as far as is known here."""
        if self.word is not None and self._used(self.word):
            self.word = None
        if self.word is not None:
            for u in self.neighbours:
                self._send(u, Certified(self.word))

    # The guardian

    def _mine(self, sender: int, epoch: Epoch, seq: int) -> Guarded | None:
        """Return what this node guards for a holder of (epoch, seq), if it does."""
        guarded = self.disk.guarded
        if guarded is None or (guarded.copy.epoch, guarded.copy.seq) != (epoch, seq):
            return None
        return guarded if guarded.holder in (sender, NOBODY) else None

    def _release(self, sender: int, message: Release, now: float) -> None:
        """Write the register, once, and say what it holds."""
        if self._behind(sender, message.epoch):
            return
        guarded = self._mine(sender, message.epoch, message.seq)
        if guarded is None or guarded.register == REGENERATED:
            return  # of a new epoch nothing is said before it is guarded
        self.holder_heard, self.activated = now, True
        certificate = guarded.register
        if certificate is None:
            blank = Certificate(self.id, message.epoch, message.seq, message.to, message.digest, b"")
            certificate = blank._replace(signature=self.signer.sign(blank.statement(self.terms.run)))
            self._put("guarded", guarded._replace(register=certificate))
        assert isinstance(certificate, Certificate)
        self._send(sender, Released(certificate))

    def _alive(self, sender: int, message: Alive, now: float) -> None:
        """The holder is at work."""
        if self._behind(sender, message.epoch):
            return
        if self._mine(sender, message.epoch, message.seq) is not None:
            self.holder_heard, self.activated = now, True

    def _renew(self, sender: int, message: Renew, now: float) -> None:
        """Keep a newer copy, while the register is unwritten."""
        token = message.token
        if self._behind(sender, token.epoch) or self.course.refuses(token) is not None:
            return
        guarded = self._mine(sender, token.epoch, token.seq)
        if guarded is None or guarded.register is not None:
            return
        self.holder_heard, self.activated = now, True
        if token.version > guarded.copy.version:
            self._put("guarded", guarded._replace(copy=token))
            guarded = self.disk.guarded
            assert guarded is not None
        self._send(sender, Renewed(token.epoch, token.seq, guarded.copy.step))

    def _silent(self, event: Silent, now: float) -> None:
        """Bring the token back: write the register, and seek a guardian for the copy before anybody hears of it.

        If the register says that the token was released, it lies at the next node, which may never have heard so.
        """
        guarded = self.disk.guarded
        if guarded is None or guarded.register == REGENERATED or self.disk.final is not None:
            return
        if isinstance(guarded.register, Certificate):
            self._pass_on(guarded.register, now)
            return
        copy, held = guarded.copy, self.disk.held
        if held is not None and held.status != PREPARED:
            return
        self._put("guarded", guarded._replace(register=REGENERATED))
        self._record("regenerated", epoch=copy.epoch, seq=copy.seq, step=copy.step, holder=guarded.holder)
        self._bring_back(copy, copy.epoch, NOBODY, now, avoid=(guarded.holder,))

    def _bring_back(self, token: Token, parent: Epoch, to: int, now: float, avoid: Sequence[int]) -> None:
        """Let a copy live on in an epoch of its own."""
        counter = max(self.disk.known.epoch.counter, token.epoch.counter) + 1
        fresh = token._replace(epoch=Epoch(counter, token.seq, self.id), base=token.step)
        self._seek(fresh, parent, to, now, avoid)

    def _seek(self, token: Token, parent: Epoch, to: int, now: float, avoid: Sequence[int]) -> None:
        """Hold a token that has no guardian yet; it stays where it is until it has one."""
        held = Held(SEEKING, token, NOBODY, NOBODY, to, token.step, parent)
        self._put("held", held)
        self._choose_guardian(held, now, avoid)
        self.retry_at = now + self.terms.retry

    def _choose_guardian(self, held: Held, now: float, avoid: Sequence[int] = ()) -> None:
        """Pick a neighbour that is there. The choice is on disk before it is told: there is never a second guardian."""
        around = [u for u in self.neighbours if self.disk.edges[u].up and self._hears(u, now)]
        choice = [u for u in around if u not in avoid] or around
        if choice:
            guardian = max(choice, key=lambda u: (self.heard.get(u, 0.0), -u))
            self._put("held", held._replace(guardian=guardian))
            self._send(guardian, Guard(held.token, held.parent))

    def _guard(self, sender: int, message: Guard, now: float) -> None:
        """Become the guardian of a token that was born or brought back at a neighbour."""
        token = message.token
        if self._behind(sender, token.epoch) or self.course.refuses(token) is not None:
            return
        guarded = self.disk.guarded
        if guarded is not None and guarded.copy.epoch == token.epoch:
            if self._mine(sender, token.epoch, token.seq) is not None and guarded.register is None:
                self._send(sender, Guarding(token.epoch, token.seq))
            return
        if self.disk.held is not None and self.disk.held.token.epoch == token.epoch:
            return
        self._overtake(token.epoch, token.base)  # in one commit with the copy: what is announced is guarded
        self._lines.append(Began(token.epoch, message.parent, token.base))  # the seeker may not live to log it
        self._put("guarded", Guarded(token, sender, None, None))
        self.holder_heard, self.activated = now, True
        self._send(sender, Guarding(token.epoch, token.seq))
        self._announce(now)

    def _guarding(self, sender: int, message: Guarding, now: float) -> None:
        """The copy is safe: the token lives, and the epoch may be spoken of."""
        held = self.disk.held
        if held is None or held.status != SEEKING or held.guardian != sender:
            return
        token = held.token
        if (token.epoch, token.seq) != message[:2]:
            return
        self._lines.append(Began(token.epoch, held.parent, token.step))
        self._put("held", held._replace(status=ACTIVE if held.to == NOBODY else MOVING))
        self._put("known", Known(token.epoch, token.base))
        self._record("began", epoch=token.epoch, step=token.step, guardian=sender)
        self._announce(now)
        self._go_on(now)

    # Epochs

    def _behind(self, sender: int, epoch: Epoch) -> bool:
        """Answer a message of a lower epoch than the highest one known here."""
        known = self.disk.known
        if epoch < known.epoch:
            self._send(sender, Fenced(known.epoch, known.base))
            return True
        return False

    def _fenced(self, sender: int, message: Fenced, now: float) -> None:
        self._see(message.epoch, message.base, now)

    def _see(self, epoch: Epoch, base: int, now: float) -> None:
        """Take note of an epoch; archive what a higher one has overtaken, and pass the news on."""
        if epoch > self.disk.known.epoch:
            self._overtake(epoch, base)
            self._announce(now)

    def _overtake(self, epoch: Epoch, base: int) -> None:
        """Archive what is held and guarded of lower epochs."""
        held, guarded, final = self.disk.held, self.disk.guarded, self.disk.final
        if held is not None and held.token.epoch < epoch:
            if held.status != PREPARED:
                lost = max(0, held.token.step - base)
                self._lines.append(Archived(held.token, held.status, epoch, lost))
                self._record("archived", epoch=held.token.epoch, by=epoch, lost=lost)
            self._put("held", None)
        if guarded is not None and guarded.copy.epoch < epoch:
            if guarded.register is None:
                lost = max(0, guarded.copy.step - base)
                self._lines.append(Archived(guarded.copy, "guarded", epoch, lost))
                if not self.activated:  # the next node may never have begun, and so not say what is lost
                    self._record("archived", epoch=guarded.copy.epoch, by=epoch, lost=lost)
            self._put("guarded", None)
        if final is not None and final.epoch < epoch:
            self._lines.append(Archived(final, "final", epoch, max(0, final.step - base)))
            self._put("final", None)
            self.told = set()
        self._put("known", Known(epoch, base))

    # Signs of life

    def _announce(self, now: float) -> None:
        for u in self.neighbours:
            self._beat(u, now)

    def _beat(self, u: int, now: float) -> None:
        disk, edge = self.disk, self.disk.edges[u]
        self._send(
            u,
            Heartbeat(
                disk.known.epoch,
                disk.known.base,
                disk.final is not None,
                self._hears(u, now) and not self._has_left(),
                edge.version,
                edge.up,
                max(disk.own.degree, disk.own.pending),
                edge.degree,
                self.here.scores,
            ),
        )

    def _timer(self, event: Timer, now: float) -> None:
        if now >= self.tick_at:
            self.tick_at = now + self.terms.heartbeat
            self._tick(now)
        if now >= self.retry_at:
            self._go_on(now)

    def _tick(self, now: float) -> None:
        """Look who is silent, and give signs of life."""
        for u in list(self.neighbours):
            edge = self.disk.edges[u]
            if edge.up and not self._hears(u, now):
                self._set_edge(u, edge._replace(version=edge.version + 1, up=False))
                self._record("edge down", node=u)
        held, guarded = self.disk.held, self.disk.guarded
        if held is not None and held.status != PREPARED and held.guardian != NOBODY:
            if not self._hears(held.guardian, now) and self.terms.policy == EAGER:
                self._without_guardian(held, now)
            elif held.status != SEEKING:
                self._send(held.guardian, Alive(held.token.epoch, held.token.seq))
        held = self.disk.held
        if held is not None and held.status == MOVING and not self.disk.edges[held.to].up:
            self._stay(held, "the node is dead")
        if guarded is not None and self._seems_dead(guarded, now):
            self._silent(Silent(), now)
        self._speak()
        if self._has_left():
            self._take_edges_down()
        self._announce(now)

    def _seems_dead(self, guarded: Guarded, now: float) -> bool:
        """Whether the holder is silent; of one that may have passed the token on, anything is a sign of life."""
        if guarded.register is None:
            return now - self.holder_heard > self.terms.dead_after
        return not self._hears(guarded.holder, now)

    def _without_guardian(self, held: Held, now: float) -> None:
        """Go on in a new epoch when the guardian will not come back; the choice is kept."""
        self._record("guardian gone", guardian=held.guardian, epoch=held.token.epoch)
        parent = held.parent if held.status == SEEKING else held.token.epoch
        self._bring_back(held.token, parent, held.to, now, avoid=(held.guardian,))

    def _gone(self, event: Gone, now: float) -> None:
        """The operator's word on a node: bring the token back if it held it, replace it if it guarded it."""
        self.heard[event.node] = float("-inf")
        edge = self.disk.edges.get(event.node)
        if edge is not None and (edge.up or edge.degree > 1):  # if it comes back, it may be with fewer edges
            self._set_edge(event.node, edge._replace(version=edge.version + edge.up, up=False, degree=1))
        held, guarded = self.disk.held, self.disk.guarded
        if held is not None and held.status == PREPARED and held.giver == event.node:
            self._put("held", held._replace(giver=NOBODY))  # with a certificate it will need another guardian
        if held is not None and held.status != PREPARED and held.guardian == event.node:
            self._without_guardian(held, now)
        elif guarded is not None and guarded.holder == event.node:
            if isinstance(guarded.register, Certificate):  # to be passed on from now on, also after a crash
                self._put("guarded", guarded._replace(holder=NOBODY))
            self._silent(Silent(), now)

    # Edges and members

    def _set_edge(self, u: int, edge: Edge) -> None:
        self._put("edges", self.disk.edges | {u: edge})
        self._look()

    def _heartbeat(self, sender: int, message: Heartbeat, now: float) -> None:
        """Hear a neighbour: its epoch, its view of our edge, its degree; and tell it the end if it has not heard."""
        self._see(message.epoch, message.base, now)
        self._agree(sender, self.disk.edges[sender], message, now)
        if message.finished:
            self.told.add(sender)
        elif self.disk.final is not None:
            self._send(sender, Finished(self.disk.final))

    def _agree(self, u: int, edge: Edge, message: Heartbeat, now: float) -> None:
        """Bring both ends of an edge to one record: the newer one, and of two equally new ones *down*."""
        version, up = edge.version, edge.up
        if message.edge_version > version:
            version, up = message.edge_version, message.edge_up
        elif message.edge_version == version:
            up = up and message.edge_up
        settled = message.edge_version == version and message.edge_up == up
        if not up and settled and message.heard and self.id < u and not self._has_left():
            version, up = version + 1, True  # one end alone brings an edge up again
        degree = max(edge.degree, message.degree)  # it never falls: a smaller one comes from an old message
        fresh = Edge(version, up, degree, message.scores, edge.joined)
        if fresh != edge:
            self._set_edge(u, fresh)
            if up != edge.up:
                self._record("edge up" if up else "edge down", node=u)
            self._beat(u, now)
        self._grow(u, message, now)

    def _grow(self, u: int, message: Heartbeat, now: float) -> None:
        """Use a larger degree once every live neighbour has it on disk, also one whose edge may come up at any time."""
        own = self.disk.own
        if not own.pending:
            return
        if message.known_degree == own.pending:
            self.acknowledged.add(u)
        live = {u for u in self.neighbours if self.disk.edges[u].up or self._hears(u, now)}
        if live <= self.acknowledged:
            self._put("own", own._replace(degree=own.pending, pending=0))
            self._put("edges", {v: edge._replace(joined=True) for v, edge in self.disk.edges.items()})
            self._look()

    def _joins(self, event: Joins, now: float) -> None:
        """Add an edge; it counts when every live neighbour knows the new degree."""
        if event.node in self.disk.edges:
            return
        own = self.disk.own
        self.acknowledged.clear()
        self._put("own", own._replace(pending=max(own.degree, own.pending) + 1))
        self._set_edge(event.node, Edge(0, False, 1, self.here.scores, joined=False))
        self._beat(event.node, now)

    def _leaves(self, event: Leaves, now: float) -> None:
        """Take no token any more; once none is held or guarded here, take the edges down."""
        self._put("own", self.disk.own._replace(leaving=True))
        self._record("leaving")
        self._announce(now)

    def _idle(self) -> bool:
        """Whether the walk does not need this node at present."""
        held, guarded = self.disk.held, self.disk.guarded
        return (held is None or held.status == PREPARED) and (guarded is None or guarded.register is not None)

    def _has_left(self) -> bool:
        """Whether this node is leaving and free to go; until then its edges work, or it could not pass a token on."""
        return self.disk.own.leaving and self._idle()

    def _take_edges_down(self) -> None:
        down = {
            u: edge._replace(version=edge.version + 1, up=False)
            for u, edge in self.disk.edges.items()
            if edge.up and u != self.id
        }
        if down:
            self._put("edges", self.disk.edges | down)
            self._look()
            self._record("left")

    def _finished(self, sender: int, message: Finished, now: float) -> None:
        """Keep the end and pass it on."""
        token = message.token
        if self._behind(sender, token.epoch) or self.course.refuses(token) is not None or not self.course.ends(token):
            return
        held = self.disk.held
        if held is not None and held.token.epoch > token.epoch:
            return  # brought back meanwhile: somebody may guard it, or guarded an earlier try, and speak of it
        self.told.add(sender)
        self._see(token.epoch, token.base, now)
        if self.disk.final is None:
            self._put("final", token)
            if self.disk.held is not None:
                self._put("held", None)
            self._spread(token)
            self._announce(now)
