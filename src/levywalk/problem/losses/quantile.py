"""The loss of quantile regression, smoothed."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered


@registered("loss", "quantile")
class QuantileLoss(Loss):
    """The pinball loss of a level τ, with its corner rounded over |y - z| ≤ ``width``.

    With the residual r = y - z the pinball loss is τr for r ≥ 0 and (τ - 1)r below. Averaged over
    r ± h it is r²/(4h) + (τ - 1/2)r + h/4 for |r| ≤ h and the pinball loss itself beyond: it is
    nowhere more than h/4 too large, and its curvature is at most 1/(2h).

    Examples
    --------
    >>> QuantileLoss(level=0.75, width=0.5).slope(np.array([-1.0, 0.0, 1.0]), np.zeros(3))
    array([-0.75, -0.25,  0.25])
    """

    name = "quantile"
    curvature_min = 0.0

    def __init__(self, level: float = 0.5, width: float = 0.1) -> None:
        self.level = checks.real(
            "level", level, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
        )
        self.width = checks.positive("width", width)

    @property
    def curvature_max(self) -> float:  # type: ignore[override]
        """1/(2h), the largest second derivative."""
        return 0.5 / self.width

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return the rounded pinball loss."""
        r, h = y - z, self.width
        inner = np.minimum(np.abs(r), h)
        return np.asarray(
            (self.level - 0.5) * r + 0.5 * (np.abs(r) - inner) + (inner**2 + h**2) / (4.0 * h)
        )

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return 1/2 - τ - r/(2h), within [-τ, 1 - τ]."""
        return np.asarray(0.5 - self.level - np.clip((y - z) / (2.0 * self.width), -0.5, 0.5))

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return 1/(2h) where |r| ≤ h, and 0 beyond."""
        return np.where(np.abs(y - z) <= self.width, 0.5 / self.width, 0.0)

    def compiled(self) -> Any:
        """Return the compiled twin of `slope`."""
        from numba import njit

        middle, width = 0.5 - self.level, self.width

        @njit
        def quantile_slope(z, y):  # type: ignore[no-untyped-def]
            r = (y - z) / (2.0 * width)
            if r > 0.5:
                return middle - 0.5
            return middle + 0.5 if r < -0.5 else middle - r

        return quantile_slope

    def compiled_curvature(self) -> Any:
        """Return the compiled twin of `curvature`."""
        from numba import njit

        width = self.width

        @njit
        def quantile_curvature(z, y):  # type: ignore[no-untyped-def]
            return 0.5 / width if abs(y - z) <= width else 0.0

        return quantile_curvature

    def __repr__(self) -> str:
        return f"QuantileLoss(level={self.level!r}, width={self.width!r})"
