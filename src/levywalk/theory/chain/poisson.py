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
from levywalk.theory.chain.iterations import solve_symmetric, solve_unsymmetric
from levywalk.theory.chain.sparse_factors import (
    full_solve,
    low_fill,
    mostly_full,
    possible_fill,
)
from levywalk.theory.chain.stationary import generator
from levywalk.theory.chain.stochastic_matrix import SMALL, ChainOperator, reversible

_FACTORED = SMALL  # nodes; larger networks are factorised only if the factors are small
_RESIDUAL = 2e-7  # largest relative residual
_AIM = 1e-7  # relative residual at which iterations stop for a reversible chain
_FINE_AIM = 1e-8  # the same for other chains
_CORRECTION = 0.01  # relative residual of the correction, of which only the size is needed


@dataclass(frozen=True)
class PoissonSolution:
    """The solution of Poisson's equation, by columns.

    Attributes
    ----------
    values
        g with mean zero under the stationary law.
    forward, backward
        Two arrays that bound the error of Σ ν(v) a(v)·g(v), for a linear image a of h: in each
        dimension it is at most the product of their norms in L²(ν), both mapped like h. For a
        reversible chain they are the solution and the residual, because the error is ⟨g, residual⟩
        to first order. For other chains they are h and the correction that one more solution, for
        the residual that was left, has made; the error that is left is much smaller. The second is
        0 for an exact answer.
    method
        "exact" (elimination) or "iterative".
    """

    values: Floats
    forward: Floats
    backward: Floats
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
        return _exact(P, law, centred)
    found = _iterated(P, law, centred)
    if found is None and not isinstance(P, LinearOperator) and possible_fill(P):
        return _exact(P, law, centred)
    if found is None:
        raise InvalidParameter(
            "the cost on this network cannot be predicted: the iterations for Poisson's equation "
            "do not converge; the walk mixes too slowly for so many nodes; use a smaller network "
            "of the same family"
        )
    return found


def _exact(P: sparse.csr_array, law: Floats, centred: Floats) -> PoissonSolution:
    values = _factored(P, centred)
    values = values - law @ values
    return PoissonSolution(values, centred, np.zeros_like(values), EXACT)


def _factored(P: sparse.csr_array, centred: Floats) -> Floats:
    """Solve with g = 0 at the last node; the result is unique up to a constant."""
    n = len(centred)
    reduced = sparse.csc_array(sparse.eye_array(n - 1) - P[: n - 1, : n - 1])
    right = np.ascontiguousarray(centred[: n - 1])
    head = full_solve(reduced, right) if mostly_full(reduced) else splu(reduced).solve(right)
    return np.vstack([head, np.zeros((1, centred.shape[1]))])


def _iterated(P: Any, law: Floats, centred: Floats) -> PoissonSolution | None:
    system = _System(P, law)
    values = system.solve(centred, _AIM if system.symmetric else _FINE_AIM)
    left = centred - system.apply(values)
    left -= law @ left
    size = np.maximum(system.norms(centred), 1e-300)
    worst = float((system.norms(left) / size).max())
    if not worst <= _RESIDUAL:
        return None
    if system.symmetric:
        return PoissonSolution(values, values, 2.0 * left, ITERATIVE)
    correction = system.solve(left, _CORRECTION)
    return PoissonSolution(values + correction, centred, 2.0 * correction, ITERATIVE)


class _System:
    """I - P on the functions with mean zero, with the norm of L²(ν)."""

    def __init__(self, P: Any, law: Floats) -> None:
        self._P, self._law = P, law
        self.symmetric = reversible(P, law)
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
        found = self._reversible(right, goal) if self.symmetric else self._general(right, goal)
        return np.asarray(found - self._law @ found)

    def _general(self, right: Floats, goal: Floats) -> Floats:
        return solve_unsymmetric(
            lambda X: X - self._P @ X + self._law @ X,
            self._leave,
            right,
            lambda residual: bool((self.norms(residual) <= goal).all()),
        )

    def _reversible(self, right: Floats, goal: Floats) -> Floats:
        """Scale diag(ν)(I - P), which is symmetric, to have 1 on its diagonal."""
        before = np.sqrt(self._law / self._leave)
        after = 1.0 / (before * self._leave)
        weights = self._law / np.square(before)

        def reached(residual: Floats) -> bool:
            return bool((weights @ np.square(residual) <= np.square(goal)).all())

        if isinstance(self._P, LinearOperator):
            found = solve_symmetric(
                lambda X: before[:, None] * self.apply(after[:, None] * X),
                before[:, None] * right,
                reached,
            )
        else:
            scaled = sparse.diags_array(before) @ generator(self._P) @ sparse.diags_array(after)
            matrix = sparse.csr_array(scaled)
            found = solve_symmetric(matrix.dot, before[:, None] * right, reached)
        return np.asarray(after[:, None] * found)
