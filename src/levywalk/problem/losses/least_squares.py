"""The squared error."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered


@registered("loss", "least_squares")
class SquaredError(Loss):
    """φ(z, y) = (y - z)²; without the factor 1/2, as in the paper.

    Examples
    --------
    >>> SquaredError().slope(np.array([1.0]), np.array([3.0]))
    array([-4.])
    """

    name = "least_squares"
    curvature_max = 2.0
    curvature_min = 2.0

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return (z - y)²."""
        return np.square(z - y)

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return 2(z - y)."""
        return 2.0 * (z - y)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return 2."""
        return np.full(np.shape(z), 2.0)
