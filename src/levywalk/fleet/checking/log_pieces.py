"""The logs that a fleet's nodes have left, read from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from levywalk.fleet.protocol.kept_memory import KeptMemory
from levywalk.fleet.protocol.records import HeldStatus, Line
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.several_tokens import token_folder
from levywalk.fleet.storage.limits import ANY
from levywalk.fleet.storage.reader import StoreReader


class DiskLog(NamedTuple):
    """The log of one disk. A node that has lost a disk has several."""

    node: int
    lines: Sequence[Line]
    token: Token | None = None  # the active token, or the copy, that is on the disk at the end
    spent: int | None = None  # what its disk says that the privacy budget has spent
    kept: KeptMemory | None = None  # what its disk keeps of the node's memory


def pieces(folder: str | Path, token: int = 0) -> list[DiskLog]:
    """Read all logs of a token in a fleet's folder:

    ``node-3/state``, and disks that were moved away, ``node-3/state.lost-1``.
    """
    found = []
    place = token_folder(Path("state*"), token)
    manifest = Path(folder) / "manifest.json"
    limits = Manifest.read(manifest).limits if manifest.exists() else ANY
    for path in sorted(Path(folder).glob(f"node-*/{place}/state.db")):
        node = int(path.relative_to(folder).parts[0].removeprefix("node-"))
        with StoreReader(path.parent, limits=limits) as reading:
            disk = reading.load()
            copies = []
            if disk is not None:
                if disk.held is not None and disk.held.status != HeldStatus.PREPARED:
                    copies.append(disk.held.token)
                copies += [] if disk.guarded is None else [disk.guarded.copy]
                copies += [] if disk.final is None else [disk.final]
            newest = max(copies, key=lambda token: (token.epoch, token.step), default=None)
            spent = None if disk is None or disk.spent is None else disk.spent.releases
            kept = None if disk is None else disk.memory
            found.append(DiskLog(node, tuple(reading.lines()), newest, spent, kept))
    return found
