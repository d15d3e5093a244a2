"""The network: nodes 0..n-1 and their neighbours, immutable, in compressed sparse rows.

It is one class with the constructors and views that users know by its name; what they compute is in
the other files of this folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import AnyArray, Bools, Ints, Ints32
from levywalk.errors import InvalidNetwork, NotConnected
from levywalk.extras import needs
from levywalk.network.csr import (
    IntArray,
    component_numbers,
    locked,
    pair_keys,
    require_sound,
    symmetric_csr,
)
from levywalk.network.direction import DIRECTED, judge_direction, refuse_directed
from levywalk.network.inputs import edge_pairs, entries, require_range, require_some, warn_dropped
from levywalk.network.names import shown_node
from levywalk.notebook import table_html
from levywalk.remedy import python_or_command

if TYPE_CHECKING:
    import networkx as nx

SELF_LOOPS = ("none", "counted")


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """An undirected, simple, unweighted graph, with a policy for self-loops.

    Build one with a family (`ring`, `grid`, ...), with `read_network`, with `as_network` from a
    graph of another library, or with `from_edges`, `from_networkx` and `from_scipy`. The
    constructor itself takes compressed sparse rows and does not check them.

    Under the policy ``"none"`` no node has a loop: degree and neighbours count other nodes only.
    Under ``"counted"`` every node has exactly one loop, which counts like any other edge in degree,
    neighbours and CSR.

    Attributes
    ----------
    n : int
        Number of nodes.
    indptr, indices : arrays
        The neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``, ascending (int64 and int32,
        read-only).
    degree : array
        Number of neighbours of each node (int64, read-only).
    self_loops : str
        ``"none"`` or ``"counted"``.
    name : str
        A short text for reprs and reports, such as ``"ring(1000)"``.
    labels : array or None
        The original id of each node where the input's ids were not 0..n-1.

    Examples
    --------
    >>> network = Network.from_edges([(0, 1), (1, 2)], name="little path")
    >>> network
    Network('little path', n=3, n_edges=2, self_loops='none')
    >>> network.degree
    array([1, 2, 1])
    >>> network.with_self_loops("counted").degree
    array([2, 3, 2])
    """

    indptr: Ints
    indices: Ints32
    self_loops: str = "none"
    name: str = "network"
    labels: AnyArray | None = None

    def __post_init__(self) -> None:
        checks.choice("self_loops", self.self_loops, SELF_LOOPS)
        for field in ("indptr", "indices", "labels"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, locked(value))

    # ---- building -------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: npt.ArrayLike | Iterable[Any],
        n: int | None = None,
        self_loops: str = "none",
        name: str = "edges",
    ) -> Network:
        """Build a network from pairs of node numbers, in any order and direction.

        Loops, repeated pairs (in either direction) and weights (a third column, of floats) are
        dropped, with a count in a `DataWarning`.

        Parameters
        ----------
        edges : array_like of int, shape (m, 2)
            The pairs.
        n : int, optional
            Number of nodes; by default the largest number plus one.
        self_loops : {"none", "counted"}
            The policy of the network.
        name : str
            The name in reprs and reports.

        Examples
        --------
        >>> Network.from_edges([(0, 1), (1, 2), (2, 0)]).n
        3
        """
        pairs, weights = edge_pairs(edges)
        u, v = pairs[:, 0], pairs[:, 1]
        if n is None:
            n = int(pairs.max(initial=-1)) + 1
            if not pairs.size:
                raise InvalidNetwork(
                    "edges must hold at least one pair of nodes, got none; a walk needs one"
                )
        n = checks.integer("n", n)
        require_range(pairs, n)
        return assemble(n, u, v, self_loops=self_loops, name=name, weights=weights)

    @classmethod
    def from_networkx(
        cls,
        graph: nx.Graph[Any],
        self_loops: str = "none",
        name: str | None = None,
        *,
        directed: str = "symmetrise",
    ) -> Network:
        """Build a network from any networkx graph, read as undirected, simple and unweighted.

        Nodes that are the integers 0..n-1 keep their numbers; others are numbered in the graph's
        order and kept in ``labels``. Loops, parallel edges and weights (edge data ``"weight"``
        other than 1) are dropped, with a count in a `DataWarning`. The arcs of a DiGraph become
        edges in both directions, with a count of those without a reverse; ``directed="error"``
        refuses such a graph.

        Examples
        --------
        >>> import networkx as nx
        >>> Network.from_networkx(nx.path_graph("abc")).labels
        array(['a', 'b', 'c'], dtype='<U1')
        """
        from levywalk.network.graphs import from_networkx

        return from_networkx(graph, self_loops, name, directed)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        self_loops: str = "none",
        name: str = "matrix",
        *,
        directed: str = "symmetrise",
    ) -> Network:
        """Build a network from a square scipy sparse matrix.

        Nodes u and v are joined if the entry (u, v) or the entry (v, u) is not zero.

        Diagonal entries, repeated entries and weights (values other than 1) are dropped, with a
        count. So are directions: entries without a mirror image are counted, unless all entries lie
        on one side of the diagonal; ``directed="error"`` refuses such a matrix.

        Examples
        --------
        >>> from scipy.sparse import coo_array
        >>> Network.from_scipy(coo_array(([1, 1], ([0, 1], [1, 2])), shape=(3, 3))).n_edges
        2
        """
        n, u, v, values = entries(matrix)
        off_diagonal_weight = (values != 1) & (u != v)
        ends = u[off_diagonal_weight], v[off_diagonal_weight]
        # (u, v) and (v, u) count once
        weights = np.unique(pair_keys(np.minimum(*ends), np.maximum(*ends))).size
        return assemble(
            n,
            u,
            v,
            self_loops=self_loops,
            name=name,
            weights=weights,
            meaning="matrix",
            directed=directed,
        )

    def with_self_loops(self, policy: str) -> Network:
        """Return the same network under another self-loop policy, ``"none"`` or ``"counted"``.

        Examples
        --------
        >>> Network.from_edges([(0, 1)]).with_self_loops("counted").indices
        array([0, 1, 0, 1], dtype=int32)
        """
        checks.choice("self_loops", policy, SELF_LOOPS)
        if policy == self.self_loops:
            return self
        u, v = self._upper()
        return from_clean(self.n, u, v, self_loops=policy, name=self.name, labels=self.labels)

    def largest_component(self) -> Network:
        """Return the largest connected component with new node numbers.

        Among components of equal size, it is the one with the smallest node.

        ``labels`` of the result holds the original ids. A connected network is returned as it is.

        Examples
        --------
        >>> two = Network.from_edges([(0, 1), (2, 3), (3, 4)])
        >>> two.largest_component().labels
        array([2, 3, 4])
        """
        if self.components() == 1:
            return self
        member = self._membership
        _, first, size = np.unique(member, return_index=True, return_counts=True)
        largest = np.flatnonzero(size == size.max())
        keep: Bools = member == member[first[largest].min()]
        ids = np.flatnonzero(keep)
        rank = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        indptr = np.concatenate(([0], np.cumsum(self.degree[ids])))
        indices = rank[self.indices[np.repeat(keep, self.degree)]]  # no edge leaves a component
        labels = ids if self.labels is None else self.labels[ids]
        return Network(indptr, indices, self.self_loops, f"{self.name}, largest component", labels)

    # ---- reading -------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.indptr.size - 1

    @cached_property
    def degree(self) -> Ints:
        """Number of neighbours of each node; a loop counts once."""
        return locked(np.diff(self.indptr))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each node: its id in the input, or its number.

        Examples
        --------
        >>> Network.from_edges([(0, 1)]).names
        ('0', '1')
        """
        return tuple(map(str, range(self.n) if self.labels is None else self.labels.tolist()))

    @property
    def given_names(self) -> tuple[str, ...] | None:
        """The names, or None if the input had none and nodes are called by their numbers."""
        return None if self.labels is None else self.names

    def numbers_of(self, names: Iterable[Any]) -> Ints:
        """Return the number of each named node, or -1 where the network has no such node.

        Examples
        --------
        >>> import networkx as nx
        >>> Network.from_networkx(nx.path_graph("abc")).numbers_of(["c", "a", "x"])
        array([ 2,  0, -1])
        """
        number = {name: v for v, name in enumerate(self.names)}
        return np.array([number.get(str(name), -1) for name in names], dtype=np.int64)

    def shown(self, v: int) -> str:
        """Return how messages and reports call node ``v``: its number, and its id if it has one.

        Examples
        --------
        >>> two = Network.from_edges([(0, 1), (2, 3), (3, 4)])
        >>> two.shown(0), two.largest_component().shown(0)
        ('0', "0 ('2')")
        """
        return shown_node(v, self.given_names)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges between distinct nodes."""
        return (self.indices.size - (self.n if self.self_loops == "counted" else 0)) // 2

    def neighbours(self, v: int) -> Ints32:
        """Return the neighbours of node ``v``, ascending; under ``"counted"`` with ``v`` itself.

        Examples
        --------
        >>> Network.from_edges([(0, 1), (1, 2)]).neighbours(1)
        array([0, 2], dtype=int32)
        """
        v = checks.integer("v", v, low=0, high=self.n - 1)
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def components(self) -> int:
        """Return the number of connected components (computed once).

        Examples
        --------
        >>> Network.from_edges([(0, 1), (2, 3)]).components()
        2
        """
        return int(self._membership.max()) + 1

    def require_connected(self) -> None:
        """Raise `NotConnected` unless every node can reach every other.

        Examples
        --------
        >>> Network.from_edges([(0, 1), (2, 3)]).require_connected()
        Traceback (most recent call last):
        levywalk.errors.NotConnected: node 2 cannot be reached from node 0 (2 components); keep ...
        """
        require_sound(self.indptr, self.indices)
        pieces = self.components()
        if pieces > 1:
            v = int(np.argmax(self._membership != self._membership[0]))
            remedy = python_or_command(
                "keep network.largest_component()", "add --largest-component"
            )
            raise NotConnected(
                f"node {self.shown(v)} cannot be reached from node {self.shown(0)} ({pieces} "
                f"components); {remedy}"
            )

    def fingerprint(self) -> str:
        """Return 16 hex digits of the SHA-256 of the structure: equal networks, equal fingerprints.

        Examples
        --------
        >>> Network.from_edges([(0, 1)]).fingerprint() == Network.from_edges([(1, 0)]).fingerprint()
        True
        """
        digest = hashlib.sha256(f"{self.n} {self.self_loops}".encode())
        digest.update(self.indptr.astype("<i8", copy=False).tobytes())
        digest.update(self.indices.astype("<i4", copy=False).tobytes())
        return digest.hexdigest()[:16]

    def to_networkx(self) -> nx.Graph[Any]:
        """Return the networkx graph on 0..n-1, with the loops of ``"counted"``; labels in
        ``"label"``.

        Examples
        --------
        >>> sorted(Network.from_edges([(0, 1), (1, 2)]).to_networkx().edges)
        [(0, 1), (1, 2)]
        """
        with needs("graphs", "Network.to_networkx"):
            import networkx as nx
        graph: nx.Graph[Any] = nx.Graph(name=self.name)
        graph.add_nodes_from(range(self.n))
        u, v = self._upper()
        graph.add_edges_from(zip(u.tolist(), v.tolist(), strict=True))
        if self.self_loops == "counted":
            graph.add_edges_from((v, v) for v in range(self.n))
        if self.labels is not None:
            nx.set_node_attributes(graph, dict(enumerate(self.labels.tolist())), "label")
        return graph

    @cached_property
    def _membership(self) -> Ints32:
        """The number of each node's component."""
        return locked(component_numbers(self.indptr, self.indices))

    def _upper(self) -> tuple[Ints32, Ints32]:
        """Return each edge between distinct nodes once, as (smaller, larger)."""
        rows = np.repeat(np.arange(self.n, dtype=np.int32), self.degree)
        once = rows < self.indices
        return rows[once], self.indices[once]

    def __repr__(self) -> str:
        return (
            f"Network({self.name!r}, n={self.n}, n_edges={self.n_edges}, "
            f"self_loops={self.self_loops!r})"
        )

    def _repr_html_(self) -> str:
        low, high = int(self.degree.min()), int(self.degree.max())
        rows: list[tuple[str, object]] = [
            ("nodes", self.n),
            ("edges", self.n_edges),
            ("degrees", f"{low} to {high}, {self.degree.mean():.3g} on average"),
            ("connected", self.components() == 1),
            ("self-loops", self.self_loops),
        ]
        if self.given_names is not None:
            more = ", …" if self.n > 5 else ""
            rows.append(("names", ", ".join(self.given_names[:5]) + more))
        return table_html(rows, f"Network {self.name}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return (
            self.self_loops == other.self_loops
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def __hash__(self) -> int:
        return hash((self.n, self.n_edges, self.self_loops))

    def __reduce__(self) -> tuple[Any, ...]:
        # through the constructor, so that a copy in another process is read-only too
        return Network, (self.indptr, self.indices, self.self_loops, self.name, self.labels)


def from_clean(
    n: int, u: IntArray, v: IntArray, *, self_loops: str, name: str, labels: AnyArray | None = None
) -> Network:
    """Build a network from edges that are in range, without loops and without repetitions.

    Examples
    --------
    >>> from_clean(3, np.array([0, 1]), np.array([1, 2]), self_loops="none", name="path(3)")
    Network('path(3)', n=3, n_edges=2, self_loops='none')
    """
    checks.choice("self_loops", self_loops, SELF_LOOPS)
    require_some(n, u.size, name)
    indptr, indices = symmetric_csr(n, u, v, loops=self_loops == "counted")
    return Network(indptr, indices, self_loops, name, labels)


def assemble(
    n: int,
    u: Ints,
    v: Ints,
    *,
    self_loops: str,
    name: str,
    labels: AnyArray | None = None,
    weights: int = 0,
    meaning: str = "pairs",
    directed: str = "symmetrise",
) -> Network:
    """Clean the edges, report in one warning what was dropped, and build the network.

    ``meaning`` says what the pairs are (see `levywalk.network.direction`).
    """
    checks.choice("directed", directed, DIRECTED)
    loop = u == v
    loops = int(loop.sum())
    # a loop at every node is what "counted" keeps, so nothing is lost
    kept = self_loops == "counted" and loops == n and np.unique(u[loop]).size == n
    if loops:
        u, v = u[~loop], v[~loop]
    sentence, distinct = judge_direction(meaning, u, v)
    if sentence and directed == "error":
        refuse_directed(name, sentence)
    network = from_clean(n, u, v, self_loops=self_loops, name=name, labels=labels)
    repeated = u.size - (network.n_edges if distinct is None else distinct)
    warn_dropped(name, 0 if kept else loops, repeated, weights, sentence)
    return network
