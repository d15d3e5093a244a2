from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import levywalk as lw
from levywalk.theory.judge.curvature import mean_hessian
from levywalk.theory.judge.predict import asymptotic_covariance, communication


def test_asymptotic_covariance_equals_the_sum_over_lags() -> None:
    network, problem = lw.watts_strogatz(30, 4, 0.3), lw.heterogeneous(30, dim=3, important=1)
    P = lw.transition(network, problem, lw.mhlj())
    law = lw.stationary(P)
    values = problem.local_gradients(problem.optimum)
    centred = values - law @ values
    total, power = np.zeros((3, 3)), np.eye(30)
    for lag in range(20_000):
        term = (law[:, None] * centred).T @ (power @ centred)
        total += term if lag == 0 else term + term.T
        power = power @ P
        if np.abs(term).max() < 1e-14 * np.abs(total).max():
            break
    np.testing.assert_allclose(
        asymptotic_covariance(sparse.csr_array(P), law, values), total, rtol=1e-8
    )


@pytest.mark.more
def test_iterations_give_the_covariance_of_the_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    poisson = import_module("levywalk.theory.chain.poisson")
    problem = lw.heterogeneous(3000, dim=3, important=3)
    P = lw.transition(lw.watts_strogatz(3000, 4, 0.1), problem, lw.mhlj())
    law, values = lw.stationary(P), problem.local_gradients(problem.optimum)
    iterated = asymptotic_covariance(P, law, values)
    monkeypatch.setattr(poisson, "_FACTORED", 3000)
    np.testing.assert_allclose(iterated, asymptotic_covariance(P, law, values), rtol=1e-6)


def test_asymptotic_covariance_of_independent_draws_is_the_covariance() -> None:
    problem = lw.homogeneous(25, dim=2)
    P = lw.transition(lw.complete(25), problem, lw.iid_uniform())
    values = problem.local_gradients(problem.optimum)
    np.testing.assert_allclose(
        asymptotic_covariance(P, np.full(25, 0.04), values),
        np.cov(values.T, bias=True),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("make", [lw.LeastSquares, lw.Logistic])
def test_mean_hessian_agrees_with_finite_differences(make: type[lw.LeastSquares]) -> None:
    rng = np.random.default_rng(0)
    problem = make(
        rng.standard_normal((40, 3)),
        rng.integers(0, 2, 40),
        node=np.repeat(np.arange(20), 2),
        ridge=0.1,
    )
    mass = rng.random(20)
    mass /= mass.sum()
    x = rng.standard_normal(3)
    hessian = mean_hessian(problem, mass, x)
    for j in range(3):
        step = np.eye(3)[j] * 1e-6
        slope = (
            mass @ (problem.local_gradients(x + step) - problem.local_gradients(x - step)) / 2e-6
        )
        np.testing.assert_allclose(hessian[j], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("policy", ["none", "counted"])
@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.weight_rw(), lw.mhlj(0.3, 0.3, 4), lw.iid_weighted()]
)
def test_hops_and_transfers_per_step_are_those_of_a_run(policy: str, design: lw.Design) -> None:
    network, problem = (
        lw.watts_strogatz(40, 4, 0.2, self_loops=policy),
        lw.heterogeneous(40, important=2),
    )
    law = lw.stationary(lw.transition(network, problem, design))
    hops, transfers = communication(design.bind(network, problem), law)
    trace = lw.run(
        network, problem, design, steps=100_000, step_size=1e-4, replicas=8, start="stationary"
    )
    assert trace.hops[:, -1].mean() / 100_000 == pytest.approx(hops, abs=0.01)
    assert trace.transfers[:, -1].mean() / 100_000 == pytest.approx(transfers, abs=0.02)


@pytest.mark.more
def test_noise_floor_is_that_of_long_runs_with_small_steps() -> None:
    network, problem, design = (
        lw.ring(12, self_loops="counted"),
        lw.homogeneous(12, dim=2, seed=3),
        lw.unif_rw(),
    )
    found = lw.predict(network, problem, design)
    first = float(problem.optimum @ problem.optimum)
    gamma = 2e-4
    trace = lw.run(
        network, problem, design, steps=400_000, step_size=gamma, replicas=64, x0=problem.optimum
    )
    measured = trace.distance2[:, 60:].mean() / first  # after burn-in
    assert measured == pytest.approx(gamma * found.noise, rel=0.15)


