"""The mean number of steps until a chain leaves a set of states, with a bound of the error.

The times h solve (I - Q)h = 1, where Q is the chain within the set. The inverse of I - Q has no
negative entry. If every entry of the residual is at most δ, the relative error of every time is
therefore at most δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, spsolve

from levywalk.arrays import Floats, Ints
from levywalk.theory.chain.answer import EXACT, ITERATIVE
from levywalk.theory.chain.iterations import solve_symmetric, solve_unsymmetric
from levywalk.theory.chain.sparse_factors import full_solve, mostly_full, possible_fill, quick_fill
from levywalk.theory.chain.stochastic_matrix import ChainOperator

_AIM = 1e-11  # relative error at which iterations stop
_ENOUGH = 1e-6  # with a larger error, sparse factors are tried even if they are large
_ROUNDING = 8 * float(np.finfo(float).eps)  # a residual may be wrong by this share of the times


@dataclass(frozen=True)
class AbsorptionTimes:
    """Mean numbers of steps until the chain leaves a set.

    Attributes
    ----------
    times
        One number per state of the set.
    error
        A bound of the relative error of every time; 0 for an exact answer.
    method
        "exact" (elimination) or "iterative".
    """

    times: Floats
    error: float
    method: str


def absorption_times(P: Any, inside: Ints, law: Floats, *, symmetric: bool) -> AbsorptionTimes:
    """Return the mean number of steps from every state of ``inside`` until the chain leaves it.

    Parameters
    ----------
    P
        A matrix or an operator, as `transition` returns them.
    inside
        The states of the set, sorted; not all states.
    law
        The stationary law of P.
    symmetric
        Whether P is reversible; conjugate gradients are then used.

    Examples
    --------
    >>> P = sparse.csr_array(np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]))
    >>> absorption_times(P, np.array([0, 1]), np.full(3, 1 / 3), symmetric=True).times
    array([6., 4.])
    """
    if isinstance(P, LinearOperator):
        return _iterated(P, inside, law, symmetric)
    block = sparse.csr_array(P[inside][:, inside])
    if quick_fill(block):
        return _eliminated(block)
    found = _iterated(P, inside, law, symmetric)
    if found.error > _ENOUGH and possible_fill(block):
        return _eliminated(block)
    return found


def _eliminated(block: sparse.csr_array) -> AbsorptionTimes:
    system = sparse.csc_array(sparse.eye_array(block.shape[0]) - block)
    ones = np.ones(block.shape[0])
    times = full_solve(system, ones) if mostly_full(block) else spsolve(system, ones)
    return AbsorptionTimes(np.atleast_1d(times), 0.0, EXACT)


def _iterated(P: Any, inside: Ints, law: Floats, symmetric: bool) -> AbsorptionTimes:
    apply, leave = _within(P, inside)
    ones = np.ones(len(inside))

    def reached(residual: Floats) -> bool:
        return bool(np.abs(residual).max() <= _AIM)

    if symmetric:
        # diag(ν)(I - Q) is symmetric; it is scaled on both sides to have 1 on its diagonal
        root = np.sqrt(law[inside] / law[inside].max() / leave)
        found = solve_symmetric(
            lambda X: root[:, None] * apply(X[:, 0] / (root * leave))[:, None],
            root[:, None],
            lambda residual: reached(residual[:, 0] / root),
        )
        times = found[:, 0] / (root * leave)
    else:
        times = solve_unsymmetric(
            lambda X: apply(X[:, 0])[:, None],
            leave,
            ones[:, None],
            lambda residual: reached(residual[:, 0]),
        )[:, 0]
    residual = float(np.abs(ones - apply(times)).max())
    error = residual + _ROUNDING * float(np.abs(times).max())
    return AbsorptionTimes(times, error if np.isfinite(error) else np.inf, ITERATIVE)


def _within(P: Any, inside: Ints) -> tuple[Any, Floats]:
    """Return x ↦ (I - Q)x and the probabilities to leave each state."""
    tiny = np.finfo(float).eps
    if isinstance(P, LinearOperator):
        stay = P.stay if isinstance(P, ChainOperator) else np.zeros(P.shape[0])
        whole = np.zeros(P.shape[0])

        def apply(x: Floats) -> Floats:
            whole[inside] = x
            return np.asarray(x - P.matvec(whole)[inside])

        return apply, np.maximum(1.0 - stay[inside], tiny)
    block = sparse.csr_array(P[inside][:, inside])
    return lambda x: x - block @ x, np.maximum(1.0 - block.diagonal(), tiny)
