"""The l1 penalty: optimum against scikit-learn, steps against a plain loop, exact zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import levywalk as lw
from levywalk.experiments.shorthand import problem_settings
from levywalk.experiments.sources import build_problem
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.problem.l1 import l1_violation, soft_threshold
from tests.limits import mostly_more, mostly_soak

RNG = np.random.default_rng(23)
N, DIM = 30, 8
X = RNG.normal(size=(2 * N, DIM))
NODE = np.arange(2 * N) % N
Y = X @ np.array([2.0, -1.0, 0.5, 0, 0, 0, 0, 0]) + 0.5 * RNG.normal(size=2 * N)
LABELS = (Y > 0).astype(int)
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=1)
PROBLEMS: dict[str, Any] = {
    "squares": lw.LeastSquares(X, Y, NODE, 0.0, l1=0.3),
    "logistic": lw.Logistic(X, LABELS, NODE, 0.01, l1=0.12),
    "huber": lw.Huber(X, Y, NODE, 0.0, l1=0.2),
    "softmax": lw.Softmax(X, (Y > 0) + 0 + (Y > 1), NODE, 0.02, l1=0.03),
    "outputs": lw.LeastSquares(X, np.stack([Y, -0.5 * Y], axis=1), NODE, 0.0, l1=0.3),
}
cases = pytest.mark.parametrize("name", PROBLEMS)


def test_the_optimum_is_that_of_the_lasso() -> None:
    # sklearn: ‖y - Xx‖²/(2m) + α‖x‖₁; here ‖y - Xx‖²/m + l1‖x‖₁ with equal nodes: α = l1/2.
    problem = PROBLEMS["squares"]
    oracle = Lasso(alpha=0.15, fit_intercept=False, tol=1e-13, max_iter=100_000).fit(X, Y).coef_
    assert problem.optimum == pytest.approx(oracle, abs=1e-9)
    assert ((problem.optimum == 0.0) == (oracle == 0.0)).all()
    assert (problem.optimum == 0.0).sum() >= 3
    both = lw.LeastSquares(X, Y, NODE, ridge=0.2, l1=0.3)
    net = ElasticNet(alpha=0.25, l1_ratio=0.6, fit_intercept=False, tol=1e-13).fit(X, Y).coef_
    assert both.optimum == pytest.approx(net, abs=1e-9)


def test_the_optimum_is_that_of_l1_logistic_regression() -> None:
    # sklearn: ‖x‖₁ + C Σ log-loss; here the mean log-loss + l1‖x‖₁: C = 1/(m l1).
    problem = lw.Logistic(X, LABELS, NODE, l1=0.05)
    fitted = LogisticRegression(
        l1_ratio=1.0, C=1 / (2 * N * 0.05), solver="saga", fit_intercept=False, tol=1e-12,
        max_iter=200_000,
    ).fit(X, LABELS)  # fmt: skip
    oracle = fitted.coef_[0]
    assert problem.optimum == pytest.approx(oracle, abs=1e-8)
    assert ((problem.optimum == 0.0) == (oracle == 0.0)).all()
    assert (problem.optimum == 0.0).any()


@cases
def test_the_optimum_beats_its_neighbourhood(name: str) -> None:
    problem = PROBLEMS[name]
    best = problem.loss(problem.optimum)
    assert l1_violation(problem, problem.optimum) < 1e-10
    for _ in range(50):
        near = problem.optimum + 1e-3 * RNG.normal(size=problem.dim) * RNG.integers(
            0, 2, problem.dim
        )
        assert problem.loss(near) >= best - 1e-14
    assert problem.excess_loss(problem.optimum) == 0.0


def test_more_features_than_samples_and_a_large_penalty() -> None:
    wide = RNG.normal(size=(20, 60))
    y = wide[:, 0] - wide[:, 1]
    problem = lw.LeastSquares(wide, y, l1=0.2)
    oracle = Lasso(alpha=0.1, fit_intercept=False, tol=1e-13, max_iter=100_000).fit(wide, y).coef_
    assert problem.optimum == pytest.approx(oracle, abs=1e-8)
    assert (lw.LeastSquares(wide, y, l1=1e3).optimum == 0.0).all()


def plain_walk(problem: Any, update: str, gamma: float, walk: Any, weights: Any) -> Any:
    """The updates along a walk by their definitions, without the package's code for them."""
    x, velocity = np.zeros(problem.dim), np.zeros(problem.dim)
    table = np.zeros((problem.n, problem.dim))
    for v in walk:
        gradient = problem.local_gradient(v, x) - problem.ridge * x
        if update == "sgd":
            x, cut = x - gamma * weights[v] * (gradient + problem.ridge * x), gamma
        elif update == "heavy_ball":
            velocity = 0.8 * velocity + weights[v] * (gradient + problem.ridge * x)
            x, cut = x - gamma * velocity, gamma / 0.2
        else:
            old, mean = table[v].copy(), table.mean(axis=0)
            table[v] = gradient
            change = weights[v] * (gradient - old)
            mean = table.mean(axis=0) if update == "sag" else change + mean
            x, cut = x - gamma * (mean + problem.ridge * x), gamma
        cut *= problem.l1
        x = np.sign(x) * np.maximum(np.abs(x) - cut, 0.0)
    return x


