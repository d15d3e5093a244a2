"""Losses of one sample, one file each. `levywalk.losses` is this module."""

from __future__ import annotations

from levywalk.problem.losses.least_squares import SquaredError
from levywalk.problem.losses.logistic import LogisticLoss
from levywalk.problem.losses.loss import Loss, check_loss, compiled_slope

__all__ = [
    "LogisticLoss",
    "Loss",
    "SquaredError",
    "check_loss",
    "compiled_slope",
    "least_squares",
    "logistic",
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
