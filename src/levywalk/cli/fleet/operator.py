"""``levywalk fleet operator``: make a folder for operators on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levywalk.cli.fleet.common import Dir, carried_out, node_list, shell_quoted

OPERATOR_EXAMPLES = """Examples:

levywalk fleet operator my-fleet night-shift --days 30

and then, on another machine that has a copy of that folder:

levywalk fleet status night-shift"""


def operator(
    folder: Dir,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to create; it must not exist or be empty.")
    ],
    days: Annotated[
        int, typer.Option("--days", min=1, help="Days for which its certificate is valid.")
    ] = 365,
) -> None:
    """Create a folder with which an operator on another machine can query the nodes.

    It needs the fleet's authority, and nodes with an operator port (fleet init --operator-port).
    Whoever has the folder can read the status, the reports, the trace and the model.
    """
    from levywalk.fleet.operate.folder import check_folder
    from levywalk.fleet.setup.operator_folder import operator_folder

    check_folder(folder)
    nodes = carried_out(lambda _: operator_folder(folder.absolute(), out.absolute(), days))
    listed = node_list([one.id for one in nodes])
    print(f"Created {out} for {listed}; its certificate is valid for {days} days.")
    typed = f"levywalk fleet status {shell_quoted(out)}"
    print(f"Keep it secret. Copy it to the operator, who types: {typed}")
