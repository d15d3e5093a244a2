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
ACTIVE       the node updates and decides    MOVING when the decision is another node; ENDING when
                                             the walk is over
MOVING       the decision is on disk; when   with the guardian's certificate the node becomes the
             the next node is prepared, the  guardian and holds nothing; WITHDRAWING if the next
             guardian is asked for the       node is dead or does not accept the token
             release
WITHDRAWING  the next node is not asked any  ACTIVE (the model stays) if the guardian has withdrawn
             more; the guardian is asked to  the decision; with the guardian's certificate it goes
             withdraw the decision           on as if it were MOVING
ENDING       no more changes                 the guardian says that the walk is finished
SEEKING      the first token, or a restored  ACTIVE, or MOVING to repeat a decision, once another
             one; it has no guardian         node guards a copy
===========  ==============================  ======================================================

If the next node is the guardian itself, `Prepare` asks for the release as well: it writes the token
and the register in one transaction, and answers with the certificate.

That the guardian was asked for the release is on no disk. So a node never knows that it was not
asked, and the model stays only if the guardian answers `Withdrawn`: then no message on its way,
however old, can release this decision, nor an earlier one (`Guarded.withdrawn`). If the guardian
had released the token before, it answers with the certificate.

What a node guards (`Guarded.register`):

=============  ====================================================================================
None           the holder works; if it is silent for longer than ``dead_after``, the guardian
               writes REGENERATED
Certificate    released: the holder may hand the token over, and then becomes the guardian; if it
               is silent, neighbours forward the certificate to the next node, which may not have it
REGENERATED    the copy continues in a new epoch, held by this node with the status SEEKING: the
               holder was silent, or has sent a model that was refused (`comparing`)
FINISHED       the copy is the final token
=============  ====================================================================================

