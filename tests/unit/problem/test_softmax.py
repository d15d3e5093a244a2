"""Softmax regression and least squares with several outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge

import levywalk as lw
from levywalk.experiments.shorthand import problem_settings
from levywalk.experiments.sources import build_problem
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from tests.limits import mostly_soak

RNG = np.random.default_rng(20)
FLOWERS, SPECIES = load_iris(return_X_y=True)
FLOWERS = (FLOWERS - FLOWERS.mean(axis=0)) / FLOWERS.std(axis=0)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
N, DIM = 30, 4
NODE = np.arange(len(FLOWERS)) % N
NETWORK = lw.watts_strogatz(N, 4, 0.2, seed=3)


def softmax(ridge: float = 0.05, node: Any = NODE) -> lw.Softmax:
    return lw.Softmax(FLOWERS, NAMES, node, ridge)


def squares(outputs: int = 5) -> lw.LeastSquares:
    targets = FLOWERS @ RNG.normal(size=(DIM, outputs)) + RNG.normal(size=(150, outputs))
    return lw.LeastSquares(FLOWERS, targets, NODE, 0.1)


def test_the_optimum_is_that_of_sklearn() -> None:
    problem = softmax()
    found = LogisticRegression(C=1 / (150 * 0.05), fit_intercept=False, tol=1e-10, max_iter=5000)
    found.fit(FLOWERS, NAMES)
    assert problem.matrix(problem.optimum) == pytest.approx(found.coef_.T, rel=1e-5, abs=1e-6)
    assert (problem.predict(problem.optimum) == found.predict(FLOWERS)).all()
    assert np.linalg.norm(problem.local_gradients(problem.optimum).mean(axis=0)) < 1e-14
    assert (problem.classes == ["setosa", "versicolor", "virginica"]).all()


def test_gradients_are_derivatives_and_bounded_by_the_smoothness() -> None:
    problem, h = softmax(), 1e-6
    x = RNG.normal(size=problem.dim)
    for v in (0, N - 1):
        numbers = [
            (problem.local_loss(v, x + h * e) - problem.local_loss(v, x - h * e)) / (2 * h)
            for e in np.eye(problem.dim)
        ]
        assert problem.local_gradient(v, x) == pytest.approx(numbers, rel=1e-6, abs=1e-8)
    for _ in range(100):
        y = x + 0.1 * RNG.normal(size=problem.dim)
        change = np.linalg.norm(problem.local_gradients(x) - problem.local_gradients(y), axis=1)
        assert (change <= problem.smoothness * np.linalg.norm(x - y) * (1 + 1e-9)).all()
    # With two classes of equal probability the bound is attained along their difference.
    two = lw.Softmax([[1.0], [1.0]], [0, 1])
    step = two.local_gradient(0, [1e-6, -1e-6]) - two.local_gradient(0, [0.0, 0.0])
    assert np.linalg.norm(step) / np.linalg.norm([1e-6, -1e-6]) == pytest.approx(0.5, rel=1e-6)
    assert two.smoothness == pytest.approx([0.5, 0.5])
    # A model may be given as a matrix.
    assert problem.loss(problem.matrix(x)) == problem.loss(x)


def test_two_classes_are_logistic_regression() -> None:
    labels = (SPECIES == 1).astype(int)
    one = lw.Logistic(FLOWERS, labels, NODE, ridge=0.1)
    two = lw.Softmax(FLOWERS, labels, NODE, ridge=0.2)  # the difference has half of the ridge
    X = two.matrix(two.optimum)
    assert X[:, 1] - X[:, 0] == pytest.approx(one.optimum, rel=1e-8)


def test_labels_of_any_kind_and_what_is_refused() -> None:
    features = np.eye(4)
    for labels in (["b", "a", "b", "c"], [2.5, -1.0, 2.5, 7.0], np.array([9, 3, 9, 11], "u1")):
        problem = lw.Softmax(features, labels, ridge=0.1)
        assert problem.targets.tolist() == [1.0, 0.0, 1.0, 2.0]
        assert problem.classes[problem.targets.astype(int)].tolist() == np.array(labels).tolist()
    more = lw.Softmax(features, [1, 1, 0, 0], ridge=0.1, classes=[0, 1, 2])
    assert more.dim == 12
    for labels, classes, message in (
        (["a"] * 4, None, "at least 2 classes, got 1"),
        ([["a"], ["b"], ["a"], ["b"]], None, "one class per sample"),
        ([0.0, 1.0, np.nan, 1.0], None, "NaN"),
        ([0, "a", None, 1.0], None, "one kind"),
        (["a", "b", "c", "a"], ["a", "b"], "'c', which classes does not list"),
    ):
        with pytest.raises(lw.InvalidData, match=message):
            lw.Softmax(features, np.array(labels, dtype=object if None in labels else None),
                       classes=classes)  # fmt: skip
    with pytest.raises(lw.InvalidData, match=r"classes 0 to 1, got 2\.0 at position 1"):
        lw.GeneralizedLinear(features, [0, 2, 1, 1], lw.losses.softmax(2))
    with pytest.raises(lw.InvalidParameter, match="number of classes is not known"):
        lw.GeneralizedLinear(features, [0, 2, 1, 1], lw.losses.softmax())


def test_without_ridge_the_smallest_minimiser_or_none() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 150)
    problem = lw.Softmax(FLOWERS, labels, NODE)
    with pytest.warns(lw.DataWarning, match="added to all classes .* smallest norm"):
        X = problem.matrix(problem.optimum)
    assert X.sum(axis=1) == pytest.approx(np.zeros(DIM), abs=1e-9)
    assert np.linalg.norm(problem.local_gradients(problem.optimum).mean(axis=0)) < 1e-12
    with pytest.raises(lw.NoMinimiser, match=r"separates some class.*ridge=1e-3"):
        _ = softmax(ridge=0.0).optimum  # setosa lies apart


UPDATES: dict[str, Any] = {
    "sgd": None,
    "minibatch": lw.sgd(minibatch=2),
    "sag": lw.sag(),
    "saga": lw.saga(),
    "saga minibatch": lw.saga(minibatch=3),
    "heavy ball": lw.heavy_ball(),
}
KINDS: dict[str, Any] = {
    "softmax": softmax,
    "one sample": lambda: lw.Softmax(FLOWERS[::5], NAMES[::5], None, 0.05),
    "many classes": lambda: lw.Softmax(FLOWERS, np.arange(150) % 13, NODE, 0.05),
    "squares": squares,
}
PAIRS = [(kind, update) for kind in KINDS for update in UPDATES]
# Every kind and every update.
MORE = [("softmax", "sgd"), ("softmax", "saga minibatch"), ("one sample", "saga"),
        ("many classes", "sag"), ("many classes", "minibatch"), ("squares", "heavy ball"),
        ("squares", "saga")]  # fmt: skip


@pytest.mark.more  # compiles loops of its own
@pytest.mark.parametrize("pair", mostly_soak(PAIRS, lambda pair: pair in MORE), ids="-".join)
def test_the_kernel_is_the_reference(pair: tuple[str, str]) -> None:
    problem, update = KINDS[pair[0]](), UPDATES[pair[1]]
    kernel, reference = (
        lw.run(
            NETWORK, problem, lw.mhlj(), steps=200, step_size="theory", update=update, replicas=2,
            record_walk=True, backend=backend, record_memory=True,
        )
        for backend in ("kernel", "reference")
    )  # fmt: skip
    assert np.array_equal(kernel.walk, reference.walk)
    assert np.array_equal(kernel.bytes, reference.bytes)
    assert np.abs(kernel.model - reference.model).max() < 1e-9 * np.abs(reference.model).max()
    for name, array in (kernel.memory or {}).items():
        assert np.allclose(array, (reference.memory or {})[name], rtol=1e-9, atol=1e-12), name


@pytest.mark.more
def test_a_switching_walk_and_walks_of_other_kinds_run_compiled() -> None:
    problem = KINDS["one sample"]()
    switching = lw.switching(lw.weight_rw(), lw.unif_rw())
    for design in (switching, lw.non_backtracking(), lw.iid_uniform()):
        kernel, reference = (
            lw.run(NETWORK, problem, design, steps=500, step_size=0.1, backend=backend)
            for backend in ("kernel", "reference")
        )
        assert np.abs(kernel.model - reference.model).max() < 1e-9


def test_saga_keeps_one_slope_vector_per_sample_and_reaches_the_optimum() -> None:
    problem = softmax()
    trace = lw.run(
        lw.complete(N), problem, lw.mhlj(), steps=3_000, step_size="theory", update=lw.saga(),
        backend="reference", record_memory=True,
    )  # fmt: skip
    assert trace.memory is not None
    (slopes,) = (array for name, array in trace.memory.items() if name.endswith("slopes"))
    assert slopes.size == 150 * 3
    assert trace.distance2[0, -1] < 0.05 * trace.distance2[0, 0]
    with pytest.raises(lw.InvalidParameter, match="a loss with one output"):
        lw.run(NETWORK, problem, lw.mhlj(), steps=1, step_size=1.0, update=lw.point_saga())


def test_a_virtual_fleet_makes_the_same_walk_and_a_manifest_keeps_the_classes() -> None:
    problem = softmax()
    fleet = Fleet.of(NETWORK, problem, lw.mhlj(), steps=60, step_size=0.1, seed=5)
    virtual = VirtualFleet(fleet)
    virtual.run()
    found = merge({v: machine.log for v, machine in enumerate(virtual.machines)}, virtual.fleet)
    expected = lw.run(NETWORK, problem, lw.mhlj(), steps=60, step_size=0.1, seed=5,
                      backend="reference")  # fmt: skip
    assert np.array_equal(found.model, expected.model)
    manifest = Manifest.parse(Manifest.of(fleet).text)
    assert (manifest.loss.n_outputs, manifest.n_features) == (3, DIM)


def test_samples_are_spread_by_the_names_of_classes() -> None:
    named, coded = (lw.partition(FLOWERS, y, 9, how="label", seed=1) for y in (NAMES, SPECIES))
    assert np.array_equal(named, coded)


def test_real_nodes_get_several_targets(tmp_path: Any) -> None:
    at = create(tmp_path / "fleet", NETWORK, squares(), lw.unif_rw(), steps=10, step_size=0.1)
    assert np.array_equal(fleet_of(at).problem.smoothness, squares().smoothness)


def test_the_command_line_counts_the_classes(tmp_path: Any) -> None:
    file = tmp_path / "data.csv"
    np.savetxt(file, np.column_stack([FLOWERS, SPECIES]), delimiter=",")
    section = problem_settings(str(file), options={"loss": "softmax", "ridge": 0.1})
    problem = build_problem(section, lw.ring(5))
    assert isinstance(problem, lw.Softmax)
    assert problem.dim == 12


def test_theory_answers_by_differences_of_gradients() -> None:
    problem = softmax(ridge=0.5)
    found = lw.predict(NETWORK, problem, lw.unif_rw(), accuracy=0.5)
    assert (found.curvature, found.trusted) == ("finite differences", False)
    assert lw.error_floor(NETWORK, problem, lw.unif_rw()).bias2 < 1e-14
    assert lw.entrapment(NETWORK, problem, lw.weight_rw()) is not None


def test_least_squares_with_several_outputs_are_one_problem_for_each() -> None:
    problem = squares()
    assert problem.dim == DIM * 5
    found = Ridge(alpha=150 * 0.1 / 2, fit_intercept=False).fit(FLOWERS, problem.targets)
    assert problem.optimum.reshape(DIM, 5) == pytest.approx(found.coef_.T, rel=1e-8)
    ones = [lw.LeastSquares(FLOWERS, y, NODE, 0.1) for y in problem.targets.T]
    x = RNG.normal(size=(DIM, 5))
    assert problem.excess_loss(x) == pytest.approx(
        sum(one.excess_loss(x[:, k]) for k, one in enumerate(ones))
    )
    # Each column has its own ridge term, so losses add up.
    assert problem.loss(x) == pytest.approx(sum(one.loss(x[:, k]) for k, one in enumerate(ones)))
    assert problem.strong_convexity == pytest.approx(ones[0].strong_convexity)
    assert problem.smoothness == pytest.approx(ones[0].smoothness)
    assert problem.hessian == pytest.approx(np.kron(ones[0].hessian, np.eye(5)))
    assert problem.local_gradient(3, x).reshape(DIM, 5)[:, 2] == pytest.approx(
        ones[2].local_gradient(3, x[:, 2])
    )
    with pytest.raises(lw.InvalidData, match="one entry per row of features"):
        lw.LeastSquares(FLOWERS, np.zeros((3, 2)))
