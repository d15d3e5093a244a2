"""Transition matrices that have been checked: rows, irreducibility, period and reversibility."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter

ROW_TOLERANCE = 1e-9
SMALL = 2_000  # states up to which an operator is converted to a matrix and dense methods are used
REVERSIBLE = 1e-10  # relative error up to which two opposite flows count as equal

Chain = Any  # a checked csr_array, or a LinearOperator with more than SMALL states


class ChainOperator(LinearOperator, ABC):
    """A transition matrix that is applied to vectors and whose entries are not stored.

    Attributes
    ----------
    matrix
        The matrix if it is sparse, so that exact methods can be used; else None.
    law
        The stationary law if the construction of the chain gives it; else None.
    stay
        Approximate values of P(v, v), which solvers use as a preconditioner.
    classes, period
        The number of classes of states that reach each other, and the period (0 with more than one
        class), if the construction of the chain gives them; else None.
    """

    matrix: sparse.csr_array | None = None
    law: Floats | None = None
    stay: Floats
    classes: int | None = None
    period: int | None = None

    def __init__(self, n: int) -> None:
        super().__init__(np.dtype(np.float64), (n, n))  # type: ignore[call-arg]

    @abstractmethod
    def _matvec(self, X: Floats) -> Floats:
        """Return PX."""

    @abstractmethod
    def _rmatvec(self, X: Floats) -> Floats:
        """Return PᵀX."""

    def _matmat(self, X: Floats) -> Floats:
        return np.asarray(self._matvec(X))

    def _rmatmat(self, X: Floats) -> Floats:
        return np.asarray(self._rmatvec(X))


def as_chain(P: Any) -> Chain:
    """Return P as a checked csr_array, or as it is if it is an operator with many states.

    The entries of an operator are not known, so only its row sums are checked.
    """
    if isinstance(P, ChainOperator) and P.matrix is not None:
        P = P.matrix
    if isinstance(P, LinearOperator):
        _require_square(tuple(P.shape))
        n = P.shape[0]
        if n > SMALL:
            rows = np.asarray(P.matvec(np.ones(n))).ravel()
            if not np.allclose(rows, 1.0, rtol=0.0, atol=ROW_TOLERANCE):
                raise InvalidParameter(
                    "P must have rows that are probabilities and sum to 1; see lw.transition"
                )
            return P
        P = P.matmat(np.eye(n))
    return as_matrix(P)


def as_matrix(P: Any) -> sparse.csr_array:
    """Return P as a csr_array; check that its rows are probabilities and that it is irreducible."""
    try:
        if sparse.issparse(P):
            given: Any = P
            matrix: Any = sparse.csr_array(given)
        else:
            matrix = sparse.csr_array(np.asarray(P, dtype=np.float64))
        matrix = matrix.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"P must be a square matrix of numbers, got {P!r:.80}; see lw.transition"
        ) from None
    _require_square(tuple(matrix.shape))
    if not (matrix.data >= 0).all() or not np.allclose(
        matrix.sum(axis=1), 1.0, rtol=0.0, atol=ROW_TOLERANCE
    ):
        raise InvalidParameter(
            "P must have rows that are probabilities and sum to 1; see lw.transition"
        )
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    matrix = narrow(matrix)
    pieces, _ = csgraph.connected_components(matrix, directed=True, connection="strong")
    if pieces > 1:
        raise InvalidParameter(
            f"P must be irreducible, but its states form {pieces} classes; "
            "a design on a connected network is irreducible unless all its jumps have the same "
            "even distance"
        )
    return matrix  # type: ignore[no-any-return]


def narrow(matrix: Any) -> Any:
    """Return the matrix with 32-bit indices if they suffice; scipy.csgraph and SuperLU would copy
    others.
    """
    short = matrix.indices.dtype == np.int32 and matrix.indptr.dtype == np.int32
    if short or matrix.nnz > np.iinfo(np.int32).max:
        return matrix
    parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return type(matrix)(parts, shape=matrix.shape)


def _require_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InvalidParameter(
            f"P must be a square matrix, got the shape {shape}; see lw.transition"
        )
    if shape[0] < 2:
        raise InvalidParameter(
            f"P must have at least 2 states, got {shape[0]}; with a single state there is no walk"
        )


def total_variation(p: Any, q: Any) -> float:
    """Return ½ Σ |p - q|, the largest difference between the probabilities of one event under two
    laws.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.total_variation([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    laws = []
    for name, value in (("p", p), ("q", q)):
        try:
            law = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"{name} must be probabilities that sum to 1, got {value!r:.80}"
            ) from None
        if (
            law.ndim != 1
            or not law.size
            or not (law >= 0).all()
            or not abs(law.sum() - 1.0) <= 1e-6
        ):
            raise InvalidParameter(
                f"{name} must be probabilities that sum to 1, got {value!r:.80}; divide by the sum"
            )
        laws.append(law)
    if laws[0].size != laws[1].size:
        raise InvalidParameter(
            f"p and q must have the same number of states, got {laws[0].size} and {laws[1].size}"
        )
    return float(np.abs(laws[0] - laws[1]).sum() / 2.0)


def period(P: Any) -> int:
    """Return the period, the greatest common divisor of the lengths of all cycles.

    The result is exact and takes one breadth-first search. A chain of period 2 alternates between
    two groups of nodes without end. UnifRW on a ring with an even number of nodes and without
    self-loops is an example.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.ring(6), lw.homogeneous(6), lw.unif_rw())
    >>> lw.period(P)
    2
    """
    chain = as_chain(P)
    if isinstance(chain, ChainOperator) and chain.period:
        return chain.period
    if isinstance(chain, LinearOperator):
        raise InvalidParameter(
            "P must be a matrix, because its entries give the period, and it is an operator; use "
            "form='matrix'"
        )
    return matrix_period(chain)


def matrix_period(matrix: sparse.csr_array) -> int:
    """Return the period of a checked chain."""
    if matrix.diagonal().any():
        return 1
    order, parent = csgraph.breadth_first_order(matrix, 0, directed=True)
    depth = sum_to_root(np.asarray(parent), np.ones(len(order)))
    rows = np.repeat(np.arange(len(order)), np.diff(matrix.indptr))
    cycles = np.unique(np.abs(depth[rows] + 1.0 - depth[matrix.indices])).astype(np.int64)
    return int(np.gcd.reduce(cycles))


def sum_to_root(parent: Ints, value: Floats) -> Floats:
    """Return the sum of ``value`` along the path from each node to the root, without the root.

    Pointers are doubled in every round, so a ring of a million nodes takes twenty rounds and
    rounding errors stay small.
    """
    nodes = np.arange(len(parent))
    up = np.where(parent < 0, nodes, parent)
    total = np.where(parent < 0, 0.0, value)
    while True:
        further = up[up]
        if np.array_equal(further, up):
            return np.asarray(total)
        total = total + total[up]
        up = further


def balanced_law(matrix: sparse.csr_array) -> Floats | None:
    """Return the law in detailed balance with a checked chain, or None if it is not reversible.

    Detailed balance along a spanning tree determines the law. All other edges are then checked.
    """
    n = matrix.shape[0]
    back = sparse.csr_array(matrix.T)
    back.sort_indices()
    forth = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
    if not (
        np.array_equal(forth.indptr, back.indptr) and np.array_equal(forth.indices, back.indices)
    ):
        return None  # some edge is used in one direction only
    rows = np.repeat(np.arange(n), np.diff(forth.indptr))
    _, parent = csgraph.breadth_first_order(forth, 0, directed=True)
    tree = parent[forth.indices] == rows  # the entry parent -> child
    climb = np.zeros(n)
    climb[forth.indices[tree]] = np.log(forth.data[tree]) - np.log(back.data[tree])
    height = sum_to_root(np.asarray(parent), climb)
    law = np.exp(height - height.max())
    law /= law.sum()
    if not (law > 0).all():
        return None  # some masses underflow: use another method
    flow, returned = law[rows] * forth.data, law[forth.indices] * back.data
    return law if (np.abs(flow - returned) <= REVERSIBLE * (flow + returned)).all() else None


def reversible(chain: Chain, law: Floats, tol: float = REVERSIBLE) -> bool:
    """Return whether a checked chain is in detailed balance with its law."""
    n = chain.shape[0]
    if isinstance(chain, LinearOperator):
        random = np.random.default_rng(0)
        for _ in range(
            3
        ):  # compare random flows; a chain that is not reversible agrees with probability 0
            x, y = random.random(n), random.random(n)
            forth, back = float(law * x @ chain.matvec(y)), float(law * y @ chain.matvec(x))
            if abs(forth - back) > tol * (forth + back) / np.sqrt(n):
                return False
        return True
    flow = sparse.csr_array(sparse.diags_array(law) @ chain)
    difference = sparse.csr_array(abs(flow - flow.T))
    total = sparse.csr_array(flow + flow.T)
    return bool(sparse.csr_array(difference - tol * total).max() <= 0.0)
