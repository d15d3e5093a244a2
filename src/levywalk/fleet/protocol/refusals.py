"""Whose models a node has refused as a guardian, which its disk keeps."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.token import Epoch

AVOIDED = "this node avoids it: models that it has sent were refused"


class RefusedModels(NamedTuple):
    """The models of one sender that this node has refused."""

    node: int
    times: int
    epoch: Epoch  # of the last one
    step: int  # after which it was refused
    avoided: bool  # whether nothing goes to the sender any more


class Refusals(NamedTuple):
    """All senders whose models were refused, in ascending order.

    Examples
    --------
    >>> once = Refusals().counted(3, Epoch(0, 0, 1), 17, avoid_after=2)
    >>> once.avoided, once.counted(3, Epoch(1, 4, 2), 25, avoid_after=2).avoided
    (frozenset(), frozenset({3}))
    """

    senders: tuple[RefusedModels, ...] = ()

    @property
    def avoided(self) -> frozenset[int]:
        """The nodes that this node avoids."""
        return frozenset(one.node for one in self.senders if one.avoided)

    def counted(self, node: int, epoch: Epoch, step: int, avoid_after: int) -> Refusals:
        """Return the refusals with one more of a node's models."""
        times = 1 + sum(one.times for one in self.senders if one.node == node)
        last = RefusedModels(node, times, epoch, step, times >= avoid_after)
        return Refusals(tuple(sorted((*self.without(node).senders, last))))

    def without(self, node: int) -> Refusals:
        """Return the refusals with those of a node forgotten."""
        return Refusals(tuple(one for one in self.senders if one.node != node))


NO_REFUSALS = Refusals()
