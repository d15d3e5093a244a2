"""What a node, or a command on its machine, can check there: keys, certificates, disk and clock."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from levywalk.fleet.identity.errors import ExpiryWarning, IdentityError
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.runtime.findings import Finding, FindingLevel
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.storage.disk_speed import fsync_seconds

_ROOM = 1 << 30, 1 << 26  # free bytes on the disk: fewer are a warning, or a problem
_SLOW = 0.02  # seconds; a slower fsync is a warning
_CLOCK = 5.0  # seconds by which files may be newer than this machine's clock


def own_keys(file: NodeFile) -> Iterator[Finding]:
    """Check a node's keys and certificates."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpiryWarning)
        try:
            Identity.load(file.key, file.certificate, file.authority, node=file.id)
        except IdentityError as error:
            yield Finding(FindingLevel.PROBLEM, f"node {file.id}: {error}")
        except OSError as error:
            yield Finding(
                FindingLevel.PROBLEM,
                f"node {file.id}: {error}",
                "restore the file, or issue new keys for the node",
            )
    for warning in caught:
        if issubclass(warning.category, ExpiryWarning):
            yield Finding(
                FindingLevel.WARNING,
                f"node {file.id}: {warning.message}",
                "levywalk fleet renew, then restart the node",
            )


def _changed_at(file: Path) -> float | None:
    """Return when a file was changed; None if it is gone, or a link that leads nowhere."""
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def own_machine(path: Path, files: Iterable[Path]) -> Iterator[Finding]:
    """Check the disk of a folder, and the clock against some files there."""
    if not os.access(path, os.W_OK):
        yield Finding(
            FindingLevel.PROBLEM,
            f"{path} cannot be written",
            "give it to the user that runs the nodes",
        )
        return
    free = shutil.disk_usage(path).free
    level = (
        FindingLevel.OK
        if free >= _ROOM[0]
        else FindingLevel.WARNING
        if free >= _ROOM[1]
        else FindingLevel.PROBLEM
    )
    yield Finding(
        level,
        f"{free / (1 << 30):.1f} GiB are free on the disk",
        "" if level == FindingLevel.OK else "make room",
    )
    taken = fsync_seconds(path, times=10)
    said = f"the disk stores a page in {1000 * taken:.2g} ms"
    yield (
        Finding(FindingLevel.OK, said)
        if taken < _SLOW
        else Finding(FindingLevel.WARNING, f"{said}: hand-offs are slow", "use a faster disk")
    )
    newest = max((at for file in files if (at := _changed_at(file)) is not None), default=0.0)
    now = time.time()
    if newest > now + _CLOCK:
        yield Finding(
            FindingLevel.WARNING,
            f"the clock says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, but files here are "
            f"{newest - now:.0f} s newer",
            "set the clock: it decides whether certificates are valid, and nothing else",
        )
    else:
        yield Finding(
            FindingLevel.OK,
            f"the clock says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; it decides whether "
            "certificates are valid",
        )
