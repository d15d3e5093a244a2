"""`fleet forgive`: guardians forget that they have refused models of a node."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.runtime import control


class ForgivenNode(NamedTuple):
    """Which nodes have forgotten their refusals of a node's models."""

    told: list[int]
    down: list[int]  # nodes of this folder that do not run, and may have refused some


def forgive(fleet: FleetFolder, node: int) -> ForgivenNode:
    """Let the nodes that run here forget which models of a node they have refused.

    Raises
    ------
    InvalidParameter
        If no node that runs here has refused a model of that node.
    """
    told, down = [], []
    for v in fleet.ids:
        try:
            done = [one.ask(v, "forgive", node=node)["done"] for one in fleet.each]
            if any(done):
                told.append(v)
        except control.NoAnswer:
            down.append(v)
    if not told:
        raise InvalidParameter(
            f"no node that runs here has refused a model of node {node}; levywalk fleet status "
            f"{fleet.path} names those whose models were refused"
        )
    return ForgivenNode(told, down)
