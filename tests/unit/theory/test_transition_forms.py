"""P as a matrix and as an operator, by the algorithm and as printed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import levywalk as lw
from levywalk.theory import levy_matrix
from levywalk.theory import (
    transition as transition_function,  # the function, not the module of the same name
)

DESIGNS = {
    "simple": lw.simple_rw(),
    "uniform": lw.unif_rw(),
    "weighted": lw.weight_rw(),
    "mixed": lw.mixed_rw(0.3),
    "mhlj": lw.mhlj(),
    "far": lw.Design(target="importance", jump=lw.JumpLaw(0.3, lw.PowerLaw(1.5, max_hops=7))),
    "always": lw.Design(target="uniform", jump=lw.JumpLaw(1.0, lw.FixedDistance(2))),
    "iid": lw.iid_uniform(),
    "iid weighted": lw.iid_weighted(),
}


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness, dtype=float) / 2.0)[:, None], np.zeros(len(smoothness))
    )


FIVE = lw.ring(5), problem_with([100, 1, 1, 1, 1])


@pytest.mark.parametrize("loops", ["none", "counted"])
@pytest.mark.parametrize("levy", ["algorithm", "printed"])
@pytest.mark.parametrize("name", DESIGNS)
def test_operator_applies_the_matrix(name, levy, loops):
    network = lw.barabasi_albert(40, 2, self_loops=loops)
    problem = lw.heterogeneous(40, important=2)
    P = lw.transition(network, problem, DESIGNS[name], levy=levy)
    operator = lw.transition(network, problem, DESIGNS[name], form="operator", levy=levy)
    assert isinstance(P, sparse.csr_array)
    assert isinstance(operator, LinearOperator)
    X = np.random.default_rng(0).standard_normal((40, 3))
    for apply, matrix in ((operator, P), (operator.H, P.T)):
        np.testing.assert_allclose(apply @ X, matrix @ X, atol=1e-14)
        np.testing.assert_allclose(apply @ X[:, 0], matrix @ X[:, 0], atol=1e-14)
        np.testing.assert_allclose(apply @ X[:, :1], matrix @ X[:, :1], atol=1e-14)
    np.testing.assert_allclose(operator.rmatvec(X[:, 0]), P.T @ X[:, 0], atol=1e-14)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-14)


def test_five_ring_of_the_paper_by_hand():
    """[fivring] with [impmh]: 1/200 to leave the important node and no loop far from it
    (ruling 3).
    """
    P = lw.transition(*FIVE, lw.weight_rw()).toarray()
    assert P[0].tolist() == pytest.approx([0.99, 0.005, 0, 0, 0.005])
    assert P[1].tolist() == pytest.approx([0.5, 0, 0.5, 0, 0])
    counted = lw.transition(lw.ring(5, self_loops="counted"), FIVE[1], lw.weight_rw()).toarray()
    assert counted[0, 1] == pytest.approx(1 / 300)
    assert counted[2, 2] == pytest.approx(1 / 3)


def test_five_ring_with_jumps_by_hand():
    design = lw.Design(target="importance", jump=lw.JumpLaw(0.5, lw.FixedDistance(2)))
    P = lw.transition(*FIVE, design).toarray()
    assert P[0].tolist() == pytest.approx([0.5 * 0.99 + 0.25, 0.0025, 0.125, 0.125, 0.0025])


@pytest.mark.parametrize(
    "network",
    [lw.ring(12), lw.torus(4, 5), lw.complete(6), lw.random_regular(30, 4)],
    ids=lambda value: value.name,
)
@pytest.mark.parametrize("loops", ["none", "counted"])
def test_printed_formula_is_the_algorithm_on_regular_networks(network, loops):
    network = network.with_self_loops(loops)
    problem = lw.heterogeneous(network.n, important=1)
    algorithm = lw.transition(network, problem, lw.mhlj())
    printed = lw.transition(network, problem, lw.mhlj(), levy="printed")
    assert abs(algorithm - printed).max() < 1e-15


def test_printed_formula_parts_from_the_algorithm_on_small_worlds():
    """Ruling 1: entries of P_Lévy differ by about 0.02 on WS(1000, 4, 0.1)."""
    network = lw.watts_strogatz(1000, 4, 0.1)
    jump = lw.JumpLaw(0.1, lw.TruncatedGeometric(0.5, 3))
    difference = abs(levy_matrix(network, jump) - levy_matrix(network, jump, "printed")).max()
    assert 0.01 < difference < 0.04


def test_printed_formula_by_dense_powers():
    network = lw.barabasi_albert(30, 2)
    A = sparse.csr_array(
        (np.ones(network.indices.size), network.indices, network.indptr), shape=(30, 30)
    ).toarray()
    law = lw.PowerLaw(1.0, 4)
    powers = [np.linalg.matrix_power(A, i) for i in range(1, 5)]
    expected = sum(
        q * power / power.sum(axis=1, keepdims=True)
        for q, power in zip(law.probabilities(), powers, strict=True)
    )
    np.testing.assert_allclose(
        levy_matrix(network, lw.JumpLaw(0.1, law), "printed").toarray(), expected, atol=1e-14
    )


def test_schedule_gives_one_matrix_per_step():
    design = lw.mhlj(schedule=lw.Decaying(0.4, timescale=10))
    for form in ("matrix", "operator"):
        early = lw.transition(*FIVE, design, form=form) @ np.eye(5)
        late = lw.transition(*FIVE, design, form=form, step=10**9) @ np.eye(5)
        np.testing.assert_allclose(late, lw.transition(*FIVE, lw.weight_rw()).toarray(), atol=1e-6)
        np.testing.assert_allclose(
            early, lw.transition(*FIVE, lw.mhlj(p_jump=0.4)).toarray(), atol=1e-14
        )


@pytest.mark.more
def test_filling_powers_are_refused_before_anything_is_allocated():
    n = 20_000
    network, problem = lw.barabasi_albert(n, 3), lw.homogeneous(n, dim=1)
    design = lw.Design(target="importance", jump=lw.JumpLaw(0.1, lw.FixedDistance(6)))
    with pytest.raises(lw.TooLarge, match="form='operator'"):
        lw.transition(network, problem, design)
    with pytest.raises(lw.TooLarge, match="form='operator'"):
        lw.transition(network, problem, lw.iid_uniform())
    for each in (design, lw.iid_uniform()):
        operator = lw.transition(network, problem, each, form="operator")
        np.testing.assert_allclose(operator @ np.ones(n), 1.0, atol=1e-12)


def test_long_jumps_on_a_ring_do_not_fill_in():
    n = 20_000
    design = lw.Design(target="importance", jump=lw.JumpLaw(0.1, lw.PowerLaw(1.0, max_hops=12)))
    P = lw.transition(lw.ring(n), lw.homogeneous(n, dim=1), design)
    assert P.nnz == 25 * n


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"form": "dense"}, "form"),
        ({"levy": "paper"}, "levy"),
        ({"step": -1}, "step"),
        ({"design": lw.switching(lw.mhlj(), lw.unif_rw())}, "first"),
        ({"problem": lw.homogeneous(6)}, "6"),
    ],
)
def test_bad_arguments_are_named(change, word):
    arguments = {"network": lw.ring(5), "problem": lw.homogeneous(5), "design": lw.mhlj()} | change
    with pytest.raises(lw.InvalidParameter, match=word):
        transition_function(**arguments)


def test_network_in_pieces_is_refused():
    with pytest.raises(lw.NotConnected, match="largest_component"):
        lw.transition(
            lw.Network.from_edges([(0, 1), (2, 3)]), lw.homogeneous(4), lw.mhlj(), form="operator"
        )
