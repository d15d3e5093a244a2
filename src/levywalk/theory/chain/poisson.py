"""Poisson's equation (I - P)g = h for a function h with mean zero, with an error estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, splu

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.theory.chain.answer import EXACT, ITERATIVE
from levywalk.theory.chain.iterations import Apply, Reached, solve_symmetric, solve_unsymmetric
from levywalk.theory.chain.sparse_factors import full_solve, low_fill, mostly_full
from levywalk.theory.chain.stochastic_matrix import SMALL, ChainOperator, reversible

_FACTORED = SMALL  # nodes; larger networks are factorised only if the factors are small
_RESIDUAL = 1e-8  # largest relative residual
_AIM = 1e-10  # relative residual at which iterations stop
_CORRECTION = 0.05  # relative residual of the correction, of which only the size is needed


@dataclass(frozen=True)
class PoissonSolution:
    """The solution of Poisson's equation, by columns.

    Attributes
    ----------
    values
        g with mean zero under the stationary law.
    correction
        What one more solution, for the residual that was left, has changed. Its size estimates the
        error, and the error that is left is much smaller. It is 0 for an exact answer.
    method
        "exact" (elimination) or "iterative".
    """

    values: Floats
    correction: Floats
    method: str


def solve_poisson(P: Any, law: Floats, centred: Floats) -> PoissonSolution:
    """Solve (I - P)g = h.

    Parameters
    ----------
    P
        A matrix or an operator, as `transition` returns them.
    law
        The stationary law of P.
    centred
        h, an array of shape (n, k); the columns have mean zero under the law.

    Raises
    ------
    InvalidParameter
        The iterations did not converge.

    Examples
    --------
    >>> flip = sparse.csr_array(np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> solve_poisson(flip, np.array([0.5, 0.5]), np.array([[1.0], [-1.0]])).values
    array([[ 5.],
           [-5.]])
    """
    if not isinstance(P, LinearOperator) and (P.shape[0] <= _FACTORED or low_fill(P)):
        values = _factored(P, centred)
        return PoissonSolution(values - law @ values, np.zeros_like(values), EXACT)
    return _iterated(P, law, centred)


def _factored(P: sparse.csr_array, centred: Floats) -> Floats:
    """Solve with g = 0 at the last node; the result is unique up to a constant."""
    n = len(centred)
    reduced = sparse.csc_array(sparse.eye_array(n - 1) - P[: n - 1, : n - 1])
    right = np.ascontiguousarray(centred[: n - 1])
    head = full_solve(reduced, right) if mostly_full(reduced) else splu(reduced).solve(right)
    return np.vstack([head, np.zeros((1, centred.shape[1]))])


def _iterated(P: Any, law: Floats, centred: Floats) -> PoissonSolution:
    system = _System(P, law)
    values = system.solve(centred, _AIM)
    left = centred - system.apply(values)
    size = np.maximum(system.norms(centred), 1e-300)
    worst = float((system.norms(left) / size).max())
    if not worst <= _RESIDUAL:
        raise InvalidParameter(
            "the cost on this network cannot be predicted: Poisson's equation has the residual "
            f"{worst:.1e}; the walk mixes too slowly for so many nodes; use a smaller network of "
            "the same family"
        )
    left -= law @ left
    correction = system.solve(left, _CORRECTION)
    return PoissonSolution(values + correction, correction, ITERATIVE)


class _System:
    """I - P on the functions with mean zero, with the norm of L²(ν)."""

    def __init__(self, P: Any, law: Floats) -> None:
        self._P, self._law = P, law
        self._symmetric = reversible(P, law)
        stay = np.zeros(len(law))
        if isinstance(P, ChainOperator):
            stay = P.stay
        elif not isinstance(P, LinearOperator):
            stay = P.diagonal()
        self._leave = np.maximum(1.0 - stay, np.finfo(float).eps)

    def apply(self, X: Floats) -> Floats:
        """Return (I - P)X."""
        return np.asarray(X - self._P @ X)

    def norms(self, X: Floats) -> Floats:
        """Return the norm of every column in L²(ν)."""
        return np.asarray(np.sqrt(self._law @ np.square(X)))

    def solve(self, right: Floats, aim: float) -> Floats:
        """Solve for all columns until their residuals are ``aim`` times the right-hand side."""
        goal = aim * self.norms(right)
        if not goal.any():
            return np.zeros_like(right)
        if self._symmetric:
            found = self._by_conjugate_gradients(right, goal)
        else:
            found = np.column_stack(
                [
                    solve_unsymmetric(
                        self._regular, self._leave, column, self._reached(float(limit))
                    )
                    for column, limit in zip(right.T, goal, strict=True)
                ]
            )
        return np.asarray(found - self._law @ found)

    @property
    def _regular(self) -> Apply:
        return lambda x: x - self._P @ x + self._law @ x

    def _reached(self, limit: float) -> Reached:
        return lambda residual: bool(np.sqrt(self._law @ np.square(residual)) <= limit)

    def _by_conjugate_gradients(self, right: Floats, goal: Floats) -> Floats:
        mass = self._law[:, None]

        def apply(X: Floats) -> Floats:
            image = mass * (X - self._P @ X)
            return np.asarray(image - mass * image.sum(axis=0))  # the sums are rounding errors

        def reached(residual: Floats) -> bool:
            sizes = np.sqrt((np.square(residual) / mass).sum(axis=0))
            return bool((sizes <= goal).all())

        return solve_symmetric(apply, self._law * self._leave, mass * right, reached)
