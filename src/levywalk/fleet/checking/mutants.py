"""Nodes with one injected bug each. Tools that do not find all of them are not good enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from levywalk.fleet.protocol.events import Genesis, Persist, Send, Start, TurnRequest
from levywalk.fleet.protocol.lineage import Lineage
from levywalk.fleet.protocol.links import Reason
from levywalk.fleet.protocol.messages import (
    Answer,
    Certificate,
    Message,
    Prepared,
    Question,
    Release,
    Withdraw,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import (
    NOBODY,
    Began,
    Held,
    HeldStatus,
    Known,
    SilentNeighbour,
)
from levywalk.fleet.protocol.token import FIRST, Token


class AcknowledgesBeforeCommit(Node):
    """The next node sends "prepared" before the token is on its disk."""

    def _send(self, to: int, message: Message) -> None:
        if isinstance(message, Prepared):
            self.out.append(Send(to, message))
        else:
            super()._send(to, message)


class ReleasesWithoutRegister(Node):
    """The guardian gives a certificate without reading or writing its register."""

    def _registered(self, sender: int, message: Release, now: float) -> Certificate | None:
        if (
            self._behind(sender, message.epoch)
            or self._mine(sender, message.epoch, message.seq) is None
        ):
            return None
        blank = Certificate(
            self.id, message.epoch, message.seq, message.to, sender, message.digest, b""
        )
        return blank._replace(signature=self.signer.sign(blank.statement(self.terms.run)))


class AnnouncesUnguarded(Node):
    """A restored token becomes active, and its epoch is announced,
    before a second node has a copy.
    """

    def _bring_back(
        self, token: Token, reason: Reason, to: int, now: float, avoid: Sequence[int]
    ) -> None:
        super()._bring_back(token, reason, to, now, avoid)
        held = self.disk.held
        if held is not None and held.guardian != NOBODY:
            self._begin(held, now)

    def _begin(self, held: Held, now: float) -> None:
        self._lines.append(Began(held.token.epoch, held.parent, held.token.step))
        self._put(
            "held",
            held._replace(status=HeldStatus.ACTIVE if held.to == NOBODY else HeldStatus.MOVING),
        )
        self._put("known", Known(held.token.epoch, held.token.base, held.link))
        self._announce_epoch(now)
        self._go_on(now)


class RedrawsAfterCrash(Node):
    """After a restart a decision that was on disk is made again,
    with another result if possible.
    """

    def _start(self, event: Start, now: float) -> None:
        held = self.disk.held
        if held is not None and held.status == HeldStatus.MOVING:
            others = [u for u in self.neighbours if u != held.to and self.disk.edges[u].up]
            if others:
                self._put("held", held._replace(to=min(others, key=lambda u: (u < held.to, u))))
        super()._start(event, now)


class GenesisWithoutGuardian(Node):
    """The first token becomes active at once, whether or not its guardian has the copy."""

    def _genesis(self, event: Genesis, now: float) -> None:
        fresh = self.disk.known.epoch == FIRST and self.disk.held is None
        super()._genesis(event, now)
        held = self.disk.held
        if fresh and held is not None and held.guardian != NOBODY:
            self._put("held", held._replace(status=HeldStatus.ACTIVE))
            self._put("known", Known(held.token.epoch, held.token.base, held.link))
            self._go_on(now)


class StaysWithoutAsking(Node):
    """The model stays as soon as the next node is dead or refuses it, although the guardian may
    have been asked to release it.
    """

    def _give_up(self, held: Held, why: str, now: float) -> None:
        self._put("held", held._replace(status=HeldStatus.ACTIVE, to=NOBODY))
        self._commit()
        self.out.append(TurnRequest())


class WithdrawsInWordsOnly(Node):
    """The guardian says that a choice is withdrawn, and does not write that down."""

    def _withdraw(self, sender: int, message: Withdraw, now: float) -> None:
        guarded = self.disk.guarded
        super()._withdraw(sender, message, now)
        if guarded is not None and guarded.register is None:
            self.out = [one for one in self.out if not isinstance(one, Persist)]
            self.disk.guarded = guarded


class ForgetsEarlierWithdrawals(Node):
    """The guardian knows the last choice that was withdrawn, and no earlier one."""

    def _registered(self, sender: int, message: Release, now: float) -> Certificate | None:
        guarded = self.disk.guarded
        if guarded is not None and 0 < message.hops < guarded.withdrawn:
            self.disk.guarded = guarded._replace(withdrawn=0)
            self._changed["guarded"] = self.disk.guarded
        return super()._registered(sender, message, now)


class ReleasesWhateverItPrepares(Node):
    """A guardian that is the next node itself releases what it has prepared, even if the choice was
    withdrawn before.
    """

    def _say_prepared(self, giver: int, token: Token, digest: bytes, now: float) -> None:
        guarded = self.disk.guarded
        if guarded is not None and guarded.withdrawn:
            self._put("guarded", guarded._replace(withdrawn=0))
        super()._say_prepared(giver, token, digest, now)


class ReleasesBeforeItPrepares(Node):
    """A guardian that is the next node itself releases a token that is not on its disk yet."""

    def _say_prepared(self, giver: int, token: Token, digest: bytes, now: float) -> None:
        held, self.disk.held = self.disk.held, None
        prepared = self._changed.pop("held", None)
        super()._say_prepared(giver, token, digest, now)
        if prepared is not None:
            self._put("held", held)
        self.disk.held = held


class AsksALostDiskAgain(Node):
    """It does not give up its choice if the next node has lost its disk, and asks it again."""

    def _unwanted(self, held: Held, why: str) -> Held:
        return held if why == "the node is gone" else super()._unwanted(held, why)


class TrustsItsDisk(Node):
    """After a start it acts at once on what is on its disk, whoever has seen more of it.

    (Only rollbacks show this bug, and the model checker has none.)
    """

    def _begin_start(self, draw: bytes, joins: Iterable[int], now: float) -> None:
        super()._begin_start(draw, joins, now)
        self.awaited = set()

    def _fence(self, sender: int, why: str) -> None:
        """Take part all the same."""


class ReadsTheNewestMemory(Node):
    """A visit reads what the node remembered last, whether or not it belongs to the token's walk.

    (Only methods with memory at the nodes show this bug and the next one.)
    """

    def _recall(self, token: Token) -> Token:
        found = super()._recall(token)
        if self.disk.memory is not None and self.disk.memory.entries:
            last = self.disk.memory.entries[-1]
            self.site.recall(last.content, last.edges)
        return found


class IgnoresLosses(Node):
    """A node does not care that what a neighbour remembered is lost."""

    def _note_loss(self, node: int, disk: bytes) -> None:
        super()._note_loss(node, disk)
        kept = self.disk.memory
        if kept is not None:  # as if a visit had dealt with it
            entries = tuple(one._replace(losses=len(kept.losses)) for one in kept.entries)
            self._put("memory", kept._replace(entries=entries))


class TakesOldAnswers(Node):
    """It takes any answer for the answer to its present question.

    (Only walks that ask their neighbours show this bug and the next two.)
    """

    def _answer(self, sender: int, message: Answer, now: float) -> None:
        if self.inquiry is not None:
            message = Answer(*self.inquiry.place, message.values)
        super()._answer(sender, message, now)


class AnswersFromAnyBranch(Node):
    """It answers with what it remembered last, whether or not it belongs to the walk of the token
    for which it is asked.
    """

    def _question(self, sender: int, message: Question, now: float) -> None:
        kept = self.disk.memory
        if kept is None or not kept.entries or message.epoch != self.disk.known.epoch:
            super()._question(sender, message, now)
            return
        lineage, last = Lineage.read(np.frombuffer(message.lineage, "<i8")), kept.entries[-1]
        values = self.site.told(last.content, last.edges, message.phase)
        self._send(sender, Answer(*message[:3], lineage.since, values))


class HidesSilences(Node):
    """It decides without a neighbour that does not answer, and does not log that."""

    def _decided(self, token: Token, now: float) -> tuple[Token, int] | None:
        found = super()._decided(token, now)
        self._lines = [line for line in self._lines if not isinstance(line, SilentNeighbour)]
        return found


class TakesAnySize(Node):
    """It takes a token that was updated for a size of the fleet which it does not know."""

    def _lacks_size(self, sender: int, token: Token) -> bool:
        return False


MUTANTS: tuple[type[Node], ...] = (
    AcknowledgesBeforeCommit,
    ReleasesWithoutRegister,
    AnnouncesUnguarded,
    RedrawsAfterCrash,
    GenesisWithoutGuardian,
    StaysWithoutAsking,
)
