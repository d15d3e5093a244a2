"""Methods for networks without small separators, against exact linear algebra on small networks.

Every error estimate must cover the exact answer in at least 95 % of the cases.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import levywalk as lw
from levywalk.experiments.inspect import inspect
from levywalk.theory.chain import absorption, poisson, sparse_factors, spectrum, symmetrised
from levywalk.theory.chain.absorption import absorption_times
from levywalk.theory.chain.answer import answer_text
from levywalk.theory.chain.blas_threads import _controller, one_blas_thread
from levywalk.theory.chain.poisson import solve_poisson
from levywalk.theory.chain.transition import affordable_chain, predicted_entries
from levywalk.theory.judge.entrapment import entrapment_of_chain
from tests.limits import mostly_more

STATIONARY = import_module("levywalk.theory.chain.stationary")
TRANSITION = import_module("levywalk.theory.chain.transition")
PREDICT = import_module("levywalk.theory.judge.predict")
COVERED = 0.95
Cases = list[tuple[lw.Network, Any, lw.Design]]


def networks() -> list[lw.Network]:
    found = []
    for seed in range(4):
        found += [
            lw.watts_strogatz(70, 4, 0.2, seed=seed),
            lw.barabasi_albert(80, 2, seed=seed),
            lw.barabasi_albert(60, 5, seed=seed),
            lw.erdos_renyi(90, 0.08, seed=seed).largest_component(),
        ]
    return found


def designs() -> list[lw.Design]:
    return [lw.unif_rw(), lw.weight_rw(), lw.mhlj(), lw.mhlj(p_jump=0.7, p_distance=0.3)]


@pytest.fixture(params=mostly_more([32, 64], lambda count: count == 32))
def cases(request: pytest.FixtureRequest) -> Cases:
    """Small networks with problems and designs; half of the chains are not reversible."""
    found = [
        (network, lw.heterogeneous(network.n, dim=2, important=2, seed=i), design)
        for i, network in enumerate(networks())
        for design in designs()
    ]
    return found[: request.param]


def exact_law(P: Any) -> Any:
    """Solve πP = π with Σπ = 1 by dense least squares."""
    n = P.shape[0]
    system = np.vstack([np.eye(n) - P.toarray().T, np.ones(n)])
    return np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0]


@pytest.mark.parametrize("form", ["matrix", "operator"])
def test_bound_of_the_steps_to_leave_a_set_covers_the_exact_steps(
    cases: Cases, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absorption, "quick_fill", lambda block: False)
    monkeypatch.setattr(absorption, "possible_fill", lambda block: False)
    covered = []
    for i, (network, problem, design) in enumerate(cases):
        matrix = lw.transition(network, problem, design)
        P = matrix if form == "matrix" else lw.transition(network, problem, design, form)
        law = exact_law(matrix)
        outside = np.random.default_rng(i).choice(network.n, 3, replace=False)
        inside = np.setdiff1d(np.arange(network.n), outside)
        found = absorption_times(P, inside, law, symmetric=design.jump is None)
        block = matrix.toarray()[np.ix_(inside, inside)]
        exact = np.linalg.solve(np.eye(len(inside)) - block, np.ones(len(inside)))
        assert found.method == "iterative"
        assert found.error < 1e-9
        covered.append((np.abs(found.times - exact) <= found.error * exact).all())
    assert np.mean(covered) >= COVERED


def test_bound_of_unfinished_iterations_covers_the_exact_steps(
    cases: Cases,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bound holds for any vector, also far from the solution."""
    monkeypatch.setattr(absorption, "quick_fill", lambda block: False)
    monkeypatch.setattr(absorption, "possible_fill", lambda block: False)
    iterations = import_module("levywalk.theory.chain.iterations")
    monkeypatch.setattr(iterations, "_MOST_ITERATIONS", 8)
    monkeypatch.setattr(iterations, "_ROUNDS", 2)
    rough = 0
    for network, problem, design in cases:
        P = lw.transition(network, problem, design)
        inside = np.arange(network.n - 5)
        found = absorption_times(P, inside, exact_law(P), symmetric=design.jump is None)
        block = P.toarray()[np.ix_(inside, inside)]
        exact = np.linalg.solve(np.eye(len(inside)) - block, np.ones(len(inside)))
        rough += found.error > 1e-6
        assert (np.abs(found.times - exact) <= (found.error + 1e-9) * exact).all()
    assert rough > 10


