"""Networks from the graphs of other libraries: networkx, igraph and scipy.

igraph is never imported: its graphs are known by their methods. networkx is imported for its own
graphs alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidNetwork
from levywalk.extras import needs
from levywalk.network.inputs import are_numbers, is_one, label_array
from levywalk.network.network import Network, assemble

if TYPE_CHECKING:
    import networkx as nx

_IGRAPH = ("vcount", "get_edgelist", "is_directed", "vs", "es")


def as_network(
    graph: Any, *, self_loops: str = "none", directed: str = "symmetrise", name: str | None = None
) -> Network:
    """Return a graph of any kind as a network: networkx, igraph or a scipy sparse matrix.

    A `Network` is returned as it is. `run` and `compare` call this function, so that they take all
    these graphs directly.

    Parameters
    ----------
    graph
        A networkx graph, an igraph graph, a square scipy sparse matrix or a `Network`.
    self_loops : {"none", "counted"}
        The policy of the network.
    directed : {"symmetrise", "error"}
        What to do with a graph in which an arc has no reverse: read it as undirected, with a count
        in a `DataWarning`, or refuse it.
    name : str, optional
        The name in reprs and reports.

    Examples
    --------
    >>> import networkx as nx
    >>> as_network(nx.path_graph(["ann", "bob", "eve"])).names
    ('ann', 'bob', 'eve')
    """
    if isinstance(graph, Network):
        return graph
    networkx = sys.modules.get("networkx")  # whoever has such a graph has imported it
    if networkx is not None and isinstance(graph, networkx.Graph):
        return from_networkx(graph, self_loops, name, directed)
    if sparse.issparse(graph):
        return Network.from_scipy(graph, self_loops, name or "matrix", directed=directed)
    if all(hasattr(graph, method) for method in _IGRAPH):
        return from_igraph(graph, self_loops, name, directed)
    raise InvalidNetwork(
        f"network must be a levywalk Network, or a networkx, igraph or scipy sparse graph, got "
        f"{_what(graph)}"
    )


def _what(graph: Any) -> str:
    if isinstance(graph, str | Path):
        return f"{str(graph)!r}; for a file: lw.read_network({str(graph)!r})"
    if isinstance(graph, np.ndarray) and graph.ndim == 2 and graph.shape[0] == graph.shape[1]:
        return f"an array of shape {graph.shape}; for a matrix: scipy.sparse.csr_array(matrix)"
    return f"{type(graph).__name__}; for pairs of node numbers: lw.Network.from_edges(pairs)"


def from_networkx(
    graph: nx.Graph[Any], self_loops: str, name: str | None, directed: str
) -> Network:
    """Build a network from a networkx graph; see `Network.from_networkx`."""
    with needs("graphs", "Network.from_networkx"):
        import networkx as nx
    if not isinstance(graph, nx.Graph):
        raise InvalidNetwork(
            f"graph must be a networkx graph, got {graph!r:.80}; see Network.from_edges"
        )
    nodes = list(graph)
    labels: AnyArray | None
    if are_numbers(nodes):
        number, labels = {node: int(node) for node in nodes}, None
    else:
        number, labels = {node: i for i, node in enumerate(nodes)}, label_array(nodes)
    u = np.fromiter((number[a] for a, _ in graph.edges()), dtype=np.int64)
    v = np.fromiter((number[b] for _, b in graph.edges()), dtype=np.int64)
    weighted = sum(not is_one(weight) for _, _, weight in graph.edges(data="weight", default=1))
    return assemble(
        len(nodes),
        u,
        v,
        self_loops=self_loops,
        name=name if name is not None else (str(graph.name) or "networkx"),
        labels=labels,
        weights=weighted,
        meaning="arcs" if graph.is_directed() else "pairs",
        directed=directed,
    )


def from_igraph(graph: Any, self_loops: str, name: str | None, directed: str) -> Network:
    """Build a network from an igraph graph; the vertex attribute ``name`` gives the labels."""
    pairs = np.asarray(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    labels = None
    if "name" in graph.vs.attributes():
        names = list(graph.vs["name"])
        if len(set(names)) == len(names) and names != list(range(len(names))):
            labels = label_array(names)
    weights = graph.es["weight"] if "weight" in graph.es.attributes() else []
    return assemble(
        int(graph.vcount()),
        pairs[:, 0],
        pairs[:, 1],
        self_loops=self_loops,
        name=name or "igraph",
        labels=labels,
        weights=sum(not is_one(weight) for weight in weights),
        meaning="arcs" if graph.is_directed() else "pairs",
        directed=directed,
    )
