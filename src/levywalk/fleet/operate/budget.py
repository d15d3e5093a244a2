"""`fleet budget`: set how much of its privacy budget a node that has lost its disk had spent."""

from __future__ import annotations

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.setup.budget_file import write_budget


def say_spent(fleet: FleetFolder, node: int, spent: int) -> int:
    """Write what a node without a disk has spent for all tokens together, for its next start;
    return its cap. Each token gets an equal part of that (`budget_file.share_of`), so the node
    never makes more than the cap in all, however the updates were shared before.

    Raises
    ------
    InvalidParameter
        If the fleet has no privacy; if the node has a disk, be it of one token, whose count cannot
        be changed; if the number is above the cap.
    """
    file, bound = fleet.check(node), fleet.manifest.published.privacy
    if bound is None:
        raise InvalidParameter(
            f"{fleet.path} is a fleet without privacy, whose nodes have no budget; levywalk fleet "
            "init --privacy creates one with it"
        )
    spent = checks.integer("spent", spent, low=0, high=bound.whole_cap)
    there = [one for one in fleet.each if (one.files[node].state / "state.db").exists()]
    if (file.state / "state.db").exists():
        raise InvalidParameter(
            f"node {node} has a disk, which counts what is spent, and nothing lowers that count; "
            f"see levywalk fleet status {fleet.path}"
        )
    if there:
        raise InvalidParameter(
            f"node {node} has lost the disk of token 0, but not that of token "
            f"{there[0].manifest.token_number}, which counts what is spent for it: move all of "
            f"{file.state} away, so that the node begins with the number that you give"
        )
    write_budget(fleet.place(node), fleet.manifest, spent, first=False)
    return bound.whole_cap
