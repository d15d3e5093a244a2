"""Which assumptions hold, on cases where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw

NAMES = ["Assumption 1", "Assumption 2", "Assumption 3", "Assumption 4", "hetedata"]


def test_the_papers_own_data_break_assumption_two_and_hetedata() -> None:
    found = lw.assumptions(lw.ring(1000), lw.heterogeneous(1000), lw.mhlj())
    assert [a.name for a in found] == NAMES
    assert found["Assumption 1"].holds
    assert found["Assumption 2"].holds is False
    assert found["Assumption 2"].numbers["n_flat_nodes"] == 1000
    assert found["Assumption 2"].numbers["mu_global"] > 0
    assert "ridge" in found["Assumption 2"].why
    assert found["Assumption 3"].holds
    assert found["hetedata"].holds is False
    assert found["hetedata"].numbers["L_mean_over_L_min"] > 2
    assert not found.hold


def test_a_ridge_makes_assumption_two_true() -> None:
    base = lw.homogeneous(30, dim=3)
    ridged = lw.LeastSquares(base.features, base.targets, ridge=0.1)
    found = lw.assumptions(lw.ring(30), ridged, lw.mhlj())
    assert found["Assumption 2"].holds
    assert found["Assumption 2"].numbers["mu_min"] == pytest.approx(0.1)
    assert found.hold


@pytest.mark.parametrize(
    ("network", "design", "period"),
    [
        (lw.ring(10), lw.unif_rw(), 2),
        (lw.ring(9), lw.unif_rw(), 1),
        (lw.ring(10, self_loops="counted"), lw.unif_rw(), 1),
        (lw.star(10), lw.simple_rw(), 2),
        (lw.ring(10), lw.iid_uniform(), 1),
        (lw.ring(10), lw.Design(jump=lw.JumpLaw(0.1, lw.FixedDistance(3))), 2),
        (lw.ring(10), lw.Design(jump=lw.JumpLaw(0.1, lw.FixedDistance(2))), 1),
    ],
)
def test_assumption_four_counts_the_period(
    network: lw.Network, design: lw.Design, period: int
) -> None:
    found = lw.assumptions(network, lw.homogeneous(network.n, dim=2), design)["Assumption 4"]
    assert found.numbers["period"] == period
    assert found.holds is (period == 1)
    assert ("period 2" in found.why) is (period == 2)


def test_assumption_three_has_the_problems_own_numbers() -> None:
    problem = lw.homogeneous(20, dim=2)
    numbers = lw.assumptions(lw.ring(20), problem, lw.mhlj())["Assumption 3"].numbers
    assert numbers["sigma_max2"] == pytest.approx(problem.sigma_max2)
    assert numbers["sigma_star2"] == pytest.approx(problem.sigma_star2)


def test_a_separable_logistic_problem_has_no_optimum_and_says_so() -> None:
    problem = lw.Logistic(np.array([[1.0], [2.0], [3.0]]), np.array([1, 1, 1]))
    found = lw.assumptions(lw.ring(3), problem, lw.unif_rw())["Assumption 3"]
    assert found.holds is False
    assert "no minimiser" in found.why


def test_what_a_problem_does_not_say_is_unknown_not_true() -> None:
    class Bowls:
        n, dim, smoothness = 3, 1, np.ones(3)

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * float((x[0] - v) ** 2)

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return x - v

    found = lw.assumptions(lw.ring(3), Bowls(), lw.unif_rw())
    assert found["Assumption 2"].holds is None
    assert found["Assumption 3"].holds is None
    assert found["hetedata"].holds
    assert not found.hold
    assert "unknown" in str(found)


def test_bad_input_is_refused() -> None:
    problem = lw.homogeneous(6, dim=2)
    design = lw.switching(lw.mhlj(), lw.unif_rw())
    with pytest.raises(lw.InvalidParameter, match="first or"):
        lw.assumptions(lw.ring(6), problem, design)  # type: ignore[arg-type]
    with pytest.raises(lw.NotConnected):
        lw.assumptions(lw.Network.from_edges([(0, 1), (2, 3), (4, 5)]), problem, lw.mhlj())
    with pytest.raises(lw.InvalidParameter, match="name"):
        lw.assumptions(lw.ring(6), problem, lw.mhlj())["Assumption 5"]
