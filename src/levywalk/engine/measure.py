"""The errors of the models at a checkpoint: ‖x - x*‖², f(x) - f(x*) and f(x)."""

from __future__ import annotations

import warnings

import numpy as np

from levywalk.arrays import Floats
from levywalk.engine.plan import State
from levywalk.errors import DataWarning
from levywalk.problem import LeastSquares, LinearModelProblem, Logistic, Problem, optimum_of


class Measure:
    """Measures one problem's models; a diverged replica's errors are infinite."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = optimum_of(problem)
        self.least = np.nan if self.optimum is None else self._losses(self.optimum[None])[0]
        if self.optimum is None:
            warnings.warn(
                "problem has no optimum, so distance2 and excess_loss are NaN; give it an attribute `optimum`, or "
                "read the trace's loss",
                DataWarning,
                stacklevel=4,
            )

    def _losses(self, models: Floats) -> Floats:
        problem = self.problem
        if isinstance(problem, Logistic):
            from levywalk.engine.kernels import logistic_loss

            out = np.empty(len(models))
            logistic_loss(models, problem.sorted_features, problem.sorted_targets, problem.offsets, problem.ridge, out)
            return out
        if isinstance(problem, LinearModelProblem):
            return np.array([problem.loss(x) for x in models])
        return np.array([np.mean([problem.local_loss(v, x) for v in range(problem.n)]) for x in models])

    def __call__(self, state: State) -> tuple[Floats, Floats, Floats]:
        """Return distance2, excess_loss and loss of every replica."""
        from levywalk.engine.kernels import distances2, quadratic_excess

        count = len(state.model)
        distance2, excess = np.full(count, np.nan), np.full(count, np.nan)
        if self.optimum is not None:
            distances2(state.model, self.optimum, distance2)
        if isinstance(self.problem, LeastSquares) and self.optimum is not None:
            quadratic_excess(state.model, self.optimum, self.problem.hessian, excess)
            loss = excess + self.least
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                loss = self._losses(state.model)
                excess = loss - self.least
        for values in (distance2, excess, loss):
            # Far out, sums of products can be inf - inf: an error that large is infinite, not unknown.
            values[~state.active | (np.isnan(values) & (self.optimum is not None))] = np.inf
        return distance2, excess, loss
