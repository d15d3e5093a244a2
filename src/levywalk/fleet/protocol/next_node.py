"""The next node of a hand-off: it prepares the token, and activates it with the guardian's
certificate.
"""

from __future__ import annotations

from levywalk.fleet.protocol.events import TurnRequest
from levywalk.fleet.protocol.links import NO_RIGHT, LinkKind, Right
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certificate,
    Certified,
    Finished,
    Prepare,
    Prepared,
    Refused,
)
from levywalk.fleet.protocol.records import NOBODY, Held, HeldStatus
from levywalk.fleet.protocol.refusals import AVOIDED
from levywalk.fleet.protocol.resizing import Resizing
from levywalk.fleet.protocol.token import FIRST, Token


class NextNode(Resizing):
    """What a node does as the next node: prepare, activate, and forward certificates."""

    def _prepare(self, sender: int, message: Prepare, now: float) -> None:
        """Store a token without using it yet."""
        token = message.token
        if self._behind(sender, token.epoch) or self._lacks_size(sender, token):
            return
        why = self.published.refuses(token) or (
            "the node is leaving" if self.disk.own.leaving else None
        )
        if why is None and self._avoids(sender):
            why = AVOIDED
        if why is None and message.guardian == sender:
            why = f"node {sender} cannot guard a token that it hands over itself"
        if why is not None:
            self._record("refused", sender=sender, why=why)
            self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
            return
        if self._ahead(sender, token.epoch, now):
            return
        held, guarded = self.disk.held, self.disk.guarded
        if self.disk.final is not None:
            self._tell_end(sender)  # if this is no old message, the sender knows better
            return
        if (
            guarded is not None
            and guarded.copy.epoch == token.epoch
            and guarded.copy.seq >= token.seq
        ):
            return  # an old message: this token was here and was handed over
        if held is not None:
            if held.status != HeldStatus.PREPARED:
                here = held.guardian, held.token.epoch, held.token.seq
                if here == (sender, token.epoch, token.seq):
                    # it is in use: others have brought its certificate, and the giver lacks it
                    self._say_prepared(sender, token, token.digest(), now)
                return  # otherwise an old message: a later token is in use here
            if held.token.epoch == token.epoch and (held.token.seq, held.token.hops) > (
                token.seq,
                token.hops,
            ):
                # an old message; or else the giver of what is here has made it up
                why = f"this node has already received a later token, from node {held.giver}"
                self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
                return
            if (
                self._digest(held.token) == token.digest()
            ):  # a repeated message; the stored giver is kept
                self._say_prepared(sender, held.token, self._digest(held.token), now)
                return
        self._put(
            "held",
            Held(HeldStatus.PREPARED, token, message.guardian, sender, NOBODY, token.step, FIRST),
        )
        self._say_prepared(sender, token, self._digest(token), now)

    def _say_prepared(self, giver: int, token: Token, digest: bytes, now: float) -> None:
        """Tell the giver that the token is on the disk. `Guardian` says more if it guards it."""
        self._send(giver, Prepared(token.epoch, token.seq, digest))

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
        elif held.guardian == sender and (held.token.epoch, held.token.seq) == (
            certificate.epoch,
            certificate.seq + 1,
        ):
            self._send(sender, Alive(held.token.epoch, held.token.seq))

    def _come_alive(self, held: Held, certificate: Certificate, now: float) -> None:
        """Start to work with a prepared token if the certificate is for it.

        If the node that sent the token is gone, do so in a new epoch.
        """
        token = held.token
        if certificate[:6] != (
            held.guardian,
            token.epoch,
            token.seq - 1,
            self.id,
            token.came_from,
            self._digest(token),
        ):
            return
        if not self._signed(certificate):
            self._record(
                "refused", sender=held.giver, why="the certificate is not signed by the guardian"
            )
            return
        right = self._right_to_hold(certificate)
        self._archive_false_end()  # this very certificate shows that the walk went on
        self._keep_given(token, right)
        if held.giver == NOBODY:
            reason = LinkKind.GIVER_GONE, token.epoch, right
            self._bring_back(token, reason, NOBODY, now, avoid=())
            return
        self._put(
            "held",
            Held(HeldStatus.ACTIVE, token, held.giver, NOBODY, NOBODY, token.step, FIRST, right),
        )
        self.out.append(
            TurnRequest()
        )  # the next message to the giver, or the answer to its next one, tells it

    def _right_to_hold(self, certificate: Certificate) -> Right:
        """Return what shows others that this node holds the token: the certificate, or, if this
        node has signed it itself, what made it the guardian before.
        """
        if certificate.guardian != self.id:
            return Right(certificate)
        guarded = self.disk.guarded
        mine = guarded is not None and (guarded.copy.epoch, guarded.copy.seq) == certificate[1:3]
        return self._right_to_guard(guarded) if guarded is not None and mine else NO_RIGHT

    def _certified(self, sender: int, message: Certified, now: float) -> None:
        """Use or forward a certificate that the silent sender of a token could not deliver."""
        epoch = message.certificate.epoch
        if not self._behind(sender, epoch) and not self._ahead(sender, epoch, now):
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
            if self.saw_more:
                self._commit()  # what is forwarded may be all that is known of its sender's write
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
        return lives or (
            guarded is not None
            and guarded.copy.epoch == word.epoch
            and guarded.copy.seq > word.seq + 1
        )

    def _spread(self) -> None:
        """Send the end of the walk to the neighbours that do not know it."""
        for u in self.neighbours:
            if self.told.get(u) != self._end_name():
                self._tell_end(u)

    def _tell_end(self, u: int) -> None:
        if self.disk.final is not None and self.disk.end is not None:
            self._send(u, Finished(self.disk.final, self.disk.end))

    def _speak(self) -> None:
        """Send the certificate that is to be forwarded to all neighbours, until it is known to be
        used.
        """
        if self.word is not None and self._used(self.word):
            self.word = None
        if self.word is not None:
            for u in self.neighbours:
                self._send(u, Certified(self.word))