UPDATES = {
    "sgd": lw.sgd(), "heavy_ball": lw.heavy_ball(0.8), "sag": lw.sag(), "saga": lw.saga(),
}  # fmt: skip


def ran(problem: Any, update: Any, backend: str, **more: Any) -> Any:
    given = {"steps": 300, "step_size": 0.02, "seed": 5, "record_walk": True, "replicas": 2} | more
    return lw.run(NETWORK, problem, lw.mhlj(), update=update, backend=backend, **given)


STEPS = [(update, name) for update in UPDATES for name in ("squares", "logistic")]


@pytest.mark.more  # a threshold has loops of its own
@pytest.mark.parametrize(
    "case", mostly_soak(STEPS, lambda case: case in [("sgd", "squares"), ("saga", "logistic")])
)
def test_steps_are_those_of_a_plain_loop_and_of_the_kernel(case: tuple[str, str]) -> None:
    update, name = case
    problem = PROBLEMS[name]
    trace = ran(problem, UPDATES[update], "reference")
    for r in range(2):
        weights = 1.0 / (N * trace.target)
        oracle = plain_walk(problem, update, 0.02, trace.walk[r], weights)
        assert trace.model[r] == pytest.approx(oracle, abs=1e-12)
    kernel = ran(problem, UPDATES[update], "kernel")
    assert kernel.model == pytest.approx(trace.model, abs=1e-9)
    assert ((kernel.model == 0.0) == (trace.model == 0.0)).all()
    assert (trace.model == 0.0).any()
    assert kernel.loss == pytest.approx(trace.loss, abs=1e-9)
    assert trace.loss[0, -1] == pytest.approx(problem.loss(trace.model[0]), abs=1e-12)


@pytest.mark.more
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_kernel_is_the_reference_for_every_loss(name: str) -> None:
    problem = PROBLEMS[name]
    one, other = (ran(problem, lw.sgd(minibatch=1), backend) for backend in ("kernel", "reference"))
    assert one.model == pytest.approx(other.model, abs=1e-9)
    assert (one.walk == other.walk).all()


@pytest.mark.more
def test_a_switching_walk_sees_the_whole_step() -> None:
    walk = lw.switching(lw.mhlj(), lw.unif_rw(), step_size=0.01)
    one, other = (
        lw.run(NETWORK, PROBLEMS["squares"], walk, steps=3000, step_size=0.02, backend=backend)
        for backend in ("kernel", "reference")
    )
    assert one.switched_at == other.switched_at
    assert one.model == pytest.approx(other.model, abs=1e-9)


REACHED = [(name, update) for name in PROBLEMS for update in ("sag", "saga")]


@pytest.mark.more
@pytest.mark.parametrize(
    "case", mostly_soak(REACHED, lambda case: case in [("squares", "saga"), ("softmax", "sag")])
)
def test_sag_and_saga_reach_the_minimiser_with_its_zeros(case: tuple[str, str]) -> None:
    name, update = case
    problem = PROBLEMS[name]
    largest = float(problem.smoothness.max())
    trace = lw.run(
        NETWORK, problem, lw.unif_rw(), steps=80_000, step_size=1 / (12 * largest),
        update=UPDATES[update], record_every=[1],
    )  # fmt: skip
    assert trace.model[0] == pytest.approx(problem.optimum, abs=1e-7)
    assert ((trace.model[0] == 0.0) == (problem.optimum == 0.0)).all()


@pytest.mark.parametrize("update", mostly_more(["sgd", "heavy_ball"], lambda name: name == "sgd"))
def test_small_steps_of_sgd_come_near_the_minimiser(update: str) -> None:
    # A weighted walk: a threshold that were multiplied by w(v), or forgot β, would miss it.
    problem = lw.LeastSquares(X * np.linspace(0.3, 2.0, 2 * N)[:, None], Y, NODE, l1=0.3)
    gamma = 2e-4 if update == "sgd" else 4e-5
    trace = lw.run(
        NETWORK, problem, lw.weight_rw(), steps=400_000, step_size=gamma, update=UPDATES[update],
        replicas=8, record_every=[1],
    )  # fmt: skip
    mean = trace.model.mean(axis=0)
    assert mean == pytest.approx(problem.optimum, abs=0.02)
    plain = lw.LeastSquares(problem.features, Y, NODE)
    assert np.abs(mean - plain.optimum).max() > 0.1


