"""Theory asks a problem whether a closed form holds for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.theory.judge.assumptions import assumptions
from levywalk.theory.judge.moments import exact_moments
from levywalk.theory.judge.predict import asymptotic_covariance

N, DIM = 12, 2
UNBIASED = [
    lw.unif_rw(),
    lw.weight_rw(),
    lw.mixed_rw(0.4),
    lw.iid_weighted(),
    lw.simple_rw(reweight=True),
]


class PseudoHuberLoss(lw.Loss):
    name = "pseudo_huber_of_a_test"
    curvature_max = 1.0

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sqrt(1.0 + np.square(z - y)) - 1.0

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (z - y) / np.sqrt(1.0 + np.square(z - y))


class SquaresAnewLoss(lw.Loss):
    """Least squares, written by a user: theory must find the same numbers in another way."""

    name = "squares_anew"
    curvature_max = 2.0
    curvature_min = 2.0

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.square(z - y)

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2.0 * (z - y)


class PseudoHuber(lw.GeneralizedLinear):
    def __init__(self, features: Any, targets: Any, node: Any, ridge: float) -> None:
        super().__init__(features, targets, PseudoHuberLoss(), node, ridge)


class SquaresAnew(lw.GeneralizedLinear):
    def __init__(self, features: Any, targets: Any, node: Any, ridge: float) -> None:
        super().__init__(features, targets, SquaresAnewLoss(), node, ridge)


class Tripled(lw.LeastSquares):
    """Three times the loss of least squares: the same optimum, other gradients."""

    def local_loss(self, v: int, x: Any) -> float:
        return 3.0 * super().local_loss(v, x)

    def local_gradient(self, v: int, x: Any, samples: Any = None) -> np.ndarray:
        return 3.0 * super().local_gradient(v, x, samples)


class OwnSlopes(lw.LeastSquares):
    """The same through the methods that the loss is made of."""

    def _losses(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 3.0 * super()._losses(z, y)

    def _slopes(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 3.0 * super()._slopes(z, y)


class Pulled(lw.LeastSquares):
    """A gradient of its own, with the inherited optimum of least squares, which is wrong."""

    def local_gradient(self, v: int, x: Any, samples: Any = None) -> np.ndarray:
        return super().local_gradient(v, x, samples) + 5.0


def samples(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((2 * N, DIM))
    features[:2] *= 4.0
    return (
        features,
        features @ [1.0, -2.0] + 3.0 * rng.standard_normal(2 * N),
        np.repeat(np.arange(N), 2),
    )


def made(kind: type[Any], ridge: float = 0.1) -> Any:
    return kind(*samples(), ridge=ridge)


def bowls(optimum: np.ndarray | None) -> Any:
    """Return a problem that is no linear model: f_v(x) = ½ a_v ‖x - c_v‖²."""
    rng = np.random.default_rng(3)
    stiffness, centres = 1.0 + rng.random(N), rng.standard_normal((N, DIM))

    class Bowls:
        n, dim, smoothness = N, DIM, stiffness

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * float(stiffness[v] * np.sum((x - centres[v]) ** 2))

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return np.asarray(stiffness[v] * (x - centres[v]))

    problem: Any = Bowls()
    problem.optimum = stiffness @ centres / stiffness.sum() if optimum is None else optimum
    return problem


@pytest.mark.parametrize("design", UNBIASED, ids=lambda design: design.name)
def test_an_unbiased_walk_has_no_bias_with_a_third_loss(design: lw.Design) -> None:
    problem = made(PseudoHuber)
    assert lw.error_floor(lw.ring(N), problem, design).bias2 < 1e-15
    assert lw.predict(lw.ring(N), problem, design, accuracy=0.1).bias2 < 1e-15


@pytest.mark.parametrize(
    "design", [lw.mhlj(p_jump=0.3), lw.simple_rw()], ids=lambda design: design.name
)
def test_the_fixed_point_of_a_third_loss_solves_its_equation(design: lw.Design) -> None:
    network, problem = lw.star(N), made(PseudoHuber)
    floor = lw.error_floor(network, problem, design)
    law = lw.stationary(lw.transition(network, problem, design))
    mass = law * design.bind(network, problem).weights
    assert mass @ problem.local_gradients(floor.fixed_point) == pytest.approx(
        np.zeros(DIM), abs=1e-9
    )
    assert floor.bias2 > 1e-6
    assert floor.floor is None
    assert floor.limit_mean is None
    assert any("PseudoHuber" in note for note in floor.notes)
    assert floor.method == "newton, finite differences"


def test_the_noise_of_a_third_loss_is_that_of_its_own_curvature() -> None:
    network, problem, design = lw.ring(N), made(PseudoHuber), lw.unif_rw()
    found = lw.predict(network, problem, design, accuracy=0.5)
    x, a, y = problem.optimum, problem.sorted_features, problem.sorted_targets
    curvature = (1.0 + (a @ x - y) ** 2) ** -1.5
    H = a.T @ (curvature[:, None] * a) / len(a) + problem.ridge * np.eye(DIM)
    P = lw.transition(network, problem, design)
    sigma = asymptotic_covariance(P, np.full(N, 1.0 / N), problem.local_gradients(x))
    values, vectors = np.linalg.eigh(H)
    turned = vectors.T @ sigma @ vectors
    C = vectors @ (turned / (values[:, None] + values[None, :])) @ vectors.T
    assert found.noise * float(x @ x) == pytest.approx(np.trace(C), rel=1e-6)
    assert found.curvature == "finite differences"


@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.mhlj(p_jump=0.3)], ids=lambda design: design.name
)
def test_least_squares_written_anew_gets_the_numbers_of_least_squares(
    design: lw.Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("levywalk.theory.judge.predict"), "_UNKNOWNS", 0)
    network, ours, theirs = lw.ring(N), made(lw.LeastSquares), made(SquaresAnew)
    assert theirs.optimum == pytest.approx(ours.optimum, rel=1e-9)
    a, b = (lw.predict(network, problem, design, accuracy=0.2) for problem in (ours, theirs))
    assert (a.curvature, b.curvature) == ("closed form", "finite differences")
    assert b.noise == pytest.approx(a.noise, rel=1e-6)
    assert b.steps == pytest.approx(a.steps, rel=1e-5)
    assert b.bias2 == pytest.approx(a.bias2, rel=1e-6, abs=1e-15)
    x, y = (lw.error_floor(network, problem, design) for problem in (ours, theirs))
    assert y.fixed_point == pytest.approx(x.fixed_point, rel=1e-9)
    assert (x.method, y.method) == ("factorisation", "newton, finite differences")
    assert x.floor is not None
    assert y.floor is None


@pytest.mark.parametrize("kind", [Tripled, OwnSlopes])
def test_a_subclass_with_its_own_gradient_is_judged_by_that_gradient(kind: type[Any]) -> None:
    network, problem, design = lw.ring(N), made(kind, ridge=0.0), lw.unif_rw()
    base = made(lw.LeastSquares, ridge=0.0)
    ours, theirs = (lw.predict(network, p, design, accuracy=0.5) for p in (problem, base))
    assert ours.curvature == "finite differences"
    assert ours.noise == pytest.approx(
        3.0 * theirs.noise, rel=1e-6
    )  # Σ is nine times as large, H three times
    floor = lw.error_floor(network, problem, design)
    assert floor.bias2 < 1e-15
    assert floor.floor is None
    assert any(kind.__name__ in note for note in floor.notes)
    with pytest.raises(lw.InvalidParameter, match=rf"{kind.__name__}.*lw\.run"):
        exact_moments(network, problem, design, steps=10)


@pytest.mark.parametrize("kind", [Tripled, OwnSlopes])
def test_constants_of_the_base_class_are_not_taken_for_a_subclass_with_its_own_gradient(
    kind: type[Any],
) -> None:
    network, problem = lw.ring(N), made(kind, ridge=0.0)
    found = assumptions(network, problem, lw.unif_rw())
    assert found["Assumption 1"].holds is None
    assert found["Assumption 2"].holds is None
    assert kind.__name__ in found["Assumption 2"].why
    gradients = np.array([problem.local_gradient(v, problem.optimum) for v in range(N)])
    assert found["Assumption 3"].numbers["sigma_max2"] == pytest.approx(
        np.square(gradients).sum(axis=1).max()
    )
    result = lw.bounds(network, problem, lw.unif_rw(), steps=100)
    assert result.exact is None
    assert all(terms.total == np.inf for terms in result.forms.values())
    assert kind.__name__ in result.notes[0]
    base = lw.bounds(network, made(lw.LeastSquares, ridge=0.0), lw.unif_rw(), steps=100)
    assert base.exact is not None
    assert np.isfinite(base.forms["corrected"].total)


def test_constants_that_a_subclass_states_itself_are_taken() -> None:
    class Stated(Tripled):
        @property
        def smoothness(self) -> np.ndarray:
            return 3.0 * made(lw.LeastSquares).smoothness

        @property
        def local_strong_convexity(self) -> np.ndarray:
            return 3.0 * made(lw.LeastSquares).local_strong_convexity

    network, problem = lw.ring(N), made(Stated)
    found = assumptions(network, problem, lw.unif_rw())
    assert found["Assumption 1"].holds
    assert found["Assumption 2"].holds
    result = lw.bounds(network, problem, lw.unif_rw(), steps=100)
    assert result.exact is None
    assert np.isfinite(result.forms["corrected"].total)
    third = assumptions(network, made(PseudoHuber), lw.unif_rw())
    assert third["Assumption 1"].holds
    assert third["Assumption 2"].holds  # by the ridge


def test_a_method_that_is_set_on_the_object_counts_too() -> None:
    problem: Any = made(lw.LeastSquares)
    problem.local_gradient = lambda v, x: 3.0 * lw.LeastSquares.local_gradient(problem, v, x)
    assert lw.error_floor(lw.ring(N), problem, lw.unif_rw()).floor is None


def test_correlations_of_updates_use_the_gradients_of_the_problem() -> None:
    class Uneven(lw.LeastSquares):
        def local_gradient(self, v: int, x: Any, samples: Any = None) -> np.ndarray:
            return (1.0 + v) * super().local_gradient(v, x, samples)

    network, problem = lw.ring(N), made(Uneven)
    trace = lw.run(network, problem, lw.unif_rw(), steps=200, step_size=1e-4, record_walk=True)
    pulls = np.array([problem.local_gradient(v, problem.optimum) for v in range(N)])
    series = (pulls - pulls.mean(axis=0))[trace.walk[0]]
    products = [np.mean(np.sum(series[: 200 - lag] * series[lag:], axis=1)) for lag in (0, 1, 2)]
    assert lw.update_correlation(trace, problem)[:3] == pytest.approx(products / products[0])


@pytest.mark.parametrize("judge", [lw.predict, lw.error_floor])
def test_an_inherited_optimum_that_is_not_the_optimum_is_refused(judge: Any) -> None:
    with pytest.raises(lw.InvalidParameter, match=r"optimum.*Pulled.*gradient"):
        judge(lw.ring(N), made(Pulled), lw.unif_rw())


def test_any_problem_with_an_optimum_has_a_prediction_and_a_fixed_point() -> None:
    network, problem = lw.ring(N), bowls(None)
    found = lw.predict(network, problem, lw.mhlj(p_jump=0.3), accuracy=0.5)
    assert np.isfinite(found.noise)
    floor = lw.error_floor(network, problem, lw.mhlj(p_jump=0.3))
    law = lw.stationary(lw.transition(network, problem, lw.mhlj(p_jump=0.3)))
    mass = law * lw.mhlj(p_jump=0.3).bind(network, problem).weights
    pulls = np.array([problem.local_gradient(v, floor.fixed_point) for v in range(N)])
    assert mass @ pulls == pytest.approx(np.zeros(DIM), abs=1e-9)
    with pytest.raises(lw.InvalidParameter, match="optimum"):
        lw.predict(network, bowls(np.array([9.0, 9.0])), lw.unif_rw())


def test_what_is_no_gradient_is_refused() -> None:
    class Turned:
        n, dim, smoothness = N, DIM, np.ones(N)
        optimum = np.array([1.0, 1.0])

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * float(x @ x)

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return np.array([[1.0, 1.0], [-1.0, 1.0]]) @ (x - self.optimum)

    with pytest.raises(lw.InvalidParameter, match=r"Turned.*symmetric"):
        lw.predict(lw.ring(N), Turned(), lw.unif_rw())  # type: ignore[arg-type]


def test_a_flat_problem_is_refused_with_the_remedy() -> None:
    class Flat:
        n, dim, smoothness = N, DIM, np.ones(N)
        optimum = np.array([1.0, 1.0])

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * float((x[0] - 1.0) ** 2)

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return np.array([x[0] - 1.0, 0.0])

    with pytest.raises(lw.InvalidData, match=r"Flat.*unique"):
        lw.error_floor(lw.ring(N), Flat(), lw.unif_rw())  # type: ignore[arg-type]


def test_logistic_regression_keeps_its_closed_form() -> None:
    features, _, node = samples()
    problem = lw.Logistic(
        features, (features[:, 0] > 0.3 * features[:, 1]).astype(float), node=node, ridge=0.05
    )
    found = lw.predict(lw.ring(N), problem, lw.mhlj(), accuracy=0.5)
    assert found.curvature == "closed form"
    assert lw.error_floor(lw.ring(N), problem, lw.mhlj()).method == "newton"
