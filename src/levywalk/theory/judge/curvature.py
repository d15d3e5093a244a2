"""The curvature of a weighted mean of local losses, and the zero of its gradient.

Losses that state their second derivative have a Hessian in closed form. Every other problem is
asked for its gradients: its Hessian comes from finite differences, whose error is estimated, and
the zero from Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter, TooLarge
from levywalk.problem import GeneralizedLinear, Problem, factor, fit, has_l1, logistic_fit
from levywalk.problem.sparse_features import dense_features, is_sparse
from levywalk.problem.sparse_fit import sparse_hessian
from levywalk.remedy import python_or_command
from levywalk.theory.judge.closed_form import (
    has_batch_gradients,
    has_curvature,
    is_logistic,
    is_quadratic,
)
from levywalk.theory.judge.quadratic_model import sample_curvatures

CLOSED_FORM = "closed form"
FINITE_DIFFERENCES = "finite differences"
_STEPS = (1e-3, 1e-4, 1e-5)  # of the finite differences, relative to the largest entry of x
_AGREEMENT = 1e-6  # largest relative change of the differences when the step is halved
_SYMMETRY = 1e-5  # largest relative asymmetry of a Hessian
_FLAT = 1e-10  # a minimum is not unique if smallest / largest eigenvalue is below this
_ZERO = 1e-9  # a mean gradient counts as zero below this share of the nodes' gradients
_AIM = 1e-13  # the share at which Newton's method stops
_ITERATIONS = 50
_HALVINGS = 40
_MOST_GRADIENTS = 20_000_000  # calls of local_gradient for one Hessian, which take minutes

Gradient = Callable[[Floats], Floats]


def local_gradients(problem: Problem, x: Floats) -> Floats:
    """Return the gradients of all f_v at x as rows.

    Examples
    --------
    >>> import levywalk as lw
    >>> local_gradients(lw.LeastSquares([[1.0], [1.0]], [0.0, 2.0]), np.array([1.0]))
    array([[ 2.],
           [-2.]])
    """
    refuse_l1(problem)
    if has_batch_gradients(problem):
        return cast(GeneralizedLinear, problem).local_gradients(x)
    return np.array([problem.local_gradient(v, x) for v in range(problem.n)], dtype=np.float64)


def refuse_l1(problem: Problem) -> None:
    """Refuse a problem with an l1 penalty, whose steps are no linear function of the error.

    Examples
    --------
    >>> import levywalk as lw
    >>> refuse_l1(lw.LeastSquares([[1.0], [1.0]], [0.0, 2.0], l1=0.1))
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: problem has an l1 penalty (l1 = 0.1), ...
    """
    if has_l1(problem):
        raise InvalidParameter(
            f"problem has an l1 penalty (l1 = {problem.l1:g}), "  # type: ignore[attr-defined]
            "for which theory knows the walk, the smoothness and the optimum, but neither floors "
            f"nor forecasts: a soft threshold is not smooth at 0; {_measured()}"
        )


def hessian_method(problem: Problem) -> str:
    """Return how `mean_hessian` computes: "closed form" or "finite differences"."""
    return CLOSED_FORM if has_curvature(problem) else FINITE_DIFFERENCES


def mean_hessian(problem: Problem, mass: Floats, x: Floats) -> Floats:
    """Return Σ mass(v) ∇²f_v(x).

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0]], [0.0, 2.0])
    >>> mean_hessian(problem, np.array([0.5, 0.5]), np.array([1.0]))
    array([[5.]])
    """
    refuse_l1(problem)
    if hessian_method(problem) == FINITE_DIFFERENCES:
        return _numerical_hessian(problem, mass, x)
    linear = cast(GeneralizedLinear, problem)
    features = linear.sorted_features
    counts = np.diff(linear.offsets)
    share = np.repeat(mass / counts, counts) * sample_curvatures(problem, x, 0.0)
    if is_sparse(features):
        squares = sparse_hessian(features, share)
        return np.asarray(squares + linear.ridge * mass.sum() * np.eye(linear.dim))
    return np.asarray(
        features.T @ (share[:, None] * features) + linear.ridge * mass.sum() * np.eye(linear.dim)
    )


def mean_minimiser(problem: Problem, mass: Floats, start: Floats) -> tuple[Floats, str]:
    """Return the minimiser of Σ mass(v) f_v and the method that found it.

    Parameters
    ----------
    problem
        Any problem.
    mass
        One weight per node.
    start
        Where Newton's method starts for a problem without a closed form.

    Returns
    -------
    tuple
        The minimiser, and "factorisation" (least squares), "newton" (other losses that state
        their curvature) or "newton, finite differences".

    Raises
    ------
    InvalidData
        The minimiser is not unique.
    """
    refuse_l1(problem)
    if hessian_method(problem) == FINITE_DIFFERENCES:
        return _newton(problem, mass, start), f"newton, {FINITE_DIFFERENCES}"
    linear = cast(GeneralizedLinear, problem)
    counts = np.diff(linear.offsets)
    weights, ridge = np.repeat(mass / counts, counts), linear.ridge * float(mass.sum())
    if is_logistic(problem):
        x, unique = logistic_fit.minimise(
            dense_features(linear.sorted_features), linear.sorted_targets, weights, ridge
        )
        method = "newton"
    elif not is_quadratic(problem):
        x, unique = fit.minimise(linear, weights, ridge)
        method = "newton"
    else:
        x, unique = factor.solve(
            factor.triangle(dense_features(linear.sorted_features), linear.sorted_targets, weights),
            ridge,
        )
        method = "factorisation"
    if not unique:
        raise InvalidData(
            f"problem has no unique optimum: {linear._why_not_unique(x)}, so the limit depends on "
            "x0; "
            + python_or_command(
                "give the problem a ridge above 0",
                "with a data file add --ridge 0.01; with drawn data take a network of more nodes",
            )
        )
    return x, method


def gradient_scale(problem: Problem, mass: Floats, x: Floats) -> float:
    """Return a size to judge the weighted mean of the gradients at x by: the nodes' own gradients
    at 0 and at x.
    """
    sizes = sum(
        np.linalg.norm(local_gradients(problem, point), axis=1) for point in (np.zeros_like(x), x)
    )
    return float(mass @ sizes)


def _newton(problem: Problem, mass: Floats, start: Floats) -> Floats:
    """Find the zero of Σ mass(v) ∇f_v by Newton's method; every step must shorten the gradient."""

    def gradient(x: Floats) -> Floats:
        return np.asarray(mass @ local_gradients(problem, x))

    scale = gradient_scale(problem, mass, start)
    x, value = start.copy(), gradient(start)
    hessian = _require_minimum(problem, mass, x)
    for _ in range(_ITERATIONS):
        size = float(np.linalg.norm(value))
        if size <= _AIM * scale:
            break
        step = np.linalg.solve(hessian, value)
        for halving in range(_HALVINGS):
            candidate = x - step * 0.5**halving
            after = gradient(candidate)
            if np.linalg.norm(after) < size:
                break
        else:
            break  # rounding: no shorter gradient can be had
        x, value = candidate, after
        hessian = _require_minimum(problem, mass, x)
    if not np.linalg.norm(value) <= _ZERO * scale:
        raise InvalidParameter(
            f"problem (of type {type(problem).__name__}) has no fixed point that Newton's method "
            "could find: the mean "
            f"gradient stays at {np.linalg.norm(value):.1e}; {_measured()}"
        )
    return np.asarray(x)


