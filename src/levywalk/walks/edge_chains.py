"""Chains on directed edges, for walks that remember the previous node.

A state is the directed edge (k, i) from the previous node k to the node i, numbered by its place in
``network.indices``. scipy is imported where it is used: a fleet's node does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.errors import InvalidParameter

if TYPE_CHECKING:
    from levywalk.network import Network

_MOST = 20_000_000  # entries of a matrix


def non_backtracking(network: Network) -> Any:
    """Return the chain of the non-backtracking walk.

    Examples
    --------
    >>> import levywalk as lw
    >>> chain = non_backtracking(lw.ring(4))
    >>> chain.shape, chain.nnz
    ((8, 8), 8)
    """
    source, target, rows, columns = _pairs(network)
    forward = target[columns] != source[rows]
    ways = np.bincount(rows[forward], minlength=len(source))
    keep = forward | (ways[rows] == 0)
    values = np.where(ways[rows] == 0, 1.0, 1.0 / np.maximum(ways[rows], 1))
    return _matrix(values[keep], rows[keep], columns[keep], len(source))


def turning(network: Network, p_turn: float) -> Any:
    """Return the chain of the lifted walk on a ring.

    Examples
    --------
    >>> import levywalk as lw
    >>> turning(lw.ring(4), 0.25).sum(axis=1).tolist() == [1.0] * 8
    True
    """
    source, target, rows, columns = _pairs(network)
    back = target[columns] == source[rows]
    return _matrix(np.where(back, p_turn, 1.0 - p_turn), rows, columns, len(source))


def delayed_acceptance(network: Network, scores: Floats) -> Any:
    """Return the chain of MHDA; the state (k, i) is kept while the model stays at i.

    Examples
    --------
    >>> import levywalk as lw
    >>> chain = delayed_acceptance(lw.grid(2, 3), np.ones(6))
    >>> bool(np.allclose(chain.sum(axis=1), 1.0))
    True
    """
    source, target, rows, columns = _pairs(network)
    degree = network.degree
    ratio = scores / degree
    accept = np.minimum(1.0, ratio[target] / ratio[source])  # A of each directed edge (i, j)
    plain = accept / degree[source]
    back = target[columns] == source[rows]
    others = degree[target[rows]] - 1
    way_back = np.zeros(len(source))  # P(i, k) for each state (k, i)
    way_back[rows[back]] = plain[columns[back]]
    accept_back = np.ones(len(source))
    accept_back[rows[back]] = accept[columns[back]]
    squared = np.minimum(1.0, (accept[columns] / accept_back[rows]) ** 2)
    delayed = way_back[rows] * squared / np.maximum(others, 1)
    values = np.where(back, 0.0, plain[columns] + delayed)
    taken = np.bincount(rows, np.where(back, 0.0, delayed), minlength=len(source))
    values[back] = np.maximum(way_back - taken, 0.0)[rows[back]]
    stay = 1.0 - np.bincount(rows, plain[columns], minlength=len(source))
    states = np.arange(len(source))
    return _matrix(
        np.concatenate([values, np.maximum(stay, 0.0)]),
        np.concatenate([rows, states]),
        np.concatenate([columns, states]),
        len(source),
    )


def _pairs(network: Network) -> tuple[Ints, Ints, Ints, Ints]:
    """Return source and target of each directed edge, and all pairs (k, i), (i, j) of edges."""
    if network.self_loops != "none":
        raise InvalidParameter("chains on directed edges need a network with self_loops = 'none'")
    target = network.indices.astype(np.int64)
    source = np.repeat(np.arange(network.n), network.degree)
    counts = network.degree[target].astype(np.int64)
    if counts.sum() > _MOST:
        raise InvalidParameter(
            f"the chain on directed edges would have {int(counts.sum()):,} entries, more than the "
            f"limit of {_MOST:,}; use a smaller network"
        )
    rows = np.repeat(np.arange(len(target)), counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    columns = np.arange(len(rows)) - first[rows] + network.indptr[target[rows]]
    return source, target, rows, columns


def _matrix(values: AnyArray, rows: AnyArray, columns: AnyArray, size: int) -> Any:
    from scipy import sparse

    matrix = sparse.csr_array((values, (rows, columns)), shape=(size, size))
    matrix.eliminate_zeros()
    return matrix
