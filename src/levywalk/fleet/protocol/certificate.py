"""The guardian's certificate: the value *released* of its register, signed."""

from __future__ import annotations

import struct
from typing import NamedTuple

from levywalk.fleet.protocol.token import Epoch

OPERATOR = -1  # in the place of a node that signs: the operator, whose key the manifest names
_RELEASE = struct.Struct("<7q")


class Certificate(NamedTuple):
    """A signed statement of a guardian: the token of (epoch, seq) goes to that node and to no
    other, and the node that gives it is its next guardian.

    The operator's order with which a walk is revived has the same form: ``guardian`` is
    `OPERATOR`, and the node ``to`` may continue from its copy, whose hash is ``digest``, as
    ``epoch``.
    """

    guardian: int
    epoch: Epoch
    seq: int
    to: int
    giver: int  # the next guardian
    digest: bytes  # hash of the token that is prepared there
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed."""
        numbers = _RELEASE.pack(self.guardian, *self.epoch, self.seq, self.to, self.giver)
        return b"release|" + run + b"|" + numbers + self.digest
