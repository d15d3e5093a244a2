"""Transition matrices that are applied to vectors and not stored: jumps and independent draws."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from levywalk.arrays import Floats
from levywalk.network import Network
from levywalk.theory.chain.stochastic_matrix import ChainOperator, sum_to_root
from levywalk.walks import JumpLaw, distance_law


def _column(values: Floats, X: Floats) -> Floats:
    """Return the values in a shape that multiplies each column of X."""
    return values[:, None] if X.ndim == 2 else values


def _two_sides(adjacency: sparse.csr_array) -> bool:
    """Return whether every edge joins a node at an odd and one at an even distance from node 0."""
    n = int(adjacency.shape[0])
    _, parent = csgraph.breadth_first_order(adjacency, 0, directed=False)
    odd = sum_to_root(np.asarray(parent), np.ones(n)) % 2
    rows = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    return bool((odd[rows] != odd[adjacency.indices]).all())


class IndependentDraws(ChainOperator):
    """1πᵀ: every node is drawn independently."""

    def __init__(self, law: Floats) -> None:
        super().__init__(len(law))
        self.law = law
        self.stay = law
        self.classes, self.period = 1, 1

    def _matvec(self, X: Floats) -> Floats:
        return np.asarray(np.ones(_column(self.stay, X).shape) * (self.stay @ X))

    def _rmatvec(self, X: Floats) -> Floats:
        return np.asarray(_column(self.stay, X) * X.sum(axis=0))


class MatrixOperator(ChainOperator):
    """A sparse matrix as an operator."""

    def __init__(self, matrix: sparse.csr_array, law: Floats | None) -> None:
        super().__init__(matrix.shape[0])
        self.matrix, self.law, self.stay = matrix, law, matrix.diagonal()
        self._back = matrix.T

    def _matvec(self, X: Floats) -> Floats:
        assert self.matrix is not None
        return np.asarray(self.matrix @ X)

    def _rmatvec(self, X: Floats) -> Floats:
        return np.asarray(self._back @ X)


class JumpOperator(ChainOperator):
    """(1-p_J) P_MH + p_J Σ qᵢ Wⁱ, applied one hop at a time."""

    def __init__(
        self,
        network: Network,
        adjacency: sparse.csr_array,
        mh: sparse.csr_array,
        p_jump: float,
        jump: JumpLaw,
        *,
        printed: bool,
    ) -> None:
        super().__init__(mh.shape[0])
        self._mh, self._mh_back = mh, mh.T
        self._adjacency = adjacency
        self._share = 1.0 / network.degree
        self._p_jump = p_jump
        self._distance = np.asarray(distance_law(jump), dtype=np.float64)
        self._walks: list[Floats] | None = None
        if printed:
            self._adjacency = sparse.csr_array(self._adjacency / float(network.degree.max()))
            self._walks = [np.asarray(self._adjacency.sum(axis=1), dtype=np.float64)]  # Aⁱ1, scaled
            for _ in self._distance[1:]:
                self._walks.append(self._adjacency @ self._walks[-1])
        self.stay = (1.0 - p_jump) * mh.diagonal() + p_jump * self._returns()
        self.classes, self.period = self._structure(network)

    def _structure(self, network: Network) -> tuple[int, int]:
        """Return the number of classes and the period of a walk on a connected network.

        All moves can be made in both directions, so the period is 1 or 2. A jump of two hops may
        return, and then the period is 1. Otherwise the moves contain all edges, and the period is 2
        only if the network has two sides and no move stays.
        """
        lengths = 1 + np.flatnonzero(self._distance)
        even = bool((lengths % 2 == 0).any())
        sides = _two_sides(self._adjacency)
        if self._p_jump == 1.0 and not (lengths % 2).any():
            return (2, 0) if sides else (1, 1)
        stays = self._p_jump < 1.0 and bool(self._mh.diagonal().any())
        return 1, 1 if even or stays or not sides else 2

    def _returns(self) -> Floats:
        """Return the probability that a jump of one or two hops ends where it began."""
        loops = self._share * (self._adjacency.diagonal() > 0)
        back = (
            self._share * (self._adjacency @ self._share)
            if self._walks is None
            else np.zeros(self.shape[0])
        )  # W²(v,v) = Σ_u W(v,u) W(u,v)
        return np.asarray(self._distance[0] * loops + self._distance[1:2].sum() * back)

    def _matvec(self, X: Floats) -> Floats:
        total = np.zeros_like(X, dtype=np.float64)
        if self._walks is None:
            share = _column(self._share, X)
            for probability in self._distance[::-1]:  # Horner's scheme
                total = share * (self._adjacency @ (probability * X + total))
        else:
            power = X
            for probability, walks in zip(self._distance, self._walks, strict=True):
                power = self._adjacency @ power
                total += probability * power / _column(walks, X)
        return np.asarray((1.0 - self._p_jump) * (self._mh @ X) + self._p_jump * total)

    def _rmatvec(self, X: Floats) -> Floats:
        total = np.zeros_like(X, dtype=np.float64)
        if self._walks is None:
            share = _column(self._share, X)
            for probability in self._distance[::-1]:
                total = self._adjacency @ (share * (probability * X + total))
        else:
            for probability, walks in zip(self._distance[::-1], self._walks[::-1], strict=True):
                total = self._adjacency @ (probability * X / _column(walks, X) + total)
        return np.asarray((1.0 - self._p_jump) * (self._mh_back @ X) + self._p_jump * total)
