"""An empirical lower bound on ε by auditing: runs with and without one sample are told apart no
better than the claimed ε allows.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import levywalk as lw
from tests.limits import mostly_soak

DELTA = 1e-5
SURE = 1e-7  # the probability that a lower bound is too high


def lower_bound(inside: np.ndarray, outside: np.ndarray) -> float:
    """The largest ε that no (ε, δ)-DP mechanism below it could show, by Clopper and Pearson.

    The threshold is found on one half of the scores and judged on the other.
    """
    half = len(inside) // 2
    best, threshold = -np.inf, 0.0
    for candidate in np.quantile(np.concatenate([inside[:half], outside[:half]]), GRID):
        value = _bound(inside[:half] > candidate, outside[:half] > candidate)
        if value > best:
            best, threshold = value, candidate
    return _bound(inside[half:] > threshold, outside[half:] > threshold)


GRID = np.linspace(0.02, 0.98, 97)


def _bound(hits: np.ndarray, false: np.ndarray) -> float:
    n, k, m = len(hits), int(hits.sum()), int(false.sum())
    least = beta.ppf(SURE / 2, k, n - k + 1) if k else 0.0
    most = beta.ppf(1 - SURE / 2, m + 1, n - m) if m < n else 1.0
    return float(np.log(max(least - DELTA, 1e-300) / most))


def audited(privacy: lw.Privacy, replicas: int, steps: int, update=None) -> tuple[float, float]:
    """Return the lower bound on ε from the models at the end, and the ε that the runs claim."""
    scores, claimed = [], 0.0
    for target in (-50.0, 50.0):  # the sample of node 0, replaced
        problem = lw.LeastSquares([[1.0], [1e-3]], [target, 0.0])
        trace = lw.run(
            lw.path(2),
            problem,
            lw.unif_rw(),
            steps=steps,
            step_size=1e-6,
            start=0,
            replicas=replicas,
            seed=1 if target < 0 else 2,
            privacy=privacy,
            update=update,
            record_every=steps,
            measure_loss=1,
        )
        scores.append(trace.model[:, 0])
        claimed = max(claimed, trace.provenance["privacy"]["epsilon_spent"])
    return lower_bound(scores[1], scores[0]), claimed


@pytest.mark.parametrize("update", [None, pytest.param(lw.saga(), marks=pytest.mark.more)])
def test_an_audit_never_exceeds_the_claim(update):
    found, claimed = audited(
        lw.Privacy(clip=1.0, noise=0.8, delta=DELTA), replicas=1200, steps=1, update=update
    )
    assert 0.1 * claimed < found < claimed


def test_an_audit_finds_too_little_noise():
    """A mutant: with a third of the noise the lower bound is above what was claimed."""
    privacy = lw.Privacy(clip=1.0, noise=3.0, delta=DELTA)
    found, _ = audited(lw.Privacy(clip=1.0, noise=0.3, delta=DELTA), replicas=1000, steps=1)
    assert found > privacy.epsilon(1)


@pytest.mark.more
@pytest.mark.parametrize("steps", mostly_soak([1, 7], lambda steps: steps == 1))
@pytest.mark.parametrize("update", [None, lw.saga(), lw.heavy_ball(0.5)])
def test_long_audits_never_exceed_the_claim(steps, update):
    for noise in (0.7, 2.0):
        privacy = lw.Privacy(clip=1.0, noise=noise, delta=DELTA)
        found, claimed = audited(privacy, replicas=2000, steps=steps, update=update)
        assert found < claimed