def test_prediction_orders_the_papers_methods_on_the_ring_as_the_demo_does() -> None:
    network, problem = lw.ring(1000), lw.heterogeneous(1000, important=2)
    steps = {
        design.name: lw.predict(network, problem, design).steps
        for design in (lw.unif_rw(), lw.weight_rw(), lw.mhlj(), lw.iid_weighted())
    }
    assert sorted(steps, key=steps.__getitem__) == ["i.i.d. weighted", "UnifRW", "MHLJ", "WeightRW"]


@pytest.mark.more
def test_bias_of_jumps_vanishes_without_noise() -> None:
    noisy = lw.predict(lw.ring(50), lw.heterogeneous(50, important=1), lw.mhlj())
    exact = lw.predict(lw.ring(50), lw.heterogeneous(50, important=1, noise=0.0), lw.mhlj())
    assert noisy.bias2 > 1e-6
    assert exact.bias2 < 1e-20


def test_unreachable_accuracy_is_infinite() -> None:
    found = lw.predict(lw.ring(50), lw.heterogeneous(50, important=1), lw.mhlj(), accuracy=1e-9)
    assert found.steps == np.inf


@pytest.mark.more
def test_tune_returns_the_least_of_all_it_judged_and_the_whole_curve() -> None:
    network, problem = lw.ring(40), lw.heterogeneous(40, important=1)
    tuning = lw.tune(
        network, problem, p_jumps=[0.0, 0.1, 0.5], p_distances=[0.5, 1.0], max_hops=[1, 3]
    )
    assert tuning.cost == min(candidate.cost for candidate in tuning.candidates)
    assert [row["p_jump"] for row in tuning.curve] == [0.0, 0.1, 0.5]
    assert tuning.best == lw.mhlj(**tuning.parameters)
    dense = lw.transition(
        network,
        problem,
        lw.mhlj(0.1, tuning.parameters["p_distance"], tuning.parameters["max_hops"]),
    )
    values = np.sort(np.linalg.eigvals(dense.toarray()).real)
    assert tuning.table()["spectral_gap"][1] == pytest.approx(1 - values[-2], rel=1e-6)


@pytest.mark.more
def test_tuning_by_transfers_counts_what_jumps_send() -> None:
    network, problem = lw.ring(40), lw.heterogeneous(40, important=1)
    options = {"p_jumps": [0.1, 0.5], "p_distances": [0.25], "max_hops": [10]}
    steps = lw.tune(network, problem, cost="steps", **options)
    transfers = lw.tune(network, problem, cost="transfers", **options)
    for a, b in zip(steps.candidates, transfers.candidates, strict=True):
        assert b.cost == pytest.approx(a.cost * a.prediction.transfers_per_step)


@pytest.mark.more
def test_mixed_walks_can_be_tuned_too() -> None:
    tuning = lw.tune(
        lw.ring(40), lw.heterogeneous(40, important=1), family="mixed", mixes=[0.0, 0.3, 1.0]
    )
    assert set(tuning.parameters) == {"mix"}
    assert len(tuning.curve) == 3


def _simulated(
    network: lw.Network, problem: Any, design: lw.Design, gamma: float, accuracy: float, every: int
) -> float:
    """Return the steps of the mean over many walks."""
    trace = lw.run(
        network,
        problem,
        design,
        steps=100 * every,
        step_size=gamma,
        replicas=2000,
        record_every=every,
        seed=5,
    )
    error = trace.distance2.mean(axis=0) / trace.distance2[0, 0]
    above = np.flatnonzero(error > accuracy)
    return float(trace.step[above[-1] + 1])


