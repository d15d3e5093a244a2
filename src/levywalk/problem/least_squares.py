"""Least squares over the nodes' own samples, with the closed forms that theory needs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem import factor, sparse_fit
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.losses import SquaredError, SquaredErrors
from levywalk.problem.samples import read_only
from levywalk.problem.sparse_features import is_sparse

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
        One number per sample, or one row of several outputs. With several outputs the model is a
        matrix of features times outputs, known to walks and traces as one vector, row by row.
    node
        The node of each sample; None means one sample per node.
    ridge
        The strength of the regularisation: (ridge/2)‖x‖² is added to every f_v.
    idle
        What to do with nodes of the network that have no sample: "error" refuses them, "pass" lets
        them pass the model on without an update.
    l1
        The strength of the l1 penalty: l1 ‖x‖₁ is added to f; see `GeneralizedLinear`.

    Examples
    --------
    >>> problem = LeastSquares([[1.0], [2.0], [2.0]], [1.0, 2.0, 4.0], node=[0, 1, 1])
    >>> problem
    LeastSquares(n=2, dim=1, n_samples=3, ridge=0.0)
    >>> problem.smoothness, problem.optimum
    (array([2., 8.]), array([1.4]))
    >>> problem.local_gradient(1, [0.0]), problem.local_gradient(1, [0.0], samples=[1, 1])
    (array([-12.]), array([-16.]))
    """

    def __init__(
        self,
        features: Any,
        targets: Any,
        node: Any = None,
        ridge: float = 0.0,
        idle: str = "error",
        *,
        l1: float = 0.0,
    ) -> None:
        shape = np.shape(targets)
        loss = SquaredErrors(shape[1]) if len(shape) == 2 and shape[1] > 1 else SquaredError()
        super().__init__(features, targets, loss, node, ridge, idle, l1=l1)

    @cached_property
    def _factor(self) -> Floats:
        targets = self.sorted_targets
        first = targets if targets.ndim == 1 else targets[:, 0]
        return factor.triangle(self.sorted_features, first, self._weights)

    def _minimise(self) -> tuple[Floats, bool]:
        if is_sparse(self.sorted_features):
            found = [
                sparse_fit.least_squares(self.sorted_features, y, self._weights, self.ridge)
                for y in np.atleast_2d(self.sorted_targets.T)
            ]
            unique = self.ridge > 0.0 or sparse_fit.has_full_rank(
                self.sorted_features, self._weights
            )
            return np.stack(found, axis=1).ravel(), unique
        if self.sorted_targets.ndim == 1:
            return factor.solve(self._factor, self.ridge)
        columns = [
            factor.solve(factor.triangle(self.sorted_features, y, self._weights), self.ridge)
            for y in self.sorted_targets.T
        ]
        return np.stack([x for x, _ in columns], axis=1).ravel(), columns[0][1]

    @cached_property
    def hessian(self) -> Floats:
        """The Hessian of f, ridge included: (dim, dim), if there is room for it."""
        if is_sparse(self.sorted_features):
            squares = sparse_fit.sparse_hessian(self.sorted_features, self._weights)
        else:
            triangle = self._factor[:, :-1]
            squares = triangle.T @ triangle
        one = 2.0 * squares + self.ridge * np.eye(len(squares))
        outputs = self.sample_loss.n_outputs
        whole = one if outputs == 1 else np.kron(one, np.eye(outputs))
        return read_only(np.asarray(whole, dtype=np.float64))

    @cached_property
    def strong_convexity(self) -> float:
        """The strong convexity μ of f: the smallest eigenvalue of the Hessian."""
        if is_sparse(self.sorted_features):
            wide = self.n_samples < self.sorted_features.shape[1]
            least = self.ridge if wide else float(np.linalg.eigvalsh(self.hessian)[0])
            return max(least, self.ridge)
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
        if not self._has_closed_excess():
            return super().excess_loss(x)
        with np.errstate(over="ignore", invalid="ignore"):
            error = self._model(x) - self.optimum
            if self.dim <= _DENSE_DIM:
                value = 0.5 * float(error @ (self.hessian @ error))
            else:
                squares = np.square(self._predictions(self.sorted_features, error))
                squares = squares if squares.ndim == 1 else squares.sum(axis=1)
                value = float(self._weights @ squares) + 0.5 * self.ridge * float(error @ error)
        return max(value, 0.0) if np.isfinite(value) else float("inf")
