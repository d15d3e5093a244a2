"""Families of networks, with the node numbers that networkx uses.

Random families have the same distribution as those of networkx.

Parts that cannot be vectorised (rewiring, attachment) loop over the random choices only, and these
are drawn in large blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levywalk import checks
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidParameter
from levywalk.network.csr import MAX_ENTRIES, require_size
from levywalk.network.edge_sets import (
    all_pairs,
    attach,
    distinct_pairs,
    pair_of_index,
    pair_stubs,
    rewire,
)
from levywalk.network.network import SELF_LOOPS, Network, from_clean
from levywalk.registry import registered
from levywalk.room import require_bytes

_DENSE = 0.1  # above this density, one random number per pair is faster than drawing distinct pairs


@registered("network")
def ring(n: int, *, self_loops: str = "none") -> Network:
    """Return the cycle 0-1-...-(n-1)-0.

    Examples
    --------
    >>> ring(5).neighbours(0)
    array([1, 4], dtype=int32)
    """
    n = checks.integer("n", n, low=3, high=MAX_ENTRIES)
    require_size(n, 2 * n)
    v = np.arange(n, dtype=np.int32)
    return from_clean(n, v, np.roll(v, -1), self_loops=self_loops, name=f"ring({n})")


@registered("network")
def path(n: int, *, self_loops: str = "none") -> Network:
    """Return the line 0-1-...-(n-1).

    Examples
    --------
    >>> path(4).degree
    array([1, 2, 2, 1])
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    require_size(n, 2 * n)
    v = np.arange(n, dtype=np.int32)
    return from_clean(n, v[:-1], v[1:], self_loops=self_loops, name=f"path({n})")


@registered("network")
def grid(rows: int, cols: int, *, self_loops: str = "none") -> Network:
    """Return the rows x cols lattice; row r, column c is node ``r * cols + c``.

    Examples
    --------
    >>> grid(2, 3).neighbours(1)
    array([0, 2, 4], dtype=int32)
    """
    return _lattice("grid", rows, cols, self_loops, wrap=False)


@registered("network")
def torus(rows: int, cols: int, *, self_loops: str = "none") -> Network:
    """Return the rows x cols lattice with periodic boundaries (for sides of more than two nodes).

    Examples
    --------
    >>> torus(3, 4).degree.min()
    np.int64(4)
    """
    return _lattice("torus", rows, cols, self_loops, wrap=True)


@registered("network")
def complete(n: int, *, self_loops: str = "none") -> Network:
    """Return the complete graph: every pair of nodes is joined.

    Examples
    --------
    >>> complete(4).neighbours(2)
    array([0, 1, 3], dtype=int32)
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    counted = checks.choice("self_loops", self_loops, SELF_LOOPS) == "counted"
    width = n if counted else n - 1
    require_size(n, n * width)
    row = np.arange(n, dtype=np.int32)[:, None]
    column = np.arange(width, dtype=np.int32)
    indices = np.broadcast_to(column, (n, width)) if counted else column + (column >= row)
    indptr = np.arange(n + 1, dtype=np.int64) * width
    return Network(
        indptr, indices.astype(np.int32, copy=False).reshape(-1), self_loops, f"complete({n})"
    )


@registered("network")
def star(n: int, *, self_loops: str = "none") -> Network:
    """Return a star of n nodes: node 0 is the centre and is joined to all others.

    Examples
    --------
    >>> star(4).degree
    array([3, 1, 1, 1])
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    require_size(n, 2 * n)
    leaf = np.arange(1, n, dtype=np.int32)
    return from_clean(n, np.zeros_like(leaf), leaf, self_loops=self_loops, name=f"star({n})")


@registered("network")
def barbell(m: int, bridge: int, *, self_loops: str = "none") -> Network:
    """Return two complete graphs of m nodes joined by a path of ``bridge`` further nodes.

    Examples
    --------
    >>> barbell(3, 1).neighbours(3)
    array([2, 4], dtype=int32)
    """
    m = checks.integer("m", m, low=2)
    bridge = checks.integer("bridge", bridge, low=0)
    n = 2 * m + bridge
    require_size(n, 2 * m * m + 2 * bridge)
    u, v = all_pairs(m)
    link = np.arange(m - 1, m + bridge, dtype=np.int64)
    right = m + bridge
    return from_clean(
        n,
        np.concatenate((u, link, u + right)),
        np.concatenate((v, link + 1, v + right)),
        self_loops=self_loops,
        name=f"barbell({m}, {bridge})",
    )


