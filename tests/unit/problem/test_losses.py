"""Huber, Poisson, squared hinge and quantile losses: against sklearn, scipy and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.svm import LinearSVC

import levywalk as lw
from levywalk.experiments.shorthand import problem_settings
from levywalk.experiments.sources import build_problem
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.registry import from_dict, to_dict

RNG = np.random.default_rng(19)
N, DIM, RIDGE = 40, 3, 0.05
X = RNG.normal(size=(2 * N, DIM))
NODE = np.arange(2 * N) % N
PLAIN = X @ np.array([1.0, -2.0, 0.5]) + 2.0 * RNG.standard_t(2, size=2 * N)
COUNTS = RNG.poisson(np.exp(X @ np.array([0.5, -0.3, 0.2]))).astype(float)
LABELS = np.where(X[:, 0] + RNG.normal(size=2 * N) > 0.0, 1.0, -1.0)
MADE: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "huber": (lw.Huber, PLAIN, {"delta": 0.7}),
    "poisson": (lw.Poisson, COUNTS, {"clip": 3.0}),
    "squared_hinge": (lw.SquaredHinge, LABELS, {}),
    "quantile": (lw.Quantile, PLAIN, {"level": 0.8, "width": 0.4}),
}
KINKS = {"huber": (-0.7, 0.7), "quantile": (-0.4, 0.4)}  # of z - y


def made(name: str, ridge: float = RIDGE, node: Any = NODE, **more: Any) -> Any:
    kind, targets, given = MADE[name]
    return kind(X, targets, node, ridge, **given, **more)


@pytest.mark.parametrize("name", MADE)
def test_slope_and_curvature_are_the_derivatives(name: str) -> None:
    loss = made(name).sample_loss
    z = np.linspace(-4.0, 4.0, 801) + 0.0013
    for y in (0.0, 1.0, 3.0) if name == "poisson" else (0.0, 1.0):
        target, h = np.full(len(z), y), 1e-5
        slope = (loss.value(z + h, target) - loss.value(z - h, target)) / (2 * h)
        assert loss.slope(z, target) == pytest.approx(slope, abs=1e-8, rel=1e-8)
        bend = (loss.slope(z + h, target) - loss.slope(z - h, target)) / (2 * h)
        assert loss.curvature(z, target) == pytest.approx(bend, abs=1e-8, rel=1e-8)
        # The stated bounds hold, and the upper one is attained.
        assert bend.min() >= loss.curvature_min - 1e-9
        assert bend.max() <= loss.curvature_max * (1 + 1e-9)
    assert bend.max() == pytest.approx(loss.curvature_max, rel=1e-2)


@pytest.mark.parametrize("name", MADE)
def test_local_gradients_are_the_derivatives_of_local_losses(name: str) -> None:
    problem, x, h = made(name), RNG.normal(size=DIM), 1e-6
    for v in (0, 7, N - 1):
        numbers = [
            (problem.local_loss(v, x + h * e) - problem.local_loss(v, x - h * e)) / (2 * h)
            for e in np.eye(DIM)
        ]
        assert problem.local_gradient(v, x) == pytest.approx(numbers, rel=1e-6, abs=1e-7)
    # L_v bounds the change of the gradient between any two points.
    for _ in range(50):
        y = x + RNG.normal(size=DIM)
        change = np.linalg.norm(problem.local_gradients(x) - problem.local_gradients(y), axis=1)
        assert (change <= problem.smoothness * np.linalg.norm(x - y) * (1 + 1e-9)).all()


def test_the_optimum_of_huber_is_that_of_scipy() -> None:
    problem = made("huber", ridge=0.0)
    found = least_squares(
        lambda x: X @ x - PLAIN, np.zeros(DIM), loss="huber", f_scale=0.7, xtol=1e-15, ftol=1e-15,
        gtol=1e-15,
    )  # fmt: skip
    assert problem.optimum == pytest.approx(found.x, rel=1e-6)
    assert problem.loss(problem.optimum) == pytest.approx(found.cost / (2 * N), rel=1e-12)
    assert problem.loss(problem.optimum) <= found.cost / (2 * N) * (1 + 1e-14)


def test_the_optimum_of_poisson_is_that_of_sklearn() -> None:
    found = PoissonRegressor(alpha=RIDGE, fit_intercept=False, tol=1e-12, max_iter=10_000)
    found.fit(X, COUNTS)
    assert made("poisson").optimum == pytest.approx(found.coef_, rel=1e-6)


def test_the_optimum_of_the_squared_hinge_is_that_of_sklearn() -> None:
    found = LinearSVC(
        loss="squared_hinge", C=1 / (2 * N * RIDGE), fit_intercept=False, tol=1e-12, dual=False,
        max_iter=100_000,
    )  # fmt: skip
    found.fit(X, LABELS)
    assert made("squared_hinge").optimum == pytest.approx(found.coef_[0], rel=1e-6)


def test_the_optimum_of_quantile_regression_is_that_of_scipy_and_near_that_of_sklearn() -> None:
    level, width = 0.8, 0.4

    def rounded(x: np.ndarray) -> float:
        """The pinball loss averaged over residuals ± width, by many points instead of a formula."""
        moved = (PLAIN - X @ x)[:, None] + width * (np.arange(1000) - 499.5) / 500
        return float(np.maximum(level * moved, (level - 1.0) * moved).mean())

    problem = made("quantile", ridge=0.0)
    found = minimize(rounded, problem.optimum + 0.1, method="Nelder-Mead", tol=1e-10)
    assert problem.optimum == pytest.approx(found.x, abs=1e-3)
    assert problem.loss(problem.optimum) == pytest.approx(found.fun, rel=1e-6)
    exact = QuantileRegressor(quantile=level, alpha=0.0, fit_intercept=False).fit(X, PLAIN).coef_

    def pinball(x: np.ndarray) -> float:
        r = PLAIN - X @ x
        return float(np.maximum(level * r, (level - 1.0) * r).mean())

    assert 0.0 <= pinball(problem.optimum) - pinball(exact) <= width / 4
    sharp = lw.Quantile(X, PLAIN, level=level, width=1e-4)
    assert 0.0 <= pinball(sharp.optimum) - pinball(exact) <= 1e-4 / 4


def test_the_clip_of_poisson_is_said_where_it_changes_the_optimum() -> None:
    with pytest.warns(lw.DataWarning, match=r"above clip = 0: .* give clip="):
        clipped = lw.Poisson(X, COUNTS, ridge=RIDGE, clip=0.0).optimum
    wide, wider = (lw.Poisson(X, COUNTS, ridge=RIDGE, clip=c).optimum for c in (3.0, 6.0))
    assert wide == pytest.approx(wider, rel=1e-9)
    assert np.abs(clipped - wide).max() > 1e-3
    with pytest.raises(lw.InvalidData, match=r"counts of at least 0, got -1\.0 at position 1"):
        lw.Poisson([[1.0], [1.0]], [1.0, -1.0])
    with pytest.raises(lw.InvalidParameter, match="clip must be"):
        lw.Poisson([[1.0], [1.0]], [1.0, 1.0], clip=1e9)


def test_poisson_without_minimiser_says_so_and_rare_counts_have_one() -> None:
    with pytest.raises(lw.NoMinimiser, match=r"Poisson.*ridge=1e-3"):
        _ = lw.Poisson([[1.0], [2.0]], [0.0, 0.0]).optimum
    # The second column is only seen with count 0.
    with pytest.raises(lw.NoMinimiser):
        _ = lw.Poisson([[1.0, 0.0], [1.0, 1.0]], [2.0, 0.0]).optimum
    rare = lw.Poisson([[1.0], [-9.0], [1.0]], [1e-5, 0.0, 0.0])
    assert np.isfinite(rare.optimum).all()


def test_a_minimum_that_is_flat_is_said() -> None:
    problem = lw.SquaredHinge([[1.0], [2.0]], [1, 1])
    with pytest.warns(lw.DataWarning, match="the squared_hinge loss is flat .* one of them"):
        assert problem.loss(problem.optimum) == 0.0
    with pytest.warns(lw.DataWarning, match="the huber loss is flat"):
        assert -8.0 <= lw.Huber([[1.0], [1.0]], [-9.0, 9.0]).optimum[0] <= 8.0
    with pytest.warns(lw.DataWarning, match="do not span the 2 dimensions; .* smallest norm"):
        assert lw.Huber([[1.0, 1.0], [2.0, 2.0]], [0.2, 0.4]).optimum == pytest.approx([0.1, 0.1])
    with pytest.raises(lw.InvalidParameter, match=r"level must be a number in \(0, 1\), got 1"):
        lw.Quantile(X, PLAIN, level=1)


NETWORK = lw.watts_strogatz(N, 4, 0.2, seed=3)
UPDATES: dict[str, Any] = {
    "sgd": lw.sgd(minibatch=1),
    "sag": lw.sag(),
    "saga": lw.saga(),
    "point_saga": lw.point_saga(),
    "finito": lw.finito(),
    "newton_token": lw.newton_token(),
    "walkman": lw.walkman(form="prox"),
    "adam": lw.adam(),
}
PAIRS = [(loss, update) for loss in MADE for update in UPDATES]


@pytest.mark.more  # each loss has loops of its own
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_kernel_is_the_reference(pair: tuple[str, str]) -> None:
    problem, update = made(pair[0]), UPDATES[pair[1]]
    kernel, reference = (
        lw.run(
            NETWORK, problem, lw.mhlj(), steps=300, step_size="theory", update=update, replicas=2,
            record_walk=True, backend=backend,
        )
        for backend in ("kernel", "reference")
    )  # fmt: skip
    assert np.array_equal(kernel.walk, reference.walk)
    scale = np.abs(reference.model).max()
    assert np.abs(kernel.model - reference.model).max() < 1e-9 * scale
    assert np.allclose(kernel.excess_loss, reference.excess_loss, rtol=1e-9, atol=1e-12)


@pytest.mark.more
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("update", ["saga", "point_saga"])
def test_updates_that_remember_reach_the_optimum(name: str, update: str) -> None:
    problem = made(name)
    trace = lw.run(
        lw.complete(N), problem, lw.mhlj(), steps=60_000, step_size="theory",
        update=UPDATES[update], backend="kernel",
    )  # fmt: skip
    assert trace.distance2[0, -1] < 1e-9 * trace.distance2[0, 0]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("several", [False, True], ids=["one sample", "several"])
@pytest.mark.parametrize("step_size", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("backend", [pytest.param("kernel", marks=pytest.mark.more), "reference"])
def test_the_proximal_step_satisfies_its_equation(
    name: str, several: bool, step_size: float, backend: str
) -> None:
    kind, targets, given = MADE[name]
    rows = slice(0, 8 if several else 2)
    problem = kind(3.0 * X[rows], targets[rows], np.arange(rows.stop) % 2, RIDGE, **given)
    first = 4.0 * np.random.default_rng(5).standard_normal((32, DIM))
    trace = lw.run(
        lw.complete(2), problem, lw.unif_rw(), update=lw.point_saga(), steps=1,
        step_size=step_size, replicas=32, x0=first, start=0, backend=backend,
    )  # fmt: skip
    for before, after in zip(first, trace.model, strict=True):
        residual = (after - before) / step_size + problem.local_gradient(0, after)
        assert np.abs(residual).max() < 1e-7 * (1.0 + np.abs(before).max() / step_size)


def test_names_and_parameters_are_known_to_files_commands_and_manifests(tmp_path: Any) -> None:
    file = tmp_path / "data.csv"
    np.savetxt(file, np.column_stack([X, np.abs(LABELS)]), delimiter=",")
    for name, (kind, _, given) in MADE.items():
        text = name + (":" if given else "") + ",".join(f"{k}={v}" for k, v in given.items())
        section = problem_settings(str(file), options={"loss": text, "ridge": 0.1})
        table = section | {"loss": {"kind": name, **given}}
        for problem in (build_problem(section, lw.ring(5)), build_problem(table, lw.ring(5))):
            assert type(problem) is kind
            told = to_dict("loss", problem.sample_loss)  # type: ignore[attr-defined]
            assert told == {"kind": name, **given}
        assert repr(from_dict("loss", {"kind": name, **given})) == repr(made(name).sample_loss)
        fleet = Fleet.of(lw.ring(N), made(name), lw.unif_rw(), steps=10, step_size=0.1)
        manifest = Manifest.parse(Manifest.of(fleet).text)
        assert repr(manifest.loss) == repr(made(name).sample_loss)
    with pytest.raises(lw.InvalidParameter, match="unknown loss 'hubert'; did you mean 'huber'"):
        problem_settings(str(file), options={"loss": "hubert"})
    with pytest.raises(lw.InvalidParameter, match="loss 'huber' takes delta=…, got 'width=1'"):
        problem_settings(str(file), options={"loss": "huber:width=1"})


def test_a_parameter_of_the_loss_is_part_of_the_fingerprint() -> None:
    one, two = (lw.Huber(X, PLAIN, delta=delta).fingerprint() for delta in (1e3, 1e4))
    assert one != two
    assert one == lw.Huber(X, PLAIN, delta=1e3).fingerprint()


@pytest.mark.parametrize("name", MADE)
def test_theory_answers_by_the_curvature_that_the_loss_states(name: str) -> None:
    problem, design = made(name), lw.mhlj(p_jump=0.3)
    assert lw.error_floor(NETWORK, problem, lw.unif_rw()).bias2 < 1e-14
    floor = lw.error_floor(NETWORK, problem, design)
    law = lw.stationary(lw.transition(NETWORK, problem, design))
    mass = law * design.bind(NETWORK, problem).weights
    assert mass @ problem.local_gradients(floor.fixed_point) == pytest.approx(
        np.zeros(DIM), abs=1e-9
    )
    assert (floor.method, floor.floor) == ("newton", None)
    assert any(type(problem).__name__ in note for note in floor.notes)
    found = lw.predict(NETWORK, problem, lw.unif_rw(), accuracy=0.1)
    assert (found.curvature, found.form, found.trusted) == ("closed form", "error curve", False)
    assert "neither that of least squares nor that of logistic regression" in found.reason
    assert np.isfinite(found.steps)
    # The noise is that of the Hessian at the optimum, here by differences of the gradient.
    x, h = problem.optimum, 1e-6
    H = np.array(
        [
            (problem.local_gradients(x + h * e) - problem.local_gradients(x - h * e)).mean(axis=0)
            / (2 * h)
            for e in np.eye(DIM)
        ]
    )
    from levywalk.theory.judge.curvature import mean_hessian

    assert mean_hessian(problem, np.full(N, 1 / N), x) == pytest.approx(H, rel=1e-6, abs=1e-7)
    assert np.allclose(problem.local_strong_convexity, RIDGE)
    assert lw.assumptions(NETWORK, problem, lw.unif_rw())["Assumption 1"].holds


def own_loss(**methods: object) -> lw.Loss:
    good = {
        "name": "own",
        "curvature_max": 1.0,
        "value": lambda self, z, y: 0.5 * (z - y) ** 2,
        "slope": lambda self, z, y: z - y,
    }
    return type("Own", (lw.Loss,), good | methods)()


def test_a_right_loss_of_ones_own_is_taken_without_a_word() -> None:
    lw.GeneralizedLinear([[1.0], [2.0]], [1e6, -0.5], own_loss())
    lw.GeneralizedLinear([[1.0], [2.0]], [0.0, 1.0], own_loss(curvature_max=5.0))


def test_a_slope_that_is_not_the_derivative_is_told() -> None:
    with pytest.warns(lw.DataWarning, match="slope of Own is not the derivative of its value"):
        lw.GeneralizedLinear(
            [[1.0], [2.0]],
            [1.0, 0.0],
            own_loss(slope=lambda self, z, y: 2 * (z - y), curvature_max=2.0),
        )


def test_a_bound_below_the_second_derivative_is_told() -> None:
    with pytest.warns(lw.DataWarning, match=r"curvature_max of Own is 0\.1, but .* is 1; raise it"):
        lw.GeneralizedLinear([[1.0], [2.0]], [1.0, 0.0], own_loss(curvature_max=0.1))


@pytest.mark.parametrize("method", ["value", "slope"])
def test_a_loss_must_return_one_number_per_sample(method: str) -> None:
    loss = own_loss(**{method: lambda self, z, y: 1.0})
    with pytest.raises(lw.InvalidParameter, match=f"{method} of Own must return one number per"):
        lw.GeneralizedLinear([[1.0], [2.0]], [1.0, 0.0], loss)
