"""The guardian of a token: it keeps a copy, writes the register, and restores the token when the
holder is dead.
"""

from __future__ import annotations

from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.comparing import Comparing
from levywalk.fleet.protocol.ending import unsigned_ending
from levywalk.fleet.protocol.events import Revive, Silent
from levywalk.fleet.protocol.kept_memory import WITHOUT
from levywalk.fleet.protocol.links import LinkKind, Right, operators_word
from levywalk.fleet.protocol.messages import (
    Alive,
    Certificate,
    Guard,
    Guarding,
    Refused,
    Release,
    Released,
    Renew,
    Renewed,
    Withdraw,
    Withdrawn,
)
from levywalk.fleet.protocol.records import (
    NOBODY,
    REVIVED,
    Archived,
    Began,
    Disk,
    Guarded,
    HeldStatus,
    NewGeneration,
    RegisterValue,
)
from levywalk.fleet.protocol.refusals import AVOIDED
from levywalk.fleet.protocol.token import Epoch, Token


class Guardian(Comparing):
    """What a node does as the guardian of another node's token."""

    def _mine(self, sender: int, epoch: Epoch, seq: int) -> Guarded | None:
        """Return what this node guards for the holder of (epoch, seq), or None."""
        guarded = self.disk.guarded
        if guarded is None or (guarded.copy.epoch, guarded.copy.seq) != (epoch, seq):
            return None
        return guarded if guarded.holder in (sender, NOBODY) else None

    def _release(self, sender: int, message: Release, now: float) -> None:
        """Write the register if it is empty, and answer with the certificate in it."""
        certificate = self._registered(sender, message, now)
        if certificate is not None:
            self._send(sender, Released(certificate))

    def _say_prepared(self, giver: int, token: Token, digest: bytes, now: float) -> None:
        """Tell the giver that the token is on the disk.

        If this node guards what it has prepared, it releases it in the same transaction, and
        answers with the certificate: the giver would ask it for nothing else next, and keeps its
        decision unless this node withdraws it.
        """
        question = Release(token.epoch, token.seq - 1, self.id, digest, token.hops)
        certificate = self._registered(giver, question, now)
        held = self.disk.held
        if certificate is not None and certificate.digest == digest:
            self._send(giver, Released(certificate))
        elif held is not None and held.token.epoch == token.epoch:  # its model is not refused
            super()._say_prepared(giver, token, digest, now)

    def _registered(self, sender: int, message: Release, now: float) -> Certificate | None:
        """Return the certificate in the register, which is written if it is empty; None if there
        is nothing to answer.

        A choice that was withdrawn is not released any more: an old message may ask for it.
        """
        guarded = self._asked(sender, message.epoch, message.seq, now)
        if guarded is None:
            return None
        if guarded.register is None:
            if message.hops <= guarded.withdrawn or not self._may_release(
                sender, guarded, message, now
            ):
                return None
            blank = Certificate(
                self.id, message.epoch, message.seq, message.to, sender, message.digest, b""
            )
            certificate = blank._replace(
                signature=self.signer.sign(blank.statement(self.terms.run))
            )
            self._put("guarded", guarded._replace(register=certificate))
            return certificate
        assert isinstance(guarded.register, Certificate)
        return guarded.register

    def _withdraw(self, sender: int, message: Withdraw, now: float) -> None:
        """Never release the holder's choice, unless it was released before."""
        guarded = self._asked(sender, message.epoch, message.seq, now)
        if guarded is None:
            return
        if isinstance(guarded.register, Certificate):
            self._send(sender, Released(guarded.register))
            return
        if message.hops > guarded.withdrawn:
            self._put("guarded", guarded._replace(withdrawn=message.hops))
        self._send(sender, Withdrawn(*message))

    def _asked(self, sender: int, epoch: Epoch, seq: int, now: float) -> Guarded | None:
        """Return what this node guards for a holder that asks about its choice; None if it is not
        to be answered.
        """
        if self._behind(sender, epoch):
            return None
        guarded = self._mine(sender, epoch, seq)
        if guarded is None or isinstance(guarded.register, RegisterValue):
            return None  # a new epoch is not announced before it is guarded
        self.holder_heard, self.activated = now, True
        return guarded

    def _alive(self, sender: int, message: Alive, now: float) -> None:
        """Note that the holder is alive."""
        if self._behind(sender, message.epoch):
            return
        if self._mine(sender, message.epoch, message.seq) is not None:
            self.holder_heard, self.activated = now, True

    def _renew(self, sender: int, message: Renew, now: float) -> None:
        """Keep a newer copy, if the register is empty; if it is the last one, the walk is over."""
        token = message.token
        if self._behind(sender, token.epoch) or self._lacks_size(sender, token):
            return
        if self.published.refuses(token) is not None:
            return
        guarded = self._mine(sender, token.epoch, token.seq)
        if guarded is not None and guarded.register == RegisterValue.FINISHED:
            self._tell_end(sender)
        if guarded is None or guarded.register is not None:
            return
        self.holder_heard, self.activated = now, True
        if message.last:
            last = token.version >= guarded.copy.version and self.published.ends(token)
            if last and self._may_renew(sender, guarded, token, now):
                self._finish(guarded, token)
            return
        if token.version > guarded.copy.version:
            if not self._may_renew(sender, guarded, token, now):
                return
            self._put("guarded", guarded._replace(copy=token))
            guarded = self.disk.guarded
            assert guarded is not None
        self._send(sender, Renewed(token.epoch, token.seq, guarded.copy.step))

    def _finish(self, guarded: Guarded, token: Token) -> None:
        """Write into the register that the walk is over, and tell the neighbours."""
        blank = unsigned_ending(self.id, token, self._right_to_guard(guarded))
        end = blank._replace(signature=self.signer.sign(blank.statement(self.terms.run)))
        self._put("guarded", guarded._replace(copy=token, register=RegisterValue.FINISHED))
        if self.disk.held is not None:
            self._put("held", None)
        self._put("final", token)
        self._put("end", end)
        self._spread()

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
        if (
            guarded is None
            or isinstance(guarded.register, RegisterValue)
            or self.disk.final is not None
        ):
            return
        if isinstance(guarded.register, Certificate):
            self._pass_on(guarded.register, now)
            return
        copy, held = guarded.copy, self.disk.held
        if held is not None and held.status != HeldStatus.PREPARED:
            return
        self._record(
            "regenerated", epoch=copy.epoch, seq=copy.seq, step=copy.step, holder=guarded.holder
        )
        self._regenerate(guarded, now)

    def _revive(self, event: Revive, now: float) -> None:
        """Make a copy a new epoch, on the operator's signed order.

        It is a restored token like that of a guardian: it is not used before another node guards
        it, and if the operator is wrong, so that a token still lives, that one is of a lower epoch
        and is archived. An empty register of this node is closed in the same transaction, so that
        it never releases what it has given up.
        """
        held, guarded, token = self.disk.held, self.disk.guarded, event.token
        if self.published.refuses(token) is not None:
            return
        if self.disk.final is not None and not event.over:
            return
        why = self._refuses_word(token, event.word)
        if why is not None:
            self._record("refused", sender=OPERATOR, why=why)
            return
        if held is not None and held.status != HeldStatus.PREPARED:
            return
        if guarded is not None and guarded.register is None:
            self._put("guarded", guarded._replace(register=RegisterValue.REGENERATED))
        epoch = event.word.epoch
        self._archive_final(epoch, token.step)
        self._lines.append(Archived(token, REVIVED, epoch, 0))
        self._record("revived", epoch=token.epoch, seq=token.seq, step=token.step)
        lineage = self.published.lineage(token)
        if lineage.since == token.hops > 0:  # see `surviving.token_of`
            numbers = (token.step, token.hops, lineage.generation)
            self._lines.append(NewGeneration(epoch, *numbers, WITHOUT, NOBODY))
        self._keep_given(token, Right(event.word))
        fresh = self.published.reopened(token, epoch, token.epoch)
        if held is None or held.token is not token:
            fresh = fresh._replace(came_from=NOBODY)
        reason = LinkKind.REVIVED, token.epoch, Right(event.word)
        self._seek(fresh, reason, NOBODY, now, avoid=())

    def _refuses_word(self, token: Token, word: Certificate) -> str | None:
        """Return why the operator's signed order does not allow to revive a copy, or None."""
        if word[:6] != operators_word(token, self.id, word.epoch.counter)[:6]:
            return "the operator's signed order is about another copy of the model"
        if word.epoch.counter <= max(self.disk.known.epoch, token.epoch).counter:
            return (
                f"the operator's signed order is for epoch {tuple(word.epoch)}, and epoch "
                f"{tuple(self.disk.known.epoch)} is known; run levywalk fleet revive again"
            )
        return None if self._signed(word) else "the order is not signed with the operator's key"

    def _guard(self, sender: int, message: Guard, now: float) -> None:
        """Become the guardian of a neighbour's token, the first one or a restored one."""
        token = message.token
        if self._behind(sender, token.epoch) or self._lacks_size(sender, token):
            return
        if self.published.refuses(token) is not None:
            return
        if self._avoids(sender):
            self._record("refused", sender=sender, why=AVOIDED)
            self._send(sender, Refused(token.epoch, token.seq, token.digest(), AVOIDED))
            return
        guarded = self.disk.guarded
        if guarded is not None and guarded.copy.epoch == token.epoch:
            if self._mine(sender, token.epoch, token.seq) is not None and guarded.register is None:
                self._send(sender, Guarding(token.epoch, token.seq))
            return
        if self.disk.held is not None and self.disk.held.token.epoch == token.epoch:
            return
        one = message.link.opening
        said = (one.epoch, one.seq, one.step, one.digest, one.guardian)
        here = (token.epoch, token.seq, token.step, token.digest(), self.id)
        if said != here or token.base != token.step or one.epoch.node != sender:
            why = f"the link of epoch {tuple(one.epoch)} is about another token or another guardian"
            self._record("refused", sender=sender, why=why)
            return
        if not self._believes(sender, message.link, now):
            return
        if not self._may_open(sender, message, now):
            return  # the sender is told, and asks another neighbour
        self._overtake(
            message.link
        )  # in one transaction with the copy, so that an announced epoch is guarded
        self._lines.append(
            Began(token.epoch, one.parent, token.base)
        )  # the other node may die before it logs this
        self._keep_given(token, Right(None, one))
        self._put("guarded", Guarded(token, sender, None, None))
        self.holder_heard, self.activated = now, True
        self._send(sender, Guarding(token.epoch, token.seq))
        self._announce_epoch(now)


def best_copy(disk: Disk) -> Token | None:
    """Return the newest token on a disk that the node does not use itself: the copy that it guards,
    or a token that is prepared; None if it has none, or uses one. What a guardian has signed to be
    the end is none.

    Examples
    --------
    >>> from levywalk.fleet.protocol.records import Known, Own
    >>> from levywalk.fleet.protocol.token import FIRST
    >>> best_copy(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})) is None
    True
    """
    held, guarded = disk.held, disk.guarded
    if held is not None and held.status != HeldStatus.PREPARED:
        return None
    over = guarded is not None and guarded.register == RegisterValue.FINISHED
    copies = [] if held is None else [held.token]
    copies += [] if guarded is None or over else [guarded.copy]
    return max(copies, key=lambda token: (token.epoch, token.step, token.seq), default=None)
