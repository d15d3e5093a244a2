"""Transition matrices, by hand and by their properties."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.theory import levy_matrix, metropolis_hastings_matrix
from tests.limits import examples


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness) / 2.0)[:, None], np.zeros(len(smoothness))
    )


class EveryOther(lw.JumpLaw):
    """Distances of its own: always 2."""

    def cumulative(self):
        return np.array([0.0, 1.0])


def test_the_distances_of_a_jump_law_of_ones_own_are_those_that_are_simulated():
    network, problem = lw.ring(7), problem_with([1.0] * 7)
    own, known = EveryOther(0.3), lw.JumpLaw(0.3, lw.FixedDistance(2))
    one, other = (lw.Design("uniform", jump) for jump in (own, known))
    for form in ("matrix", "operator"):
        found, expected = (
            lw.transition(network, problem, d, form) @ np.eye(7) for d in (one, other)
        )
        assert found == pytest.approx(expected)
    assert own.mean_distance() == 2.0
    given = {"steps": 40, "step_size": 0.01, "record_walk": True, "backend": "reference"}
    walks = [lw.run(network, problem, design, **given).walk for design in (one, other)]
    assert np.array_equal(*walks)


def test_two_nodes_by_hand():
    network, problem = lw.path(2), problem_with([1.0, 3.0])
    assert lw.transition(network, problem, lw.weight_rw()).toarray() == pytest.approx(
        np.array([[0, 1], [1 / 3, 2 / 3]])
    )
    counted = network.with_self_loops("counted")
    expected = np.array([[1 / 2, 1 / 2], [1 / 6, 5 / 6]])
    assert lw.transition(counted, problem, lw.weight_rw()).toarray() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("policy", "leave", "stay_far", "enter"),
    [
        ("none", Fraction(1, 200), Fraction(0), Fraction(1, 2)),
        ("counted", Fraction(1, 300), Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_the_five_node_ring_by_hand(policy, leave, stay_far, enter):
    network = lw.ring(5).with_self_loops(policy)
    P = lw.transition(network, problem_with([100.0, 1, 1, 1, 1]), lw.weight_rw()).toarray()
    expected = np.zeros((5, 5))
    for v in range(5):
        for u in ((v + 1) % 5, (v - 1) % 5):
            expected[v, u] = float(leave if v == 0 else enter)
        expected[v, v] = float(1 - 2 * leave) if v == 0 else float(stay_far)
    assert pytest.approx(expected, abs=1e-12) == P


@pytest.mark.parametrize("policy", ["none", "counted"])
def test_a_jump_is_a_power_of_the_walk_to_uniform_neighbours_and_not_the_printed_form(policy):
    network = lw.star(4, self_loops=policy)
    A = np.zeros((4, 4))
    A[0, 1:] = A[1:, 0] = 1.0
    A += np.eye(4) * (policy == "counted")
    W = A / A.sum(axis=1, keepdims=True)
    found = levy_matrix(network, lw.JumpLaw(0.1, lw.TruncatedGeometric(0.5, 3))).toarray()
    assert found == pytest.approx((4 * W + 2 * W @ W + W @ W @ W) / 7, abs=1e-14)
    printed = sum(
        q * (M := np.linalg.matrix_power(A, i + 1)) / M.sum(axis=1, keepdims=True)
        for i, q in enumerate([4 / 7, 2 / 7, 1 / 7])
    )
    assert policy == "none" or np.abs(found - printed).max() > 0.01


def test_simple_walks_accept_every_proposal():
    network = lw.barbell(4, 2)
    P = lw.transition(network, problem_with(np.arange(1.0, network.n + 1)), lw.simple_rw())
    assert (P.diagonal() == 0).all()
    W = levy_matrix(network, lw.JumpLaw(1.0, lw.FixedDistance(1)))
    assert P.toarray() == pytest.approx(W.toarray(), abs=1e-15)


def test_a_scheduled_jump_has_the_matrix_of_its_step():
    network, problem = lw.ring(6), problem_with(np.arange(1.0, 7.0))
    design = lw.mhlj(schedule=lw.Dropping(0.4, at=10, then=0.0))
    for step, p_jump in [(0, 0.4), (9, 0.4), (10, 0.0)]:
        expected = lw.transition(network, problem, lw.mhlj(p_jump=p_jump)).toarray()
        assert lw.transition(network, problem, design, step=step).toarray() == pytest.approx(
            expected, abs=1e-15
        )


@examples(40)
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(["none", "counted"]), mix=st.floats(0, 1))
def test_mh_chain_is_stochastic_and_reversible_for_any_target(seed, policy, mix):
    network = lw.barabasi_albert(30, 2, seed=seed, self_loops=policy)
    problem = lw.heterogeneous(30, dim=2, important=2, seed=seed)
    design = lw.mixed_rw(mix)
    P = lw.transition(network, problem, design).toarray()
    law = mix / 30 + (1 - mix) * problem.smoothness / problem.smoothness.sum()
    assert (P >= 0).all()
    assert P.sum(axis=1) == pytest.approx(np.ones(30), abs=1e-13)
    flow = law[:, None] * P
    assert flow == pytest.approx(flow.T, abs=1e-14)
    Q = lw.transition(network, problem, lw.mhlj(0.3)).toarray()
    assert Q.sum(axis=1) == pytest.approx(np.ones(30), abs=1e-13)
    assert (Q >= 0).all()


def test_a_matrix_from_scores_does_not_depend_on_their_scale():
    law = np.array([1.0, 5.0, 2.0, 2.0])
    a, b = (
        metropolis_hastings_matrix(lw.star(4), law * factor).toarray() for factor in (1.0, 1e-6)
    )
    assert a == pytest.approx(b, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda n, p: lw.transition(n, p, "mhlj"), "design must be a Design"),
        (
            lambda n, p: lw.transition(n, p, lw.switching(lw.mhlj(), lw.unif_rw())),
            r"\.first or \.then",
        ),
        (lambda n, p: lw.transition(lw.ring(7), p, lw.mhlj()), "7 nodes but problem has 6"),
        (lambda n, p: lw.transition(n, p, lw.mhlj(), step=-1), "step"),
        (
            lambda n, p: lw.transition(
                lw.Network.from_edges([(0, 1), (2, 3), (4, 5)]), p, lw.mhlj()
            ),
            "largest_component",
        ),
        (
            lambda n, p: lw.transition(
                lw.ring(20_000), lw.homogeneous(20_000, dim=1), lw.iid_uniform()
            ),
            "operator",
        ),
    ],
)
def test_what_has_no_matrix_is_refused(call, match):
    with pytest.raises(lw.LevywalkError, match=match):
        call(lw.ring(6), problem_with(np.ones(6)))
