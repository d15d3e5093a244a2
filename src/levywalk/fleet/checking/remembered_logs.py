"""What nodes remembered, from the logs and the disks that a fleet has left: I8 of real nodes.

The walk that counts consists of epochs, each up to the step at which the next one began. From the
lines of these epochs follows before which steps memory started again, and with which of its disks a
node made each step. `walk_replay` makes the updates again with that, and compares every model in
the logs, and what the disks still keep of nodes' memory.

A walk that asks for the oldest neighbour remembers the step of a node's last visit, which is
compared here. What "least-used edge" remembers is not: a decision for a node that then turned out
to be dead counts as a use, and no log tells it. Random schedules (`memory_watch`) check it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from levywalk.arrays import AnyArray
from levywalk.fleet.checking.memory_watch import Remembered
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.kept_memory import KeptMemory
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Began, Line, NewGeneration
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.walks.oldest_neighbour import OldestNeighbour


class RememberingDisk(NamedTuple):
    """One disk of a node: its log, and what it keeps of the node's memory."""

    node: int
    lines: Sequence[Line]
    kept: KeptMemory | None


class WalkEnds(NamedTuple):
    """Up to which decision each epoch belongs to the walk that counts."""

    fleet: Fleet
    last: Token  # the newest one
    lineage: Sequence[Began]
    walk: Mapping[int, tuple[int, Visit]]  # by step: the node, and its line

    def contains(self, epoch: Epoch, step: int, hops: int) -> bool:
        """Return whether a decision of an epoch, at a step and after so many decisions, counts.

        A token knows this of its last ancestors. Of earlier ones the log tells the step at which
        the next epoch began, and the next update tells after how many decisions.
        """
        reach = self.fleet.published.lineage(self.last).reach(epoch, self.last.epoch)
        if reach >= 0:
            return hops < reach
        for one, child in zip(self.lineage, self.lineage[1:], strict=False):
            if one.epoch == epoch:
                after = self.walk.get(child.base)
                return step < child.base or (after is not None and hops < after[1].hops)
        return False


def remembered_by(ends: WalkEnds, disks: Sequence[RememberingDisk]) -> Remembered:
    """Return which disk made each step of the walk that counts, where memory started again, and
    what the disks still keep of nodes' memory after which step.
    """
    made: dict[int, int] = {}
    starts: set[int] = set()
    after: dict[int, AnyArray] = {}
    seen = Counter[int]()
    by_hops = {line.hops: (v, line.step) for v, line in ends.walk.values()}
    for disk in disks:
        for line in disk.lines:
            if not isinstance(line, Visit | NewGeneration):
                continue
            if ends.contains(Epoch(*line.token_epoch), line.step, line.hops):
                if isinstance(line, Visit):
                    made[line.step] = seen[disk.node]
                else:
                    starts.add(line.step)
        for entry in () if disk.kept is None else disk.kept.entries:
            node, step = by_hops.get(entry.hops - 1, (-1, -1))
            if node == disk.node and ends.contains(entry.epoch, step, entry.hops - 1):
                _check_last_visit(ends.fleet, node, step, entry.content)
                after[step] = entry.content
        seen[disk.node] += 1
    return Remembered(made, frozenset(starts), after)


def _check_last_visit(fleet: Fleet, node: int, step: int, content: AnyArray) -> None:
    """Check what oldest neighbour remembers: the last part of a node's memory."""
    if isinstance(fleet.design, OldestNeighbour):
        found = int(content[-8:].view("<i8")[0])
        if found != step:
            raise Violation("I8", f"node {node} remembers a visit at {found}, not {step}")
