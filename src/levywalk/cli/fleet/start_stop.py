"""``levywalk fleet up``, ``begin`` and ``stop``:
start and stop the nodes of a fleet, and its walk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levywalk.cli.fleet.common import Dir, carried_out, node_list, open_fleet, shell_quoted

UP_EXAMPLES = """Examples:

levywalk fleet up my-fleet && levywalk fleet status my-fleet --watch

Nodes that run already are not touched, so the same command restarts those that have stopped."""


def up(
    folder: Dir,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait until all nodes answer.")
    ] = 120.0,
) -> None:
    """Start every node that does not run, each in its own process, and start the walk."""
    fleet = open_fleet(folder)
    started = carried_out(lambda say: fleet.up(timeout, say))
    n = len(fleet.files)
    what = f"Started {node_list(started)}." if started else "All nodes were running."
    logs = fleet.log(next(iter(fleet.files))) if fleet.lone else f"{folder}/node-*/node.log"
    print(f"{what} {n} of {n} nodes run; logs are {logs}.")
    at = shell_quoted(folder)
    if not fleet.whole:
        print(f"Of {fleet.manifest.nodes} nodes {n} are here.", end="")
        for start in sorted({one.manifest.start for one in fleet.each}):
            where = (
                f"here: levywalk fleet begin {at}"
                if start in fleet.files
                else "on the machine of that node"
            )
            print(f" Start the walk at node {start} {where}")
    print(
        f"Next: levywalk fleet status {at} --watch, levywalk fleet logs {at}, levywalk fleet stop "
        f"{at}"
    )


def begin(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|NODE.toml", help="The fleet's folder, or the node.toml of one node."
        ),
    ],
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait until all edges are up.")
    ] = 120.0,
) -> None:
    """Start the walk of a fleet whose nodes were started by systemd, compose or kubernetes.

    levywalk fleet up does this by itself. A walk that has started is not started again.
    """
    from levywalk.fleet.operate.folder import begin_at

    if place.is_file():
        fresh = carried_out(lambda say: begin_at(place, timeout, say))
    else:
        fleet = open_fleet(place)
        fresh = carried_out(lambda say: fleet.begin(timeout, say))
    print("The walk starts." if fresh else "The walk had started before.")


def stop(
    folder: Dir,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait until a node ends.")
    ] = 30.0,
    force: Annotated[
        bool,
        typer.Option("--force", help="Kill the nodes that still run after that; nothing is lost."),
    ] = False,
) -> None:
    """Stop all nodes. Nothing is lost: levywalk fleet up continues the walk."""
    from levywalk.fleet.operate.whole_status import whole_status

    fleet = open_fleet(folder)
    ended = carried_out(lambda say: fleet.stop(timeout, force=force, say=say))
    print(f"Stopped {node_list(ended)}." if ended else "No node was running.")
    if not whole_status(fleet)["finished"]:
        print(f"Next: levywalk fleet up {shell_quoted(folder)} continues the walk.")
