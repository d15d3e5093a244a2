"""``levywalk fleet logs``: show what the nodes have reported."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from levywalk.cli.fleet.common import ReadDir, TokenNumber, check_token, open_any_fleet
from levywalk.printable import printable

LOGS_EXAMPLES = """Examples:

levywalk fleet logs my-fleet --follow

levywalk fleet logs my-fleet --node 3 --json | jq .event"""


def logs(
    folder: ReadDir,
    follow: Annotated[bool, typer.Option("--follow", help="Show new lines until Ctrl-C.")] = False,
    node: Annotated[int | None, typer.Option("--node", help="Show only this node.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    token: TokenNumber = None,
) -> None:
    """Show what the nodes have reported, in order of time (UTC).

    A node elsewhere keeps its last 2,000 lines since its start. The exit code is 1 if none answers.
    """
    from levywalk.fleet.operate import log_entries

    fleet = open_any_fleet(folder)
    check_token(fleet, token)
    if node is not None:
        fleet.check(node)
    reports = fleet.reports(None if node is None else [node])
    try:
        for entry in log_entries.follow(reports.new) if follow else reports.all():
            if token is not None and entry.get("token", token) != token:
                continue
            print(json.dumps(entry) if as_json else log_entries.in_words(entry), flush=follow)
    except KeyboardInterrupt:
        return
    for why in reports.silent.values():
        print(f"Without: {printable(why)}", file=sys.stderr)
    if len(reports.silent) == (len(fleet.ids) if node is None else 1):
        raise typer.Exit(1)
