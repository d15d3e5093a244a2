"""The kernel's walks have the law of their matrix.

A chain can be built from one endless stack of i.i.d. draws from row v for each node v, the next of
which is taken at each visit. So the counts of moves out of v are those of the first m draws of a
stack, where m, the number of visits, is random and depends on the draws. Limits that hold for all m
= 1, …, M at once hold for it: Chernoff's, with a union bound over m and over cells that keeps the
false alarm of a test at 1e-8. Cells of probability 0 must be empty. Long-run shares are compared
with the stationary law over independent walks from it, so Hoeffding's inequality applies. Every
check is also run against the matrix of a walk with a mistake in it, which must be rejected.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr

import levywalk as lw
from tests.limits import mostly_more

FALSE_ALARM = 1e-8
STEPS, REPLICAS = 4000, 10
NETWORKS = {
    "star": lw.star(6),
    "barbell": lw.barbell(4, 1),
    "scale-free": lw.barabasi_albert(12, 2, seed=3),
    "counted ring": lw.ring(6, self_loops="counted"),
    "counted star": lw.star(6, self_loops="counted"),
}
JUMP = lw.JumpLaw(0.4, lw.TruncatedGeometric(0.5, 3))


def problem_of(network):
    """Smoothness between 1 and 4, so that every row of P is visited often."""
    features = np.sqrt(np.linspace(1.0, 4.0, network.n) / 2.0)[:, None]
    return lw.LeastSquares(features, np.zeros(network.n))


DESIGNS = {
    "SimpleRW": lw.simple_rw(),
    "UnifRW": lw.unif_rw(),
    "WeightRW": lw.weight_rw(),
    "MixedRW": lw.mixed_rw(0.5),
    "MHLJ": lw.Design(target="importance", jump=JUMP),
    "far jumps": lw.Design(target="uniform", jump=lw.JumpLaw(0.7, lw.PowerLaw(1.0, 5))),
    "i.i.d. weighted": lw.iid_weighted(),
}


def adjacency(network):
    A = np.zeros((network.n, network.n))
    for v, u in network.to_networkx().edges:
        A[v, u] = A[u, v] = 1.0
    return A


def metropolis(network, law, degree_ratio=True):
    A = adjacency(network)
    degree = A.sum(axis=1)
    ratio = law / degree if degree_ratio else law
    P = A / degree[:, None] * np.minimum(1.0, ratio[None, :] / ratio[:, None])
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(P, 1.0 - P.sum(axis=1))
    return P


def expected_matrix(network, problem, name, degree_ratio=True, extra_hop=0):
    """P of the design by dense algebra; with a mistake on request."""
    design = DESIGNS[name]
    L, A = problem.smoothness, adjacency(network)
    law = {
        "SimpleRW": A.sum(axis=1) / A.sum(),
        "UnifRW": np.full(network.n, 1 / network.n),
        "WeightRW": L / L.sum(),
        "MixedRW": 0.5 / network.n + 0.5 * L / L.sum(),
        "MHLJ": L / L.sum(),
        "far jumps": np.full(network.n, 1 / network.n),
        "i.i.d. weighted": L / L.sum(),
    }[name]
    if design.moves == "iid":
        return np.tile(law, (network.n, 1))
    P = metropolis(network, law, degree_ratio)
    if design.jump is None:
        return P
    W = A / A.sum(axis=1, keepdims=True)
    q = {
        "MHLJ": np.array([4, 2, 1]) / 7,
        "far jumps": (1 / np.arange(1, 6)) / (1 / np.arange(1, 6)).sum(),
    }[name]
    levy = sum(q[i] * np.linalg.matrix_power(W, i + 1 + extra_hop) for i in range(len(q)))
    return (1 - design.jump.p_jump) * P + design.jump.p_jump * levy


def counts_of(network, problem, design):
    trace = lw.run(
        network,
        problem,
        design,
        steps=STEPS,
        step_size=0.01,
        replicas=REPLICAS,
        record_walk=True,
        seed=11,
    )
    ends = np.column_stack([trace.walk, trace.final_node])
    counts = np.zeros((network.n, network.n), dtype=np.int64)
    np.add.at(counts, (ends[:, :-1].ravel(), ends[:, 1:].ravel()), 1)
    return counts


def fits(counts, P) -> bool:
    """Whether every cell lies within Chernoff's limits, P(S ≥ k or S ≤ k) ≤ exp(-m KL(k/m, p)), for
    all m at once.
    """
    visits = counts.sum(axis=1, keepdims=True)
    P = np.where(P < 1e-12, 0.0, np.minimum(P, 1.0))  # 1 - Σ leaves rounding where there is nothing
    share = counts / visits
    exponent = visits * (rel_entr(share, P) + rel_entr(1.0 - share, 1.0 - P))
    return bool((exponent <= np.log(2 * counts.size * STEPS * REPLICAS / FALSE_ALARM)).all())


@pytest.mark.parametrize("where", NETWORKS)
@pytest.mark.parametrize("name", DESIGNS)
def test_moves_of_the_kernel_follow_the_matrix(where, name):
    network = NETWORKS[where]
    problem = problem_of(network)
    counts = counts_of(network, problem, DESIGNS[name])
    assert fits(counts, expected_matrix(network, problem, name))
    assert fits(counts, lw.transition(network, problem, DESIGNS[name]).toarray())


@pytest.mark.parametrize("where", ["star", "barbell", "scale-free", "counted star"])
@pytest.mark.parametrize("name", ["UnifRW", "WeightRW", "MHLJ"])
def test_an_acceptance_without_the_degree_ratio_is_caught(where, name):
    network = NETWORKS[where]
    problem = problem_of(network)
    counts = counts_of(network, problem, DESIGNS[name])
    assert not fits(counts, expected_matrix(network, problem, name, degree_ratio=False))


@pytest.mark.parametrize("where", NETWORKS)
@pytest.mark.parametrize("name", ["MHLJ", "far jumps"])
def test_a_jump_of_one_hop_too_many_is_caught(where, name):
    network = NETWORKS[where]
    problem = problem_of(network)
    counts = counts_of(network, problem, DESIGNS[name])
    assert not fits(counts, expected_matrix(network, problem, name, extra_hop=1))


def test_the_other_self_loop_policy_is_caught():
    network = NETWORKS["counted ring"]
    problem = problem_of(network)
    counts = counts_of(network, problem, DESIGNS["WeightRW"])
    assert not fits(counts, expected_matrix(network.with_self_loops("none"), problem, "WeightRW"))


def hoeffding(cells, replicas):
    """For means of independent shares in [0, 1]: P(|mean - expectation| > limit) <= 2 exp(-2
    replicas limit²).
    """
    return np.sqrt(np.log(2 * cells / FALSE_ALARM) / (2 * replicas))


@pytest.mark.parametrize(
    "name", mostly_more(["WeightRW", "MHLJ", "UnifRW"], lambda name: name == "MHLJ")
)
def test_visits_from_a_stationary_start_have_the_stationary_law(name):
    # From a stationary start a node's expected share is exactly its stationary mass, whatever the
    # mixing time.
    network = NETWORKS["star"]
    problem, replicas = problem_of(network), 8000
    P = expected_matrix(network, problem, name)
    law = np.linalg.matrix_power((P + np.eye(6)) / 2, 2**14)[0]
    trace = lw.run(
        network,
        problem,
        DESIGNS[name],
        steps=20,
        step_size=0.01,
        replicas=replicas,
        start="stationary",
    )
    share = trace.visits.mean(axis=0) / 20
    limit = hoeffding(6, replicas)
    assert np.abs(share - law).max() <= limit
    simple = network.degree / network.degree.sum()
    assert np.abs(share - simple).max() > limit


def test_hops_per_step_have_the_mean_of_the_jump_law():
    # Hops of all steps are independent: 1 with probability 1-p, else d, so Hoeffding's inequality
    # with range 2 applies.
    network = NETWORKS["scale-free"]
    trace = lw.run(
        network,
        problem_of(network),
        DESIGNS["MHLJ"],
        steps=STEPS,
        step_size=0.01,
        replicas=REPLICAS,
    )
    mean = trace.hops[:, -1].mean() / STEPS
    limit = 2 * np.sqrt(np.log(2 / FALSE_ALARM) / (2 * STEPS * REPLICAS))
    assert abs(mean - (0.6 + 0.4 * 11 / 7)) <= limit
    assert abs(mean - (0.6 + 0.4 * 18 / 7)) > limit  # one hop too many
    assert abs(mean - (0.6 + 0.4 * 2.0)) > limit  # the geometric law not cut at three
