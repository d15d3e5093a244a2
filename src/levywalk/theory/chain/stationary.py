"""The stationary law of a chain. The method follows the size and structure; the residual is
checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab, gmres

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.notebook import table_html
from levywalk.remedy import python_or_command
from levywalk.theory.chain.answer import EXACT, ITERATIVE, answer_text
from levywalk.theory.chain.blas_threads import one_blas_thread
from levywalk.theory.chain.iterations import solve_unsymmetric
from levywalk.theory.chain.sparse_factors import (
    GroundedSolver,
    low_fill,
    possible_fill,
    thin_order,
)
from levywalk.theory.chain.stochastic_matrix import Chain, ChainOperator, as_chain, balanced_law

_GTH_LIMIT = 500  # states: elimination takes n³ operations, and no digit is lost by cancellation
_THIN = 48  # bandwidth up to which elimination along a band is used, as on a ring or a path
_ACCEPTED = 1e-10  # a law is returned only if its l1 residual is below this
_AIM = 1e-13  # the residual at which iterations stop
_MOST_ITERATIONS = 4_000
_METHODS = {
    "gth": "elimination without subtraction",
    "balance": "detailed balance along a spanning tree",
    "lu": "sparse factorisation",
    "krylov": "preconditioned Krylov iteration",
    "known": "known from the design",
}


@dataclass(frozen=True, repr=False)
class StationaryReport:
    """A stationary law and how far it can be relied on.

    Attributes
    ----------
    law
        π with πP = π.
    method
        "gth" (elimination by Grassmann, Taksar and Heyman: every entry has full precision),
        "balance" (detailed balance along a spanning tree, checked on all edges), "lu" (sparse
        factors), "krylov" (BiCGSTAB, then GMRES) or "known" (given by the design).
    residual
        The l1 norm of πP - π.
    error
        An estimate of the l1 error of a law that iterations found, from the solution for the
        residual that was left; 0 for the other methods, which are exact up to rounding.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.ring(9), lw.homogeneous(9), lw.mhlj())
    >>> lw.stationary_report(P).method
    'gth'
    """

    law: Floats
    method: str
    residual: float
    error: float = 0.0

    @property
    def answer(self) -> str:
        """The kind of method in words: "exact", or "iterative" with the error estimate."""
        kind = ITERATIVE if self.method == "krylov" else EXACT
        return answer_text(kind, self.error, "error of the law")

    def __repr__(self) -> str:
        return (
            f"StationaryReport({len(self.law)} states, {self.method}, residual {self.residual:.1e})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("states", len(self.law)),
            ("smallest mass", float(self.law.min())),
            ("largest mass", float(self.law.max())),
            ("largest mass at state", int(self.law.argmax())),
            ("method", f"{_METHODS[self.method]} ({self.answer})"),
            ("residual |πP - π|₁", self.residual),
        ]
        return table_html(rows, "Stationary law")

    def __str__(self) -> str:
        return (
            f"stationary law of {len(self.law)} states by {_METHODS[self.method]}, "
            f"|πP - π|₁ = {self.residual:.1e}, masses from {self.law.min():.3g} to "
            f"{self.law.max():.3g}"
        )


def stationary(P: Any) -> Floats:
    """Return the law π with πP = π.

    Parameters
    ----------
    P
        A matrix, sparse or dense, or a LinearOperator, as `transition` returns them. The entries of
        an operator with more than 2,000 states are not checked: the caller must know that it is
        irreducible.

    Raises
    ------
    InvalidParameter
        P is not a stochastic matrix, is reducible, or no law with an l1 residual of 1e-10 was
        found.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.stationary([[0.9, 0.1], [0.3, 0.7]])
    array([0.75, 0.25])
    """
    return stationary_report(P).law


def stationary_report(P: Any) -> StationaryReport:
    """Return the stationary law with the method that found it and its residual; see `stationary`.

    The law of P_MHLJ differs from the target: jumps take mass away from important nodes.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(1000), lw.heterogeneous(1000, important=1)
    >>> report = lw.stationary_report(lw.transition(network, problem, lw.weight_rw()))
    >>> report
    StationaryReport(1000 states, balance, residual ...)
    >>> print(report)
    stationary law of 1000 states by detailed balance along a spanning tree, |πP - π|₁ = ...
    """
    return solve(as_chain(P))


def given_or_solved(chain: Chain, law: Any) -> Floats:
    """Return the law that the caller gave, after a check against the chain; compute it if None."""
    if law is None:
        return solve(chain).law
    clean = np.asarray(law, dtype=np.float64)
    if (
        clean.shape != (chain.shape[0],)
        or not (clean > 0).all()
        or not abs(clean.sum() - 1.0) <= 1e-6
    ):
        raise InvalidParameter(
            "stationary must be one positive probability per state; leave it out to let it be "
            "computed"
        )
    residual = _residual(chain, clean)
    if not residual <= _ACCEPTED:
        raise InvalidParameter(
            f"stationary is not P's law: |πP - π|₁ is {residual:.1e}; leave it out to let it be "
            "computed"
        )
    return clean


@one_blas_thread
def solve(chain: Chain) -> StationaryReport:
    """Compute the stationary law of a checked chain."""
    if isinstance(chain, LinearOperator):
        known = chain.law if isinstance(chain, ChainOperator) else None
        return _checked(chain, known, "known") if known is not None else _iterated(chain)
    n = chain.shape[0]
    if n <= _GTH_LIMIT:
        return _checked(chain, _gth(chain.toarray()), "gth")
    balanced = balanced_law(chain)
    if balanced is not None:
        return _checked(chain, balanced, "balance")
    thin = thin_order(chain, _THIN)
    if thin is not None:
        return _checked(chain, _thin_gth(chain, *thin), "gth")
    if low_fill(chain):
        direct = _direct(chain)
        if direct is not None:
            return _checked(chain, direct, "lu")
    return _iterated(chain)


def _iterated(chain: Chain) -> StationaryReport:
    """Find the law by iterations, and estimate its error by solving for what is left."""
    system = _KrylovSystem(chain)
    law = _krylov(chain, system)
    failed = not _residual(chain, law) <= _ACCEPTED
    if failed and not isinstance(chain, LinearOperator) and possible_fill(chain):
        direct = _direct(chain)
        if direct is not None:
            return _checked(chain, direct, "lu")
    found = _checked(chain, law, "krylov")
    left = (system.push(found.law) - found.law)[:, None]
    left -= left.mean()
    size = float(np.linalg.norm(left))
    missing = solve_unsymmetric(
        lambda X: system.apply(X[:, 0])[:, None],
        system.leave,
        left,
        lambda residual: float(np.linalg.norm(residual)) <= 0.05 * size,
    )
    error = 2.0 * float(np.abs(missing).sum()) + 4.0 * float(np.finfo(float).eps)
    return replace(found, error=error)


def _checked(chain: Chain, law: Floats, method: str) -> StationaryReport:
    residual = _residual(chain, law)
    if not residual <= _ACCEPTED or not (law >= 0).all():
        raise InvalidParameter(
            f"P's stationary law could not be found: |πP - π|₁ stays at {residual:.1e}, above "
            f"{_ACCEPTED:g}; the walk mixes very slowly. Use "
            + python_or_command(
                "form='matrix', which allows exact methods, or a larger p_jump or mix",
                "a larger --p-jump",
            )
        )
    return StationaryReport(law, method, residual)


def _residual(chain: Chain, law: Floats) -> float:
    return float(np.abs(_push(chain, law) - law).sum())


def _push(chain: Chain, law: Floats) -> Floats:
    """Return πP."""
    return np.asarray(chain.rmatvec(law) if isinstance(chain, LinearOperator) else law @ chain)


def _gth(P: Floats) -> Floats:
    """Eliminate one state after the other without subtractions (Grassmann, Taksar and Heyman)."""
    work = P.copy()
    n = len(work)
    for k in range(n - 1, 0, -1):
        work[:k, k] /= work[k, :k].sum()
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    law = np.zeros(n)
    law[0] = 1.0
    for k in range(1, n):
        law[k] = law[:k] @ work[:k, k]
    return np.asarray(law / law.sum())


def _thin_gth(matrix: sparse.csr_array, order: Any, width: int) -> Floats:
    """Eliminate without subtractions along a band.

    The masses of a walk with jumps on a ring of unequal nodes can differ by many orders of
    magnitude. Elimination with subtractions may then lose all digits of the law; this method keeps
    them.
    """
    n = matrix.shape[0]
    entries = sparse.coo_array(matrix[order][:, order])
    band = np.zeros((n, 2 * width + 1))  # band[i, j - i + width] = P(i, j)
    band[entries.row, entries.col - entries.row + width] = entries.data
    # in `flat`, neighbouring entries of a column lie `step` apart
    flat, step = band.ravel(), 2 * width
    inner = np.arange(width)
    for k in range(n - 1, 0, -1):
        reach = min(k, width)
        first = k - reach
        row = band[k, width - reach : width]
        column = flat[first * (step + 1) + reach + width : k * (step + 1) + width + 1 : step][
            :reach
        ]
        column /= row.sum()
        block = first * (step + 1) + width + inner[:reach, None] * step + inner[None, :reach]
        flat[block] += column[:, None] * row
    law = np.zeros(n)
    law[0] = 1.0
    for k in range(1, n):
        reach = min(k, width)
        first = k - reach
        column = flat[first * (step + 1) + reach + width : k * (step + 1) + width + 1 : step][
            :reach
        ]
        law[k] = law[first:k] @ column
        if law[k] > 1e200:
            law[: k + 1] *= 1e-200
    result = np.empty(n)
    result[order] = law / law.sum()
    return result


def generator(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return I - P. The diagonal is the sum of the moves, so a small probability to leave keeps its
    digits.
    """
    off = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
    off.eliminate_zeros()
    return sparse.csr_array(sparse.diags_array(off.sum(axis=1)) - off)


