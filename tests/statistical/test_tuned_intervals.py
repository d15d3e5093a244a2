"""The interval of the steps of a tuned comparison covers the tuning too.

The truth is the median over independent repetitions of the whole comparison, tuning included.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.reproduction.measurement import geometric_checkpoints

NETWORK = lw.ring(30)
DATA = {"dim": 3, "important": 1}
CASES = {
    "complete": (lw.complete(20), lw.homogeneous(20, dim=3), lw.unif_rw(), 600, 0.2, 8),
    "trapped": (NETWORK, lw.heterogeneous(30, noise=0.5, **DATA), lw.weight_rw(), 3000, 0.1, 16),
    "noisy": (NETWORK, lw.heterogeneous(30, noise=1.5, **DATA), lw.iid_weighted(), 3000, 0.1, 32),
}


def repeated(name, times):
    """Return the reported steps and their intervals, with and without tuning, of repetitions."""
    network, problem, design, steps, accuracy, replicas = CASES[name]
    found = []
    for seed in range(times):
        result = lw.compare(
            network,
            problem,
            {"a": design},
            steps=steps,
            replicas=replicas,
            accuracy=accuracy,
            seed=seed,
            record_every=geometric_checkpoints(steps),
            threads=1,
        )
        alone = result.traces["a"].steps_to_interval(accuracy)
        found.append((*result.steps_interval("a"), *alone))
    return np.array(found).T


def covered(low, high, truth):
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.filterwarnings("ignore:.*no step size reached:levywalk.errors.DataWarning")
@pytest.mark.parametrize(
    ("name", "times", "least"),
    # 95 % in expectation. Seeds are fixed: the same repetitions each time, so no false alarms.
    [
        ("complete", 40, 0.8),
        *(pytest.param(name, 100, 0.85, marks=pytest.mark.more) for name in CASES),
        *(pytest.param(name, 300, 0.9, marks=pytest.mark.soak) for name in CASES),
    ],
)
def test_the_interval_covers_what_repeated_comparisons_report(name, times, least):
    steps, low, high, low_alone, high_alone = repeated(name, times)
    truth = np.quantile(steps, 0.5, method="inverted_cdf")
    assert ((low <= steps) & (steps <= high)).all()
    assert covered(low, high, truth) >= least
    assert covered(low, high, truth) >= covered(low_alone, high_alone, truth)
