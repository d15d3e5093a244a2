"""The loss of several classes."""

from __future__ import annotations

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem.losses.loss import Loss
from levywalk.registry import registered


@registered("loss", "softmax")
class SoftmaxLoss(Loss):
    """φ(z, y) = log Σ e^{z_k} - z_y, with one prediction z_k per class and y in {0, …, classes-1}.

    Without ``classes`` (None), `levywalk.Softmax` takes as many as the labels have.

    Examples
    --------
    >>> SoftmaxLoss(3).slope(np.zeros((1, 3)), np.array([1.0])).round(3)
    array([[ 0.333, -0.667,  0.333]])
    """

    name = "softmax"
    curvature_max = 0.5  # the largest eigenvalue of diag(p) - ppᵀ
    curvature_min = 0.0

    def __init__(self, classes: int | None = None) -> None:
        self.classes = None if classes is None else checks.integer("classes", classes, low=2)

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """The number of classes."""
        if self.classes is None:
            raise InvalidParameter(
                "the number of classes is not known here; give lw.losses.softmax(classes=…), or "
                "use lw.Softmax, which counts the labels"
            )
        return self.classes

    def clean_targets(self, targets: Floats) -> Floats:
        """Refuse what is no class."""
        wrong = (targets != np.floor(targets)) | (targets < 0) | (targets >= self.n_outputs)
        if wrong.any():
            position = int(np.argmax(wrong))
            raise InvalidData(
                f"targets must be classes 0 to {self.n_outputs - 1}, got "
                f"{float(targets[position])!r} at position {position}; lw.Softmax takes labels of "
                "any kind"
            )
        return targets

    def value(self, z: Floats, y: Floats) -> Floats:
        """Return log Σ e^{z_k} - z_y."""
        highest = z.max(axis=1)
        total = np.log(np.exp(z - highest[:, None]).sum(axis=1))
        return np.asarray(total + highest - z[np.arange(len(z)), y.astype(np.int64)])

    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return the probabilities, less 1 at the class of the sample."""
        slopes = _probabilities(z)
        slopes[np.arange(len(z)), y.astype(np.int64)] -= 1.0
        return slopes

    def curvature_product(self, z: Floats, y: Floats, along: Floats) -> Floats:
        """Return (diag(p) - ppᵀ) times a vector, for each sample."""
        p = _probabilities(z)
        return np.asarray(p * (along - (p * along).sum(axis=1, keepdims=True)))

    def __repr__(self) -> str:
        return f"SoftmaxLoss(classes={self.classes!r})"


def _probabilities(z: Floats) -> Floats:
    found: Floats = np.exp(z - z.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    return found
