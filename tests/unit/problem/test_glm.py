"""Least squares and logistic problems: what they accept, refuse and compute."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from levywalk.errors import DataWarning, InvalidData, InvalidParameter, NoMinimiser
from levywalk.problem import (
    GeneralizedLinear,
    LeastSquares,
    Logistic,
    Problem,
    check_problem,
    logistic_fit,
    optimum_of,
    samples,
)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 4))
Y = X @ np.array([1.0, -2.0, 0.5, 3.0]) + RNG.normal(size=60)
LABELS = (RNG.random(60) < expit(X[:, 0])).astype(float)
NODE = np.concatenate([np.arange(7), RNG.integers(0, 7, size=53)])
KINDS = [(LeastSquares, Y), (Logistic, LABELS)]


@pytest.fixture
def small_blocks(monkeypatch):
    """Make every loop over blocks take several turns on small data."""
    monkeypatch.setattr(samples, "_BLOCK", 16)
    monkeypatch.setattr("levywalk.problem.linear._BLOCK", 16)
    monkeypatch.setattr("levywalk.problem.spectra._BATCH", 64)


def test_least_squares_optimum_equals_weighted_lstsq():
    problem = LeastSquares(X, Y, node=NODE)
    root = 1 / np.sqrt(np.bincount(NODE)[NODE])
    expected = np.linalg.lstsq(X * root[:, None], Y * root, rcond=None)[0]
    np.testing.assert_allclose(problem.optimum, expected, rtol=1e-11)


def test_least_squares_optimum_with_ridge_solves_the_normal_equations():
    problem = LeastSquares(X, Y, ridge=0.7)
    expected = np.linalg.solve(2 * X.T @ X / 60 + 0.7 * np.eye(4), 2 * X.T @ Y / 60)
    np.testing.assert_allclose(problem.optimum, expected, rtol=1e-11)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_logistic_optimum_equals_sklearn(ridge):
    problem = Logistic(X, LABELS, ridge=ridge)
    judge = LogisticRegression(
        C=1 / (60 * ridge), fit_intercept=False, solver="newton-cholesky", tol=1e-13, max_iter=1000
    ).fit(X, LABELS)
    np.testing.assert_allclose(problem.optimum, judge.coef_[0], rtol=1e-7, atol=1e-10)


def test_logistic_optimum_on_unscaled_real_data_has_a_vanishing_gradient():
    data = load_breast_cancer()
    problem = Logistic(data.data, data.target, ridge=1e-4)
    gradient = problem.local_gradients(problem.optimum).mean(axis=0)
    assert np.max(np.abs(gradient) / np.sqrt(np.mean(data.data**2, axis=0))) < 1e-12


@pytest.mark.parametrize(("kind", "targets"), KINDS)
def test_blocks_change_nothing(kind, targets, small_blocks, monkeypatch):
    blocked = kind(X, targets, node=NODE, ridge=0.1)
    values = (
        blocked.optimum,
        blocked.smoothness,
        blocked.local_gradients(np.ones(4)),
        blocked.sigma_star2,
    )
    monkeypatch.undo()
    whole = kind(X, targets, node=NODE, ridge=0.1)
    expected = whole.optimum, whole.smoothness, whole.local_gradients(np.ones(4)), whole.sigma_star2
    for value, judge in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, judge, rtol=1e-10)


def test_optimum_survives_features_in_wildly_different_units():
    units = np.array([1e-9, 1.0, 1e6, 1e9])
    scaled, plain = LeastSquares(X * units, Y).optimum, LeastSquares(X, Y).optimum
    np.testing.assert_allclose(scaled * units, plain, rtol=1e-9)
    scaled, plain = Logistic(X * units, LABELS).optimum, Logistic(X, LABELS).optimum
    np.testing.assert_allclose(scaled * units, plain, rtol=1e-9)


@pytest.mark.parametrize(("kind", "targets"), KINDS)
def test_collinear_features_warn_and_give_the_minimiser_of_smallest_norm(kind, targets):
    doubled = kind(np.hstack([X, X]), targets)
    with pytest.warns(DataWarning, match="not unique"):
        x = doubled.optimum
    np.testing.assert_allclose(x, np.tile(kind(X, targets).optimum / 2, 2), rtol=1e-8)
    assert doubled.strong_convexity == 0.0


def test_fewer_samples_than_dimensions_warn_and_interpolate():
    problem = LeastSquares(X[:3], Y[:3])
    with pytest.warns(DataWarning, match="3 samples do not span the 4 dimensions"):
        x = problem.optimum
    np.testing.assert_allclose(x, np.linalg.pinv(X[:3]) @ Y[:3], rtol=1e-10)


def _quasi_separable():
    features = np.column_stack([X[:, 0], np.zeros(60)])
    features[5, 1] = 1.0
    return features, LABELS


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (X, X @ np.ones(4) > 0),
        _quasi_separable(),
        (np.column_stack([X, np.ones(60)]), np.ones(60)),
        (np.hstack([X, X]), X @ np.ones(4) > 0),
    ],
    ids=["separable", "quasi-separable", "equal labels with intercept", "separable and collinear"],
)
def test_separable_labels_have_no_minimiser_until_there_is_a_ridge(features, labels):
    problem = Logistic(features, labels)
    with pytest.raises(NoMinimiser, match="add a ridge"):
        _ = problem.optimum
    assert np.isfinite(Logistic(features, labels, ridge=1e-3).optimum).all()


def test_one_wrong_label_is_enough_for_a_minimiser():
    labels = (X @ np.ones(4) > 0).astype(float)
    labels[0] = 1 - labels[0]
    problem = Logistic(X, labels)
    assert np.abs(problem.local_gradients(problem.optimum).mean(axis=0)).max() < 1e-12


def test_equal_labels_have_a_minimiser_when_features_point_everywhere():
    problem = Logistic(np.vstack([X, -X]), np.ones(120))
    np.testing.assert_allclose(problem.optimum, 0.0, atol=1e-12)


def test_cutting_planes_agree_with_the_whole_linear_program(monkeypatch, small_blocks):
    monkeypatch.setattr(logistic_fit, "_ALL_ROWS", 10)
    features = np.random.default_rng(1).normal(size=(6000, 3))
    signs = np.where(features @ [1.0, 2.0, 3.0] > 0, -1.0, 1.0)
    direction = logistic_fit.separating_direction(features, signs)
    assert direction is not None
    assert (signs * (features @ direction)).max() < 1e-6
    signs[np.argmax(np.abs(features @ [1.0, 2.0, 3.0]))] *= -1
    assert logistic_fit.separating_direction(features, signs) is None


def test_many_samples_per_node_give_the_extreme_eigenvalues():
    problem = LeastSquares(X, Y, node=NODE, ridge=0.25)
    for v in range(problem.n):
        a = X[v == NODE]
        eigenvalues = np.linalg.eigvalsh(a.T @ a / len(a))
        assert problem.smoothness[v] == pytest.approx(2 * eigenvalues[-1] + 0.25, rel=1e-12)
        low = 0.25 if len(a) < 4 else 2 * eigenvalues[0] + 0.25
        assert problem.local_strong_convexity[v] == pytest.approx(low, rel=1e-10)
    logistic = Logistic(X, LABELS, node=NODE, ridge=0.25)
    np.testing.assert_allclose(
        logistic.smoothness - 0.25, (problem.smoothness - 0.25) / 8, rtol=1e-12
    )
    assert (logistic.local_strong_convexity == 0.25).all()


def test_one_sample_per_node_gives_the_papers_constants():
    problem = LeastSquares(X, Y)
    np.testing.assert_allclose(problem.smoothness, 2 * (X**2).sum(axis=1), rtol=1e-14)
    assert (problem.local_strong_convexity == 0).all()
    assert problem.strong_convexity == pytest.approx(
        np.linalg.eigvalsh(2 * X.T @ X / 60)[0], rel=1e-12
    )
    np.testing.assert_allclose(problem.hessian, 2 * X.T @ X / 60, rtol=1e-12, atol=1e-14)


def test_sigmas_are_mean_and_maximum_of_squared_local_gradients_at_the_optimum():
    for kind, targets in KINDS:
        problem = kind(X, targets, node=NODE)
        squares = [
            np.sum(problem.local_gradient(v, problem.optimum) ** 2) for v in range(problem.n)
        ]
        assert problem.sigma_star2 == pytest.approx(np.mean(squares), rel=1e-12)
        assert problem.sigma_max2 == pytest.approx(np.max(squares), rel=1e-12)


@pytest.mark.parametrize(("kind", "targets"), KINDS)
def test_excess_loss_is_exact_far_from_and_near_the_optimum(kind, targets):
    problem = kind(X, targets, node=NODE, ridge=0.01)
    u = np.array([1.0, -1.0, 2.0, 0.5])
    far = problem.loss(problem.optimum + u) - problem.loss(problem.optimum)
    assert problem.excess_loss(problem.optimum + u) == pytest.approx(far, rel=1e-11)
    # Near the optimum f is quadratic: the ratio of tiny errors is known although f cannot resolve
    # them.
    near = [problem.excess_loss(problem.optimum + scale * u) for scale in (2.0**-24, 2.0**-23)]
    assert near[0] > 0
    assert near[1] / near[0] == pytest.approx(4.0, rel=1e-6)
    assert problem.excess_loss(problem.optimum) == 0.0


@pytest.mark.parametrize("z_star", [-40.0, -3.0, 0.0, 0.4, 5.0, 40.0])
def test_divergence_has_no_seam(z_star):
    near = [-0.0100001, -0.0099999, 1e-5, 0.0099999, 0.0100001]
    d = np.array([-800.0, -1.0, *near, 0.999999, 1.000001, 800.0])
    with localcontext() as context:
        context.prec = 400
        for step, value in zip(d, logistic_fit.divergence(d, np.full(len(d), z_star)), strict=True):
            shift, start = Decimal(step), Decimal(z_star)
            rise = (1 + (start + shift).exp()).ln() - (1 + start.exp()).ln()
            assert value == pytest.approx(float(rise - shift / (1 + (-start).exp())), rel=1e-12)


@pytest.mark.parametrize(("kind", "targets"), KINDS)
def test_losses_of_an_overflowed_model_are_infinite_and_silent(kind, targets):
    problem = kind(X, targets, ridge=0.1)
    for x in (np.full(4, np.inf), np.full(4, np.nan), np.full(4, 1e200)):
        assert problem.loss(x) == np.inf
        assert problem.excess_loss(x) == np.inf


def test_logistic_is_stable_at_huge_margins():
    problem = Logistic([[1000.0], [-1000.0]], [1, 1])
    assert problem.local_loss(0, [10.0]) == 0.0
    assert problem.local_loss(1, [10.0]) == 10_000.0
    np.testing.assert_allclose(problem.local_gradients([10.0]), [[0.0], [1000.0]], atol=1e-300)


def test_labels_minus_one_and_one_are_kept_as_zero_and_one():
    problem = Logistic(X, 2 * LABELS - 1)
    np.testing.assert_array_equal(problem.targets, LABELS)
    assert problem.fingerprint() == Logistic(X, LABELS.astype(bool)).fingerprint()


def test_samples_are_grouped_stably_and_copied_only_when_needed():
    problem = LeastSquares(X, Y, node=NODE)
    order = np.argsort(NODE, kind="stable")
    np.testing.assert_array_equal(problem.sorted_features, X[order])
    np.testing.assert_array_equal(problem.features, X)
    assert problem.offsets.tolist() == [0, *np.cumsum(np.bincount(NODE)).tolist()]
    assert problem.sample_count(3) == np.count_nonzero(NODE == 3)
    in_order = LeastSquares(X, Y, node=np.sort(NODE))
    assert np.shares_memory(in_order.sorted_features, X)
    assert LeastSquares(X, Y).node.tolist() == list(range(60))


def test_arrays_are_read_only_and_the_callers_stay_writable():
    mine = X.copy()
    problem = LeastSquares(mine, Y)
    for array in (
        problem.features,
        problem.targets,
        problem.node,
        problem.offsets,
        problem.smoothness,
        problem.optimum,
        problem.hessian,
    ):
        assert not array.flags.writeable
    assert mine.flags.writeable


def test_fingerprint_changes_with_everything_that_matters():
    base = LeastSquares(X, Y)
    others = [
        LeastSquares(X + 1e-12, Y),
        LeastSquares(X, Y + 1e-12),
        LeastSquares(X, Y, ridge=1e-9),
        LeastSquares(X, Y, node=np.sort(NODE)),
        Logistic(X, LABELS),
    ]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 6
    assert base.fingerprint() == LeastSquares(X.copy(), Y.tolist()).fingerprint()


BAD = [
    ((X[:, 0], Y), r"features must have two dimensions .*reshape\(-1, 1\)"),
    ((X[None], Y), r"got shape \(1, 60, 4\)"),
    ((np.empty((0, 4)), []), "at least one row"),
    ((np.empty((4, 0)), np.ones(4)), "one column"),
    ((X, Y[:-1]), r"targets must have one entry per row of features \(60\), got 59"),
    ((X, Y[:, None]), r"targets must have one dimension.*ravel"),
    ((np.where(np.arange(240).reshape(60, 4) == 13, np.nan, X), Y), "got nan at row 3, column 1"),
    (
        (X, np.where(np.arange(60) == 4, -np.inf, Y)),
        "targets must be finite, got -inf at position 4",
    ),
    ((X + 0j, Y), "features must hold real numbers, got dtype complex128"),
    ((X.astype(object), Y), "got dtype object"),
    ((X.astype(str), Y), "features must hold real numbers"),
    (([[1.0], [1.0, 2.0]], [1, 2]), "features must be an array of numbers"),
    ((np.ma.masked_less(X, 0), Y), "masked"),
    ((X, Y, NODE[:-1]), "node must have an entry per row"),
    ((X, Y, NODE - 1), "node must be at least 0, got -1 at position 0"),
    ((X, Y, NODE + 0.5), r"node must hold integers, got float64 \(first value 0.5\)"),
    ((X, Y, np.where(NODE == 3, 4, NODE)), "node 3 has no sample"),
    ((X, Y, NODE + 1), "node 0 has no sample"),
    ((X, Y, np.where(NODE == 6, 10**15, NODE)), "node 6 has no sample"),
    ((X, Y, np.zeros(60, dtype=int)), "at least 2 nodes, got 1"),
    ((X[:1], Y[:1]), "at least 2 nodes, got 1"),
    ((X * (np.arange(60) != 9)[:, None], Y), "node 9 has only zero features.*ridge above 0"),
    ((X * 1e200, Y), "too large to be squared"),
    ((X, Y, None, -1.0), "ridge must be a number at least 0, got -1.0"),
    ((X, Y, None, np.nan), "ridge must be a number"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_data_is_refused_with_position_and_remedy(arguments, message):
    with pytest.raises((InvalidData, InvalidParameter), match=message):
        LeastSquares(*arguments)


def test_sparse_targets_are_refused_with_the_remedy():
    from scipy.sparse import csr_array

    with pytest.raises(InvalidData, match="toarray"):
        LeastSquares(np.eye(2), csr_array(np.eye(2)))


def test_labels_that_are_not_binary_are_listed():
    message = r"\{0, 1\} or \{-1, 1\}, got 8 distinct values \(0, 1, 2, 3, 4, …\)"
    with pytest.raises(InvalidData, match=message):
        Logistic(X, np.arange(60) % 8)
    with pytest.raises(InvalidData, match="distinct values"):
        Logistic(X, np.where(LABELS == 1, -1, 0))


def test_a_zero_row_is_fine_with_a_ridge():
    features = X.copy()
    features[9] = 0.0
    assert LeastSquares(features, Y, ridge=0.5).smoothness[9] == 0.5


def test_bad_nodes_models_and_minibatches_are_refused():
    problem = LeastSquares(X, Y, node=NODE)
    for v in (-1, 7):
        with pytest.raises(InvalidParameter, match=r"v must be a node in \[0, 6\]"):
            problem.local_gradient(v, np.zeros(4))
    with pytest.raises(InvalidParameter, match=r"x must have shape \(4,\), got \(3,\)"):
        problem.loss(np.zeros(3))
    with pytest.raises(InvalidParameter, match="x must be an array"):
        problem.loss("zero")
    for batch in ([], [-1], [problem.sample_count(0)], [0.5]):
        with pytest.raises(InvalidParameter, match="samples"):
            problem.local_gradient(0, np.zeros(4), samples=batch)


class Bowls:
    """The smallest foreign problem."""

    def __init__(self, **changes):
        self.n, self.dim, self.smoothness = 3, 2, np.ones(3)
        for name, value in changes.items():
            setattr(self, name, value)

    def local_loss(self, v, x):
        return 0.5 * float(np.sum((x - v) ** 2))

    def local_gradient(self, v, x):
        return x - v


def test_foreign_objects_are_problems_when_they_have_the_names():
    check_problem(Bowls())
    assert isinstance(Bowls(), Problem)
    assert not isinstance(object(), Problem)
    assert optimum_of(Bowls()) is None
    np.testing.assert_array_equal(optimum_of(Bowls(optimum=[1, 1])), [1.0, 1.0])
    check_problem(LeastSquares(X, Y))
    assert isinstance(LeastSquares(X, Y), GeneralizedLinear)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 1}, "problem.n must be an integer of at least 2"),
        ({"dim": 0}, "problem.dim"),
        ({"smoothness": np.ones(2)}, r"problem.smoothness must have shape \(3,\), got \(2,\)"),
        ({"smoothness": np.array([1.0, 0.0, 1.0])}, "above 0 at every node, got 0.0 at node 1"),
        ({"smoothness": np.array([1.0, np.nan, 1.0])}, "finite, got nan at position 1"),
        ({"smoothness": "L"}, "must be an array of 3 numbers"),
        ({"local_loss": 3}, "problem.local_loss must be a method"),
        (
            {"local_gradient": lambda v, x: x[:1]},
            r"local_gradient\(0, zeros\) must have shape \(2,\)",
        ),
    ],
)
def test_foreign_objects_with_a_flaw_are_refused_by_name(changes, message):
    with pytest.raises((InvalidData, InvalidParameter), match=message):
        check_problem(Bowls(**changes))
    with pytest.raises(InvalidData, match="optimum must have shape"):
        optimum_of(Bowls(optimum=[1.0]))
