"""The chain at nodes with data, against dense algebra, enumeration and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import levywalk as lw
from levywalk.experiments.inspect import inspect
from levywalk.theory.chain import stochastic_complement
from levywalk.theory.chain.stochastic_complement import StochasticComplement
from levywalk.theory.judge.moments import exact_moments
from levywalk.theory.judge.predict import communication

DESIGNS = [
    lw.unif_rw(),
    lw.weight_rw(),
    lw.mhlj(0.3),
    lw.simple_rw(reweight=True),
    lw.mixed_rw(0.4),
]


def case(seed, n=12, held=6, dim=2):
    rng = np.random.default_rng(seed)
    network = lw.watts_strogatz(n, 4, 0.3, seed=seed)
    holders = np.sort(rng.choice(n, held, replace=False))
    node = np.concatenate([holders, rng.choice(holders, 5)])
    features = rng.normal(size=(len(node), dim)) * rng.lognormal(0, 0.7, size=n)[node, None]
    targets = features.sum(axis=1) + 0.3 * rng.normal(size=len(node))
    return network, lw.LeastSquares(features, targets, node=node, idle="pass"), holders


def moves_by_hand(network, scores, design):
    """The matrix of single moves over all nodes, entry by entry."""
    n = network.n
    hop = np.zeros((n, n))
    for v in range(n):
        hop[v, network.neighbours(v)] = 1 / network.degree[v]
    ratio = scores / network.degree
    mh = hop * np.minimum(1.0, ratio[None, :] / ratio[:, None])
    mh[np.arange(n), np.arange(n)] += 1 - mh.sum(axis=1)
    if design.jump is None:
        return mh
    share = design.jump.distance.probabilities()
    jumps = sum(q * np.linalg.matrix_power(hop, i + 1) for i, q in enumerate(share))
    p = design.jump.p_jump
    return (1 - p) * mh + p * jumps


def all_scores(network, problem, holders, design):
    L = np.full(network.n, problem.smoothness.mean())
    L[holders] = problem.smoothness
    return {
        "UnifRW": np.ones(network.n),
        "SimpleRW (reweighted)": network.degree.astype(float),
        "MixedRW(0.4)": 0.4 * problem.smoothness.mean() + 0.6 * L,
    }.get(design.name, L)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
@pytest.mark.parametrize("seed", range(3))
def test_transition_is_the_chain_with_idle_stretches_summed(design, seed):
    """Paths through idle nodes are summed one by one, up to a length that leaves nothing."""
    network, problem, holders = case(seed)
    P = moves_by_hand(network, all_scores(network, problem, holders, design), design)
    idle = np.setdiff1d(np.arange(network.n), holders)
    expected, mass = P[np.ix_(holders, holders)].copy(), P[np.ix_(holders, idle)]
    for _ in range(3000):
        expected += mass @ P[np.ix_(idle, holders)]
        mass = mass @ P[np.ix_(idle, idle)]
    found = lw.transition(network, problem, design)
    assert np.allclose(found.toarray(), expected, rtol=1e-10, atol=1e-13)
    operator = lw.transition(network, problem, design, form="operator")
    assert np.allclose(operator @ np.eye(len(holders)), expected, rtol=1e-10, atol=1e-13)
    law = lw.stationary(found)
    if design.jump is None:  # the target, conditioned on the nodes with data
        own = all_scores(network, problem, holders, design)[holders]
        assert np.allclose(law, own / own.sum(), rtol=1e-10)
    gradients = problem.local_gradients(np.array([0.4, -1.0]))
    bound = design.bind(network, problem)
    unbiased = bound.law @ (bound.weights[:, None] * gradients)
    assert np.allclose(unbiased, gradients.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_hops_and_transfers_per_update(design):
    """By the stationary law over all nodes: decisions per update are 1 / its mass with data."""
    network, problem, holders = case(5)
    scores = all_scores(network, problem, holders, design)
    P = moves_by_hand(network, scores, design)
    values, vectors = np.linalg.eig(P.T)
    whole = np.real(vectors[:, np.argmax(np.real(values))])
    whole /= whole.sum()
    law = lw.stationary(lw.transition(network, problem, design))
    assert np.allclose(law, whole[holders] / whole[holders].sum(), rtol=1e-9)
    hops, transfers = communication(design.bind(network, problem), law)
    decisions = 1 / whole[holders].sum()
    if design.jump is None:
        assert hops == pytest.approx(decisions, rel=1e-10)
        assert transfers == pytest.approx(decisions * (1 - whole @ np.diag(P)), rel=1e-10)
    else:
        p, mean = design.jump.p_jump, design.jump.mean_distance()
        mh = moves_by_hand(network, scores, lw.weight_rw())
        assert hops == pytest.approx(decisions * (1 + p * (mean - 1)), rel=1e-10)
        stay = whole @ np.diag(mh)  # every hop of a jump is a transfer, there are no loops
        assert transfers == pytest.approx(decisions * ((1 - p) * (1 - stay) + p * mean), rel=1e-10)


def test_large_groups_and_the_sparse_solver_give_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    P = rng.random((30, 30)) * (rng.random((30, 30)) < 0.3) + np.eye(30)
    P = np.roll(P, 1, axis=1)
    P /= P.sum(axis=1, keepdims=True)
    holders = np.array([0, 4, 5, 17, 21])
    idle = np.setdiff1d(np.arange(30), holders)
    inverse = np.linalg.inv(np.eye(25) - P[np.ix_(idle, idle)])
    enter, back = P[np.ix_(holders, idle)], P[np.ix_(idle, holders)]
    expected = P[np.ix_(holders, holders)] + enter @ inverse @ back
    law = rng.dirichlet(np.ones(5))
    for dense in (2000, 3):
        monkeypatch.setattr(stochastic_complement, "_DENSE", dense)
        chain = StochasticComplement(sparse.csr_array(P), holders)
        assert np.allclose(chain.matrix().toarray(), expected, rtol=1e-10)
        visits = chain.visits(law)
        assert np.allclose(visits[idle], law @ enter @ inverse, rtol=1e-10)
        assert np.array_equal(visits[holders], law)
    monkeypatch.setattr(stochastic_complement, "_MOST_ENTRIES", 3)
    with pytest.raises(lw.TooLarge, match=r"simulate with lw.run"):
        chain.matrix()
    monkeypatch.setattr(stochastic_complement, "_MOST_ENTRIES", 100)
    monkeypatch.setattr(stochastic_complement, "_MOST_TOGETHER", 3)
    with pytest.raises(lw.TooLarge, match="25 nodes without data lie next to each other"):
        chain.matrix()


def test_a_long_idle_stretch_loses_no_digits():
    """A path of 400 idle nodes between two ends: back to the same end with odds 400 to 1."""
    n = 402
    problem = lw.LeastSquares([[1.0], [1.0]], [0.0, 1.0], node=[0, n - 1], idle="pass")
    P = lw.transition(lw.path(n), problem, lw.simple_rw(), form="matrix").toarray()
    assert P[0, 1] == pytest.approx(1 / (n - 1), rel=1e-11)  # gambler's ruin
    assert P.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


def test_an_idle_hub_makes_independent_draws_of_a_star():
    problem = lw.LeastSquares(np.ones((6, 1)), np.arange(6.0), node=np.arange(1, 7), idle="pass")
    P = lw.transition(lw.star(7), problem, lw.simple_rw()).toarray()
    assert np.allclose(P, 1 / 6)
    report = lw.entrapment(lw.star(7), problem, lw.simple_rw(), nodes=[3])
    assert report.worst.nodes == (3,)
    assert report.worst.dwell == pytest.approx(6 / 5)
    with pytest.raises(lw.InvalidParameter, match="nodes must have data, got node 0"):
        lw.entrapment(lw.star(7), problem, lw.simple_rw(), nodes=[0])


@pytest.mark.more
def test_entrapment_agrees_with_a_recorded_walk():
    network, problem, holders = case(2)
    design = lw.weight_rw()
    trace = lw.run(
        network, problem, design, steps=30_000, step_size=1e-6, start="target", record_walk=True
    )
    report = lw.entrapment(network, problem, design, trace=trace, radius=1)
    region = report.worst
    assert set(region.nodes) <= set(holders.tolist())
    assert region.observed.dwell == pytest.approx(region.dwell, rel=0.1)
    assert region.observed.share == pytest.approx(region.mass, abs=0.03)
    assert report.correlation[0] == pytest.approx(1.0)
    # steps to escape: the mean number of updates until one is more than one hop away
    v = region.nodes[0]
    ball = {v, *network.neighbours(v).tolist()}
    walk = trace.walk[0]
    outside = np.flatnonzero(~np.isin(walk, list(ball)))
    at = np.flatnonzero(walk == v)
    at = at[at < outside[-1]]
    waits = outside[np.searchsorted(outside, at)] - at
    assert len(region.nodes) == 1
    assert region.escape == pytest.approx(waits.mean(), rel=0.15)


@pytest.mark.more
def test_exact_moments_are_those_of_the_run():
    network, problem, _ = case(1)
    design, marks = lw.mhlj(0.2), [5, 20, 60]
    size = 0.3 / design.bind(network, problem).largest
    exact = exact_moments(network, problem, design, steps=marks, step_size=size)
    trace = lw.run(
        network, problem, design, steps=60, step_size=size, replicas=6000, start="stationary",
        record_every=marks,
    )  # fmt: skip
    found = trace.distance2[:, 1:]
    error = found.std(axis=0) / np.sqrt(6000)
    assert (np.abs(found.mean(axis=0) - exact.error2) < 6 * error).all()
    start = np.full(problem.n, 1 / problem.n)
    assert exact_moments(network, problem, design, steps=[1], step_size=size, start=start)
    with pytest.raises(lw.InvalidParameter, match=r"one probability per node with data \(6 in all"):
        exact_moments(
            network, problem, design, steps=[1], step_size=size, start=np.full(12, 1 / 12)
        )


def test_judgements_answer_and_bounds_say_why_not():
    network, problem, holders = case(4)
    found = inspect(network, problem)
    for judgement in found.judgements.values():
        assert len(judgement.law) == len(judgement.target) == problem.n
        assert set(judgement.entrapment.worst.nodes) <= set(holders.tolist())
        assert judgement.prediction.hops_per_step > 1.5
    assert lw.error_floor(network, problem, lw.unif_rw(), step_size=0.01)
    with pytest.raises(lw.InvalidParameter, match=r"bounds are not known.*use lw.error_floor"):
        lw.bounds(network, problem, lw.unif_rw(), steps=10, step_size=0.01)


def test_a_walk_with_edge_states_says_that_theory_cannot_use_it():
    network, problem, _ = case(4)
    with pytest.raises(lw.InvalidParameter, match="has a chain of 48 states, not one per node"):
        lw.transition(network, problem, lw.mhda())


def test_jumps_that_never_come_back_to_data_are_refused():
    moves = sparse.csr_array(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    with pytest.raises(lw.InvalidParameter, match="never returns from node 1"):
        StochasticComplement(moves, np.array([0]))
