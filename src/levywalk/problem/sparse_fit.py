"""Least squares on sparse features: the minimiser by LSMR, and the Hessian where there is room."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import NoMinimiser
from levywalk.remedy import python_or_command
from levywalk.room import require_room

MOST_DENSE = (
    2_048  # columns up to which the matrix of dim x dim numbers is made without being asked
)
_ACCEPTED = 1e-9  # gradient that is left, relative to that at 0
_RESTARTS = 5  # of LSMR at the residual, each of which gains digits
_NULL = 1e-12


def sparse_hessian(features: Any, weights: Floats) -> Floats:
    """Return Σ w a aᵀ as a dense matrix; it is refused if there is no room for it.

    Examples
    --------
    >>> import scipy.sparse
    >>> sparse_hessian(scipy.sparse.csr_array([[1.0, 2.0]]), np.ones(1))
    array([[1., 2.],
           [2., 4.]])
    """
    dim = features.shape[1]
    require_room(
        "the Hessian",
        (dim, dim),
        8,
        f"it is needed in full here; select features{python_or_command('', ' with --features')}",
    )
    root = features.multiply(np.sqrt(np.maximum(weights, 0.0))[:, None]).tocsr()
    return np.asarray((root.T @ root).toarray(), dtype=np.float64)


def has_full_rank(features: Any, weights: Floats) -> bool:
    """Return whether samples span the space, as far as it can be judged.

    Above `MOST_DENSE` columns it is taken for granted if there are at least as many samples.
    """
    samples, dim = features.shape
    if samples < dim:
        return False
    if dim > MOST_DENSE:
        return True
    gram = sparse_hessian(features, weights)
    scale = np.sqrt(np.diag(gram))
    if not (scale > 0.0).all():
        return False
    values = np.linalg.eigvalsh(gram / np.outer(scale, scale))
    return bool(values[0] > _NULL * dim)


def least_squares(features: Any, targets: Floats, weights: Floats, ridge: float) -> Floats:
    """Return the minimiser of smallest norm of Σ w (y - aᵀx)² + (ridge/2)‖x‖².

    LSMR finds it, and is repeated at the residual; the gradient that is left is checked.

    Examples
    --------
    >>> import scipy.sparse
    >>> least_squares(scipy.sparse.csr_array([[2.0, 0.0]]), np.array([3.0]), np.ones(1), 0.0)
    array([1.5, 0. ])
    """
    from scipy.sparse.linalg import lsmr

    root = np.sqrt(weights)
    a, y = features.multiply(root[:, None]).tocsr(), root * targets
    damp = float(np.sqrt(0.5 * ridge))
    most = max(10_000, 4 * min(a.shape))
    x = np.zeros(a.shape[1])
    first = float(np.linalg.norm(a.T @ y)) or 1.0

    def gradient(x: Floats) -> Floats:
        return np.asarray(a.T @ (a @ x - y) + damp**2 * x)

    left = float(np.linalg.norm(gradient(x)))
    for _ in range(_RESTARTS):
        if damp > 0.0:  # the residual of the rows of the ridge, which LSMR adds for x = 0 only
            change = _damped(a, y - a @ x, -damp * x, damp, most)
        else:
            change = lsmr(a, y - a @ x, atol=1e-15, btol=1e-15, conlim=0.0, maxiter=most)[0]
        now = float(np.linalg.norm(gradient(x + change)))
        if not now < left:
            break
        x, left = x + change, now
    if not left <= _ACCEPTED * first:
        raise NoMinimiser(
            f"no minimiser of the least-squares loss was found: LSMR leaves a gradient of "
            f"{left / first:.1e} of the first; add a ridge, for example "
            f"{python_or_command('ridge=1e-3', '--ridge 0.001')}, or standardise the features"
        )
    return x


def _damped(a: Any, top: Floats, bottom: Floats, damp: float, most: int) -> Floats:
    """Return the least-squares solution of the rows of a and those of damp times the identity."""
    from scipy.sparse.linalg import LinearOperator, lsmr

    samples, dim = a.shape
    operator: Any = LinearOperator(
        (samples + dim, dim),
        matvec=lambda v: np.concatenate([a @ v.ravel(), damp * v.ravel()]),
        rmatvec=lambda u: a.T @ u.ravel()[:samples] + damp * u.ravel()[samples:],
        dtype=np.float64,
    )
    both = np.concatenate([top, bottom])
    return np.asarray(lsmr(operator, both, atol=1e-15, btol=1e-15, conlim=0.0, maxiter=most)[0])
