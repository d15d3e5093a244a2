"""The squared error of several outputs."""

from __future__ import annotations

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidData
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered


@registered("loss", "least_squares_of_several")
class SquaredErrors(Loss):
    """φ(z, y) = Σ (y_k - z_k)² over several outputs; the targets have one column for each.

    Examples
    --------
    >>> SquaredErrors(2).value(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0]]))
    array([5.])
    """

    name = "least_squares_of_several"
    curvature_max = 2.0
    curvature_min = 2.0

    def __init__(self, outputs: int) -> None:
        self.outputs = checks.integer("outputs", outputs, low=2)

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """The number of outputs."""
        return self.outputs

    def clean_targets(self, targets: Floats) -> Floats:
        """Refuse targets with another number of columns."""
        if targets.ndim != 2 or targets.shape[1] != self.outputs:
            raise InvalidData(
                f"targets must have {self.outputs} columns, one per output, got shape "
                f"{targets.shape}"
            )
        return targets

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return Σ (z_k - y_k)²."""
        return np.asarray(np.square(z - y).sum(axis=1))

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return 2(z - y)."""
        return 2.0 * (z - y)

    def curvature_product(self, z: Floats, y: Floats, along: Floats) -> Floats:
        """Return twice the vector."""
        return 2.0 * along

    def __repr__(self) -> str:
        return f"SquaredErrors(outputs={self.outputs})"
