"""The data of a node as an update may see them under privacy: clipped gradients with noise.

An update gets no other access to the data, so all that it sends is made from these releases, and
what it remembers as well: SAG and SAGA store the noisy gradient that they sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.privacy.noise import NoiseSource
from levywalk.privacy.privacy import Privacy
from levywalk.problem import GeneralizedLinear, Problem, follows_its_loss, has_samples
from levywalk.updates.update import LocalData

RELEASES = "privacy.releases"  # the full name of the counter in the memory of nodes


class PrivateData(LocalData):
    """A node's data during one visit.

    Parameters
    ----------
    local
        The data themselves.
    weight
        w(v), after which gradients are clipped.
    noise
        Where the noise comes from.
    left
        How many releases the node's budget still allows.

    Attributes
    ----------
    releases
        How many gradients the update has asked for.
    refused
        Whether it has asked for more than the budget allows; then nothing may be sent.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.privacy.noise import SystemNoise
    >>> local = LocalData(lw.LeastSquares([[1.0], [2.0]], [1.0, 0.0]), index=1, n=2)
    >>> seen = PrivateData(local, Privacy(clip=1.0, noise=1e-9), 1.0, SystemNoise(), left=1)
    >>> seen.gradient(np.array([1.0])).round(6)  # 8 without clip and noise
    array([1.])
    >>> seen.loss(np.array([1.0]))
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: privacy gives an update only noisy gradients, not loss; ...
    """

    __slots__ = ("_local", "_noise", "_privacy", "_weight", "left", "refused", "releases")

    def __init__(
        self, local: LocalData, privacy: Privacy, weight: float, noise: NoiseSource, left: int
    ) -> None:
        super().__init__(local.problem, local.index, local.n)
        self._local, self._privacy, self._weight, self._noise = local, privacy, weight, noise
        self.left, self.releases, self.refused = left, 0, False

    def gradient(self, model: Floats, samples: Ints | None = None) -> Floats:
        """Return the clipped gradient with noise, and the ridge's part without: it is no secret."""
        if self.releases >= self.left:
            self.refused = True
            return np.zeros_like(model)
        found, parts = clipped_gradient(
            self._local, model, self._weight, self._privacy.clip, samples
        )
        spread = self._privacy.noise * sensitivity(self._privacy, parts)
        found = found + spread * self._noise(self.releases, len(found))
        self.releases += 1
        return found / self._weight + known_ridge(self._local.problem) * model

    def kept(self, memory: Mapping[str, AnyArray]) -> bool:
        """Count the releases in the node's memory; return whether the budget allowed all of them.

        If it did not, nothing may be sent, and the node makes no further update.
        """
        if self._privacy.hides:
            memory[RELEASES][...] += self.left if self.refused else self.releases
        return not self.refused

    @property
    def problem(self) -> Problem:
        """The problem, of which only this node's noisy gradients can be asked."""
        return _Gradients(self)

    def loss(self, model: Floats) -> float:
        """Refuse: the loss is a function of the data."""
        raise _refusal("loss")

    def slopes(self, model: Floats, samples: Ints | None = None) -> Floats:
        """Refuse: a slope is a function of a sample."""
        raise _refusal("slopes")

    def loss_slopes(self, predictions: Floats, targets: Floats | None = None) -> Floats:
        """Refuse: a slope is a function of a sample."""
        raise _refusal("loss_slopes")

    def loss_curvatures(self, predictions: Floats, targets: Floats | None = None) -> Floats:
        """Refuse: a curvature is a function of a sample."""
        raise _refusal("loss_curvatures")

    @property
    def samples(self) -> tuple[Floats, Floats]:
        """Refuse the samples themselves."""
        raise _refusal("samples")

    @property
    def smoothness(self) -> float:
        """The node's smoothness constant, if it is declared to be public."""
        if self._privacy.scores != "public":
            raise _refusal("smoothness")
        return self._local.smoothness


