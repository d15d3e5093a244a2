"""Logistic regression over the nodes' own samples.

scipy is imported only where it is used, because a fleet's node with another loss does not need it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.losses import LogisticLoss
from levywalk.problem.samples import two_classes
from levywalk.problem.sparse_features import is_sparse


class Logistic(GeneralizedLinear):
    """Logistic regression: the loss of a sample is log(1 + e^{aᵀx}) - y aᵀx with y in {0, 1}.

    Parameters
    ----------
    features
        One row per sample; add a column of ones for an intercept.
    targets
        Labels {0, 1} or {-1, 1}, or two strings; they are stored as {0, 1}.
    node
        The node of each sample; None means one sample per node.
    ridge
        The strength of the regularisation: (ridge/2)‖x‖² is added to every f_v.
    idle
        What to do with nodes of the network that have no sample: "error" refuses them, "pass" lets
        them pass the model on without an update.
    l1
        The strength of the l1 penalty: l1 ‖x‖₁ is added to f; see `GeneralizedLinear`.

    Attributes
    ----------
    classes
        The two labels; the second is the one that is stored as 1.

    Notes
    -----
    If a direction separates the labels and the ridge is 0, the loss has no minimiser, and
    ``optimum`` raises `NoMinimiser`.

    Examples
    --------
    >>> problem = Logistic([[1.0], [1.0], [1.0]], [1, 1, -1])
    >>> problem.smoothness
    array([0.25, 0.25, 0.25])
    >>> problem.optimum.round(6)  # two of three: log 2
    array([0.693147])
    >>> Logistic([[1.0], [2.0]], [1, 1]).optimum
    Traceback (most recent call last):
    levywalk.errors.NoMinimiser: the logistic loss has no minimiser: ...
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
        self.classes, codes = two_classes(targets)
        super().__init__(features, codes, LogisticLoss(), node, ridge, idle, l1=l1)

    def _minimise(self) -> tuple[Floats, bool]:
        from levywalk.problem import logistic_fit

        if is_sparse(self.sorted_features):
            return super()._minimise()
        return logistic_fit.minimise(
            self.sorted_features, self.sorted_targets, self._weights, self.ridge
        )

    @cached_property
    def _scores(self) -> Floats:
        """The predictions aᵀx* at the optimum, from which excess losses are computed."""
        scores: Floats = self.sorted_features @ self.optimum
        return scores

    def excess_loss(self, x: Any) -> float:
        """Return f(x) - f(x*), computed as a mean of divergences, which avoids cancellation.

        The result is inf if x has overflowed.

        Examples
        --------
        >>> problem = Logistic([[1.0], [1.0]], [0, 1])
        >>> problem.excess_loss([0.0]), problem.excess_loss([1e-9])
        (0.0, 1.25e-19)
        """
        if not self._has_closed_excess():
            return super().excess_loss(x)
        from levywalk.problem import logistic_fit

        with np.errstate(over="ignore", invalid="ignore"):
            error = self._model(x) - self.optimum
            divergences = logistic_fit.divergence(self.sorted_features @ error, self._scores)
            value = float(self._weights @ divergences) + 0.5 * self.ridge * float(error @ error)
        return max(value, 0.0) if np.isfinite(value) else float("inf")
