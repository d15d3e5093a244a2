"""Exact first and second moments of random-walk SGD for least squares; bounds are compared with
them.

With e = x - x*, A_v = I - γw(v)H_v and h_v = w(v)∇f_v(x*), an update at v is e ← A_v e - γh_v.
Therefore P(v_t = v), E[e 1{v_t = v}] and E[eeᵀ 1{v_t = v}] together obey a linear recursion. It has
one block of 1 + dim + dim² numbers per node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter, TooLarge
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.problem import LeastSquares, Problem
from levywalk.theory.chain.block_recursion import spread
from levywalk.theory.judge.closed_form import is_quadratic
from levywalk.theory.judge.quadratic_model import model_hessians, sample_curvatures
from levywalk.theory.judge.setting import TheoremSetting, make_setting, start_model
from levywalk.walks import Design

_ENTRIES = 4_000_000  # largest number of entries of the recursion's sparse matrix
_WORK = 2_000_000_000  # multiplications that take a few seconds
_DENSE = 800  # unknowns up to which powers are computed by squaring the dense matrix
_SHOWN = 12  # rows of a table in a notebook


@dataclass(frozen=True, repr=False)
class Moments:
    """Exact moments after some numbers of steps.

    Attributes
    ----------
    step
        The numbers of steps.
    error2
        E‖x - x*‖² after these steps.
    mean
        E x after these steps, one row each.
    """

    step: Ints
    error2: Floats
    mean: Floats

    def __repr__(self) -> str:
        return (
            f"Moments({len(self.step)} points up to step {int(self.step[-1]):,}, "
            f"E‖x - x*‖² = {float(self.error2[-1]):.4g} at the last)"
        )

    def _repr_html_(self) -> str:
        rows: list[list[object]] = [
            [int(step), float(error)] for step, error in zip(self.step, self.error2, strict=True)
        ]
        if len(rows) > _SHOWN:
            rows[_SHOWN - 1 : -1] = [["…", "…"]]
        return columns_html(["step", "E‖x - x*‖²"], rows, "Exact moments")


def exact_moments(
    network: Network,
    problem: Problem,
    design: Design,
    *,
    steps: int | Sequence[int],
    step_size: float | str = "theory",
    x0: Any = None,
    start: Any = None,
) -> Moments:
    """Compute E‖x^T - x*‖² and E x^T for least squares, exactly up to rounding.

    Parameters
    ----------
    network, problem, design, step_size
        As for `levywalk.run`; the step size is constant and the problem is least squares.
    steps
        T, or several values in increasing order.
    x0
        The first model, zeros by default.
    start
        The law of the first node; by default the stationary law of the chain.

    Raises
    ------
    TooLarge
        The recursion, with n(1 + dim + dim²) unknowns, needs more than some million entries.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(3), lw.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 2.0, 1.0])
    >>> exact_moments(
    ...     network, problem, lw.weight_rw(), steps=[0, 1, 50], step_size=0.1
    ... ).error2.round(6)
    array([1.  , 0.36, 0.  ])
    """
    setting = make_setting(network, problem, design, step_size)
    points = np.atleast_1d(np.asarray(steps, dtype=np.int64))
    if points.ndim != 1 or not points.size or points[0] < 0 or (np.diff(points) <= 0).any():
        raise InvalidParameter(
            f"steps must be an integer of at least 0 or an increasing list of them, got {steps!r}"
        )
    first = setting.law if start is None else np.asarray(start, dtype=np.float64)
    if first.shape != (problem.n,) or not (first >= 0).all() or not np.isclose(first.sum(), 1.0):
        raise InvalidParameter(
            f"start must be one probability per node with data ({problem.n} in all), got an array "
            f"of shape {first.shape}"
        )
    return recur(setting, points, start_model(problem, x0), first)


def affordable(setting: TheoremSetting, steps: int) -> bool:
    """Return whether the exact error after ``steps`` updates can be computed within seconds."""
    if not is_quadratic(setting.problem):
        return False
    width = 1 + setting.problem.dim + setting.problem.dim**2
    entries = setting.P.nnz * width**2
    return bool(
        entries <= _ENTRIES and (setting.problem.n * width <= _DENSE or entries * steps <= _WORK)
    )


def recur(setting: TheoremSetting, points: Ints, x0: Floats, start: Floats) -> Moments:
    """Run the recursion from x0 and the law of the first node to the steps in ``points``."""
    problem = require_least_squares(setting.problem)
    dim = problem.dim
    width = 1 + dim + dim**2
    if setting.P.nnz * width**2 > _ENTRIES:
        raise TooLarge(
            f"exact moments of {problem.n} nodes and {dim} dimensions need a matrix of "
            f"{setting.P.nnz * width**2:.1e} "
            f"entries, more than {_ENTRIES:.0e}; use fewer nodes or dimensions, or measure with "
            "lw.run"
        )
    matrix = spread(setting.P, _local_maps(setting, problem))
    error = x0 - setting.optimum
    block = np.concatenate([[1.0], error, np.outer(error, error).ravel()])
    state = np.outer(start, block).ravel()
    means, errors, done = [], [], 0
    for point in points.tolist():
        state = _advance(matrix, state, point - done)
        done = point
        total = state.reshape(problem.n, width).sum(axis=0)
        means.append(setting.optimum + total[1 : 1 + dim])
        errors.append(float(np.trace(total[1 + dim :].reshape(dim, dim))))
    return Moments(points, np.array(errors), np.array(means))


def _advance(matrix: Any, state: Floats, steps: int) -> Floats:
    if matrix.shape[0] > _DENSE or steps * matrix.nnz <= 20.0 * matrix.shape[0] ** 3:
        for _ in range(steps):
            state = matrix @ state
        return state
    power: Floats = matrix.toarray()
    while steps:
        if steps & 1:
            state = power @ state
        steps >>= 1
        if steps:
            power = power @ power
    return state


def _local_maps(setting: TheoremSetting, problem: LeastSquares) -> Floats:
    """Return the matrices, one per node, by which an update at v changes (1, e, eeᵀ)."""
    n, dim, gamma = problem.n, problem.dim, setting.step_size
    contraction = contractions(setting, problem)
    push = gamma * setting.weighted_gradients(setting.optimum)
    width = 1 + dim + dim**2
    maps = np.zeros((n, width, width))
    mean, second = slice(1, 1 + dim), slice(1 + dim, width)
    maps[:, 0, 0] = 1.0
    maps[:, mean, 0] = -push
    maps[:, mean, mean] = contraction
    maps[:, second, 0] = np.einsum("vi,vj->vij", push, push).reshape(n, dim * dim)
    cross = np.einsum("vik,vj->vijk", contraction, push) + np.einsum(
        "vi,vjk->vijk", push, contraction
    )
    maps[:, second, mean] = -cross.reshape(n, dim * dim, dim)
    maps[:, second, second] = squared(contraction)
    return maps


def require_least_squares(problem: Problem) -> LeastSquares:
    """Return the problem if its losses are those of least squares."""
    if not is_quadratic(problem):
        raise InvalidParameter(
            f"problem must be LeastSquares with its own loss and gradient for exact moments, got "
            f"{type(problem).__name__}: only quadratic losses have a closed recursion; measure "
            "with lw.run"
        )
    return cast(LeastSquares, problem)


def local_hessians(problem: LeastSquares) -> Floats:
    """Return the Hessian H_v of every f_v, ridge included: (n, dim, dim).

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0], [2.0]], [1.0, 2.0, 4.0], node=[0, 1, 1])
    >>> local_hessians(problem).ravel()
    array([2., 8.])
    """
    return model_hessians(problem, sample_curvatures(problem, np.zeros(problem.dim), 0.0))


def contractions(setting: TheoremSetting, problem: LeastSquares) -> Floats:
    """Return A_v = I - γw(v)H_v: (n, dim, dim)."""
    scale = (setting.step_size * setting.weights)[:, None, None]
    return np.asarray(np.eye(problem.dim) - scale * local_hessians(problem))


def squared(contraction: Floats) -> Floats:
    """Return A_v ⊗ A_v, which maps vec(S) to vec(A_v S A_v): (n, dim², dim²)."""
    n, dim, _ = contraction.shape
    products: Floats = np.einsum("vik,vjl->vijkl", contraction, contraction)
    return products.reshape(n, dim * dim, dim * dim)
