"""The size of a fleet as a file beside its manifest, ``size.json``: the number of nodes and L̄ as
the operator has signed them last. There is none before a node has joined.

The operator signs for the name of a run, and each of several tokens has its own: so each has a file
of its own, ``size.json`` for the first one and ``size-token-1.json`` for the next. They say the
same, and whoever wants to know the size alone reads the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from levywalk.errors import InvalidSpec
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.fleet_size import MOST_NODES, FleetSize, refuses_size, resized
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.whole_files import write_whole

if TYPE_CHECKING:
    from levywalk.fleet.setup.manifest import Manifest

_LARGEST = 4096
_MOST_VERSION = 1 << 40


class _OperatorAlone:
    """Checks the operator's signatures."""

    def __init__(self, public: bytes) -> None:
        from levywalk.fleet.identity.library import Ed25519PublicKey, InvalidSignature

        self._key, self._invalid = Ed25519PublicKey.from_public_bytes(public), InvalidSignature

    def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether the operator has signed the statement."""
        try:
            self._key.verify(signature, statement)
        except self._invalid:
            return False
        return node == OPERATOR


def size_file(token: int = 0) -> str:
    """Return the name of the file of a token.

    Examples
    --------
    >>> size_file(), size_file(1)
    ('size.json', 'size-token-1.json')
    """
    return f"size-token-{token}.json" if token else "size.json"


def write_size(folder: Path, size: FleetSize, token: int = 0) -> None:
    """Write the file of a token, completely or not at all."""
    content = size._asdict() | {"signature": size.signature.hex()}
    write_whole(folder / size_file(token), (json.dumps(content) + "\n").encode())


def read_size(folder: Path, manifest: Manifest) -> FleetSize | None:
    """Return the size that a folder's file tells of the manifest's token, checked; None if there is
    no file.
    """
    path = folder / size_file(manifest.token_number)
    if not path.exists():
        return None
    text = read_bytes(path, _LARGEST, "the size of a fleet")
    try:
        loaded = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"not JSON ({error})") from None
    needed = ("version", "nodes", "mean_smoothness", "signature")
    top = Fields(loaded, str(path), needed=needed)
    signature = top.text("signature", most=1024)
    try:
        signed = bytes.fromhex(signature)
    except ValueError:
        raise top.bad("signature", "hexadecimal digits") from None
    size = FleetSize(
        top.integer("version", low=1, high=_MOST_VERSION),
        top.integer("nodes", low=2, high=MOST_NODES),
        top.number("mean_smoothness", low=0.0, low_open=True),
        signed,
    )
    if manifest.operator is None:
        raise _bad(path, "the manifest names no operator who could have signed it")
    keys = _OperatorAlone(manifest.operator)
    why = refuses_size(size, manifest.nodes, manifest.digest, keys)
    if why is not None:
        raise _bad(path, why)
    return size


def _bad(path: Path, why: str) -> InvalidSpec:
    return InvalidSpec(
        f"{path}: {why}; copy the file again from the folder where levywalk fleet join was run, or "
        "remove it: a node learns the size from its neighbours"
    )


def newest_size(folders: Iterable[Path], manifest: Manifest) -> FleetSize | None:
    """Return the latest size in some folders; None if there is none. ``manifest`` is as it was
    written.
    """
    found = (read_size(folder, manifest) for folder in folders)
    return max((one for one in found if one is not None), default=None)


def sizes_of_tokens(folder: Path, manifest: Manifest) -> list[FleetSize | None]:
    """Return the size that a folder has for each token. ``manifest`` is as it was written."""
    return [read_size(folder, manifest.of_token(number)) for number in range(manifest.tokens)]


def sized(manifest: Manifest, size: FleetSize | None) -> Manifest:
    """Return a manifest with the numbers of another size; its text and its hash stay."""
    if size is None:
        return manifest
    return replace(
        manifest,
        nodes=size.nodes,
        mean_smoothness=size.mean_smoothness,
        published=resized(manifest.published, size),
    )
