r"""The mean squared error of random-walk SGD with quadratic local losses, at every step.

With e = x - x*, the vector ẽ = (e, s) with a constant s, and h_v = w(v)∇f_v(x*), an update at v is
ẽ ← Ã_v ẽ, with the blocks I - γw(v)H_v, -γh_v/s, 0 and 1. Then Z_u = E[ẽẽᵀ 1{at u}] obeys

.. math:: Z_u(t+1) = \sum_v P(v,u)\, \tilde A_v Z_v(t) \tilde A_v^\top

and E‖x^t - x*‖² is the trace of Σ_u Z_u without its last entry. Nothing is left out: correlations
of the walk, its start, updates that overshoot, bias and noise are all in this recursion.

Going t steps needs no t products. Krylov's method finds, from m products, a recursion of m numbers
that continues the curve; how far is known from what the m vectors leave out. As fast modes die, the
curve is continued further and further: t steps take about √t products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from levywalk.arrays import Floats

_VECTORS = 40  # of one basis
_PER_DOUBLING = 8  # points of the curve between t and 2t
_CANCELLED = 0.1  # a new vector that shrinks to this share is made orthogonal once more
_OVERFLOW = 1e100
_FULL = 0.2  # share of entries from which the chain is a full matrix


class ErrorCurve:
    """The curve of E‖x^t - x*‖² for one step size.

    Parameters
    ----------
    P, law
        The chain (a sparse matrix) and its stationary law.
    hessians
        w(v)H_v: (n, dim, dim).
    gradients
        w(v)∇f_v(x*): (n, dim).
    step_size
        γ.
    error
        x⁰ - x*.
    start
        The law of the first node.
    """

    def __init__(
        self,
        P: Any,
        law: Floats,
        hessians: Floats,
        gradients: Floats,
        step_size: float,
        error: Floats,
        start: Floats,
    ) -> None:
        n, dim = gradients.shape
        size = float(np.linalg.norm(error)) or 1.0
        maps = np.zeros((n, dim + 1, dim + 1))
        maps[:, :dim, :dim] = np.eye(dim) - step_size * hessians
        maps[:, :dim, dim] = -step_size * gradients / size
        maps[:, dim, dim] = 1.0
        self._maps, self._back = maps, np.ascontiguousarray(maps.transpose(0, 2, 1))
        root = np.sqrt(law)
        # In the scale Z_v/√ν_v a reversible chain is a symmetric matrix.
        flow = sparse.csr_array(sparse.diags_array(1.0 / root) @ P.T @ sparse.diags_array(root))
        self._flow = flow.toarray() if flow.nnz > _FULL * n * n else flow
        self._upper = np.triu_indices(dim + 1)
        self._place = np.zeros((dim + 1, dim + 1), dtype=np.int64)
        self._place[self._upper] = np.arange(len(self._upper[0]))
        self._place = np.maximum(self._place, self._place.T).ravel()
        self._flat = self._upper[0] * (dim + 1) + self._upper[1]
        whole = np.append(error, size)
        self._first = np.outer(start / root, np.outer(whole, whole)[self._upper]).ravel()
        diagonal = (self._upper[0] == self._upper[1]) & (self._upper[0] < dim)
        self._trace = np.outer(root, diagonal.astype(np.float64)).ravel()

    def step(self, state: Floats) -> Floats:
        """Make one update and one move."""
        n, width, _ = self._maps.shape
        full = state.reshape(n, -1)[:, self._place].reshape(n, width, width)
        updated = (self._maps @ full @ self._back).reshape(n, width * width)[:, self._flat]
        return np.asarray(self._flow @ updated).ravel()

    def exactly(self, steps: int) -> Floats:
        """Return E‖x^t - x*‖² for t = 0, …, steps, step by step."""
        state, found = self._first, []
        for _ in range(steps + 1):
            found.append(float(self._trace @ state))
            state = self.step(state)
        return np.array(found)

    def pieces(self, tolerance: float) -> Iterator[tuple[Floats, Floats]]:
        """Continue the curve piece by piece: steps, and E‖x^t - x*‖² after these steps.

        Each piece adds an error of about ``tolerance`` at most.
        """
        state, done = self._first, 0.0
        scale = float(np.linalg.norm(self._trace))
        while np.abs(state).max() < _OVERFLOW:  # a step size that is too large diverges
            basis, small, left, size = self._krylov(state)
            reduced = basis @ self._trace
            times, values, last = _continued(small, left * scale * size, tolerance)
            yield done + times, size * (values @ reduced)
            state = size * (last @ basis)
            done += times[-1]

    def _krylov(self, state: Floats) -> tuple[Floats, Floats, float, float]:
        """Return an orthonormal basis, the recursion in this basis, the size of what it leaves out
        after one step, and the size of the state.
        """
        size = float(np.linalg.norm(state))
        basis = np.empty((_VECTORS + 1, len(state)))
        small = np.zeros((_VECTORS + 1, _VECTORS))
        basis[0] = state / size
        for j in range(_VECTORS):
            new = self.step(basis[j])
            before = float(np.linalg.norm(new))
            after = 0.0
            while after < _CANCELLED * before:  # at most twice: what rounding left is removed
                done = after > 0.0
                shares = basis[: j + 1] @ new
                new -= shares @ basis[: j + 1]
                small[: j + 1, j] += shares
                after = float(np.linalg.norm(new))
                if done or after == 0.0:
                    break
            if not after > 1e-13 * before:
                return basis[: j + 1], small[: j + 1, : j + 1], 0.0, size
            small[j + 1, j] = after
            basis[j + 1] = new / after
        return basis[:_VECTORS], small[:_VECTORS], float(small[_VECTORS, -1]), size


def _continued(small: Floats, left: float, tolerance: float) -> tuple[Floats, Floats, Floats]:
    """Continue u ← Hu from the first unit vector while what was left out stays below the tolerance.

    Return the steps, u after these steps, and u after the last.
    """
    m = len(small)
    u = np.zeros(m)
    u[0] = 1.0
    times, values, t, lost = [0.0], [u], 0, 0.0
    stride, power = 1, small
    while t < 2**40:
        for _ in range(_PER_DOUBLING if t else 2 * _PER_DOUBLING):
            after = power @ u
            lost += stride * left * abs(after[-1])
            if t + stride >= m and not lost <= tolerance:
                return np.array(times), np.array(values), values[-1]
            u, t = after, t + stride
            times.append(float(t))
            values.append(u)
        if not np.isfinite(u).all() or np.abs(u).max() > 1e6:
            break
        stride, power = 2 * stride, power @ power
    return np.array(times), np.array(values), values[-1]
