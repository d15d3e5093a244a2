"""The error floor: fixed point, limit mean and limit covariance against brute force and against
runs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import levywalk as lw
from levywalk.theory.chain import block_recursion
from levywalk.theory.judge.moments import exact_moments, local_hessians

DESIGNS = {
    "weight": lw.weight_rw(),
    "unif": lw.unif_rw(),
    "simple": lw.simple_rw(),
    "mixed": lw.mixed_rw(0.3),
    "mhlj": lw.mhlj(p_jump=0.3),
    "iid": lw.iid_weighted(),
}
NETWORKS = {
    "ring": lw.ring(9),
    "star": lw.star(8),
    "path, loops": lw.path(7, self_loops="counted"),
    "barbell": lw.barbell(4, 1),
}


def problem_of(n: int, dim: int = 2, noise: float = 1.0, seed: int = 0) -> lw.LeastSquares:
    return lw.heterogeneous(n, dim=dim, sigma2_high=30.0, important=1, noise=noise, seed=seed)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_limit_mean_is_what_long_products_of_matrices_give(
    network: lw.Network, design: lw.Design
) -> None:
    problem = problem_of(network.n)
    floor = lw.error_floor(network, problem, design)
    P = lw.transition(network, problem, design).toarray()
    weights, law = design.bind(network, problem).weights, lw.stationary(P)
    H = local_hessians(problem)
    b = np.array([-problem.local_gradient(v, np.zeros(problem.dim)) for v in range(problem.n)])
    n, dim, gamma = problem.n, problem.dim, floor.step_size
    # One step maps m, by node, to A m + c; applied twice, four times, …: 2^15 steps.
    pull = np.eye(dim) - gamma * weights[:, None, None] * H
    A = np.einsum("vu,vij->uivj", P, pull).reshape(n * dim, n * dim)
    c = (P.T @ (gamma * weights[:, None] * law[:, None] * b)).ravel()
    for _ in range(15):
        A, c = A @ A, A @ c + c
    assert floor.limit_mean == pytest.approx(c.reshape(n, dim).sum(axis=0), abs=1e-8)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_floor_and_covariance_are_the_long_run_of_the_moment_recursion(design: lw.Design) -> None:
    network = lw.ring(9)
    problem = problem_of(9)
    floor = lw.error_floor(network, problem, design)
    moments = exact_moments(network, problem, design, steps=200_000)
    assert floor.floor == pytest.approx(moments.error2[0], rel=1e-7)
    assert floor.limit_mean == pytest.approx(moments.mean[0], abs=1e-8)
    assert floor.floor == pytest.approx(
        floor.mean_bias2 + np.trace(floor.limit_covariance), rel=1e-9
    )
    assert (np.linalg.eigvalsh(floor.limit_covariance) > 0).all()


def test_exact_moments_are_the_sum_over_all_walks() -> None:
    network, problem, design, gamma, steps = lw.path(3), problem_of(3), lw.mhlj(p_jump=0.4), 0.02, 5
    P = lw.transition(network, problem, design).toarray()
    law, weights = lw.stationary(P), design.bind(network, problem).weights
    x0 = np.array([0.5, -1.0])
    error2, mean = 0.0, np.zeros(2)
    for walk in np.ndindex(*(3,) * steps):
        chance = law[walk[0]] * np.prod([P[a, b] for a, b in pairwise(walk)])
        x = x0
        for v in walk:
            x = x - gamma * weights[v] * problem.local_gradient(v, x)
        error2 += chance * float(np.sum((x - problem.optimum) ** 2))
        mean = mean + chance * x
    moments = exact_moments(network, problem, design, steps=steps, step_size=gamma, x0=x0)
    assert moments.error2[0] == pytest.approx(error2, rel=1e-12)
    assert moments.mean[0] == pytest.approx(mean, rel=1e-12)


def test_stepping_and_squaring_agree() -> None:
    network, problem = lw.ring(6), problem_of(6)
    one = exact_moments(network, problem, lw.mhlj(), steps=list(range(1, 3001)))
    far = exact_moments(network, problem, lw.mhlj(), steps=3_000_000)
    floor = lw.error_floor(network, problem, lw.mhlj())
    assert one.error2[-1] == pytest.approx(floor.floor, rel=1e-6)
    assert far.error2[0] == pytest.approx(floor.floor, rel=1e-9)


@pytest.mark.more
def test_measured_long_run_mean_is_the_limit_mean_and_not_the_fixed_point() -> None:
    network, problem, design = lw.ring(12), problem_of(12, seed=3), lw.weight_rw()
    floor = lw.error_floor(network, problem, design)
    trace = lw.run(
        network,
        problem,
        design,
        steps=5_000,
        step_size="theory",
        replicas=20_000,
        start="stationary",
        seed=11,
    )
    deviation = trace.model.std(axis=0, ddof=1) / np.sqrt(len(trace.model))
    limit = stats.norm.isf(1e-8)
    assert (np.abs(trace.model.mean(axis=0) - floor.limit_mean) < limit * deviation).all()
    # The mutant, which the paper calls the limit, is told apart at this step size.
    assert (np.abs(trace.model.mean(axis=0) - floor.fixed_point) > limit * deviation).any()
    # So is the floor itself: the mean of ‖x - x*‖² over the walks.
    final = trace.distance2[:, -1]
    assert abs(final.mean() - floor.floor) < limit * final.std() / np.sqrt(len(final))


def test_limit_mean_tends_to_the_fixed_point_as_the_step_size_falls() -> None:
    network, problem = lw.ring(12), problem_of(12)
    gammas = np.array([1e-3, 1e-4, 1e-5])
    gaps = []
    for gamma in gammas:
        floor = lw.error_floor(network, problem, lw.mhlj(), step_size=float(gamma))
        gaps.append(np.linalg.norm(floor.limit_mean - floor.fixed_point))
    slopes = np.diff(np.log(gaps)) / np.diff(np.log(gammas))
    assert slopes == pytest.approx(1.0, abs=0.05)  # a bias of first order in γ


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_floor_vanishes_when_the_noise_is_zero(design: lw.Design) -> None:
    floor = lw.error_floor(lw.ring(20), problem_of(20, noise=0.0), design)
    assert floor.bias2 < 1e-24
    assert floor.mean_bias2 < 1e-20
    assert floor.floor < 1e-20
    assert floor.relative_floor == floor.floor / floor.initial2


def test_only_jumps_and_missing_weights_move_the_fixed_point() -> None:
    network, problem = lw.star(10), problem_of(10)
    still = [
        lw.weight_rw(),
        lw.unif_rw(),
        lw.mixed_rw(0.5),
        lw.iid_weighted(),
        lw.simple_rw(reweight=True),
    ]
    assert all(lw.error_floor(network, problem, design).bias2 < 1e-24 for design in still)
    assert all(
        lw.error_floor(network, problem, design).bias2 > 1e-6
        for design in (lw.mhlj(), lw.simple_rw())
    )


def test_logistic_fixed_point_solves_its_equation() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 3)) * np.where(np.arange(60) < 3, 8.0, 1.0)[:, None]
    labels = rng.random(60) < 1 / (1 + np.exp(-features[:, 0]))
    problem = lw.Logistic(features, labels.astype(float), ridge=1e-3)
    network, design = lw.ring(60), lw.mhlj()
    floor = lw.error_floor(network, problem, design)
    law = lw.stationary(lw.transition(network, problem, design))
    weights = design.bind(network, problem).weights
    assert (law * weights) @ problem.local_gradients(floor.fixed_point) == pytest.approx(
        np.zeros(3), abs=1e-10
    )
    assert floor.bias2 > 1e-6
    assert floor.limit_mean is None
    assert floor.floor is None
    assert "least squares only" in floor.notes[0]


def test_iterative_and_direct_solutions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    network, problem = lw.watts_strogatz(60, 4, 0.2), problem_of(60, dim=3)
    for design in (lw.mhlj(), lw.weight_rw()):
        direct = lw.error_floor(network, problem, design)
        for chain in (10**9, 0):
            monkeypatch.setattr(block_recursion, "_DIRECT_FILL", 0)
            monkeypatch.setattr(block_recursion, "_CHAIN_FILL", chain)
            iterative = lw.error_floor(network, problem, design)
            assert iterative.floor == pytest.approx(direct.floor, rel=1e-7)
            assert iterative.limit_mean == pytest.approx(direct.limit_mean, rel=1e-7)
            assert 0.0 < iterative.residual < 1e-9
        monkeypatch.undo()


def test_a_step_size_without_limit_is_refused_with_the_remedy() -> None:
    network, problem = lw.ring(9), problem_of(9)
    largest = lw.weight_rw().bind(network, problem).largest
    with pytest.raises(
        lw.InvalidParameter, match=r"step_size .* spectral radius of the mean.*'theory'"
    ):
        lw.error_floor(network, problem, lw.weight_rw(), step_size=100.0 / largest)
    radii, stable = [], 0
    for factor in (2.05, 2.5, 4.0):
        try:
            floor = lw.error_floor(
                network, problem, lw.unif_rw(), step_size=factor / problem.smoothness.max()
            )
        except lw.InvalidParameter as error:
            radii.append(str(error))
        else:  # above 2/L* and yet stable: then it is the limit of the recursion
            stable += 1
            gamma = factor / problem.smoothness.max()
            moments = exact_moments(
                network, problem, lw.unif_rw(), steps=1_000_000, step_size=gamma
            )
            assert floor.floor == pytest.approx(moments.error2[0], rel=1e-6)
    assert stable >= 1
    assert any("mean's recursion" in message for message in radii)
    assert any("second moment's recursion" in message for message in radii)


def test_bad_input_is_refused_with_the_remedy() -> None:
    network, problem = lw.ring(9), problem_of(9)
    switching = lw.switching(lw.mhlj(), lw.unif_rw())
    with pytest.raises(lw.InvalidParameter, match="first or"):
        lw.error_floor(network, problem, switching)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidParameter, match="constant p_jump"):
        lw.error_floor(network, problem, lw.mhlj(schedule=lw.Decaying(0.1, 100)))
    step_size = lw.Decaying(0.1, 100)
    with pytest.raises(lw.InvalidParameter, match="constant steps"):
        lw.error_floor(network, problem, lw.mhlj(), step_size=step_size)  # type: ignore[arg-type]
    flat = lw.LeastSquares(np.ones((9, 2)), np.arange(9.0))
    with pytest.warns(lw.DataWarning), pytest.raises(lw.InvalidData, match="ridge"):
        lw.error_floor(network, flat, lw.mhlj())


def test_covariance_is_left_out_when_it_is_large_and_solved_when_asked_for() -> None:
    network, problem = lw.ring(30), problem_of(30, dim=3)
    assert lw.error_floor(network, problem, lw.mhlj(), covariance=False).floor is None
    large = lw.error_floor(lw.ring(300), problem_of(300, dim=10), lw.mhlj())
    assert large.floor is None
    assert large.limit_mean is not None
    assert "unknowns" in large.notes[0]
