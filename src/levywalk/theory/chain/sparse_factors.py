"""Sparse factorisation: a forecast of the size of the factors, and solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from levywalk.arrays import Floats
from levywalk.theory.chain.stochastic_matrix import narrow

_OPERATIONS = 3e9  # sum of the squared widths of the profile: a few seconds
_MOST_OPERATIONS = 3e10  # the same where iterations have failed: about half a minute
_QUICK = 1e8  # the same for factors that are made for every region: tenths of a second
_FULL = 0.1  # share of entries that are not 0 from which a dense factorisation is faster
_MOST_FULL = 4_000  # states of such a matrix: 128 MB
_PLANAR = 4.5  # mean width over √n: up to 4/3 on a grid, 4 with jumps; the factors are much smaller
_LARGEST_PLANAR = 1.8e9  # entries of the profile times mean width over √n: a torus of 10⁶ nodes
_THIN = 32.0  # mean width up to which this order is used; minimum degree is slow at hubs

Solve = Callable[[Floats], Floats]


def low_fill(matrix: Any) -> bool:
    """Return whether sparse factors of the matrix are small, as for rings, grids, trees and small
    matrices.

    The profile in the reverse Cuthill-McKee order bounds the size of the factors. It is large for
    expanders.
    """
    return _fill_below(matrix, _OPERATIONS)


def possible_fill(matrix: Any) -> bool:
    """Return whether sparse factors are possible at all, where iterations have failed."""
    return _fill_below(matrix, _MOST_OPERATIONS)


def _fill_below(matrix: Any, operations: float) -> bool:
    if _is_tree(matrix) or mostly_full(matrix):
        return True
    width = _profile(matrix)
    share = float(width.mean()) / float(np.sqrt(len(width)))
    planar = share <= _PLANAR and float(width.sum()) * share <= _LARGEST_PLANAR
    return planar or float(width @ width) <= operations


def quick_fill(matrix: Any) -> bool:
    """Return whether sparse factors take tenths of a second, so that many can be made."""
    if _is_tree(matrix):
        return True
    width = _profile(matrix)
    return float(width @ width) <= _QUICK


def mostly_full(matrix: Any) -> bool:
    """Return whether a dense factorisation is faster than a sparse one."""
    n = int(matrix.shape[0])
    return 100 < n <= _MOST_FULL and int(matrix.nnz) >= _FULL * n * n


def full_solve(matrix: Any, right: Floats) -> Floats:
    """Solve by a dense factorisation."""
    return np.asarray(scipy.linalg.lu_solve(_dense_factors(matrix.toarray()), right))


def _profile(matrix: Any) -> Floats:
    return np.asarray(_widths(matrix, _order(matrix)), dtype=np.float64)


def _is_tree(matrix: Any) -> bool:
    n = int(matrix.shape[0])
    moves = int(matrix.nnz) - int(np.count_nonzero(matrix.diagonal()))
    return moves <= 2 * (n + 8)


def thin_order(matrix: Any, widest: int) -> tuple[Any, int] | None:
    """Return an order with bandwidth at most ``widest``, and the bandwidth, or None."""
    order = _order(matrix)
    width = int(_widths(matrix, order).max())
    return (order, width) if width <= widest else None


def _order(matrix: Any) -> Any:
    pattern = narrow(sparse.csr_array(matrix))
    return csgraph.reverse_cuthill_mckee(pattern, symmetric_mode=False)


def _widths(matrix: Any, order: Any) -> Any:
    """Return how far left of the diagonal each row reaches in the given order."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    pattern = sparse.coo_array(matrix)
    rows, columns = place[pattern.row], place[pattern.col]
    first = np.arange(len(order))
    np.minimum.at(first, np.maximum(rows, columns), np.minimum(rows, columns))
    return np.arange(len(order)) - first


class SparseFactors:
    """LU factors of a structurally symmetric matrix, with pivots on the diagonal.

    A matrix that is mostly full gets dense factors.
    """

    def __init__(self, matrix: Any) -> None:
        self._full: Any = matrix.toarray() if mostly_full(matrix) else None
        if self._full is not None:
            self._dense = _dense_factors(self._full)
            return
        order = _order(matrix)
        self._order = order if _widths(matrix, order).mean() <= _THIN else None
        work = narrow(sparse.csc_array(matrix))
        if self._order is not None:
            work = sparse.csc_array(work[self._order][:, self._order])
        self._lu: Any = splu(
            work,
            permc_spec="MMD_AT_PLUS_A" if self._order is None else "NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def solve(self, right: Floats, transposed: bool = False) -> Floats:
        """Return the solution for one right-hand side."""
        if self._full is not None:
            return np.asarray(
                scipy.linalg.lu_solve(self._dense, right, trans=1 if transposed else 0)
            )
        trans = "T" if transposed else "N"
        if self._order is None:
            return np.asarray(self._lu.solve(right, trans))
        result = np.empty_like(right)
        result[self._order] = self._lu.solve(right[self._order], trans)
        return result

    def negatives(self) -> int | None:
        """Return the number of negative eigenvalues of a symmetric matrix; None if pivots left the
        diagonal.
        """
        if self._full is not None:
            blocks = scipy.linalg.ldl(self._full)[1]
            roots = scipy.linalg.eigvalsh_tridiagonal(np.diag(blocks), np.diag(blocks, 1))
            return int((roots < 0).sum())
        if not np.array_equal(self._lu.perm_r, self._lu.perm_c):
            return None
        return int((self._lu.U.diagonal() < 0).sum())


def _dense_factors(matrix: Floats) -> Any:
    factors, pivots, info = scipy.linalg.lapack.dgetrf(matrix)
    if info > 0:
        raise RuntimeError("the matrix is singular")
    return factors, pivots


def factorise(matrix: Any) -> SparseFactors | None:
    """Return the factors, or None if elimination meets a zero pivot."""
    try:
        return SparseFactors(matrix)
    except RuntimeError:
        return None


class GroundedSolver:
    """A solver of the singular system Ax = b, A = I - P up to scaling; the solution is 0 at one
    state.
    """

    def __init__(self, matrix: Any, ground: int) -> None:
        self._keep = np.delete(np.arange(matrix.shape[0]), ground)
        self._matrix = sparse.csc_array(sparse.csr_array(matrix)[self._keep][:, self._keep])
        self._factor = SparseFactors(self._matrix)

    def solve(self, right: Floats, transposed: bool = False) -> Floats:
        """Return the solution that is 0 at the fixed state, after one step of refinement."""
        matrix = self._matrix.T if transposed else self._matrix
        part = right[self._keep]
        head = self._factor.solve(part, transposed)
        head += self._factor.solve(part - matrix @ head, transposed)
        result = np.zeros(len(right))
        result[self._keep] = head
        return result