def _direct(matrix: sparse.csr_array) -> Floats | None:
    """Fix the mass of one state and solve for the others; I - Pᵀ without that state is a regular
    M-matrix.
    """
    n = matrix.shape[0]
    guess = np.full(n, 1.0 / n)
    for _ in range(20):
        guess = _push(matrix, guess)
    ground = int(guess.argmax())
    rates = sparse.csr_array(generator(matrix).T)
    for _ in range(2):  # if most of the mass is at another state, repeat with that state
        try:
            solver = GroundedSolver(rates, ground)
        except RuntimeError:
            return None
        law = solver.solve(-rates[:, [ground]].toarray().ravel())
        law[ground] = 1.0
        if np.isfinite(law).all() and (law > 0).all():
            return np.asarray(law / law.sum())
        ground = int(np.abs(np.nan_to_num(law)).argmax())
    return None


class _KrylovSystem:
    """The regular system (I - Pᵀ + u1ᵀ)π = u, u uniform, and the probabilities to leave."""

    def __init__(self, chain: Chain) -> None:
        n = chain.shape[0]
        self.uniform = np.full(n, 1.0 / n)
        self.push: Any
        if isinstance(chain, LinearOperator):
            stay = chain.stay if isinstance(chain, ChainOperator) else np.zeros(n)
            self.push = chain.rmatvec
        else:
            stay, back = chain.diagonal(), sparse.csr_array(chain.T)
            self.push = back.dot
        self.leave = np.maximum(1.0 - stay, np.finfo(float).eps)

    def apply(self, x: Floats) -> Floats:
        """Return (I - Pᵀ + u1ᵀ)x."""
        return np.asarray(x - self.push(x) + x.sum() * self.uniform)


