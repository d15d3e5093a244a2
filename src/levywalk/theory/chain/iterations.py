"""Iterative solutions of linear equations, preconditioned by the diagonal.

They serve networks without small separators, where sparse factors would be nearly full. Such
networks mix quickly once nodes that are hard to leave are scaled away, so few iterations suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, bicgstab, gmres

from levywalk.arrays import Floats

_MOST_ITERATIONS = 4_000  # of conjugate gradients
_MOST_PRODUCTS = 2_000  # of one round for a matrix that is not symmetric
_ROUNDS = 4  # each round solves for what is left; rounding errors of the one before vanish
_GAIN = 1e-7  # how much a round reduces the residual

Apply = Callable[[Floats], Floats]
Reached = Callable[[Floats], bool]


def solve_symmetric(apply: Apply, diagonal: Floats, right: Floats, reached: Reached) -> Floats:
    """Solve Ax = b for all columns of b at once by conjugate gradients.

    Parameters
    ----------
    apply
        x ↦ Ax for an array of the shape of ``right``; A is positive semidefinite, and b is in its
        range.
    diagonal
        The diagonal of A, which is positive.
    right
        b, an array of shape (n, k).
    reached
        Whether a residual b - Ax is small enough.

    Returns
    -------
    ndarray
        x. The caller must check the residual: the iteration may end before it is small enough.

    Examples
    --------
    >>> A = np.array([[2.0, -1.0], [-1.0, 2.0]])
    >>> small = lambda r: bool(abs(r).max() < 1e-12)
    >>> solve_symmetric(A.dot, np.diag(A), np.array([[1.0], [1.0]]), small).round(9)
    array([[1.],
           [1.]])
    """
    x = np.zeros_like(right)
    scale = 1.0 / diagonal[:, None]
    for _ in range(_ROUNDS):
        residual = right - apply(x)
        if reached(residual):
            break
        x = x + _conjugate_gradients(apply, scale, residual, reached)
    return x


def _conjugate_gradients(apply: Apply, scale: Floats, residual: Floats, reached: Reached) -> Floats:
    x = np.zeros_like(residual)
    scaled = scale * residual
    direction = scaled.copy()
    size = np.einsum("ij,ij->j", residual, scaled)
    for _ in range(_MOST_ITERATIONS):
        image = apply(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        alive = (curvature > 0.0) & (size > 0.0)
        if not alive.any():
            break
        length = np.where(alive, size / np.where(alive, curvature, 1.0), 0.0)
        x += length * direction
        residual = residual - length * image
        if reached(residual):
            break
        scaled = scale * residual
        before, size = size, np.einsum("ij,ij->j", residual, scaled)
        direction *= np.where(alive, size / np.where(before > 0.0, before, 1.0), 0.0)
        direction += scaled
    return x


def solve_unsymmetric(apply: Apply, diagonal: Floats, right: Floats, reached: Reached) -> Floats:
    """Solve Ax = b for one right-hand side by BiCGSTAB, then by GMRES where that does not help.

    The parameters are those of `solve_symmetric`, but A need not be symmetric, and b is a vector.

    Examples
    --------
    >>> A = np.array([[2.0, -1.0], [0.0, 1.0]])
    >>> small = lambda r: bool(abs(r).max() < 1e-12)
    >>> solve_unsymmetric(A.dot, np.diag(A), np.array([1.0, 1.0]), small).round(9)
    array([1., 1.])
    """
    n = len(right)
    system = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    scale = LinearOperator((n, n), matvec=lambda r: r / diagonal, dtype=np.float64)
    x, residual = np.zeros(n), right
    size = float(np.linalg.norm(right))
    stuck = 0
    for _ in range(2 * _ROUNDS):
        if reached(residual) or stuck == 2:
            break
        with np.errstate(all="ignore"):  # if a method breaks down, the residual shows it
            change = _round(system, scale, residual, patient=stuck > 0)
        after = right - apply(x + change)
        left = float(np.linalg.norm(after))
        if np.isfinite(left) and left < 0.5 * size:
            x, residual, size, stuck = x + change, after, left, 0
        else:
            stuck += 1
    return x


def _round(system: Any, scale: Any, residual: Floats, *, patient: bool) -> Floats:
    if patient:
        found, _ = gmres(
            system, residual, rtol=_GAIN, restart=60, maxiter=_MOST_PRODUCTS // 60, M=scale
        )
    else:
        found, _ = bicgstab(system, residual, rtol=_GAIN, maxiter=_MOST_PRODUCTS // 2, M=scale)
    return np.asarray(found)
