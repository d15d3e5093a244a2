"""The graph on which the model walks: an immutable `Network`, graph families and graph files."""

from __future__ import annotations

from levywalk.network.families import (
    FAMILIES,
    barabasi_albert,
    barbell,
    complete,
    erdos_renyi,
    grid,
    path,
    random_regular,
    ring,
    star,
    torus,
    watts_strogatz,
)
from levywalk.network.files import read_network
from levywalk.network.graphs import as_network
from levywalk.network.network import Network

__all__ = [
    "FAMILIES",
    "Network",
    "as_network",
    "barabasi_albert",
    "barbell",
    "complete",
    "erdos_renyi",
    "grid",
    "path",
    "random_regular",
    "read_network",
    "ring",
    "star",
    "torus",
    "watts_strogatz",
]
