"""Find the operator's key in the folder of a fleet."""

from __future__ import annotations

from levywalk.fleet.identity.operator_key import OPERATOR_KEY, OperatorKey
from levywalk.fleet.operate.any_fleet import AnyFleet, is_elsewhere
from levywalk.fleet.operate.node_processes import FleetProblem


def operators_key(fleet: AnyFleet, what: str) -> OperatorKey:
    """Return the key that the manifest names.

    Parameters
    ----------
    what
        What it is needed for, for the error.

    Raises
    ------
    FleetProblem
        If it is not in the folder.
    """
    path = fleet.path / "authority" / OPERATOR_KEY
    if is_elsewhere(fleet.path):
        path = fleet.path / OPERATOR_KEY
        above = fleet.path.parent / "authority" / OPERATOR_KEY
        path = above if above.exists() and not path.exists() else path
    if not path.exists():
        raise FleetProblem(
            f"{path} does not exist: only the operator's key, which levywalk fleet init has made, "
            f"can {what}; copy it there"
        )
    key = OperatorKey.load(path.parent)
    if key.public != fleet.manifest.operator:
        raise FleetProblem(
            f"{path} is not the key that the manifest names: put the key of this fleet there"
        )
    return key
