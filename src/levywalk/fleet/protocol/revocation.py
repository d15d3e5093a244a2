"""Revocations: the operator's signed order that a node takes no part any more.

A node that has the order keeps it and sends it to its neighbours, which send it to theirs. From
then on it accepts no message of the revoked node, and no link that the revoked node has signed
above the epoch that the order names. For its neighbours the node is gone for good, as if the
operator had told each of them so: if it held the model, its guardian restores it, and if it guarded
the model, the holder takes another guardian. What it has signed before stays valid, because the
present walk may be a result of it.

A revocation cannot be undone: a node that is to take part again needs a new fleet.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.links import Verifier
from levywalk.fleet.protocol.token import Epoch

_REVOKED = struct.Struct("<4q")


class Revocation(NamedTuple):
    """The operator's signed order that a node takes no part any more."""

    node: int
    epoch: Epoch  # the highest one when the order was given; later links of the node are refused
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed.

        Examples
        --------
        >>> one = Revocation(3, Epoch(1, 7, 3), b"")
        >>> one.statement(b"run") == one._replace(node=4).statement(b"run")
        False
        """
        return b"revoke|" + run + b"|" + _REVOKED.pack(self.node, *self.epoch)

    def covers(self, node: int, epoch: Epoch) -> bool:
        """Return whether a link of this node that opens this epoch is refused.

        Examples
        --------
        >>> one = Revocation(3, Epoch(1, 7, 2), b"")
        >>> later = Epoch(2, 9, 3)
        >>> one.covers(3, later), one.covers(3, Epoch(1, 7, 2)), one.covers(4, later)
        (True, False, False)
        """
        return node == self.node and epoch > self.epoch


class Revocations(NamedTuple):
    """All nodes that were revoked, each once, in the order in which this node has heard of them."""

    orders: tuple[Revocation, ...] = ()

    @property
    def nodes(self) -> set[int]:
        """The nodes that were revoked."""
        return {word.node for word in self.orders}

    def covers(self, node: int, epoch: Epoch) -> bool:
        """Return whether a link of a node that opens an epoch is refused."""
        return any(word.covers(node, epoch) for word in self.orders)


NOBODY_REVOKED = Revocations()


def refuses_revocation(word: Revocation, run: bytes, keys: Verifier) -> str | None:
    """Return why the operator's signed order is not valid, or None."""
    if not keys.verify(OPERATOR, word.statement(run), word.signature):
        return f"the operator has not signed that node {word.node} is revoked"
    return None
