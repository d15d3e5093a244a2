"""A chain scaled to S = D^½ P D^-½ with D = diag(π), as a matrix or as an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from levywalk.arrays import Floats
from levywalk.theory.chain.sparse_factors import low_fill, possible_fill
from levywalk.theory.chain.stationary import generator
from levywalk.theory.chain.stochastic_matrix import Chain, ChainOperator


class SymmetrisedChain(ABC):
    """S and the matrices A that are built from it: I - S, I + S and I - SᵀS."""

    def __init__(self, chain: Chain, law: Floats, symmetric: bool) -> None:
        self.n = len(law)
        self.root = np.sqrt(law)
        self.chain, self.law, self.symmetric = chain, law, symmetric

    @abstractmethod
    def end(self, side: str) -> tuple[Any, Any, Floats]:
        """Return x ↦ Ax, x ↦ Aᵀx and A's diagonal, for A = I - S (right) or I + S (left)."""

    @abstractmethod
    def squared(self) -> tuple[Any, Floats]:
        """Return x ↦ (I - SᵀS)x and the diagonal."""

    def explicit(self, side: str) -> sparse.csr_array | None:
        """Return A as a matrix if its sparse factors are small; else None."""
        return None

    def allow_large_factors(self) -> bool:
        """Let `explicit` return a matrix whose factors take long; return whether that helps."""
        return False

    def trace(self) -> float:
        """Return the sum of all eigenvalues of S, or a lower bound of it."""
        return 0.0


class SymmetrisedMatrix(SymmetrisedChain):
    """A chain whose entries are known."""

    def __init__(self, chain: Chain, law: Floats, symmetric: bool) -> None:
        super().__init__(chain, law, symmetric)
        self._made: dict[str, sparse.csr_array] = {}
        self._cheap: bool | None = None

    def _scaled(self, matrix: sparse.csr_array) -> sparse.csr_array:
        scaled = sparse.diags_array(self.root) @ matrix @ sparse.diags_array(1.0 / self.root)
        return sparse.csr_array((scaled + scaled.T) / 2.0 if self.symmetric else scaled)

    def made(self, side: str) -> sparse.csr_array:
        """Return A. The diagonal of I - S is summed from the moves, so a small gap keeps its
        digits.
        """
        if side not in self._made:
            if side == "right":
                self._made[side] = self._scaled(generator(self.chain))
            elif side == "left":
                self._made[side] = self._scaled(
                    sparse.csr_array(sparse.eye_array(self.n) + self.chain)
                )
            else:  # P*P, the multiplicative reversibilisation, has the same stationary law
                flow = sparse.csr_array(sparse.diags_array(self.law) @ self.chain)
                star = sparse.diags_array(1.0 / self.law) @ flow.T
                scaled = sparse.diags_array(self.root) @ generator(
                    sparse.csr_array(star @ self.chain)
                )
                scaled = scaled @ sparse.diags_array(1.0 / self.root)
                self._made[side] = sparse.csr_array((scaled + scaled.T) / 2.0)
        return self._made[side]

    def end(self, side: str) -> tuple[Any, Any, Floats]:
        """Return x ↦ Ax, x ↦ Aᵀx and A's diagonal."""
        matrix = self.made(side)
        return matrix.dot, sparse.csr_array(matrix.T).dot, matrix.diagonal()

    def squared(self) -> tuple[Any, Floats]:
        """Return x ↦ (I - SᵀS)x and the diagonal."""
        if self.explicit("squared") is not None:
            matrix = self.made("squared")
            return matrix.dot, matrix.diagonal()
        forth = self.made("right")
        back = sparse.csr_array(forth.T)
        squares = forth.multiply(forth).sum(axis=0)

        def apply(x: Floats) -> Floats:  # I - SᵀS = A + Aᵀ - AᵀA with A = I - S: no cancellation
            once = forth @ x
            return np.asarray(once + back @ (x - once))

        return apply, np.asarray(2.0 * forth.diagonal() - squares)

    def explicit(self, side: str) -> sparse.csr_array | None:
        """Return A as a matrix if its sparse factors are small; else None."""
        if self._cheap is None:
            self._cheap = low_fill(self.chain)
        if not self._cheap:
            return None
        if side == "squared" and "squared" not in self._made and not low_fill(self.made("squared")):
            self._cheap = False
            return None
        return self.made(side)

    def allow_large_factors(self) -> bool:
        """Let `explicit` return a matrix whose factors take long; return whether that helps."""
        if self._cheap or not possible_fill(self.chain):
            return False
        self._cheap = True
        return True

    def trace(self) -> float:
        """Return the sum of the probabilities to stay."""
        return float(self.chain.trace())


class SymmetrisedOperator(SymmetrisedChain):
    """A chain that can only be applied to vectors."""

    def end(self, side: str) -> tuple[Any, Any, Floats]:
        """Return x ↦ Ax, x ↦ Aᵀx and A's diagonal."""
        sign = -1.0 if side == "right" else 1.0
        stay = self._stay()
        return (
            lambda x: x + sign * self._forth(x),
            lambda x: x + sign * self._back(x),
            np.maximum(1.0 + sign * stay, np.finfo(float).eps),
        )

    def squared(self) -> tuple[Any, Floats]:
        """Return x ↦ (I - SᵀS)x and the diagonal."""
        return lambda x: x - self._back(self._forth(x)), np.maximum(
            1.0 - self._stay() ** 2, np.finfo(float).eps
        )

    def _stay(self) -> Floats:
        return self.chain.stay if isinstance(self.chain, ChainOperator) else np.zeros(self.n)

    def _forth(self, x: Floats) -> Floats:
        return np.asarray(self.root * self.chain.matvec(x / self.root))

    def _back(self, x: Floats) -> Floats:
        return np.asarray(self.chain.rmatvec(x * self.root) / self.root)

    def trace(self) -> float:
        """Return the sum of the probabilities to stay."""
        return float(self._stay().sum())
