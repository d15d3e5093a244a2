"""SGD with momentum: a running sum of gradients travels with the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.memory import Like, Memory
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.updates.gradient_table import checked_minibatch
from levywalk.updates.sgd import Sgd
from levywalk.updates.update import LocalData


@registered("update", "heavy_ball")
@dataclass(frozen=True)
class HeavyBall(Sgd):
    """SGD with heavy-ball momentum; see `heavy_ball`.

    Examples
    --------
    >>> HeavyBall(beta=0.5)
    HeavyBall(minibatch=None, beta=0.5)
    """

    minibatch: int | None = None
    beta: float = 0.9
    name = "heavy_ball"
    token_memory = {"velocity": Like("model")}  # noqa: RUF012

    def __post_init__(self) -> None:
        object.__setattr__(self, "minibatch", checked_minibatch(self.minibatch))
        clean = checks.real("beta", self.beta, "in [0, 1)", low=0.0, high=1.0, high_open=True)
        object.__setattr__(self, "beta", clean)

    @property
    def threshold_steps(self) -> float:  # type: ignore[override]
        """1/(1 - β): in the long run the velocity is this many times the gradient."""
        return 1.0 / (1.0 - self.beta)

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return the velocity βu + w(v)∇f_v(x)."""
        velocity: Floats = memory.token["velocity"]
        velocity *= self.beta
        velocity += weight * self.gradient(local.problem, local.index, model, words)
        return velocity.copy()

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return (1 - β)/L*: the same move in the long run as SGD with 1/L*."""
        return (1.0 - self.beta) / largest

    def compiled(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        beta = self.beta

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, gradient, token, kept, weight, step_size, n
        ):
            (velocity,) = token
            for j in range(len(model)):
                velocity[j] = beta * velocity[j] + weight * gradient[j]
                model[j] -= step_size * velocity[j]

        return apply


def heavy_ball(beta: float = 0.9, minibatch: int | None = None) -> HeavyBall:
    """SGD with heavy-ball momentum (Polyak 1964): u ← βu + w(v)∇f_v(x), x ← x - γu.

    The velocity u travels with the model, so a transfer has twice the bytes.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.heavy_ball(0.8)
    HeavyBall(minibatch=None, beta=0.8)
    """
    return HeavyBall(minibatch, beta)
