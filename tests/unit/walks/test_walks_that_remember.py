"""Walks that remember, against independent replays of their rules and exact linear algebra."""

from itertools import pairwise

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, OWN, stratified_words
from levywalk.fleet.protocol.node_step import check_local
from levywalk.memory import Memory, Slots
from levywalk.walks import LocalView
from levywalk.walks.depth_first_tour import UNKNOWN
from levywalk.walks.edge_chains import delayed_acceptance
from levywalk.walks.reshuffling import shuffled
from tests.limits import mostly_more

NETWORKS = {
    "small world": lw.watts_strogatz(40, 4, 0.2, seed=1),
    "tree-like": lw.barabasi_albert(40, 1, seed=2),
    "dense": lw.erdos_renyi(40, 0.4, seed=3),
}
PROBLEM = lw.heterogeneous(40, dim=2, important=2, seed=1)
networks = pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))


def recorded(network, walk, steps=1500, **options):
    trace = lw.run(
        network,
        PROBLEM,
        walk,
        steps=steps,
        step_size=1e-4,
        backend="reference",
        record_walk=True,
        **options,
    )
    return np.append(trace.walk[0], trace.final_node[0]), trace


@networks
def test_every_edge_that_is_taken_was_used_least(network):
    nodes, _ = recorded(network, lw.least_used_edge())
    uses = {}
    for v, u in pairwise(nodes):
        near = network.neighbours(int(v))
        counts = {int(w): uses.get(frozenset((int(v), int(w))), 0) for w in near}
        assert counts[int(u)] == min(counts.values())
        uses[frozenset((int(v), int(u)))] = counts[int(u)] + 1


@networks
def test_the_neighbour_that_is_chosen_was_visited_longest_ago(network):
    nodes, trace = recorded(network, lw.oldest_neighbour())
    last = np.full(network.n, -1)
    messages = 0
    for t, (v, u) in enumerate(pairwise(nodes)):
        last[v] = t
        near = network.neighbours(int(v))
        assert last[u] == last[near].min()
        messages += 2 * len(near)
    assert trace.small_messages[0, -1] == messages


@networks
def test_a_rotor_serves_all_neighbours_in_turn(network):
    nodes, _ = recorded(network, lw.rotor_router())
    for v in range(network.n):
        exits = nodes[1:][nodes[:-1] == v]
        near = network.neighbours(v).tolist()
        places = [near.index(u) for u in exits]
        assert all((b - a) % len(near) == 1 % len(near) for a, b in pairwise(places))


@networks
def test_the_tour_searches_depth_first_and_then_repeats_itself(network):
    lap = 2 * (network.n - 1)
    nodes, trace = recorded(network, lw.depth_first_tour(), steps=3 * lap, record_every=lap)
    assert nodes[0] == nodes[lap]
    assert len(set(nodes[:lap].tolist())) == network.n
    np.testing.assert_array_equal(nodes[lap : 2 * lap], nodes[2 * lap : 3 * lap])
    seen, parent = {int(nodes[0])}, {int(nodes[0]): None}
    for v, u in zip(nodes[:lap].tolist(), nodes[1 : lap + 1].tolist(), strict=True):
        fresh = [w for w in network.neighbours(v).tolist() if w not in seen]
        if fresh:
            assert u in fresh
            parent[u] = v
            seen.add(u)
        else:
            assert u == parent[v]
    edges = {frozenset(pair) for pair in parent.items() if pair[1] is not None}
    assert all(
        frozenset(pair) in edges for pair in zip(nodes[lap:], nodes[lap + 1 :], strict=False)
    )
    assert trace.small_messages[0, 1] < trace.small_messages[0, 2] + 2 * network.degree.max()
    assert trace.small_messages[0, 3] == trace.small_messages[0, 2]


@networks
def test_a_walk_turns_back_only_at_a_dead_end(network):
    nodes, _ = recorded(network, lw.non_backtracking())
    for k, v, u in zip(nodes, nodes[1:], nodes[2:], strict=False):
        assert k != u or network.degree[v] == 1


@pytest.mark.parametrize("n", [1, 2, 3, 10, 64, 65, 1000])
def test_a_round_is_a_permutation(n):
    for key in (0, 1, 2**64 - 1):
        assert sorted(shuffled(i, key, n) for i in range(n)) == list(range(n))


def test_every_round_visits_every_node():
    nodes, _ = recorded(NETWORKS["dense"], lw.reshuffling(), steps=121)
    for start in (1, 41, 81):
        assert sorted(nodes[start : start + 40].tolist()) == list(range(40))
    orders = {tuple(nodes[start : start + 40].tolist()) for start in (1, 41, 81)}
    assert len(orders) == 3
    with pytest.raises(lw.InvalidParameter, match="reshuffling"):
        check_local(lw.reshuffling(), lw.sgd())


