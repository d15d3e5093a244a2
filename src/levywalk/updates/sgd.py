"""SGD at the visited node: x ← x - γ w(v) ∇f_v(x), Eq. [wsgd]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import MINIBATCH, Words, split
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.problem import Problem, has_samples
from levywalk.registry import registered
from levywalk.updates.update import LocalData, Update


@registered("update", "sgd")
@dataclass(frozen=True)
class Sgd(Update):
    """Plain SGD.

    Parameters
    ----------
    minibatch
        How many of its samples a node draws for one update, uniformly with replacement; None means
        all samples, and a node that has no more samples than ``minibatch`` also uses all of them.

    Examples
    --------
    >>> Sgd(minibatch=8)
    Sgd(minibatch=8)
    """

    minibatch: int | None = None
    name = "sgd"

    def __post_init__(self) -> None:
        if self.minibatch is not None:
            clean = checks.integer("minibatch", self.minibatch, low=1, high=2**31 - 1)
            object.__setattr__(self, "minibatch", clean)

    def check(self, problem: Problem) -> None:
        """Refuse minibatches for a problem that has no samples to draw from."""
        if self.minibatch is not None and not has_samples(problem):
            raise InvalidParameter(
                f"minibatch must be None for a {type(problem).__name__}: only problems made of "
                "samples and a loss, "
                "such as LeastSquares and Logistic, have samples to draw from"
            )

    def gradient(self, problem: Problem, v: int, x: Floats, word: Callable[[int], int]) -> Floats:
        """Return ∇f_v(x), or its estimate from a minibatch; ``word`` maps a slot to random bits."""
        if self.minibatch is None or not has_samples(problem):
            return np.asarray(problem.local_gradient(v, x), dtype=np.float64)
        count = problem.sample_count(v)  # type: ignore[attr-defined]
        if count <= self.minibatch:
            return np.asarray(problem.local_gradient(v, x), dtype=np.float64)
        samples = np.array([split(word(MINIBATCH + j), count)[0] for j in range(self.minibatch)])
        drawn = problem.local_gradient(v, x, samples=samples)  # type: ignore[call-arg]
        return np.asarray(drawn, dtype=np.float64)

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return w(v) ∇f_v(x)."""
        direction: Floats = weight * self.gradient(local.problem, local.index, model, words)
        return direction


def sgd(minibatch: int | None = None) -> Sgd:
    """Return plain SGD, on all of a node's samples or on minibatches of them.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.sgd(minibatch=8)
    Sgd(minibatch=8)
    """
    return Sgd(minibatch)
