"""How a node learns that another one was revoked, and continues without it."""

from __future__ import annotations

from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.epochs import Epochs
from levywalk.fleet.protocol.events import Revoke
from levywalk.fleet.protocol.messages import Revoked
from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.protocol.revocation import Revocation, Revocations, refuses_revocation


class Revoking(Epochs):
    """What a node does with the operator's signed order that a node takes no part any more."""

    def _revoke(self, event: Revoke, now: float) -> None:
        """The operator revokes a node."""
        self._revoked(OPERATOR, Revoked(event.word), now)

    def _revoked(self, sender: int, message: Revoked, now: float) -> None:
        """Keep the operator's order, tell the neighbours, and continue without the node."""
        word = message.word
        if word.node in self.disk.revoked.nodes:
            return  # the first order counts: all that follows was done
        why = refuses_revocation(word, self.terms.run, self.signer)
        if why is not None:
            self._record("refused", sender=sender, why=why)
            return
        self._put("revoked", Revocations((*self.disk.revoked.orders, word)))
        if word.node != self.id:
            self._owe(word.node)  # in the same transaction
        self._record("revoked", node=word.node)
        for u in self.neighbours:
            self._send(u, message)
        if word.node == self.id:
            return  # others do not listen to this node any more
        self._shut_out(word.node, now)
        self._leave_its_epoch(word, now)

    def _leave_its_epoch(self, word: Revocation, now: float) -> None:
        """If this node holds the token in an epoch that the revoked node has opened and that others
        now refuse, continue in a higher one.
        """
        held = self.disk.held
        if (
            not self.awaited
            and held is not None
            and held.status not in (HeldStatus.PREPARED, HeldStatus.SEEKING)
            and word.covers(held.token.epoch.node, held.token.epoch)
        ):
            self._replace_guardian(held, now, avoid=(word.node,))

    def _tell_revocations(self, u: int) -> None:
        """Tell a neighbour which nodes were revoked."""
        for word in self.disk.revoked.orders:
            self._send(u, Revoked(word))
