"""The walk as one would first write it with numba: `numpy_loop`, its arrays handed to a compiled
loop.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from levywalk.arrays import Floats
from levywalk.engine.run_state import RunPlan
from levywalk.problem import GeneralizedLinear


def walk(plan: RunPlan, steps: int) -> Floats:
    """Return the model after ``steps`` least-squares updates of an MHLJ walk, with numba's own
    random numbers.
    """
    network, problem, (phase,) = plan.network, plan.problem, plan.phases
    assert isinstance(problem, GeneralizedLinear)
    x = np.zeros(problem.dim)
    _compiled_loop(
        network.indptr,
        network.indices,
        problem.sorted_features,
        problem.sorted_targets,
        phase.bound.weights,
        phase.bound.ratio,
        float(phase.step_sizes(0, 1)[0]),
        float(phase.jump_probabilities(0, 1)[0]),
        phase.distances(),
        x,
        steps,
    )
    return x


def _loop(
    indptr: Any,
    indices: Any,
    features: Any,
    targets: Any,
    weights: Any,
    ratio: Any,
    step_size: float,
    p_jump: float,
    distances: Any,
    x: Any,
    steps: int,
) -> None:
    np.random.seed(0)  # noqa: NPY002 - inside compiled code, numba's own generator
    v = 0
    for _ in range(steps):
        z = -targets[v]
        for j in range(len(x)):
            z += features[v, j] * x[j]
        slope = step_size * weights[v] * 2.0 * z
        for j in range(len(x)):
            x[j] -= slope * features[v, j]
        if np.random.random() < p_jump:  # noqa: NPY002
            draw = np.random.random()  # noqa: NPY002
            distance = 1 + np.searchsorted(distances, draw, side="right")
            for _ in range(distance):
                v = indices[np.random.randint(indptr[v], indptr[v + 1])]  # noqa: NPY002
        else:
            u = indices[np.random.randint(indptr[v], indptr[v + 1])]  # noqa: NPY002
            if np.random.random() * ratio[v] < ratio[u]:  # noqa: NPY002
                v = u


_compiled_loop = numba.njit(_loop, fastmath=True)
