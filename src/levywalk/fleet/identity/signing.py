"""Ed25519 signatures.

They need the package ``cryptography`` (``pip install 'levywalk[fleet]'``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from levywalk.extras import needs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


class Ed25519:
    """One node's key, and the public keys of the nodes whose signatures it may have to check: the
    present ones, and those that nodes had before (``former``).
    """

    def __init__(
        self,
        own: Ed25519PrivateKey,
        public: Mapping[int, Ed25519PublicKey],
        former: Mapping[int, Sequence[Ed25519PublicKey]] | None = None,
    ) -> None:
        from cryptography.exceptions import InvalidSignature

        self.own, self.public, self._invalid = own, public, InvalidSignature
        self._former = {} if former is None else former

    def sign(self, statement: bytes) -> bytes:
        """Return this node's signature."""
        return self.own.sign(statement)

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether the node has signed the statement."""
        key = self.public.get(node)
        if key is None:
            return False
        for one in (key, *reversed(self._former.get(node, ()))):
            try:
                one.verify(signature, statement)
            except self._invalid:
                continue
            return True
        return False


def new_signers(nodes: Iterable[int]) -> dict[int, Ed25519]:
    """Return a signer with a new key for each node. All of them know each other's public keys.

    Examples
    --------
    >>> one, two = new_signers([1, 2]).values()
    >>> two.verify(1, b"to 7", one.sign(b"to 7")), two.verify(1, b"to 8", one.sign(b"to 7"))
    (True, False)
    """
    with needs("fleet", "a signed hand-off", "cryptography"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    own = {v: Ed25519PrivateKey.generate() for v in nodes}
    public = {v: key.public_key() for v, key in own.items()}
    return {v: Ed25519(key, public) for v, key in own.items()}
