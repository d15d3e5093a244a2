"""The estimators: scikit-learn's own checks, and its exact solutions as oracles."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import levywalk as lw
from levywalk.sklearn import WalkClassifier, WalkRegressor

# One check of each kind: the others have the marker `more`.
QUICK = (
    "check_estimator_cloneable",
    "check_get_params_invariance",
    "check_fit2d_1sample",
    "check_estimators_unfitted",
)
CHECKS = [
    pytest.param(
        estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}",
        marks=() if check.func.__name__ in QUICK else pytest.mark.more,
    )
    for kind in (WalkClassifier(), WalkRegressor())
    for estimator, check in estimator_checks_generator(kind, mark=None)
    if check.func.__name__ != "check_array_api_input"  # needs SCIPY_ARRAY_API before scipy loads
]  # fmt: skip
X, Y = load_diabetes(return_X_y=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_own_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.more
def test_the_regressor_finds_the_ridge_solution() -> None:
    """One sample per node is ordinary ridge regression: alpha/2 ‖w‖² beside a mean of squares."""
    rows = slice(0, 60)
    ours = WalkRegressor(nodes=60, alpha=0.2, steps=60_000, random_state=0).fit(X[rows], Y[rows])
    scaled, spread = StandardScaler().fit(X[rows]), Y[rows].std()
    exact = Ridge(alpha=60 * 0.2 / 2).fit(scaled.transform(X[rows]), Y[rows] / spread)
    assert ours.coef_ == pytest.approx(exact.coef_ * spread / scaled.scale_, rel=1e-3, abs=1e-2)
    wanted = exact.predict(scaled.transform(X)) * spread
    assert ours.predict(X) == pytest.approx(wanted, rel=1e-3)
    assert ours.intercept_ == pytest.approx(ours.predict(np.zeros((1, 10)))[0])
    assert ours.n_iter_ == 60_000
    assert ours.trace_.step[-1] == 60_000


@pytest.mark.more
def test_several_outputs_and_given_nodes() -> None:
    both = np.column_stack([Y, -2.0 * Y + 5.0])
    node = np.arange(len(Y)) % 7
    ours = WalkRegressor(random_state=0).fit(X, both, node=node)
    assert ours.network_.n == 7
    assert ours.coef_.shape == (2, 10)
    assert ours.coef_[1] == pytest.approx(-2.0 * ours.coef_[0], rel=1e-6, abs=1e-6)
    assert ours.predict(X).shape == both.shape
    for wrong in (node[1:], node - 1, node.astype(float)):
        with pytest.raises(lw.InvalidData, match="node must be one node number"):
            WalkRegressor().fit(X, Y, node=wrong)
    with pytest.raises(lw.InvalidParameter, match="nodes must be 7"):
        WalkRegressor(nodes=8).fit(X, Y, node=node)
    with pytest.raises(lw.InvalidParameter, match="nodes must be 9, the number of nodes of the"):
        WalkRegressor(network="ring:9", nodes=8).fit(X, Y)


@pytest.mark.more
def test_a_warm_start_goes_on_from_the_last_model() -> None:
    given = {"random_state": 0, "update": "sgd", "step_size": 0.01}
    warm = WalkRegressor(warm_start=True, steps=3000, **given).fit(X, Y)
    first = warm.trace_.loss[0, -1]
    warm.fit(X, Y)
    assert warm.trace_.loss[0, 0] == pytest.approx(first)
    cold = WalkRegressor(steps=3000, **given).fit(X, Y).fit(X, Y)
    assert cold.trace_.loss[0, 0] > 2.0 * first


@pytest.mark.more
def test_designs_updates_and_networks_are_objects_or_text() -> None:
    text = WalkRegressor("ring:20", "mhlj:p_jump=0.2", "sgd", minibatch=1, random_state=0).fit(X, Y)
    made = WalkRegressor(lw.ring(20), lw.mhlj(p_jump=0.2), lw.sgd(minibatch=1), random_state=0).fit(
        X, Y
    )
    assert np.array_equal(text.coef_, made.coef_)
    for wrong, match in (
        ({"design": 3}, "design must be a design or its name"),
        ({"update": 3}, "update must be an update or its name"),
        ({"update": lw.sgd(), "minibatch": 2}, "must be part of the update"),
    ):
        with pytest.raises(lw.InvalidParameter, match=match):
            WalkRegressor(**wrong).fit(X, Y)


@pytest.mark.more
def test_it_works_in_a_pipeline_and_a_grid_search() -> None:
    pipeline = make_pipeline(MinMaxScaler(), WalkRegressor(steps=2000, random_state=0))
    grid = {"walkregressor__network": ["ring:20", None], "walkregressor__alpha": [1e-3, 10.0]}
    found = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert found.best_params_["walkregressor__alpha"] == 1e-3
    assert found.best_score_ > 0.4


@pytest.mark.more
def test_two_classes_of_strings_against_scikit_learn() -> None:
    rows, codes = load_breast_cancer(return_X_y=True)
    labels = np.array(["malignant", "benign"])[codes]
    train, test, given, wanted = train_test_split(rows, labels, random_state=0)
    ours = WalkClassifier(random_state=0).fit(train, given)
    theirs = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, given)
    assert ours.score(test, wanted) > theirs.score(test, wanted) - 0.02
    assert ours.classes_.tolist() == ["benign", "malignant"]
    share = ours.predict_proba(test)
    assert share.sum(axis=1) == pytest.approx(1.0)
    assert share[:, 1] == pytest.approx(1.0 / (1.0 + np.exp(-ours.decision_function(test))))


def sparse_rows(samples: int, width: int, density: float) -> sparse.csr_array:
    rng = np.random.default_rng(3)
    return sparse.random_array((samples, width), density=density, rng=rng, format="csr")


@pytest.mark.more
def test_sparse_features_stay_sparse_and_give_the_dense_fit() -> None:
    rows = sparse_rows(60, 90, 0.1)
    targets = np.asarray(rows @ np.random.default_rng(4).normal(size=(90, 3)))
    whole = rows.toarray()
    given = {"standardise": False, "random_state": 0, "steps": 3000, "nodes": 12}
    for update in ("saga", "sgd", "adam"):
        kinds = ("kernel", "kernel") if update != "adam" else ("kernel", "reference")
        for kind, y in ((WalkRegressor, targets[:, 0]), (WalkClassifier, targets[:, 0] > 0)):
            dense = kind(update=update, **given).fit(whole, y)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "updates on sparse features", lw.DataWarning)
                thin = kind(update=update, **given).fit(rows, y)
            assert (dense.trace_.provenance["backend"], thin.trace_.provenance["backend"]) == kinds
            assert thin.coef_ == pytest.approx(dense.coef_, rel=1e-7, abs=1e-9)
            assert thin.intercept_ == pytest.approx(dense.intercept_, rel=1e-7, abs=1e-9)
            assert thin.predict(rows) == pytest.approx(dense.predict(whole))
    for y in (targets, targets.argmax(axis=1)):  # several outputs, and three classes
        kind = WalkRegressor if y.ndim == 2 else WalkClassifier
        dense, thin = (kind(minibatch=2, **given).fit(x, y) for x in (whole, rows))
        assert thin.trace_.provenance["backend"] == "kernel"
        assert thin.coef_ == pytest.approx(dense.coef_, rel=1e-7, abs=1e-9)


@pytest.mark.more
def test_sparse_features_are_divided_by_their_spread_and_not_centred() -> None:
    """The oracle is scikit-learn's regression on such features, with a column of ones."""
    rows = sparse_rows(60, 12, 0.3)
    labels = np.asarray(rows.sum(axis=1)) > 2.0
    ours = WalkClassifier(nodes=60, alpha=0.05, steps=60_000, random_state=0).fit(rows, labels)
    scale = StandardScaler(with_mean=False).fit(rows).scale_
    made = np.column_stack([rows.toarray() / scale, np.ones(60)])
    theirs = LogisticRegression(C=1 / (0.05 * 60), fit_intercept=False, tol=1e-10, max_iter=10**4)
    exact = theirs.fit(made, labels).coef_[0]
    assert ours.coef_[0] == pytest.approx(exact[:-1] / scale, rel=1e-3, abs=1e-4)
    assert ours.intercept_[0] == pytest.approx(exact[-1], rel=1e-3)
    again = WalkClassifier(nodes=60, alpha=0.05, warm_start=True, random_state=0)
    again.coef_, again.intercept_, again.classes_ = ours.coef_, ours.intercept_, ours.classes_
    start = again.set_params(steps=1).fit(rows, labels).trace_.loss[0, 0]
    assert start == pytest.approx(ours.trace_.loss[0, -1])


