"""`fleet rejoin`: let a fenced node, or one that has lied, take part again, without its disk.

A node is fenced if its neighbours have seen more of it than its disk holds: the disk was restored
from a backup, or a copy of it runs elsewhere. Such a disk counts as lost. It is moved aside, and
the node starts with an empty one, as a new node.

A node that has lied about its register is shut out by all others (`protocol/evidence.py`), and a
new disk alone does not change that: whoever lies could make one. The operator signs that it may
take part again, and a node that runs here spreads this.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.fleet_status import view_node
from levywalk.fleet.operate.folder import PATIENCE, FleetFolder
from levywalk.fleet.operate.node_processes import (
    FleetProblem,
    Say,
    looks,
    nothing_said,
    start_process,
)
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.protocol.evidence import Pardon
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime import control
from levywalk.whole_files import sync_folder


class Rejoined(NamedTuple):
    """Where the old disk is now, whether the node was started again, and whether it had lied."""

    kept: Path
    started: bool
    pardoned: bool = False


def rejoin(
    fleet: FleetFolder,
    node: int,
    *,
    force: bool = False,
    timeout: float = PATIENCE,
    say: Say = nothing_said,
) -> Rejoined:
    """Treat a node's disk as lost, and start the node again if it runs.

    Parameters
    ----------
    force
        Whether to do so although the node is neither fenced nor shut out.

    Raises
    ------
    InvalidParameter
        If the node is neither fenced nor shut out.
    FleetProblem
        If its process does not end, or does not answer afterwards; if it has lied, and the
        operator's key is not here.
    """
    file = fleet.check(node)
    fenced = any(view_node(one.check(node), one.manifest).about.get("fenced") for one in fleet.each)
    if not (file.state / "state.db").exists():
        raise InvalidParameter(
            f"node {node} has no disk to give up: levywalk fleet up {fleet.path} starts it as a "
            "new node"
        )
    lies = [(one, found) for one in fleet.each if (found := _lies(one, node))]
    if not fenced and not lies and not force:
        raise InvalidParameter(
            f"node {node} is neither fenced nor shut out, and its disk is needed: see levywalk "
            f"fleet status {fleet.path}; --force treats the disk as lost all the same"
        )
    pardons = [(one, _pardons(one, node, found)) for one, found in lies]
    stopped = fleet.stop(force=True, say=say, nodes=[node])
    kept = _moved_aside(file.state)
    for one, orders in pardons:
        for told, order in orders.items():
            control.ask(one.files[told].state, "pardon", **order)
    if not stopped:
        return Rejoined(kept, started=False, pardoned=bool(lies))
    start_process(fleet.place(node), fleet.log(node))
    for _ in looks(time.monotonic() + timeout):
        say(f"waiting for node {node}")
        if fleet.answers(node):
            return Rejoined(kept, started=True, pardoned=bool(lies))
    raise FleetProblem(f"node {node} does not answer: see {fleet.log(node)}")


def _lies(fleet: FleetFolder, node: int) -> dict[int, Epoch]:
    """Return the nodes that run here and have shut a node out, each with the epoch of the lie."""
    return {
        one.id: Epoch(*found)
        for one in fleet.node_views()
        if one.answers
        and one.id != node
        and (found := one.about.get("liars", {}).get(str(node))) is not None
    }


def _pardons(fleet: FleetFolder, node: int, lies: Mapping[int, Epoch]) -> dict[int, dict[str, Any]]:
    """Return the operator's order that a node may take part again, for each node to be told."""
    key = operators_key(fleet, "let a node in again that has lied")
    found = {}
    for told, epoch in lies.items():
        order = key.signed(Pardon(node, epoch, b""), fleet.manifest.digest)
        found[told] = {"node": node, "epoch": list(epoch), "signature": order.signature.hex()}
    return found


def _moved_aside(state: Path) -> Path:
    """Move a state folder to a free name beside it; return the new path."""
    number = 1
    while (kept := state.with_name(f"fenced-{number}")).exists():
        number += 1
    state.rename(kept)
    sync_folder(kept.parent)
    return kept
