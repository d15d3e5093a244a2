"""The Huber loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered


@registered("loss", "huber")
class HuberLoss(Loss):
    """φ(z, y) = r²/2 for |r| ≤ δ and δ(|r| - δ/2) beyond, with the residual r = z - y.

    Examples
    --------
    >>> HuberLoss(delta=2.0).slope(np.array([1.0, 9.0]), np.zeros(2))
    array([1., 2.])
    """

    name = "huber"
    curvature_max = 1.0
    curvature_min = 0.0

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = checks.positive("delta", delta)

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return r²/2, or δ(|r| - δ/2) beyond δ."""
        size = np.abs(z - y)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return r, within [-δ, δ]."""
        return np.clip(z - y, -self.delta, self.delta)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return 1 where |r| ≤ δ, and 0 beyond."""
        return np.where(np.abs(z - y) <= self.delta, 1.0, 0.0)

    def compiled(self) -> Any:
        """Return the compiled twin of `slope`."""
        from numba import njit

        delta = self.delta

        @njit
        def huber_slope(z, y):  # type: ignore[no-untyped-def]
            r = z - y
            if r > delta:
                return delta
            return -delta if r < -delta else r

        return huber_slope

    def compiled_curvature(self) -> Any:
        """Return the compiled twin of `curvature`."""
        from numba import njit

        delta = self.delta

        @njit
        def huber_curvature(z, y):  # type: ignore[no-untyped-def]
            return 1.0 if abs(z - y) <= delta else 0.0

        return huber_curvature

    def __repr__(self) -> str:
        return f"HuberLoss(delta={self.delta!r})"
