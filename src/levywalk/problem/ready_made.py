"""Problems made of data and one of the package's losses with one output.

Least squares and logistic regression, of which more is known in closed form, have files of their
own.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import DataWarning, NoMinimiser
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.logistic import Logistic
from levywalk.problem.losses import (
    HuberLoss,
    LogisticLoss,
    Loss,
    PoissonLoss,
    QuantileLoss,
    SoftmaxLoss,
    SquaredError,
    SquaredErrors,
    SquaredHingeLoss,
)
from levywalk.problem.samples import two_classes
from levywalk.problem.softmax import Softmax
from levywalk.problem.sparse_features import dense_features
from levywalk.remedy import python_or_command

_RARE = 1e-4  # a rate e^z below this, where the count is 0, may be on its way to 0


class Huber(GeneralizedLinear):
    """Robust regression: r²/2 for residuals |r| = |aᵀx - y| up to δ, and δ(|r| - δ/2) beyond.

    Parameters
    ----------
    features, targets, node, ridge, idle, l1
        As in `LeastSquares`.
    delta
        δ, the residual beyond which the loss is linear.

    Notes
    -----
    For δ → ∞ this is half of the loss of `LeastSquares`, which has no factor 1/2.

    Examples
    --------
    >>> problem = Huber([[1.0], [1.0], [1.0]], [0.0, 0.5, 90.0])
    >>> problem.smoothness, problem.optimum  # the mean is 30.2
    (array([1., 1., 1.]), array([0.75]))
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
        delta: float = 1.0,
    ) -> None:
        super().__init__(features, targets, HuberLoss(delta), node, ridge, idle, l1=l1)


class Poisson(GeneralizedLinear):
    """Poisson regression of counts: the loss of a sample is e^{aᵀx} - y aᵀx.

    Parameters
    ----------
    features, node, ridge, idle, l1
        As in `LeastSquares`; add a column of ones for an intercept.
    targets
        Counts, at least 0.
    clip
        Beyond aᵀx = clip the loss continues as a parabola, so that its curvature is bounded by
        e^clip, from which the smoothness constants and step sizes follow. Choose it a little above
        the logarithm of the largest rate that you expect.

    Notes
    -----
    Where the minimiser has predictions above the clip, it is that of the clipped loss only, and a
    `DataWarning` says so. Without ridge there may be no minimiser, for example if all counts are 0;
    ``optimum`` then raises `NoMinimiser`.

    Examples
    --------
    >>> problem = Poisson([[1.0], [1.0]], [1.0, 3.0], clip=2.0)
    >>> problem.optimum.round(6)  # the logarithm of the mean count
    array([0.693147])
    >>> problem.smoothness.round(3)  # e²
    array([7.389, 7.389])
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
        clip: float = 5.0,
    ) -> None:
        super().__init__(features, targets, PoissonLoss(clip), node, ridge, idle, l1=l1)

    def _minimise(self) -> tuple[Floats, bool]:
        x, unique = super()._minimise()
        z = self._predictions(self.sorted_features, x)
        none = self.sorted_targets == 0.0
        if self.ridge == 0.0 and bool((none & (np.exp(np.minimum(z, 0.0)) < _RARE)).any()):
            self._require_minimiser(none)
        highest, clip = float(z.max()), self.sample_loss.clip  # type: ignore[attr-defined]
        if highest > clip:
            warnings.warn(
                f"the minimiser predicts up to aᵀx = {highest:.3g}, above clip = {clip:g}: it is "
                "that of the clipped loss and not of Poisson regression; give "
                + python_or_command(
                    f"clip={highest + 1:.1f}", f"--loss poisson:clip={highest + 1:.1f}"
                ),
                DataWarning,
                stacklevel=4,
            )
        return x, unique

    def _require_minimiser(self, none: Any) -> None:
        """Refuse data with a direction along which some rates go to 0 and all others stay."""
        from levywalk.problem.logistic_fit import separating_direction

        features = dense_features(self.sorted_features)
        both = np.concatenate([features, features[~none]])
        signs = np.concatenate([np.ones(len(features)), -np.ones(int((~none).sum()))])
        if separating_direction(both, signs) is not None:
            raise NoMinimiser(
                "the Poisson loss has no minimiser: along some direction only rates of samples "
                "with count 0 change, and the loss falls for ever; add a ridge, for example "
                f"{python_or_command('ridge=1e-3', '--ridge 0.001')}"
            )


class SquaredHinge(GeneralizedLinear):
    """A linear support vector machine: the loss is max(0, 1 - t aᵀx)² with t = 2y - 1.

    Parameters
    ----------
    features, node, ridge, idle, l1
        As in `LeastSquares`; add a column of ones for an intercept.
    targets
        Labels {0, 1} or {-1, 1}, or two strings; they are stored as {0, 1}.

    Attributes
    ----------
    classes
        The two labels; the second is the one that is stored as 1.

    Notes
    -----
    If the labels can be separated and the ridge is 0, many models have the loss 0; ``optimum`` is
    one of them, and a `DataWarning` says so.

    Examples
    --------
    >>> problem = SquaredHinge([[1.0], [1.0], [1.0]], [1, 1, -1])
    >>> problem.smoothness, problem.optimum.round(6)
    (array([2., 2., 2.]), array([0.333333]))
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
        super().__init__(features, codes, SquaredHingeLoss(), node, ridge, idle, l1=l1)


