"""Sparse features: the same problem as with dense ones, and refusals of matrices that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

import levywalk as lw
from levywalk.experiments.shorthand import problem_settings
from levywalk.experiments.sources import build_problem
from levywalk.problem.sparse_features import clean_sparse

RNG = np.random.default_rng(29)
N, M, DIM = 12, 40, 9
DENSE = np.where(RNG.random((M, DIM)) < 0.4, RNG.normal(size=(M, DIM)), 0.0)
DENSE[:, 0] += 0.5
NODE = np.concatenate([np.arange(N), RNG.integers(0, N, M - N)])
Y = DENSE @ RNG.normal(size=DIM) + 0.3 * RNG.normal(size=M)
CSR = sp.csr_array(DENSE)
MADE: dict[str, Any] = {
    "squares": lambda a, **more: lw.LeastSquares(a, Y, NODE, **more),
    "outputs": lambda a, **more: lw.LeastSquares(a, np.stack([Y, Y**2], axis=1), NODE, **more),
    "logistic": lambda a, **more: lw.Logistic(a, Y > 0, NODE, **more),
    "huber": lambda a, **more: lw.Huber(a, Y, NODE, **more),
    "poisson": lambda a, **more: lw.Poisson(a, np.floor(Y**2), NODE, **more),
    "hinge": lambda a, **more: lw.SquaredHinge(a, Y > 0, NODE, **more),
    "quantile": lambda a, **more: lw.Quantile(a, Y, NODE, width=0.5, **more),
    "softmax": lambda a, **more: lw.Softmax(a, np.digitize(Y, [-0.5, 0.5]), NODE, **more),
    "own": lambda a, **more: lw.GeneralizedLinear(a, Y, lw.losses.huber(0.3), NODE, **more),
}
kinds = pytest.mark.parametrize("kind", MADE)


@kinds
def test_it_is_the_problem_of_the_dense_matrix(kind: str) -> None:
    sparse, dense = MADE[kind](CSR, ridge=0.1), MADE[kind](DENSE, ridge=0.1)
    x = RNG.normal(size=dense.dim)
    for name in ("smoothness", "local_strong_convexity", "strong_convexity"):
        assert getattr(sparse, name) == pytest.approx(getattr(dense, name), rel=1e-12), name
    assert sparse.optimum == pytest.approx(dense.optimum, abs=1e-8)
    assert sparse.loss(x) == pytest.approx(dense.loss(x), rel=1e-13)
    assert sparse.excess_loss(x) == pytest.approx(dense.excess_loss(x), rel=1e-7)
    assert sparse.local_gradients(x) == pytest.approx(dense.local_gradients(x), abs=1e-12)
    assert sparse.sigma_star2 == pytest.approx(dense.sigma_star2, rel=1e-6)
    for v in range(N):
        assert sparse.local_loss(v, x) == pytest.approx(dense.local_loss(v, x), rel=1e-13)
        assert sparse.local_gradient(v, x, [0, 0]) == pytest.approx(
            dense.local_gradient(v, x, [0, 0]), abs=1e-12
        )
        assert (sparse.node_samples(v)[0] == dense.node_samples(v)[0]).all()
    assert sparse.fingerprint() != dense.fingerprint()
    assert sparse.fingerprint() == MADE[kind](sp.coo_matrix(DENSE), ridge=0.1).fingerprint()


@kinds
def test_an_l1_penalty_on_sparse_features(kind: str) -> None:
    sparse, dense = (MADE[kind](a, ridge=0.05, l1=0.1) for a in (CSR, DENSE))
    assert sparse.optimum == pytest.approx(dense.optimum, abs=1e-9)
    assert ((sparse.optimum == 0.0) == (dense.optimum == 0.0)).all()


def test_wide_sparse_optima_are_those_of_scikit_learn() -> None:
    wide = sp.random_array((150, 3000), density=0.01, rng=np.random.default_rng(3), format="csr")
    y = np.asarray(wide.sum(axis=1)).ravel() + RNG.normal(size=150)
    # sklearn: ‖y - Xx‖² + α‖x‖²; here the mean of squares + (ridge/2)‖x‖²: α = m ridge/2.
    ridge = Ridge(alpha=150 * 0.02 / 2, fit_intercept=False, solver="sparse_cg", tol=1e-14)
    oracle = ridge.fit(wide, y).coef_
    assert lw.LeastSquares(wide, y, ridge=0.02).optimum == pytest.approx(oracle, abs=1e-8)
    fitted = LogisticRegression(C=1 / (150 * 0.02), fit_intercept=False, tol=1e-12, max_iter=5000)
    oracle = fitted.fit(wide, y > np.median(y)).coef_[0]
    assert lw.Logistic(wide, y > np.median(y), ridge=0.02).optimum == pytest.approx(
        oracle, abs=1e-6
    )
    with pytest.warns(lw.DataWarning, match="150 samples do not span the 3000 dimensions"):
        least = lw.LeastSquares(wide, y).optimum
    assert least == pytest.approx(np.linalg.lstsq(wide.toarray(), y)[0], abs=1e-8)


@pytest.mark.more
def test_large_nodes_have_the_norm_of_their_samples() -> None:
    tall = sp.random_array((2100, 2050), density=0.002, rng=np.random.default_rng(4), format="csr")
    node = np.append(np.zeros(2099, int), 1)
    problem = lw.LeastSquares(tall, np.ones(2100), node, ridge=0.1)
    largest = np.linalg.norm(tall[:2099].toarray(), 2) ** 2 / 2099
    assert problem.smoothness[0] == pytest.approx(2 * largest + 0.1, rel=1e-10)


def broken(**parts: Any) -> Any:
    made = sp.csr_array(DENSE[:4])
    for name, array in parts.items():
        setattr(made, name, array)
    return made


HOSTILE = {
    "columns out of range": broken(indices=np.full(sp.csr_array(DENSE[:4]).nnz, 99, np.int32)),
    "negative columns": broken(indices=np.full(sp.csr_array(DENSE[:4]).nnz, -1, np.int32)),
    "rows that fall": broken(indptr=np.array([0, 9, 3, 9, sp.csr_array(DENSE[:4]).nnz])),
    "rows beyond the end": broken(indptr=np.array([0, 1, 2, 3, 10**6])),
    "too few rows": broken(indptr=np.array([0, sp.csr_array(DENSE[:4]).nnz])),
    "a first row that is not 0": broken(indptr=np.array([1, 2, 3, 4, 5])),
    "nan": sp.csr_array(np.array([[np.nan, 1.0]])),
    "complex": sp.csr_array(np.array([[1j, 1.0]])),
    "no row": sp.csr_array((0, 3)),
    "one dimension": sp.coo_array(np.ones(3)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_matrix_is_refused(name: str) -> None:
    with pytest.raises(lw.InvalidData, match="features"):
        lw.LeastSquares(HOSTILE[name], np.zeros(4))


def test_what_a_caller_changes_later_changes_nothing() -> None:
    mine = sp.csr_array(DENSE)
    problem = lw.LeastSquares(mine, Y, NODE, ridge=0.1)
    before = problem.smoothness.copy()
    mine.data[:] = 7.0
    assert (problem.features.toarray() == DENSE).all()
    assert (problem.smoothness == before).all()
    with pytest.raises(ValueError, match="read-only"):
        problem.features.data[0] = 1.0
    unsorted = sp.csr_array((np.ones(3), np.array([2, 0, 0]), np.array([0, 3])), shape=(1, 3))
    assert clean_sparse(unsorted).indices.tolist() == [0, 2]
    assert clean_sparse(unsorted).data.tolist() == [2.0, 1.0]


def test_a_node_without_features_is_refused() -> None:
    with pytest.raises(lw.InvalidData, match="node 1 has only zero features"):
        lw.LeastSquares(sp.csr_array(np.array([[1.0], [0.0]])), [1.0, 2.0])


def test_dense_operations_ask_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = sp.random_array((50, 60_000), density=0.001, rng=np.random.default_rng(5), format="csr")
    problem = lw.LeastSquares(wide, np.ones(50), ridge=0.1)
    with pytest.raises(lw.TooLarge, match="the Hessian of shape 60000 x 60000 would take"):
        _ = problem.hessian
    assert problem.strong_convexity == 0.1
    network = lw.ring(50)
    assert lw.entrapment(network, problem, lw.mhlj()) is not None
    with pytest.raises(lw.TooLarge):
        lw.predict(network, problem, lw.mhlj())


def libsvm(path: Any, features: int, entries: int) -> Any:
    """Write 20 samples with so many entries each, of so many features."""
    rng = np.random.default_rng(features)
    lines = []
    for i in range(20):
        columns = np.sort(rng.choice(features, entries, replace=False))
        columns[-1] = features - 1
        pairs = " ".join(f"{j + 1}:{rng.integers(1, 9)}" for j in np.unique(columns))
        lines.append(f"{'+-'[i % 2]}1 {pairs}\n")
    path.write_text("".join(lines))
    return path


def test_libsvm_files_stay_sparse_where_that_pays(tmp_path: Any) -> None:
    few = libsvm(tmp_path / "few.svm", 1000, 40)
    data = lw.read_data(few)
    assert sp.issparse(data.features)
    assert data.features.shape == (20, 1000)
    assert "kept sparse, with 4.00% of all entries (a dense matrix: dense=True)" in data.description
    dense = lw.read_data(few, dense=True)
    assert isinstance(dense.features, np.ndarray)
    assert (data.features.toarray() == dense.features).all()
    assert sp.issparse(lw.load_dataset(few)[0])
    ones = lw.read_data(few, intercept=True)
    assert (ones.features.toarray() == lw.read_data(few, intercept=True, dense=True).features).all()
    some = lw.read_data(few, features="7,3-5,900", dense=False).features.toarray()
    assert (some == dense.features[:, [6, 2, 3, 4, 899]]).all()
    for name, features, entries in (("many", 1000, 60), ("narrow", 999, 5)):
        file = libsvm(tmp_path / f"{name}.svm", features, entries)
        assert isinstance(lw.read_data(file).features, np.ndarray)
        assert sp.issparse(lw.read_data(file, dense=False).features)
    with pytest.raises(lw.InvalidParameter, match="dense=True or leave standardise out"):
        lw.read_data(few, standardise=True)
    with pytest.raises(lw.InvalidParameter, match="dense must be True, False or None, got 'no'"):
        lw.read_data(few, dense="no")  # type: ignore[arg-type]
    table = tmp_path / "a.csv"
    table.write_text("1,2\n3,4\n")
    with pytest.raises(lw.InvalidParameter, match="only LIBSVM files are read as sparse"):
        lw.read_data(table, dense=False)


def test_options_and_partitions_of_sparse_files(tmp_path: Any) -> None:
    file = libsvm(tmp_path / "few.svm", 1000, 40)
    given = {"loss": "logistic", "ridge": 0.1, "partition": "label"}
    sparse: Any = build_problem(problem_settings(str(file), options=given), lw.ring(5))
    dense: Any = build_problem(
        problem_settings(str(file), options=given | {"dense": True}), lw.ring(5)
    )
    assert sp.issparse(sparse.features)
    assert isinstance(dense.features, np.ndarray)
    assert sparse.smoothness == pytest.approx(dense.smoothness)


@pytest.mark.more
def test_theory_of_sparse_problems_is_that_of_dense_ones() -> None:
    network = lw.ring(N)
    for kind in ("squares", "logistic", "huber"):
        sparse, dense = (MADE[kind](a, ridge=0.1) for a in (CSR, DENSE))
        one, other = (lw.predict(network, problem, lw.mhlj()) for problem in (sparse, dense))
        assert one.steps == pytest.approx(other.steps, rel=1e-4)
        one, other = (lw.error_floor(network, problem, lw.mhlj()) for problem in (sparse, dense))
        assert one.bias2 == pytest.approx(other.bias2, rel=1e-5)
