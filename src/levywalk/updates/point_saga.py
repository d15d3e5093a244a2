"""Point-SAGA along a walk: a proximal step at the visited node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.remedy import python_or_command
from levywalk.updates.gradient_table import GradientTable
from levywalk.updates.linear import proximal, require_linear
from levywalk.updates.update import LocalData

MOST_DIM = 1024  # for nodes with several samples, whose inner solves factor a matrix


@registered("update", "point_saga")
@dataclass(frozen=True)
class PointSaga(GradientTable):
    """Point-SAGA; see `point_saga`.

    Examples
    --------
    >>> PointSaga()
    PointSaga()
    """

    name = "point_saga"

    def check(self, problem: Problem) -> None:
        """Refuse problems whose proximal step is not known."""
        require_linear(self.name, problem)
        several = getattr(problem, "n_samples", 0) > problem.n
        if several and problem.dim > MOST_DIM:
            raise InvalidParameter(
                f"point_saga with several samples at a node solves systems of dim numbers, at most "
                f"{MOST_DIM}, got dim = {problem.dim}; use {python_or_command('lw.saga()', 'saga')}"
            )

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Return the proximal point of f_v around x + γ(g_v - ḡ), and store its slopes."""
        features, _ = local.samples
        kept, total = memory.node["slopes"], memory.token["sum"]
        mine = kept @ features / len(kept)
        point = model + step_size * (mine - total / local.n)
        changed, slopes = proximal(point, local, step_size)
        total += (slopes - kept) @ features / len(kept)
        kept[:] = slopes
        return changed

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return Defazio's step size, with the largest L_v and the strong convexity of f.

        His theorem asks for independent sampling and strongly convex f_v, so here it is a rule of
        thumb.
        """
        n, L = problem.n, float(np.max(problem.smoothness))
        mu = max(float(getattr(problem, "strong_convexity", 0.0)), 1e-12 * L)
        root = math.sqrt((n - 1.0) ** 2 + 4.0 * n * L / mu)
        return root / (2.0 * L * n) - (1.0 - 1.0 / n) / (2.0 * L)

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        from levywalk.compiled import proximal_rows, proximal_slopes

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            (total,), (slopes,) = token, kept
            count, dim = features.shape
            shrink = step_size / (1.0 + step_size * ridge)
            for j in range(dim):  # the model becomes the centre of the proximal step
                mine = 0.0
                for i in range(count):
                    mine += slopes[i] * features[i, j]
                point = model[j] + step_size * (mine / count - total[j] / n)
                model[j] = point / (1.0 + step_size * ridge)
            if count == 1:
                a, z = 0.0, 0.0
                for j in range(dim):
                    a += features[0, j] * features[0, j]
                    z += features[0, j] * model[j]
                slope = proximal_slopes(loss, z, shrink * a, targets[0])
                change = slope - slopes[0]
                slopes[0] = slope
                for j in range(dim):
                    model[j] -= shrink * slope * features[0, j]
                    total[j] += change * features[0, j]
                return
            proximal_rows(model, features, targets, loss, shrink, slopes, total)

        return apply


def point_saga() -> PointSaga:
    """Point-SAGA along a walk (Defazio 2016).

    x ← prox of γf_v at x + γ(g_v - ḡ): g_v is the gradient that the node stored at its last visit,
    ḡ the mean of all stored gradients, whose sum the token carries. The new gradient is the one at
    the new model. Updates are not weighted: the fixed point is the optimum, whatever the law of the
    walk. The proximal step is exact for the squared error, and found by Newton's method to the last
    digits for other losses with one output.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(10), lw.homogeneous(10, dim=2, seed=1)
    >>> trace = lw.run(
    ...     network, problem, lw.mhda(), steps=2_000, step_size="theory", update=lw.point_saga()
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-12)
    True
    """
    return PointSaga()
