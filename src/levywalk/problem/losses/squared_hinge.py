"""The squared hinge loss, of support vector machines with a squared penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.losses.loss import Loss
from levywalk.problem.samples import clean_labels
from levywalk.registry import registered


@registered("loss", "squared_hinge")
class SquaredHingeLoss(Loss):
    """φ(z, y) = max(0, 1 - tz)² with t = 2y - 1; labels {-1, 1} are read as {0, 1}.

    Examples
    --------
    >>> SquaredHingeLoss().slope(np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    array([ 2., -2., -0.])
    """

    name = "squared_hinge"
    curvature_max = 2.0
    curvature_min = 0.0

    def clean_targets(self, targets: Floats) -> Floats:
        """Return labels as {0, 1}."""
        return clean_labels(targets)

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return max(0, 1 - tz)²."""
        return np.square(np.maximum(1.0 - (2.0 * y - 1.0) * z, 0.0))

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return -2t max(0, 1 - tz)."""
        sign = 2.0 * y - 1.0
        return np.asarray(-2.0 * sign * np.maximum(1.0 - sign * z, 0.0))

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return 2 within the margin, and 0 beyond."""
        return np.where((2.0 * y - 1.0) * z < 1.0, 2.0, 0.0)

    def compiled(self) -> Any:
        """Return the compiled twin of `slope`."""
        from numba import njit

        @njit
        def squared_hinge_slope(z, y):  # type: ignore[no-untyped-def]
            sign = 2.0 * y - 1.0
            gap = 1.0 - sign * z
            return 0.0 if gap < 0.0 else -2.0 * sign * gap

        return squared_hinge_slope

    def compiled_curvature(self) -> Any:
        """Return the compiled twin of `curvature`."""
        from numba import njit

        @njit
        def squared_hinge_curvature(z, y):  # type: ignore[no-untyped-def]
            return 2.0 if (2.0 * y - 1.0) * z < 1.0 else 0.0

        return squared_hinge_curvature
