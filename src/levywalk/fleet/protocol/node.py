"""One node's protocol as a pure state machine: events in, effects out, without I/O, clock or
randomness.

It is made of parts that build on each other: `NodeState` (disk and effects), `Witnesses` (what
neighbours have seen of each other's starts), `Membership` (heartbeats and edges), `Epochs`,
`Remembering`, `HandOff`. This file adds the start, the timers, and the table that says which method
takes which event.
"""

from __future__ import annotations

from collections.abc import Callable

from levywalk.fleet.protocol.ending import Ending, refuses_ending, went_on
from levywalk.fleet.protocol.events import (
    Effect,
    Event,
    Excused,
    Forgive,
    Genesis,
    Gone,
    Got,
    Joins,
    Leaves,
    Pardoned,
    Reached,
    Resize,
    Revive,
    Revoke,
    SetTimer,
    Silent,
    Start,
    Timer,
    Turn,
)
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.hand_off import HandOff
from levywalk.fleet.protocol.links import NO_RIGHT, LinkKind
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Answer,
    Certificate,
    Certified,
    Exposed,
    Fenced,
    Finished,
    Greeting,
    Guard,
    Guarding,
    Heartbeat,
    Prepare,
    Prepared,
    Question,
    Refused,
    Release,
    Released,
    Renew,
    Renewed,
    Revoked,
    Sighting,
    Sized,
    Withdraw,
    Withdrawn,
)
from levywalk.fleet.protocol.node_state import Signer
from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.protocol.records import NOBODY, Disk, Held, HeldStatus, RegisterValue
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch, Token


