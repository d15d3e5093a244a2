"""The exact curve of the error: against the recursion of moments, itself step by step, and runs."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.theory.judge.curvature import local_gradients
from levywalk.theory.judge.error_curve import ErrorCurve
from levywalk.theory.judge.fewest_steps import crossing, fewest_steps, settled
from levywalk.theory.judge.moments import exact_moments
from levywalk.theory.judge.quadratic_model import (
    model_hessians,
    model_smoothness,
    reach,
    sample_curvatures,
)
from levywalk.theory.judge.setting import make_setting

DESIGNS = [lw.unif_rw(), lw.weight_rw(), lw.mhlj(0.3), lw.iid_weighted(), lw.simple_rw()]


def curve_of(
    network: lw.Network, problem: lw.LeastSquares, design: lw.Design, relative: float
) -> tuple[ErrorCurve, float]:
    setting = make_setting(network, problem, design, "theory")
    model = model_hessians(problem, sample_curvatures(problem, problem.optimum, 1.0))
    gamma = relative / setting.bound.largest
    curve = ErrorCurve(
        setting.P,
        setting.law,
        setting.weights[:, None, None] * model,
        setting.weighted_gradients(problem.optimum),
        gamma,
        -problem.optimum,
        np.full(network.n, 1.0 / network.n),
    )
    return curve, gamma


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
@pytest.mark.parametrize("samples", [1, 2])
def test_the_curve_is_that_of_the_exact_moments(design: lw.Design, samples: int) -> None:
    rng = np.random.default_rng(samples)
    node = np.repeat(np.arange(8), samples)
    problem = lw.LeastSquares(
        rng.standard_normal((8 * samples, 2)),
        rng.standard_normal(8 * samples),
        node=node,
        ridge=0.1,
    )
    network = lw.watts_strogatz(8, 4, 0.3)
    curve, gamma = curve_of(network, problem, design, 0.7)
    steps = [0, 1, 2, 5, 30]
    exact = exact_moments(
        network, problem, design, steps=steps, step_size=gamma, start=np.full(8, 0.125)
    )
    np.testing.assert_allclose(curve.exactly(30)[steps], exact.error2, rtol=1e-10)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_pieces_continue_the_curve_as_single_steps_would(design: lw.Design) -> None:
    network, problem = lw.ring(30), lw.heterogeneous(30, dim=2, important=1, noise=0.1)
    curve, _ = curve_of(network, problem, design, 0.5)
    exact = curve.exactly(1500)
    tolerance = 1e-3 * exact[0]
    points, largest = 0, 0.0
    for times, errors in curve.pieces(tolerance):
        inside = times <= 1500
        points += int(inside.sum())
        largest = max(
            largest, float(np.abs(errors[inside] - exact[times[inside].astype(int)]).max())
        )
        if times[-1] > 1500:
            break
    assert points > 60
    assert largest < 0.1 * tolerance  # the estimate is never too small here


@pytest.mark.more
def test_the_curve_is_the_mean_of_runs() -> None:
    network, problem, design = (
        lw.ring(20),
        lw.heterogeneous(20, dim=2, important=1, seed=1),
        lw.mhlj(),
    )
    curve, gamma = curve_of(network, problem, design, 0.8)
    trace = lw.run(
        network,
        problem,
        design,
        steps=200,
        step_size=gamma,
        replicas=4000,
        record_every=[0, 20, 100, 200],
        seed=2,
    )
    measured, spread = trace.distance2.mean(axis=0), trace.distance2.std(axis=0) / np.sqrt(4000)
    assert (np.abs(measured - curve.exactly(200)[[0, 20, 100, 200]]) <= 6.0 * spread + 1e-9).all()


def test_steps_that_are_too_large_never_settle() -> None:
    network, problem = lw.ring(20), lw.homogeneous(20, dim=2)
    curve, _ = curve_of(network, problem, lw.unif_rw(), 30.0)
    assert crossing(curve, 0.1, np.inf).steps == np.inf


def test_settled_is_the_last_time_above_the_goal() -> None:
    times = np.array([0.0, 10.0, 20.0, 30.0])
    assert settled(times, np.array([1.0, 0.1, 0.3, 0.1]), 0.2) == pytest.approx(25.0)
    assert settled(times, np.array([1.0, 0.1, 0.1, 0.3]), 0.2) == np.inf
    assert settled(times, np.array([0.1, 0.1, 0.1, 0.1]), 0.2) == 0.0


@pytest.mark.more
def test_the_search_finds_the_best_of_all_step_sizes() -> None:
    network, problem, design = lw.ring(20), lw.heterogeneous(20, dim=2, important=1), lw.weight_rw()
    largest = design.bind(network, problem).largest
    goal = 0.05 * float(problem.optimum @ problem.optimum)

    def curve_at(gamma: float) -> ErrorCurve:
        return curve_of(network, problem, design, gamma * largest)[0]

    gamma, found = fewest_steps(curve_at, largest, goal, 1e-3 / largest)
    every = [crossing(curve_at(10.0 ** (k / 16) / largest), goal, np.inf) for k in range(-64, 9, 2)]
    least = min(one.steps for one in every if one.floor <= 0.5 * goal)
    assert found.floor <= 0.5 * goal
    assert found.steps <= 1.001 * least
    assert gamma > 1e-3 / largest


def test_the_model_of_logistic_regression_has_the_true_gradients_at_both_ends() -> None:
    rng = np.random.default_rng(0)
    problem = lw.Logistic(
        rng.standard_normal((30, 3)),
        rng.integers(0, 2, 30),
        node=np.repeat(np.arange(10), 3),
        ridge=0.1,
    )
    share = 0.6
    curvatures = sample_curvatures(problem, problem.optimum, share)
    away = -share * problem.optimum
    np.testing.assert_allclose(
        np.einsum("vij,j->vi", model_hessians(problem, curvatures), away),
        local_gradients(problem, problem.optimum + away)
        - local_gradients(problem, problem.optimum),
        rtol=1e-9,
        atol=1e-12,
    )
    assert (model_smoothness(problem, curvatures) <= problem.smoothness + 1e-12).all()
    nearby = sample_curvatures(problem, problem.optimum, 1e-7)
    np.testing.assert_allclose(nearby, sample_curvatures(problem, problem.optimum, 0.0), rtol=1e-5)


def test_reach_is_the_mean_distance_on_the_way() -> None:
    ways = np.exp(np.linspace(0.0, np.log(0.1), 100_001))
    assert reach(0.01) == pytest.approx(ways.mean(), rel=1e-4)
    assert reach(1.0) == 1.0
