"""Whose certificates a message needs: the receiver checks signatures of nodes that may not be its
neighbours.
"""

from __future__ import annotations

from levywalk.fleet.protocol.messages import (
    Activate,
    Certified,
    Exposed,
    Fenced,
    Finished,
    Guard,
    Message,
    Prepare,
)
from levywalk.fleet.protocol.tensors import Malformed


def signers_needed(message: Message) -> tuple[int, ...]:
    """Return the nodes whose signatures a message depends on, each once.

    Examples
    --------
    >>> from levywalk.fleet.protocol.certificate import Certificate
    >>> from levywalk.fleet.protocol.token import Epoch
    >>> signers_needed(Certified(Certificate(7, Epoch(0, 0, 1), 3, 2, 1, b"", b"")))
    (7,)
    """
    if isinstance(message, Prepare):
        found: tuple[int | None, ...] = (message.guardian,)
    elif isinstance(message, Activate | Certified):
        found = (message.certificate.guardian,)
    elif isinstance(message, Guard | Fenced):
        found = message.link.epoch.node, message.link.right.signer
    elif isinstance(message, Finished):
        found = message.end.guardian, message.end.right.signer
    elif isinstance(message, Exposed):
        found = (message.lie.liar,)
    else:
        found = ()
    return tuple(dict.fromkeys(v for v in found if v is not None and v >= 0))


def split_certificates(data: bytes) -> list[bytes]:
    r"""Return certificates in DER that follow each other; each begins with its own length.

    Examples
    --------
    >>> split_certificates(b"\x30\x82\x00\x01a\x30\x82\x00\x02bc")
    [b'0\x82\x00\x01a', b'0\x82\x00\x02bc']
    """
    found = []
    while data:
        size = 4 + int.from_bytes(data[2:4], "big")
        if data[:2] != b"\x30\x82" or len(data) < size:
            raise Malformed("a certificate cannot be read: it is not complete")
        found.append(data[:size])
        data = data[size:]
    return found
