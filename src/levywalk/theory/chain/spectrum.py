"""Spectral gaps of a chain. The residual is compared with the gap itself.

The chain is scaled to S = D^½ P D^-½ with D = diag(π). Then √π is a left and a right eigenvector of
S for the eigenvalue 1, and the rest of the spectrum belongs to vectors orthogonal to √π. S is
symmetric if and only if the chain is reversible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigs

from levywalk import checks
from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidParameter
from levywalk.theory.chain.blas_threads import one_blas_thread
from levywalk.theory.chain.davidson import AIM, Eigenpair, davidson, seeds
from levywalk.theory.chain.gap_result import SpectralGap
from levywalk.theory.chain.sparse_factors import GroundedSolver, factorise
from levywalk.theory.chain.stationary import given_or_solved
from levywalk.theory.chain.stochastic_matrix import SMALL, as_chain, matrix_period, reversible
from levywalk.theory.chain.symmetrised import (
    SymmetrisedChain,
    SymmetrisedMatrix,
    SymmetrisedOperator,
)

KINDS = ("right", "absolute", "singular")
_SMALL_EIG = 1_500  # states up to which an unsymmetric matrix is solved densely: ten times slower
_TRUST = 1e-3  # largest relative error of a trusted gap
_MARGIN = 1e-3  # eigenvalues are counted below (1 - margin) times the gap
_ITERATIONS = {"shift-invert": 60, "davidson": 1_500}
_ROUGH = 0.05  # accuracy of left eigenvectors: only their angle to the right ones is needed
_SWEEP = 2  # restarts of the Arnoldi iteration that looks for missed eigenvalues


@one_blas_thread
def spectral_gap(P: Any, kind: str = "right", *, stationary: Any = None) -> SpectralGap:
    r"""Return a spectral gap of the chain. If it cannot be computed reliably, return an upper
    bound.

    Parameters
    ----------
    P
        A matrix or an operator, as `transition` returns them.
    kind
        "right": 1 - max Re λ over all eigenvalues except the eigenvalue 1; this is η of [thmnojump]
        for a reversible chain.
        "absolute": 1 - max |λ|; it is 0 for a periodic chain.
        "singular": 1 - σ₂ of :math:`D^{1/2} P D^{-1/2}`; this is the gap to use for a chain that is
        not reversible, such as P_MHLJ. It equals the absolute gap if the chain is reversible.
    stationary
        The stationary law of P, if it is already known.

    Notes
    -----
    Small chains are solved by dense methods. If sparse factors are small (rings, grids, trees), the
    matrix is inverted. Otherwise Davidson's method is used; its preconditioner is the probability
    to leave each state, because states that are hard to leave cause small gaps. The residual is
    compared with the gap, not with 1. The iterations start from random vectors and from the states
    that are hardest to leave, and they also follow the second eigenvalue. Without sparse factors of
    a symmetric matrix it is unlikely, but possible, that an eigenvalue is missed.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(1000), lw.heterogeneous(1000, important=1)
    >>> trapped = lw.spectral_gap(lw.transition(network, problem, lw.weight_rw()))
    >>> free = lw.spectral_gap(lw.transition(network, problem, lw.unif_rw()))
    >>> trapped.value < free.value
    True
    >>> print(free)
    right spectral gap = 1.97391e-05 (dense, residual ...)
    >>> lw.spectral_gap(lw.transition(network, problem, lw.unif_rw()), kind="absolute").value
    0.0
    """
    checks.choice("kind", kind, KINDS)
    chain = as_chain(P)
    matrix = not isinstance(chain, LinearOperator)
    if kind == "absolute" and matrix and matrix_period(chain) > 1:
        return SpectralGap(0.0, kind, "period", 0.0, True, False, 0.0)
    law = given_or_solved(chain, stationary)
    if not (law > 0).all():
        raise InvalidParameter(
            "P's stationary law has masses that are too small for floating-point numbers, so its "
            "spectral gap cannot be computed"
        )
    symmetric = reversible(chain, law)
    if kind == "singular" and symmetric and matrix and matrix_period(chain) > 1:
        return SpectralGap(0.0, kind, "period", 0.0, True, False, 0.0)
    scaled: SymmetrisedChain = (
        SymmetrisedMatrix(chain, law, symmetric)
        if matrix
        else SymmetrisedOperator(chain, law, symmetric)
    )
    found = _gap(scaled, kind)
    if not found.trusted and found.method == "davidson" and scaled.allow_large_factors():
        found = _gap(scaled, kind)
    return found


def _gap(scaled: SymmetrisedChain, kind: str) -> SpectralGap:
    if scaled.symmetric and kind != "right":
        return _smaller([_symmetric(scaled, "right", kind), _symmetric(scaled, "left", kind)])
    if scaled.symmetric:
        return _symmetric(scaled, "right", kind)
    return _singular(scaled) if kind == "singular" else _unsymmetric(scaled, kind)


def _symmetric(scaled: SymmetrisedChain, side: str, kind: str) -> SpectralGap:
    """Return the smallest eigenvalue of I - S beyond √π, or that of I + S."""
    null = scaled.root if side == "right" else None
    if scaled.n <= SMALL:
        assert isinstance(scaled, SymmetrisedMatrix)
        return _dense_symmetric(scaled.made(side).toarray(), null, kind, squared=False)
    apply, _, diagonal = scaled.end(side)
    return _iterated(scaled, scaled.explicit(side), apply, diagonal, null, kind, squared=False)


def _singular(scaled: SymmetrisedChain) -> SpectralGap:
    if scaled.n <= SMALL:
        assert isinstance(scaled, SymmetrisedMatrix)
        return _dense_symmetric(
            scaled.made("squared").toarray(), scaled.root, "singular", squared=True
        )
    apply, diagonal = scaled.squared()
    return _iterated(
        scaled, scaled.explicit("squared"), apply, diagonal, scaled.root, "singular", squared=True
    )


def _iterated(
    scaled: SymmetrisedChain,
    matrix: Any,
    apply: Any,
    diagonal: Floats,
    null: Floats | None,
    kind: str,
    *,
    squared: bool,
) -> SpectralGap:
    """Find the smallest eigenvalue of a symmetric A; with sparse factors, check that none was
    missed.
    """
    solve = _inverse(matrix, null)
    method = "davidson" if solve is None else "shift-invert"
    pair = _smallest(apply, solve, diagonal, null, symmetric=True, most=_ITERATIONS[method])
    missed = False
    if solve is not None and pair.value.real > 0:
        shifted = sparse.csr_array(
            matrix - (1.0 - _MARGIN) * pair.value.real * sparse.eye_array(scaled.n)
        )
        factor = factorise(shifted)
        below = None if factor is None else factor.negatives()
        missed = below is not None and below > (null is not None)
    return _spectral_gap_of(
        pair.value.real, pair.residual, kind, method, squared=squared, missed=missed
    )


def _inverse(matrix: Any, null: Floats | None) -> Any:
    """Return x ↦ A⁻¹x by sparse factors, orthogonal to a null vector if there is one, or None."""
    if matrix is None:
        return None
    if null is None:
        factor = factorise(matrix)
        return None if factor is None else factor.solve
    try:
        return GroundedSolver(matrix, int(null.argmax())).solve
    except RuntimeError:
        return None


def _smallest(
    apply: Any,
    solve: Any,
    diagonal: Floats,
    null: Floats | None,
    *,
    symmetric: bool,
    most: int,
    start: Any = None,
    aim: float = AIM,
) -> Eigenpair:
    """Find the eigenvalue with the smallest real part, preconditioned by factors or by the
    diagonal.
    """

    def precondition(residue: Any, value: complex) -> Any:
        if solve is not None:
            return solve(residue.real) + (
                1j * solve(residue.imag) if np.iscomplexobj(residue) else 0.0
            )
        shift = diagonal - (value if np.iscomplexobj(residue) else value.real)
        small = 0.1 * np.maximum(abs(value), np.finfo(float).eps)
        return residue / np.where(np.abs(shift) < small, small, shift)

    first = (
        seeds(diagonal, 4)
        if start is None
        else np.column_stack((start.real, start.imag, seeds(diagonal, 0)))
    )
    if solve is not None:
        first = np.column_stack(
            (
                first,
                solve(first[:, 0] if null is None else first[:, 0] - null * (null @ first[:, 0])),
            )
        )
    return davidson(apply, precondition, first, null=null, symmetric=symmetric, most=most, aim=aim)


def _dense_symmetric(
    matrix: Floats, null: Floats | None, kind: str, *, squared: bool
) -> SpectralGap:
    small = matrix if null is None else _without(matrix, null)
    values, vectors = scipy.linalg.eigh(small, subset_by_index=[0, 0])
    residual = float(np.linalg.norm(small @ vectors[:, 0] - values[0] * vectors[:, 0]))
    return _spectral_gap_of(float(values[0]), residual, kind, "dense", squared=squared)


def _without(matrix: Floats, null: Floats) -> Floats:
    """Return the matrix on the orthogonal complement of ``null``, a left and right eigenvector."""
    mirror = null.copy()
    mirror[0] += np.copysign(1.0, null[0])
    mirror /= np.linalg.norm(mirror)  # I - 2mmᵀ takes the vector to the first axis
    work = matrix - 2.0 * np.outer(mirror, mirror @ matrix)
    work -= 2.0 * np.outer(work @ mirror, mirror)
    return np.asarray(work[1:, 1:])


def _spectral_gap_of(
    value: float,
    residual: float,
    kind: str,
    method: str,
    *,
    squared: bool = False,
    missed: bool = False,
) -> SpectralGap:
    """Turn an eigenvalue of A and its residual into a gap; a large residual makes it an upper
    bound.
    """
    value = max(value, 0.0)
    gap = (
        value / (1.0 + np.sqrt(max(1.0 - value, 0.0))) if squared else value
    )  # 1 - √(1-μ) without cancellation
    trusted = residual <= _TRUST * value and not missed
    return SpectralGap(float(gap), kind, method, residual, trusted, not trusted, float(gap))


def _smaller(gaps: list[SpectralGap]) -> SpectralGap:
    """Return the smaller gap; a bound unless both are trusted or the other is clearly larger."""
    least = min(gaps, key=lambda gap: gap.value)
    other = max(gaps, key=lambda gap: gap.value)
    sure = least.trusted and (other.trusted or other.value - other.residual > least.value)
    return SpectralGap(
        least.value, least.kind, least.method, least.residual, sure, not sure, least.estimate
    )


# ---- chains that are not reversible ------------------------------------------


def _unsymmetric(scaled: SymmetrisedChain, kind: str) -> SpectralGap:
    """Return 1 - max Re λ or 1 - max |λ| over all eigenvalues except the eigenvalue 1."""
    if scaled.n <= _SMALL_EIG:
        assert isinstance(scaled, SymmetrisedMatrix)
        return _dense_unsymmetric(scaled, kind)
    ends = [_one_end(scaled, "right")]
    value = ends[0].gap(kind)
    if kind == "absolute":  # no eigenvalue exceeds the second singular value
        below = _singular(scaled)
        if ends[0].sure(kind) and below.trusted and value - below.value <= _TRUST * value:
            return SpectralGap(value, kind, ends[0].method, ends[0].error, True, False, value)
        ends.append(_one_end(scaled, "left"))
    least = min(ends, key=lambda end: end.gap(kind))
    value = least.gap(kind)
    seen = _sweep(scaled, kind)
    sure = least.sure(kind) and all(end.sure(kind) or end.clear_of(value, kind) for end in ends)
    if sure and 1.0 - seen >= 0.95 * value - least.error:
        return SpectralGap(value, kind, least.method, least.error, True, False, value)
    return _bounded_by_trace(scaled, kind, least.method, least.error, min(value, 1.0 - seen))


def _bounded_by_trace(
    scaled: SymmetrisedChain, kind: str, method: str, error: float, estimate: float
) -> SpectralGap:
    """Return an upper bound of the gap: the largest eigenvalue is at least the mean."""
    mean = (scaled.trace() - 1.0) / (scaled.n - 1.0)
    bound = 1.0 - (mean if kind == "right" else max(mean, 0.0))
    return SpectralGap(bound, kind, method, error, False, True, estimate)


@dataclass(frozen=True)
class _SpectrumEnd:
    """An eigenvalue of P at one end of the spectrum, its residual, and the residual times its
    condition.
    """

    root: complex
    residual: float
    error: float
    method: str

    def gap(self, kind: str) -> float:
        return 1.0 - (self.root.real if kind == "right" else abs(self.root))

    def sure(self, kind: str) -> bool:
        return self.error <= _TRUST * self.gap(kind)

    def clear_of(self, value: float, kind: str) -> bool:
        """Return whether this eigenvalue, though known only roughly, cannot decide the gap."""
        return self.gap(kind) > 1.2 * value and self.residual <= 0.05 * self.gap(kind)


def _one_end(scaled: SymmetrisedChain, side: str) -> _SpectrumEnd:
    null = scaled.root
    apply, back, diagonal = scaled.end(side)
    matrix = scaled.explicit(side)
    solver: Any = None
    if matrix is not None:
        solver = (
            GroundedSolver(matrix, int(null.argmax())) if side == "right" else factorise(matrix)
        )
    method = "davidson" if solver is None else "shift-invert"
    most = _ITERATIONS[method]
    forth = None if solver is None else solver.solve
    pair = _smallest(apply, forth, diagonal, null, symmetric=False, most=most)
    adjoint = None if solver is None else (lambda x: solver.solve(x, transposed=True))
    left = _smallest(
        back,
        adjoint,
        diagonal,
        null,
        symmetric=False,
        most=most,
        start=np.conj(pair.vector),
        aim=_ROUGH,
    )
    overlap = max(
        abs(complex(np.vdot(left.vector, pair.vector))), abs(complex(left.vector @ pair.vector))
    )  # either of two conjugate eigenvectors will do
    same = abs(left.value.real - pair.value.real) <= max(
        0.01 * abs(pair.value), 10 * (left.residual + pair.residual)
    )
    condition = 1.0 / overlap if overlap > 0 and same else np.inf
    root = 1.0 - pair.value if side == "right" else pair.value - 1.0
    return _SpectrumEnd(root, pair.residual, pair.residual * condition, method)


def _sweep(scaled: SymmetrisedChain, kind: str) -> float:
    """Return the largest Re λ or |λ| of a short Arnoldi iteration, to notice eigenvalues that were
    missed.
    """
    forth, _, _ = scaled.end("right")
    null = scaled.root

    def apply(x: Floats) -> Floats:
        x = x - null * (null @ x)
        return np.asarray(x - forth(x))

    system = LinearOperator((scaled.n, scaled.n), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(1).standard_normal(scaled.n)
    try:
        values: AnyArray = eigs(
            system,
            k=2,
            which="LR" if kind == "right" else "LM",
            ncv=24,
            maxiter=_SWEEP,
            tol=1e-3,
            v0=start,
            return_eigenvectors=False,
        )
    except ArpackNoConvergence as stopped:
        values = np.asarray(stopped.eigenvalues)
    except ArpackError:
        return 0.0
    return float(np.max(values.real if kind == "right" else np.abs(values), initial=-1.0))


def _dense_unsymmetric(scaled: SymmetrisedMatrix, kind: str) -> SpectralGap:
    small = _without(scaled.made("right").toarray(), scaled.root)
    values = scipy.linalg.eigvals(small)
    chosen = complex(
        values[np.argmin(values.real)]
        if kind == "right"
        else values[np.argmax(np.abs(1.0 - values))]
    )
    gap = chosen.real if kind == "right" else 1.0 - abs(1.0 - chosen)
    error = _dense_error(small, chosen)
    if error <= _TRUST * gap:
        return SpectralGap(gap, kind, "dense", error, True, False, gap)
    return _bounded_by_trace(scaled, kind, "dense", error, gap)


def _dense_error(matrix: Floats, value: complex) -> float:
    """Return the residual of an eigenvalue times its condition, by inverse iteration from both
    sides.
    """
    n = len(matrix)
    complex_value = value if value.imag else value.real
    shifted = matrix - (
        complex_value + 1e-14 * max(1.0, np.abs(matrix).sum(axis=1).max())
    ) * np.eye(n)
    factors = scipy.linalg.lu_factor(shifted)
    start = np.random.default_rng(0).standard_normal(n)
    right, left = start, start
    for _ in range(3):
        right = scipy.linalg.lu_solve(factors, right)
        right = right / np.linalg.norm(right)
        left = scipy.linalg.lu_solve(factors, left, trans=2)
        left = left / np.linalg.norm(left)
    overlap = float(abs(np.vdot(left, right)))
    return float(np.linalg.norm(matrix @ right - complex_value * right)) / max(overlap, 1e-300)
