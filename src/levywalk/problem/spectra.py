"""Extreme eigenvalues of every node's mean of a aᵀ.

Smoothness and strong convexity are computed from them.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidData
from levywalk.problem.samples import row_blocks
from levywalk.problem.sparse_features import (
    is_sparse,
    sparse_gram_extremes,
    sparse_row_squares,
)
from levywalk.remedy import python_or_command

# A node's curvature below is zero for float64: its importance weight would overflow.
_SMALLEST, _LARGEST = 1e-300, 1e300
_BATCH = 1 << 21  # entries gathered at once: 16 MiB
_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # times dim: relative rounding error
_BUFFER = 8192  # numbers that einsum sums at once


def row_squares(features: Floats) -> Floats:
    """Return ‖a‖² of every row, without a temporary array as large as the data.

    The result of a row does not depend on the other rows, to the bit.

    Examples
    --------
    >>> row_squares(np.array([[3.0, 4.0]]))
    array([25.])
    """
    if (
        features.shape[1] > _BUFFER
    ):  # a long row is summed in pieces, which begin where the row before has ended
        return np.array([np.einsum("j,j->", row, row) for row in features])
    squares: Floats = np.einsum("ij,ij->i", features, features)
    return squares


def node_traces(features: Floats, offsets: Ints) -> Floats:
    """Return the trace of every node's mean of a aᵀ; it is zero if a node has no curvature.

    Examples
    --------
    >>> node_traces(np.array([[1.0], [3.0], [2.0]]), np.array([0, 2, 3]))
    array([5., 4.])
    """
    squares = sparse_row_squares(features) if is_sparse(features) else row_squares(features)
    if len(squares) == len(offsets) - 1:
        return squares
    sums: Floats = np.add.reduceat(squares, offsets[:-1])
    return sums / np.diff(offsets)


def check_curvature(features: Floats, offsets: Ints, ridge: float, holders: Ints | None) -> None:
    """Refuse features that are too large to be squared, and a node that has only zeros.

    ``holders`` are the numbers of the nodes in the network, if they differ.
    """
    with np.errstate(over="ignore"):
        traces = node_traces(features, offsets)
    small = traces < _LARGEST
    v = int(np.argmin(small))
    if not small.all():
        raise InvalidData(
            f"features of node {v if holders is None else int(holders[v])} are too large to be "
            f"squared in float64; rescale them{python_or_command('', ' with --standardise')}"
        )
    some = traces > _SMALLEST
    v = int(np.argmin(some))
    if ridge < _SMALLEST and not some.all():
        raise InvalidData(
            f"node {v if holders is None else int(holders[v])} has only zero features: its "
            "smoothness is 0, importance sampling is impossible; "
            f"drop its samples or give {python_or_command('a ridge above 0', '--ridge 0.01')}"
        )


def gram_extremes(features: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return the largest and the smallest eigenvalue of every node's mean of a aᵀ (dim x dim).

    Nodes with the same number of samples are solved together, with the smaller of the two Gram
    matrices. The smallest eigenvalue is exactly 0 where the node's samples do not span the space.

    Examples
    --------
    >>> gram_extremes(np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]]), np.array([0, 2, 3]))
    (array([8., 2.]), array([2., 0.]))
    """
    if is_sparse(features):
        return sparse_gram_extremes(features, offsets)
    n, dim = len(offsets) - 1, features.shape[1]
    if len(features) == n:  # the paper's case of one sample per node needs no grouping
        squares = row_squares(features)
        return squares, squares if dim == 1 else np.zeros(n)
    largest, smallest = np.empty(n), np.zeros(n)
    counts = np.diff(offsets)
    for count in np.unique(counts):
        nodes = np.flatnonzero(counts == count)
        if count == 1:
            largest[nodes] = row_squares(features[offsets[nodes]])
            if dim == 1:
                smallest[nodes] = largest[nodes]
            continue
        size = max(1, _BATCH // (int(count) * dim))
        for start in range(0, len(nodes), size):
            batch = nodes[start : start + size]
            eigenvalues = _batch_eigenvalues(features, offsets[batch], int(count))
            largest[batch] = eigenvalues[:, -1]
            if count >= dim:
                low = eigenvalues[:, 0]
                smallest[batch] = np.where(low > _ROUNDING * dim * eigenvalues[:, -1], low, 0.0)
    return largest, smallest


def _batch_eigenvalues(features: Floats, starts: Ints, count: int) -> Floats:
    dim = features.shape[1]
    if len(starts) == 1:  # a large node: use a view instead of a copy
        stack = features[None, int(starts[0]) : int(starts[0]) + count]
    else:
        stack = features[starts[:, None] + np.arange(count)]
    sides = stack.transpose(0, 2, 1)
    gram = stack @ sides if count < dim else sides @ stack
    return np.asarray(np.linalg.eigvalsh(gram / count), dtype=np.float64)


def column_squares(features: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of squares of every column, or 1 for a column of zeros.

    Examples
    --------
    >>> column_squares(np.array([[1.0, 0.0], [2.0, 0.0]]), np.ones(2))
    array([5., 1.])
    """
    total = np.zeros(features.shape[1])
    for rows in row_blocks(*features.shape):
        total += weights[rows] @ np.square(features[rows])
    return np.where(total > 0.0, total, 1.0)
