"""Solve z_u = Σ_v P(v,u) B_v z_v + r_u, the equation for the limit of a linear recursion along a
chain.

The unknowns are n blocks. Systems of moderate size are factorised. Larger ones are solved by GMRES
with two preconditioners: the chain alone (one scalar factorisation for all entries of a block) and
the one slow direction, ν ⊗ c. The residual is always checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigs, gmres, splu

from levywalk import checks
from levywalk.arrays import Floats

_DIRECT_FILL = 15_000_000  # largest number of entries of the factors, by the bandwidth
_CHAIN_FILL = 500_000  # the same for the preconditioner, whose solutions must be cheap
_DENSE = 1_200  # unknowns up to which a spectral radius is computed from all eigenvalues
_RESIDUAL = 1e-9  # relative to the right-hand side
_CYCLES = 40  # GMRES cycles of 40 products each


@dataclass(frozen=True)
class BlockRecursion:
    """The recursion z ← (B_v at every node, then one move of the chain).

    Attributes
    ----------
    P, law
        The chain and its stationary law.
    width
        The size of a block.
    local
        Maps an array of shape (n, width) to the same shape: B_v applied to every row.
    maps
        Returns all B_v as an array of shape (n, width, width); called only for small systems.
    shift
        δ_v in (0, 1], the average contraction of B_v, used by the preconditioner only.
    coarse
        Σ_v ν_v (I - B_v), an array of shape (width, width).
    """

    P: Any
    law: Floats
    width: int
    local: Callable[[Floats], Floats]
    maps: Callable[[], Floats]
    shift: Floats
    coarse: Floats

    @property
    def n_unknowns(self) -> int:
        """The number of unknowns."""
        return len(self.law) * self.width

    def step(self, z: Floats) -> Floats:
        """Apply the recursion once."""
        return np.asarray(self.P.T @ self.local(z))

    def solve(self, right: Floats) -> tuple[Floats, float, str] | None:
        """Return the fixed point of z = step(z) + right, its relative residual and the method, or
        None.
        """
        size = float(np.linalg.norm(right))
        if size == 0.0:
            return np.zeros_like(right), 0.0, "exact"
        for method in self._methods():
            z = method(right)
            residual = float(np.linalg.norm(right - (z - self.step(z)))) / size
            if residual <= _RESIDUAL:
                return z, residual, "direct" if method == self._direct else "gmres"
        return None

    def _methods(self) -> list[Callable[[Floats], Floats]]:
        small = self._fill() * self.width**2 <= _DIRECT_FILL
        return [self._direct, self._gmres] if small else [self._gmres]

    def _fill(self) -> int:
        """Return n times the bandwidth of the reordered chain, a bound for its factors."""
        n = len(self.law)
        if self.P.nnz > 50 * n:
            return n * n
        pattern = sparse.csr_array(self.P + self.P.T)
        place = np.empty(n, dtype=np.int64)
        place[csgraph.reverse_cuthill_mckee(pattern, symmetric_mode=True)] = np.arange(n)
        entries = sparse.coo_array(pattern)
        return n * int(np.abs(place[entries.row] - place[entries.col]).max())

    def _direct(self, right: Floats) -> Floats:
        matrix = spread(self.P, self.maps())
        system = sparse.csc_array(sparse.eye_array(self.n_unknowns) - matrix)
        solver = splu(system)
        z = solver.solve(right.ravel())
        z += solver.solve(right.ravel() - system @ z)
        return np.asarray(z).reshape(right.shape)

    def _gmres(self, right: Floats) -> Floats:
        shape, count = right.shape, self.n_unknowns

        def product(z: Floats) -> Floats:
            blocks = z.reshape(shape)
            return np.asarray(blocks - self.step(blocks)).ravel()

        chain = self._chain_solver()

        def precondition(r: Floats) -> Floats:
            blocks = chain(r.reshape(shape))
            rest = (r - product(blocks)).reshape(shape).sum(axis=0)
            return np.asarray(
                blocks + np.outer(self.law, np.linalg.solve(self.coarse, rest))
            ).ravel()

        system = LinearOperator((count, count), matvec=product, dtype=np.float64)
        inverse = LinearOperator((count, count), matvec=precondition, dtype=np.float64)
        z, _ = gmres(
            system, right.ravel(), rtol=0.1 * _RESIDUAL, restart=40, maxiter=_CYCLES, M=inverse
        )
        return np.asarray(z).reshape(shape)

    def _chain_solver(self) -> Callable[[Floats], Floats]:
        """Return r ↦ (I - Pᵀ(1-δ))⁻¹ r, or the identity if the factors would be too large."""
        if self._fill() > _CHAIN_FILL:
            return lambda r: r
        solver = splu(
            sparse.csc_array(
                sparse.eye_array(len(self.law)) - self.P.T @ sparse.diags_array(1.0 - self.shift)
            )
        )
        return lambda r: np.asarray(solver.solve(r))

    def radius(self) -> float | None:
        """Return the spectral radius of the recursion, or None if it cannot be computed."""
        if self.n_unknowns <= _DENSE:
            return float(np.abs(np.linalg.eigvals(spread(self.P, self.maps()).toarray())).max())
        shape = (len(self.law), self.width)

        def product(z: Floats) -> Floats:
            return self.step(np.asarray(z).reshape(shape)).ravel()

        system = LinearOperator(
            (self.n_unknowns, self.n_unknowns), matvec=product, dtype=np.float64
        )
        start = np.random.default_rng(0).standard_normal(self.n_unknowns)
        try:
            values = eigs(system, k=1, which="LM", tol=1e-8, v0=start, return_eigenvectors=False)
        except (ArpackError, ArpackNoConvergence):
            return None
        return float(np.abs(values).max())


def spread(P: Any, maps: Floats) -> sparse.csr_array:
    """Return the sparse matrix with the block P(v, u) · maps[v] in row u and column v.

    It applies a local map at every node and then moves by the chain.

    Examples
    --------
    >>> spread(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]), np.array([[[2.0]], [[3.0]]])).toarray()
    array([[0., 3.],
           [2., 0.]])
    """
    flow = sparse.coo_array(P)
    width = maps.shape[1]
    inner = np.arange(width)
    rows = (flow.col[:, None, None] * width + inner[None, :, None]) + 0 * inner[None, None, :]
    columns = (flow.row[:, None, None] * width + inner[None, None, :]) + 0 * inner[None, :, None]
    values = flow.data[:, None, None] * maps[flow.row]
    size = checks.integer("size", P.shape[0] * width)
    matrix = sparse.csr_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(size, size))
    matrix.eliminate_zeros()
    return matrix
