"""What a token carries so that a node can tell which of its memories belong to the token's walk.

A node's memory is stamped with the epoch and the number of the decision after which it was written
(`Token.hops`, which counts every decision along a walk). When an older copy of a token is brought
back, in a new epoch, some decisions of the earlier epoch do not count any more. So the token
carries its *ancestors*: earlier epochs, each with the last decision that the token's copy contains.
A stamp lies on the token's chain if it is of the token's own epoch, or of an ancestor and not after
that decision.

The token also carries its memory *generation*: after which decision it began, and for which losses
of nodes' memories it began. What was written before counts as empty.

Both are part of what travels with the model, and only of methods with memory at the nodes. They
have a fixed size, and all numbers of the ancestors and losses are 0 as long as nothing has failed.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.fleet.protocol.token import Epoch
from levywalk.memory import Array, Kind

LINEAGE = "lineage"  # the entry of a token's memory
MOST_ANCESTORS = 8
MOST_LOSSES = 8
_FIRST = 3  # numbers before the ancestors
_SIZE = _FIRST + 4 * MOST_ANCESTORS + 2 * MOST_LOSSES
LINEAGE_BYTES = 8 * _SIZE
LINEAGE_MEMORY: dict[str, Kind] = {LINEAGE: Array((_SIZE,), np.int64)}
MOST_ANSWER = 256  # bytes of a neighbour's answer about its memory
ALL_DECISIONS = 1 << 62  # more than a walk ever makes


class MemoryLoss(NamedTuple):
    """The memory of a node that is lost for good: the node, and a number that names the lost disk.

    Examples
    --------
    >>> MemoryLoss.of(3, b"one disk") == MemoryLoss.of(3, b"one disk")
    True
    >>> MemoryLoss.of(3, b"one disk") == MemoryLoss.of(3, b"another disk")
    False
    """

    node: int
    mark: int  # never 0

    @classmethod
    def of(cls, node: int, disk: bytes, before: int = 0) -> MemoryLoss:
        """Return the loss of a disk; ``before`` counts how often it was taken for lost before, and
        came back.
        """
        found = hashlib.blake2b(b"%d|%d|" % (node, before) + disk, digest_size=8).digest()
        return cls(node, int.from_bytes(found, "little") >> 2 | 1)


class Ancestor(NamedTuple):
    """An earlier epoch of a token, and the last decision of it that the token contains."""

    epoch: Epoch
    hops: int


class Lineage(NamedTuple):
    """The ancestors of a token, and its memory generation.

    Examples
    --------
    >>> first, second = Epoch(0, 0, 3), Epoch(1, 7, 4)
    >>> token = Lineage().reopened(first, 12)
    >>> token.reach(second, second) > 10**9, token.reach(first, second), token.reach(second, first)
    (True, 12, -1)
    >>> Lineage.read(token.numbers()) == token
    True
    """

    generation: int = 0
    since: int = 0  # the number of decisions when the generation began
    owed: bool = False  # whether the next visit must begin a generation: an ancestor was left out
    ancestors: tuple[Ancestor, ...] = ()
    losses: tuple[MemoryLoss, ...] = ()  # for which generations began

    def reach(self, epoch: Epoch, own: Epoch) -> int:
        """Return the last decision of an epoch that a token of the epoch ``own`` contains, -1 if it
        contains none.
        """
        if epoch == own:
            return ALL_DECISIONS
        return next((one.hops for one in self.ancestors if one.epoch == epoch), -1)

    def reopened(self, parent: Epoch, hops: int) -> Lineage:
        """Return the lineage of a token that begins a new epoch after so many decisions.

        If there are too many ancestors, the oldest is left out. If memories of it could still
        count, no node can tell whether they do, and the next visit begins a new generation.
        """
        if hops <= max((one.hops for one in self.ancestors), default=0):
            return self  # no decision was made in the parent
        kept = (*self.ancestors, Ancestor(parent, hops))
        left_out = kept[:-MOST_ANCESTORS]
        owed = self.owed or any(one.hops > self.since for one in left_out)
        return self._replace(ancestors=kept[-MOST_ANCESTORS:], owed=owed)

    def risen(self, hops: int, losses: tuple[MemoryLoss, ...]) -> Lineage:
        """Return the lineage of a new generation, which begins after so many decisions."""
        known = (*self.losses, *losses)[-MOST_LOSSES:]
        return self._replace(generation=self.generation + 1, since=hops, owed=False, losses=known)

    def numbers(self) -> AnyArray:
        """Return it as the entry of a token's memory."""
        found = np.zeros(_SIZE, np.int64)
        found[:_FIRST] = self.generation, self.since, self.owed
        for i, (epoch, hops) in enumerate(self.ancestors):
            found[_FIRST + 4 * i : _FIRST + 4 * (i + 1)] = *epoch, hops
        at = _FIRST + 4 * MOST_ANCESTORS
        for i, loss in enumerate(self.losses):
            found[at + 2 * i : at + 2 * (i + 1)] = loss
        return found

    @classmethod
    def read(cls, numbers: AnyArray) -> Lineage:
        """Return the lineage from the entry of a token's memory."""
        generation, since, owed, *rest = numbers.tolist()
        at = 4 * MOST_ANCESTORS
        rows = [rest[4 * i : 4 * i + 4] for i in range(MOST_ANCESTORS)]
        pairs = [rest[at + 2 * i : at + 2 * i + 2] for i in range(MOST_LOSSES)]
        return cls(
            generation,
            since,
            bool(owed),
            tuple(Ancestor(Epoch(*row[:3]), row[3]) for row in rows if row[3]),
            tuple(MemoryLoss(*pair) for pair in pairs if pair[1]),
        )

    def impossible(self, epoch: Epoch, hops: int) -> str | None:
        """Return why no honest token of that epoch has this lineage after so many decisions."""
        if not 0 <= self.since <= hops or not 0 <= self.generation <= hops:
            return (
                f"memory generation {self.generation}, which began at decision {self.since}, is "
                f"impossible after {hops} decisions"
            )
        for one, child in pairwise((*self.ancestors, Ancestor(epoch, ALL_DECISIONS))):
            if not one.epoch < child.epoch or not 0 < one.hops < child.hops or one.hops > hops:
                return (
                    f"epoch {tuple(one.epoch)} with {one.hops} decisions cannot come before epoch "
                    f"{tuple(child.epoch)}"
                )
        return None
