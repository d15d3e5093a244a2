"""How many updates are lost because a higher epoch has replaced theirs.

They are counted where the disks tell it, and bounded where they do not.

The updates of an epoch are those from its base to the highest step of any of its copies: at a dead
holder, in an archive, or as the base of a later epoch. In the winning lineage, updates beyond the
base of the next epoch are lost. In other epochs all updates are lost.

As long as no disk of the fleet was lost and all can be read, this count is exact. Otherwise, what
the last holder of an epoch did is known from its own disk alone. If that disk is lost, it may have
made up to K updates more, and the one in progress. Of a lineage that was revived by the operator
not even that is known, nor of one that may have been, because no disk tells how it was opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from levywalk.fleet.operate.false_ends import false_ends
from levywalk.fleet.protocol.records import FALSE_END, REVIVED, Archived, Began, HeldStatus
from levywalk.fleet.protocol.token import FIRST, Epoch

if TYPE_CHECKING:
    from levywalk.fleet.operate.fleet_status import NodeView

_HOLDERS = (*(status for status in HeldStatus if status != HeldStatus.PREPARED), "final")


class LostUpdates(NamedTuple):
    """The number of updates that are certainly lost, and the largest number that is possible."""

    certain: int
    at_most: int | None  # None if there is no bound


class _Evidence:
    """What the disks tell about every epoch."""

    def __init__(self, views: list[NodeView], winner: Epoch, base: int) -> None:
        lines = [line for one in views for line in one.lines]
        self.began = {
            line.epoch: line for line in lines if isinstance(line, Began) and line.possible
        }
        archived = [line for line in lines if isinstance(line, Archived) and line.what != FALSE_END]
        wrong = false_ends(views)
        tokens = [
            (Epoch(*t["epoch"]), t["base"], t["step"])
            for one in views
            for t in one.tokens
            if not (one.id in wrong and t is one.about["final"])
        ]
        tokens += [(line.token.epoch, line.token.base, line.token.step) for line in archived]
        self.bases = {epoch: line.base for epoch, line in self.began.items()}
        self.tops = dict(self.bases)
        for epoch, first, step in tokens:
            self.bases[epoch] = first
            self.tops[epoch] = max(self.tops.get(epoch, 0), step)
        self.bases.setdefault(winner, base)
        for one in views:
            self.bases.setdefault(Epoch(*one.about["epoch"]), one.about["base"])
        for line in archived:  # of some epochs it is only known that they replaced another one
            self.bases.setdefault(line.by, line.token.step - line.lost)
        for epoch, first in self.bases.items():
            self.tops.setdefault(epoch, first)
        self.bases.pop(FIRST, None)
        self.tops.pop(FIRST, None)
        links = {
            Epoch(*one.about["epoch"]): opened
            for one in views
            if (opened := one.about.get("opened")) is not None
            and opened["parent"] < one.about["epoch"]
        }
        self.parents = {epoch: Epoch(*opened["parent"]) for epoch, opened in links.items()}
        self.parents |= {epoch: line.parent for epoch, line in self.began.items()}
        self.revived = {line.by for line in archived if line.what == REVIVED}
        self.revived |= {epoch for epoch, opened in links.items() if opened["revived"]}
        # Epochs whose last holder's disk tells how far it came, or whose holder began the next one.
        self.whole = {line.token.epoch for line in archived if line.what in _HOLDERS}
        for one in views:
            held = one.about["held"]
            if held is not None and held["live"]:
                self.whole.add(Epoch(*held["epoch"]))
            self.whole |= one.continued

    def parent(self, epoch: Epoch) -> Epoch:
        """Return the parent of an epoch; if no disk names it, the highest one with a lower
        counter.
        """
        if epoch in self.parents:
            return self.parents[epoch]
        return max((other for other in self.bases if other.counter < epoch.counter), default=FIRST)

    def bounds(self, epoch: Epoch) -> bool:
        """Return whether the holder before an epoch made at most K updates and the one in progress
        that no disk knows: not if the operator has revived a copy, or perhaps has.
        """
        return epoch in self.parents and epoch not in self.revived


def all_disks_are_here(views: Iterable[NodeView]) -> bool:
    """Return whether every node still has its first state folder, and all can be read."""
    nodes: dict[str, dict[str, Any]] = {}
    for one in views:
        if one.error or one.unreached or one.about.get("fenced"):
            return False
        if one.about.get("state_folders") is None:
            return False
        nodes[str(one.id)] = one.about
    own = {v: about["state_folders"]["own"] for v, about in nodes.items()}
    return all(
        about["edges"].keys() <= own.keys()
        and all(
            name == own.get(u)
            for u, names in about["state_folders"]["seen"].items()
            for name in names
        )
        for about in nodes.values()
    )


def lost_updates(
    views: Iterable[NodeView], winner: Epoch, base: int, renew_after: int
) -> LostUpdates:
    """Count the updates that are lost, each once.

    Parameters
    ----------
    winner, base
        The highest announced epoch, and the step at which it began.
    renew_after
        K.
    """
    if winner == FIRST:
        return LostUpdates(0, 0)  # the walk has not begun
    views = list(views)
    found = _Evidence(views, winner, base)
    bases, tops, bounds = found.bases, found.tops, found.bounds
    for epoch in bases:
        parent = found.parent(epoch)
        if parent in tops and epoch not in found.revived:
            tops[parent] = max(tops[parent], bases[epoch])
    ends = {winner: tops[winner]}
    unknown: int | None = 0  # updates that may be lost as well
    epoch, end = winner, bases[winner]
    while (parent := found.parent(epoch)) != FIRST:
        opened = epoch  # after the parent, or after what is left of its parents
        if parent not in bases:  # all disks that knew it are lost: go on with the next one below
            unknown = unknown + renew_after + 1 if unknown is not None and bounds(epoch) else None
            opened = parent
            parent = max((other for other in bases if other < opened), default=FIRST)
            if parent == FIRST:
                unknown = unknown if opened.counter == 0 else None
                break
            ends[parent] = max(bases[parent], min(tops[parent], end))
        else:
            ends[parent] = end
        if opened not in found.parents and parent.counter < opened.counter - 1:
            unknown = None  # epochs between them may be forgotten as well
        counted = max(0, tops[parent] - max(bases[parent], ends[parent]))
        if parent not in found.whole:
            if unknown is None or not bounds(opened):
                unknown = None
            else:
                unknown += max(0, renew_after + 1 - counted)
        epoch, end = parent, min(end, bases[parent])
    beside = [other for other in bases if other not in ends and other not in found.whole]
    if any(tops[other] > bases[other] for other in beside):
        unknown = None  # another branch, whose holder's disk cannot be read
    count = sum(max(0, top - max(bases[one], ends.get(one, 0))) for one, top in tops.items())
    if all_disks_are_here(views):
        return LostUpdates(count, count)
    return LostUpdates(count, None if unknown is None else count + unknown)
