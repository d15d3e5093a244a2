"""The minimiser of a problem with any smooth loss, found numerically and checked by its
gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import NoMinimiser

if TYPE_CHECKING:
    from levywalk.problem.linear import GeneralizedLinear

_ITERATIONS = 2_000
_POLISH = 30
_DIFFERENCE = 1e-5  # step in z of the central differences for the second derivative
_ACCEPTED = 1e-8  # accepted norm of the gradient, relative to the sum of the local gradients' norms
_NULL = 1e-10  # a curvature below this fraction of the largest counts as 0


def minimise(problem: GeneralizedLinear) -> tuple[Floats, bool]:
    """Return a minimiser of f and whether it is unique, or raise `NoMinimiser`.

    L-BFGS finds an approximate minimiser. Newton steps then reduce the remaining gradient; they
    compute the curvature of the loss by differences of its slope. For a loss with several outputs
    only L-BFGS is used.
    """
    from scipy.optimize import minimize

    features, y, weights = problem.sorted_features, problem.sorted_targets, problem._weights
    outputs = problem.sample_loss.n_outputs

    def value(x: Floats) -> tuple[float, Floats]:
        z = problem._predictions(features, x)
        losses = float(weights @ problem._losses(z, y)) + 0.5 * problem.ridge * float(x @ x)
        return losses, gradient(x)

    def gradient(x: Floats) -> Floats:
        slopes = problem._slopes(problem._predictions(features, x), y)
        if outputs == 1:
            return (weights * slopes) @ features + problem.ridge * x
        return (features.T @ (weights[:, None] * slopes)).ravel() + problem.ridge * x

    start = np.zeros(problem.dim)
    options = {"maxiter": _ITERATIONS, "maxfun": 10 * _ITERATIONS, "ftol": 0.0, "gtol": 1e-13}
    found: Any = minimize(value, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    x = np.asarray(found.x, dtype=np.float64)
    unique = problem.ridge > 0.0
    if outputs == 1:
        x, unique = _polished(problem, x, gradient)
    scale = float(np.abs(weights).sum() * np.abs(features).max()) or 1.0
    left = float(np.linalg.norm(gradient(x)))
    if not np.isfinite(x).all() or not left <= _ACCEPTED * scale * max(
        1.0, float(np.linalg.norm(x))
    ):
        raise NoMinimiser(
            f"no minimiser of the {problem.kind} loss was found: a gradient of {left:.3g} is left "
            "after "
            f"{_ITERATIONS} iterations; the loss may have none without ridge: add a ridge, for "
            "example ridge=1e-3"
        )
    return x, unique


def _polished(problem: GeneralizedLinear, x: Floats, gradient: object) -> tuple[Floats, bool]:
    """Return x after Newton steps that reduce the gradient, and whether the minimiser is unique.

    It is unique if the curvature is positive in all directions.
    """
    assert callable(gradient)
    features, y, weights = problem.sorted_features, problem.sorted_targets, problem._weights
    unique = problem.ridge > 0.0
    for _ in range(_POLISH):
        z = features @ x
        slopes = problem._slopes(z + _DIFFERENCE, y) - problem._slopes(z - _DIFFERENCE, y)
        curvature = np.maximum(slopes / (2.0 * _DIFFERENCE), 0.0)
        hessian = features.T @ (features * (weights * curvature)[:, None]) + problem.ridge * np.eye(
            problem.dim
        )
        values, vectors = np.linalg.eigh(hessian)
        kept = values > _NULL * values[-1]
        unique = bool(kept.all())
        now = gradient(x)
        change = vectors[:, kept] @ ((vectors[:, kept].T @ now) / values[kept])
        trial = x - change
        if not np.linalg.norm(gradient(trial)) < np.linalg.norm(now):
            break
        x = trial
    return x, unique
