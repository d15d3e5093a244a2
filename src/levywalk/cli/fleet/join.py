"""``levywalk fleet join``: a new node in a running fleet.

Each option is a parameter, so the function is long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levywalk.cli.fleet.common import (
    Dir,
    carried_out,
    node_list,
    open_fleet,
    shell_quoted,
    were_told,
)
from levywalk.errors import InvalidParameter


def join(
    folder: Dir,
    neighbours: Annotated[
        str,
        typer.Option(
            "--neighbours", metavar="NODES", help="The neighbours of the new node, such as 0,2."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Its samples, a .csv or .npz file like those of other nodes; if only the owner "
            "has them, use --smoothness.",
        ),
    ] = None,
    smoothness: Annotated[
        float | None,
        typer.Option(
            "--smoothness",
            help="Its L_v, if --data is not given; not with private scores, which are all 1.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Address where its neighbours reach it, for a fleet on several machines.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, help="Days for which its certificate is valid.")
    ] = 365,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait for each node.")
    ] = 120.0,
) -> None:
    """Add a new node to a running fleet, beyond the number of nodes it was created for.

    This creates the folder of the node, with keys and data, signs the new number of nodes and L̄
    with the operator's key, and sends them to the nodes that run here; these send them to all
    others. If all nodes are on this machine, the node is started, and its neighbours start again,
    one after the other; nothing is lost. With several tokens the number and L̄ are signed for each
    token.

    Nodes may be killed meanwhile. If the command is interrupted, or says that a node does not
    answer, run the same command again to resume.

    In a fleet with privacy the node gets a budget of its own. With private scores it publishes 1,
    as all do, and L̄ stays 1; with scores=released its L_v is published once, with noise.
    """
    from levywalk.fleet.operate.join import join as joined

    near = _numbers(neighbours)
    fleet = open_fleet(folder)
    found = carried_out(
        lambda say: joined(
            fleet,
            near,
            data=data,
            smoothness=smoothness,
            address=address,
            days=days,
            timeout=timeout,
            say=say,
        )
    )
    print(
        f"Node {found.node} joins: the fleet has {found.size.nodes} nodes now, and L̄ is "
        f"{found.size.mean_smoothness:.6g}."
    )
    if found.told:
        print(f"{were_told(found.told)}; they tell all others.")
    else:
        print("No node runs here: the new node tells its neighbours, and they tell all others.")
    if found.started:
        print(f"Node {found.node} runs; its log is {found.folder / 'node.log'}.")
        if found.restarted:
            print(f"Started again: {node_list(found.restarted)}.")
        if found.down:
            print(
                f"Not running: {node_list(found.down)}. They learn of the new node when they run "
                "again."
            )
        return
    place = shell_quoted(Path(found.folder.name, "node.toml"))
    wanted = "" if data is not None else f", put its samples into {found.folder.name}/data.csv"
    where = "" if address is None else f" move {found.folder} to its machine{wanted}, and"
    where = where or (f"{wanted.replace(', put', ' put')}, and" if wanted else "")
    print(f"Next:{where} run: levywalk node {place}")
    if found.elsewhere:
        print(
            f"On the machines of {node_list(found.elsewhere)}: add the node to their node files, "
            "with its address, and the fingerprint that levywalk fleet doctor shows."
        )
    print(
        f"When it runs, copy the node.toml of {node_list(found.near)} from here to their machines, "
        "and start them again, one after the other; they wait for its answer."
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(
            f"--neighbours must be numbers of nodes, such as 0,2, got {text!r}"
        ) from None