def test_sparse_factors_answer_where_iterations_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absorption, "quick_fill", lambda block: False)
    iterations = import_module("levywalk.theory.chain.iterations")
    monkeypatch.setattr(iterations, "_MOST_ITERATIONS", 2)
    monkeypatch.setattr(iterations, "_GMRES_CYCLES", 1)
    network = lw.ring(400)
    P = lw.transition(network, lw.homogeneous(400), lw.simple_rw())
    found = absorption_times(P, np.arange(1, 400), np.full(400, 1 / 400), symmetric=True)
    assert (found.method, found.error) == ("exact", 0.0)
    place = np.arange(1, 400)
    np.testing.assert_allclose(found.times, place * (400 - place), rtol=1e-9)
    monkeypatch.setattr(poisson, "_FACTORED", 10)
    monkeypatch.setattr(poisson, "low_fill", lambda P: False)
    values = np.cos(np.arange(400))[:, None]
    values -= values.mean()
    assert solve_poisson(P, np.full(400, 1 / 400), values).method == "exact"
    monkeypatch.setattr(poisson, "possible_fill", lambda P: False)
    with pytest.raises(lw.InvalidParameter, match="do not converge"):
        solve_poisson(P, np.full(400, 1 / 400), values)


@pytest.mark.parametrize("form", ["matrix", "operator"])
def test_error_of_an_iterated_law_covers_the_exact_law(
    cases: Cases, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STATIONARY, "_GTH_LIMIT", 2_000)
    covered = []
    for network, problem, design in cases:
        matrix = lw.transition(network, problem, design)
        P = matrix if form == "matrix" else lw.transition(network, problem, design, form)
        exact = lw.stationary_report(matrix)
        assert exact.method == "gth"
        found = STATIONARY._iterated(P)
        assert found.error < 1e-9
        covered.append(np.abs(found.law - exact.law).sum() <= found.error)
    assert np.mean(covered) >= COVERED


def exact_covariance(P: Any, law: Any, values: Any) -> Any:
    """Σ over all lags from the dense fundamental matrix."""
    centred = values - law @ values
    fundamental = np.linalg.inv(np.eye(len(law)) - P.toarray() + law)
    cross = (law[:, None] * centred).T @ fundamental @ centred
    return cross + cross.T - (law[:, None] * centred).T @ centred


@pytest.mark.parametrize("form", ["matrix", "operator"])
def test_poisson_equals_dense_algebra(
    cases: Cases, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poisson, "_FACTORED", 10)
    monkeypatch.setattr(poisson, "low_fill", lambda P: False)
    for network, problem, design in [*cases[::3], (lw.ring(31), lw.homogeneous(31), lw.mhlj())]:
        matrix = lw.transition(network, problem, design)
        P = matrix if form == "matrix" else lw.transition(network, problem, design, form)
        law = exact_law(matrix)
        values = problem.local_gradients(problem.optimum)
        exact = exact_covariance(matrix, law, values)
        np.testing.assert_allclose(
            PREDICT.asymptotic_covariance(P, law, values),
            exact,
            rtol=1e-5,
            atol=1e-6 * np.abs(exact).max(),
        )


@pytest.mark.more
def test_error_of_the_predicted_steps_covers_the_exact_prediction(
    cases: Cases,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PREDICT, "_UNKNOWNS", 0)  # the limit of small steps answers
    exact = [lw.predict(*case, accuracy=0.05) for case in cases]
    assert {found.method for found in exact} == {"exact"}
    monkeypatch.setattr(poisson, "_FACTORED", 10)
    monkeypatch.setattr(poisson, "low_fill", lambda P: False)
    covered = []
    for case, truth in zip(cases, exact, strict=True):
        found = lw.predict(*case, accuracy=0.05)
        assert found.method == "iterative"
        assert found.error < 1e-3
        assert "iterative, relative error below" in found.answer
        covered.append(
            found.steps == truth.steps
            or abs(found.steps - truth.steps) <= found.error * truth.steps
        )
    assert np.mean(covered) >= COVERED