class Node(HandOff):
    """One node's protocol:

    ``receive(event, now)`` returns the effects, which must be performed in order.

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
        super().__init__(site, terms, disk, signer)
        self._answers: dict[type, Callable[..., None]] = {
            Prepare: self._prepare,
            Prepared: self._prepared,
            Refused: self._refused,
            Release: self._release,
            Released: self._released,
            Withdraw: self._withdraw,
            Withdrawn: self._withdrawn,
            Activate: self._activate,
            Certified: self._certified,
            Alive: self._alive,
            Renew: self._renew,
            Renewed: self._renewed,
            Guard: self._guard,
            Guarding: self._guarding,
            Fenced: self._fenced,
            Exposed: self._exposed,
            Revoked: self._revoked,
            Sized: self._sized,
            Heartbeat: self._heartbeat,
            Finished: self._finished,
            Greeting: self._greeting,
            Sighting: self._sighting,
            Question: self._question,
            Answer: self._answer,
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
            Excused: self._excused,
            Revive: self._revive,
            Pardoned: self._pardoned,
            Revoke: self._revoke,
            Forgive: self._forgive,
            Resize: self._resize,
            Joins: self._joins,
            Leaves: self._leaves,
        }
        self._use_size()
        self._look()

    def receive(self, event: Event, now: float) -> list[Effect]:
        """Handle one event; return the effects."""
        self.out = []
        if self._allows(event, now):
            self._events[type(event)](event, now)
        if self._changed:  # the disk was changed, and no message was sent
            self._commit()
        at = self.tick_at if self.tick_at < self.retry_at else self.retry_at
        if at < self.timer_at or self.timer_at <= now:
            self.timer_at = at
            self.out.append(SetTimer(at))
        return self.out

    def _got(self, event: Got, now: float) -> None:
        """Handle a message of a neighbour. Messages of other nodes are refused."""
        disk, sender = self.disk, event.sender
        if sender not in disk.edges or sender == self.id:
            self._record("refused", sender=sender, why="not a neighbour")
            return
        if disk.liars:
            lie = self._lie_of(sender)
            if lie is not None and lie.pardon is None:
                return
        if disk.revoked.orders and sender in disk.revoked.nodes:
            return
        if self._accepts(event, now):
            self._answers[type(event.message)](sender, event.message, now)

    # Start

    def _start(self, event: Start, now: float) -> None:
        """Start, or start again: only what was heard when is lost. Continue where the disk says."""
        new = sorted(set(event.joins) - set(self.disk.edges))
        self.heard = dict.fromkeys((*self.neighbours, *new), now)
        self.holder_heard = now
        self.waits_about = ()
        self.tick_at = now
        self._begin_start(event.draw, new, now)
        if not self.fenced:
            self._continue(now)

    def _go_on(self, now: float) -> None:
        if not self._waits_for_witnesses(now):
            super()._go_on(now)

    def _continue(self, now: float) -> None:
        """Go on where the disk says, but first without the neighbours that are gone: one of them
        may be back with an empty disk, and must not get again what it has worked with before.
        """
        if not self.awaited:
            self._settle_debts(now)
        self._go_on(now)

    def _resume(self, now: float) -> None:
        self.waits_about = ()  # nothing was asked before
        self._continue(now)
        for lie in self.disk.liars:
            self._continue_above(lie, now)
        for word in self.disk.revoked.orders:
            self._leave_its_epoch(word, now)
        later, self.postponed = self.postponed, []
        for event in later:
            self._events[type(event)](event, now)

    def _tell_epoch(self, u: int, now: float) -> None:
        self._send_link(u)
        self._beat(u, now)

    def _reached(self, event: Reached, now: float) -> None:
        """Send a heartbeat to a neighbour that is connected again, and send again what needs an
        answer.
        """
        if event.node in self.disk.revoked.nodes:
            self._tell_revocations(event.node)
        elif event.node in self.disk.edges:
            self.heard[event.node] = now
            self._greet_newcomer(event.node)
            for lie in self.disk.liars:
                self._send(event.node, Exposed(lie))
            self._tell_revocations(event.node)
            self._tell_size(event.node)
            self._beat(event.node, now)
            self._go_on(now)

    def _genesis(self, event: Genesis, now: float) -> None:
        """Create the first token, unless this was done before.

        It needs a guardian before it moves.
        """
        if (
            self.disk.known.epoch != FIRST
            or self.disk.held is not None
            or self.disk.final is not None
        ):
            return
        token = event.token._replace(epoch=Epoch(0, 0, self.id))
        self._keep_given(token, NO_RIGHT)
        self._seek(token, (LinkKind.FIRST, FIRST, NO_RIGHT), NOBODY, now, avoid=())

    # Timers

    def _timer(self, event: Timer, now: float) -> None:
        if now >= self.tick_at:
            self.tick_at = now + self.terms.heartbeat
            self._tick(now)
        if now >= self.retry_at:
            self._go_on(now)

    def _tick(self, now: float) -> None:
        """Look which neighbours are silent, and send heartbeats."""
        for u in self.neighbours:
            edge = self.disk.edges[u]
            if edge.up and not self._hears(u, now):
                self._set_edge(u, edge._replace(version=edge.version + 1, up=False))
                self._record("edge down", node=u)
        held, guarded = self.disk.held, self.disk.guarded
        if self.awaited:  # heartbeats say that this node lives; it acts on nothing
            self._announce(now)
            return
        self._greet()
        if held is not None and held.status != HeldStatus.PREPARED and held.guardian != NOBODY:
            if not self._hears(held.guardian, now) and self.terms.policy == GuardianPolicy.EAGER:
                self._without_guardian(held, now)
            elif held.status != HeldStatus.SEEKING:
                self._send(held.guardian, Alive(held.token.epoch, held.token.seq))
        self._note_waiting(now)
        held = self.disk.held
        if (
            held is not None
            and held.status == HeldStatus.MOVING
            and self.ready is not held.token  # otherwise the guardian is asked, and will answer
        ):
            if not self.disk.edges[held.to].up:
                self._give_up(held, "the node is dead", now)
            elif self._asked_too_long(now):
                self.not_taken[held.to] = self.not_taken.get(held.to, 0) + 1
                self._give_up(held, "the node runs, but does not answer", now)
        if guarded is not None and self._seems_dead(guarded, now):
            self._silent(Silent(), now)
        self._speak()
        if self._has_left():
            self._take_edges_down()
        self._announce(now)

    # Heartbeats, the end of the walk, and the operator

    def _heartbeat(self, sender: int, message: Heartbeat, now: float) -> None:
        """Handle a heartbeat: its record of the edge, its degree.

        Send the link of the known epoch, or the end of the walk, if the sender does not know it.
        """
        self._behind(sender, message.epoch)
        self._agree(sender, self.disk.edges[sender], message, now)
        self.told[sender] = message.end
        if message.end != self._end_name():
            self._tell_end(sender)

    def _finished(self, sender: int, message: Finished, now: float) -> None:
        """Keep the final token, and send it to the neighbours.

        Of two ends of an epoch the later one counts: its guardian has the right of another node,
        which shows that the walk went on from the earlier one. (Of two for one hand-off, by a
        guardian that lies, all nodes take the one with the larger hash.)
        """
        token = message.token
        if (
            self._behind(sender, token.epoch)
            or self._lacks_size(sender, token)
            or self.published.refuses(token) is not None
            or not self.published.ends(token)
        ):
            return
        held = self.disk.held
        if held is not None and held.token.epoch > token.epoch:
            return  # the token was restored meanwhile, and its epoch may be announced already
        if self._ahead(sender, token.epoch, now):
            return
        final = self.disk.final
        if final is not None:
            own, other = (final.seq, self._digest(final)), (token.seq, message.end.digest)
            if own == other:
                self.told[sender] = self._end_name()
            elif other < own:
                self._tell_end(sender)
            if other <= own:
                return
        why = refuses_ending(message.end, token, self.terms.run, self.signer)
        who = message.end.guardian
        if why is None and any(lie.covers(who, token.epoch) for lie in self.disk.liars):
            why = f"node {who} has lied about its register"
        if why is None and self.disk.revoked.covers(who, token.epoch):
            why = f"node {who} was revoked"
        if why is None and self._denies_end(message.end, now):
            why = "the walk has continued beyond the step that is reported as its end"
        if why is not None:
            self._record("refused", sender=sender, why=why)
            return
        self._archive_false_end()  # whoever was guardian later knows better
        self._put("final", token)
        self._put("end", message.end)
        if held is not None and held.status != HeldStatus.PREPARED:
            self._record("finished", step=token.step, epoch=token.epoch)
        if held is not None and not _later_copy(held, token):  # it is this very token, or useless
            self._put("held", None)
        self.told[sender] = self._end_name()
        self._spread()
        self._announce(now)

    def _denies_end(self, end: Ending, now: float) -> bool:
        """Return whether an end is false, as far as this node knows, and act on it.

        A guardian that has also signed that the walk went on is found out. Whoever has the token in
        use knows that the walk is not over: its guardian, or a former one, has signed what is not
        true, and the holder continues in a higher epoch, in which the false end has no meaning.
        """
        held, guarded = self.disk.held, self.disk.guarded
        held = None if held is None or held.status == HeldStatus.PREPARED else held
        denying = [one for one in self._releases() if went_on(end, one)]
        known = self._lie_of(end.guardian)
        if known is not None and went_on(end, known.release):
            denying.append(known.release)
        final = (
            guarded is not None
            and guarded.register == RegisterValue.FINISHED
            and guarded.copy.epoch == end.epoch
        )
        if held is not None and (
            held.status != HeldStatus.ENDING or self._digest(held.token) != end.digest
        ):
            self._record("false end", guardian=end.guardian, epoch=end.epoch, seq=end.seq)
        elif not denying and not final:
            return False
        else:
            held = None
        for release in denying:
            lie = Lie(None, release, None, end)
            if release.guardian == end.guardian and (known is None or known.weight < lie.weight):
                self._expose(lie, now)
                break
        if held is not None and self.disk.held is held:  # otherwise this was done already
            if held.status == HeldStatus.SEEKING:
                self._without_guardian(held, now)
            else:
                self._replace_guardian(held, now, avoid=(held.guardian, end.guardian))
        return True

    def _shut_out(self, node: int, now: float) -> None:
        """Treat a node that has lied as gone for good."""
        self._gone(Gone(node), now)

    def _gone(self, event: Gone, now: float) -> None:
        """The operator says that a node is gone: restore the token if that node held it, and
        replace that node if it guarded it.
        """
        if event.for_good:
            self._declared_gone(event.node, now)
        elif not self.awaited:
            self._go_on_without(event.node, now)

    def _go_on_without(self, node: int, now: float) -> None:
        self.heard[node] = float("-inf")
        edge = self.disk.edges.get(node)
        if edge is not None and (
            edge.up or edge.degree > 1
        ):  # if it comes back, it may have fewer edges
            self._set_edge(node, edge._replace(version=edge.version + edge.up, up=False, degree=1))
        held, guarded = self.disk.held, self.disk.guarded
        if held is not None and held.status == HeldStatus.PREPARED and held.giver == node:
            self._put(
                "held", held._replace(giver=NOBODY)
            )  # once activated, the token will need another guardian
        if held is not None and held.status == HeldStatus.MOVING and held.to == node:
            held = self._unwanted(held, "the node is gone")  # with the edge, in one transaction
        if held is not None and held.status != HeldStatus.PREPARED and held.guardian == node:
            self._without_guardian(held, now)
        elif guarded is not None and guarded.holder == node:
            if isinstance(
                guarded.register, Certificate
            ):  # forward the certificate from now on, also after a crash
                self._put("guarded", guarded._replace(holder=NOBODY))
            self._silent(Silent(), now)
        if self.disk.held is not None and self.disk.held.status == HeldStatus.WITHDRAWING:
            self._go_on(now)


def _later_copy(held: Held, final: Token) -> bool:
    """Return whether a node has a token prepared that comes after a final one: if its certificate
    comes, the end was false.
    """
    after = (held.token.epoch, held.token.seq) > (final.epoch, final.seq)
    return held.status == HeldStatus.PREPARED and after
