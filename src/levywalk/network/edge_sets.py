"""Sets of edges that the families of networks are made of: all pairs, and random ones.

Each random set has the law of the networkx generator of the same family.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np

from levywalk.arrays import Bools, Ints
from levywalk.network.csr import distinct_sorted, pair_keys


def pair_of_index(n: int, index: Ints) -> tuple[Ints, Ints]:
    """Return the pairs u < v at the given positions of the list (0, 1), (0, 2), ..., (n-2, n-1)."""
    rows = np.arange(n - 1, dtype=np.int64)
    start = rows * (2 * n - rows - 1) // 2  # where row u begins
    u = np.searchsorted(start, index, side="right") - 1
    return u, index - start[u] + u + 1


def all_pairs(n: int) -> tuple[Ints, Ints]:
    """Return every pair u < v of n nodes."""
    return pair_of_index(n, np.arange(n * (n - 1) // 2, dtype=np.int64))


def distinct_pairs(rng: np.random.Generator, n: int, count: int) -> Ints:
    """Return a uniform set of ``count`` distinct pairs, as sorted keys.

    Each round draws only as many pairs as are missing, so there are never too many. Dropping
    surplus pairs from the sorted list would favour nodes with small numbers; here all pairs are
    treated equally.
    """
    keys = np.empty(0, dtype=np.int64)
    while keys.size < count:
        u = rng.integers(n, size=count - keys.size)
        v = rng.integers(n - 1, size=u.size)
        v += v >= u  # uniform over the others
        keys = np.concatenate((keys, pair_keys(np.minimum(u, v), np.maximum(u, v))))
        keys.sort()
        keys = distinct_sorted(keys)
    return keys


def _integers(rng: np.random.Generator, n: int) -> Iterator[int]:
    """Yield an endless sequence of uniform integers below n, drawn in blocks."""
    for size in _block_sizes():
        yield from rng.integers(n, size=size).tolist()


def rewire(rng: np.random.Generator, n: int, half: int, coins: Ints) -> Iterator[tuple[int, int]]:
    """Yield (lattice edge, new end) for the edges in ``coins``, in networkx's order.

    Lattice edge ``(j - 1) * n + u`` joins u and u + j. A new end must differ from u and from u's
    neighbours at that moment: through lattice edges not yet rewired (``gone``) or through new ones
    (``fresh``). If all other nodes are neighbours, the edge is not changed.
    """
    gone = bytearray(n * half)
    fresh: set[int] = set()
    degree = array("i", [2 * half]) * n
    draw = _integers(rng, n)

    def joined(u: int, w: int) -> bool:
        ahead, back = (w - u) % n, (u - w) % n
        if ahead <= half and not gone[(ahead - 1) * n + u]:
            return True
        if back <= half and not gone[(back - 1) * n + w]:
            return True
        return (u * n + w if u < w else w * n + u) in fresh

    for position in coins.tolist():
        j, u = divmod(position, n)
        if degree[u] >= n - 1:
            continue
        w = next(draw)
        while w == u or joined(u, w):
            w = next(draw)
        gone[position] = 1
        fresh.add(u * n + w if u < w else w * n + u)
        degree[(u + j + 1) % n] -= 1
        degree[w] += 1
        yield position, w


def pair_stubs(rng: np.random.Generator, n: int, degree: int) -> Ints | None:
    """Pair shuffled stubs (half-edges), or return None if no simple graph can be completed.

    Pairs that keep the graph simple are kept, and the other stubs are shuffled again.
    """
    edges = np.empty(0, dtype=np.int64)
    stubs = np.tile(np.arange(n, dtype=np.int64), degree)
    while stubs.size:
        rng.shuffle(stubs)
        low, high = np.minimum(stubs[::2], stubs[1::2]), np.maximum(stubs[::2], stubs[1::2])
        keys = pair_keys(low, high)
        keep = (low != high) & ~_contains(edges, keys) & _first_of_equals(keys)
        edges = np.concatenate((edges, keys[keep]))
        edges.sort()
        stubs = np.stack((low[~keep], high[~keep]), axis=1).reshape(-1)
        if stubs.size and not suitable(edges, list(dict.fromkeys(stubs.tolist()))):
            return None
    return edges


def _contains(sorted_keys: Ints, keys: Ints) -> Bools:
    """Whether each key is among the sorted ones."""
    if not sorted_keys.size:
        return np.zeros(keys.size, dtype=np.bool_)
    place = np.minimum(np.searchsorted(sorted_keys, keys), sorted_keys.size - 1)
    found: Bools = sorted_keys[place] == keys
    return found


def _first_of_equals(keys: Ints) -> Bools:
    """Whether each key is the first occurrence of its value.

    Repetitions are rare, so only these are sorted.
    """
    first = np.ones(keys.size, dtype=np.bool_)
    ordered = np.sort(keys)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        places = np.flatnonzero(_contains(distinct_sorted(repeated), keys))
        first[places] = False
        first[places[np.unique(keys[places], return_index=True)[1]]] = True
    return first


def suitable(edges: Ints, nodes: list[int]) -> bool:
    """Whether networkx finds two nodes that can still be joined.

    In networkx, the swap in the inner loop also affects the next iteration. Therefore networkx does
    not check every pair and restarts slightly too often. This influences the distribution of its
    graphs, so it is reproduced here.
    """
    for s1 in nodes:
        for s2 in nodes:
            if s1 == s2:
                break
            if s1 > s2:
                s1, s2 = s2, s1
            if not _contains(edges, np.array([s1 << 32 | s2]))[0]:
                return True
    return False


def attach(rng: np.random.Generator, n: int, m: int) -> Ints:
    """Return the m neighbours that each new node m+1, ..., n-1 chooses, node after node."""
    # Each node occurs once per edge, so a uniform entry is a node drawn in proportion to its
    # degree.
    ends = [0] * m + list(range(1, m + 1))
    chosen: list[int] = []
    uniform = _uniforms(rng)
    for newcomer in range(m + 1, n):
        size = len(ends)
        targets: dict[int, None] = {}  # an ordered set, so that the result depends only on the seed
        while len(targets) < m:
            targets[ends[int(next(uniform) * size)]] = None
        chosen.extend(targets)
        ends.extend(targets)
        ends.extend([newcomer] * m)
    return np.array(chosen, dtype=np.int64)


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Yield an endless sequence of uniform floats in [0, 1), drawn in blocks."""
    for size in _block_sizes():
        yield from rng.random(size).tolist()


def _block_sizes() -> Iterator[int]:
    """Yield how many numbers to draw at once: few for small networks, more for large ones."""
    return chain((1 << i for i in range(6, 16)), repeat(1 << 16))
