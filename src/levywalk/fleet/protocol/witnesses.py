"""After a start a node waits for its witnesses: the neighbours, which remember what they saw of it.

A node that starts again greets all its neighbours with its starts, their chain, and the number of
its last write (`starts`). Each of them answers at once, from its disk, what it has seen, also if it
waits itself: so a restart of a whole fleet does not block. Until all have answered, apart from
those that were declared gone, the node acts on no token, register or promise of its disk. If one
has seen more than the disk holds, the node is *fenced*: it takes no part any more, until the
operator lets it rejoin without that disk.

A node that waits cannot activate the token that was released to it, nor ask its guardian for
anything. So a guardian takes every message of such a node for a sign that its holder is alive:
restarts do not add up to the silence after which it restores the token.

Every message has the sender's start and the number of the write that it depends on. The receiver
stores the highest in the same transaction as whatever it does because of the message; so a
neighbour knows about every write that its own disk depends on. Messages of an earlier start are
dropped.

All this is off for a node whose start had no random number (`Start`), as in the model checker.
"""

from __future__ import annotations

from collections.abc import Iterable

from levywalk.fleet.protocol.events import (
    Event,
    Excused,
    Genesis,
    Got,
    Leaves,
    Revive,
    Silent,
    Start,
    Turn,
)
from levywalk.fleet.protocol.kept_memory import NOTHING_KEPT
from levywalk.fleet.protocol.messages import (
    Exposed,
    Fenced,
    Greeting,
    Heartbeat,
    Prepare,
    Refused,
    Revoked,
    Sighting,
    Sized,
)
from levywalk.fleet.protocol.node_state import NodeState
from levywalk.fleet.protocol.records import Spending
from levywalk.fleet.protocol.starts import (
    LINK,
    NeighbourStart,
    Starts,
    disagreement,
    next_link,
    possible,
    start_name,
)

_LATER = (Genesis, Revive, Leaves)  # what the operator asks of a node that waits is done later
_DROPPED = (Turn, Silent)
# a node that waits learns of epochs, of lies, of revocations and of the fleet's size
_ALWAYS = (Heartbeat, Fenced, Exposed, Revoked, Sized)
_OF_STARTS = frozenset((Greeting, Sighting))  # a set of types is looked up faster than a union


