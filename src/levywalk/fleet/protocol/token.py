"""The token: the model, and everything that the next node needs to continue the walk.

It contains nobody's data.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.fleet.protocol.tensors import Tensor, sealed_model


class Epoch(NamedTuple):
    """Number of a token's lifetime: when a lost token is restored, it gets a higher epoch.

    Epochs are compared field by field.

    Examples
    --------
    >>> FIRST < Epoch(1, 7, 3) < Epoch(1, 7, 4)
    True
    """

    counter: int  # how often the token was restored
    seq: int  # the hand-off from which it was restored …
    node: int  # … and the node that restored it


FIRST = Epoch(0, 0, -1)


class Token(NamedTuple):
    """The model and the state of the walk.

    A token is never changed: each decision makes a new one.

    Examples
    --------
    >>> token = Token.first(np.zeros(2))
    >>> token.step, token.jumping, token.digest() == token._replace(step=1).digest()
    (0, False, False)
    """

    epoch: Epoch
    base: int  # the step at which its epoch began
    seq: int  # hand-offs so far
    version: int  # decisions since the token came here
    step: int  # updates done
    hop: int  # hops of the present jump that are decided
    distance: int  # all hops of the present jump, 0 if there is none
    model: Floats
    phase: int
    memory: AnyArray  # what travels with the model, as bytes; the manifest says what they mean
    switched_at: int
    diverged_at: int
    hops: int
    transfers: int
    chain: bytes  # hash over all hand-offs so far
    came_from: int = -1  # the node that sent it, -1 at the start and after a stay
    small_messages: int = 0  # messages without a model so far
    size: int = 0  # the version of the fleet's size that its last visit used

    @classmethod
    def first(cls, model: Floats, memory: AnyArray | None = None) -> Token:
        """Return the token before step 0; ``memory`` is what travels with the model, as bytes."""
        clean = sealed_model(np.array(model, dtype=np.float64))
        carried = sealed_model(np.empty(0, np.uint8) if memory is None else memory)
        return cls(FIRST, 0, 0, 0, 0, 0, 0, clean, 0, carried, -1, -1, 0, 0, b"")

    @property
    def jumping(self) -> bool:
        """Whether the token is in a jump, with hops left to make."""
        return self.hop < self.distance

    def handed_over(self, giver: int, taker: int) -> Token:
        """Return the token as the next node gets it, with one more hand-off and one more
        transfer.
        """
        link = hashlib.sha256(self.chain + _LINK.pack(*self.epoch, self.seq, giver, taker)).digest()
        return self._replace(
            seq=self.seq + 1, version=0, transfers=self.transfers + 1, chain=link, came_from=giver
        )

    def digest(self) -> bytes:
        """Return a hash of all its fields. A large model is hashed once, whatever else changes."""
        found = hashlib.sha256(
            _HEAD.pack(
                *self.epoch,
                self.base,
                self.seq,
                self.version,
                self.step,
                self.hop,
                self.distance,
                self.phase,
                self.switched_at,
                self.diverged_at,
                self.hops,
                self.transfers,
                self.came_from,
                self.small_messages,
            )
        )
        found.update(self.chain)
        found.update(Tensor("model", self.model).address())
        if self.size:
            found.update(_SIZE.pack(self.size))
        if len(self.memory):
            found.update(Tensor("memory", self.memory).address())
        return found.digest()


_HEAD = struct.Struct("<16q")
_LINK = struct.Struct("<6q")
_SIZE = struct.Struct("<q")
