"""The minimiser of a problem with any smooth loss, found numerically and checked by its
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import NoMinimiser
from levywalk.problem.factor import row_space, triangle
from levywalk.problem.shortcuts import follows_its_loss
from levywalk.problem.sparse_features import combine_rows, is_sparse
from levywalk.problem.sparse_fit import has_full_rank
from levywalk.remedy import python_or_command

if TYPE_CHECKING:
    from levywalk.problem.linear import GeneralizedLinear

_ITERATIONS = 2_000
_POLISH = 30
_ROUGH = 200  # steps of L-BFGS before Newton steps by conjugate gradients …
_CG, _CG_STEPS = 1e-8, 1_000  # … and the accuracy and the steps of these
_HALVINGS = 8  # of a Newton step that does not reduce the gradient
_DIFFERENCE = 1e-5  # step in z of the central differences for the second derivative
_ACCEPTED = 1e-8  # accepted norm of the gradient, relative to the sum of the local gradients' norms
_NULL = 1e-10  # a curvature below this fraction of the largest counts as 0


def minimise(
    problem: GeneralizedLinear, weights: Floats | None = None, ridge: float | None = None
) -> tuple[Floats, bool]:
    """Return a minimiser of f and whether it is unique, or raise `NoMinimiser`.

    L-BFGS finds an approximate minimiser. Newton steps then reduce the remaining gradient; for a
    loss with several outputs, and for sparse features, conjugate gradients solve for them. With
    ``weights``, one per sorted sample, and ``ridge`` the minimiser is that of another weighted mean
    of the samples' losses.
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    features, y = problem.sorted_features, problem.sorted_targets
    weights = problem._weights if weights is None else weights
    ridge = problem.ridge if ridge is None else ridge
    outputs = problem.sample_loss.n_outputs

    def value(x: Floats) -> tuple[float, Floats]:
        z = problem._predictions(features, x)
        losses = float(weights @ problem._losses(z, y)) + 0.5 * ridge * float(x @ x)
        return losses, gradient(x)

    def gradient(x: Floats) -> Floats:
        slopes = problem._slopes(problem._predictions(features, x), y)
        if outputs == 1:
            return combine_rows(features, weights * slopes) + ridge * x
        return np.asarray((features.T @ (weights[:, None] * slopes)).ravel() + ridge * x)

    start = np.zeros(problem.dim)
    # Newton steps by conjugate gradients are cheaper than the last digits of L-BFGS.
    by_products = outputs > 1 or is_sparse(features)
    most, least = (_ROUGH, 1e-5) if by_products else (_ITERATIONS, 1e-13)
    options = {"maxiter": most, "maxfun": 10 * most, "ftol": 0.0, "gtol": least}
    # Products with few columns gain nothing from more threads, which disturb each other.
    with threadpool_limits(1, "blas") if outputs > 1 else nullcontext():
        found: Any = minimize(  # type: ignore[call-overload]
            value, start, jac=True, method="L-BFGS-B", options=options
        )
        x = np.asarray(found.x, dtype=np.float64)
        unique = ridge > 0.0
        if by_products:
            x = _polished_by_products(problem, x, gradient, weights, ridge)
        else:
            x, unique = _polished(problem, x, weights, ridge)
    if is_sparse(features) and not unique and outputs == 1:
        bends = np.maximum(curvatures_of(problem, problem._predictions(features, x), y), 0.0)
        unique = has_full_rank(features, weights * bends)
    scale = float(np.abs(weights).sum() * abs(features).max()) or 1.0
    left = float(np.linalg.norm(gradient(x)))
    if not np.isfinite(x).all() or not left <= _ACCEPTED * scale * max(
        1.0, float(np.linalg.norm(x))
    ):
        raise NoMinimiser(
            f"no minimiser of the {problem.kind} loss was found: a gradient of {left:.3g} is left "
            "after "
            f"{_ITERATIONS} iterations; the loss may have none without ridge: add a ridge, for "
            f"example {python_or_command('ridge=1e-3', '--ridge 0.001')}"
        )
    return x, unique


def _polished(
    problem: GeneralizedLinear, x: Floats, weights: Floats, ridge: float
) -> tuple[Floats, bool]:
    """Return x after Newton steps that reduce the gradient, and whether the minimiser is unique.

    It is unique if the curvature is positive in all directions. If there are fewer samples than
    dimensions, the steps are made in the span of the samples, which contains the minimiser.
    """
    features, y = problem.sorted_features, problem.sorted_targets
    basis = None
    if len(features) < problem.dim:
        basis = row_space(triangle(features, y, weights))
    if basis is not None:
        features, x = features @ basis, basis.T @ x

    def gradient(x: Floats) -> Floats:
        return np.asarray((weights * problem._slopes(features @ x, y)) @ features + ridge * x)

    unique = ridge > 0.0
    for _ in range(_POLISH):
        curvature = np.maximum(curvatures_of(problem, features @ x, y), 0.0)
        hessian = features.T @ (features * (weights * curvature)[:, None]) + ridge * np.eye(len(x))
        values, vectors = np.linalg.eigh(hessian)
        kept = values > _NULL * values[-1]
        unique = bool(kept.all()) and (basis is None or ridge > 0.0)
        now = gradient(x)
        change = vectors[:, kept] @ ((vectors[:, kept].T @ now) / values[kept])
        for halving in range(_HALVINGS):
            trial = x - change * 0.5**halving
            if np.linalg.norm(gradient(trial)) < np.linalg.norm(now):
                break
        else:
            break
        x = trial
    return x if basis is None else basis @ x, unique


def _polished_by_products(
    problem: GeneralizedLinear,
    x: Floats,
    gradient: Callable[[Floats], Floats],
    weights: Floats,
    ridge: float,
) -> Floats:
    """Return x after Newton steps that reduce the gradient, found by conjugate gradients.

    They need no matrix of dim x dim numbers, and they stay orthogonal to directions that change no
    prediction.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    features, y, loss = problem.sorted_features, problem.sorted_targets, problem.sample_loss
    outputs, first = loss.n_outputs, 0.0
    for _ in range(_POLISH):
        z = problem._predictions(features, x)

        def product(v: Floats, z: Floats = z) -> Floats:
            along = loss.curvature_product(z, y, problem._predictions(features, v))
            if outputs == 1:
                return np.asarray(combine_rows(features, weights * along) + ridge * v)
            return np.asarray((features.T @ (weights[:, None] * along)).ravel() + ridge * v)

        now = gradient(x)
        size = float(np.linalg.norm(now))
        if size == 0.0:
            break
        operator: Any = LinearOperator((len(x), len(x)), matvec=product, dtype=np.float64)
        first = first or size
        change, _ = cg(operator, now, rtol=max(_CG, min(0.1, size / first)), maxiter=_CG_STEPS)
        for halving in range(_HALVINGS):
            trial = x - change * 0.5**halving
            left = float(np.linalg.norm(gradient(trial)))
            if left < size:
                break
        else:
            break
        x = trial
        if left > 0.5 * size and size < _CG * first:
            break  # rounding
    return x


def curvatures_of(problem: GeneralizedLinear, z: Floats, y: Floats) -> Floats:
    """Return φ'': the loss's own, or differences of slopes where a subclass has its own slopes."""
    if follows_its_loss(problem):
        return problem.sample_loss.curvature(z, y)
    slopes = problem._slopes(z + _DIFFERENCE, y) - problem._slopes(z - _DIFFERENCE, y)
    return np.asarray(slopes / (2.0 * _DIFFERENCE))