def words_of(values):
    class Given:
        def __call__(self, slot):
            return values[slot]

        def uniform(self, slot=HOP):
            return (values[slot] >> 11) * 2.0**-53

        def index(self, count, slot=HOP):
            return (values[slot] * count) >> 64

    return Given()


def decisions(walk, view, memory, count=400, second=60):
    """The law of a decision, over a fine grid of two random words."""
    found = {}
    for one in stratified_words(count):
        for two in stratified_words(second):
            kept = Memory(
                Slots({name: array.copy() for name, array in memory.token.arrays.items()}),
                Slots({name: array.copy() for name, array in memory.node.arrays.items()}),
            )
            to = walk.decide(view, kept, words_of({HOP: one, OWN: two, 0: 2**64 - 1})).to
            found[to] = found.get(to, 0) + 1
    return {to: number / (count * second) for to, number in found.items()}


def token_of(walk, **values):
    return Slots({name: np.array(values[name]) for name in walk.token_memory})


@pytest.mark.more
def test_mhda_decides_as_its_chain_says():
    network = NETWORKS["tree-like"]
    walk = lw.mhda("importance")
    bound = walk.bind(network, PROBLEM)
    chain = walk.chain(network, PROBLEM)
    source = np.repeat(np.arange(network.n), network.degree)
    hub = int(np.argmax(network.degree))
    states = np.flatnonzero(network.indices == hub)[:2]
    for e in states:
        k = int(source[e])
        law = decisions(
            walk,
            bound.view(hub),
            Memory(token_of(walk, previous=k), Slots({})),
            count=40 * int(network.degree[hub]),
        )
        row = chain[[e]].toarray()[0]
        expected = {int(network.indices[f]): p for f, p in enumerate(row) if p and f != e}
        expected[hub] = expected.get(hub, 0.0) + row[e]
        for to in expected:
            assert law.get(to, 0.0) == pytest.approx(expected[to], abs=2e-3)


@networks
@pytest.mark.parametrize("target", ["uniform", "importance", "degree"])
def test_mhda_has_exactly_its_target_law_and_at_most_the_variance_of_its_base_chain(
    network, target
):
    bound = lw.mhda(target).bind(network, PROBLEM)
    chain = lw.mhda(target).chain(network, PROBLEM).toarray()
    law = np.linalg.lstsq(
        np.vstack([chain.T - np.eye(len(chain)), np.ones(len(chain))]),
        np.append(np.zeros(len(chain)), 1.0),
        rcond=None,
    )[0]
    at = network.indices
    np.testing.assert_allclose(np.bincount(at, law, network.n), bound.law, atol=1e-10)
    base = lw.transition(network, PROBLEM, lw.Design(target=target)).toarray()
    generator = np.random.default_rng(0)
    for _ in range(5):
        g = generator.normal(size=network.n)
        mine = asymptotic_variance(chain, law, g[at])
        assert mine <= asymptotic_variance(base, bound.law, g) * (1 + 1e-9)


def asymptotic_variance(chain, law, values):
    values = values - law @ values
    fundamental = np.linalg.solve(
        np.eye(len(law)) - chain + np.outer(np.ones(len(law)), law), values
    )
    return law @ (2 * values * fundamental - values**2)


def test_a_worse_delayed_rule_would_not_have_the_law():
    """The test above can fail: without the square the law is another one."""
    network = NETWORKS["small world"]
    scores = PROBLEM.smoothness
    right = delayed_acceptance(network, scores).toarray()
    source = np.repeat(np.arange(network.n), network.degree)
    start = scores[source] / scores.sum() / network.degree[source]
    bent = right**1.05
    bent /= bent.sum(axis=1, keepdims=True)
    assert np.abs(start @ bent - start).max() > 1e-4


@pytest.mark.parametrize(
    "walk", [lw.srrw(3.0), lw.srrw(3.0, "importance")], ids=["uniform", "importance"]
)
def test_srrw_draws_from_its_kernel(walk):
    network = NETWORKS["small world"]
    bound = walk.bind(network, PROBLEM)
    base = lw.transition(network, PROBLEM, lw.Design(target=walk.target)).toarray()
    generator = np.random.default_rng(1)
    for v in (0, 7):
        visits = generator.integers(0, 5, network.n)
        view = bound.view(v)
        view.answers = {"visits": [int(visits[u]) for u in view.neighbours]}
        memory = Memory(Slots({}), Slots({"visits": np.array(visits[v])}))
        law = decisions(walk, view, memory, count=2000, second=1)
        counts = visits + 1.0
        counts[v] += 1
        row = base[v] * (counts / bound.scores) ** -3.0
        row /= row.sum()
        for to in np.flatnonzero(row):
            assert law.get(int(to), 0.0) == pytest.approx(row[to], abs=3e-3)