@registered("network")
def erdos_renyi(n: int, p: float, *, seed: int = 0, self_loops: str = "none") -> Network:
    """Return the random graph in which each pair of n nodes is joined with probability p.

    The pairs are independent. The graph may be disconnected; see `Network.largest_component`.

    Examples
    --------
    >>> erdos_renyi(1000, 0.01, seed=1)
    Network('erdos_renyi(1000, 0.01)', n=1000, n_edges=..., self_loops='none')
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    p = checks.probability("p", p)
    rng = generator(checks.seed(seed), Domain.NETWORK)
    pairs = n * (n - 1) // 2
    require_size(n, int(2 * p * pairs))
    if p > _DENSE:
        require_bytes(
            f"one random number for each of {pairs} pairs", 9 * pairs, "choose a smaller n or p"
        )
        u, v = pair_of_index(n, np.flatnonzero(rng.random(pairs) < p))
    else:
        keys = distinct_pairs(rng, n, int(rng.binomial(pairs, p)))
        u, v = keys >> 32, keys & 0xFFFFFFFF
    return from_clean(n, u, v, self_loops=self_loops, name=f"erdos_renyi({n}, {p:g})")


@registered("network")
def watts_strogatz(n: int, k: int, p: float, *, seed: int = 0, self_loops: str = "none") -> Network:
    """Return a small-world network: a ring lattice whose edges are rewired with probability p.

    In the lattice each node is joined to its ``k // 2`` nearest nodes on either side.

    Examples
    --------
    >>> watts_strogatz(1000, 4, 0.1).n_edges
    2000
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    k = checks.integer("k", k, low=2)
    p = checks.probability("p", p)
    if k > n:
        raise InvalidParameter(
            f"k must be at most n = {n}, got {k}; choose a smaller k or a larger n"
        )
    rng = generator(checks.seed(seed), Domain.NETWORK)
    name = f"watts_strogatz({n}, {k}, {p:g})"
    if k == n:  # as in networkx: the graph is complete, and no edge can be rewired
        whole = complete(n, self_loops=self_loops)
        return Network(whole.indptr, whole.indices, self_loops, name)
    half = k // 2
    require_size(n, 2 * n * half)
    u = np.tile(np.arange(n, dtype=np.int32), half)
    v = np.concatenate([np.roll(u[:n], -j) for j in range(1, half + 1)])
    coins = np.flatnonzero(rng.random(n * half) < p)
    for position, target in rewire(rng, n, half, coins):
        v[position] = target
    return from_clean(n, u, v, self_loops=self_loops, name=name)


@registered("network")
def random_regular(n: int, degree: int, *, seed: int = 0, self_loops: str = "none") -> Network:
    """Return a random network in which every node has ``degree`` neighbours.

    Examples
    --------
    >>> set(random_regular(100, 3).degree.tolist())
    {3}
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    degree = checks.integer("degree", degree, low=1)
    if degree >= n:
        raise InvalidParameter(
            f"degree must be below n = {n}, got {degree}; choose a smaller degree"
        )
    if n * degree % 2:
        raise InvalidParameter(
            f"n * degree must be even, got {n} * {degree}; change one of them by 1"
        )
    rng = generator(checks.seed(seed), Domain.NETWORK)
    name = f"random_regular({n}, {degree})"
    if degree == n - 1:  # there is only one such graph, and random pairing would rarely find it
        whole = complete(n, self_loops=self_loops)
        return Network(whole.indptr, whole.indices, self_loops, name)
    require_size(n, n * degree)
    keys = None
    while keys is None:
        keys = pair_stubs(rng, n, degree)
    return from_clean(n, keys >> 32, keys & 0xFFFFFFFF, self_loops=self_loops, name=name)


@registered("network")
def barabasi_albert(n: int, m: int, *, seed: int = 0, self_loops: str = "none") -> Network:
    """Return a network that grows from a star of m + 1 nodes by preferential attachment.

    Each new node is joined to m others, which are chosen in proportion to their degree.

    Examples
    --------
    >>> barabasi_albert(1000, 2).n_edges
    1996
    """
    n = checks.integer("n", n, low=2, high=MAX_ENTRIES)
    m = checks.integer("m", m, low=1)
    if m >= n:
        raise InvalidParameter(
            f"m must be below n = {n}, got {m}; choose a smaller m or a larger n"
        )
    rng = generator(checks.seed(seed), Domain.NETWORK)
    require_size(n, 2 * n * m)
    ends = attach(rng, n, m)
    newcomer = np.repeat(np.arange(m + 1, n), m)
    u = np.concatenate((np.zeros(m, dtype=np.int64), newcomer))
    v = np.concatenate((np.arange(1, m + 1), ends))
    return from_clean(n, u, v, self_loops=self_loops, name=f"barabasi_albert({n}, {m})")


# ---- deterministic parts -------------------------------------------------------------


def _lattice(name: str, rows: int, cols: int, self_loops: str, *, wrap: bool) -> Network:
    rows = checks.integer("rows", rows, low=1)
    cols = checks.integer("cols", cols, low=1)
    n = rows * cols
    if n < 2:
        raise InvalidParameter(
            f"rows * cols must be at least 2, got {rows} * {cols}; choose a larger grid"
        )
    require_size(n, 4 * n)
    node = np.arange(n, dtype=np.int32).reshape(rows, cols)
    ends = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if wrap and cols > 2:  # a side of two nodes already has this edge
        ends.append((node[:, -1], node[:, 0]))
    if wrap and rows > 2:
        ends.append((node[-1], node[0]))
    u = np.concatenate([a.reshape(-1) for a, _ in ends])
    v = np.concatenate([b.reshape(-1) for _, b in ends])
    return from_clean(n, u, v, self_loops=self_loops, name=f"{name}({rows}, {cols})")


FAMILIES: dict[str, Callable[..., Network]] = {
    make.__name__: make
    for make in (
        ring,
        path,
        grid,
        torus,
        complete,
        star,
        barbell,
        erdos_renyi,
        watts_strogatz,
        random_regular,
        barabasi_albert,
    )
}
