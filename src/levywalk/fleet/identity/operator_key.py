"""The operator's key: with it `fleet revive` signs the order that makes an old copy a new epoch,
`fleet rejoin` the order that lets a node in again that had lied, and `fleet revoke` the order that
a node takes no part any more.

`fleet init` makes it and writes it to ``authority/operator.key``, and the manifest names its public
part, so that every node can check the order. No node has it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from levywalk.fleet.identity.key_files import (
    ed25519_key,
    make_folder,
    pem_blocks,
    private_pem,
    read_small,
    write_private,
)
from levywalk.fleet.identity.library import Ed25519PrivateKey, Encoding, PublicFormat
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.evidence import Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.revocation import Revocation

OPERATOR_KEY = "operator.key"
_Order = TypeVar("_Order", Certificate, Pardon, Revocation, FleetSize)


class OperatorKey:
    """The operator's private key.

    Examples
    --------
    >>> import tempfile
    >>> key = OperatorKey.new()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key.write(Path(folder))
    ...     OperatorKey.load(Path(folder)).public == key.public
    True
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def new(cls) -> OperatorKey:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, folder: Path) -> OperatorKey:
        """Read the key from a folder; other users must not be able to read it."""
        path = folder / OPERATOR_KEY
        (pem,) = pem_blocks(read_small(path, private=True), str(path), "PRIVATE KEY")
        return cls(ed25519_key(pem, str(path)))

    def write(self, folder: Path) -> None:
        """Write the key to a folder that has none."""
        make_folder(folder)
        write_private(folder / OPERATOR_KEY, private_pem(self._key), "a fleet keeps its key")

    @property
    def public(self) -> bytes:
        """The public key, as the manifest names it."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def signed(self, order: _Order, run: bytes) -> _Order:
        """Return an order of the operator with its signature."""
        return order._replace(signature=self._key.sign(order.statement(run)))
