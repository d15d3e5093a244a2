"""Epochs: a token that is restored from a copy continues in a higher epoch, and tokens of lower
epochs are archived.

A node accepts an epoch only with its link (`links`), which it keeps, and sends to every node
that is behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from levywalk.fleet.protocol.certificate import OPERATOR, Certificate
from levywalk.fleet.protocol.checkpoints import NO_CHECKPOINTS, Checkpoint, Checkpoints
from levywalk.fleet.protocol.ending import went_on
from levywalk.fleet.protocol.events import Pardoned, Silent
from levywalk.fleet.protocol.evidence import Lie, refuses_lie
from levywalk.fleet.protocol.given import NOTHING_GIVEN
from levywalk.fleet.protocol.links import (
    NO_RIGHT,
    EpochLink,
    LinkKind,
    Opening,
    Reason,
    Right,
    contradicts,
    overrides,
    places_shown,
    refuses_link,
    unsigned_link,
)
from levywalk.fleet.protocol.membership import Membership
from levywalk.fleet.protocol.messages import Exposed, Fenced, Guard
from levywalk.fleet.protocol.records import (
    FALSE_END,
    NOBODY,
    Archived,
    Guarded,
    Held,
    HeldStatus,
    Known,
)
from levywalk.fleet.protocol.token import Epoch, Token


class Epochs(Membership):
    """What a node knows about epochs, and how it begins a new one."""

    def _behind(self, sender: int, epoch: Epoch) -> bool:
        """If a message is of an older epoch, send the link of the newer one and return True."""
        known = self.disk.known
        if epoch < known.epoch:
            self._send_link(sender)
            return True
        return False

    def _send_link(self, u: int) -> None:
        """Send the link of the known epoch to a neighbour, and before it the lies that it may have
        to know.
        """
        for lie in self.disk.liars:
            self._send(u, Exposed(lie))
        if self.disk.known.link is not None:
            self._send(u, Fenced(self.disk.known.link))

    def _ahead(self, sender: int, epoch: Epoch, now: float) -> bool:
        """If a message is of an epoch whose link is not known here, return True and say what is
        known here: the sender then sends the link, and later its message again.
        """
        if epoch > self.disk.known.epoch:
            self._beat(sender, now)
            return True
        return False

    def _fenced(self, sender: int, message: Fenced, now: float) -> None:
        """Note an epoch, if its link is valid.

        If it is higher than the known one, archive the tokens of lower epochs and tell the
        neighbours.
        """
        link = message.link
        if link.epoch > self.disk.known.epoch and self._believes(sender, link, now):
            self._overtake(link)
            self._announce_epoch(now)

    def _announce_epoch(self, now: float) -> None:
        """Send the link of the known epoch to the neighbours."""
        for u in self.neighbours:
            self._send_link(u)
            self._beat(u, now)

    def _believes(self, sender: int, link: EpochLink, now: float) -> bool:
        """Return whether a link is valid, and agrees with what is on this node's disk.

        A node that denies its own release is found out here.
        """
        one, known = link.opening, self.disk.known.link
        lied = max((lie.epoch.counter for lie in self.disk.liars), default=0)
        highest = max(lied, self.refuted, self.disk.known.epoch.counter)
        why = refuses_link(link, self.terms.run, self.terms.start, self.signer, highest)
        if why is None and any(lie.covers(one.epoch.node, one.epoch) for lie in self.disk.liars):
            why = f"node {one.epoch.node} has lied about its register"
        if why is None and self.disk.revoked.covers(one.epoch.node, one.epoch):
            why = f"node {one.epoch.node} was revoked"
        denied = [
            (claim, release)
            for claim in _claims(link)
            for release in self._releases_against(claim)
            if contradicts(claim, release)
        ]
        reached = self._all_checkpoints()
        behind = [claim for claim in _claims(link) if reached.deny(claim)]
        if known is not None and overrides(known.opening, link):
            behind.append(one)
        if why is None and (denied or behind):
            why = f"the walk continued beyond the step at which epoch {tuple(one.epoch)} begins"
            false = [claim for claim, _ in denied] + behind
            passed_on = [claim for claim in false if claim.epoch.node != sender]
            self._contest(link, denied, passed_on, now)
            guarded = self.disk.guarded
            if passed_on and not self.awaited and guarded is not None and guarded.holder == sender:
                self._silent(Silent(), now)  # it has accepted the link, and given its token up
        if why is not None:
            self._record("refused", sender=sender, why=why)
        return why is None

    def _contest(
        self,
        link: EpochLink,
        denied: Sequence[tuple[Opening, Certificate]],
        passed_on: Sequence[Opening],
        now: float,
    ) -> None:
        """Act on a link that is known to be false, or that has such a link as its right.

        Whoever denies its own release is found out. Whoever holds the token with which the walk
        went on continues above the link, since others may have accepted it.

        Parameters
        ----------
        passed_on
            What is false, and was sent by another node than its signer, so that others have
            accepted it. (Its signer could send it again and again.)
        """
        self.refuted = max(self.refuted, link.epoch.counter)
        for claim, release in denied:
            if release.guardian == claim.epoch.node:
                self._expose(Lie(claim, release), now)
                break
        held = self.disk.held
        if self.awaited or held is None or held.status == HeldStatus.PREPARED:
            return
        false = [claim for claim, release in denied if release.epoch == held.token.epoch]
        if not false and held.token.epoch < link.epoch:
            false = list(passed_on)
        if false:
            liar = false[0].epoch.node
            self._record("false link", node=liar, epoch=link.epoch, seq=false[0].seq)
            if held.status == HeldStatus.SEEKING:
                self._without_guardian(held, now)
            else:
                self._replace_guardian(held, now, avoid=(liar,))

    def _silent(self, event: Silent, now: float) -> None:
        """Continue without the holder. `Guardian` knows how."""
        raise NotImplementedError

    def _without_guardian(self, held: Held, now: float) -> None:
        """Continue in a new epoch with another guardian. `HandOff` knows how."""
        raise NotImplementedError

    # Lies

    def _exposed(self, sender: int, message: Exposed, now: float) -> None:
        """Note that a node has lied, or may take part again, if it is proved."""
        lie, known = message.lie, self._lie_of(message.lie.liar)
        if known is not None and lie.weight <= known.weight:
            return
        why = refuses_lie(lie, self.terms.run, self.signer)
        if why is None:
            self._expose(lie, now)
        else:
            self._record("refused", sender=sender, why=why)

    def _pardoned(self, event: Pardoned, now: float) -> None:
        """The operator lets a node in again."""
        lie = self._lie_of(event.pardon.node)
        if lie is not None:
            self._exposed(OPERATOR, Exposed(lie._replace(pardon=event.pardon)), now)

    def _lie_of(self, node: int) -> Lie | None:
        return next((lie for lie in self.disk.liars if lie.liar == node), None)

    def _expose(self, lie: Lie, now: float) -> None:
        """Keep the proof of a lie, tell the neighbours, stop its branch and continue above it.

        If the operator has let the node in again, do not shut it out.
        """
        known = self._lie_of(lie.liar)
        others = tuple(one for one in self.disk.liars if one.liar != lie.liar)
        self._put("liars", (*others, lie))
        if lie.pardon is None:
            self._owe(lie.liar)  # in the same transaction
        what = "lied" if lie.pardon is None else "let in again"
        epoch, seq = lie.denied
        self._record(what, node=lie.liar, epoch=epoch, seq=seq)
        for u in self.neighbours:
            if u != lie.liar or lie.pardon is not None:
                self._send(u, Exposed(lie))
        if lie.liar == self.id:
            return  # others do not listen to this node any more
        if known is not None and known.epoch == lie.epoch:
            return  # all that follows was done before
        if lie.link is not None:
            self._stop_branch(lie.link)
        else:
            self._give_up_end(lie)
        if lie.pardon is None:
            self._shut_out(lie.liar, now)  # and replace it, if it guards the token of this node
        self._continue_above(lie, now)

    def _continue_above(self, lie: Lie, now: float) -> None:
        """If this node holds the token that a lie denies, or one that came from it and has a lower
        epoch than the lie, which others may have accepted, continue in a higher epoch, as soon as
        it may act.
        """
        held = self.disk.held
        if (
            not self.awaited
            and held is not None
            and held.status not in (HeldStatus.PREPARED, HeldStatus.SEEKING)
            and (held.token.epoch == lie.denied[0] or held.token.epoch < lie.epoch)
        ):
            self._replace_guardian(held, now, avoid=(held.guardian,))

    def _replace_guardian(self, held: Held, now: float, avoid: Sequence[int]) -> None:
        """Continue in a higher epoch, with the token that this node holds and its decision."""
        reason = LinkKind.GUARDIAN_REPLACED, held.token.epoch, held.right
        self._bring_back(held.token, reason, held.to, now, avoid)

    def _shut_out(self, node: int, now: float) -> None:
        """Treat a node as gone for good. `Node` knows how."""
        raise NotImplementedError

    def _stop_branch(self, false: Opening) -> None:
        """Archive what this node holds or guards of an epoch that a lie has opened. The number of
        the epoch stays known.
        """
        known, held, guarded = self.disk.known.link, self.disk.held, self.disk.guarded
        if known is None or false.epoch not in (known.epoch, known.opening.parent):
            return
        if held is not None and held.token.epoch == known.epoch:
            lost = max(0, held.token.step - false.step)
            self._lines.append(Archived(held.token, held.status, known.epoch, lost))
            self._put("held", None)
        if guarded is not None and guarded.copy.epoch == known.epoch:
            lost = max(0, guarded.copy.step - false.step)
            self._lines.append(Archived(guarded.copy, "guarded", known.epoch, lost))
            self._put("guarded", None)

    def _give_up_end(self, lie: Lie) -> None:
        """Take part again, if the end that is known here is that of a lie."""
        end = self.disk.end
        if end is not None and end.guardian == lie.liar and went_on(end, lie.release):
            self._archive_false_end()

    def _archive_false_end(self) -> None:
        """Archive what was said to be the final token, and was not."""
        final = self.disk.final
        if final is not None:
            self._keep_checkpoints()
            self._lines.append(Archived(final, FALSE_END, final.epoch, 0))
            self._record("no end", epoch=final.epoch, seq=final.seq, step=final.step)
            self._put("final", None)
            self._put("end", None)
            self.told = {}

    def _releases(self) -> Iterator[Certificate]:
        """Yield the releases by guardians that are on this node's disk; the end has one, too, and
        so has the link of the known epoch.
        """
        held, guarded, end = self.disk.held, self.disk.guarded, self.disk.end
        link = self.disk.known.link
        kept: list[object] = [] if link is None else [link.right.release]
        kept += [] if held is None else [held.right.release]
        kept += [] if guarded is None else [guarded.register, guarded.activate]
        kept += [] if end is None else [end.right.release]
        for found in kept:
            if isinstance(found, Certificate) and found.guardian != OPERATOR:
                yield found

    def _releases_against(self, claim: Opening) -> Iterator[Certificate]:
        """Yield the releases on this node's disk, with the one that the signer of a link is known
        to have denied before; what a liar has released proves nothing about others.
        """
        yield from self._releases()
        lie = self._lie_of(claim.epoch.node)
        if lie is not None:
            yield lie.release

    def _know(self, epoch: Epoch, base: int, link: EpochLink | None) -> None:
        """Note the highest epoch, and how far the walk went in those before."""
        self._keep_checkpoints(link)
        self._put("known", Known(epoch, base, link))

    def _keep_checkpoints(self, link: EpochLink | None = None) -> None:
        """Keep what the releases on this disk and the links show, before they leave the disk."""
        reached = self._all_checkpoints(link)
        if reached != (self.disk.checkpoints or NO_CHECKPOINTS):
            self._put("checkpoints", reached)

    def _all_checkpoints(self, link: EpochLink | None = None) -> Checkpoints:
        """Return how far the walk went, by everything on this disk, and by a link."""
        places = [Checkpoint(one.epoch, one.seq + 1) for one in self._releases()]
        for found in (self.disk.known.link, link):
            for claim in () if found is None else _claims(found):
                places += [Checkpoint(*place) for place in places_shown(claim)]
        return (self.disk.checkpoints or NO_CHECKPOINTS).reached(places)

    def _overtake(self, link: EpochLink) -> None:
        """Archive the tokens and copies of lower epochs."""
        held, guarded, final = self.disk.held, self.disk.guarded, self.disk.final
        epoch, base = link.epoch, link.opening.step
        self._know(epoch, base, link)  # before the releases of lower epochs are dropped
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
            if any(_continues_behind(claim, final) for claim in _claims(link)):
                self._archive_false_end()
            else:
                self._archive_final(epoch, base)

    def _archive_final(self, by: Epoch, base: int) -> None:
        """Archive the final token, because the walk continues in a higher epoch."""
        final = self.disk.final
        if final is not None:
            self._keep_checkpoints()
            self._lines.append(Archived(final, "final", by, max(0, final.step - base)))
            self._put("final", None)
            self._put("end", None)
            self.told = {}

    # What this node was given, if guardians compare models (`given`)

    def _keep_given(self, token: Token, right: Right) -> None:
        """Keep a token as it was given to this node; the right that it now has is about it, or
        about one that is kept already.
        """
        if self.published.check is None:
            return
        held, guarded = self.disk.held, self.disk.guarded
        rights = [right]
        if held is not None and held.status != HeldStatus.PREPARED:
            rights.append(held.right)
        if guarded is not None and guarded.register is None:
            rights.append(self._right_to_guard(guarded))
        self._put("given", (self.disk.given or NOTHING_GIVEN).kept(token, rights))

    def _given(self, right: Right) -> Token | None:
        """Return the token that this node was given with a right, to show it."""
        return None if self.disk.given is None else self.disk.given.of(right)

    def _right_to_guard(self, guarded: Guarded) -> Right:
        """Return what shows others that this node is the guardian: the release that made it so, or
        the link that names it.
        """
        if guarded.activate is not None:
            return Right(guarded.activate)
        known = self.disk.known
        if known.link is None or known.epoch != guarded.copy.epoch:
            return NO_RIGHT
        return Right(None, known.link.opening)

    def _next_epoch(self, token: Token) -> Epoch:
        """Return the epoch in which this node would restore a token."""
        epochs = (self.disk.known.epoch, token.epoch, *(lie.epoch for lie in self.disk.liars))
        return Epoch(max(max(epochs).counter, self.refuted) + 1, token.seq, self.id)

    def _bring_back(
        self, token: Token, reason: Reason, to: int, now: float, avoid: Sequence[int]
    ) -> None:
        """Restore a token from a copy, in a new epoch."""
        fresh = self.published.reopened(token, self._next_epoch(token), reason[1])
        self._seek(fresh, reason, to, now, avoid)

    def _seek(
        self, token: Token, reason: Reason, to: int, now: float, avoid: Sequence[int]
    ) -> None:
        """Hold a token that has no guardian yet. It does not move before it has one."""
        kind, parent, right = reason
        link = unsigned_link(kind, token, parent, right)
        held = Held(HeldStatus.SEEKING, token, NOBODY, NOBODY, to, token.step, parent, right, link)
        self._put("held", held)
        self._choose_guardian(held, now, avoid)
        self.retry_at = now + self.terms.retry

    def _choose_guardian(self, held: Held, now: float, avoid: Sequence[int] = ()) -> None:
        """Choose a neighbour that is connected, and sign the link that names it.

        The choice is persisted before it is sent, so there is never a second guardian.
        """
        around = [u for u in self.neighbours if self.disk.edges[u].up and self._hears(u, now)]
        choice = [u for u in around if u not in avoid] or around
        if choice and held.link is not None:
            guardian = max(choice, key=lambda u: (self.heard.get(u, 0.0), -u))
            blank = held.link.opening._replace(guardian=guardian)
            signature = self.signer.sign(blank.statement(self.terms.run))
            link = held.link._replace(opening=blank._replace(signature=signature))
            self._put("held", held._replace(guardian=guardian, link=link))
            self._send(guardian, Guard(held.token, link, self._given(link.right)))


def _claims(link: EpochLink) -> list[Opening]:
    """Return what a link says about how the walk continued: where it branches, and, if its right is
    the link of the epoch before, where that one does.
    """
    return [link.opening] if link.right.link is None else [link.opening, link.right.link]


def _continues_behind(one: Opening, final: Token) -> bool:
    """Return whether a link shows that the walk was not over with a token: whoever had it next, or
    still had it, opened an epoch from another one.
    """
    same = one.parent == final.epoch and one.kind != LinkKind.REVIVED
    return same and (one.seq, one.step) != (final.seq, final.step)
