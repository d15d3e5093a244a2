"""The losses φ(z, y) of one sample, one file each; users find this module as `levywalk.losses`."""

from __future__ import annotations

from levywalk.problem.losses.huber import HuberLoss
from levywalk.problem.losses.least_squares import SquaredError
from levywalk.problem.losses.logistic import LogisticLoss
from levywalk.problem.losses.loss import (
    Loss,
    check_loss,
    compiled_curvature,
    compiled_slope,
    states_curvature,
)
from levywalk.problem.losses.poisson import PoissonLoss
from levywalk.problem.losses.quantile import QuantileLoss
from levywalk.problem.losses.softmax import SoftmaxLoss
from levywalk.problem.losses.squared_errors import SquaredErrors
from levywalk.problem.losses.squared_hinge import SquaredHingeLoss

__all__ = [
    "HuberLoss",
    "LogisticLoss",
    "Loss",
    "PoissonLoss",
    "QuantileLoss",
    "SoftmaxLoss",
    "SquaredError",
    "SquaredErrors",
    "SquaredHingeLoss",
    "check_loss",
    "compiled_curvature",
    "compiled_slope",
    "huber",
    "least_squares",
    "logistic",
    "poisson",
    "quantile",
    "softmax",
    "squared_hinge",
    "states_curvature",
]


def least_squares() -> SquaredError:
    """Return the squared error (y - z)².

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.least_squares().name
    'least_squares'
    """
    return SquaredError()


def logistic() -> LogisticLoss:
    """Return the logistic loss log(1 + e^z) - yz.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.logistic().curvature_max
    0.25
    """
    return LogisticLoss()


def huber(delta: float = 1.0) -> HuberLoss:
    """Return the Huber loss: r²/2 for residuals up to δ, and linear beyond.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.huber(delta=2.0)
    HuberLoss(delta=2.0)
    """
    return HuberLoss(delta)


def poisson(clip: float = 5.0) -> PoissonLoss:
    """Return the loss of Poisson regression, e^z - yz, continued by a parabola beyond z = clip.

    Examples
    --------
    >>> import levywalk as lw
    >>> round(lw.losses.poisson(clip=3.0).curvature_max, 2)  # e³
    20.09
    """
    return PoissonLoss(clip)


def squared_hinge() -> SquaredHingeLoss:
    """Return the squared hinge loss max(0, 1 - tz)² with t = 2y - 1.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.squared_hinge().curvature_max
    2.0
    """
    return SquaredHingeLoss()


def quantile(level: float = 0.5, width: float = 0.1) -> QuantileLoss:
    """Return the pinball loss of a level, with its corner rounded over residuals up to ``width``.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.quantile(0.9)
    QuantileLoss(level=0.9, width=0.1)
    """
    return QuantileLoss(level, width)


def softmax(classes: int | None = None) -> SoftmaxLoss:
    """Return the loss of several classes, log Σ e^{z_k} - z_y.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.losses.softmax(10).n_outputs
    10
    """
    return SoftmaxLoss(classes)
