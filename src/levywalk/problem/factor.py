"""The weighted data as a small triangular matrix, for rank, null space and least squares.

A QR factorisation of the samples, computed block by block, needs one pass over the data and the
memory of one block. It is as accurate as a factorisation of all samples at once; the normal
equations would square the condition number.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.samples import row_blocks

_LARGE = 512  # columns above which a singular value decomposition is avoided where possible
_REGULAR = 1e-8  # reciprocal condition (columns of equal norm) above which the rank is beyond doubt
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
    if len(matrix) < dim:
        return _solve_wide(matrix, right, ridge), ridge > 0.0
    if ridge > 0.0:
        matrix = np.vstack([matrix, np.sqrt(0.5 * ridge) * np.eye(dim)])
        right = np.concatenate([right, np.zeros(dim)])
    scale = _column_scale(matrix)
    regular = _solve_regular(matrix / scale, right) if dim > _LARGE else None
    if regular is not None:
        return regular / scale, True
    u, s, vt = np.linalg.svd(matrix / scale, full_matrices=True)
    rank = _rank(s, dim)
    x: Floats = (vt[:rank].T @ ((u[:, :rank].T @ right) / s[:rank])) / scale
    if rank < dim:
        null = vt[rank:].T / scale[:, None]
        x = x - null @ np.linalg.lstsq(null, x, rcond=None)[0]
    return x, rank == dim


def _solve_wide(matrix: Floats, right: Floats, ridge: float) -> Floats:
    """Return the least-norm minimiser where there are fewer rows than columns.

    It is a combination of the rows, so a factorisation with as many columns as there are rows is
    enough: rows² x dim operations instead of dim³.
    """
    if ridge > 0.0:
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        x: Floats = vt.T @ (s / (s * s + 0.5 * ridge) * (u.T @ right))
        return x
    scale = _column_scale(matrix)
    u, s, vt = np.linalg.svd(matrix / scale, full_matrices=False)
    rank = _rank(s, matrix.shape[1])
    # the matrix is u s (scale v)ᵀ, and scale v = q r; therefore x = q r⁻ᵀ s⁻¹ uᵀ right
    q, r = np.linalg.qr(scale[:, None] * vt[:rank].T)
    found: Floats = q @ np.linalg.solve(r.T, (u[:, :rank].T @ right) / s[:rank])
    return found


def _solve_regular(matrix: Floats, right: Floats) -> Floats | None:
    """Return the minimiser by QR if the columns are clearly independent, otherwise None.

    A singular value decomposition takes about twenty times as long.
    """
    from scipy.linalg import lapack, solve_triangular

    q, r = np.linalg.qr(matrix)
    rcond, _ = lapack.dtrcon(r)
    if not rcond > _REGULAR:
        return None
    x: Floats = solve_triangular(r, q.T @ right)
    return x


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
    if len(matrix) < dim:
        _, s, vt = np.linalg.svd(matrix / scale, full_matrices=False)
        return np.asarray(np.linalg.qr(scale[:, None] * vt[: _rank(s, dim)].T)[0])
    if dim > _LARGE and _is_regular(matrix / scale):
        return None
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
    if len(matrix) < matrix.shape[1] or row_space(factor) is not None:
        return 0.0
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def _is_regular(matrix: Floats) -> bool:
    from scipy.linalg import lapack

    rcond, _ = lapack.dtrcon(np.linalg.qr(matrix, mode="r"))
    return bool(rcond > _REGULAR)


def _column_scale(matrix: Floats) -> Floats:
    # The rank must not depend on the units of the features (metres, nanometres).
    norms: Floats = np.linalg.norm(matrix, axis=0)
    return np.where(norms > 0.0, norms, 1.0)


def _rank(singular_values: Floats, dim: int) -> int:
    tolerance = max(_RANK, 4 * dim * float(np.finfo(np.float64).eps))
    return int(np.count_nonzero(singular_values > tolerance * singular_values[0]))
