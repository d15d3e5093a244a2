"""``levywalk fleet logs``: show what the nodes have reported."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from levywalk.cli.fleet.common import Dir, open_fleet

LOGS_EXAMPLES = """Examples:

levywalk fleet logs my-fleet --follow

levywalk fleet logs my-fleet --node 3 --json | jq .event"""


def logs(
    folder: Dir,
    follow: Annotated[bool, typer.Option("--follow", help="Show new lines until Ctrl-C.")] = False,
    node: Annotated[int | None, typer.Option("--node", help="Show only this node.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Show what the nodes have reported, in order of time (UTC)."""
    from levywalk.fleet.operate import log_entries

    fleet = open_fleet(folder)
    paths = {v: fleet.log(v) for v in (fleet.files if node is None else [node])}
    try:
        for entry in log_entries.follow(paths) if follow else log_entries.entries(paths):
            print(json.dumps(entry) if as_json else log_entries.in_words(entry), flush=follow)
    except KeyboardInterrupt:
        return
