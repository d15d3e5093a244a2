"""Finito with a step size of its own, from the differences of the last lap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.memory import Like, Memory, Number, PerSample
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.updates.linear import require_linear
from levywalk.updates.update import LocalData, Update

# The step α in units of 1/L: the one that is always safe, its growth per lap, that of its limit,
# and how much the squared gradient may grow before a lap is cut short.
SAFE, GROWTH, RELAXED, BRAKE = 1.0, 2.0, 1.1, 4.0


@registered("update", "finito")
@dataclass(frozen=True)
class Finito(Update):
    """Finito with a safeguarded Barzilai-Borwein step; see `finito`.

    Examples
    --------
    >>> Finito()
    Finito()
    """

    name = "finito"
    tunable = False
    node_memory = {  # noqa: RUF012
        "point": Like("model"),  # φ_v, the model of the last visit
        "slopes": PerSample(),
        "seen": Number(np.int64),
    }
    token_memory = {  # noqa: RUF012
        "points": Like("model"),  # Σ L_v φ_v
        "sum": Like("model"),  # Σ ∇f_v(φ_v)
        "smoothness": Number(),  # Σ L_v of the nodes seen
        "visits": Number(np.int64),  # of this lap
        "step": Number(initial=SAFE),  # α
        "limit": Number(),  # of α; 0: none yet
        "last_point": Like("model"),  # the means when α was set
        "last_gradient": Like("model"),
    }

    def check(self, problem: Problem) -> None:
        """Refuse problems that are no linear models."""
        require_linear(self.name, problem)

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Store model and gradient here, and return φ̄ - αḡ."""
        token, node = memory.token, memory.node
        features, _ = local.samples
        slopes = local.slopes(model)
        token["sum"] += (slopes - node["slopes"]) @ features / len(slopes)
        if node["seen"] == 0:
            node["seen"] = 1
            token["smoothness"] += local.smoothness
        token["sum"] += local.ridge * (model - node["point"])
        token["points"] += local.smoothness * (model - node["point"])
        node["slopes"], node["point"] = slopes, model
        token["visits"] += 1
        if token["smoothness"] == 0.0:  # nothing but samples without features so far
            return model
        point, gradient = (token[name] / token["smoothness"] for name in ("points", "sum"))
        now = float(gradient @ gradient)
        last = float(token["last_gradient"] @ token["last_gradient"])
        if token["visits"] >= local.n or 0.0 < BRAKE * last < now:
            moved, bent = point - token["last_point"], gradient - token["last_gradient"]
            token["step"], token["limit"] = next_step(
                token["step"], token["limit"], float(moved @ moved), float(moved @ bent), now, last
            )
            token["visits"] = 0
            token["last_point"], token["last_gradient"] = point, gradient
        changed: Floats = point - step_size * token["step"] * gradient
        return changed

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return 1: the factor of the step that the token carries."""
        return 1.0

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        from levywalk.compiled import slope_of

        following: Any = njit(next_step)
        brake = BRAKE

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            points, total, smooth, visits, step, limit, last_point, last_gradient = token
            point, slopes, known = kept
            count, dim = features.shape
            for i in range(count):
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * model[j]
                slope = slope_of(loss, z, targets[i])
                change = (slope - slopes[i]) / count
                slopes[i] = slope
                for j in range(dim):
                    total[j] += change * features[i, j]
            if known[0] == 0:
                known[0] = 1
                smooth[0] += smoothness
            for j in range(dim):
                moved = model[j] - point[j]
                total[j] += ridge * moved
                points[j] += smoothness * moved
                point[j] = model[j]
            visits[0] += 1
            if smooth[0] == 0.0:
                return
            now = last = 0.0
            for j in range(dim):
                now += (total[j] / smooth[0]) ** 2
                last += last_gradient[j] ** 2
            if visits[0] >= n or 0.0 < brake * last < now:
                moved2 = bent = 0.0
                for j in range(dim):
                    mean, gradient = points[j] / smooth[0], total[j] / smooth[0]
                    moved2 += (mean - last_point[j]) ** 2
                    bent += (mean - last_point[j]) * (gradient - last_gradient[j])
                    last_point[j], last_gradient[j] = mean, gradient
                step[0], limit[0] = following(step[0], limit[0], moved2, bent, now, last)
                visits[0] = 0
            for j in range(dim):
                model[j] = (points[j] - step_size * step[0] * total[j]) / smooth[0]

        return apply


def next_step(
    step: float, limit: float, moved2: float, bent: float, now: float, last: float
) -> tuple[float, float]:
    """Return the step α of the next lap, and its limit: Barzilai and Borwein's, safeguarded.

    If the squared gradient has grown (from ``last`` to ``now``), α is halved and may not exceed
    that value; the limit is relaxed by a tenth with each lap that made progress. α at most doubles,
    and is never below 1, with which no order of visits diverges. Without a gradient to compare with
    (``last`` is 0), nothing changes.

    Examples
    --------
    >>> next_step(4.0, 0.0, moved2=9.0, bent=1.0, now=0.5, last=1.0)
    (8.0, 0.0)
    >>> next_step(8.0, 0.0, moved2=9.0, bent=1.0, now=2.0, last=1.0)
    (4.0, 4.0)
    """
    if last == 0.0:
        return step, limit
    if now >= last:
        step = max(SAFE, 0.5 * step)
        return step, step
    limit *= RELAXED
    wanted = min(moved2 / bent if bent > 0.0 else GROWTH * step, GROWTH * step)
    if limit > 0.0:
        wanted = min(wanted, limit)
    return max(SAFE, wanted), limit


def finito() -> Finito:
    """Finito along a walk (Defazio, Caetano, Domke 2014), without a step size to set.

    Each node keeps the model φ_v of its last visit and its gradient there, the token the sums of
    both. The model becomes φ̄ - αḡ with φ̄ = Σ L_v φ_v / Σ L_v and ḡ = Σ ∇f_v(φ_v) / Σ L_v over the
    nodes seen so far: every node counts by its own smoothness L_v, as in MISO (Mairal 2015), so
    that a few nodes with large L_v do not slow all others down. Updates are not weighted.

    Notes
    -----
    α is set after each lap, n updates, to the step of Barzilai and Borwein (1988) for the change of
    the two means, within these limits:

    - It is at least 1. With α ≤ 2 every φ_v - (α/L_v)∇f_v(φ_v) is nonexpansive, so once all nodes
      have been seen, no model is further from the optimum than the furthest of the stored ones, in
      any order of visits (the argument of Bertsekas and Tsitsiklis 1989 for asynchronous
      iterations).
    - It at most doubles.
    - If ‖ḡ‖ has grown over a lap, or doubles within one, which ends it at once, α is halved, and it
      may not exceed that value any more; each lap that makes progress relaxes this limit by a
      tenth. So steps that are too large for old gradients are given up.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(20), lw.homogeneous(20, dim=2, seed=1)
    >>> trace = lw.run(
    ...     network, problem, lw.mhda(), steps=4000, step_size="theory", update=lw.finito()
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-12)
    True
    """
    return Finito()
