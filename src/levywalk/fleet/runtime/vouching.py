"""Whose certificates a message needs: the receiver checks signatures of nodes that may not be its
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    signers = _SIGNERS.get(type(message))
    if signers is None:
        return ()
    return tuple(dict.fromkeys(v for v in signers(message) if v is not None and v >= 0))


_SIGNERS: dict[type, Callable[[Any], tuple[int | None, ...]]] = {
    Prepare: lambda one: (one.guardian,),
    **dict.fromkeys((Activate, Certified), lambda one: (one.certificate.guardian,)),
    **dict.fromkeys((Guard, Fenced), lambda one: (one.link.epoch.node, one.link.right.signer)),
    Finished: lambda one: (one.end.guardian, one.end.right.signer),
    Exposed: lambda one: (one.lie.liar,),
}


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
