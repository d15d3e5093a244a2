"""Adam: each number of the model has a step size of its own, from running means of gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.memory import Like, Memory, Number
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.updates.gradient_table import checked_minibatch
from levywalk.updates.sgd import Sgd
from levywalk.updates.update import LocalData


@registered("update", "adam")
@dataclass(frozen=True)
class Adam(Sgd):
    """Adam; see `adam`.

    Examples
    --------
    >>> Adam()
    Adam(minibatch=None, beta1=0.9, beta2=0.999, epsilon=1e-08)
    """

    minibatch: int | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name = "adam"
    token_memory = {  # noqa: RUF012
        "mean": Like("model"),
        "square": Like("model"),
        "count": Number(np.int64),
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "minibatch", checked_minibatch(self.minibatch))
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            clean = checks.real(name, value, "in [0, 1)", low=0.0, high=1.0, high_open=True)
            object.__setattr__(self, name, clean)
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return the mean of gradients over the root of the mean of their squares."""
        token = memory.token
        gradient = weight * self.gradient(local.problem, local.index, model, words)
        token["count"] += 1
        token["mean"] = self.beta1 * token["mean"] + (1.0 - self.beta1) * gradient
        token["square"] = self.beta2 * token["square"] + (1.0 - self.beta2) * gradient**2
        count = token["count"]
        mean = token["mean"] / (1.0 - self.beta1**count)
        square = token["square"] / (1.0 - self.beta2**count)
        direction: Floats = mean / (np.sqrt(square) + self.epsilon)
        return direction

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return 0.01: Adam's steps do not depend on the scale of the loss."""
        return 0.01

    def compiled(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        beta1, beta2, epsilon = self.beta1, self.beta2, self.epsilon

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, gradient, token, kept, weight, step_size, n
        ):
            mean, square, count = token
            count[0] += 1
            one, two = 1.0 - beta1 ** count[0], 1.0 - beta2 ** count[0]
            for j in range(len(model)):
                g = weight * gradient[j]
                mean[j] = beta1 * mean[j] + (1.0 - beta1) * g
                square[j] = beta2 * square[j] + (1.0 - beta2) * g * g
                model[j] -= step_size * (mean[j] / one) / (np.sqrt(square[j] / two) + epsilon)

        return apply


def adam(
    minibatch: int | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> Adam:
    """Adam (Kingma, Ba 2015) on the weighted gradients w(v)∇f_v(x).

    The two running means travel with the model, so a transfer has three times the bytes.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.adam(minibatch=8).minibatch
    8
    """
    return Adam(minibatch, beta1, beta2, epsilon)
