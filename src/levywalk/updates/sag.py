"""SAG along a walk: a step along the mean of all nodes' last gradients."""

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


@registered("update", "sag")
@dataclass(frozen=True)
class Sag(DrawingTable):
    """Stochastic average gradient; see `sag`.

    Examples
    --------
    >>> Sag(minibatch=8)
    Sag(minibatch=8)
    """

    name = "sag"
    threshold_steps = 1.0

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return the mean of the stored gradients, the node's own one renewed."""
        self.refresh(model, memory, local, words)
        mean: Floats = memory.token["sum"] / local.n
        return mean + self.ridge(local) * model

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return 1/(16 L) with the largest L_v, the step of Schmidt, Le Roux and Bach."""
        return 1.0 / (16.0 * float(np.max(problem.smoothness)))

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
            for b in range(len(drawn) if len(drawn) > 0 else count):
                i = drawn[b] if len(drawn) > 0 else b
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * model[j]
                slope = slope_of(loss, z, targets[i])
                change = (slope - slopes[i]) / count
                slopes[i] = slope
                for j in range(dim):
                    total[j] += change * features[i, j]
            for j in range(dim):
                model[j] -= step_size * (total[j] / n + ridge * model[j])

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
            count, room = len(features), np.empty(room_for(outputs))
            for b in range(len(drawn) if len(drawn) > 0 else count):
                i = drawn[b] if len(drawn) > 0 else b
                output_slopes(features, i, model, targets, loss, outputs, room)
                for k in range(outputs):
                    slope = room[k]
                    room[k] = (slope - slopes[i * outputs + k]) / count
                    slopes[i * outputs + k] = slope
                add_outputs(total, features, i, room, outputs, 1.0)
            pull, shrink = -step_size / n, 1.0 - step_size * ridge
            for j in range(len(model)):
                model[j] = shrink * model[j] + pull * total[j]

        return apply


def sag(minibatch: int | None = None) -> Sag:
    """SAG along a walk (Schmidt, Le Roux, Bach 2017; Even 2023: MC-SAG).

    The token carries the sum of every node's last gradient. A visited node renews its own, and the
    model moves along the mean over all n nodes. Updates are not weighted: the limit is the optimum,
    whatever the law of the walk. Nodes that were never visited count as zero.

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
    ...     network, problem, lw.unif_rw(), steps=20_000, step_size="theory", update=lw.sag()
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-12)
    True
    """
    return Sag(minibatch)