@pytest.mark.more
def test_a_trap_that_matters_only_on_the_way_is_foreseen() -> None:
    # With hardly any noise there is no floor, but WeightRW first sits at the important node.
    network, problem = lw.ring(60), lw.heterogeneous(60, dim=3, important=1, noise=1e-3, seed=2)
    trapped = lw.predict(network, problem, lw.weight_rw(), accuracy=0.05)
    free = lw.predict(network, problem, lw.iid_weighted(), accuracy=0.05)
    assert trapped.trusted
    assert free.trusted
    assert trapped.steps > 3.0 * free.steps
    for design, found in ((lw.weight_rw(), trapped), (lw.iid_weighted(), free)):
        measured = _simulated(network, problem, design, found.step_size, 0.05, 2)
        assert found.steps == pytest.approx(measured, rel=0.35)


@pytest.mark.more
def test_step_sizes_of_logistic_regression_may_exceed_the_inverse_of_the_smoothness() -> None:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((300, 2))
    labels = rng.random(300) < 1.0 / (1.0 + np.exp(-features @ np.array([3.0, -3.0])))
    # Three columns of zeros change nothing, and the loop for five is one that other tests compile.
    wider = np.pad(features, ((0, 0), (0, 3)))
    problem = lw.Logistic(wider, labels.astype(int), node=np.repeat(np.arange(60), 5), ridge=0.05)
    network, design = lw.complete(60), lw.iid_uniform()
    found = lw.predict(network, problem, design, accuracy=0.1)
    assert found.relative_step_size > 1.0
    measured = _simulated(network, problem, design, found.step_size, 0.1, 1)
    assert 0.5 <= found.steps / measured <= 2.0
    at_most_1 = found.step_size / found.relative_step_size
    capped = _simulated(network, problem, design, at_most_1, 0.1, 1)
    assert capped > measured


def test_the_error_falls_to_half_the_accuracy_as_in_a_tuned_comparison() -> None:
    network, problem = lw.ring(40), lw.homogeneous(40, dim=3, noise=1.0)
    found = lw.predict(network, problem, lw.unif_rw(), accuracy=0.05)
    floor = lw.error_floor(network, problem, lw.unif_rw(), step_size=found.step_size)
    assert 0.02 < floor.relative_floor <= 0.0255


class _Doubled(lw.LeastSquares):
    """Twice the loss of least squares: another loss as far as closed forms are concerned."""

    def local_gradient(self, v: int, x: np.ndarray, samples: object = None) -> np.ndarray:
        return 2.0 * super().local_gradient(v, x, samples)


def test_trust_has_a_reason() -> None:
    network = lw.ring(30)
    small = lw.predict(network, lw.heterogeneous(30, dim=3, important=1), lw.mhlj(), accuracy=0.1)
    assert small.trusted
    assert small.form == "error curve"
    assert "exact curve" in small.reason
    large = lw.predict(lw.ring(1000), lw.heterogeneous(1000, important=2), lw.mhlj())
    assert not large.trusted
    assert large.form == "limit of small steps"
    assert "too large for the error curve" in large.reason
    assert "not trusted" in repr(large)
    assert "too large" in large._repr_html_()
    rng = np.random.default_rng(0)
    own = _Doubled(rng.standard_normal((30, 2)), rng.standard_normal(30))
    other = lw.predict(network, own, lw.unif_rw(), accuracy=0.5)
    assert not other.trusted
    assert "neither that of least squares" in other.reason
    tuning = lw.tune(
        network,
        lw.heterogeneous(30, dim=2, important=1),
        p_jumps=[0.1],
        p_distances=[0.5],
        max_hops=[3],
        accuracy=0.1,
    )
    assert tuning.trusted
    assert tuning.table()["trusted"].all()


def test_bad_input_is_named() -> None:
    network, problem = lw.ring(20), lw.homogeneous(20)
    with pytest.raises(lw.InvalidParameter, match="cost must be one of"):
        lw.tune(network, problem, cost="time")
    with pytest.raises(lw.InvalidParameter, match="accuracy"):
        lw.predict(network, problem, lw.mhlj(), accuracy=0.0)
    with pytest.raises(lw.InvalidParameter, match=r"accuracy must be a number in \(0, 1\), got 2"):
        lw.predict(network, problem, lw.mhlj(), accuracy=2)
    for wrong in ({"p_jumps": []}, {"p_jumps": 3}, {"mixes": ()}):
        with pytest.raises(lw.InvalidParameter, match=r"must be a list .* such as \[0.1\], got"):
            lw.tune(network, problem, **wrong)