@pytest.mark.more
@pytest.mark.parametrize("kind", [WalkClassifier, WalkRegressor])
def test_wide_sparse_features_take_the_memory_of_their_entries(kind: type) -> None:
    rows = sparse_rows(1000, 60_000, 0.0005)
    y = np.asarray(rows[:, :30_000].sum(axis=1)) - np.asarray(rows[:, 30_000:].sum(axis=1)) > 0
    before = rows.data.copy()
    tracemalloc.start()
    try:
        model = kind(steps=200, minibatch=1, random_state=0, alpha=0.1).fit(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.coef_.size == 60_000
    assert peak < 8 * 1000 * 60_000 / 4  # a dense matrix has 480 MB
    assert np.array_equal(rows.data, before)


@pytest.mark.more
def test_a_sparse_matrix_of_the_caller_is_left_alone() -> None:
    """Columns in another order, and entries given twice, are put in order in a copy."""
    columns, values = np.array([2, 0, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    rows = sparse.csr_matrix((values, columns, [0, 3, 4, 5]), shape=(3, 3))
    clean = rows.toarray()
    given = {"standardise": False, "steps": 50, "random_state": 0}
    thin = WalkRegressor(**given).fit(rows, [1.0, 2.0, 4.0])
    assert columns.tolist() == [2, 0, 0, 1, 1]
    assert values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert thin.coef_ == pytest.approx(WalkRegressor(**given).fit(clean, [1.0, 2.0, 4.0]).coef_)


@pytest.mark.more
def test_digits_by_label_are_as_accurate_as_a_central_fit() -> None:
    rows, codes = load_digits(return_X_y=True)
    train, test, given, wanted = train_test_split(rows, codes, random_state=0)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(train, given)
    for more in ({}, {"network": "ring:64", "partition": "label"}):
        ours = WalkClassifier(random_state=0, **more).fit(train, given)
        assert ours.score(test, wanted) > theirs.score(test, wanted) - 0.02


def test_importing_levywalk_loads_no_scikit_learn() -> None:
    code = (
        "import levywalk, sys; levywalk.run; levywalk.metrics; sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
