"""How far the walk went in earlier epochs, as far as a node knows.

A node that learns of a higher epoch drops what it holds and guards of lower ones, and with it the
releases that would show that an old link is false. So it keeps one number for each earlier epoch:
of how many hand-offs it knows. A former guardian keeps its right to an epoch for ever; but a link
that branches before the last known hand-off of its parent is refused, however long ago that was.

The numbers come from releases on the node's own disk and from links that it has accepted, and not
from what others only say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levywalk.fleet.protocol.links import Opening, excludes
from levywalk.fleet.protocol.token import Epoch

MOST_CHECKPOINTS = 1000  # the oldest epochs are dropped


class Checkpoint(NamedTuple):
    """An earlier epoch, and how many hand-offs of the walk there were at least when it ended."""

    epoch: Epoch
    seq: int


class Checkpoints(NamedTuple):
    """The earlier epochs that a node knows of, in ascending order.

    Examples
    --------
    >>> from levywalk.fleet.protocol.links import LinkKind
    >>> e = Epoch(0, 0, 3)
    >>> known = Checkpoints().reached([Checkpoint(e, 9), Checkpoint(e, 4)])
    >>> old = Opening(LinkKind.REGENERATED, Epoch(7, 8, 4), e, e, 8, True, 8, 30, b"", 5, b"")
    >>> known.deny(old), known.deny(old._replace(seq=9))
    (True, False)
    """

    places: tuple[Checkpoint, ...] = ()

    def reached(self, places: Iterable[Checkpoint]) -> Checkpoints:
        """Return the checkpoints after more was learned."""
        found = dict(self.places)
        for epoch, seq in places:
            if seq > found.get(epoch, 0):
                found[epoch] = seq
        kept = sorted(Checkpoint(*one) for one in found.items())
        return Checkpoints(tuple(kept[-MOST_CHECKPOINTS:]))

    def deny(self, one: Opening) -> bool:
        """Return whether the walk is known to have gone on from where a link branches."""
        return any(excludes(one, place.epoch, place.seq - 1) for place in self.places)


NO_CHECKPOINTS = Checkpoints()
