"""The invariant I8: what nodes remember is what the replay of the winning chain remembers.

`MemoryWatch` sees every write to any disk, and notes what was remembered after which decision, and
where memory started again. When the walk is over, the winning chain is known. Then it says which
disk made each step and before which steps memory started again, for `walk_replay`, which replays
the update. What the walk "least-used edge" remembers is counted from the moves of the chain, with
nothing of its own code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from levywalk.arrays import AnyArray
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.kept_memory import MemoryEntry
from levywalk.fleet.protocol.records import (
    Disk,
    Held,
    HeldStatus,
    Line,
    NewGeneration,
    SilentNeighbour,
)
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.walks.least_used_edge import LeastUsedEdge
from levywalk.walks.oldest_neighbour import OldestNeighbour

Stamp = tuple[Epoch, int]  # an epoch, and a number of decisions


class WrittenMemory(NamedTuple):
    """What a node remembered after a visit: which node, which of its disks, and after how many
    updates.
    """

    node: int
    disk: int
    step: int
    entry: MemoryEntry
    losses: dict[int, int]  # the losses that the node knew of, by node: how many disks
    near: dict[int, int]  # neighbours whose edges were in use, and how many disks they had lost


class Remembered(NamedTuple):
    """What the replay of the winning chain needs to know of nodes' memory.

    Attributes
    ----------
    disks
        By step: how many disks the node that made it had lost before.
    starts
        The steps before which all memory starts again.
    after
        By step: what the node that made it had on its disk afterwards, if it was written then.
    """

    disks: dict[int, int]
    starts: frozenset[int]
    after: dict[int, AnyArray]


NOTHING_REMEMBERED = Remembered({}, frozenset(), {})


class MemoryWatch:
    """Notes what nodes remember.

    Parameters
    ----------
    note
        Called with a node, a table and a key, after an entry was made in the table: a write that is
        rolled back, and that nobody has seen, has not happened.
    """

    def __init__(self, fleet: Fleet, note: Callable[[int, dict[Any, Any], Any], None]) -> None:
        self.on = fleet.published.remembers
        self.fleet, self.note = fleet, note
        self.disks: Counter[int] = Counter()  # lost disks, by node
        self.written: dict[Stamp, WrittenMemory] = {}
        self.moves: dict[Stamp, tuple[int, int, int]] = {}  # node, its disk, and where to
        self.generations: dict[Stamp, int] = {}  # the step
        self.silences: dict[tuple[Epoch, int, int], bool] = {}  # and the silent node
        self.came_from: dict[Epoch, int] = {}  # of the token with which an epoch begins
        self.branches: dict[Epoch, int] = {}  # decisions before an epoch's first one

    def persisted(self, v: int, slots: dict[str, Any], lines: Iterable[Line], disk: Disk) -> None:
        """Note one write."""
        held: Held | None = slots.get("held")
        if held is not None and held.status == HeldStatus.SEEKING:
            self.branches[held.token.epoch] = held.token.hops
            self.came_from[held.token.epoch] = held.token.came_from
        for line in lines:
            if isinstance(line, NewGeneration):
                self._put(v, self.generations, (line.token_epoch, line.hops), line.step)
            if isinstance(line, SilentNeighbour):
                self._put(v, self.silences, (line.token_epoch, line.hops, line.node), True)
        if held is None or "memory" not in slots or not slots["memory"].entries:
            return
        entry, token = slots["memory"].entries[-1], held.token
        stamp = (token.epoch, token.hops)
        if stamp == (entry.epoch, entry.hops) and stamp not in self.written:
            known = Counter(loss.node for loss in slots["memory"].losses)
            losses = {u: min(count, self.disks[u]) for u, count in known.items()}
            used = [u for u, edge in disk.edges.items() if edge.up and edge.joined and u != v]
            near = {u: self.disks[u] for u in used}
            made = WrittenMemory(v, self.disks[v], token.step, entry, losses, near)
            self._put(v, self.written, stamp, made)
            if held.status == HeldStatus.MOVING:
                self._put(v, self.moves, stamp, (v, self.disks[v], held.to))

    def _put(self, v: int, table: dict[Any, Any], key: Any, value: Any) -> None:
        table[key] = value
        self.note(v, table, key)

    def lost(self, v: int) -> None:
        """Note that a node has lost its disk, or is dead for ever."""
        self.disks[v] += 1

    def judge(self, chain: list[tuple[Epoch, int]], walk: list[int], *, misled: bool) -> Remembered:
        """Check what walks have remembered; return what the replay of the update needs.

        Parameters
        ----------
        misled
            Whether the operator has said of living nodes that they are gone: then it is not clear
            which losses nodes know of.
        """
        ends = {one: self.branches[child] for (one, _), (child, _) in pairwise(chain)}
        ends[chain[-1][0]] = 1 << 62
        starts = sorted(
            (hops, step)
            for (epoch, hops), step in self.generations.items()
            if hops < ends.get(epoch, -1)
        )
        visits = sorted(
            (hops, made)
            for (epoch, hops), made in self.written.items()
            if hops <= ends.get(epoch, -1)
        )
        if not misled:
            _check_losses(visits, [hops for hops, _ in starts])
        if isinstance(self.fleet.design, LeastUsedEdge):
            self._check_uses(visits, [hops for hops, _ in starts])
        if isinstance(self.fleet.design, OldestNeighbour):
            self._check_ages(visits, [hops for hops, _ in starts])
        # The first entry with a step is that of the update; those after it are of hops of a jump.
        first: dict[int, WrittenMemory] = {}
        for _, made in visits:
            first.setdefault(made.step, made)
        updates = [made for step, made in first.items() if step and walk[step - 1] == made.node]
        noted = {made.step - 1: made.disk for made in updates}
        disks = dict.fromkeys(range(len(walk)), 0)
        for step in sorted(disks, reverse=True):  # of a stay with several updates the last is noted
            disks[step] = noted.get(step, disks.get(step + 1, 0))
        after = {made.step - 1: made.entry.content for made in updates}
        return Remembered(disks, frozenset(step for _, step in starts), after)

    def _check_uses(self, visits: list[tuple[int, WrittenMemory]], starts: list[int]) -> None:
        """Check what least-used edge remembers: how often the model came or left by each edge, on
        the chain, since the memory started again, with the node's present disk.
        """
        uses: dict[tuple[int, int], Counter[int]] = {}
        move: tuple[int, int, int] | None = None  # the last one, if the model was to move
        for hops, made in visits:
            while starts and starts[0] < hops:
                del starts[0]
                uses.clear()
            mine = uses.setdefault((made.node, made.disk), Counter())
            if move is not None and move[2] == made.node != move[0]:
                epoch = made.entry.epoch  # a copy that is restored here may not have come here
                restored = made.entry.seq == epoch.seq and self.came_from[epoch] != move[0]
                # The other end of a new edge may use it before this node has it.
                mine[move[0]] += not restored and move[0] in made.entry.edges
            move = self.moves.get((made.entry.epoch, hops))
            if move is not None:
                mine[move[2]] += 1
            edges = made.entry.edges  # what the walk keeps is the last part
            content = made.entry.content[-8 * len(edges) :].view("<i8")
            found = dict(zip(edges, content.tolist(), strict=True))
            if Counter(found) != mine:
                raise Violation(
                    "I8",
                    f"node {made.node} remembers the uses {found} of its edges after {hops} "
                    f"decisions, its chain has {dict(mine)}",
                )

    def _check_ages(self, visits: list[tuple[int, WrittenMemory]], starts: list[int]) -> None:
        """Check what oldest neighbour remembers and answers: the step of the last visit on the
        chain. The model went to a neighbour whose visit is the oldest, apart from silent ones.
        """
        last: dict[tuple[int, int], int] = {}
        for hops, made in visits:
            while starts and starts[0] < hops:
                del starts[0]
                last.clear()
            move = self.moves.get((made.entry.epoch, hops))
            if move is not None:
                # A neighbour may have lost its disk after it had answered.
                ages = {
                    u: [last.get((u, disk), -1) for disk in range(lost + 1)]
                    for u, lost in made.near.items()
                    if (made.entry.epoch, hops - 1, u) not in self.silences
                }
                to = move[2]
                if to not in ages or any(min(ages[to]) > max(age) for age in ages.values()):
                    raise Violation(
                        "I8",
                        f"node {made.node} sends the model to node {to} after {hops} decisions, "
                        f"the last visits of its neighbours were {ages}",
                    )
            found = int(made.entry.content[-8:].view("<i8")[0])
            if found != max(made.step - 1, 0):
                raise Violation(
                    "I8", f"node {made.node} remembers a visit at {found}, not {made.step - 1}"
                )
            last[made.node, made.disk] = found


def _check_losses(visits: list[tuple[int, WrittenMemory]], starts: list[int]) -> None:
    """Check that no visit continues with a token that remembers what was lost, if the node knows of
    the loss.
    """
    last: dict[tuple[int, int], int] = {}  # decisions at the last visit of a node with a disk
    for hops, made in visits:
        since = max((start for start in starts if start < hops), default=0)
        for node, lost in made.losses.items():
            if any(last.get((node, disk), 0) > since for disk in range(lost)):
                raise Violation(
                    "I8",
                    f"node {made.node} knows that node {node} has lost its memory, but the memory "
                    f"has not started again before decision {hops}",
                )
        last[made.node, made.disk] = hops
