"""The logistic loss."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.losses.loss import Loss
from levywalk.problem.samples import clean_labels
from levywalk.registry import registered


@registered("loss", "logistic")
class LogisticLoss(Loss):
    """φ(z, y) = log(1 + e^z) - yz with y in {0, 1}; labels {-1, 1} are read as {0, 1}.

    With the sign t = 1 - 2y, value and slope are computed without cancellation at any margin.

    Examples
    --------
    >>> LogisticLoss().slope(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
    array([ 0.5, -0.5])
    """

    name = "logistic"
    curvature_max = 0.25
    curvature_min = 0.0

    def clean_targets(self, targets: Floats) -> Floats:
        """Return labels as {0, 1}."""
        return clean_labels(targets)

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return log(1 + e^{tz})."""
        return np.logaddexp(0.0, (1.0 - 2.0 * y) * z)

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return t/(1 + e^{-tz})."""
        from scipy.special import (
            expit,  # imported here, since a fleet's node with another loss does not need scipy
        )

        sign = 1.0 - 2.0 * y
        slopes: Floats = sign * expit(sign * z)
        return slopes

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return σ(z)(1 - σ(z))."""
        from scipy.special import expit

        return np.asarray(expit(z) * expit(-z))
