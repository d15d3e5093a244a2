"""The guarded hand-off: how the model moves from one node to the next, and how it is restored when
a node dies.

At any time one node holds the token and another node guards it. Both have a copy on disk. The
guardian has a register that is written once per (epoch, seq): *released* to a node, or
*regenerated*. This register decides which token continues. No clock decides that: a guardian that
is too impatient costs some updates, never the model.

What a node holds (`Held.status`), and what comes next:

===========  ==============================  ======================================================
status       meaning                         next
===========  ==============================  ======================================================
PREPARED     on disk, not in use yet         ACTIVE with the guardian's certificate; or replaced by
                                             a later token
ACTIVE       the node updates and decides    MOVING when the decision is another node; final when
                                             the walk is over
MOVING       the decision is on disk         RELEASING when the next node is prepared; ACTIVE (the
                                             model stays) if the next node is dead
RELEASING    no more changes                 with the guardian's certificate the node becomes the
                                             guardian and holds nothing
SEEKING      the first token, or a restored  ACTIVE, or MOVING to repeat a decision, once another
             one; it has no guardian         node guards a copy
===========  ==============================  ======================================================

What a node guards (`Guarded.register`):

=============  ====================================================================================
None           the holder works; if it is silent for longer than ``dead_after``, the guardian
               writes REGENERATED
Certificate    released: the holder may hand the token over, and then becomes the guardian; if it
               is silent, neighbours forward the certificate to the next node, which may not have it
REGENERATED    the copy continues in a new epoch, held by this node with the status SEEKING
=============  ====================================================================================

A node that learns of a higher epoch archives what it holds and guards of lower ones. A new epoch is
announced only after a second node has a copy. Effects are performed in order: what is sent was
persisted before. A restarted node sends again every message that still needs an answer (`Start`).
"""

from __future__ import annotations

from levywalk.fleet.protocol.epochs import Epochs
from levywalk.fleet.protocol.events import Again, Silent, Turn
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certificate,
    Certified,
    Finished,
    Guard,
    Guarding,
    Prepare,
    Prepared,
    Refused,
    Release,
    Released,
    Renew,
    Renewed,
)
from levywalk.fleet.protocol.node_step import visit_of
from levywalk.fleet.protocol.records import (
    NOBODY,
    Began,
    Guarded,
    Held,
    HeldStatus,
    Known,
    RegisterValue,
)
from levywalk.fleet.protocol.token import FIRST, Epoch, Token


