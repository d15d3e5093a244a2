"""``levywalk fleet budget``: set what a node had spent before it lost its disk."""

from __future__ import annotations

from typing import Annotated

import typer

from levywalk.cli.fleet.common import Dir, NodeNumber, open_fleet, shell_quoted

BUDGET_EXAMPLES = """Examples:

levywalk fleet budget my-fleet 3 --spent 17   (the last number that your monitoring has of \
levywalk_privacy_updates_spent, with several tokens the sum over them; if you do not know it, do \
nothing: the whole budget then counts as spent)"""


def budget(
    folder: Dir,
    node: NodeNumber,
    spent: Annotated[
        int,
        typer.Option(
            "--spent",
            min=0,
            help="Number of updates that the node had made, for all tokens together, or a larger "
            "number.",
        ),
    ],
) -> None:
    """Set the privacy budget already used by a node whose disk was lost, in updates.

    Without this command the budget of a node with an empty disk counts as spent, and the node
    passes the model on without updates. A number that is too small breaks what the budget promises.
    Several tokens share the budget: each begins with an equal part of this number.
    """
    from levywalk.fleet.operate.budget import say_spent

    fleet = open_fleet(folder)
    cap = say_spent(fleet, node, spent)
    print(
        f"Node {node} will start with {spent:,} of {cap:,} updates spent. Next: levywalk fleet up "
        f"{shell_quoted(folder)}"
    )