class Quantile(GeneralizedLinear):
    """Quantile regression: aᵀx estimates the quantile of a level τ instead of the mean.

    Parameters
    ----------
    features, targets, node, ridge, idle, l1
        As in `LeastSquares`; add a column of ones for an intercept.
    level
        τ in (0, 1); 0.5 is the median.
    width
        The corner of the pinball loss is rounded over residuals up to this size, so that the loss
        has a gradient: its curvature is at most 1/(2 width), and it is nowhere more than width/4
        above the pinball loss. The smaller, the closer to quantiles, and the smaller the steps.

    Examples
    --------
    >>> problem = Quantile([[1.0]] * 4, [0.0, 1.0, 2.0, 90.0], width=1.0)
    >>> problem.smoothness, problem.optimum.round(9)  # the mean is 23.25
    (array([0.5, 0.5, 0.5, 0.5]), array([1.5]))
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
        level: float = 0.5,
        width: float = 0.1,
    ) -> None:
        super().__init__(features, targets, QuantileLoss(level, width), node, ridge, idle, l1=l1)


def problem_of(
    features: Any,
    targets: Any,
    loss: Loss,
    node: Any = None,
    ridge: float = 0.0,
    idle: str = "error",
    *,
    l1: float = 0.0,
) -> GeneralizedLinear:
    """Return the problem of data and a loss, of its own class where there is one.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem_of([[1.0], [2.0]], [1, 0], lw.losses.squared_hinge())
    SquaredHinge(n=2, dim=1, n_samples=2, ridge=0.0)
    """
    given = (features, targets, node, ridge, idle)
    if type(loss) is SoftmaxLoss:
        return Softmax(*given, l1=l1, classes=None if loss.classes is None else range(loss.classes))
    if type(loss) in (SquaredError, SquaredErrors):
        return LeastSquares(*given, l1=l1)
    if type(loss) is LogisticLoss:
        return Logistic(*given, l1=l1)
    if type(loss) is HuberLoss:
        return Huber(*given, l1=l1, delta=loss.delta)
    if type(loss) is PoissonLoss:
        return Poisson(*given, l1=l1, clip=loss.clip)
    if type(loss) is SquaredHingeLoss:
        return SquaredHinge(*given, l1=l1)
    if type(loss) is QuantileLoss:
        return Quantile(*given, l1=l1, level=loss.level, width=loss.width)
    return GeneralizedLinear(features, targets, loss, node, ridge, idle, l1=l1)
