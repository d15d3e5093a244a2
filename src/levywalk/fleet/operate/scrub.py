"""Read the nodes' disks completely, so that damage is found while it can still be repaired.

A node checks what it needs when it starts. The log of its visits is read only when somebody wants
the trace, and a bit may have flipped there long before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from levywalk.fleet.operate.log_text import count
from levywalk.fleet.runtime.findings import Finding, FindingLevel
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.rows import LogDamage


def scrub_disks(files: Iterable[NodeFile], manifest: Manifest) -> Iterator[Finding]:
    """Read every row, every page and every model of the nodes' disks; the nodes may run meanwhile.

    Damage in the log does not stop the walk, but those steps are lost for the trace. Damage in the
    rest stops the node when it starts again.
    """
    lines = 0
    bad = False
    for file in files:
        if not (file.state / "state.db").exists():
            continue
        damage: list[LogDamage] = []
        try:
            with StoreReader(file.state, manifest.digest, limits=manifest.limits) as reading:
                lines += sum(1 for _ in reading.lines(damage=damage))
                reading.check_pages()
                reading.load()
        except NodeStoreError as error:
            bad = True
            yield Finding(FindingLevel.PROBLEM, f"node {file.id}: {error}")
        for one in damage:
            bad = True
            which = (
                f"line {one.first}" if one.first == one.last else f"lines {one.first} to {one.last}"
            )
            yield Finding(
                FindingLevel.PROBLEM,
                f"node {file.id}: {which} of its log cannot be read ({one.why})",
                "the walk continues, and levywalk fleet trace leaves these lines out; check the "
                "disk and the memory of that machine",
            )
    if not bad:
        said = f"{count(lines, 'line')} of the logs are whole" if lines else "the logs are empty"
        yield Finding(FindingLevel.OK, said)
