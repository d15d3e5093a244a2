"""SGD at the visited node, and its step sizes: x ← x - γ w(v) ∇f_v(x), Eq. [wsgd]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import MINIBATCH, split
from levywalk.errors import InvalidParameter
from levywalk.problem import LinearModelProblem, Problem
from levywalk.schedule import Constant, Schedule, is_schedule


@dataclass(frozen=True, slots=True)
class Sgd:
    """Plain SGD.

    Parameters
    ----------
    minibatch
        How many of its samples a node draws for one update, uniformly with replacement; None, and a node that has no
        more than that, takes them all.

    Examples
    --------
    >>> Sgd(minibatch=8)
    Sgd(minibatch=8)
    """

    minibatch: int | None = None

    def __post_init__(self) -> None:
        if self.minibatch is not None:
            clean = checks.integer("minibatch", self.minibatch, low=1, high=2**31 - 1)
            object.__setattr__(self, "minibatch", clean)

    def check(self, problem: Problem) -> None:
        """Refuse minibatches of a problem that has no samples to draw from."""
        if self.minibatch is not None and not isinstance(problem, LinearModelProblem):
            raise InvalidParameter(
                f"minibatch must be None for a {type(problem).__name__}: only LeastSquares and Logistic have samples"
            )

    def gradient(self, problem: Problem, v: int, x: Floats, word: Callable[[int], int]) -> Floats:
        """Return ∇f_v(x), or its estimate from a minibatch; ``word`` maps a slot to random bits."""
        if self.minibatch is None or not isinstance(problem, LinearModelProblem):
            return np.asarray(problem.local_gradient(v, x), dtype=np.float64)
        count = problem.sample_count(v)
        if count <= self.minibatch:
            return problem.local_gradient(v, x)
        samples = [split(word(MINIBATCH + j), count)[0] for j in range(self.minibatch)]
        return problem.local_gradient(v, x, samples=np.array(samples))


def as_step_size(value: object, largest: float) -> Schedule:
    """Read a step size: a number, "theory" (1/L*, L* = max w(v)L_v) or a schedule.

    Examples
    --------
    >>> as_step_size("theory", largest=4.0)
    Constant(value=0.25)
    """
    if is_schedule(value):
        return value
    if isinstance(value, str):
        if value == "theory":
            return Constant(1.0 / largest)
        raise InvalidParameter(f"step_size must be a number above 0, 'theory' or a schedule, got {value!r}")
    return Constant(checks.positive("step_size", value))
