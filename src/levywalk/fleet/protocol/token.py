"""The token: the model, and everything that the next node needs to continue the walk.

It contains nobody's data.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

import numpy as np

from levywalk.arrays import Floats
from levywalk.fleet.protocol.tensors import Tensor, sealed_model
from levywalk.walks import DetectorState


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


class DetectorAverages(NamedTuple):
    """The detector's averages, which travel with the model; see `levywalk.walks.Detector`."""

    mean: Floats
    power: float
    mass: float
    streak: int

    @classmethod
    def new(cls, dim: int) -> DetectorAverages:
        """Return the averages before the first update."""
        return cls(sealed_model(np.zeros(dim)), 0.0, 0.0, 0)

    def opened(self) -> DetectorState:
        """Return a copy that a detector can change."""
        return DetectorState(self.mean.copy(), self.power, self.mass, self.streak)

    @classmethod
    def sealed(cls, state: DetectorState) -> DetectorAverages:
        """Return a detector's state as part of a token."""
        return cls(sealed_model(state.mean), state.power, state.mass, state.streak)


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
    watch: DetectorAverages | None
    switched_at: int
    diverged_at: int
    hops: int
    transfers: int
    chain: bytes  # hash over all hand-offs so far

    @classmethod
    def first(cls, model: Floats, *, watched: bool = False) -> Token:
        """Return the token before step 0."""
        clean = sealed_model(np.array(model, dtype=np.float64))
        watch = DetectorAverages.new(len(clean)) if watched else None
        return cls(FIRST, 0, 0, 0, 0, 0, 0, clean, 0, watch, -1, -1, 0, 0, b"")

    @property
    def jumping(self) -> bool:
        """Whether the token is in a jump, with hops left to make."""
        return self.hop < self.distance

    def handed_over(self, giver: int, taker: int) -> Token:
        """Return the token as the next node gets it, with one more hand-off and one more transfer."""
        link = hashlib.sha256(self.chain + _LINK.pack(*self.epoch, self.seq, giver, taker)).digest()
        return self._replace(seq=self.seq + 1, version=0, transfers=self.transfers + 1, chain=link)

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
            )
        )
        found.update(self.chain)
        found.update(Tensor("model", self.model).address())
        if self.watch is not None:
            found.update(Tensor("mean", self.watch.mean).address())
            found.update(_WATCH.pack(self.watch.power, self.watch.mass, self.watch.streak))
        return found.digest()


_HEAD = struct.Struct("<14q")
_LINK = struct.Struct("<6q")
_WATCH = struct.Struct("<ddq")
