"""The quadratic model of local losses: exact for least squares, a secant for other losses.

A forecast follows the model from x⁰ to x*. Logistic regression and other losses have another
curvature at every point of this way. The model replaces it by its mean over the part of the way
that is nearest to x*: from x* to x* + s(x⁰ - x*). As the distance shrinks at an even rate in
log ‖x - x*‖, from 1 to the square root of the accuracy ε, its mean is s = (1 - √ε)/log(1/√ε). At
both ends of this part the model has the true gradients.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem import GeneralizedLinear, Problem, is_sparse
from levywalk.problem.sparse_features import dense_features, sparse_row_squares
from levywalk.theory.judge.closed_form import is_logistic, is_quadratic


def reach(accuracy: float) -> float:
    """Return s, the share of the way from x* to x⁰ over which curvature is averaged.

    Examples
    --------
    >>> round(reach(0.01), 3)
    0.391
    """
    root = float(np.sqrt(accuracy))
    return 1.0 if root >= 1.0 else (1.0 - root) / float(np.log(1.0 / root))


def sample_curvatures(problem: Problem, optimum: Floats, share: float) -> Floats:
    """Return, for each sample, the mean second derivative of its loss in aᵀx between x* and
    (1 - share)x*. It is defined for losses that state their curvature (`closed_form`).

    ``share`` 0 is x* itself.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Logistic([[1.0], [2.0], [1.0]], [0, 1, 1], ridge=0.1)
    >>> sample_curvatures(problem, np.zeros(1), 1.0)
    array([0.25, 0.25, 0.25])
    """
    linear = cast(GeneralizedLinear, problem)
    if is_quadratic(problem):
        return np.full(linear.n_samples, 2.0)
    ends: Floats = linear.sorted_features @ optimum
    if not is_logistic(problem):
        return _secants(linear, ends, share * ends)
    sigmoid = 1.0 / (1.0 + np.exp(-ends))
    local = sigmoid * (1.0 - sigmoid)
    way = share * ends
    far = np.abs(way) > 1e-4  # on a shorter way the second derivative does not change
    other = 1.0 / (1.0 + np.exp(-(ends - way)))
    return np.where(far, (sigmoid - other) / np.where(far, way, 1.0), local)


def _secants(problem: GeneralizedLinear, ends: Floats, way: Floats) -> Floats:
    """Return the mean of φ'' between z* and z* - way, for each sample."""
    loss, y = problem.sample_loss, problem.sorted_targets
    far = np.abs(way) > 1e-4
    change = loss.slope(ends, y) - loss.slope(ends - way, y)
    return np.where(far, change / np.where(far, way, 1.0), loss.curvature(ends, y))


def model_hessians(problem: Problem, curvatures: Floats) -> Floats:
    """Return the Hessian of every node in the model, ridge included: (n, dim, dim)."""
    linear = cast(GeneralizedLinear, problem)
    a, offsets = dense_features(linear.sorted_features), linear.offsets
    products = np.einsum("s,si,sj->sij", curvatures, a, a)
    if linear.n_samples != linear.n:
        products = np.add.reduceat(products, offsets[:-1], axis=0) / np.diff(offsets)[:, None, None]
    return np.asarray(products + linear.ridge * np.eye(linear.dim))


def model_smoothness(problem: Problem, curvatures: Floats) -> Floats:
    """Return an upper bound of the largest curvature of every node in the model, never above L_v.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Logistic([[1.0], [2.0]], [0, 1], ridge=0.1)
    >>> model_smoothness(problem, np.array([0.25, 0.1])), problem.smoothness
    (array([0.35, 0.5 ]), array([0.35, 1.1 ]))
    """
    linear = cast(GeneralizedLinear, problem)
    a = linear.sorted_features
    each = sparse_row_squares(a) if is_sparse(a) else np.einsum("si,si->s", a, a)
    squares = curvatures * each
    traces = np.add.reduceat(squares, linear.offsets[:-1]) / np.diff(linear.offsets)
    return np.minimum(traces + linear.ridge, np.asarray(linear.smoothness))
