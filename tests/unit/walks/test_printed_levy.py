"""`mhlj(levy="printed")`: the law of its jumps is the printed P_Lévy, and only simulations have
it.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, JUMP, slot_word, stratified_words
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.node_step import check_local
from levywalk.memory import Memory
from levywalk.registry import from_dict, to_dict
from levywalk.theory.chain.transition import levy_matrix
from levywalk.walks import JumpLaw, PrintedJumps, TruncatedGeometric

LOLLIPOP = lw.Network.from_edges([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
PROBLEM = lw.homogeneous(5, dim=2)


def law_of_jumps(network, hops):
    """Return the law of the end of a jump of some hops, with evenly spread words at each hop."""
    walk = lw.mhlj(1.0, max_hops=3, levy="printed")
    bound = walk.bind(network, lw.homogeneous(network.n, dim=2))
    spread = list(stratified_words(4000))
    hop = np.zeros((hops, network.n, network.n))
    for left in range(1, hops + 1):
        for v in range(network.n):
            for word in spread:
                to, more = walk._hop(bound.view(v), word, left)
                assert more == left - 1
                hop[left - 1, v, to] += 1 / len(spread)
    law = np.eye(network.n)
    for left in range(hops, 0, -1):
        law = law @ hop[left - 1]
    return law


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_jump_weighs_all_walks_alike_as_the_printed_formula_does(hops):
    adjacency = LOLLIPOP.to_networkx()
    power = np.linalg.matrix_power(
        np.array([[adjacency.has_edge(v, u) for u in range(5)] for v in range(5)], dtype=float),
        hops,
    )
    printed = power / power.sum(axis=1, keepdims=True)
    assert np.allclose(law_of_jumps(LOLLIPOP, hops), printed, atol=2e-3)


@pytest.mark.more
def test_walks_visit_nodes_as_theory_says_of_the_printed_chain():
    design = lw.mhlj(0.7, levy="printed")
    P = lw.transition(LOLLIPOP, PROBLEM, lw.mhlj(0.7), levy="printed").toarray()
    assert np.array_equal(lw.transition(LOLLIPOP, PROBLEM, design).toarray(), P)
    other = lw.transition(LOLLIPOP, PROBLEM, lw.mhlj(0.7)).toarray()
    record = lw.walk(
        LOLLIPOP, design, problem=PROBLEM, steps=8000, replicas=4, record_walk=True, seed=3
    )
    moves = np.zeros((5, 5))
    for walk in record.walk:
        np.add.at(moves, (walk[:-1], walk[1:]), 1)
    counts = moves.sum(axis=1, keepdims=True)

    def chi2(law):  # about 1 per degree of freedom if the law is the right one
        expected = counts * law
        return float(((moves - expected) ** 2 / np.maximum(expected, 1e-9))[law > 0].sum())

    assert chi2(P) < 60.0  # at most 20 degrees of freedom
    assert chi2(other) > 150.0  # the algorithm's chain is another one


def test_on_a_ring_the_walk_is_that_of_the_algorithm_step_by_step():
    network, problem = lw.ring(12), lw.heterogeneous(12, dim=3, important=1)
    runs = [
        lw.run(
            network,
            problem,
            lw.mhlj(0.5, levy=levy),
            steps=300,
            step_size=0.001,
            record_walk=True,
            backend="reference",
        )
        for levy in ("algorithm", "printed")
    ]
    assert np.array_equal(runs[0].walk, runs[1].walk)
    assert np.array_equal(runs[0].model, runs[1].model)
    assert np.array_equal(runs[0].hops, runs[1].hops)


def test_the_matrix_differs_from_the_algorithms_where_degrees_differ():
    network = lw.watts_strogatz(200, 4, 0.1, seed=1)
    law = JumpLaw(0.1, TruncatedGeometric(0.5, 3))
    apart = levy_matrix(network, law, "printed") - levy_matrix(network, law)
    assert 0.01 < abs(apart).max() < 0.1


def test_a_fleet_refuses_it_by_name_and_a_kernel_does_not_exist():
    design = lw.mhlj(levy="printed")
    with pytest.raises(InvalidParameter, match=r"got MHLJ \(printed jumps\)"):
        check_local(design, lw.sgd())
    with pytest.raises(InvalidParameter, match="printed jumps"):
        lw.run(LOLLIPOP, PROBLEM, design, steps=3, step_size=0.1, backend="kernel")


def test_it_is_written_and_read_as_plain_data():
    design = lw.mhlj(0.9, levy="printed")
    assert from_dict("design", to_dict("design", design)) == design
    assert isinstance(from_dict("design", {"kind": "mhlj", "levy": "printed"}), PrintedJumps)


def test_a_decaying_p_jump_is_obeyed():
    design = lw.mhlj(schedule=lw.Decaying(1.0, 1e-9, 1.0), levy="printed")
    bound = design.bind(LOLLIPOP, PROBLEM)
    view = bound.view(2)
    view.scheduled = {"p_jump": 0.0}
    memory = Memory({}, {})
    for seed in range(50):
        assert (
            design.decide(view, memory, lambda slot, s=seed: slot_word(s << 40, slot)).hops_left
            == 0
        )
    assert JUMP != HOP


def test_wrong_arguments_are_named():
    with pytest.raises(InvalidParameter, match="levy must be one of"):
        lw.mhlj(levy="exact")
    with pytest.raises(InvalidParameter, match="jump must be a JumpLaw"):
        PrintedJumps("importance")
