"""Compressed sparse rows (CSR): made from edges, checked, and divided into components.

Edges become 64-bit keys ``u << 32 | v``, which are sorted once; this needs no division and no
Python objects.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from levywalk.arrays import Ints, Ints32
from levywalk.errors import InvalidNetwork, TooLarge
from levywalk.room import require_bytes

IntArray = npt.NDArray[np.integer[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)

MAX_ENTRIES = 2**31 - 1  # node ids are int32, and scipy's graph routines count entries in int32 too
_SHIFT = 32
# What building a network takes at its peak: above the peaks that were measured for eight families
# at two sizes each, of which attachment and random regular networks take the most for an entry.
_NODE_BYTES, _ENTRY_BYTES = 16, 34
_LOOP = (1 << _SHIFT) + 1  # v * _LOOP is the key of the loop at v


def require_size(n: int, entries: int) -> None:
    """Refuse a network that is too large for 32-bit ids or for the memory, before anything is
    allocated.

    Examples
    --------
    >>> require_size(10, 20)
    >>> require_size(10**10, 20)
    Traceback (most recent call last):
    levywalk.errors.TooLarge: a network holds at most 2147483647 nodes and
        adjacency entries, got ...
    """
    if max(n, entries) > MAX_ENTRIES:
        raise TooLarge(
            f"a network holds at most {MAX_ENTRIES} nodes and adjacency entries, "
            f"got {n} nodes and {entries} entries; take a smaller or sparser network"
        )
    require_bytes(
        f"a network of {n} nodes and {entries} adjacency entries",
        _NODE_BYTES * n + _ENTRY_BYTES * entries,
        "take a smaller or sparser network",
    )


def pair_keys(u: IntArray, v: IntArray, out: Ints | None = None) -> Ints:
    """Return ``u << 32 | v``: keys whose order is the order of rows, then columns.

    Examples
    --------
    >>> pair_keys(np.array([0, 1]), np.array([3, 2]))
    array([         3, 4294967298])
    """
    keys = np.left_shift(u, _SHIFT, out=out, dtype=np.int64, casting="unsafe")
    return np.bitwise_or(keys, v, out=keys, dtype=np.int64, casting="unsafe")


def distinct_sorted(keys: Ints) -> Ints:
    """Return sorted keys without repetitions.

    Examples
    --------
    >>> distinct_sorted(np.array([1, 1, 2, 5, 5]))
    array([1, 2, 5])
    """
    first = np.ones(keys.size, dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def symmetric_csr(n: int, u: IntArray, v: IntArray, *, loops: bool) -> tuple[Ints, Ints32]:
    """Return (indptr, indices) of the undirected simple graph with edges (u, v), rows sorted.

    ``u`` and ``v`` differ elementwise and lie in [0, n); an edge that is given several times, in
    either direction, is kept once. With ``loops`` every node gets one loop.

    Examples
    --------
    >>> symmetric_csr(3, np.array([2, 1, 0]), np.array([1, 2, 1]), loops=False)
    (array([0, 1, 3, 4]), array([1, 0, 2, 1], dtype=int32))
    """
    m = u.size
    size = 2 * m + (n if loops else 0)
    require_size(n, size)
    keys = np.empty(size, dtype=np.int64)
    pair_keys(u, v, out=keys[:m])
    pair_keys(v, u, out=keys[m : 2 * m])
    if loops:
        keys[2 * m :] = np.arange(n, dtype=np.int64) * _LOOP
    keys.sort()
    return _compress(n, distinct_sorted(keys))


def _compress(n: int, keys: Ints) -> tuple[Ints, Ints32]:
    """Split sorted keys into row pointers and columns; the array of keys is overwritten."""
    indices = keys.astype(np.int32)  # keeps the low 32 bits, the column
    keys >>= _SHIFT
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=n), out=indptr[1:])
    return indptr, indices


def require_sound(indptr: Ints, indices: Ints32) -> None:
    """Refuse arrays that are not valid compressed sparse rows.

    The constructor of `Network` does not check them, and compiled code relies on them.

    Examples
    --------
    >>> require_sound(np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32))
    """
    sound = (
        indptr.dtype == np.int64
        and indices.dtype == np.int32
        and indptr.ndim == indices.ndim == 1
        and len(indptr) > 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((np.diff(indptr) >= 0).all())
        and (not len(indices) or (int(indices.min()) >= 0 and int(indices.max()) < len(indptr) - 1))
    )
    if not sound:
        raise InvalidNetwork(
            "indptr and indices must be compressed rows of a graph (int64 and int32, "
            "neighbours in [0, n)); "
            "build the network with Network.from_edges or Network.from_scipy, which check them"
        )


def component_numbers(indptr: Ints, indices: Ints32) -> Ints32:
    """Return the number of each node's component.

    Examples
    --------
    >>> numbers = component_numbers(np.array([0, 1, 2, 2]), np.array([1, 0], dtype=np.int32))
    >>> bool(numbers[0] == numbers[1]), bool(numbers[0] == numbers[2])
    (True, False)
    """
    n = indptr.size - 1
    weight = np.ones(indices.size, dtype=np.int8)
    # scipy checks and copies indices that are not int32; the entries fit (`require_size`)
    matrix = sparse.csr_array((weight, indices, indptr.astype(np.int32)), shape=(n, n))
    # "strong" needs no transpose, and in a symmetric matrix strongly connected is connected
    _, member = csgraph.connected_components(matrix, directed=True, connection="strong")
    numbers: Ints32 = member
    return numbers


def locked(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return a read-only view."""
    view = array.view()
    view.setflags(write=False)
    return view
