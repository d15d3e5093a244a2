"""Epochs: a token that is restored from a copy continues in a higher epoch, and tokens of lower
epochs are archived.
"""

from __future__ import annotations

from collections.abc import Sequence

from levywalk.fleet.protocol.membership import Membership
from levywalk.fleet.protocol.messages import Fenced, Guard
from levywalk.fleet.protocol.records import NOBODY, Archived, Held, HeldStatus, Known
from levywalk.fleet.protocol.token import Epoch, Token


class Epochs(Membership):
    """What a node knows about epochs, and how it begins a new one."""

    def _behind(self, sender: int, epoch: Epoch) -> bool:
        """If a message is of an older epoch, tell the sender about the newer one and
        return True.
        """
        known = self.disk.known
        if epoch < known.epoch:
            self._send(sender, Fenced(known.epoch, known.base))
            return True
        return False

    def _fenced(self, sender: int, message: Fenced, now: float) -> None:
        self._see(message.epoch, message.base, now)

    def _see(self, epoch: Epoch, base: int, now: float) -> None:
        """Note an epoch.

        If it is higher than the known one, archive the tokens of lower epochs and tell the
        neighbours.
        """
        if epoch > self.disk.known.epoch:
            self._overtake(epoch, base)
            self._announce(now)

    def _overtake(self, epoch: Epoch, base: int) -> None:
        """Archive the tokens and copies of lower epochs."""
        held, guarded, final = self.disk.held, self.disk.guarded, self.disk.final
        if held is not None and held.token.epoch < epoch:
            if held.status != HeldStatus.PREPARED:
                lost = max(0, held.token.step - base)
                self._lines.append(Archived(held.token, held.status, epoch, lost))
                self._record("archived", epoch=held.token.epoch, by=epoch, lost=lost)
            self._put("held", None)
        if guarded is not None and guarded.copy.epoch < epoch:
            if guarded.register is None:
                lost = max(0, guarded.copy.step - base)
                self._lines.append(Archived(guarded.copy, "guarded", epoch, lost))
                # the next node may never have started with it, and then would not report the loss
                if not self.activated:
                    self._record("archived", epoch=guarded.copy.epoch, by=epoch, lost=lost)
            self._put("guarded", None)
        if final is not None and final.epoch < epoch:
            self._lines.append(Archived(final, "final", epoch, max(0, final.step - base)))
            self._put("final", None)
            self.told = set()
        self._put("known", Known(epoch, base))

    def _next_epoch(self, token: Token) -> Epoch:
        """Return the epoch in which this node would restore a token."""
        counter = max(self.disk.known.epoch.counter, token.epoch.counter) + 1
        return Epoch(counter, token.seq, self.id)

    def _bring_back(
        self, token: Token, parent: Epoch, to: int, now: float, avoid: Sequence[int]
    ) -> None:
        """Restore a token from a copy, in a new epoch."""
        fresh = token._replace(epoch=self._next_epoch(token), base=token.step)
        self._seek(fresh, parent, to, now, avoid)

    def _seek(self, token: Token, parent: Epoch, to: int, now: float, avoid: Sequence[int]) -> None:
        """Hold a token that has no guardian yet. It does not move before it has one."""
        held = Held(HeldStatus.SEEKING, token, NOBODY, NOBODY, to, token.step, parent)
        self._put("held", held)
        self._choose_guardian(held, now, avoid)
        self.retry_at = now + self.terms.retry

    def _choose_guardian(self, held: Held, now: float, avoid: Sequence[int] = ()) -> None:
        """Choose a neighbour that is connected.

        The choice is persisted before it is sent, so there is never a second guardian.
        """
        around = [u for u in self.neighbours if self.disk.edges[u].up and self._hears(u, now)]
        choice = [u for u in around if u not in avoid] or around
        if choice:
            guardian = max(choice, key=lambda u: (self.heard.get(u, 0.0), -u))
            self._put("held", held._replace(guardian=guardian))
            self._send(guardian, Guard(held.token, held.parent))