class Witnesses(NodeState):
    """Greets the neighbours after a start, answers their greetings, and waits for their answers."""

    @property
    def fenced(self) -> str:
        """Why the node must not take part any more; empty if it may."""
        return "" if self.disk.starts is None else self.disk.starts.fenced

    def go_on_waiting(self, before: Witnesses) -> None:
        """Wait for the same answers as the state machine that this one replaces in the same
        process.
        """
        self.awaited, self.ungreeted = before.awaited, before.ungreeted
        self.postponed, self.started_at = before.postponed, before.started_at

    def _allows(self, event: Event, now: float) -> bool:
        """Return whether an event is to be handled now."""
        starts = self.disk.starts
        if starts is not None and starts.fenced:
            self.tick_at = now + self.terms.heartbeat
            return isinstance(event, Start) or (
                isinstance(event, Got) and isinstance(event.message, Greeting)
            )
        if not self.awaited:
            return True
        if isinstance(event, _LATER):
            self.postponed.append(event)
        return not isinstance(event, (*_LATER, *_DROPPED))

    def _accepts(self, event: Got, now: float) -> bool:
        """Return whether a neighbour's message is to be handled, and note what it proves."""
        sender, message, start, commit = event
        if type(message) in _OF_STARTS:
            return True
        if start and self.disk.starts is not None:
            seen = self.sightings.get(sender)
            if seen is None or start_name(seen.link) != start:
                return False  # of an earlier start, or of one that has not greeted yet
            if commit > seen.commits:
                self.sightings[sender] = NeighbourStart(*seen[:3], commit, *seen[4:])
                self.saw_more = True
            if not commit:  # the sender waits for answers, and cannot say that it holds
                self.part_received(sender, now)
        self.heard[sender] = now
        if not self.awaited or isinstance(message, _ALWAYS):
            return True
        if isinstance(message, Prepare) and now - self.started_at > self.terms.dead_after:
            token = message.token
            why = "the node waits for neighbours that do not answer"
            self._send(sender, Refused(token.epoch, token.seq, token.digest(), why))
        return False

    # A start

    def _begin_start(self, draw: bytes, joins: Iterable[int], now: float) -> None:
        """Add a link to the chain, and greet the neighbours, the new ones as well.

        The link names the number of the last write of the starts before. So nothing is written
        before it: an old copy of a disk could make up in this way for the writes that it lacks.
        """
        self.started_at = now
        starts = self.disk.starts
        for u in joins:
            self._add_edge(u)
        if not draw:
            return
        chain = next_link(self.disk.chain, draw, 0 if starts is None else starts.commits)
        self._put("chain", chain)
        self.start_name = start_name(chain.links)
        if starts is None:  # a new disk, without promises
            self._put("starts", Starts(chain.links[-LINK:], 1, 0, "", {}))
        else:
            self._put("starts", starts._replace(number=starts.number + 1))
            gone = {u for u, seen in self.sightings.items() if seen.gone}
            gone |= {lie.liar for lie in self.disk.liars if lie.pardon is None}
            gone |= self.disk.revoked.nodes
            self.awaited = set() if starts.fenced else set(self.neighbours) - gone
        if not self.fenced:
            self.ungreeted = set(self.neighbours)
            self._greet()

    def _add_edge(self, node: int) -> None:
        """Add an edge that is not in use yet. `Membership` knows how."""
        raise NotImplementedError

    def _greet(self) -> None:
        """Greet the neighbours that have not answered yet."""
        for u in sorted(self.ungreeted):
            self._send(u, self._standing())

    def _greet_newcomer(self, node: int) -> None:
        """Greet one neighbour, which may have forgotten this node or never seen it."""
        if self.disk.starts is not None:
            self.ungreeted.add(node)
            self._send(node, self._standing())

    def _standing(self) -> Greeting:
        """Return the greeting of this node, as of its last write."""
        if self._changed:
            self._commit()
        starts, chain = self.disk.starts, self.disk.chain
        assert starts is not None
        assert chain is not None
        return Greeting(starts.origin, starts.number, chain.links, starts.commits)

    def _waits_for_witnesses(self, now: float) -> bool:
        """Return whether the node must wait; then greet again."""
        if not self.awaited:
            return False
        self._greet()
        self.retry_at = now + self.terms.retry
        return True

    # Greetings and answers

    def _greeting(self, sender: int, message: Greeting, now: float) -> None:
        """Answer what this node has seen of the sender, after storing the greeting, unless it
        contradicts that.
        """
        if not possible(message):
            self._record(
                "refused",
                sender=sender,
                why="the greeting has an invalid number or an invalid chain of starts",
            )
            return
        seen = self.sightings.get(sender, NeighbourStart())
        answer = seen.told(message)
        if not disagreement(message, answer):
            after = seen.after(message)
            if seen.origin not in (b"", after.origin) and not seen.gone:
                self._note_loss(sender, seen.origin)
            if after != seen:
                self._see_neighbour(sender, after)
            if (after.origin, after.number) != (seen.origin, seen.number):
                self.ungreeted.add(sender)  # it may have forgotten this node
                self.part_received(sender, now)
        if self.disk.starts is None:
            self._send(sender, answer)
            return
        if not self.fenced:
            self.heard[sender] = now
            self._tell_epoch(sender, now)
        self._send(sender, answer)
        if sender in self.ungreeted and not self.fenced:
            self._send(sender, self._standing())

    def _sighting(self, sender: int, message: Sighting, now: float) -> None:
        """A neighbour says what it has seen of this node."""
        if self.disk.starts is None:
            return
        standing = self._standing()
        why = disagreement(standing, message)
        if why:
            self._fence(sender, why)
        elif message.answers == standing.links[-LINK:]:  # not the answer to an earlier start
            self.heard[sender] = now
            self.ungreeted.discard(sender)
            if message.origin and not message.number:
                self._had_a_disk(sender)
            self._answered(sender, now)

    def _had_a_disk(self, sender: int) -> None:
        """A neighbour knows an earlier disk of this node: if this one was said to be the first, and
        to have a whole privacy budget, that is not so, and the budget counts as spent.
        """
        spent = self.disk.spent or Spending(0, first=True)
        if self.site.counts and spent.first:
            self._put("spent", Spending(self.site.cap))
            self._record("budget counts as spent", neighbour=sender)

    def _answered(self, node: int, now: float) -> None:
        """A neighbour's answer is not awaited any more."""
        if node in self.awaited:
            self.awaited.discard(node)
            if not self.awaited:
                self._record("confirmed")
                self.holder_heard = now
                self._resume(now)

    def _resume(self, now: float) -> None:
        """Continue where the disk says, and with what the operator has asked for meanwhile."""
        raise NotImplementedError

    def _tell_epoch(self, u: int, now: float) -> None:
        """Send the link of the known epoch, so that a neighbour knows it before it acts."""
        raise NotImplementedError

    def _fence(self, sender: int, why: str) -> None:
        """Take no part any more: this disk does not hold all that the node has promised."""
        assert self.disk.starts is not None
        said = f"node {sender} {why}"
        self._put("starts", self.disk.starts._replace(fenced=said))
        self.awaited, self.ungreeted, self.postponed = set(), set(), []
        self.retry_at = float("inf")
        self._record("fenced", why=said)

    # Neighbours that are gone

    def _excused(self, event: Excused, now: float) -> None:
        """Do not wait for the answer of a node that is not a neighbour any more."""
        self._answered(event.node, now)

    def _see_neighbour(self, node: int, seen: NeighbourStart) -> None:
        """Store what is known of a neighbour before the next message is sent."""
        self.sightings[node] = seen
        if self.disk.starts is not None:
            self.saw_more = True
            self._changed["starts"] = self.disk.starts

    def _declared_gone(self, node: int, now: float) -> None:
        """The operator says that a neighbour will never come back: its answer is not awaited, and
        the node continues without it, as soon as it may act.
        """
        if self.disk.starts is None or node not in self.disk.edges:
            if node in self.disk.edges and node not in self._known_losses():
                self._note_loss(node, b"")
            self._go_on_without(node, now)
            return
        self._owe(node)
        self._answered(node, now)
        if not self.awaited:
            self._settle_debts(now)

    def _owe(self, node: int) -> None:
        """Note that a neighbour is gone for good, and that this was not acted on yet."""
        if self.disk.starts is not None and node in self.disk.edges:
            seen = self.sightings.get(node, NeighbourStart())
            if not seen.gone:
                self._note_loss(node, seen.origin)
            self._see_neighbour(node, seen._replace(gone=True, owed=True))

    def _note_loss(self, node: int, disk: bytes) -> None:
        """Note that what a neighbour remembered is lost for good: with its disk, or with it."""
        if self.site.remembers:
            self._put("memory", (self.disk.memory or NOTHING_KEPT).with_loss(node, disk))

    def _known_losses(self) -> set[int]:
        return {loss.node for loss in (self.disk.memory or NOTHING_KEPT).losses}

    def _settle_debts(self, now: float) -> None:
        """Continue without the neighbours that the operator has declared gone."""
        for node, seen in list(self.sightings.items()):
            if seen.owed:
                self._see_neighbour(node, seen._replace(owed=False))
                self._go_on_without(node, now)

    def _go_on_without(self, node: int, now: float) -> None:
        """Replace a node that is gone in what it held and guarded."""
        raise NotImplementedError
