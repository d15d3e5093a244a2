"""The guardian compares: a model that honest updates cannot have made is refused
(`levywalk.fleet.protocol.update_check`), if the manifest says so.

The holder shows the guardian the token that is to be released. If its model is refused, the
guardian writes *regenerated* into its register, as if the holder were silent, and its copy goes on
in a new epoch. A node that opens an epoch shows its new guardian the token that it was given
(`given`); if the new token cannot be a result of that one, it is not guarded. After ``avoid_after``
refusals a guardian avoids the sender: it takes down the edge to it and leaves it down, so that no
token goes there and no copy is guarded there, and it takes no token from it and guards none for it.
No node accepts another node's refusals, so a false refusal affects only the node that makes it.
"""

from __future__ import annotations

from levywalk.fleet.protocol.events import Forgive
from levywalk.fleet.protocol.links import LinkKind
from levywalk.fleet.protocol.messages import Guard, Refused, Release
from levywalk.fleet.protocol.next_node import NextNode
from levywalk.fleet.protocol.records import NOBODY, Guarded, Held, HeldStatus, RegisterValue
from levywalk.fleet.protocol.refusals import NO_REFUSALS
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.protocol.update_check import refuses_change, refuses_opening


class Comparing(NextNode):
    """What a holder shows its guardian, and what the guardian does with it."""

    def _release_of(self, held: Held) -> Release:
        """Return the question to the guardian whether a token may go to the next node.

        It shows the token, if guardians compare.
        """
        sent, digest = self._outgoing(held)
        shown = None if self.published.check is None else sent
        return Release(sent.epoch, held.token.seq, held.to, digest, held.token.hops, shown)

    def _may_release(self, sender: int, guarded: Guarded, message: Release, now: float) -> bool:
        """Return whether a token may be released; refuse its model if it may not."""
        if self.published.check is None:
            return True
        token = self._prepared_here(message) if message.token is None else message.token
        if token is None or self._lacks_size(sender, token):
            return False  # the holder asks again, with the token
        why = self.published.refuses(token)
        expected = guarded.copy.handed_over(sender, message.to)
        if why is None and token.digest() != message.digest:
            why = "its hash is not the one that the guardian is asked to release"
        for name in ("seq", "version", "transfers", "chain", "came_from"):
            if why is None and getattr(token, name) != getattr(expected, name):
                why = f"its value of {name} does not follow from the guardian's copy"
        return self._may_replace(sender, guarded, token, why, now)

    def _may_renew(self, sender: int, guarded: Guarded, token: Token, now: float) -> bool:
        """Return whether a newer copy may take the place of the copy; refuse its model if not."""
        same = (token.chain, token.transfers) == (guarded.copy.chain, guarded.copy.transfers)
        why = None if same else "it has been handed over since the guardian's copy was made"
        return self._may_replace(sender, guarded, token, why, now)

    def _may_replace(
        self, sender: int, guarded: Guarded, token: Token, why: str | None, now: float
    ) -> bool:
        """Return whether a token may take the place of the copy; refuse its model if not.

        Parameters
        ----------
        why
            What is wrong with it already; None if nothing is.
        """
        if self.published.check is None:
            return True
        if why is None:
            why = refuses_change(self.published, guarded.copy, token, self.terms.renew_after)
        if why is not None:
            self._refuse_model(sender, guarded, why, now)
        return why is None

    def _may_open(self, sender: int, message: Guard, now: float) -> bool:
        """Return whether a token may begin a new epoch; refuse its model if it may not.

        The sender is told, and may ask again; one epoch counts as one refusal.
        """
        if self.published.check is None:
            return True
        token = message.token
        why = refuses_opening(self.published, message.link, message.given, token)
        if why is None:
            return True
        known = (self.disk.refusals or NO_REFUSALS).senders
        if (sender, token.epoch) not in {(one.node, one.epoch) for one in known}:
            self._count_refusal(sender, token, why, now)
        self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
        return False

    def _not_guarded(self, sender: int, message: Refused, now: float) -> bool:
        """If a neighbour does not guard a restored token, ask another one and return True."""
        held = self.disk.held
        if held is None or held.status != HeldStatus.SEEKING or held.guardian != sender:
            return False
        if message[:3] == (held.token.epoch, held.token.seq, self._digest(held.token)):
            self._without_guardian(held, now)
        return True

    def _prepared_here(self, message: Release) -> Token | None:
        """Return the token that a release is about, if this node is the next node as well."""
        held = self.disk.held
        if message.to != self.id or held is None or held.status != HeldStatus.PREPARED:
            return None
        return held.token if self._digest(held.token) == message.digest else None

    def _refuse_model(self, sender: int, guarded: Guarded, why: str, now: float) -> None:
        """Let the copy go on, and name the sender; avoid it after a number of refusals."""
        held = self.disk.held
        if held is not None and held.status != HeldStatus.PREPARED:
            return  # as with a silent holder: one token at a time
        self._count_refusal(sender, guarded.copy, why, now)
        self._regenerate(guarded, now)

    def _count_refusal(self, sender: int, copy: Token, why: str, now: float) -> None:
        """Name the sender of a refused model; avoid it after a number of refusals."""
        check = self.published.check
        assert check is not None
        known = self.disk.refusals or NO_REFUSALS
        refusals = known.counted(sender, copy.epoch, copy.step, check.avoid_after)
        self._put("refusals", refusals)
        about = next(one for one in refusals.senders if one.node == sender)
        self._record(
            "model refused",
            node=sender,
            why=why,
            step=copy.step,
            epoch=copy.epoch,
            count=about.times,
            avoided=about.avoided,
        )
        if about.avoided:
            self._avoid(sender, now)

    def _regenerate(self, guarded: Guarded, now: float) -> None:
        """Close the register, and restore the token from the copy in a new epoch."""
        self._put("guarded", guarded._replace(register=RegisterValue.REGENERATED))
        reason = LinkKind.REGENERATED, guarded.copy.epoch, self._right_to_guard(guarded)
        copy = guarded.copy._replace(came_from=NOBODY)  # to the holder it came from somewhere
        self._bring_back(copy, reason, NOBODY, now, avoid=(guarded.holder,))

    def _avoid(self, node: int, now: float) -> None:
        """Take down the edge to a node; `Membership` leaves it down."""
        edge = self.disk.edges.get(node)
        if edge is not None and edge.up:
            self._set_edge(node, edge._replace(version=edge.version + 1, up=False))
            self._beat(node, now)

    def _forgive(self, event: Forgive, now: float) -> None:
        """The operator says that a node's refused models are to be forgotten."""
        known = self.disk.refusals or NO_REFUSALS
        if any(one.node == event.node for one in known.senders):
            self._put("refusals", known.without(event.node))
            self._record("forgiven", node=event.node)
            if event.node in self.disk.edges:
                self._beat(event.node, now)
