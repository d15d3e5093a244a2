from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.theory.judge.entrapment import _complete_stays


def five_ring() -> lw.LeastSquares:
    """[fivring]: L = (100, 1, 1, 1, 1)."""
    return lw.LeastSquares(np.sqrt(np.array([100.0, 1, 1, 1, 1]) / 2)[:, None], np.arange(5.0))


@pytest.mark.parametrize(("policy", "leave"), [("none", 1 / 100), ("counted", 2 / 300)])
def test_toy_ring_by_hand(policy: str, leave: float) -> None:
    report = lw.entrapment(lw.ring(5, self_loops=policy), five_ring(), lw.weight_rw())
    (region,) = report.regions
    assert region.nodes == (0,)
    assert region.target == pytest.approx(100 / 104)
    assert region.mass == pytest.approx(100 / 104)
    assert region.dwell == pytest.approx(1 / leave)
    assert region.iid_dwell == pytest.approx(1 / (1 - 100 / 104))
    assert region.conductance == pytest.approx(100 / 104 * leave / (4 / 104))
    assert report.score == pytest.approx(region.dwell / region.iid_dwell)


def test_iid_sampling_is_not_trapped_by_definition() -> None:
    problem = lw.heterogeneous(60, important=2)
    report = lw.entrapment(lw.ring(60), problem, lw.iid_weighted())
    for region in report.regions:
        assert region.dwell == pytest.approx(region.iid_dwell)
        assert region.escape == pytest.approx(region.iid_escape)
    assert report.score == pytest.approx(1.0)


def test_escape_equals_the_mean_of_a_brute_force_absorbing_chain() -> None:
    network, problem, design = (
        lw.watts_strogatz(80, 4, 0.1),
        lw.heterogeneous(80, important=1),
        lw.mhlj(),
    )
    report = lw.entrapment(network, problem, design, radius=2)
    (region,) = report.regions
    P = lw.transition(network, problem, design).toarray()
    graph = network.to_networkx()
    import networkx as nx

    ball = sorted(nx.single_source_shortest_path_length(graph, region.nodes[0], cutoff=2))
    inner = P[np.ix_(ball, ball)]
    alive = np.zeros(len(ball))
    alive[ball.index(region.nodes[0])] = 1.0
    total = 0.0
    for _ in range(200_000):
        total += alive.sum()
        alive = alive @ inner
        if alive.sum() < 1e-14:
            break
    assert region.escape == pytest.approx(total, rel=1e-6)


def test_neighbouring_important_nodes_form_one_region_and_dwell_is_mass_over_flow() -> None:
    L = np.ones(60)
    L[[10, 11, 20]] = 100.0
    problem = lw.LeastSquares(np.sqrt(L / 2)[:, None], np.arange(60.0))
    network, design = lw.ring(60), lw.weight_rw()
    report = lw.entrapment(network, problem, design)
    assert {region.nodes for region in report.regions} == {(10, 11), (20,)}
    pair = next(region for region in report.regions if region.nodes == (10, 11))
    P, law = lw.transition(network, problem, design).toarray(), L / L.sum()
    out = law[10] * P[10, 9] + law[11] * P[11, 12]
    assert pair.dwell == pytest.approx(law[[10, 11]].sum() / out)


@pytest.mark.more
def test_theory_and_run_lie_side_by_side() -> None:
    network, problem, design = lw.ring(100), lw.heterogeneous(100, important=1), lw.weight_rw()
    trace = lw.run(
        network, problem, design, steps=100_000, step_size=1e-4, replicas=8, record_walk=True
    )
    (region,) = lw.entrapment(network, problem, design, trace=trace).regions
    seen = region.observed
    assert seen is not None
    # Stays are geometric, so their standard deviation is below their mean; six standard errors are
    # a 1e-8 event.
    assert abs(seen.dwell - region.dwell) < 6 * region.dwell / np.sqrt(seen.n_stays)
    assert (
        seen.effective_size < seen.n_updates / region.dwell
    )  # correlated visits are worth far fewer independent ones
    assert seen.n_updates == 800_000


@pytest.mark.more
def test_independent_visits_are_worth_about_their_number() -> None:
    network, problem, design = lw.ring(50), lw.heterogeneous(50, important=1), lw.iid_weighted()
    trace = lw.run(
        network, problem, design, steps=5000, step_size=1e-4, replicas=4, record_walk=True
    )
    (region,) = lw.entrapment(network, problem, design, trace=trace).regions
    assert region.observed is not None
    assert 0.8 < region.observed.effective_size / region.observed.n_updates < 1.25


@pytest.mark.more
def test_correlation_of_updates_equals_the_chains_own() -> None:
    network, problem, design = lw.ring(20), lw.homogeneous(20, dim=3), lw.unif_rw()
    network = network.with_self_loops("counted")
    trace = lw.run(
        network,
        problem,
        design,
        steps=400_000,
        step_size=1e-4,
        record_walk=True,
        start="stationary",
    )
    measured = lw.update_correlation(trace, problem, lags=5)
    P = lw.transition(network, problem, design).toarray()
    pulls = problem.local_gradients(problem.optimum)
    exact, power = [], np.eye(20)
    for _ in range(6):
        exact.append((pulls * (power @ pulls)).sum())
        power = power @ P
    np.testing.assert_allclose(measured, np.array(exact) / exact[0], atol=0.05)


def test_complete_stays_leave_out_cut_ones() -> None:
    here = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1], dtype=bool)
    assert _complete_stays(here).tolist() == [3, 1]
    assert _complete_stays(np.array([1, 1], dtype=bool)).tolist() == []


def test_sentence_says_it_plainly() -> None:
    report = lw.entrapment(lw.ring(5), five_ring(), lw.weight_rw())
    assert report.sentence == (
        "Under WeightRW the model stays 100 steps per visit at node 0; "
        "i.i.d. sampling from the same law stays 26 steps."
    )


def test_bad_input_is_named() -> None:
    network, problem = lw.ring(20), lw.homogeneous(20)
    with pytest.raises(lw.InvalidParameter, match="nodes must be node numbers"):
        lw.entrapment(network, problem, lw.weight_rw(), nodes=np.array([25]))
    with pytest.raises(lw.InvalidParameter, match="radius"):
        lw.entrapment(network, problem, lw.weight_rw(), radius=0)
    trace = lw.run(network, problem, lw.weight_rw(), steps=10, step_size=0.01)
    for wrong in (trace, 3):
        with pytest.raises(lw.InvalidParameter, match="record_walk=True"):
            lw.entrapment(network, problem, lw.weight_rw(), trace=wrong)
