"""The weighted data as a small triangular matrix, for rank, null space and least squares.

A QR factorisation of the samples, computed block by block, needs one pass over the data and the
memory of one block. It is as accurate as a factorisation of all samples at once; the normal
equations would square the condition number.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.samples import row_blocks

_RANK = 1e-13  # smaller relative singular values (columns of equal norm) count as 0


def triangle(features: Floats, targets: Floats, weights: Floats) -> Floats:
    """Return R of the QR factorisation of the rows √w (a, y): at most dim + 1 rows.

    Examples
    --------
    >>> factor = triangle(np.array([[3.0], [4.0]]), np.array([3.0, 4.0]), np.ones(2))
    >>> np.abs(factor).round(12)
    array([[5., 5.],
           [0., 0.]])
    """
    samples, dim = features.shape
    factor = np.empty((0, dim + 1))
    for rows in row_blocks(samples, dim + 1):
        root = np.sqrt(weights[rows])
        block = np.empty((len(factor) + len(root), dim + 1))
        block[: len(factor)] = factor
        np.multiply(features[rows], root[:, None], out=block[len(factor) :, :-1])
        np.multiply(targets[rows], root, out=block[len(factor) :, -1])
        factor = np.asarray(np.linalg.qr(block, mode="r"))
    return factor


def solve(factor: Floats, ridge: float) -> tuple[Floats, bool]:
    """Return the least-norm minimiser of Σ w (y - aᵀx)² + (ridge/2)‖x‖², and whether it is unique.

    Examples
    --------
    >>> solve(np.array([[2.0, 6.0]]), ridge=0.0)
    (array([3.]), True)
    >>> solve(np.array([[1.0, 1.0, 2.0]]), ridge=0.0)
    (array([1., 1.]), False)
    """
    matrix, right = factor[:, :-1], factor[:, -1]
    dim = matrix.shape[1]
    if ridge > 0.0:
        matrix = np.vstack([matrix, np.sqrt(0.5 * ridge) * np.eye(dim)])
        right = np.concatenate([right, np.zeros(dim)])
    scale = _column_scale(matrix)
    u, s, vt = np.linalg.svd(matrix / scale, full_matrices=True)
    rank = _rank(s, dim)
    x: Floats = (vt[:rank].T @ ((u[:, :rank].T @ right) / s[:rank])) / scale
    if rank < dim:
        null = vt[rank:].T / scale[:, None]
        x = x - null @ np.linalg.lstsq(null, x, rcond=None)[0]
    return x, rank == dim


def row_space(factor: Floats) -> Floats | None:
    """Return an orthonormal basis (dim, rank) of the span of the samples.

    The result is None if they span the whole space.

    Examples
    --------
    >>> row_space(np.array([[2.0, 6.0]])) is None
    True
    >>> np.abs(row_space(np.array([[0.0, 3.0, 1.0]]))).T
    array([[0., 1.]])
    """
    matrix = factor[:, :-1]
    dim = matrix.shape[1]
    scale = _column_scale(matrix)
    _, s, vt = np.linalg.svd(matrix / scale, full_matrices=True)
    rank = _rank(s, dim)
    if rank == dim:
        return None
    null = vt[rank:].T / scale[:, None]
    return np.asarray(np.linalg.qr(null, mode="complete")[0][:, dim - rank :], dtype=np.float64)


def smallest_singular_value(factor: Floats) -> float:
    """Return the smallest singular value of the weighted features.

    It is exactly 0 if they do not span the space.

    Examples
    --------
    >>> round(smallest_singular_value(np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])), 12)
    2.0
    >>> smallest_singular_value(np.ones((1, 3)))
    0.0
    """
    matrix = factor[:, :-1]
    if row_space(factor) is not None:
        return 0.0
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def _column_scale(matrix: Floats) -> Floats:
    # The rank must not depend on the units of the features (metres, nanometres).
    norms: Floats = np.linalg.norm(matrix, axis=0)
    return np.where(norms > 0.0, norms, 1.0)


def _rank(singular_values: Floats, dim: int) -> int:
    tolerance = max(_RANK, 4 * dim * float(np.finfo(np.float64).eps))
    return int(np.count_nonzero(singular_values > tolerance * singular_values[0]))
