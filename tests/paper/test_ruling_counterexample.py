"""[thmnojump] and [thmhlj] as printed are false: one important node on a ring of twenty, and no
noise at all.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.theory.judge.moments import exact_moments

N, STEPS = 20, 10_000


def bowls(curvature: np.ndarray) -> lw.LeastSquares:
    """f_v = ½ xᵀ diag(L_v, 1) x from two samples per node."""
    features = np.zeros((2 * len(curvature), 2))
    features[::2, 0], features[1::2, 1] = np.sqrt(curvature), 1.0
    return lw.LeastSquares(
        features, np.zeros(len(features)), node=np.repeat(np.arange(len(curvature)), 2)
    )


@pytest.fixture(scope="module")
def problem() -> lw.LeastSquares:
    return bowls(np.r_[1e4, np.ones(N - 1)])


def test_the_problem_is_the_one_of_the_ruling(problem: lw.LeastSquares) -> None:
    assert problem.smoothness == pytest.approx(np.r_[1e4, np.ones(N - 1)])
    assert problem.local_strong_convexity == pytest.approx(np.ones(N))
    assert lw.assumptions(
        lw.ring(N), problem, lw.weight_rw()
    ).hold  # so the theorem claims to apply


def test_the_printed_theorem_is_false_and_the_corrected_one_holds(problem: lw.LeastSquares) -> None:
    gamma = 0.999 / problem.smoothness.mean()
    result = lw.bounds(
        lw.ring(N), problem, lw.weight_rw(), steps=STEPS, step_size=gamma, x0=[0.0, 1.0]
    )
    assert result.trusted
    assert result.exact == pytest.approx(0.05, abs=0.002)
    for name in ("printed", "printed-proof", "printed-lemmas"):
        assert result.forms[name].total == pytest.approx(4.3e-9, rel=0.02)
        assert result.ratio(name) < 1e-6
    assert result.forms["corrected"].total == pytest.approx(0.736, abs=0.001)
    assert 1.0 < result.ratio("corrected") < 20.0


@pytest.mark.more
def test_a_run_agrees_with_the_exact_error_and_so_refutes_the_printed_bound(
    problem: lw.LeastSquares,
) -> None:
    gamma, replicas = 0.999 / problem.smoothness.mean(), 4000
    trace = lw.run(
        lw.ring(N),
        problem,
        lw.weight_rw(),
        steps=STEPS,
        step_size=gamma,
        x0=[0.0, 1.0],
        start="stationary",
        replicas=replicas,
        record_every=STEPS,
    )
    final = trace.distance2[:, -1]
    exact = exact_moments(
        lw.ring(N), problem, lw.weight_rw(), steps=STEPS, step_size=gamma, x0=[0.0, 1.0]
    ).error2[0]
    width = np.sqrt(np.log(2 / 1e-9) / (2 * replicas))  # Hoeffding: errors lie in [0, 1]
    assert abs(final.mean() - exact) < width
    assert final.mean() > 1e6 * 4.3e-9


def test_jumps_do_not_rescue_the_printed_bound(problem: lw.LeastSquares) -> None:
    """With few jumps the walk is still trapped; [thmhlj] has no noise to hide behind and fails as
    well.
    """
    gamma = 0.999 / problem.smoothness.mean()
    result = lw.bounds(
        lw.ring(N), problem, lw.mhlj(p_jump=1e-4), steps=STEPS, step_size=gamma, x0=[0.0, 1.0]
    )
    assert result.forms["printed"].label == "thmhlj"
    assert result.ratio("printed") < 1e-3
    assert result.ratio("corrected") > 1.0


def test_without_an_important_node_both_hold() -> None:
    problem = bowls(np.ones(N))
    result = lw.bounds(lw.ring(N), problem, lw.weight_rw(), steps=100, step_size=0.1, x0=[0.0, 1.0])
    assert all(result.ratio(name) >= 1.0 for name in result.forms)
