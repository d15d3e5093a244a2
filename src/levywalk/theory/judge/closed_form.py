"""Which closed forms hold for a problem. Theory asks here before it uses one.

A closed form belongs to the methods from which it was derived. A subclass that overrides one of
these methods, or an object that replaces one, is another problem. Theory then computes with the
problem's own gradients, or says that it cannot answer.
"""

from __future__ import annotations

from typing import cast

from levywalk.contracts import depth, keeps
from levywalk.problem import (
    GeneralizedLinear,
    Problem,
    follows_its_loss,
    is_logistic_regression,
)
from levywalk.problem import is_quadratic as is_least_squares
from levywalk.problem.losses import states_curvature

_GRADIENTS = (
    "local_gradient",
    "local_gradients",
    "_gradient_blocks",
    "_slopes",
    "_losses",
    "_predictions",
)


def is_quadratic(problem: Problem) -> bool:
    """Return whether the local losses are those of least squares, so that moments obey a linear
    recursion.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Doubled(lw.LeastSquares):
    ...     def local_gradient(self, v, x, samples=None):
    ...         return 2.0 * super().local_gradient(v, x, samples)
    >>> is_quadratic(lw.homogeneous(5)), is_quadratic(Doubled([[1.0], [2.0]], [1.0, 2.0]))
    (True, False)
    """
    return is_least_squares(problem) and has_batch_gradients(problem)


def is_logistic(problem: Problem) -> bool:
    """Return whether the local losses are those of logistic regression.

    Examples
    --------
    >>> import levywalk as lw
    >>> is_logistic(lw.Logistic([[1.0], [2.0]], [0, 1])), is_logistic(lw.homogeneous(5))
    (True, False)
    """
    return is_logistic_regression(problem) and has_batch_gradients(problem)


def is_quadratic_or_logistic(problem: Problem) -> bool:
    """Return whether the second derivatives of the local losses are known in closed form.

    Examples
    --------
    >>> import levywalk as lw
    >>> is_quadratic_or_logistic(lw.homogeneous(5))
    True
    >>> class Halved(lw.Logistic):
    ...     def local_gradient(self, v, x, samples=None):
    ...         return 0.5 * super().local_gradient(v, x, samples)
    >>> is_quadratic_or_logistic(Halved([[1.0], [2.0]], [0, 1]))
    False
    """
    return is_quadratic(problem) or is_logistic(problem)


def has_curvature(problem: Problem) -> bool:
    """Return whether the second derivatives of the local losses are known: those of least squares
    and logistic regression, and of every loss with one output that states its `curvature`.

    Examples
    --------
    >>> import levywalk as lw
    >>> has_curvature(lw.Huber([[1.0], [2.0]], [0.0, 1.0])), has_curvature(lw.homogeneous(5))
    (True, True)
    """
    return is_quadratic_or_logistic(problem) or (
        has_batch_gradients(problem)
        and follows_its_loss(problem)
        and cast(GeneralizedLinear, problem).sample_loss.n_outputs == 1
        and states_curvature(cast(GeneralizedLinear, problem).sample_loss)
    )


def has_batch_gradients(problem: Problem) -> bool:
    """Return whether ``problem.local_gradients(x)`` agrees with ``problem.local_gradient(v, x)``.

    It does for every linear model, with any loss, that overrides neither of the two.
    """
    return keeps(problem, GeneralizedLinear, *_GRADIENTS)


def states_constant(problem: Problem, name: str) -> bool:
    """Return whether the problem's constant ``name`` is stated for the gradient that the problem
    really has.

    A subclass that overrides the gradient of a linear model inherits constants that describe
    another gradient.

    Parameters
    ----------
    problem
        Any problem.
    name
        "smoothness", "local_strong_convexity" or "strong_convexity".

    Examples
    --------
    >>> import levywalk as lw
    >>> class Doubled(lw.LeastSquares):
    ...     def local_gradient(self, v, x, samples=None):
    ...         return 2.0 * super().local_gradient(v, x, samples)
    >>> states_constant(lw.homogeneous(5), "smoothness")
    True
    >>> states_constant(Doubled([[1.0], [2.0]], [1.0, 2.0]), "smoothness")
    False
    """
    if not isinstance(problem, GeneralizedLinear):
        return hasattr(problem, name)
    gradient = min(
        depth(problem, method) for method in ("local_gradient", "local_gradients", "_slopes")
    )
    return depth(problem, name) <= gradient