A node that learns of a higher epoch archives what it holds and guards of lower ones. A new epoch is
announced only after a second node has a copy. Effects are performed in order: what is sent was
persisted before. A restarted node sends again every message that still needs an answer (`Start`).
"""

from __future__ import annotations

from levywalk.fleet.protocol.events import Turn, TurnRequest
from levywalk.fleet.protocol.links import LinkKind, Right
from levywalk.fleet.protocol.messages import (
    Activate,
    Guard,
    Guarding,
    Prepare,
    Prepared,
    Refused,
    Released,
    Renew,
    Renewed,
    Withdraw,
    Withdrawn,
)
from levywalk.fleet.protocol.records import NOBODY, Began, Guarded, Held, HeldStatus
from levywalk.fleet.protocol.remembering import Remembering
from levywalk.fleet.protocol.token import Epoch, Token

_CHOSEN = (HeldStatus.MOVING, HeldStatus.WITHDRAWING)
_SLOWEST = 1e5  # bytes per second: a line on which a large model may still arrive
_PASSES = 64  # decisions of a node without data in one turn: no update ends its stay


class HandOff(Remembering):
    """What a node does as the holder of the token.

    `Guardian` and `NextNode` are its other two roles.
    """

    def _go_on(self, now: float) -> None:
        """Send every message that still needs an answer again, or continue to work."""
        held, guarded = self.disk.held, self.disk.guarded
        self.retry_at = float("inf")
        waits = False
        if held is not None:
            if held.status == HeldStatus.ACTIVE:
                if self._must_renew(held):
                    self._send(held.guardian, Renew(held.token))
                    waits = True
                else:
                    self.out.append(TurnRequest())
            elif held.status == HeldStatus.MOVING and self.ready is held.token:
                self._send(held.guardian, self._release_of(held))
                waits = True
            elif held.status == HeldStatus.MOVING:
                self._send(held.to, Prepare(self._outgoing(held)[0], held.guardian))
                waits = True
            elif held.status == HeldStatus.WITHDRAWING:
                self._send(held.guardian, Withdraw(*_choice(held.token)))
                waits = True
            elif held.status == HeldStatus.ENDING:
                self._send(held.guardian, Renew(held.token, last=True))
                waits = True
            elif held.status == HeldStatus.SEEKING:
                if held.guardian == NOBODY:
                    self._choose_guardian(held, now)
                else:
                    assert held.link is not None
                    shown = self._given(held.link.right)
                    self._send(held.guardian, Guard(held.token, held.link, shown))
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

    def _needs_answer(self) -> int:
        """Return the node whose answer the token here needs; NOBODY if it needs none."""
        held = self.disk.held
        if held is None or held.status == HeldStatus.PREPARED:
            return NOBODY
        if held.status == HeldStatus.MOVING and self.ready is not held.token:
            return held.to
        if held.status == HeldStatus.ACTIVE and not self._must_renew(held):
            return NOBODY
        return held.guardian

    def _asked_for(self) -> tuple[object, ...]:
        """Return whose answer the token here needs, and about what; () if it needs none."""
        held, node = self.disk.held, self._needs_answer()
        if held is None or node == NOBODY:
            return ()
        return (node, held.status, *_choice(held.token), held.token.step)

    def _note_waiting(self, now: float) -> None:
        """Note since when the token here needs the same answer."""
        about = self._asked_for()
        if about != self.waits_about:
            self.waits_about, self.waits_since = about, now

    def unanswered(self, now: float) -> tuple[int, float] | None:
        """Return which node has not given the answer that the token here needs, and for how many
        seconds; None if it needs none, or asks for none before its neighbours have confirmed its
        disk.
        """
        about = self._asked_for()
        if not about or self.awaited:
            return None
        return self._needs_answer(), now - self.waits_since if about == self.waits_about else 0.0

    def keeps_waiting(self, node: int, seconds: float) -> bool:
        """Return whether a node has not answered for long, or has not taken the model before."""
        return seconds > self.terms.dead_after or node in self.not_taken

    def _asked_too_long(self, now: float) -> bool:
        """Return whether the next node has had enough time to answer, even on a slow line.

        It may say that it lives, and not answer; one that has started again, and waits for its
        neighbours, refuses after ``dead_after``.
        """
        size = self.published.method.token_bytes
        return now - self.waits_since > 2 * self.terms.dead_after + size / _SLOWEST

    def _must_renew(self, held: Held) -> bool:
        """Return whether the guardian needs a newer copy before the next update."""
        return held.token.step - held.copied >= self.terms.renew_after and not held.token.jumping

    def _over(self, token: Token) -> bool:
        """Return whether the walk ends here, which it does at a node with data only."""
        return self.site.updates(token) and self.published.ends(token)

    def _turn(self, event: Turn, now: float) -> None:
        """Update and decide, until the token must move, the guardian needs a copy, or the walk is
        over.
        """
        held = self.disk.held
        if held is None or held.status != HeldStatus.ACTIVE:
            return
        token, to, self.made = held.token, NOBODY, 0
        self._recall_spent()
        lines, asking = len(self._lines), False
        while not self._over(token):
            if token.step - held.copied >= self.terms.renew_after and not token.jumping:
                break
            if self.made == self.burst or (self.site.idle and self.made == _PASSES):
                break
            if not self.made:
                token = self._with_size(token)
                if self.site.remembers:
                    token = self._recall(token)
            decided = self._decided(token, now)
            if decided is None:
                asking = True
                break
            self.made, lines = self.made + 1, len(self._lines)
            token, to = decided
            if to != self.id:
                break
        if asking:  # what else this visit has brought about waits for the answers
            del self._lines[lines:]
        if self.site.remembers and self.made:
            moves = to not in (NOBODY, self.id)  # the next node gets a copy, used or not
            firm = moves or self._must_renew(held._replace(token=token))
            self._keep_memory(token, firm=firm)
        self._keep_spent(held.token)
        if to not in (NOBODY, self.id):
            held = held._replace(status=HeldStatus.MOVING, token=token, to=to)
            self._put("held", held)
            self._send(to, Prepare(self._outgoing(held)[0], held.guardian))
        elif self._over(token):
            self._lines += self.site.lines(token, True)
            self._put("held", held._replace(status=HeldStatus.ENDING, token=token, to=NOBODY))
            self._send(held.guardian, Renew(token, last=True))
        else:
            if self.made or not asking:
                held = held._replace(token=token)
                self._put("held", held)
            if asking:
                self._put_questions(now)
            elif not self._must_renew(held):
                self._commit()
                if self.site.stuck:  # nothing changes here before a neighbour is back
                    self.retry_at = now + self.terms.retry
                else:
                    self.out.append(TurnRequest())
                return
            else:
                self._send(held.guardian, Renew(token))
        self.retry_at = now + self.terms.retry

    def think_ahead(self) -> tuple[Token, Prepare] | None:
        """Make the decision about a prepared token while its certificate is on its way; return the
        token that will be written and the message that will be sent, if it goes to another node.

        Nothing changes: if the token comes into use, the same is computed again, and found to be
        known.
        """
        held, size = self.disk.held, self.disk.size
        if held is None or held.status != HeldStatus.PREPARED or self._over(held.token):
            return None
        if size is not None and held.token.size != size.version:
            return None  # the visit will use another token
        decided = self.site.decide_ahead(held.token)
        if decided is None or decided[1] == self.id:
            return None
        moving = held._replace(token=decided[0], to=decided[1])
        return decided[0], Prepare(self._outgoing(moving)[0], held.giver)

    def _prepared(self, sender: int, message: Prepared, now: float) -> None:
        """The next node has the token: ask the guardian to release it."""
        held = self.disk.held
        if (
            held is None
            or held.status != HeldStatus.MOVING
            or held.to != sender
            or held.token.epoch != message.epoch
        ):
            return
        sent, digest = self._outgoing(held)
        if (message.seq, message.digest) != (sent.seq, digest):
            return
        self.ready = held.token
        self.not_taken.pop(sender, None)
        self._send(held.guardian, self._release_of(held))
        self.retry_at = now + self.terms.retry

    def _refused(self, sender: int, message: Refused, now: float) -> None:
        """The next node does not accept the token: the model is to stay, as with a dead node."""
        if self._not_guarded(sender, message, now):
            return
        held = self.disk.held
        if (
            held is None
            or held.status != HeldStatus.MOVING
            or held.to != sender
            or held.token.epoch != message.epoch
            or self.ready is held.token  # an old message: it has accepted the token
        ):
            return
        if message.digest == self._outgoing(held)[1]:
            self._give_up(held, message.why, now)

    def _give_up(self, held: Held, why: str, now: float) -> None:
        """Ask the guardian not to release the token, since it cannot go to the chosen node."""
        self._unwanted(held, why)
        self._send(held.guardian, Withdraw(*_choice(held.token)))
        self.retry_at = now + self.terms.retry

    def _unwanted(self, held: Held, why: str) -> Held:
        """Note that a token cannot go to the chosen node, which is not asked any more: it may have
        worked with the token, and lost its disk since.
        """
        self._record("gives up", to=held.to, why=why)
        held = held._replace(status=HeldStatus.WITHDRAWING)
        self._put("held", held)
        return held

    def _withdrawn(self, sender: int, message: Withdrawn, now: float) -> None:
        """Keep the model: no other node has the token, nor will it get it by this decision."""
        held = self.disk.held
        if held is None or held.status != HeldStatus.WITHDRAWING or sender != held.guardian:
            return
        if message != Withdrawn(*_choice(held.token)):
            return
        self._record("stayed", to=held.to)
        self._put("held", held._replace(status=HeldStatus.ACTIVE, to=NOBODY))
        self._commit()
        self.out.append(TurnRequest())

    def _released(self, sender: int, message: Released, now: float) -> None:
        """The guardian has released the token: become its guardian, and activate it at the next
        node.
        """
        held, certificate = self.disk.held, message.certificate
        if held is None or held.status not in _CHOSEN or sender != held.guardian:
            return
        sent, digest = self._outgoing(held)
        expected = (held.guardian, sent.epoch, held.token.seq, held.to, self.id, digest)
        if certificate[:6] != expected or not self._signed(certificate):
            return
        self._put("guarded", Guarded(sent, held.to, None, certificate))
        self._put("held", None)
        self.not_taken.pop(held.to, None)
        self._keep_given(sent, Right(certificate))
        self.holder_heard, self.activated = now, False
        self._send(held.to, Activate(certificate))
        self.retry_at = now + self.terms.retry

    def _renewed(self, sender: int, message: Renewed, now: float) -> None:
        """The guardian has the new copy: continue."""
        held = self.disk.held
        if (
            held is None
            or held.guardian != sender
            or (held.token.epoch, held.token.seq) != message[:2]
        ):
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
        self._put(
            "held",
            held._replace(status=HeldStatus.ACTIVE if held.to == NOBODY else HeldStatus.MOVING),
        )
        self._know(token.epoch, token.base, held.link)
        self._record("began", epoch=token.epoch, step=token.step, guardian=sender)
        self._announce_epoch(now)
        self._go_on(now)

    def _without_guardian(self, held: Held, now: float) -> None:
        """Continue in a new epoch because the guardian is gone.

        A decision that was made is kept.
        """
        self._record("guardian gone", guardian=held.guardian, epoch=held.token.epoch)
        if held.status == HeldStatus.SEEKING and held.link is not None:
            kind = held.link.opening.kind
            if kind == LinkKind.FIRST:  # which is for the lowest epoch alone
                kind = LinkKind.GUARDIAN_REPLACED
            reason = kind, held.parent, held.right
        else:
            reason = LinkKind.GUARDIAN_REPLACED, held.token.epoch, held.right
        self._bring_back(held.token, reason, held.to, now, avoid=(held.guardian,))


def _choice(token: Token) -> tuple[Epoch, int, int]:
    """Return which decision a token was chosen to move by."""
    return token.epoch, token.seq, token.hops
