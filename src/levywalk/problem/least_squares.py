"""Least squares over the nodes' own samples, with the closed forms that theory needs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem import factor
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.losses import SquaredError
from levywalk.problem.samples import read_only

# Up to this dimension the excess loss is computed with the dim x dim Hessian, above it with the
# samples.
_DENSE_DIM = 2_048


class LeastSquares(GeneralizedLinear):
    """Least squares: the loss of a sample is (y - aᵀx)².

    Parameters
    ----------
    features
        One row per sample.
    targets
        One number per sample.
    node
        The node of each sample; None means one sample per node.
    ridge
        The strength of the regularisation: (ridge/2)‖x‖² is added to every f_v.

    Examples
    --------
    >>> problem = LeastSquares([[1.0], [2.0], [2.0]], [1.0, 2.0, 4.0], node=[0, 1, 1])
    >>> problem
    LeastSquares(n=2, dim=1, samples=3, ridge=0.0)
    >>> problem.smoothness, problem.optimum
    (array([2., 8.]), array([1.4]))
    >>> problem.local_gradient(1, [0.0]), problem.local_gradient(1, [0.0], samples=[1, 1])
    (array([-12.]), array([-16.]))
    """

    def __init__(self, features: Any, targets: Any, node: Any = None, ridge: float = 0.0) -> None:
        super().__init__(features, targets, SquaredError(), node, ridge)

    @cached_property
    def _factor(self) -> Floats:
        return factor.triangle(self.sorted_features, self.sorted_targets, self._weights)

    def _minimise(self) -> tuple[Floats, bool]:
        return factor.solve(self._factor, self.ridge)

    @cached_property
    def hessian(self) -> Floats:
        """The Hessian of f, ridge included: (dim, dim)."""
        triangle = self._factor[:, :-1]
        return read_only(2.0 * (triangle.T @ triangle) + self.ridge * np.eye(self.dim))

    @cached_property
    def strong_convexity(self) -> float:
        """The strong convexity μ of f: the smallest eigenvalue of the Hessian."""
        return 2.0 * factor.smallest_singular_value(self._factor) ** 2 + self.ridge

    def excess_loss(self, x: Any) -> float:
        """Return f(x) - f(x*), computed as ½(x-x*)ᵀH(x-x*), which avoids cancellation.

        The result is inf if x has overflowed.

        Examples
        --------
        >>> problem = LeastSquares([[1.0], [1.0]], [0.0, 2.0])
        >>> problem.excess_loss([1.0 + 1e-9]) > 0, problem.excess_loss([float("inf")])
        (True, inf)
        """
        with np.errstate(over="ignore", invalid="ignore"):
            error = self._model(x) - self.optimum
            if self.dim <= _DENSE_DIM:
                value = 0.5 * float(error @ (self.hessian @ error))
            else:
                squares = np.square(self.sorted_features @ error)
                value = float(self._weights @ squares) + 0.5 * self.ridge * float(error @ error)
        return max(value, 0.0) if np.isfinite(value) else float("inf")
