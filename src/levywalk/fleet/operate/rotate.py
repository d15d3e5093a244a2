"""`fleet rotate`: new keys and certificates for nodes, which go on meanwhile.

The new keys are made where the fleet's authority is, in a folder of their own beside the old ones
(``keys-1``, ``keys-2``, …), and the node file is rewritten in one step to name them. So at any time
it names keys that belong together. Then the node, if it runs here, is told to use them, and its old
private key is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.runtime import control
from levywalk.fleet.setup.node_file import NodeFile, _quoted, _relative
from levywalk.whole_files import write_whole

_LINE = re.compile(r"^(key|certificate|authority)\s*=.*$", re.MULTILINE)


class Rotated(NamedTuple):
    """A node whose keys were replaced."""

    node: int
    folder: Path  # of its new keys
    used: bool  # whether the running node uses them already


def rotate(
    fleet: FleetFolder, nodes: Iterable[int] | None = None, days: int = 365
) -> list[Rotated]:
    """Give nodes new keys, and tell those that run to use them.

    In the folder of a single node, or one without the authority, no keys are made: the node is told
    to use those that its node file names.

    Raises
    ------
    FleetProblem
        If a node refuses its new keys.
    """
    from levywalk.fleet.identity.authority import Authority

    chosen = list(fleet.files) if nodes is None else [fleet.check(v).id for v in nodes]
    place = fleet.path / "authority"
    authority = None if fleet.lone or not (place / "ca.key").exists() else Authority.load(place)
    done = []
    for v in chosen:
        file = fleet.files[v]
        if authority is not None:
            fresh = authority.rotate(file.key, file.certificate, _fresh(fleet.place(v)), days)
            named = rename_keys(fleet.place(v) / "node.toml", fresh)
        else:
            named = file
        used = taken(fleet, v)
        if used and authority is not None:
            file.key.unlink(missing_ok=True)
        done.append(Rotated(v, named.key.parent, used))
    return done


def taken(fleet: FleetFolder, node: int) -> bool:
    """Tell a node to use the keys that its node file names; return False if it does not run."""
    try:
        control.ask(fleet.files[node].state, "keys")
    except control.NoAnswer:
        return False
    except InvalidParameter as error:
        raise FleetProblem(
            f"node {node} refuses its new keys: {error}; it goes on with the present ones"
        ) from None
    return True


def _fresh(place: Path) -> Path:
    """Return a folder for new keys that does not exist."""
    number = 1
    while (found := place / f"keys-{number}").exists():
        number += 1
    return found


def rename_keys(path: Path, folder: Path) -> NodeFile:
    """Let a node file name the keys of a folder, in one step; return it. Its other lines stay."""
    names = {"key": "node.key", "certificate": "node.crt", "authority": "ca.crt"}
    at = path.absolute().parent

    def line(found: re.Match[str]) -> str:
        return f"{found[1]} = {_quoted(_relative(folder / names[found[1]], at))}"

    before = NodeFile.read(path)
    head, mark, rest = path.read_text().partition("[[neighbours]]")
    text = _LINE.sub(line, head) + mark + rest
    write_whole(path, text.encode())
    after = NodeFile.read(path)
    assert (after.id, after.listen, after.neighbours) == (
        before.id,
        before.listen,
        before.neighbours,
    )
    return after
