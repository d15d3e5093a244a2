"""Iterative solutions of linear equations, preconditioned by the diagonal.

They serve networks without small separators, where sparse factors would be nearly full. Such
networks mix quickly once nodes that are hard to leave are scaled away, so few iterations suffice.
All columns of a right-hand side are solved side by side, because a product with many columns costs
little more than one with a single column.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from levywalk.arrays import Floats

_MOST_ITERATIONS = 4_000  # of one round
_ROUNDS = 4  # each round solves for what is left; rounding errors of the one before vanish
_GMRES_CYCLES = 20  # of 60 products each
_ROUNDED = 1e-8  # a residual below this share that does not fall any more is rounding
_SMALLEST = 1e-300

Apply = Callable[[Floats], Floats]
Reached = Callable[[Floats], bool]


def solve_symmetric(apply: Apply, right: Floats, reached: Reached) -> Floats:
    """Solve Ax = b for all columns of b by conjugate gradients.

    Parameters
    ----------
    apply
        x ↦ Ax for an array of the shape of ``right``. A is positive semidefinite with 1 on its
        diagonal, and b is in its range.
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
    >>> A = np.array([[1.0, -0.5], [-0.5, 1.0]])
    >>> small = lambda r: bool(abs(r).max() < 1e-12)
    >>> solve_symmetric(A.dot, np.array([[1.0], [1.0]]), small).round(9)
    array([[2.],
           [2.]])
    """
    x = np.zeros_like(right)
    before = np.inf
    for _ in range(_ROUNDS):
        residual = right - apply(x)
        size = float(np.linalg.norm(residual))
        if reached(residual) or size > 0.5 * before:  # the rest is rounding
            break
        before = size
        x += _conjugate_gradients(apply, residual, reached)
    return x


def _conjugate_gradients(apply: Apply, residual: Floats, reached: Reached) -> Floats:
    x = np.zeros_like(residual)
    direction = residual.copy()
    size = _products(residual, residual)
    for _ in range(_MOST_ITERATIONS):
        image = apply(direction)
        length = _ratio(size, _products(direction, image))
        if not length.any():
            break
        x += length * direction
        residual -= length * image
        if reached(residual):
            break
        before, size = size, _products(residual, residual)
        direction *= _ratio(size, before)
        direction += residual
    return x


def _products(x: Floats, y: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", x, y))


def _ratio(over: Floats, under: Floats) -> Floats:
    """Return the quotients, and 0 for columns that are finished or have broken down."""
    good = np.isfinite(under) & np.isfinite(over) & (np.abs(under) > _SMALLEST)
    return np.asarray(np.where(good, over / np.where(good, under, 1.0), 0.0))


def solve_unsymmetric(apply: Apply, diagonal: Floats, right: Floats, reached: Reached) -> Floats:
    """Solve Ax = b for all columns of b by BiCGSTAB, then by GMRES where that does not help.

    Parameters
    ----------
    apply
        x ↦ Ax for an array of shape (n, k).
    diagonal
        The diagonal of A, about; it is positive.
    right, reached
        As for `solve_symmetric`.

    Examples
    --------
    >>> A = np.array([[2.0, -1.0], [0.0, 1.0]])
    >>> small = lambda r: bool(abs(r).max() < 1e-12)
    >>> solve_unsymmetric(A.dot, np.diag(A), np.array([[1.0], [1.0]]), small).round(9)
    array([[1.],
           [1.]])
    """
    scale = 1.0 / diagonal[:, None]
    x, residual = np.zeros_like(right), right
    sizes = first = np.linalg.norm(right, axis=0)
    for attempt in range(_ROUNDS):
        if reached(residual):
            break
        with np.errstate(all="ignore"):  # if a method breaks down, the residual shows it
            change = (
                _bicgstab(apply, scale, residual, reached)
                if attempt < _ROUNDS - 1
                else _gmres(apply, diagonal, residual)
            )
        after = right - apply(x + change)
        now = np.linalg.norm(after, axis=0)
        better = np.isfinite(now) & (now < sizes)
        stuck = bool((now > 0.5 * sizes).all() and (sizes <= _ROUNDED * first).all())
        x = np.where(better, x + change, x)
        residual, sizes = np.where(better, after, residual), np.where(better, now, sizes)
        if stuck:
            break
    return x


def _bicgstab(apply: Apply, scale: Floats, residual: Floats, reached: Reached) -> Floats:
    """Return the best solutions of one round of BiCGSTAB with the preconditioner on the right."""
    shadow = residual.copy()
    x, best = np.zeros_like(residual), np.zeros_like(residual)
    least = np.linalg.norm(residual, axis=0)
    direction = residual.copy()
    rho = _products(shadow, residual)
    for _ in range(_MOST_ITERATIONS // 2):
        scaled = scale * direction
        image = apply(scaled)
        alpha = _ratio(rho, _products(shadow, image))
        half = residual - alpha * image
        other = scale * half
        turned = apply(other)
        omega = _ratio(_products(turned, half), _products(turned, turned))
        x += alpha * scaled
        x += omega * other
        residual = half - omega * turned
        sizes = np.linalg.norm(residual, axis=0)
        improved = sizes < least
        best[:, improved], least = x[:, improved], np.minimum(sizes, least)
        if reached(residual) or not (alpha.any() and omega.any()):
            break
        before, rho = rho, _products(shadow, residual)
        direction = residual + _ratio(rho, before) * _ratio(alpha, omega) * (
            direction - omega * image
        )
    return best


def _gmres(apply: Apply, diagonal: Floats, residual: Floats) -> Floats:
    n = len(residual)
    system = LinearOperator(
        (n, n), matvec=lambda x: apply(x.reshape(n, 1)).ravel(), dtype=np.float64
    )
    scale = LinearOperator((n, n), matvec=lambda r: r / diagonal, dtype=np.float64)
    columns = [
        gmres(system, column, rtol=1e-8, restart=60, maxiter=_GMRES_CYCLES, M=scale)[0]
        for column in residual.T
    ]
    return np.column_stack(columns)
