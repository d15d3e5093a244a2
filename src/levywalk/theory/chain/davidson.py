"""The smallest eigenvalue of a large matrix by Davidson's method.

One subspace iteration serves every chain that is too large for dense methods. A residual is turned
into a new direction by sparse factors (the subspace is then that of shift-and-invert) or by the
diagonal. In both cases the Ritz values come from the matrix itself. An inexact preconditioner
therefore costs time, and the result stays correct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from levywalk.arrays import AnyArray, Floats

_LARGEST = 20  # vectors in the subspace; each takes 16n bytes
_KEPT = 6  # Ritz vectors that are kept at a restart
AIM = 1e-6  # residual relative to the eigenvalue
_SECOND = 0.05  # accuracy of the second eigenvalue, which shows that the first is the smallest
_FLOOR = 2e-15  # rounding errors keep residuals above this

Apply = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Eigenpair:
    """An approximate eigenvalue, its unit vector, the norm of the residual and the number of
    iterations.
    """

    value: complex
    vector: AnyArray
    residual: float
    iterations: int


def davidson(
    apply: Apply,
    precondition: Callable[[AnyArray, complex], AnyArray],
    start: Floats,
    *,
    null: Floats | None,
    symmetric: bool,
    most: int,
    aim: float = AIM,
) -> Eigenpair:
    """Find the eigenvalue with the smallest real part, orthogonal to ``null``, a left and right
    null vector.

    Parameters
    ----------
    apply
        x ↦ Ax. A is positive semidefinite, or its spectrum lies in the right half-plane.
    precondition
        (r, θ) ↦ an approximation of (A - θ)⁻¹ r.
    start
        The first vectors of the subspace, an array of shape (n, k).
    null
        The null vector, or None.
    symmetric
        Whether A is symmetric.
    most
        The largest number of iterations.
    aim
        The residual to reach, relative to the eigenvalue. If it is large, the second eigenvalue is
        not followed.
    """
    space = _Subspace(apply, start, null, symmetric)
    best = space.pair(0)
    for iteration in range(most):
        followed = best
        if _settled(best, aim):
            second = space.pair(1) if space.size > 2 and aim < _SECOND else None
            if second is None or _settled(second, _SECOND):
                break
            followed = second
        direction = precondition(followed.residue, followed.value)
        space.expand(direction)
        best = space.pair(0)
        best.iterations = iteration + 1
    return Eigenpair(best.value, best.vector, best.residual, best.iterations)


def _settled(pair: _RitzPair, aim: float) -> bool:
    return pair.residual <= max(aim * abs(pair.value.real), _FLOOR)


@dataclass
class _RitzPair:
    value: complex
    vector: AnyArray
    residue: AnyArray
    residual: float
    iterations: int = 0


class _Subspace:
    """An orthonormal basis V with AV and VᵀAV."""

    def __init__(self, apply: Apply, start: Floats, null: Floats | None, symmetric: bool) -> None:
        n = start.shape[0]
        room = min(_LARGEST, n - (null is not None))
        self._apply, self._null, self._symmetric = apply, null, symmetric
        self._basis = np.zeros((n, room), order="F")
        self._image = np.zeros((n, room), order="F")
        self._matrix = np.zeros((room, room))
        self._previous: AnyArray | None = None
        self._solved: tuple[AnyArray, AnyArray] | None = (
            None  # the solved small eigenproblem, until the subspace changes
        )
        self.size = 0
        for vector in start.T:
            self._append(vector)

    def _append(self, vector: Floats) -> None:
        """Add the part of the vector that is orthogonal to the basis; add nothing if that part is
        zero.
        """
        k = self.size
        if k == self._basis.shape[1]:
            return
        basis = self._basis[:, :k]
        before = np.linalg.norm(vector)
        if not np.isfinite(before) or before == 0.0:
            return
        new = vector / before
        for _ in range(3):
            if self._null is not None:
                new = new - (self._null @ new) * self._null
            if k:
                new = new - basis @ (basis.T @ new)
            norm = np.linalg.norm(new)
            if norm < 1e-10:
                return
            new /= norm
            if norm > 0.7:
                break
        image = self._apply(new)
        self._basis[:, k], self._image[:, k] = new, image
        self._matrix[: k + 1, k] = self._basis[:, : k + 1].T @ image
        self._matrix[k, :k] = self._matrix[:k, k] if self._symmetric else new @ self._image[:, :k]
        self.size, self._solved = k + 1, None

    def expand(self, direction: AnyArray) -> None:
        """Add a direction, a complex one as two vectors; restart if the subspace is full."""
        room = self._basis.shape[1]
        if self.size + 2 > room and room == _LARGEST:
            self._restart()
        before = self.size
        self._previous = self._ritz()[1][:, 0]
        self._append(np.ascontiguousarray(direction.real))
        if np.iscomplexobj(direction):
            self._append(np.ascontiguousarray(direction.imag))
        if self.size == before and self.size < self._basis.shape[1]:
            self._append(np.random.default_rng(before).standard_normal(len(direction)))

    def _ritz(self) -> tuple[AnyArray, AnyArray]:
        if self._solved is None:
            small = self._matrix[: self.size, : self.size]
            if self._symmetric:
                self._solved = scipy.linalg.eigh((small + small.T) / 2.0)
            else:
                values, vectors = scipy.linalg.eig(small)
                order = np.lexsort((-values.imag, values.real))
                self._solved = values[order], vectors[:, order]
        return self._solved

    def _restart(self) -> None:
        """Keep the best Ritz vectors and the best one of the iteration before."""
        _, vectors = self._ritz()
        kept: list[AnyArray] = [vectors[:, i] for i in range(min(_KEPT, self.size))]
        if self._previous is not None:
            kept.append(np.pad(self._previous, (0, self.size - len(self._previous))))
        parts = np.column_stack([part for vector in kept for part in (vector.real, vector.imag)])
        q, r, _ = scipy.linalg.qr(parts, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(r)) > 1e-8).sum())
        turn = q[:, :rank]
        k = self.size
        self._basis[:, :rank] = self._basis[:, :k] @ turn
        self._image[:, :rank] = self._image[:, :k] @ turn
        self._matrix[:rank, :rank] = turn.T @ self._matrix[:k, :k] @ turn
        self.size, self._previous, self._solved = rank, None, None

    def pair(self, which: int) -> _RitzPair:
        """Return a Ritz pair; two complex conjugates count as one."""
        values, vectors = self._ritz()
        if which and abs(complex(values[0]).imag) > 0:
            which += 1
        which = min(which, self.size - 1)
        value, y = complex(values[which]), vectors[:, which]
        vector = self._basis[:, : self.size] @ y
        residue = self._image[:, : self.size] @ y
        residue = residue - (value if np.iscomplexobj(residue) else value.real) * vector
        if self._null is not None:
            residue = residue - (self._null @ residue) * self._null
        if np.iscomplexobj(vector) and value.imag == 0.0:
            vector, residue = vector.real, residue.real
        size = float(np.linalg.norm(vector))
        return _RitzPair(
            value, vector / size, residue / size, float(np.linalg.norm(residue)) / size
        )


def seeds(diagonal: Floats, count: int) -> Floats:
    """Return the first vectors: random ones, and one for each of the states that are hardest to
    leave.
    """
    n = len(diagonal)
    random = np.random.default_rng(20240229)
    vectors: list[Any] = [
        random.standard_normal(n),
        random.standard_normal(n) / np.maximum(diagonal, 1e-12),
    ]
    for v in np.argsort(diagonal, kind="stable")[:count]:
        vectors.append(np.zeros(n))
        vectors[-1][v] = 1.0
    return np.column_stack(vectors)
