"""Check graphs that users pass in, and convert them to arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from levywalk.arrays import AnyArray, Ints
from levywalk.errors import InvalidNetwork


def edge_pairs(edges: npt.ArrayLike | Iterable[Any]) -> Ints:
    """Return edges as an (m, 2) array of int64; raise an error if they are not valid."""
    wanted = "edges must be pairs of node numbers, an integer array of shape (m, 2)"
    try:
        sized = hasattr(edges, "__array__") or hasattr(edges, "__len__")
        raw = np.asarray(edges if sized else list(cast("Iterable[Any]", edges)))
    except (TypeError, ValueError) as error:
        raise InvalidNetwork(f"{wanted}, got {type(edges).__name__}: {error}") from None
    if raw.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if raw.ndim != 2 or raw.shape[1] != 2:
        wide = raw.ndim == 2 and raw.shape[1] > 2
        remedy = (
            "keep the first two columns, weights are not used"
            if wide
            else "write [(0, 1), (1, 2), ...]"
        )
        raise InvalidNetwork(f"{wanted}, got shape {raw.shape}; {remedy}")
    if raw.dtype.kind not in "iu":
        raise InvalidNetwork(
            f"{wanted}, got {raw.dtype} such as {raw[0].tolist()}; number the nodes 0..n-1 "
            "(names: Network.from_networkx or read_network)"
        )
    if raw.dtype.kind == "u" and raw.max() > np.iinfo(np.int64).max:
        raise InvalidNetwork(
            f"{wanted}, got node {raw.max()}, which does not fit in 64 signed bits"
        )
    return raw.astype(np.int64, copy=False)


def require_range(pairs: Ints, n: int) -> None:
    """Name the first edge with a node outside [0, n)."""
    if not pairs.size or (pairs.min() >= 0 and pairs.max() < n):
        return
    row = int(np.argmax(((pairs < 0) | (pairs >= n)).any(axis=1)))
    edge = tuple(pairs[row].tolist())
    raise InvalidNetwork(
        f"edges must join nodes in [0, {n}), got {edge} at edge {row}; raise n or number the nodes "
        "from 0"
    )


def entries(matrix: Any) -> tuple[int, Ints, Ints, AnyArray]:
    """Return (n, rows, columns, values) of the entries that are not zero."""
    is_sparse: bool = sparse.issparse(
        matrix
    )  # stored as a bool, since mypy would narrow to a class without shape
    if not is_sparse:
        raise InvalidNetwork(
            f"matrix must be a scipy sparse matrix, got {type(matrix).__name__}; "
            "wrap it in scipy.sparse.csr_array(matrix)"
        )
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidNetwork(
            f"matrix must be square (u, v: the edge u-v), got shape {matrix.shape}"
        )
    if matrix.dtype.kind not in "biuf":
        raise InvalidNetwork(
            f"matrix must hold real numbers or booleans, got {matrix.dtype}; pass != 0"
        )
    if hasattr(matrix, "check_format"):
        try:
            # With an index out of range, scipy would read outside its arrays.
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidNetwork(f"matrix is not a valid {matrix.format} matrix: {error}") from None
    coo = matrix.tocoo()
    if not np.isfinite(coo.data).all():
        strange = int((~np.isfinite(coo.data)).sum())
        raise InvalidNetwork(
            f"matrix must hold finite numbers, got {strange} that are NaN or infinite; "
            "pass 1 for an edge and 0 for none"
        )
    stored = coo.data != 0
    rows, columns = coo.row[stored].astype(np.int64), coo.col[stored].astype(np.int64)
    return matrix.shape[0], rows, columns, coo.data[stored]


def are_numbers(nodes: list[Any]) -> bool:
    """Whether the nodes are the integers 0..n-1, in any order."""
    n = len(nodes)
    return all(
        isinstance(v, (int, np.integer)) and not isinstance(v, bool) and 0 <= v < n for v in nodes
    )


def label_array(nodes: list[Any]) -> AnyArray:
    """Return the ids as an array of integers or of text if possible, otherwise of objects."""
    kinds = {type(v) for v in nodes}
    if kinds <= {int} or kinds <= {str}:
        labels = np.array(nodes)
        if labels.dtype.kind in "iU":
            return labels
    labels = np.empty(len(nodes), dtype=object)
    labels[:] = nodes
    return labels


def is_one(weight: Any) -> bool:
    """Whether an edge's weight is 1, so that dropping it loses no information."""
    try:
        return bool(operator.eq(weight, 1))
    except (TypeError, ValueError):
        return False
