"""Check the type of a problem before a kernel or a closed form is used for it."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.contracts import depth, keeps
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.logistic import Logistic
from levywalk.problem.losses import LogisticLoss, SquaredError
from levywalk.problem.problem import Problem, array_type, model_type, optimum_of

_STATIONARY = 1e-6  # a mean gradient below this share of the gradients counts as 0

_LOSSES = (
    "local_loss",
    "local_gradient",
    "loss",
    "node_samples",
    "sample_count",
    "sample_losses",
    "_losses",
    "_penalty",
    "_predictions",
    "_slopes",
)


def follows_its_loss(problem: object) -> bool:
    """Return whether a problem computes losses and gradients only from its data and its loss.

    A subclass with its own losses or gradients does not.

    Examples
    --------
    >>> import levywalk as lw, numpy as np
    >>> class Clipped(lw.LeastSquares):
    ...     def local_gradient(self, v, x):
    ...         return np.clip(super().local_gradient(v, x), -1, 1)
    >>> follows_its_loss(lw.homogeneous(5)), follows_its_loss(Clipped([[1.0], [2.0]], [1.0, 2.0]))
    (True, False)
    """
    return keeps(problem, GeneralizedLinear, *_LOSSES)


def is_squared(problem: object) -> bool:
    """Return whether a problem's loss is the squared error, as the kernels compute it."""
    return follows_its_loss(problem) and _has_loss(problem, SquaredError)


def is_logistic(problem: object) -> bool:
    """Return whether a problem's loss is the logistic one, as the kernels compute it."""
    return follows_its_loss(problem) and _has_loss(problem, LogisticLoss)


def is_quadratic(problem: object) -> bool:
    """Return whether the closed forms of `LeastSquares` are valid for a problem.

    They use its losses, gradients and Hessian; an l1 penalty has none of them.

    Examples
    --------
    >>> import levywalk as lw
    >>> is_quadratic(lw.homogeneous(5)), is_quadratic(lw.Logistic([[1.0], [1.0]], [0, 1]))
    (True, False)
    """
    return is_squared(problem) and keeps(problem, LeastSquares, "hessian") and not has_l1(problem)


def is_logistic_regression(problem: object) -> bool:
    """Return whether the closed forms of `Logistic` are valid for a problem."""
    return is_logistic(problem) and isinstance(problem, Logistic) and not has_l1(problem)


def known_optimum(problem: Problem) -> Floats | None:
    """Return the problem's minimiser x*, or None if it states none for its own losses.

    A subclass with losses of its own inherits the minimiser of other losses. It counts only if the
    mean of the gradients vanishes there. One that was assigned counts as it is.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Centred(lw.LeastSquares):
    ...     def local_loss(self, v, x):
    ...         return 0.5 * float(x @ x)
    ...     def local_gradient(self, v, x, samples=None):
    ...         return x
    >>> data = [[1.0], [2.0]], [1.0, 2.0]
    >>> known_optimum(lw.LeastSquares(*data)), known_optimum(Centred(*data))
    (array([1.]), None)
    """
    inherited = isinstance(problem, GeneralizedLinear) and depth(problem, "optimum") > min(
        depth(problem, name) for name in ("local_loss", "_losses", "_penalty", "_predictions")
    )
    if not inherited or _is_assigned(problem):
        return optimum_of(problem)
    return optimum_of(problem) if _vanishes(problem) else None


def _is_assigned(problem: Problem) -> bool:
    """Return whether somebody has set the optimum of a linear problem, which is computed else."""
    found = problem.__dict__.get("optimum")
    computed = problem.__dict__.get("_computed")
    return found is not None and (computed is None or not np.array_equal(found, computed))


def _vanishes(problem: Problem) -> bool:
    """Return whether the mean of the local gradients is 0 at the problem's optimum."""
    optimum = optimum_of(problem)
    if optimum is None:
        return False
    at, first = (
        np.array([problem.local_gradient(v, x) for v in range(problem.n)])
        for x in (optimum, np.zeros(problem.dim))
    )
    scale = float(np.linalg.norm(at, axis=1).mean() + np.linalg.norm(first, axis=1).mean())
    return bool(np.linalg.norm(at.mean(axis=0)) <= _STATIONARY * scale)


def minimises(problem: object) -> bool:
    """Return whether the gradient of a linear problem vanishes at its optimum.

    It may not, if somebody has set another optimum, such as the truth of synthetic data.

    Examples
    --------
    >>> import levywalk as lw, numpy as np
    >>> problem = lw.homogeneous(20)
    >>> minimises(problem)
    True
    >>> problem.optimum = np.zeros(10)
    >>> minimises(problem)
    False
    """
    assert isinstance(problem, GeneralizedLinear)
    at, first = problem._gradient(problem.optimum), problem._gradient(np.zeros(problem.dim))
    # Near the minimiser the gradient is rounding, which grows with the curvature and x*.
    scale = np.linalg.norm(first) + float(problem.smoothness.mean()) * np.linalg.norm(
        problem.optimum
    )
    return bool(np.linalg.norm(at) <= _STATIONARY * scale)


def is_single(problem: Problem) -> bool:
    """Return whether a problem's models are float32 while its updates compute in float64.

    Examples
    --------
    >>> import levywalk as lw
    >>> is_single(lw.homogeneous(5).astype("float32")), is_single(lw.homogeneous(5))
    (True, False)
    """
    return array_type(problem) != model_type(problem)


def has_l1(problem: object) -> bool:
    """Return whether a problem has an l1 penalty.

    Examples
    --------
    >>> import levywalk as lw
    >>> has_l1(lw.LeastSquares([[1.0], [2.0]], [1.0, 2.0], l1=0.1)), has_l1(lw.homogeneous(5))
    (True, False)
    """
    return float(getattr(problem, "l1", 0.0)) > 0.0


def _has_loss(problem: object, kind: type) -> bool:
    loss = getattr(problem, "sample_loss", None)
    return keeps(loss, kind, "value", "slope")
