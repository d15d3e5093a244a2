"""Model checker: everything that can happen to a small fleet, with the real `protocol.node.Node`,
breadth first.

The world
---------
A state consists of the disks, the messages that were ever sent, the dead node, the remaining
faults, and the facts that the invariants need. No clock is trusted: a timer is an event that may
happen at any time.

- A message that was sent may be delivered at any time, any number of times, in any order, or never.
  This covers loss, duplication, delay, reordering and partitions.
- A node may crash between any two effects (a commit or a send) of any event, any number of times,
  and starts again with its disk. Memory is not part of a state, apart from what a node has asked
  its neighbours and what they have answered: every event is given to a state machine that was just
  made from its disk. So bugs that need a longer memory (caches, times of messages, timers) must be
  found by `world`.
- One of the mortal nodes may die, also between any two effects. Then the operator may say so to any
  node.
- A guardian may consider its holder dead at any time (`Silent`), and may choose any neighbour to
  guard the copy.
- A node that has asked its neighbours may consider those silent that have not answered, at any
  time, and decide without them.
- Limited by a budget: a node considers a neighbour dead; the operator says of a living node that it
  is gone; a node leaves; a node loses its disk and all messages to it (a connection must not
  outlive a disk) and starts again without it. It and another node exchange messages only after the
  other one was told, once, that the earlier node is gone, as the transport does by incarnations.
  What only its register said is then also forgotten by I3 and by the count of lost updates.

What an event does at a node depends only on its disk and the event. It is computed once, and states
are tuples of small numbers. Three reductions keep their number small and hide nothing. Since a sent
message may be lost, a crash matters only just before a commit. A message that can never have an
effect again is forgotten (`Nodes.is_spent`). And a state is skipped if there is another one with
the same disks and facts, at least the same messages and at least the same remaining faults:
whatever can happen from the first can also happen from the second.

What is checked
---------------
====  ==============================================================================================
I1    in every state: no two nodes whose disks say *active*, *moving* or *withdrawing* in one epoch;
      the last two do not count once exactly this choice is released
I2    in every state after the first activation: some living node has a copy that can continue, of
      an epoch at least as high as any that a living node knows: held (not just prepared), guarded
      with an empty register, final, or prepared with its certificate in a living node's register
I3    no (e, m) is ever activated, before or after, with m > n where (e, n) is regenerated
I4    each (e, seq) is activated once
I5    at every commit: the highest known epoch does not fall
I6    each step of an epoch is visited once, and the final model contains each step once, from where
      it was visited
I7    a decision on disk is the one of the script; if neighbours were asked, the one that follows
      from the visits that the model contains, without those neighbours of which the log says that
      they did not answer
I8    what a node remembers, and what its neighbours answer, are the visits that the model contains
lost  nothing that is held in a regenerated epoch is more than K + 1 updates ahead of the copy that
      continues
size  the size of the fleet that a node knows never falls; it is at least that of every token that
      the node holds or guards; and each update is that of the size that its token names
disk  after an event, memory and disk agree
lie   nobody says of another node that it has lied: all are honest (signatures are symbolic here,
      and always valid; what links say is checked as in a real fleet)
live  from every state, if all messages arrive from now on and no other node fails, the walk ends
      and all nodes know its end; only if the guardian of the token is dead, and the policy does not
      allow to continue without it, the walk pauses first, and ends after the operator has said that
      the guardian is gone
====  ==============================================================================================

The file is long because these rules stand beside the search that follows them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

from levywalk.fleet.checking.exploration import Counterexample, Exploration, ExploredStep
from levywalk.fleet.checking.fair_runs import FairRuns
from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.checking.small_fleets import (
    ASKING_FLEETS,
    GROWING_FLEETS,
    LARGER_FLEETS,
    REMEMBERING_FLEETS,
    SMALL_FLEETS,
)
from levywalk.fleet.checking.states import (
    ALL,
    UNANSWERED,
    DiskValue,
    FaultBudget,
    Move,
    MoveOutcome,
    Nodes,
    WorldState,
    bits,
)
from levywalk.fleet.checking.verdicts import (
    accused,
    judge_facts,
    message_text,
    no_copy,
    place,
    two_live,
    unknown_size,
    updates_at_risk,
    wrong_choice,
    wrong_end,
)
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NOBODY, HeldStatus

HEARS = {ALL: "", NOBODY: " (hears nobody)"}


class Explorer:
    """Explores all states of a small fleet, breadth first."""

    def __init__(
        self, setting: SmallFleet, kind: type[Node] = Node, *, live: bool = True, most: int = 10**7
    ) -> None:
        self.setting, self.most, self.live = setting, most, live
        self.nodes = Nodes(setting, kind)
        self.fair = FairRuns(setting, kind)
        self.came: dict[WorldState, ExploredStep | None] = {}
        self.found = Exploration(setting)
        self._verdicts: dict[tuple[Any, ...], tuple[str, str] | None] = {}
        self._facts_judged: dict[int, tuple[str, str] | None] = {0: None}
        self._moves: dict[tuple[int, int], list[Move]] = {}
        self._inert: dict[tuple[int, int], int] = {}
        self._spent: dict[tuple[int, int], tuple[int, int]] = {}
        self._richest: dict[tuple[Any, ...], list[WorldState]] = {}

    def run(self) -> Exploration:
        """Check every state, until one breaks an invariant."""
        began = time.process_time()
        found = self.found
        queue = [self._first()]
        self.came[queue[0]] = None
        while queue and found.violation is None and len(self.came) < self.most:
            later: list[WorldState] = []
            for state in queue:
                if found.violation is not None or len(self.came) >= self.most:
                    break
                if not self._is_poorer(state):
                    later += self._expand(state)
            queue = later
        found.states = len(self.came)
        found.complete = found.violation is None and found.states < self.most
        found.seconds = time.process_time() - began
        return found

    def _expand(self, state: WorldState) -> list[WorldState]:
        """Return the new states that follow a state, after checking them."""
        new = []
        for after, step in self._after(state):
            self.found.transitions += 1
            if after not in self.came and not self._is_poorer(after):
                self.came[after] = step
                new.append(after)
                self._remember(after)
                self._judge(after)
        if self.nodes.problem is not None and self.found.violation is None:
            self.found.violation = Counterexample(*self.nodes.problem, self.trace(state))
        return new

    def _is_poorer(self, state: WorldState) -> bool:
        """Return whether everything that can happen from a state can also happen from another one,
        which has more messages and more faults left.
        """
        for other in self._richest.get((state.nodes, state.dead, state.facts), ()):
            if other is not state and state.poorer_than(other):
                return True
        return False

    def _remember(self, state: WorldState) -> None:
        key = (state.nodes, state.dead, state.facts)
        others = [other for other in self._richest.get(key, ()) if not other.poorer_than(state)]
        self._richest[key] = [*others, state]

    def _first(self) -> WorldState:
        s = self.setting
        budget = FaultBudget(
            *(s.silences, s.mistakes, s.suspicions, _mask(s.leaving), s.forgetful, s.revivals),
            sizes=s.sizes,
        )
        return WorldState(tuple(self.nodes.fresh), 0, NOBODY, budget, 0)

    # Events

    def _after(self, state: WorldState) -> Iterator[tuple[WorldState, ExploredStep]]:
        for v in range(self.setting.n):
            if v == state.dead:
                continue
            for move, budget in self._all_moves(state, v):
                yield from self._endings(state, v, move, budget)
            if state.dead == NOBODY and v in self.setting.mortal:
                yield self._dead(state, v), ExploredStep(state, v, Move("dies"), "death", 0)
            if state.budget.forgetful == v:
                yield self._forgets(state, v), ExploredStep(state, v, Move("forgets"), "", 0)

    def _endings(
        self, state: WorldState, v: int, move: Move, budget: FaultBudget
    ) -> Iterator[tuple[WorldState, ExploredStep]]:
        """Yield the states after an event: completed, or interrupted between its effects by a crash
        or by death.
        """
        outcomes = [
            one._replace(sent=self._passes(v, one.sent, budget))
            for one in self.nodes.outcomes(v, state.nodes[v], move)
        ]
        after = self._settled(state.after(v, outcomes[-1], budget))
        if outcomes[-1].facts & state.facts:
            way = [*self.trace(state), self._line(ExploredStep(state, v, move, "", 0))]
            self.found.violation = Counterexample(
                "again", self._repeated(outcomes[-1].facts & state.facts), way
            )
        if after != state:
            yield after, ExploredStep(state, v, move, "", 0)
        elif move.what == "got" and outcomes[-1] == MoveOutcome(state.nodes[v], 0, 0):
            key = (v, state.nodes[v])
            self._inert[key] = self._inert.get(key, 0) | 1 << move.about
        for outcome in outcomes[:-1]:
            broken = state.after(v, outcome, budget)
            start = self.nodes.outcomes(v, broken.nodes[v], Move("start"))[-1]
            start = start._replace(sent=self._passes(v, start.sent, budget))
            yield (
                self._settled(broken.after(v, start, budget)),
                ExploredStep(state, v, move, "crash", outcome.effects),
            )
            if state.dead == NOBODY and v in self.setting.mortal:
                yield self._dead(broken, v), ExploredStep(state, v, move, "death", outcome.effects)

    def _has_forgotten(self, state: WorldState, v: int) -> bool:
        return v == self.setting.forgetful != NOBODY and state.budget.forgetful == NOBODY

    def _passes(self, v: int, sent: int, budget: FaultBudget) -> int:
        """Return the messages that leave a node: none between a node that has lost its disk and one
        that does not know it yet, since a connection begins with the incarnations of both ends.
        """
        lost = self.setting.forgetful
        if lost == NOBODY or budget.forgetful != NOBODY or not sent:
            return sent
        for u in range(self.setting.n):
            if u != lost and not budget.told >> u & 1:
                sent &= ~self.nodes.to[u] if v == lost else ~0
                sent &= ~self.nodes.to[lost] if v == u else ~0
        return sent

    def _settled(self, state: WorldState) -> WorldState:
        """Return the state without the messages that can never have an effect again."""
        kept = 0
        for v, memory in enumerate(state.nodes):
            mail = state.sent & self.nodes.to[v]
            known = self._spent.get((v, memory), (0, 0))
            if mail & ~(known[0] | known[1]):
                known = self._look_at(v, memory, mail & ~(known[0] | known[1]), *known)
            kept |= mail & known[1]
        return state._replace(sent=kept) if kept != state.sent else state

    def _look_at(self, v: int, memory: int, mail: int, spent: int, useful: int) -> tuple[int, int]:
        for number in bits(mail):
            if self.nodes.is_spent(v, memory, number):
                spent |= 1 << number
            else:
                useful |= 1 << number
        self._spent[v, memory] = spent, useful
        return spent, useful

    def _dead(self, state: WorldState, v: int) -> WorldState:
        """Return the state after a death. Messages to the dead node are removed."""
        return self._settled(state._replace(dead=v, sent=state.sent & ~self.nodes.to[v]))

    def _repeated(self, facts: int) -> str:
        kind, epoch, number, node = self.nodes.facts.all[next(bits(facts))][:4]
        return f"e{epoch.counter}.{epoch.node} {number} was {kind} at node {node} a second time"

    def _forgets(self, state: WorldState, v: int) -> WorldState:
        """Return the state after a node has lost its disk with its registers, and the messages to
        it.
        """
        nodes = (*state.nodes[:v], self.nodes.fresh[v], *state.nodes[v + 1 :])
        facts = sum(
            1 << i for i in bits(state.facts) if self.nodes.facts.all[i][::4] != ("regenerated", v)
        )
        budget = state.budget._replace(forgetful=NOBODY)
        return WorldState(nodes, state.sent & ~self.nodes.to[v], state.dead, budget, facts)

    def _all_moves(self, state: WorldState, v: int) -> Iterator[tuple[Move, FaultBudget]]:
        key, budget = (v, state.nodes[v]), state.budget
        for number in bits(state.sent & self.nodes.to[v] & ~self._inert.get(key, 0)):
            yield Move("got", number), budget
        moves = self._moves.get(key)
        if moves is None:
            moves = self._moves[key] = list(self._own_moves(*key))
        for move in moves:
            paid = self._paid(state, v, move)
            if paid is not None:
                yield move, paid
        if budget.sizes:
            version = self.setting.sizes - budget.sizes + 1
            yield Move("resize", version), budget._replace(sizes=budget.sizes - 1)
        if budget.leaving >> v & 1:
            yield Move("leaves"), budget._replace(leaving=budget.leaving & ~(1 << v))

    def _own_moves(self, v: int, number: int) -> Iterator[Move]:
        """Yield what can happen at a node without a message."""
        memory = self.nodes.memories.all[number]
        up = [u for u, edge in memory.edges if edge.up]
        held, guarded = memory.held, memory.guarded
        yield Move("start")
        if v == self.setting.start and held is None:
            yield from (Move("genesis", hears=u) for u in up)
        if held is not None and held.status == HeldStatus.ACTIVE:
            yield Move("turn")
        if memory.asked is not None:
            yield Move(UNANSWERED)
        if held is not None and held.status == HeldStatus.SEEKING and held.guardian == NOBODY:
            yield from (Move("retry", hears=u) for u in up)
        if guarded is not None and guarded.register is None:
            yield from (Move("silent", hears=u) for u in (*up, NOBODY))
        if guarded is not None and isinstance(guarded.register, Certificate):
            yield Move("passes its certificate on")
        if self.setting.revivals and best_copy(memory.disk()) is not None:
            yield from (Move("revive", hears=u) for u in (*up, NOBODY))
        if held is not None and held.status == HeldStatus.MOVING:
            yield Move("waits too long")
        if memory.own.leaving or self.setting.forgetful != NOBODY:
            yield Move("tick")
        for u, _ in memory.edges:
            yield Move("suspects", u)
            yield from (Move("gone", u, w) for w in (*up, NOBODY) if w != u)

    def _paid(self, state: WorldState, v: int, move: Move) -> FaultBudget | None:
        """Return the budget after a move, or None if the budget does not allow it."""
        budget = state.budget
        if move.what == "silent":
            return budget._replace(silences=budget.silences - 1) if budget.silences else None
        if move.what == "revive":
            return budget._replace(revivals=budget.revivals - 1) if budget.revivals else None
        if move.what in ("suspects", "waits too long"):
            return budget._replace(suspicions=budget.suspicions - 1) if budget.suspicions else None
        if move.what == "genesis" and budget.forgetful != self.setting.forgetful:
            return None  # a node that lost its disk does not know whether there was a token before
        told = budget.told >> v & 1
        if move.what == "gone" and self._has_forgotten(state, move.about) and not told:
            return budget._replace(told=budget.told | 1 << v)
        if move.what == "gone" and move.about != state.dead:
            return budget._replace(mistakes=budget.mistakes - 1) if budget.mistakes else None
        return budget

    # Checks

    def _judge(self, state: WorldState) -> None:
        bad = self._bad_facts(state) or self._bad_disks(state)
        if bad is None and self.live:
            bad = self._not_live(state)
        if bad is not None and self.found.violation is None:
            self.found.violation = Counterexample(*bad, self.trace(state))

    def _bad_facts(self, state: WorldState) -> tuple[str, str] | None:
        if state.facts in self._facts_judged:
            return self._facts_judged[state.facts]
        bad = judge_facts([self.nodes.facts.all[i] for i in bits(state.facts)])
        self._facts_judged[state.facts] = bad
        return bad

    def _bad_disks(self, state: WorldState) -> tuple[str, str] | None:
        key = (state.nodes, state.dead, state.facts)
        if key not in self._verdicts:
            memories = [self.nodes.memories.all[i] for i in state.nodes]
            facts = [self.nodes.facts.all[i] for i in bits(state.facts)]
            self._verdicts[key] = self._judge_disks(memories, state.dead, facts)
        return self._verdicts[key]

    def _judge_disks(
        self, memories: list[DiskValue], dead: int, facts: list[tuple[Any, ...]]
    ) -> tuple[str, str] | None:
        living = [memory for v, memory in enumerate(memories) if v != dead]
        lost = updates_at_risk(memories, facts)
        self.found.most_lost = max(self.found.most_lost, lost)
        if lost > self.setting.renew_after + 1 and not self.setting.revivals:
            return (
                "lost",
                f"{lost} updates are ahead of the copy that continues, K is "
                f"{self.setting.renew_after}",
            )
        return (
            two_live(memories)
            or accused(memories)
            or (no_copy(living) if any(fact[0] == "activated" for fact in facts) else None)
            or wrong_choice(self.setting, memories, facts)
            or unknown_size(memories)
            or wrong_end(memories, facts)
        )

    def _not_live(self, state: WorldState) -> tuple[str, str] | None:
        self.found.checked += 1
        forgot = NOBODY if state.budget.forgetful != NOBODY else self.setting.forgetful
        disks = [self.nodes.memories.all[i].disk() for i in state.nodes]
        ending = self.fair.run(state.nodes, state.dead, forgot, disks)
        self.found.runs = len(self.fair.known)
        self.found.paused = self.fair.paused
        return None if ending is None else ("live", ending)

    # Traces

    def trace(self, state: WorldState) -> list[str]:
        """Return the shortest way to a state, one line per event."""
        lines: list[str] = []
        step = self.came[state]
        while step is not None:
            lines.append(self._line(step))
            step = self.came[step.before]
        return lines[::-1]

    def _line(self, step: ExploredStep) -> str:
        move, v = step.move, step.node
        if move.what == "got":
            letter = self.nodes.mail.all[move.about]
            text = f"{v} gets {message_text(letter.message)} of {letter.sender}"
        else:
            about = "" if move.about == NOBODY else f" {move.about}"
            text = f"{v}: {move.what}{about}" + HEARS.get(move.hears, f" (hears {move.hears})")
        if step.effects:
            text += f"; {step.ending} after {step.effects} effect{'s'[: step.effects > 1]}"
        held = self.nodes.memories.all[step.before.nodes[v]].held
        return text + ("" if held is None else f"   [it had {held.status} {place(held.token)}]")


def _mask(nodes: tuple[int, ...]) -> int:
    return sum(1 << v for v in nodes)


def main(arguments: list[str] | None = None) -> int:
    """Explore the small fleets of the tests, or all of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--all", action="store_true", help="also the fleets that take minutes")
    parser.add_argument("names", nargs="*", help="only the fleets with these names")
    chosen = parser.parse_args(arguments)
    small = (*SMALL_FLEETS, *REMEMBERING_FLEETS, *ASKING_FLEETS, *GROWING_FLEETS)
    for setting in (*small, *LARGER_FLEETS) if chosen.all or chosen.names else small:
        if not chosen.names or setting.name in chosen.names:
            found = Explorer(setting).run()
            _say(found)
            if found.violation is not None:
                _say(found.violation)
                return 1
    return 0


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
