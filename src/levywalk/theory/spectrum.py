"""The stationary law of a chain, with its residual checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter

_GTH_LIMIT = 300  # GTH takes n³ operations and loses no digit to cancellation
_DIRECT_LIMIT = 50_000  # above, the factors of a small-world network would not fit
_RESIDUAL = 1e-10


def stationary(P: sparse.csr_array | Floats) -> Floats:
    """Return the law π with πP = π.

    Small chains by the Grassmann-Taksar-Heyman elimination, which subtracts nothing; larger ones by a sparse
    factorisation whose residual is checked.

    Examples
    --------
    >>> stationary(np.array([[0.9, 0.1], [0.3, 0.7]]))
    array([0.75, 0.25])
    """
    try:
        matrix: Any = sparse.csr_array(P).astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(f"P must be a square matrix of numbers, got {P!r:.80}; see transition()") from None
    shape: tuple[int, ...] = tuple(matrix.shape)
    n = shape[0]
    if shape != (n, n) or n < 1:
        raise InvalidParameter(f"P must be a square matrix, got the shape {shape}; see transition()")
    if not (matrix.data >= 0).all() or not np.allclose(matrix.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        raise InvalidParameter("P must have rows that are probabilities and sum to 1; see transition()")
    pieces, _ = csgraph.connected_components(matrix, directed=True, connection="strong")
    if pieces > 1:
        raise InvalidParameter(
            f"P must be irreducible, but its states fall into {pieces} classes; "
            "a chain on a connected network with positive target is"
        )
    if n <= _GTH_LIMIT:
        return _gth(matrix.toarray())
    if n > _DIRECT_LIMIT:
        raise InvalidParameter(
            f"P has {n} states, more than the {_DIRECT_LIMIT} that a direct solution can take; "
            "start='target' is the stationary law of a walk without jumps"
        )
    law = _direct(matrix)
    residual = float(np.abs(matrix.T @ law - law).sum())
    if not residual <= _RESIDUAL:
        raise InvalidParameter(f"P's stationary law could not be trusted: residual {residual:.1e} in l1")
    return law


def _gth(P: Floats) -> Floats:
    work = P.copy()
    n = len(work)
    for k in range(n - 1, 0, -1):
        out = work[k, :k].sum()
        work[:k, k] /= out
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    law = np.zeros(n)
    law[0] = 1.0
    for k in range(1, n):
        law[k] = law[:k] @ work[:k, k]
    return np.asarray(law / law.sum())


def _direct(matrix: sparse.csr_array) -> Floats:
    """Fix the last state's mass and solve for the others: the rest of I - Pᵀ is a regular M-matrix."""
    n = matrix.shape[0]
    transposed = sparse.csc_array(sparse.eye_array(n) - matrix.T)
    solver = splu(sparse.csc_array(transposed[: n - 1, : n - 1]))
    right = -transposed[: n - 1, [n - 1]].toarray().ravel()
    head = solver.solve(right)
    head += solver.solve(right - transposed[: n - 1, : n - 1] @ head)
    law = np.append(np.maximum(head, 0.0), 1.0)
    return np.asarray(law / law.sum())
