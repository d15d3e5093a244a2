"""Check the type of a problem before a kernel or a closed form is used for it."""

from __future__ import annotations

from levywalk.contracts import keeps
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.logistic import Logistic
from levywalk.problem.losses import LogisticLoss, SquaredError
from levywalk.problem.problem import Problem, array_type, model_type

_LOSSES = ("local_loss", "local_gradient", "loss", "_losses", "_slopes", "_predictions")


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
