"""The loss of Poisson regression, for counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidData
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered

_MOST_CLIP = 300.0  # e^300 is still far from the largest number of float64


@registered("loss", "poisson")
class PoissonLoss(Loss):
    """φ(z, y) = e^z - yz for counts y ≥ 0, continued beyond z = ``clip`` by its parabola there.

    The curvature e^z is not bounded, so that no step size would be safe. Above the clip, e^z is
    replaced by e^c (1 + (z - c) + (z - c)²/2): value, slope and curvature fit together, the loss
    stays convex, and its curvature is at most e^c. Where all predictions of the minimiser are below
    the clip, it is the minimiser of Poisson regression.

    Examples
    --------
    >>> PoissonLoss().slope(np.array([0.0]), np.array([3.0]))
    array([-2.])
    >>> PoissonLoss(clip=0.0).slope(np.array([5.0]), np.array([3.0]))
    array([3.])
    """

    name = "poisson"
    curvature_min = 0.0

    def __init__(self, clip: float = 5.0) -> None:
        self.clip = checks.real(
            "clip", clip, f"a number in [-{_MOST_CLIP:g}, {_MOST_CLIP:g}]",
            low=-_MOST_CLIP, high=_MOST_CLIP,
        )  # fmt: skip

    @property
    def curvature_max(self) -> float:  # type: ignore[override]
        """e^clip, the largest second derivative."""
        return math.exp(self.clip)

    def clean_targets(self, targets: Floats) -> Floats:
        """Refuse counts below 0."""
        if (targets < 0.0).any():
            position = int(np.argmax(targets < 0.0))
            raise InvalidData(
                f"targets must be counts of at least 0, got {float(targets[position])!r} at "
                f"position {position}"
            )
        return targets

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return e^z - yz, or the parabola beyond the clip."""
        rate, above = np.exp(np.minimum(z, self.clip)), np.maximum(z - self.clip, 0.0)
        return np.asarray(rate * (1.0 + above * (1.0 + 0.5 * above)) - y * z)

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return e^z - y, or the line beyond the clip."""
        rate, above = np.exp(np.minimum(z, self.clip)), np.maximum(z - self.clip, 0.0)
        return np.asarray(rate * (1.0 + above) - y)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return e^z, at most e^clip."""
        return np.exp(np.minimum(z, self.clip))

    def compiled(self) -> Any:
        """Return the compiled twin of `slope`."""
        from numba import njit

        from levywalk.compiled import exponential

        clip = self.clip

        @njit
        def poisson_slope(z, y):  # type: ignore[no-untyped-def]
            if z > clip:
                return exponential(clip) * (1.0 + (z - clip)) - y
            return exponential(z) - y

        return poisson_slope

    def compiled_curvature(self) -> Any:
        """Return the compiled twin of `curvature`."""
        from numba import njit

        from levywalk.compiled import exponential

        clip = self.clip

        @njit
        def poisson_curvature(z, y):  # type: ignore[no-untyped-def]
            return exponential(min(z, clip))

        return poisson_curvature

    def __repr__(self) -> str:
        return f"PoissonLoss(clip={self.clip!r})"
