"""`fleet rejoin`: let a fenced node take part again, without its disk.

A node is fenced if its neighbours have seen more of it than its disk holds: the disk was restored
from a backup, or a copy of it runs elsewhere. Such a disk counts as lost. It is moved aside, and
the node starts with an empty one, as a new node.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.fleet_status import view
from levywalk.fleet.operate.folder import PATIENCE, FleetFolder, FleetProblem, Say, nothing_said
from levywalk.fleet.operate.node_processes import looks, start_process
from levywalk.whole_files import sync_folder


class Rejoined(NamedTuple):
    """Where the old disk is now, and whether the node was started again."""

    kept: Path
    started: bool


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
        Whether to do so although the node is not fenced.

    Raises
    ------
    InvalidParameter
        If the node is not fenced.
    FleetProblem
        If its process does not end, or does not answer afterwards.
    """
    file = fleet.check(node)
    one = view(file, fleet.manifest)
    if not (file.state / "state.db").exists():
        raise InvalidParameter(
            f"node {node} has no disk to give up: levywalk fleet up {fleet.path} starts it as a "
            "new node"
        )
    if not one.about.get("fenced") and not force:
        raise InvalidParameter(
            f"node {node} is not fenced, and its disk is needed: see levywalk fleet status "
            f"{fleet.path}; --force treats the disk as lost all the same"
        )
    stopped = fleet.stop(force=True, say=say, nodes=[node])
    kept = _moved_aside(file.state)
    if not stopped:
        return Rejoined(kept, started=False)
    start_process(fleet.place(node), fleet.log(node))
    for _ in looks(time.monotonic() + timeout):
        say(f"waiting for node {node}")
        if fleet.answers(node):
            return Rejoined(kept, started=True)
    raise FleetProblem(f"node {node} does not answer: see {fleet.log(node)}")


def _moved_aside(state: Path) -> Path:
    """Move a state folder to a free name beside it; return the new path."""
    number = 1
    while (kept := state.with_name(f"fenced-{number}")).exists():
        number += 1
    state.rename(kept)
    sync_folder(kept.parent)
    return kept