REFUSED = [
    lw.adam(), lw.point_saga(), lw.finito(), lw.walkman(), lw.newton_token(), lw.averaged(),
]  # fmt: skip


@pytest.mark.parametrize("update", REFUSED, ids=lambda update: update.name)
def test_updates_without_a_threshold_refuse(update: Any) -> None:
    with pytest.raises(lw.InvalidParameter, match=r"no step for the l1 penalty.*lw\.saga"):
        ran(PROBLEMS["squares"], update, "auto")


def test_a_direction_of_ones_own_must_state_its_threshold() -> None:
    class Signed(lw.Sgd):
        def direction(self, *given: Any) -> Any:
            return np.sign(super().direction(*given))

    with pytest.raises(lw.InvalidParameter, match="no step for the l1 penalty"):
        ran(PROBLEMS["squares"], Signed(), "auto")

    class Stated(Signed):
        threshold_steps = 1.0

    assert (ran(PROBLEMS["squares"], Stated(), "auto").model == 0.0).any()


def test_a_model_that_overflows_is_not_hidden_by_the_threshold() -> None:
    assert np.isnan(soft_threshold(np.array([np.nan]), 1.0)).all()
    for backend in ("kernel", "reference"):
        with pytest.warns(lw.DivergedWarning):
            trace = ran(PROBLEMS["squares"], lw.sgd(), backend, step_size=1e3)
        assert (trace.diverged_at >= 0).all()


def test_theory_answers_what_holds_and_refuses_the_rest() -> None:
    problem = PROBLEMS["squares"]
    plain = lw.LeastSquares(X, Y, NODE)
    assert (problem.smoothness == plain.smoothness).all()
    assert problem.strong_convexity == plain.strong_convexity
    gradients = problem.local_gradients(problem.optimum)
    noise = np.square(gradients - gradients.mean(axis=0)).sum(axis=1)
    assert problem.sigma_star2 == pytest.approx(noise.mean())
    assert problem.sigma_max2 == pytest.approx(noise.max())
    assert lw.entrapment(NETWORK, problem, lw.mhlj()) is not None
    for ask in (lw.predict, lw.error_floor):
        with pytest.raises(lw.InvalidParameter, match="l1 penalty"):
            ask(NETWORK, problem, lw.mhlj())


def test_fleets_and_gossip(tmp_path: Any) -> None:
    problem = PROBLEMS["squares"]
    given = {"steps": 60, "step_size": 0.02, "seed": 3}
    virtual = VirtualFleet(Fleet.of(NETWORK, problem, lw.mhlj(), **given))
    virtual.run()
    trace = lw.run(NETWORK, problem, lw.mhlj(), backend="reference", **given)
    assert (virtual.final.model == trace.model[0]).all()
    with pytest.raises(lw.InvalidParameter, match="no l1 penalty on real nodes"):
        create(tmp_path / "fleet", NETWORK, problem, lw.mhlj(), steps=10, step_size=0.1)
    with pytest.raises(lw.InvalidParameter, match="gossip has no step for it"):
        lw.gossip(NETWORK, problem, iterations=5, step_size=0.1)


def test_it_is_part_of_the_problem_s_identity() -> None:
    plain, other = lw.LeastSquares(X, Y, NODE), lw.LeastSquares(X, Y, NODE, l1=0.1)
    assert len({p.fingerprint() for p in (plain, other, PROBLEMS["squares"])}) == 3
    assert repr(other).endswith("ridge=0.0, l1=0.1)")
    for wrong in (-1.0, float("nan"), "much"):
        with pytest.raises(lw.LevywalkError, match="l1"):
            lw.LeastSquares(X, Y, NODE, l1=wrong)


def test_it_is_known_to_files_and_options(tmp_path: Any) -> None:
    file = tmp_path / "data.csv"
    np.savetxt(file, np.column_stack([X, Y]), delimiter=",")
    for loss in ("least_squares", "huber", "quantile"):
        section = problem_settings(str(file), options={"loss": loss, "l1": 0.25})
        problem: Any = build_problem(section, lw.ring(5))
        assert problem.l1 == 0.25
    with pytest.raises(lw.LevywalkError, match="--l1"):
        problem_settings("heterogeneous", options={"l1": 0.25})
