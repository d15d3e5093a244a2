"""The file that says what a node's privacy budget has spent before it has a disk.

A node counts on its disk what its budget has spent. An empty disk may be that of a new node, or of
one that has lost its disk, and then nobody knows the count. So an empty disk alone counts as a
budget that is spent. ``levywalk fleet init`` writes `BUDGET` beside the node file, which says that
nothing is spent; the first start reads it, writes the count to the new disk, and removes the file
before the node does anything else. A later empty disk finds no such file. If the file comes back
nevertheless, with a copy of the folder from before the first start, neighbours that knew the lost
disk say so (`protocol.witnesses`), and the budget counts as spent as soon as one of them does.

Several tokens share a node's budget in equal parts, and each has a disk of its own, on which it
counts its own part. The file says what all of them have spent together, and each new disk gets its
part of that (`share_of`). The file is removed when all disks are written; if a first start was
interrupted before that, the next one writes the disks that are missing. No update is made before.

``levywalk fleet budget`` writes it again for an operator who knows the count.
"""

from __future__ import annotations

import json
from pathlib import Path

from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.protocol.records import Spending
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.setup.manifest import Manifest
from levywalk.whole_files import sync_folder, write_whole

BUDGET = "budget.json"
_LARGEST = 4096  # bytes


def write_budget(folder: Path, manifest: Manifest, spent: int = 0, *, first: bool = True) -> None:
    """Say beside a node file how many updates the node's budget has spent so far, for all tokens
    together, and whether the next disk of the node is its first one: then neighbours must not know
    an earlier one.
    """
    content = {"run": manifest.run, "spent": spent, "first": first}
    write_whole(folder / BUDGET, (json.dumps(content) + "\n").encode(), 0o600)


def share_of(spent: int, tokens: int, number: int) -> int:
    """Return the part of a token of what all tokens have spent together: the parts differ by at
    most one, and their sum is the whole.

    Examples
    --------
    >>> [share_of(17, 3, number) for number in range(3)]
    [5, 6, 6]
    """
    return (spent + number) // tokens


def first_spending(folder: Path, manifest: Manifest) -> Spending | None:
    """Return what a node with an empty disk has spent for the manifest's token: all of its share,
    unless the file says otherwise.
    """
    privacy = manifest.published.privacy
    if privacy is None:
        return None
    if not (folder / BUDGET).exists():
        return Spending(privacy.cap)
    source, text = str(folder / BUDGET), read_bytes(folder / BUDGET, _LARGEST, "a budget file")
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(
            f"{source}: not JSON ({error}); remove it, and the budget counts as spent"
        ) from None
    fields = Fields(value, source, needed=("run", "spent", "first"))
    if fields.text("run", most=64) != manifest.run:
        raise fields.bad("run", f"{manifest.run}, as the manifest says; remove the file")
    spent = fields.integer("spent", low=0, high=privacy.whole_cap)
    part = share_of(spent, manifest.tokens, manifest.token_number)
    return Spending(part, fields.flag("first"))


def use_up(folder: Path) -> None:
    """Remove the file, before the node makes an update."""
    path = folder / BUDGET
    try:
        path.unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be removed ({error.strerror}): it says what the budget had spent "
            "before the first start, and would give a lost budget back; make the folder writable "
            "for the node"
        ) from None
