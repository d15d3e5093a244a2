"""Every way to the stationary law, against hand, dense linear algebra and an independent
library.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import levywalk as lw
from levywalk.theory import stationary as solve
from levywalk.theory import stationary_report
from tests.limits import mostly_more

MODULE = import_module(
    "levywalk.theory.chain.stationary"
)  # the package's attribute of that name is the function


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness, dtype=float) / 2.0)[:, None], np.zeros(len(smoothness))
    )


def residual(P, law):
    return np.abs(P.T @ law - law).sum()


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.3), (1e-12, 0.5), (1.0, 1.0)])
def test_two_states_by_hand(a, b):
    np.testing.assert_allclose(
        lw.stationary([[1 - a, a], [b, 1 - b]]), np.array([b, a]) / (a + b), rtol=1e-4
    )


def test_elimination_keeps_every_digit_of_a_rare_state():
    """A ladder with up 1e-3 and down 0.5: masses fall by 500 per rung, and each is exact."""
    n, up, down = 8, 1e-3, 0.5
    P = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    P += np.diag(1.0 - P.sum(axis=1))
    expected = (up / down) ** np.arange(n)
    np.testing.assert_allclose(lw.stationary(P), expected / expected.sum(), rtol=1e-12)


def test_five_ring_of_the_paper_by_hand():
    P = lw.transition(lw.ring(5), problem_with([100, 1, 1, 1, 1]), lw.weight_rw())
    np.testing.assert_allclose(lw.stationary(P), np.array([100, 1, 1, 1, 1]) / 104, rtol=1e-13)


def test_star_and_complete_graph_by_hand():
    star = lw.transition(lw.star(6), lw.homogeneous(6), lw.simple_rw())
    np.testing.assert_allclose(lw.stationary(star), [0.5, 0.1, 0.1, 0.1, 0.1, 0.1], rtol=1e-13)
    complete = lw.transition(lw.complete(6), lw.homogeneous(6), lw.mhlj(p_jump=1.0))
    np.testing.assert_allclose(lw.stationary(complete), 1 / 6, rtol=1e-13)


@pytest.mark.parametrize(
    "design",
    [lw.weight_rw(), lw.mhlj(), lw.mhlj(p_jump=0.7, max_hops=5)],
    ids=lambda value: value.name,
)
@pytest.mark.parametrize(
    "network",
    mostly_more(
        [lw.ring(600), lw.watts_strogatz(600, 4, 0.1), lw.grid(20, 30)],
        lambda network: network.name == "ring(600)",
    ),
    ids=lambda value: value.name,
)
def test_every_method_agrees_with_elimination(network, design, monkeypatch):
    P = lw.transition(network, lw.heterogeneous(600, important=3), design)
    monkeypatch.setattr(MODULE, "_GTH_LIMIT", 10_000)
    exact = stationary_report(P)
    assert exact.method == "gth"
    monkeypatch.setattr(MODULE, "_GTH_LIMIT", 10)
    methods = {stationary_report(P).method: stationary_report(P).law}
    monkeypatch.setattr(MODULE, "balanced_law", lambda P: None)
    methods[stationary_report(P).method] = lw.stationary(P)
    monkeypatch.setattr(MODULE, "thin_order", lambda P, widest: None)
    monkeypatch.setattr(MODULE, "low_fill", lambda P: False)
    methods[stationary_report(P).method] = lw.stationary(P)
    monkeypatch.setattr(MODULE, "thin_order", lambda P, widest: None)
    monkeypatch.setattr(MODULE, "low_fill", lambda P: True)
    methods[stationary_report(P).method] = lw.stationary(P)
    assert set(methods) - {"gth"} == ({"balance"} if design.jump is None else set()) | {
        "lu",
        "krylov",
    }
    for method, law in methods.items():
        np.testing.assert_allclose(law, exact.law, rtol=1e-6 if method == "krylov" else 1e-10)


@pytest.mark.more
@pytest.mark.parametrize("design", [lw.weight_rw(), lw.mhlj()], ids=lambda value: value.name)
def test_law_equals_quantecon(design):
    from quantecon.markov import MarkovChain  # importing it takes a second

    P = lw.transition(lw.watts_strogatz(60, 4, 0.2), lw.heterogeneous(60, important=2), design)
    (expected,) = MarkovChain(P.toarray()).stationary_distributions
    np.testing.assert_allclose(lw.stationary(P), expected, rtol=1e-12)


def test_law_is_the_left_eigenvector_of_dense_algebra():
    P = lw.transition(lw.watts_strogatz(300, 4, 0.2), lw.heterogeneous(300, important=2), lw.mhlj())
    values, vectors = np.linalg.eig(P.toarray().T)
    perron = vectors[:, np.argmax(values.real)].real
    np.testing.assert_allclose(lw.stationary(P), perron / perron.sum(), rtol=1e-9)


def test_operators_have_the_law_of_their_matrix():
    n = 3_000
    network, problem = lw.watts_strogatz(n, 4, 0.1), lw.heterogeneous(n, important=5)
    for design, method in (
        (lw.weight_rw(), "balance"),
        (lw.mhlj(), "krylov"),
        (lw.iid_weighted(), "known"),
    ):
        report = stationary_report(lw.transition(network, problem, design, form="operator"))
        assert report.method == method
        if design.moves != "iid":
            P = lw.transition(network, problem, design)
            assert lw.total_variation(report.law, lw.stationary(P)) < 1e-9
    foreign = aslinearoperator(lw.transition(network, problem, lw.mhlj()))
    assert lw.total_variation(lw.stationary(foreign), report_law(network, problem)) < 1e-9


def report_law(network, problem):
    return lw.stationary(lw.transition(network, problem, lw.mhlj()))


def test_landscape_that_jumps_make_of_a_path_keeps_its_digits():
    """Jumps drift along a path of uneven nodes: masses span many orders, and factors by subtraction
    lose them.
    """
    n = 3_000
    P = lw.transition(lw.path(n), lw.heterogeneous(n, dim=1, important=5), lw.mhlj())
    report = stationary_report(P)
    assert report.method == "gth"
    assert report.law.max() / report.law.min() > 1e6
    np.testing.assert_allclose(
        P.T @ report.law, report.law, rtol=1e-10
    )  # each entry, not only their sum


def test_reversible_chain_of_many_nodes_is_solved_exactly():
    n = 200_000
    smoothness = np.random.default_rng(0).pareto(1.0, n) + 1e-3
    report = stationary_report(lw.transition(lw.ring(n), problem_with(smoothness), lw.weight_rw()))
    assert report.method == "balance"
    np.testing.assert_allclose(report.law, smoothness / smoothness.sum(), rtol=1e-10)


def test_jumps_take_mass_from_the_important_node():
    """Ruling 14: on Ring(1000) the jump is no small perturbation."""
    network, problem = lw.ring(1000), lw.heterogeneous(1000, important=1, seed=3)
    top = int(np.argmax(problem.smoothness))
    without = lw.stationary(lw.transition(network, problem, lw.weight_rw()))[top]
    assert lw.stationary(lw.transition(network, problem, lw.mhlj()))[top] < 0.25 * without


def test_law_that_cannot_be_had_is_an_error_and_no_number(monkeypatch):
    monkeypatch.setattr(MODULE, "_MOST_ITERATIONS", 1)
    n = 3_000
    operator = lw.transition(
        lw.ring(n), lw.heterogeneous(n, important=3), lw.mhlj(), form="operator"
    )
    with pytest.raises(lw.InvalidParameter, match="could not be found"):
        lw.stationary(operator)


def test_periodic_chain_has_its_law_too():
    P = lw.transition(lw.ring(600), lw.homogeneous(600), lw.unif_rw())
    np.testing.assert_allclose(lw.stationary(P), 1 / 600, rtol=1e-12)


def test_report_reads_as_a_sentence():
    text = str(stationary_report([[0.5, 0.5], [0.5, 0.5]]))
    assert "2 states" in text
    assert "elimination" in text


@pytest.mark.parametrize(
    ("P", "word"),
    [
        (np.eye(3), "3 classes"),
        ([[1.0]], "at least 2 states"),
        ([[0.5, 0.6], [0.5, 0.5]], "sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "probabilities"),
        ([[np.nan, 1.0], [0.5, 0.5]], "probabilities"),
        (np.ones((2, 3)) / 3, "square"),
        ([0.5, 0.5], "square"),
        ("P", "square matrix of numbers"),
        (sparse.csr_array(np.eye(4)), "4 classes"),
        (aslinearoperator(np.eye(3)), "3 classes"),
        (LinearOperator((3000, 3000), matvec=lambda x: 2 * x, rmatvec=lambda x: 2 * x), "sum to 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_bad_chains_are_refused(P, word):
    for function in (solve, lw.spectral_gap, lw.mixing_time, lw.kemeny_constant):
        with pytest.raises(lw.InvalidParameter, match=word):
            function(P)


def test_even_jumps_alone_are_refused_on_a_bipartite_network():
    design = lw.Design(jump=lw.JumpLaw(1.0, lw.FixedDistance(2)))
    with pytest.raises(lw.InvalidParameter, match="even distance"):
        lw.stationary(lw.transition(lw.ring(6), lw.homogeneous(6), design))