def _measured() -> str:
    return f"measure its error with {python_or_command('lw.run', 'levywalk compare')}"


def _require_minimum(problem: Problem, mass: Floats, x: Floats) -> Floats:
    hessian = _numerical_hessian(problem, mass, x)
    values = np.linalg.eigvalsh(hessian)
    if not values[0] > _FLAT * abs(values[-1]):
        raise InvalidData(
            f"problem (of type {type(problem).__name__}) has no unique optimum: its mean Hessian "
            "has the eigenvalue "
            f"{values[0]:.1e}, so the limit depends on x0; give the problem a ridge above 0, or "
            f"{_measured()}"
        )
    return hessian


def _numerical_hessian(problem: Problem, mass: Floats, x: Floats) -> Floats:
    """Return the Hessian by central differences with a step and half of it, extrapolated; refuse
    what disagrees.
    """
    if 4 * problem.n * problem.dim > _MOST_GRADIENTS:
        raise TooLarge(
            f"problem (of type {type(problem).__name__}) needs {4 * problem.n * problem.dim:.1e} "
            "local gradients "
            f"for one Hessian, more than {_MOST_GRADIENTS:.0e}; {_measured()}"
        )

    def gradient(point: Floats) -> Floats:
        return np.asarray(mass @ local_gradients(problem, point))

    size = float(np.abs(x).max()) or 1.0
    error = np.inf
    for step in _STEPS:
        wide, narrow = (
            _differences(gradient, x, step * size),
            _differences(gradient, x, 0.5 * step * size),
        )
        hessian = (4.0 * narrow - wide) / 3.0
        largest = float(np.abs(hessian).max())
        error = float(np.abs(narrow - wide).max())
        if error <= _AGREEMENT * largest or largest == 0.0:
            break
    else:
        raise InvalidParameter(
            f"problem (of type {type(problem).__name__}) has no second derivative that finite "
            "differences could find "
            f"at the fixed point (they disagree by {error:.1e}); {_measured()}"
        )
    if not np.abs(hessian - hessian.T).max() <= _SYMMETRY * largest:
        raise InvalidParameter(
            f"problem (of type {type(problem).__name__}) must have a local_gradient that is the "
            "gradient of a "
            "function, but its matrix of derivatives is not symmetric; theory has no answer; "
            f"{_measured()}"
        )
    return np.asarray(0.5 * (hessian + hessian.T))


def _differences(gradient: Gradient, x: Floats, step: float) -> Floats:
    rows = np.empty((len(x), len(x)))
    for j in range(len(x)):
        ahead, behind = x.copy(), x.copy()
        ahead[j] += step
        behind[j] -= step
        rows[j] = (gradient(ahead) - gradient(behind)) / (ahead[j] - behind[j])
    return rows