class _Gradients:
    """A problem of which a visited node's noisy gradients are all that can be asked."""

    def __init__(self, data: PrivateData) -> None:
        self._data = data
        if has_samples(data._local.problem):
            self.sample_count = lambda v: data.n_samples

    def local_gradient(self, v: int, x: Floats, samples: Ints | None = None) -> Floats:
        """Return the noisy gradient of the visited node."""
        if v != self._data.index:
            raise _refusal("the gradient of another node")
        return self._data.gradient(x, samples)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("sample_count", "x0", "dtype"):
            raise AttributeError(name)
        raise _refusal(f"problem.{name}")


class GradientsOnly:
    """A problem as updates are fitted to it under privacy: its gradients are no known functions.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.saga().fitted(GradientsOnly(lw.homogeneous(5))).node_memory
    {'gradient': Like(what='model', dtype=dtype('float64'), initial=0)}
    """

    def __init__(self, problem: Problem) -> None:
        self.n, self.dim = problem.n, problem.dim


def _refusal(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"privacy gives an update only noisy gradients, not {what}; use local.gradient(model), or "
        "an update that needs no more, such as lw.sgd() or lw.saga()"
    )


def clipped_gradient(
    local: LocalData, model: Floats, weight: float, clip: float, samples: Ints | None = None
) -> tuple[Floats, int]:
    """Return the mean of a node's clipped parts of w(v)∇f_v, and how many parts one sample changes.

    The second number is m if the mean is over all m samples, each clipped by itself, and 1 if one
    sample can change the whole: for a minibatch, in which a sample can be drawn repeatedly,
    and for a problem that is not made of samples. For a linear model with one output the clipped
    gradient is that of another convex function, whose slopes are cut off, and which is as smooth.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 3.0, 0.0], node=[0, 0, 1])
    >>> clipped_gradient(LocalData(problem, 0, 2), np.zeros(1), weight=1.0, clip=4.0)  # -2 and -12
    (array([-3.]), 2)
    """
    problem, index = local.problem, local.index
    if isinstance(problem, GeneralizedLinear) and follows_its_loss(problem):
        features, _ = local.samples
        slopes = local.slopes(model, samples)
        if samples is not None:
            features = features[samples]
        rows = slopes.reshape(len(features), -1)
        norms = weight * np.sqrt(np.sum(features**2, axis=1) * np.sum(rows**2, axis=1))
        rows = rows * (weight * _factors(norms, clip) / len(features))[:, None]
        found: Floats = (features.T @ rows).ravel()
        return found, len(features) if samples is None else 1
    if has_samples(problem):
        drawn = range(local.n_samples) if samples is None else samples
        parts = [weight * local.gradient(model, np.array([i], dtype=np.int64)) for i in drawn]
        norms = np.array([np.linalg.norm(part) for part in parts])
        found = np.mean([f * p for f, p in zip(_factors(norms, clip), parts, strict=True)], axis=0)
        return found, len(parts) if samples is None else 1
    whole = weight * np.asarray(problem.local_gradient(index, model), dtype=np.float64)
    return whole * float(_factors(np.array([np.linalg.norm(whole)]), clip)[0]), 1


def _factors(norms: Floats, clip: float) -> Floats:
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, clip / norms)


def sensitivity(privacy: Privacy, parts: int) -> float:
    """Return the most by which neighbouring data can change a release.

    Examples
    --------
    >>> sensitivity(Privacy(clip=3.0, noise=1.0), parts=10)
    0.6
    >>> sensitivity(Privacy(clip=3.0, noise=1.0, adjacency="node"), parts=10)
    6.0
    """
    return 2.0 * privacy.clip / (parts if privacy.adjacency == "sample" else 1)


def known_ridge(problem: Problem) -> float:
    """Return the ridge that is not part of the clipped gradient, and so needs no noise.

    Examples
    --------
    >>> import levywalk as lw
    >>> known_ridge(lw.LeastSquares([[1.0], [2.0]], [1.0, 0.0], ridge=0.5))
    0.5
    """
    if isinstance(problem, GeneralizedLinear) and follows_its_loss(problem):
        return float(problem.ridge)
    return 0.0
