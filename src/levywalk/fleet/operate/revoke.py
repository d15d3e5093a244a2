"""`fleet revoke`: a node takes no part any more, and all nodes learn it."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.fleet_status import winning_epoch
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.runtime import control


class RevokedNode(NamedTuple):
    """Which nodes were told that a node is revoked."""

    told: list[int]
    down: list[int]  # nodes of this folder that do not run, or are fenced; they learn it later


def revoke(fleet: FleetFolder, node: int) -> RevokedNode:
    """Sign with the operator's key that a node takes no part any more, and tell the nodes that run
    here. They tell their neighbours, and those theirs.

    Raises
    ------
    FleetProblem
        If the operator's key is not here, or no node runs here besides that one.
    """
    if not 0 <= node < fleet.manifest.nodes:
        raise InvalidParameter(
            f"node must be from 0 to {fleet.manifest.nodes - 1}, as the manifest says, got {node}"
        )
    key = operators_key(fleet, "revoke a node")
    orders = []  # one for each token, whose epochs are its own
    for one in fleet.each:
        blank = Revocation(node, winning_epoch(one.node_views()), b"")
        orders.append((one, key.signed(blank, one.manifest.digest)))
    told, down, objections = [], [], []
    for v in fleet.ids:
        try:
            for one, order in orders:
                one.ask(
                    v, "revoke", node=node, epoch=list(order.epoch), signature=order.signature.hex()
                )
            told.append(v)
        except control.NoAnswer:
            down.append(v)
        except InvalidParameter as error:  # it is fenced; the others are told nevertheless
            down.append(v)
            objections.append(str(error))
    if not [v for v in told if v != node]:
        raise FleetProblem(
            f"no other node was told that node {node} is revoked: nodes {short(down)} do not run; "
            f"levywalk fleet up {fleet.path}, and try again"
            + "".join(f"\n{one}" for one in objections)
        )
    return RevokedNode(told, down)
