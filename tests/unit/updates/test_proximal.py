"""The proximal step along a walk: one update satisfies its own equation, at any step size."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from tests.limits import mostly_more

REPLICAS = 64


def problem_of(samples):
    rng = np.random.default_rng(3)
    features = 6.0 * rng.standard_normal((2 * samples, 3))
    labels = rng.integers(0, 2, 2 * samples)
    return lw.Logistic(features, labels, node=np.arange(2 * samples) % 2, ridge=0.05)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("step_size", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    "backend", mostly_more(["kernel", "reference"], lambda backend: backend == "reference")
)
def test_the_first_update_is_the_proximal_point(samples, step_size, backend):
    # Far from the optimum a logistic loss is flat on both sides of a bend, and Newton's method
    # alone would go to and fro for ever.
    problem = problem_of(samples)
    first = 8.0 * np.random.default_rng(5).standard_normal((REPLICAS, 3))
    trace = lw.run(
        lw.complete(2), problem, lw.unif_rw(), update=lw.point_saga(), steps=1,
        step_size=step_size, replicas=REPLICAS, x0=first, start=0, backend=backend,
    )  # fmt: skip
    for before, after in zip(first, trace.model, strict=True):
        residual = (after - before) / step_size + problem.local_gradient(0, after)
        assert np.abs(residual).max() < 1e-8 * (1.0 + np.abs(before).max() / step_size)