def _krylov(chain: Chain, regular: _KrylovSystem) -> Floats:
    """Solve the regular system, preconditioned by the probabilities to leave."""
    n, uniform, push = chain.shape[0], regular.uniform, regular.push
    system = LinearOperator((n, n), matvec=regular.apply, dtype=np.float64)
    scale = LinearOperator((n, n), matvec=lambda x: x / regular.leave, dtype=np.float64)
    law = _tidy(chain, uniform, push)
    for attempt in ("bicgstab", "bicgstab", "gmres"):
        if _residual(chain, law) <= 10 * _AIM:
            break
        with np.errstate(all="ignore"):  # if the method breaks down, the residual shows it
            if attempt == "bicgstab":
                found, _ = bicgstab(
                    system, uniform, x0=law, rtol=_AIM, maxiter=_MOST_ITERATIONS, M=scale
                )
            else:
                found, _ = gmres(
                    system,
                    uniform,
                    x0=law,
                    rtol=_AIM,
                    restart=50,
                    maxiter=-(-_MOST_ITERATIONS // 50),
                    M=scale,
                )
        if np.isfinite(found).all() and found.sum() > 0:
            candidate = _tidy(chain, found, push)
            law = min(law, candidate, key=lambda x: _residual(chain, x))
    return law


def _tidy(chain: Chain, found: Floats, push: Any) -> Floats:
    """Set entries to 0 that rounding made negative, and smooth by moves of the chain."""
    law = np.maximum(found, 0.0)
    for _ in range(2 if (found <= 0).any() else 0):
        law = (law + push(law)) / 2.0
    return np.asarray(law / law.sum())