class HandOff(Epochs):
    """What a node does as the holder of the token, as the next node, and as the guardian."""

    def _go_on(self, now: float) -> None:
        """Send every message again that still needs an answer, or continue to work."""
        held, guarded = self.disk.held, self.disk.guarded
        self.retry_at = float("inf")
        waits = False
        if held is not None:
            if held.status == HeldStatus.ACTIVE:
                if self._must_renew(held):
                    self._send(held.guardian, Renew(held.token))
                    waits = True
                else:
                    self.out.append(Again())
            elif held.status == HeldStatus.MOVING:
                self._send(held.to, Prepare(self._outgoing(held)[0], held.guardian))
                waits = True
            elif held.status == HeldStatus.RELEASING:
                sent, digest = self._outgoing(held)
                self._send(held.guardian, Release(sent.epoch, held.token.seq, held.to, digest))
                waits = True
            elif held.status == HeldStatus.SEEKING:
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
        """Return whether the next node may still be without its certificate."""
        released = guarded.register is None and guarded.activate is not None
        return released and not self.activated and self.disk.final is None

    # The holder

    def _must_renew(self, held: Held) -> bool:
        """Return whether the guardian needs a newer copy before the next update."""
        return held.token.step - held.copied >= self.terms.renew_after and not held.token.jumping

    def _turn(self, event: Turn, now: float) -> None:
        """Update and decide, until the token must move, the guardian needs a copy, or the walk is
        over.
        """
        held = self.disk.held
        if held is None or held.status != HeldStatus.ACTIVE:
            return
        token, to, self.made = held.token, NOBODY, 0
        while not self.published.ends(token):
            if token.step - held.copied >= self.terms.renew_after and not token.jumping:
                break
            if self.made == self.burst:
                break
            self.made += 1
            if not token.jumping:
                self._lines.append(visit_of(token, self.published.recorded(token.step)))
            token, to = self.site.decide(token)
            if to != self.id:
                break
        if self.made and self.site.memory:
            self._put("memory", self.site.kept())
        if to not in (NOBODY, self.id):
            held = held._replace(status=HeldStatus.MOVING, token=token, to=to)
            self._put("held", held)
            self._send(to, Prepare(self._outgoing(held)[0], held.guardian))
        elif self.published.ends(token):
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
        """Keep the last token, and tell the neighbours, which tell theirs."""
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
        """The next node has the token: change nothing any more, and ask the guardian to release it."""
        held = self.disk.held
        if held is None or held.status != HeldStatus.MOVING or held.to != sender or held.token.epoch != message.epoch:
            return
        sent, digest = self._outgoing(held)
        if (message.seq, message.digest) != (sent.seq, digest):
            return
        self._put("held", held._replace(status=HeldStatus.RELEASING))
        self._send(held.guardian, Release(sent.epoch, held.token.seq, sender, message.digest))
        self.retry_at = now + self.terms.retry

    def _refused(self, sender: int, message: Refused, now: float) -> None:
        """The next node does not accept the token: the model stays, as with a dead node."""
        held = self.disk.held
        if held is None or held.status != HeldStatus.MOVING or held.to != sender or held.token.epoch != message.epoch:
            return
        if message.digest == self._outgoing(held)[1]:
            self._stay(held, message.why)

    def _stay(self, held: Held, why: str) -> None:
        """Keep the model because it cannot go to the chosen node.

        Nothing was released, so no other node can have the token.
        """
        self._record("stayed", to=held.to, why=why)
        self._put("held", held._replace(status=HeldStatus.ACTIVE, to=NOBODY))
        self._commit()
        self.out.append(Again())

    def _released(self, sender: int, message: Released, now: float) -> None:
        """The guardian has released the token: become its guardian, and activate it at the next
        node.
        """
        held, certificate = self.disk.held, message.certificate
        if held is None or held.status != HeldStatus.RELEASING or sender != held.guardian:
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

    def _renewed(self, sender: int, message: Renewed, now: float) -> None:
        """The guardian has the new copy: continue."""
        held = self.disk.held
        if held is None or held.guardian != sender or (held.token.epoch, held.token.seq) != message[:2]:
            return
        if held.copied < message.step <= held.token.step:
            held = held._replace(copied=message.step)
            self._put("held", held)
            if held.status == HeldStatus.ACTIVE:
                self._commit()
                self._go_on(now)

    def _guarding(self, sender: int, message: Guarding, now: float) -> None:
        """Another node guards a copy: start to work with the token, and announce its epoch."""
        held = self.disk.held
        if held is None or held.status != HeldStatus.SEEKING or held.guardian != sender:
            return
        token = held.token
        if (token.epoch, token.seq) != message[:2]:
            return
        self._lines.append(Began(token.epoch, held.parent, token.step))
        self._put("held", held._replace(status=HeldStatus.ACTIVE if held.to == NOBODY else HeldStatus.MOVING))
        self._put("known", Known(token.epoch, token.base))
        self._record("began", epoch=token.epoch, step=token.step, guardian=sender)
        self._announce(now)
        self._go_on(now)

    def _without_guardian(self, held: Held, now: float) -> None:
        """Continue in a new epoch because the guardian is gone.

        A decision that was made is kept.
        """
        self._record("guardian gone", guardian=held.guardian, epoch=held.token.epoch)
        parent = held.parent if held.status == HeldStatus.SEEKING else held.token.epoch
        self._bring_back(held.token, parent, held.to, now, avoid=(held.guardian,))

    # The next node

    def _prepare(self, sender: int, message: Prepare, now: float) -> None:
        """Store a token without using it yet."""
        token = message.token
        if self._behind(sender, token.epoch):
            return
        why = self.published.refuses(token) or ("the node is leaving" if self.disk.own.leaving else None)
        if why is not None:
            self._record("refused", sender=sender, why=why)
            self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
            return
        self._see(token.epoch, token.base, now)
        held, guarded = self.disk.held, self.disk.guarded
        if self.disk.final is not None:
            return  # an old message: the walk is over
        if guarded is not None and guarded.copy.epoch == token.epoch and guarded.copy.seq >= token.seq:
            return  # an old message: this token was here and was handed over
        if held is not None:
            if held.status != HeldStatus.PREPARED:
                return  # an old message: this token or a later one is in use here
            if held.token.epoch == token.epoch and (held.token.seq, held.token.hops) > (token.seq, token.hops):
                return
            if self._digest(held.token) == token.digest():  # a repeated message; the stored giver is kept
                self._send(sender, Prepared(token.epoch, token.seq, self._digest(held.token)))
                return
        self._put("held", Held(HeldStatus.PREPARED, token, message.guardian, sender, NOBODY, token.step, FIRST))
        self._send(sender, Prepared(token.epoch, token.seq, self._digest(token)))

    def _activate(self, sender: int, message: Activate, now: float) -> None:
        """Start to work with the prepared token, since its certificate has arrived.

        The sender guards it.
        """
        held, certificate = self.disk.held, message.certificate
        if self._behind(sender, certificate.epoch) or held is None:
            return
        if held.status == HeldStatus.PREPARED:
            if held.giver in (sender, NOBODY):
                self._come_alive(held, certificate, now)
        elif held.guardian == sender and (held.token.epoch, held.token.seq) == (certificate.epoch, certificate.seq + 1):
            self._send(sender, Alive(held.token.epoch, held.token.seq))

    def _come_alive(self, held: Held, certificate: Certificate, now: float) -> None:
        """Start to work with a prepared token if the certificate is for it.

        If the node that sent the token is gone, do so in a new epoch.
        """
        token = held.token
        if certificate[:5] != (held.guardian, token.epoch, token.seq - 1, self.id, self._digest(token)):
            return
        if not self._signed(certificate):
            self._record("refused", sender=held.giver, why="the certificate is not the guardian's")
            return
        if held.giver == NOBODY:
            self._bring_back(token, token.epoch, NOBODY, now, avoid=())
            return
        self._put("held", Held(HeldStatus.ACTIVE, token, held.giver, NOBODY, NOBODY, token.step, FIRST))
        self.out.append(Again())  # the next message to the giver, or the answer to its next one, tells it

    def _certified(self, sender: int, message: Certified, now: float) -> None:
        """Use or forward a certificate that the silent sender of a token could not deliver."""
        if not self._behind(sender, message.certificate.epoch):
            self._pass_on(message.certificate, now)

    def _pass_on(self, certificate: Certificate, now: float) -> None:
        """Use a certificate, or forward it towards the node that it names.

        Its sender is silent and may be dead.
        """
        held, word = self.disk.held, self.word
        if held is not None and held.status == HeldStatus.PREPARED:
            self._come_alive(held, certificate, now)
        if self._used(certificate) or (word is not None and certificate[1:3] <= word[1:3]):
            return
        if self._signed(certificate):
            self.word = certificate
            self._speak()

    def _used(self, word: Certificate) -> bool:
        """Return whether no node can need this certificate any more: this node knows of a later
        token.
        """
        held, guarded, final = self.disk.held, self.disk.guarded, self.disk.final
        if word.epoch < self.disk.known.epoch or (final is not None and word.epoch <= final.epoch):
            return True
        lives = (
            held is not None
            and held.token.epoch == word.epoch
            and held.token.seq > word.seq + (held.status == HeldStatus.PREPARED)
        )
        return lives or (guarded is not None and guarded.copy.epoch == word.epoch and guarded.copy.seq > word.seq + 1)

    def _speak(self) -> None:
        """Send the certificate that is to be forwarded to all neighbours, until it is known to be
        used.
        """
        if self.word is not None and self._used(self.word):
            self.word = None
        if self.word is not None:
            for u in self.neighbours:
                self._send(u, Certified(self.word))

    # The guardian

    def _mine(self, sender: int, epoch: Epoch, seq: int) -> Guarded | None:
        """Return what this node guards for the holder of (epoch, seq), or None."""
        guarded = self.disk.guarded
        if guarded is None or (guarded.copy.epoch, guarded.copy.seq) != (epoch, seq):
            return None
        return guarded if guarded.holder in (sender, NOBODY) else None

    def _release(self, sender: int, message: Release, now: float) -> None:
        """Write the register if it is empty, and answer with the certificate in it."""
        if self._behind(sender, message.epoch):
            return
        guarded = self._mine(sender, message.epoch, message.seq)
        if guarded is None or guarded.register == RegisterValue.REGENERATED:
            return  # a new epoch is not announced before it is guarded
        self.holder_heard, self.activated = now, True
        certificate = guarded.register
        if certificate is None:
            blank = Certificate(self.id, message.epoch, message.seq, message.to, message.digest, b"")
            certificate = blank._replace(signature=self.signer.sign(blank.statement(self.terms.run)))
            self._put("guarded", guarded._replace(register=certificate))
        assert isinstance(certificate, Certificate)
        self._send(sender, Released(certificate))

    def _alive(self, sender: int, message: Alive, now: float) -> None:
        """Note that the holder is alive."""
        if self._behind(sender, message.epoch):
            return
        if self._mine(sender, message.epoch, message.seq) is not None:
            self.holder_heard, self.activated = now, True

    def _renew(self, sender: int, message: Renew, now: float) -> None:
        """Keep a newer copy, if the register is empty."""
        token = message.token
        if self._behind(sender, token.epoch) or self.published.refuses(token) is not None:
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

    def _seems_dead(self, guarded: Guarded, now: float) -> bool:
        """Return whether the holder is silent.

        If it may have handed the token over, any message counts as a sign of life.
        """
        if guarded.register is None:
            return now - self.holder_heard > self.terms.dead_after
        return not self._hears(guarded.holder, now)

    def _silent(self, event: Silent, now: float) -> None:
        """Restore the token from the copy: write the register, and find a guardian before the new
        epoch is announced. If the register says that the token was released, forward the
        certificate: the next node has the token and may not have its certificate.
        """
        guarded = self.disk.guarded
        if guarded is None or guarded.register == RegisterValue.REGENERATED or self.disk.final is not None:
            return
        if isinstance(guarded.register, Certificate):
            self._pass_on(guarded.register, now)
            return
        copy, held = guarded.copy, self.disk.held
        if held is not None and held.status != HeldStatus.PREPARED:
            return
        self._put("guarded", guarded._replace(register=RegisterValue.REGENERATED))
        self._record("regenerated", epoch=copy.epoch, seq=copy.seq, step=copy.step, holder=guarded.holder)
        self._bring_back(copy, copy.epoch, NOBODY, now, avoid=(guarded.holder,))

    def _guard(self, sender: int, message: Guard, now: float) -> None:
        """Become the guardian of a neighbour's token, the first one or a restored one."""
        token = message.token
        if self._behind(sender, token.epoch) or self.published.refuses(token) is not None:
            return
        guarded = self.disk.guarded
        if guarded is not None and guarded.copy.epoch == token.epoch:
            if self._mine(sender, token.epoch, token.seq) is not None and guarded.register is None:
                self._send(sender, Guarding(token.epoch, token.seq))
            return
        if self.disk.held is not None and self.disk.held.token.epoch == token.epoch:
            return
        self._overtake(
            token.epoch, token.base
        )  # in one transaction with the copy, so that an announced epoch is guarded
        self._lines.append(Began(token.epoch, message.parent, token.base))  # the other node may die before it logs this
        self._put("guarded", Guarded(token, sender, None, None))
        self.holder_heard, self.activated = now, True
        self._send(sender, Guarding(token.epoch, token.seq))
        self._announce(now)
