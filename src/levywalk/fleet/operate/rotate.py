"""`fleet rotate`: new keys and certificates for nodes, which go on meanwhile.

The new keys are made where the fleet's authority is, in a folder of their own beside the old ones
(``keys-1``, ``keys-2``, …), and the node file is rewritten in one step to name them. So at any time
it names keys that belong together. Then the node, if it runs here, is told to use them, and its old
private keys are removed.

Nodes may be killed meanwhile, and so may the command: a node that starts uses the keys that its
node file names, and another rotation begins with those.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.changing import changing
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.node_processes import FleetProblem, looks
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.setup.node_file import NodeFile, _quoted, _relative
from levywalk.whole_files import write_whole

STARTS = 30.0  # seconds that a node may take from its start to its first answer
_LINE = re.compile(r"^(key|certificate|authority)\s*=.*$", re.MULTILINE)


class Rotated(NamedTuple):
    """A node whose keys were replaced."""

    node: int
    folder: Path  # of its new keys
    used: bool  # whether the running node uses them already


def rotate(
    fleet: FleetFolder,
    nodes: Iterable[int] | None = None,
    days: int = 365,
    timeout: float = STARTS,
) -> list[Rotated]:
    """Give nodes new keys, and tell those that run to use them.

    In the folder of a single node, or one without the authority, no keys are made: the node is told
    to use those that its node file names.

    Parameters
    ----------
    timeout
        Seconds to wait for a node that has a process and does not answer: it may be starting, with
        its earlier keys.

    Raises
    ------
    FleetProblem
        If a node refuses its new keys, or another command changes node files.
    """
    from levywalk.fleet.identity.authority import Authority

    place = fleet.path / "authority"
    authority = None if fleet.lone or not (place / "ca.key").exists() else Authority.load(place)
    with changing(fleet.path):
        if not fleet.lone:
            fleet = FleetFolder.open(fleet.path)
        chosen = list(fleet.files) if nodes is None else [fleet.check(v).id for v in nodes]
        named = {}
        used = {}
        for v in chosen:
            named[v] = file = fleet.files[v]
            if authority is not None:
                fresh = authority.rotate(file.key, file.certificate, _fresh(fleet.place(v)), days)
                named[v] = rename_keys(fleet.place(v) / "node.toml", fresh)
            used[v] = use_new_keys(fleet, v, timeout)
        for v in chosen:  # one may have been starting just when its node file was changed
            used[v] = used[v] or use_new_keys(fleet, v, timeout)
            if used[v] and authority is not None:
                _remove_old(fleet.place(v), named[v].key)
    return [Rotated(v, named[v].key.parent, used[v]) for v in chosen]


def use_new_keys(fleet: FleetFolder, node: int, timeout: float = 0.0) -> bool:
    """Tell a node to use the keys that its node file names; return False if it does not run, or has
    a process that does not answer for so long.
    """
    state = fleet.files[node].state
    for _ in looks(time.monotonic() + timeout):
        try:
            control.ask(state, "keys")
        except control.NoAnswer:
            if running(state) is None:
                return False
        except InvalidParameter as error:
            raise FleetProblem(
                f"node {node} refuses its new keys: {error}; it continues with the present ones"
            ) from None
        else:
            return True
    return False


def _remove_old(place: Path, key: Path) -> None:
    """Remove the private keys that a node had before, also those of earlier rotations at which it
    did not run.
    """
    for old in (place / "node.key", *place.glob("keys-*/node.key")):
        if old != key:
            old.unlink(missing_ok=True)


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
