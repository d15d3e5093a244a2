"""What walks alone measure agrees with the chain's exact linear algebra. Seeds are fixed; each test
may fail by chance with a probability below 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import levywalk as lw
from tests.limits import mostly_more

NETWORK, PROBLEM = lw.barbell(5, 1), lw.heterogeneous(11, dim=3, important=1, seed=4)


@pytest.mark.parametrize(
    "design",
    mostly_more([lw.simple_rw(), lw.weight_rw(), lw.mhlj()], lambda design: design.name == "MHLJ"),
    ids=lambda design: design.name,
)
def test_hitting_times_are_those_of_the_matrix(design):
    exact = lw.hitting_times(lw.transition(NETWORK, PROBLEM, design), 10)[0]
    walks = lw.walk(
        NETWORK, design, problem=PROBLEM, steps=60_000, replicas=1000, start=0, record_first=True
    )
    first = walks.first_visit[:, 10]
    assert (first >= 0).all()
    error = first.std(ddof=1) / np.sqrt(len(first))
    assert abs(first.mean() - exact) < stats.norm.isf(1e-5) * error


@pytest.mark.parametrize("design", [lw.unif_rw(), lw.mhlj()], ids=lambda design: design.name)
def test_the_memory_of_a_walk_is_the_asymptotic_variance_of_its_chain(design):
    P = lw.transition(NETWORK, PROBLEM, design).toarray()
    law = lw.stationary(P)
    values = np.arange(11.0)
    centred = values - law @ values
    variance = law @ centred**2
    # σ² = <f, f> + 2 Σ <f, P^k f>: through the fundamental matrix
    solved = np.linalg.solve(np.eye(11) - P + law, centred)
    exact = (2 * (law * centred) @ solved - variance) / variance
    walks = lw.walk(
        NETWORK,
        design,
        problem=PROBLEM,
        steps=400_000,
        replicas=32,
        start="stationary",
        observable=values,
    )
    found = walks.correlation()
    assert found.trusted
    spread = (found.high - found.low) / (2 * stats.norm.isf(0.025))
    assert abs(found.time - exact) < stats.norm.isf(1e-5) * spread
    assert abs(found.mean - law @ values) < stats.norm.isf(1e-5) * found.error