def test_error_of_the_noise_covers_rough_solutions(
    cases: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a large residual the estimate is not hidden by rounding."""
    monkeypatch.setattr(poisson, "_FACTORED", 10)
    monkeypatch.setattr(poisson, "low_fill", lambda P: False)
    monkeypatch.setattr(poisson, "_AIM", 1e-2)
    monkeypatch.setattr(poisson, "_FINE_AIM", 1e-2)
    monkeypatch.setattr(poisson, "_RESIDUAL", 1.0)
    covered, large = [], 0
    for network, problem, design in cases:
        P = lw.transition(network, problem, design)
        law = exact_law(P)
        values = problem.local_gradients(problem.optimum)
        centred = values - law @ values
        found = solve_poisson(P, law, centred)
        noise = np.trace(PREDICT._covariance(law, centred, found.values)) / 2.0
        truth = np.trace(exact_covariance(P, law, values)) / 2.0
        error = PREDICT._noise_error(law, np.eye(2), found)
        large += error > 1e-6 * truth
        covered.append(abs(noise - truth) <= error)
    assert large > 0.6 * len(cases)
    assert np.mean(covered) >= COVERED


def test_error_of_an_iterated_gap_covers_the_exact_gap(
    cases: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = [lw.spectral_gap(lw.transition(*case)) for case in cases]
    assert {gap.answer for gap in exact} == {"exact"}
    monkeypatch.setattr(spectrum, "SMALL", 10)
    monkeypatch.setattr(spectrum, "_SMALL_EIG", 10)
    monkeypatch.setattr(symmetrised, "low_fill", lambda P: False)
    covered = []
    for case, truth in zip(cases, exact, strict=True):
        gap = lw.spectral_gap(lw.transition(*case))
        assert gap.method == "davidson"
        assert gap.trusted
        assert "iterative, relative error below" in gap.answer
        slack = 1e-12  # rounding of the dense answer
        covered.append(abs(gap.value - truth.value) <= (gap.relative_error + slack) * truth.value)
    assert np.mean(covered) >= COVERED


# ---- which form and which method ----------------------------------------------


def test_form_of_the_chain_follows_the_predicted_entries() -> None:
    problem = lw.homogeneous(3000, dim=1)
    for network, design, expected in (
        (lw.ring(3000), lw.mhlj(), True),
        (lw.grid(50, 60), lw.mhlj(), True),
        (lw.barabasi_albert(3000, 5), lw.weight_rw(), True),
        (lw.barabasi_albert(3000, 5), lw.mhlj(), False),
        (lw.ring(3000), lw.iid_uniform(), False),
    ):
        assert sparse.issparse(affordable_chain(network, problem, design)) is expected
    assert predicted_entries(lw.ring(3000), 3, 1e6) == 7 * 3000
    assert predicted_entries(lw.ring(300), 3, 1e6) == 300 * 300


@pytest.mark.parametrize(
    ("network", "distances"),
    [(lw.ring(8), (1, 2, 3)), (lw.ring(9), (1, 2, 3)), (lw.grid(3, 4), (1, 2, 3))],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("p_jump", [0.5, 1.0])
def test_classes_and_period_of_an_operator_equal_those_of_its_matrix(
    network: lw.Network, distances: tuple[int, ...], p_jump: float
) -> None:
    problem = lw.homogeneous(network.n, dim=1)
    for self_loops in ("none", "counted"):
        graph = network.with_self_loops(self_loops)
        for distance in distances:
            jump = lw.JumpLaw(p_jump, lw.FixedDistance(distance))
            design = lw.Design(target="uniform", jump=jump)
            operator = lw.transition(graph, problem, design, form="operator")
            matrix = lw.transition(graph, problem, design)
            pattern = sparse.csr_array(matrix)
            pattern.eliminate_zeros()
            classes, _ = sparse.csgraph.connected_components(pattern, connection="strong")
            assert operator.classes == classes
            assert operator.period == (lw.period(matrix) if classes == 1 else 0)


@pytest.mark.more
def test_entrapment_is_the_same_for_matrix_and_operator() -> None:
    network = lw.barabasi_albert(400, 3)
    problem = lw.heterogeneous(400, important=3)
    for design in (lw.mhlj(), lw.iid_weighted()):
        reports = []
        for form in ("matrix", "operator"):
            P = lw.transition(network, problem, design, form=form)
            gap = lw.spectral_gap(lw.transition(network, problem, lw.unif_rw()))
            law = lw.stationary_report(P)
            reports.append(
                entrapment_of_chain(
                    network, problem, design, P, law, uniform_spectral_gap=gap, radius=2
                )
            )
        for a, b in zip(*(report.regions for report in reports), strict=True):
            assert a.nodes == b.nodes
            for name in ("dwell", "escape", "mass", "iid_escape", "conductance"):
                assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9)
        assert reports[0].score == pytest.approx(reports[1].score, rel=1e-9)
        assert reports[1].worst.escape_method == "iterative"
        assert "iterative" in reports[1]._repr_html_()


@pytest.mark.more
def test_inspection_of_an_expander_says_how_and_equals_exact_methods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PREDICT, "_UNKNOWNS", 0)  # the limit of small steps answers
    n = 2_100
    network, problem = lw.barabasi_albert(n, 2, seed=3), lw.heterogeneous(n, dim=3, important=3)
    with monkeypatch.context() as patch:
        patch.setattr(TRANSITION, "_SMALL_ENTRIES", 0)
        patch.setattr(absorption, "quick_fill", lambda block: False)
        patch.setattr(poisson, "low_fill", lambda P: False)
        patch.setattr(symmetrised, "low_fill", lambda P: False)
        found = inspect(network, problem)
    for text in found.methods:
        assert "steps to escape iterative, relative error below" in text
        assert "right spectral gap iterative, relative error below" in text
        assert "predicted steps iterative, relative error below" in text
    assert "stationary law iterative" in found.methods[2]
    for row, design in zip(found.rows(), (lw.unif_rw(), lw.weight_rw(), lw.mhlj()), strict=True):
        P = lw.transition(network, problem, design).toarray()
        law = np.linalg.solve(
            np.vstack([(np.eye(n) - P.T)[:-1], np.ones(n)]), np.r_[np.zeros(n - 1), 1.0]
        )
        found_law = found.judgements[row["design"]].law
        assert np.abs(found_law - law).sum() <= row["stationary_error"] + 1e-12
        nodes, hops = np.asarray(row["nodes"]), TRANSITION.adjacency_matrix(network)
        inside = np.zeros(n, dtype=bool)
        inside[nodes] = True
        for _ in range(3):
            inside |= hops @ inside > 0
        ball = np.flatnonzero(inside)
        times = np.linalg.solve(np.eye(len(ball)) - P[np.ix_(ball, ball)], np.ones(len(ball)))
        exact = law[nodes] @ times[np.searchsorted(ball, nodes)] / law[nodes].sum()
        assert row["escape"] == pytest.approx(exact, rel=row["escape_error"] + 1e-10)
    monkeypatch.setattr(poisson, "_FACTORED", n)
    monkeypatch.setattr(PREDICT, "affordable_chain", lw.transition)
    for row, design in zip(found.rows()[1:], (lw.weight_rw(), lw.mhlj()), strict=True):
        truth = lw.predict(network, problem, design)
        assert truth.method == "exact"
        assert row["steps"] == pytest.approx(truth.steps, rel=row["steps_error"])


def test_dense_factors_of_a_full_matrix_equal_numpy() -> None:
    random = np.random.default_rng(0)
    full = random.random((150, 150)) + 150 * np.eye(150)
    symmetric = (full + full.T) / 2 - 150.5 * np.eye(150)
    right = random.random(150)
    factors = sparse_factors.SparseFactors(sparse.csr_array(full))
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(full, right))
    np.testing.assert_allclose(
        factors.solve(right, transposed=True), np.linalg.solve(full.T, right)
    )
    counted = sparse_factors.SparseFactors(sparse.csr_array(symmetric)).negatives()
    assert counted == (np.linalg.eigvalsh(symmetric) < 0).sum()
    assert sparse_factors.factorise(sparse.csr_array(np.ones((150, 150)))) is None


def test_a_foreign_operator_is_solved_too() -> None:
    P = lw.transition(lw.ring(9), lw.homogeneous(9, dim=1), lw.mhlj())
    times = absorption_times(
        aslinearoperator(P), np.arange(1, 9), np.full(9, 1 / 9), symmetric=False
    )
    np.testing.assert_allclose(times.times, lw.hitting_times(P, 0)[1:], rtol=1e-9)


# ---- words and threads ---------------------------------------------------------


@pytest.mark.parametrize("error", [1e-3, 1.04e-3, 9.6e-12, 0.96, 3.2e-7, 5e-324])
def test_printed_error_is_never_below_the_estimate(error: float) -> None:
    text = answer_text("iterative", error)
    assert float(text.rsplit(" ", 1)[1]) >= error


def test_words_of_an_answer() -> None:
    assert answer_text("exact", 0.0) == "exact"
    assert answer_text("iterative", np.nan) == "iterative, not converged"
    assert answer_text("iterative", 2e-13, "error of the law") == (
        "iterative, error of the law below 2e-13"
    )


def test_one_thread_within_and_the_number_of_before_after() -> None:
    def threads() -> list[int]:
        blas = (item for item in _controller().info() if item["user_api"] == "blas")
        return [item["num_threads"] for item in blas]

    before = threads()
    assert before
    assert set(one_blas_thread(threads)()) == {1}
    assert threads() == before
