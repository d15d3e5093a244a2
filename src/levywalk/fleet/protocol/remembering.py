"""What a node does with memory: before a visit it reads what belongs to the token's walk, and after
it writes; and it asks its neighbours, and answers them, if the walk decides by their memory.

Answers are needed before a decision. The decision is tried; if answers are missing, it leaves no
trace, the neighbours are asked, and it is made again when they have answered. It is a function of
the token, the memory, the answers and the key, so nothing is drawn again. What is asked and
answered is not on the disk: after a crash neighbours are asked again.

A neighbour whose edge is down is not asked. One that does not answer within ``dead_after``, or has
dropped the entry that the token would need, counts as silent: the walk decides without it, and the
visit's log says so.

What a node's privacy budget has spent is written with the decision as well, but belongs to the
node and to no token: it never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from levywalk.fleet.protocol.events import TurnRequest
from levywalk.fleet.protocol.guardian import Guardian
from levywalk.fleet.protocol.kept_memory import (
    DEPTH,
    EPOCHS,
    NOTHING_KEPT,
    UNFIT,
    MemoryEntry,
)
from levywalk.fleet.protocol.lineage import LINEAGE_BYTES, Lineage
from levywalk.fleet.protocol.messages import Answer, Question
from levywalk.fleet.protocol.node_step import Unanswered
from levywalk.fleet.protocol.records import (
    NOBODY,
    BudgetSpent,
    NewGeneration,
    SilentNeighbour,
    Spending,
)
from levywalk.fleet.protocol.token import Epoch, Token


@dataclass
class Inquiry:
    """The question before one decision, and what neighbours have answered."""

    question: Question
    since: int  # when the token's memory generation began
    asked_at: float
    answers: dict[int, bytes | None] = field(default_factory=dict)
    due: set[int] = field(default_factory=set)  # who has not answered

    @property
    def place(self) -> tuple[Epoch, int, int, int]:
        """The decision that it is about, and the memory generation."""
        return *self.question[:3], self.since


class Remembering(Guardian):
    """What a node remembers for walk and update, and what it asks its neighbours."""

    inquiry: Inquiry | None = None

    def _recall(self, token: Token) -> Token:
        """Read the memory that belongs to the token's walk, before a visit; return the token, with
        a new memory generation if that is needed.
        """
        kept, lineage = self.disk.memory or NOTHING_KEPT, self.published.lineage(token)
        found = kept.recalled(lineage, token.epoch)
        why, entry = found.why, found.entry
        fits = entry is None or self.site.recall(entry.content, entry.edges)
        if not fits:
            why = (*why, (UNFIT, NOBODY))
        if why or entry is None:
            self.site.recall(None)
        if not why:
            return token
        token = self.published.risen(token, found.losses)
        number = self.published.lineage(token).generation
        for reason, node in why:
            line = NewGeneration(token.epoch, token.step, token.hops, number, reason, node)
            self._lines.append(line)
        return token

    def _keep_memory(self, token: Token, *, firm: bool) -> None:
        """Put what the node remembers after a visit on its disk, with the decision."""
        for line in self._lines:
            if isinstance(line, NewGeneration):
                self._record("memory starts again", step=line.step, why=line.why, lost=line.node)
        kept = self.disk.memory or NOTHING_KEPT
        entry = MemoryEntry(
            *(token.epoch, token.hops, token.seq, firm, len(kept.losses)),
            *(self.site.edges, self.site.kept()),
        )
        lineage = self.published.lineage(token)
        self._put("memory", kept.with_entry(entry, lineage, self.terms.memory_depth))

    def _recall_spent(self) -> None:
        """Tell the walk's step what the node's budget has spent, in whatever epoch that was."""
        if self.site.counts:
            self.site.spent = 0 if self.disk.spent is None else self.disk.spent.releases

    def _keep_spent(self, token: Token) -> None:
        """Put what the budget has spent on the disk, with the decisions of a turn that began with
        that token.
        """
        before = self.disk.spent or Spending(0, first=True)
        if not self.site.counts or self.site.spent == before.releases:
            return
        self._put("spent", before._replace(releases=self.site.spent))
        if self.site.spent >= self.site.cap:
            self._lines.append(BudgetSpent(token.epoch, token.step, self.site.spent))
            self._record("budget spent", step=token.step, updates=self.site.spent)

    def _decided(self, token: Token, now: float) -> tuple[Token, int] | None:
        """Log the visit, update and decide; None if answers of neighbours are needed first."""
        if self.site.updates(token):
            self._lines += self.site.lines(token, self.published.recorded(token.step))
        if not self.site.asks:
            return self.site.decide(token)
        lineage, before = self.published.lineage(token), self.site.kept()
        place = (token.epoch, token.seq, token.hops, lineage.since)
        if self.inquiry is not None and self.inquiry.place != place:
            self.inquiry = None
        inquiry = self.inquiry
        if inquiry is not None and now - inquiry.asked_at > self.terms.dead_after:
            inquiry.answers |= dict.fromkeys(inquiry.due)
        self.site.answers = {} if inquiry is None else inquiry.answers
        try:
            decided = self.site.decide(token)
        except Unanswered as missing:
            self.site.recall(before, self.site.edges)
            if inquiry is None:
                content = lineage.numbers().astype("<i8").tobytes()
                question = Question(*place[:3], missing.phase, content)
                inquiry = self.inquiry = Inquiry(question, lineage.since, now)
            inquiry.due = set(missing.nodes)
            return None
        for u in sorted(self.site.silent):
            self._lines.append(SilentNeighbour(token.epoch, token.step, token.hops, u))
            self._record("no answer", node=u, step=token.step)
        self.inquiry = None
        return decided

    def _put_questions(self, now: float) -> None:
        """Ask the neighbours whose answers are needed."""
        assert self.inquiry is not None
        for u in sorted(self.inquiry.due):
            self._send(u, self.inquiry.question)

    def _question(self, sender: int, message: Question, now: float) -> None:
        """Answer what this node remembers, as far as it belongs to the walk of the sender's
        token.
        """
        if self._behind(sender, message.epoch) or self._ahead(sender, message.epoch, now):
            return
        phases = len(self.published.phases) if self.site.asks else 0
        if message.phase >= phases or len(message.lineage) != LINEAGE_BYTES:
            self._record(
                "refused", sender=sender, why="the question has an invalid phase or lineage"
            )
            return
        lineage = Lineage.read(np.frombuffer(message.lineage, "<i8"))
        if lineage.impossible(message.epoch, message.hops) is not None:
            self._record(
                "refused", sender=sender, why="no walk can have the lineage in the question"
            )
            return
        found = (self.disk.memory or NOTHING_KEPT).recalled(lineage, message.epoch)
        values, entry = b"", found.entry
        if not {reason for reason, _ in found.why} & {DEPTH, EPOCHS}:
            content, edges = (None, ()) if entry is None else (entry.content, entry.edges)
            values = self.site.told(content, edges, message.phase)
        self._send(sender, Answer(*message[:3], lineage.since, values))

    def _answer(self, sender: int, message: Answer, now: float) -> None:
        """Note an answer; decide when all have answered."""
        inquiry = self.inquiry
        if inquiry is None or inquiry.place != message[:4] or sender not in inquiry.due:
            return
        size = 8 * len(self.published.asked(inquiry.question.phase))
        if len(message.values) not in (0, size):
            why = f"an answer of {size} bytes, or an empty one, was expected"
            self._record("refused", sender=sender, why=f"{why}, got {len(message.values)} bytes")
            return
        inquiry.answers[sender] = message.values or None
        inquiry.due.discard(sender)
        if not inquiry.due:
            self.out.append(TurnRequest())
