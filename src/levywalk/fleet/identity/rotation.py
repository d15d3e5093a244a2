"""New keys for a node that its neighbours accept in place of the old ones.

Neighbours' node files contain the fingerprint of a node's keys, and signatures that were made with
earlier keys must still be checked. So the certificate of new keys, which the authority signs, also
contains the public keys that the node had before. Each of them has signed the fingerprint of the
keys after it. Whoever knows one of them can follow the signatures to the present keys; whoever has
stolen the authority's key alone cannot make new keys for a node that neighbours know.

The last `KEPT` earlier keys stay in the certificate. A rotation has a number, so that an earlier
certificate is recognised.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from levywalk.fleet.identity.library import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
    InvalidSignature,
)

KEPT = 12
_HEAD, _ENTRY = struct.Struct(">IB"), struct.Struct(">H")
_NUMBERS = struct.Struct(">QQ")
_SIGNING, _SIGNATURE, _TLS = 32, 64, 200  # bytes, the last one at most


class FormerKeys(NamedTuple):
    """Public keys that a node had before, and their signature of the fingerprint of the next."""

    tls: bytes  # DER
    signing: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint of these keys."""
        return keys_fingerprint(self.tls, self.signing)


class Rotations(NamedTuple):
    """How often a node's keys were replaced, and its last keys before, the earliest first."""

    number: int = 0
    former: tuple[FormerKeys, ...] = ()


def keys_fingerprint(tls: bytes, signing: bytes) -> str:
    """Return the SHA-256 of two public keys in hex."""
    return hashlib.sha256(tls + signing).hexdigest()


def _statement(fleet: str, node: int, number: int, fingerprint: str) -> bytes:
    """Return what the earlier key signs: that these are the keys after it."""
    return b"rotate|%s|%s" % (fleet.encode(), _NUMBERS.pack(node, number)) + fingerprint.encode()


def endorsed(
    fleet: str, node: int, before: Rotations, tls: bytes, key: Ed25519PrivateKey, fingerprint: str
) -> Rotations:
    """Return the rotations of new keys: those before, and the signature of the present key.

    Parameters
    ----------
    tls, key
        The present keys.
    fingerprint
        That of the new keys.

    Examples
    --------
    >>> key = Ed25519PrivateKey.generate()
    >>> one = endorsed("five", 3, Rotations(), b"tls", key, "ab")
    >>> known = one.former[0].fingerprint
    >>> known in followed("five", 3, one, "ab"), known in followed("five", 4, one, "ab")
    (True, False)
    """
    number = before.number + 1
    signature = key.sign(_statement(fleet, node, number, fingerprint))
    own = FormerKeys(tls, key.public_key().public_bytes_raw(), signature)
    return Rotations(number, (*before.former, own)[-KEPT:])


def followed(fleet: str, node: int, found: Rotations, fingerprint: str) -> tuple[str, ...]:
    """Return the fingerprints from which signatures lead to the present keys: theirs first, and
    then as far back as every signature is right.
    """
    known = [fingerprint]
    for back, keys in enumerate(reversed(found.former)):
        try:
            Ed25519PublicKey.from_public_bytes(keys.signing).verify(
                keys.signature, _statement(fleet, node, found.number - back, known[-1])
            )
        except (InvalidSignature, ValueError):
            break
        known.append(keys.fingerprint)
    return tuple(known)


def rotations_bytes(found: Rotations) -> bytes:
    """Return rotations as the bytes of a certificate's extension."""
    parts = [_HEAD.pack(found.number, len(found.former))]
    for keys in found.former:
        parts += [_ENTRY.pack(len(keys.tls)), keys.tls, keys.signing, keys.signature]
    return b"".join(parts)


def read_rotations(data: bytes) -> Rotations:
    """Return the rotations in the bytes of a certificate's extension.

    Raises
    ------
    ValueError
        If they are not what `rotations_bytes` writes.

    Examples
    --------
    >>> keys = FormerKeys(b"tls", bytes(32), bytes(64))
    >>> read_rotations(rotations_bytes(Rotations(7, (keys,)))) == Rotations(7, (keys,))
    True
    >>> read_rotations(b"1234567")
    Traceback (most recent call last):
    ValueError: its rotations are malformed
    """
    wrong = ValueError("its rotations are malformed")
    if len(data) < _HEAD.size:
        raise wrong
    number, count = _HEAD.unpack_from(data)
    at, former = _HEAD.size, []
    if not 0 < count <= min(KEPT, number):
        raise wrong
    for _ in range(count):
        if len(data) < at + _ENTRY.size:
            raise wrong
        (size,) = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        end = at + size + _SIGNING + _SIGNATURE
        if size > _TLS or len(data) < end:
            raise wrong
        middle = at + size
        former.append(
            FormerKeys(
                data[at:middle], data[middle : middle + _SIGNING], data[middle + _SIGNING : end]
            )
        )
        at = end
    if at != len(data):
        raise wrong
    return Rotations(number, tuple(former))
