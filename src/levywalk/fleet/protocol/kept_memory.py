"""What a node remembers for walk and update, as its disk keeps it.

Each visit adds an entry, in the same transaction as the node's choice. It is stamped with the epoch
and the number of decisions (`lineage`). Some predecessors are kept, because an older copy of the
token may be brought back: a visit reads the newest entry on the chain of the token. Entries that
are not on the chain, and those beyond the depth, are dropped; what remains of them are their
stamps, so that a node knows if it has dropped what it would need.

A node also notes which neighbours' memories are lost for good. The first visit that finds a loss
which its token does not list begins a new generation, in which all memory starts again.
"""

from __future__ import annotations

from typing import NamedTuple

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.lineage import ALL_DECISIONS, Lineage, MemoryLoss
from levywalk.fleet.protocol.token import FIRST, Epoch

MOST_DROPPED = 16  # epochs of which stamps of dropped entries are kept
MOST_KNOWN_LOSSES = 64

# Why a generation begins, in words; in this order on the disk, so a new one goes to the end.
NODE_LOST, DEPTH, EPOCHS, UNFIT, WITHOUT = REASONS = (
    "the memory of a node is lost",
    "an older copy of the model was restored, and this node no longer keeps memory that old",
    "the model was restored too often to tell which memory counts",
    "this node's memory was written for other data or other edges than the node has now",
    "the model was revived from a copy without its memory",
)


class MemoryEntry(NamedTuple):
    """The memory of a node after a visit.

    Entries are compared by their stamps: the content is an array.
    """

    epoch: Epoch
    hops: int  # decisions of the walk, with the last one of the visit
    seq: int  # the hand-off with which the token came
    firm: bool  # whether another node may have a copy of the token of this moment
    losses: int  # how many of the known losses were dealt with
    edges: tuple[int, ...]  # the neighbours, in the order of what is kept per edge
    content: AnyArray  # all arrays one after the other, as bytes


class DroppedEntries(NamedTuple):
    """Stamps of dropped entries: those of one epoch, or of any epoch (`FIRST`), and the lowest and
    the highest number of decisions.
    """

    epoch: Epoch
    low: int
    high: int


class RecalledMemory(NamedTuple):
    """What a visit reads: an entry or None, and why it begins a new generation, if it does."""

    entry: MemoryEntry | None
    why: tuple[tuple[str, int], ...]  # reasons, each with the node whose memory is lost, or -1
    losses: tuple[MemoryLoss, ...]  # that the token does not list


class KeptMemory(NamedTuple):
    """What a node's disk keeps.

    Examples
    --------
    >>> import numpy as np
    >>> e, f = Epoch(0, 0, 3), Epoch(1, 7, 4)
    >>> kept, nothing = KeptMemory(), np.empty(0, np.uint8)
    >>> for hops in (5, 9):
    ...     entry = MemoryEntry(e, hops, hops, False, 0, (), nothing)
    ...     kept = kept.with_entry(entry, Lineage(), depth=4)
    >>> kept.recalled(Lineage(), e).entry.hops
    9
    >>> kept.recalled(Lineage().reopened(e, 7), f).entry.hops  # decision 9 does not count
    5
    """

    entries: tuple[MemoryEntry, ...] = ()  # the newest is the last
    dropped: tuple[DroppedEntries, ...] = ()
    losses: tuple[MemoryLoss, ...] = ()  # that the node knows of, in the order in which it learned

    def recalled(self, lineage: Lineage, epoch: Epoch) -> RecalledMemory:
        """Return what a visit of a token reads."""
        chain = self._chain(lineage, epoch)
        newest = chain[-1] if chain else None
        entry = newest if newest is not None and newest.hops > lineage.since else None
        floor = lineage.since if entry is None else entry.hops
        why = [(EPOCHS, -1)] if lineage.owed else []
        if any(_hides(one, floor, lineage, epoch) for one in self.dropped):
            why.append((DEPTH, -1))
        settled = 0 if newest is None else newest.losses
        fresh = tuple(loss for loss in self.losses[settled:] if loss not in lineage.losses)
        why += [(NODE_LOST, loss.node) for loss in fresh]
        return RecalledMemory(entry, tuple(why), fresh)

    def _chain(self, lineage: Lineage, epoch: Epoch) -> list[MemoryEntry]:
        return [one for one in self.entries if one.hops <= lineage.reach(one.epoch, epoch)]

    def with_entry(self, entry: MemoryEntry, lineage: Lineage, depth: int) -> KeptMemory:
        """Return it with the entry of a visit, whose token has that lineage.

        An entry of the same stay replaces the one before, unless another node may have a copy of
        the token of that moment: no token can be brought back to it.
        """
        chain = self._chain(lineage, entry.epoch)
        on_chain = {(one.epoch, one.hops) for one in chain}
        gone = [one for one in self.entries if (one.epoch, one.hops) not in on_chain]
        if chain and not chain[-1].firm and chain[-1][:3:2] == (entry.epoch, entry.seq):
            del chain[-1]
        chain.append(entry)
        gone += chain[: -depth - 1]
        dropped = _with_stamps(self.dropped, gone) if gone else self.dropped
        return self._replace(entries=tuple(chain[-depth - 1 :]), dropped=dropped)

    def with_loss(self, node: int, disk: bytes) -> KeptMemory:
        """Return it with the loss of a neighbour's disk, which may have been taken for lost before.

        Examples
        --------
        >>> once = KeptMemory().with_loss(3, b"disk")
        >>> len(set(once.with_loss(3, b"disk").losses))
        2
        """
        before = 0
        while MemoryLoss.of(node, disk, before) in self.losses:
            before += 1
        losses = (*self.losses, MemoryLoss.of(node, disk, before))
        beyond = max(0, len(losses) - MOST_KNOWN_LOSSES)
        if not beyond:
            return self._replace(losses=losses)
        entries = tuple(one._replace(losses=max(0, one.losses - beyond)) for one in self.entries)
        return self._replace(entries=entries, losses=losses[beyond:])


NOTHING_KEPT = KeptMemory()


def _hides(one: DroppedEntries, floor: int, lineage: Lineage, epoch: Epoch) -> bool:
    """Return whether a dropped entry may be on the chain, and newer than what is read."""
    reach = ALL_DECISIONS if one.epoch == FIRST else lineage.reach(one.epoch, epoch)
    return one.low <= reach and min(one.high, reach) > floor


def _with_stamps(
    dropped: tuple[DroppedEntries, ...], gone: list[MemoryEntry]
) -> tuple[DroppedEntries, ...]:
    """Return the stamps with those of more dropped entries; the oldest epochs are merged."""
    stamps = {one.epoch: one for one in dropped}
    for entry in gone:
        _widen(stamps, DroppedEntries(entry.epoch, entry.hops, entry.hops))
    for epoch in sorted(set(stamps) - {FIRST})[: max(0, len(stamps) - MOST_DROPPED)]:
        _widen(stamps, stamps.pop(epoch)._replace(epoch=FIRST))
    return tuple(stamps[epoch] for epoch in sorted(stamps))


def _widen(stamps: dict[Epoch, DroppedEntries], more: DroppedEntries) -> None:
    one = stamps.get(more.epoch, more)
    stamps[more.epoch] = DroppedEntries(
        more.epoch, min(one.low, more.low), max(one.high, more.high)
    )
