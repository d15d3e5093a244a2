"""A fleet that is read: in a folder on this machine, or elsewhere through its operator ports.

The commands that only read, and `fleet revive`, take both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.fleet_status import NodeView
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.model_copies import ModelCopy
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.runtime.own_disk import SurvivingCopy
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.operator_folder import OPERATOR_FILE
from levywalk.fleet.storage.rows import LogDamage

if TYPE_CHECKING:  # status needs no network, and is quicker without scipy
    from levywalk.network import Network


class LogReader(Protocol):
    """Reads the log of a node's visits."""

    def numbered(
        self, after: int = 0, damage: list[LogDamage] | None = None
    ) -> Iterator[tuple[int, Line]]:
        """Yield the lines with their numbers, without the first ``after``."""

    def lines(self, after: int = 0, damage: list[LogDamage] | None = None) -> Iterator[Line]:
        """Yield the lines, without the first ``after``."""

    def close(self) -> None:
        """End reading."""


class Reports(Protocol):
    """What nodes report."""

    silent: dict[int, str]

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield all lines in order of time."""

    def new(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, in order of time."""


class AnyFleet(Protocol):
    """What the commands ask of a fleet."""

    @property
    def path(self) -> Path:
        """The folder that was given."""

    @property
    def manifest(self) -> Manifest:
        """The fleet's manifest."""

    @property
    def ids(self) -> list[int]:
        """The nodes that can be asked."""

    @property
    def begun(self) -> bool:
        """Whether the walk has started."""

    def token(self, number: int) -> AnyFleet:
        """Return the fleet of one of its tokens, if there are several."""

    def check(self, node: int) -> Any:
        """Raise an error unless the node can be asked."""

    def node_views(self, patience: float = ...) -> list[NodeView]:
        """Look at every node."""

    def status(self, patience: float = ...) -> dict[str, Any]:
        """Return the status of the fleet."""

    def neighbours(self) -> dict[int, list[int]]:
        """Return the neighbours of each node, as far as they are known."""

    def reports(self, nodes: Iterable[int] | None = None) -> Reports:
        """Return what nodes have reported."""

    def log_readers(self, *, partial: bool = False) -> Mapping[int, LogReader]:
        """Return the logs of the nodes' visits."""

    def copies(self, node: int) -> list[ModelCopy]:
        """Return which models a node has; perhaps without their numbers."""

    def fetched(self, copy: ModelCopy) -> ModelCopy:
        """Return a copy with its numbers."""

    def survivors(self, node: int) -> Iterator[SurvivingCopy]:
        """Yield copies from which the walk could be revived."""

    def ask(self, node: int, do: str, /, **about: Any) -> dict[str, Any]:
        """Give an order to a node."""


def open_any_fleet(path: str | Path) -> AnyFleet:
    """Open a fleet's folder, a node file, or an operator's folder."""
    if is_elsewhere(path):
        from levywalk.fleet.operate.remote import RemoteFleet

        return RemoteFleet.open(path)
    return FleetFolder.open(path)


def is_elsewhere(path: str | Path) -> bool:
    """Return whether this is an operator's folder, of a fleet that is elsewhere."""
    return (Path(path) / OPERATOR_FILE).is_file()


def network_behind(fleet: AnyFleet) -> Network:
    """Return the network of a fleet, as far as the nodes that can be asked tell."""
    from levywalk.network import Network

    manifest = fleet.manifest
    pairs = {
        (min(v, u), max(v, u))
        for v, near in fleet.neighbours().items()
        for u in near
        if u != v and u < manifest.nodes
    }
    if not pairs:
        raise InvalidParameter(f"the fleet of {fleet.path} has no edges that are known here")
    return Network.from_edges(
        np.array(sorted(pairs)),
        n=manifest.nodes,
        self_loops=manifest.self_loops,
        name=manifest.network,
    )
