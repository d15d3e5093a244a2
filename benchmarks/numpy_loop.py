"""The walk as one would first write it with numpy: what the kernel saves its users."""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.engine.run_state import RunPlan
from levywalk.problem import GeneralizedLinear


def walk(plan: RunPlan, steps: int) -> Floats:
    """Return the model after ``steps`` least-squares updates of an MHLJ walk, with numpy's own
    random numbers.
    """
    network, problem, (phase,) = plan.network, plan.problem, plan.phases
    assert isinstance(problem, GeneralizedLinear)
    features, targets = problem.sorted_features, problem.sorted_targets
    weights, ratio = phase.bound.weights, phase.bound.ratio
    step_size, p_jump = phase.step_sizes(0, 1)[0], phase.jump_probabilities(0, 1)[0]
    distances = phase.distances()
    indptr, indices = network.indptr, network.indices
    rng = np.random.default_rng(0)
    v, x = 0, np.zeros(problem.dim)

    for _ in range(steps):
        a = features[v]
        x -= step_size * weights[v] * 2.0 * (a @ x - targets[v]) * a
        if rng.random() < p_jump:
            for _ in range(1 + int(np.searchsorted(distances, rng.random(), side="right"))):
                v = indices[rng.integers(indptr[v], indptr[v + 1])]
        else:
            u = indices[rng.integers(indptr[v], indptr[v + 1])]
            if rng.random() * ratio[v] < ratio[u]:
                v = u
    return x
