"""Check graphs that users pass in, convert them to arrays, and say what was dropped."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from levywalk.arrays import AnyArray, Ints
from levywalk.errors import DataWarning, InvalidNetwork
from levywalk.network.csr import require_size
from levywalk.network.sparse_entries import entries_of_matrix
from levywalk.room import text_array


def edge_pairs(edges: npt.ArrayLike | Iterable[Any]) -> tuple[Ints, int]:
    """Return edges as an (m, 2) array of int64, and how many weights other than 1 they had in a
    third column; raise an error if they are not valid.
    """
    wanted = "edges must be pairs of node numbers, an integer array of shape (m, 2)"
    try:
        sized = hasattr(edges, "__array__") or hasattr(edges, "__len__")
        raw = np.asarray(edges if sized else list(cast("Iterable[Any]", edges)))
    except (TypeError, ValueError) as error:
        raise InvalidNetwork(f"{wanted}, got {type(edges).__name__}: {error}") from None
    if raw.size == 0:
        return np.empty((0, 2), dtype=np.int64), 0
    weighted = raw.ndim == 2 and raw.shape[1] == 3 and raw.dtype.kind == "f"  # else neighbours?
    if raw.ndim != 2 or (raw.shape[1] != 2 and not weighted):
        wide = raw.ndim == 2 and raw.shape[1] > 2
        remedy = (
            "keep the first two columns, weights are not used"
            if wide
            else "write [(0, 1), (1, 2), ...]"
        )
        raise InvalidNetwork(f"{wanted}, got shape {raw.shape}; {remedy}")
    weights = 0
    if weighted:
        weights = sum(not is_one(weight) for weight in raw[:, 2].tolist())
        raw = raw[:, :2]
        if (raw == np.floor(raw)).all() and abs(raw).max() < 2**53:
            raw = raw.astype(np.int64)  # they are floats only because the weights are
    if raw.dtype.kind not in "iu":
        raise InvalidNetwork(
            f"{wanted}, got {raw.dtype} such as {raw[0].tolist()}; number the nodes 0..n-1 "
            "(names: Network.from_networkx or read_network)"
        )
    if raw.dtype.kind == "u" and raw.max() > np.iinfo(np.int64).max:
        raise InvalidNetwork(
            f"{wanted}, got node {raw.max()}, which does not fit in 64 signed bits"
        )
    return raw.astype(np.int64, copy=False), weights


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
    rows, columns, values = entries_of_matrix(matrix)
    finite = np.isfinite(values)
    if not finite.all():
        raise InvalidNetwork(
            f"matrix must hold finite numbers, got {int((~finite).sum())} that are NaN or "
            "infinite; pass 1 for an edge and 0 for none"
        )
    stored = values != 0
    return matrix.shape[0], rows[stored], columns[stored], values[stored]


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
        labels = text_array("the names of the nodes", nodes) if str in kinds else np.array(nodes)
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


def warn_dropped(name: str, loops: int, repeated: int, weights: int, sentence: str) -> None:
    """Warn once about parts of the input that a simple unweighted graph cannot contain."""
    counts = ((loops, "self-loop"), (repeated, "duplicate edge"), (weights, "weight"))
    dropped = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
    said = [f"dropped {', '.join(dropped)}"] if dropped else []
    said += [f"{sentence}: read as undirected"] if sentence else []
    if said:
        text = f"{name}: {'; '.join(said)}; a network is undirected, simple and unweighted"
        warnings.warn(text, DataWarning, stacklevel=4)


def require_some(n: int, edges: int, name: str) -> None:
    """Refuse a network on which no model can walk."""
    require_size(n, 2 * edges)
    if n < 2:
        raise InvalidNetwork(
            f"a network needs at least 2 nodes, got {n}; one node alone is ordinary SGD"
        )
    if edges == 0:
        raise InvalidNetwork(
            f"{name}: a network needs at least one edge between distinct nodes, got none among {n} "
            "nodes; "
            "add edges (a self-loop does not lead to another node)"
        )
