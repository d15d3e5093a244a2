"""SAGA along a walk: an unbiased step whose noise vanishes at the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.memory import Memory
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.updates.gradient_table import DrawingTable
from levywalk.updates.update import LocalData


@registered("update", "saga")
@dataclass(frozen=True)
class Saga(DrawingTable):
    """SAGA; see `saga`.

    Examples
    --------
    >>> Saga(minibatch=8)
    Saga(minibatch=8)
    """

    name = "saga"
    threshold_steps = 1.0

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return w(v)(g - g_v) + ḡ, with ḡ the mean of the gradients stored before."""
        mean: Floats = memory.token["sum"] / local.n
        change = self.refresh(model, memory, local, words)
        return weight * change + mean + self.ridge(local) * model

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return 1/(3L*) with L* = max w(v)L_v, the step of Defazio, Bach and Lacoste-Julien."""
        return 1.0 / (3.0 * largest)

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        from levywalk.compiled import slope_of

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            (total,), (slopes,) = token, kept
            count, dim = features.shape
            batch = len(drawn) if len(drawn) > 0 else count
            if batch == 1:  # no room needed: the model moves at once
                i = drawn[0] if len(drawn) > 0 else 0
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * model[j]
                slope = slope_of(loss, z, targets[i])
                change = slope - slopes[i]
                slopes[i] = slope
                for j in range(dim):
                    a = change * features[i, j]
                    model[j] -= step_size * (weight * a + total[j] / n + ridge * model[j])
                    total[j] += a / count
                return
            # The slopes at the old model first: the model and the stored slopes change afterwards.
            change = np.empty(batch)
            fresh = np.empty(batch)
            for b in range(batch):
                i = drawn[b] if len(drawn) > 0 else b
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * model[j]
                fresh[b] = slope_of(loss, z, targets[i])
                change[b] = (fresh[b] - slopes[i]) / batch
            for j in range(dim):
                g = 0.0
                for b in range(batch):
                    i = drawn[b] if len(drawn) > 0 else b
                    g += change[b] * features[i, j]
                model[j] -= step_size * (weight * g + total[j] / n + ridge * model[j])
            for b in range(batch):
                i = drawn[b] if len(drawn) > 0 else b
                renewed = (fresh[b] - slopes[i]) / count  # 0 if a sample was drawn twice
                slopes[i] = fresh[b]
                for j in range(dim):
                    total[j] += renewed * features[i, j]

        return apply

    def compiled_several(self) -> Any:
        """Return the compiled twin of `apply` for several outputs."""
        from numba import njit

        from levywalk.compiled import add_outputs, output_slopes, room_of

        room_for: Any = njit(room_of)

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, outputs, loss, ridge, drawn, token, kept, weight, step_size,
            n,
        ):  # fmt: skip
            (total,), (slopes,) = token, kept
            count = len(features)
            batch = len(drawn) if len(drawn) > 0 else count
            # The slopes at the old model first: the model and the stored slopes change afterwards.
            fresh = np.empty((batch + 1, room_for(outputs)))
            for b in range(batch):
                i = drawn[b] if len(drawn) > 0 else b
                output_slopes(features, i, model, targets, loss, outputs, fresh[b])
            pull, shrink = -step_size / n, 1.0 - step_size * ridge
            for j in range(len(model)):
                model[j] = shrink * model[j] + pull * total[j]
            change = fresh[batch]
            for b in range(batch):
                i = drawn[b] if len(drawn) > 0 else b
                for k in range(outputs):
                    moved = fresh[b, k] - slopes[i * outputs + k]
                    change[k] = -step_size * weight * moved / batch
                add_outputs(model, features, i, change, outputs, 1.0)
            for b in range(batch):
                i = drawn[b] if len(drawn) > 0 else b
                for k in range(outputs):  # 0 if a sample was drawn twice
                    change[k] = (fresh[b, k] - slopes[i * outputs + k]) / count
                    slopes[i * outputs + k] = fresh[b, k]
                add_outputs(total, features, i, change, outputs, 1.0)

        return apply


def saga(minibatch: int | None = None) -> Saga:
    """SAGA along a walk (Defazio, Bach, Lacoste-Julien 2014), with the weights of the walk.

    x ← x - γ[w(v)(g - g_v) + ḡ]: g is the node's gradient, g_v the one that it stored at its last
    visit, and ḡ the mean of all stored gradients, whose sum the token carries. The fixed point is
    the optimum whatever the law of the walk, so the jumps of `mhlj` leave no error floor.

    Parameters
    ----------
    minibatch
        How many of its samples a node draws for one update; None means all. Only the stored slopes
        of the drawn samples are renewed.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(10), lw.homogeneous(10, dim=2, seed=1)
    >>> trace = lw.run(
    ...     network, problem, lw.mhlj(), steps=10_000, step_size="theory", update=lw.saga()
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-12)
    True
    """
    return Saga(minibatch)
