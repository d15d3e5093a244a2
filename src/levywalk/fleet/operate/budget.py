"""`fleet budget`: say what a node that has lost its disk had spent of its budget of privacy."""

from __future__ import annotations

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.setup.budget_file import write_budget


def say_spent(fleet: FleetFolder, node: int, spent: int) -> int:
    """Write what a node without a disk has spent, for its next start; return its cap.

    Raises
    ------
    InvalidParameter
        If the fleet has no privacy; if the node has a disk, whose count cannot be changed; if the
        number is above the cap.
    """
    file, bound = fleet.check(node), fleet.manifest.published.privacy
    if bound is None:
        raise InvalidParameter(
            f"{fleet.path} is a fleet without privacy, whose nodes have no budget; levywalk fleet "
            "init --privacy creates one with it"
        )
    spent = checks.integer("spent", spent, low=0, high=bound.cap)
    if (file.state / "state.db").exists():
        raise InvalidParameter(
            f"node {node} has a disk, which counts what is spent, and nothing lowers that count; "
            f"see levywalk fleet status {fleet.path}"
        )
    write_budget(fleet.place(node), fleet.manifest, spent, first=False)
    return bound.cap