def test_hdt_accepts_for_the_bent_target_and_asks_only_whom_it_proposes():
    network, walk = NETWORKS["small world"], lw.hdt(2.0, "importance")
    bound = walk.bind(network, PROBLEM)
    visits = np.random.default_rng(2).integers(0, 5, network.n)
    v = 3
    view = bound.view(v)
    view.answers = {"visits": [int(visits[u]) for u in view.neighbours]}
    memory = Memory(token_of(walk, previous=-1), Slots({"visits": np.array(visits[v])}))
    law = decisions(walk, view, memory, count=4000, second=1)
    counts = visits + 1.0
    counts[v] += 1
    bent = bound.scores * (counts / bound.scores) ** -2.0 / network.degree
    for u in network.neighbours(v).tolist():
        expected = min(1.0, bent[u] / bent[v]) / network.degree[v]
        assert law.get(u, 0.0) == pytest.approx(expected, abs=2e-3)
    for word in stratified_words(7):
        asked = walk.questions(view, memory, words_of({HOP: word, OWN: word}))
        assert len(asked) == 1


def test_the_lifted_walk_has_the_uniform_law_and_only_walks_on_rings():
    network, problem = lw.ring(9), lw.homogeneous(9, dim=2)
    chain = lw.lifted_ring(0.2).chain(network, problem).toarray()
    np.testing.assert_allclose(np.full(18, 1 / 18) @ chain, 1 / 18)
    gap = lw.spectral_gap(lw.lifted_ring().chain(network, problem), kind="singular")
    assert gap.value >= 0.0
    with pytest.raises(lw.InvalidParameter, match="every node has two neighbours"):
        lw.run(lw.path(5), lw.homogeneous(5, dim=2), lw.lifted_ring(), steps=5, step_size=0.1)


def test_a_route_must_follow_edges_and_visit_all():
    problem = lw.homogeneous(5, dim=2)
    with pytest.raises(lw.InvalidParameter, match="no neighbours"):
        lw.run(lw.ring(5), problem, lw.route([0, 2, 4, 1, 3]), steps=5, step_size=0.1)
    with pytest.raises(lw.InvalidParameter, match="missing"):
        lw.run(lw.ring(5), problem, lw.route([0, 1]), steps=5, step_size=0.1)
    with pytest.raises(lw.InvalidParameter, match="at least two"):
        lw.route([1])


def test_a_dead_neighbour_is_never_chosen():
    view = LocalView(0, 3, 1.0, (1, 2, 3), (2, 2, 2), (1.0, 1.0, 1.0), alive=(True, False, True))
    view.came_from = 1
    for walk in (lw.mhda(), lw.non_backtracking(), lw.least_used_edge(), lw.rotor_router()):
        memory = Memory(
            token_of(walk, previous=1),
            Slots(
                {"uses": np.array([4, 0, 3])}
                if "uses" in walk.node_memory
                else {"rotor": np.array(0)}
            ),
        )
        for word in stratified_words(12):
            words = words_of({HOP: word, OWN: word, 0: 2**64 - 1})
            assert walk.decide(view, memory, words).to != 2


WALKS = {
    "mhda": lw.mhda(),
    "depth_first_tour": lw.depth_first_tour(),
    "mhda with jumps": lw.mhda("importance", jump=lw.JumpLaw(0.2)),
    "non_backtracking": lw.non_backtracking(),
    "least_used_edge": lw.least_used_edge(),
    "oldest_neighbour": lw.oldest_neighbour(),
    "rotor_router": lw.rotor_router(),
    "srrw": lw.srrw(),
    "hdt": lw.hdt(target="importance"),
    "reshuffling": lw.reshuffling(),
}
QUICK = ("mhda", "oldest_neighbour")


@pytest.mark.parametrize("name", mostly_more(WALKS, lambda name: name in QUICK))
@pytest.mark.parametrize("self_loops", ["none", "counted"])
def test_the_compiled_walk_is_the_plain_one(name, self_loops):
    walk = WALKS[name]
    network = lw.watts_strogatz(40, 4, 0.2, seed=1, self_loops=self_loops)
    options = {"steps": 700, "step_size": 1e-3, "replicas": 2, "record_walk": True}
    plain = lw.run(network, PROBLEM, walk, backend="reference", **options)
    fast = lw.run(network, PROBLEM, walk, backend="kernel", **options)
    for name in ("walk", "hops", "transfers", "small_messages", "final_node"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))
    np.testing.assert_allclose(fast.model, plain.model, rtol=1e-9)


@pytest.mark.more
@pytest.mark.parametrize("walk", [lw.lifted_ring(), lw.route(range(30))], ids=["lifted", "route"])
def test_the_compiled_walk_on_a_ring_is_the_plain_one(walk):
    network, problem = lw.ring(30), lw.homogeneous(30, dim=2)
    options = {"steps": 700, "step_size": 1e-3, "replicas": 2, "record_walk": True}
    plain = lw.run(network, problem, walk, backend="reference", **options)
    fast = lw.run(network, problem, walk, backend="kernel", **options)
    np.testing.assert_array_equal(fast.walk, plain.walk)


def test_unknown_is_no_node():
    assert UNKNOWN < -1
