"""What a node's disk says besides its present state: the log's lines that are not visits, the last
visit, and copies of the model that the node does not use itself.

The commands read it from a folder, and the operator port of a node from its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.surviving import token_of
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.reader import OtherLine, StoreReader
from levywalk.fleet.storage.rows import LogDamage


class DiskView(NamedTuple):
    """What a node's disk tells."""

    lines: tuple[OtherLine, ...] = ()  # of its log, that are not visits
    last: Visit | None = None  # the last line of its log
    continued: frozenset[Epoch] = frozenset()  # epochs that it ended as the holder, with a new one
    measured: dict[str, float] = {}  # noqa: RUF012  # the last metrics in its log
    error: str | None = None  # why it cannot be read
    disk: Disk | None = None  # its state, if that was asked for


class SurvivingCopy(NamedTuple):
    """A copy of the model that a node does not use itself."""

    epoch: Epoch
    step: int
    seq: int
    node: int
    line: int | None  # its line in the log, or None if it is guarded or prepared
    digest: bytes  # hash of the token

    @property
    def where(self) -> str:
        """Where it is, in words."""
        kind = "guarded or prepared" if self.line is None else f"line {self.line} of the log"
        return f"node {self.node}, {kind}"


def read_disk(file: NodeFile, manifest: Manifest, *, state: bool = False) -> DiskView:
    """Read a node's disk, also while the node runs.

    Parameters
    ----------
    state
        Whether to read its present state, too, with the models.
    """
    if not (file.state / "state.db").exists():
        return DiskView()
    found = DiskView()
    try:
        with StoreReader(file.state, manifest.digest, limits=manifest.limits) as reading:
            damage: list[LogDamage] = []
            found = DiskView(
                tuple(reading.without_visits(damage)),
                reading.last_visit(damage),
                frozenset(reading.continued(file.id)),
                error=f"line {damage[0].first} of its log is damaged" if damage else None,
            )
            found = found._replace(measured=_measured(reading, manifest))
            return found._replace(disk=reading.load()) if state else found
    except NodeStoreError as error:
        return found._replace(error=str(error))


def _measured(reading: StoreReader, manifest: Manifest) -> dict[str, float]:
    """Return the last metrics in a node's log, by name; NaN where there is no finite value."""
    if manifest.code is None or not manifest.code.metrics:
        return {}
    last = reading.last_measured()
    if last is None or len(last.values) != len(manifest.code.metrics):
        return {}
    return dict(zip(manifest.code.metrics, last.values, strict=True))


def surviving_copies(file: NodeFile, manifest: Manifest) -> Iterator[SurvivingCopy]:
    """Yield the best copy in a node's slots, and the best one in its log."""
    if not (file.state / "state.db").exists():
        return

    def of(token: Token, line: int | None) -> SurvivingCopy:
        return SurvivingCopy(token.epoch, token.step, token.seq, file.id, line, token.digest())

    with StoreReader(file.state, manifest.digest, limits=manifest.limits) as reading:
        disk = reading.load()
        kept = None if disk is None else best_copy(disk)
        if kept is not None and manifest.published.refuses(kept) is None:
            yield of(kept, None)
        damage: list[LogDamage] = []
        found = [
            of(token, number)
            for number, line in reading.with_models(damage)
            if (token := token_of(line, manifest.published)) is not None
            and manifest.published.refuses(token) is None
        ]
        if found:
            yield max(found)


def without_model(token: Token) -> Token:
    """Return a token without its numbers, for those who need only where it stands."""
    return token._replace(model=np.zeros(0), memory=np.zeros(0, np.uint8))
