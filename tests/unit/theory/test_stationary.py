"""The stationary law: by hand, by two methods, against a dense eigenvector."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy import sparse

import levywalk as lw

METHODS = import_module(
    "levywalk.theory.chain.stationary"
)  # the package's name for it is the function
PROBLEM = lw.heterogeneous(60, dim=2, important=2)
NETWORKS = [lw.ring(60), lw.star(60), lw.barabasi_albert(60, 2), lw.ring(60, self_loops="counted")]


def eigenvector(P):
    values, vectors = np.linalg.eig(P.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    return law / law.sum()


def test_two_states_by_hand():
    assert lw.stationary(np.array([[0.9, 0.1], [0.3, 0.7]])) == pytest.approx(
        [0.75, 0.25], abs=1e-15
    )
    assert lw.stationary(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist() == [0.5, 0.5]  # period 2


def test_the_five_node_ring_visits_its_important_node_as_aimed():
    problem = lw.LeastSquares(np.sqrt([[50.0], [0.5], [0.5], [0.5], [0.5]]), np.zeros(5))
    P = lw.transition(lw.ring(5), problem, lw.weight_rw())
    assert lw.stationary(P) == pytest.approx(np.array([100, 1, 1, 1, 1]) / 104, rel=1e-13)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: repr(network.name))
@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.weight_rw(), lw.simple_rw(), lw.mixed_rw(0.2)], ids=lambda d: d.name
)
def test_without_jumps_the_target_is_stationary(network, design):
    P = lw.transition(network, PROBLEM, design)
    assert lw.stationary(P) == pytest.approx(design.bind(network, PROBLEM).law, rel=1e-10)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: repr(network.name))
def test_elimination_factorisation_and_eigenvector_agree_on_a_chain_with_jumps(network):
    P = lw.transition(network, PROBLEM, lw.mhlj(0.3))
    eliminated, solved, dense = (
        METHODS._gth(P.toarray()),
        METHODS._direct(P),
        eigenvector(P.toarray()),
    )
    assert eliminated == pytest.approx(dense, rel=1e-8)
    assert solved == pytest.approx(eliminated, rel=1e-10)
    assert np.abs(eliminated @ P.toarray() - eliminated).sum() < 1e-13
    target = lw.mhlj().bind(network, PROBLEM).law
    assert (
        np.abs(eliminated - target).sum() > 0.01
    )  # jumps move the law: the start "stationary" is not "target"


def test_elimination_keeps_tiny_probabilities():
    # 1e-200 apart: subtraction would lose it
    P = np.array([[1.0, 1e-200, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    law = lw.stationary(P)
    assert law[1] == pytest.approx(2e-200, rel=1e-12)
    assert law[2] == pytest.approx(1e-200, rel=1e-12)


@pytest.mark.parametrize(
    ("P", "match"),
    [
        (np.array([[0.5, 0.4], [0.5, 0.5]]), "sum to 1"),
        (np.array([[1.5, -0.5], [0.5, 0.5]]), "probabilities"),
        (np.array([[np.nan, 1.0], [0.5, 0.5]]), "P must"),
        (np.ones((2, 3)) / 3, "square"),
        (np.array([1.0]), "square"),
        ("P", "matrix of numbers"),
        (np.eye(3), "irreducible.*3 classes"),
        (np.array([[0.5, 0.5], [0.0, 1.0]]), "irreducible"),
        (
            sparse.csr_array((np.array([1.0, 0.0, 1.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2)),
            "irreducible",
        ),
    ],
)
def test_what_has_no_unique_stationary_law_is_refused(P, match):
    with pytest.raises(lw.InvalidParameter, match=match):
        lw.stationary(P)
