"""Nodes without data pass the model on: the walk by other code, counters, starts, memory."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, PASS, Domain, Key, mix64, split, unit
from tests.limits import mostly_more

SLOT = 0xD1B54A32D192ED03
HOLDERS = (0, 2, 5, 7, 8)


def the_network():
    edges = [(v, (v + 1) % 10) for v in range(10)] + [(0, 4), (3, 7), (6, 9)]
    return lw.Network.from_edges(edges, n=10)


def samples(holders=HOLDERS, dim=2, seed=3):
    rng = np.random.default_rng(seed)
    node = np.concatenate([holders, rng.choice(holders, 6)])
    features = rng.normal(size=(len(node), dim)) * rng.lognormal(0, 1, size=10)[node, None]
    return features, features @ np.arange(1, dim + 1) + rng.normal(size=len(node)), node


def idle_problem(kind=lw.LeastSquares, **options):
    features, targets, node = samples()
    targets = targets if kind is lw.LeastSquares else (targets > 0).astype(float)
    return kind(features, targets, node=node, idle="pass", **options)


def by_hand(network, scores, jump, seed, start, steps):
    """The walk of one replica in plain Python: nodes of updates, hops, transfers, passes.

    The words of pass k are those of a step whose hash is the word of slot PASS + k.
    """
    key = Key.of(seed, Domain.WALK)
    ratio = scores / network.degree
    v, hops, transfers, passes, walk = start, 0, 0, 0, []

    def word(h, slot):
        return h if slot == 0 else mix64((h + slot * SLOT) % 2**64)

    for t in range(steps):
        walk.append(v)
        own = h = key.step_hash(t)
        k = 0
        while True:
            distance = 0
            if jump is not None and unit(h) < jump.p_jump:
                distance = 1 + int(np.sum(unit(h) >= jump.p_jump * jump.cumulative()))
            for i in range(max(distance, 1)):
                near = network.neighbours(v)
                index, uniform = split(word(h, HOP + i), len(near))
                u = int(near[index])
                if not distance and not uniform * ratio[v] < ratio[u]:
                    u = v
                hops, transfers, v = hops + 1, transfers + (u != v), u
            if v in HOLDERS:
                break
            k, passes = k + 1, passes + 1
            h = word(own, PASS + k)
    return walk, v, hops, transfers, passes


@pytest.mark.parametrize(
    "backend", mostly_more(["reference", "kernel"], lambda name: name == "reference")
)
@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.weight_rw(), lw.mhlj(0.4)], ids=lambda design: design.name
)
def test_the_walk_is_the_one_by_hand(design, backend):
    network, problem = the_network(), idle_problem()
    size = 0.3 / design.bind(network, problem).largest
    trace = lw.run(
        network, problem, design, steps=400, step_size=size, seed=11, start=5, record_walk=True,
        backend=backend,
    )  # fmt: skip
    L = problem.smoothness
    scores = np.full(10, 1.0 if design.name == "UnifRW" else L.mean())
    if design.name != "UnifRW":
        scores[list(HOLDERS)] = L
    walk, last, hops, transfers, passes = by_hand(network, scores, design.jump, 11, 5, 400)
    assert passes > 100
    assert trace.walk[0].tolist() == walk
    assert (trace.final_node[0], trace.hops[0, -1], trace.transfers[0, -1]) == (
        last, hops, transfers,
    )  # fmt: skip
    assert trace.bytes[0, -1] == transfers * 16
    # the model, from the samples alone: w(v) is the mean score of nodes with data over the own one
    features, targets, node = samples()
    own = scores[list(HOLDERS)]
    x = np.zeros(2)
    for v in walk:
        a, y = features[node == v], targets[node == v]
        gradient = 2 * (a @ x - y) @ a / len(y)
        x = x - size * (own.mean() / scores[v]) * gradient
    assert np.allclose(trace.model[0], x, rtol=1e-9, atol=1e-12)
    assert trace.visits[0].tolist() == np.bincount(walk, minlength=10).tolist()
    assert trace.target[[1, 3, 4, 6, 9]].tolist() == [0.0] * 5
    assert trace.target.sum() == pytest.approx(1.0)
    assert np.allclose(trace.target[list(HOLDERS)], own / own.sum())


@pytest.mark.parametrize("kind", [lw.LeastSquares, lw.Logistic])
def test_f_and_its_constants_are_those_of_the_nodes_with_data(kind):
    features, targets, node = samples()
    if kind is lw.Logistic:
        targets = (targets > 0).astype(float)
    whole = kind(features, targets, node=np.searchsorted(HOLDERS, node), ridge=0.1)
    problem = kind(features, targets, node=node, ridge=0.1, idle="pass")
    assert problem.holders.tolist() == list(HOLDERS)
    assert problem.n == whole.n == 5
    x = np.array([0.3, -0.2])
    parts = []
    for v in HOLDERS:
        a, y = features[node == v], targets[node == v]
        z = a @ x
        losses = (y - z) ** 2 if kind is lw.LeastSquares else np.log1p(np.exp(z)) - y * z
        parts.append(losses.mean() + 0.05 * (x @ x))
    assert problem.loss(x) == pytest.approx(np.mean(parts), rel=1e-12)
    for name in ("smoothness", "local_strong_convexity", "optimum", "sigma_star2", "sigma_max2"):
        assert np.array_equal(getattr(problem, name), getattr(whole, name)), name
    assert problem.fingerprint() != whole.fingerprint()


def test_without_idle_nodes_nothing_changes():
    network, rng = the_network(), np.random.default_rng(0)
    features, targets = rng.normal(size=(10, 3)), rng.normal(size=10)
    plain = lw.LeastSquares(features, targets)
    passing = lw.LeastSquares(features, targets, idle="pass")
    assert plain.fingerprint() == passing.fingerprint()
    one, other = (
        lw.run(network, problem, lw.mhlj(), steps=200, step_size=0.01, replicas=9, record_walk=True)
        for problem in (plain, passing)
    )
    for name in ("walk", "model", "hops", "visits", "target", "distance2", "loss"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.more
@pytest.mark.parametrize(
    "design", [lw.iid_uniform(), lw.iid_weighted()], ids=["uniform", "weighted"]
)
def test_independent_draws_choose_nodes_with_data_only(design):
    network, problem = the_network(), idle_problem()
    kernel, reference = (
        lw.run(network, problem, design, steps=3000, step_size=0.01, backend=name, record_walk=True)
        for name in ("kernel", "reference")
    )
    assert np.array_equal(kernel.walk, reference.walk)
    assert (kernel.hops[0] == kernel.step).all()
    assert set(kernel.walk[0].tolist()) == set(HOLDERS)
    assert np.array_equal(
        lw.walk(network, design, problem=problem, steps=3000, record_walk=True).walk, kernel.walk
    )


def test_walks_alone_are_those_of_run():
    network, problem = the_network(), idle_problem()
    for design in (lw.mhlj(0.3), lw.mhda(), lw.rotor_router()):
        run = lw.run(
            network, problem, design, steps=300, step_size=0.01, replicas=2, record_walk=True,
            backend="reference",
        )  # fmt: skip
        alone = lw.walk(
            network, design, problem=problem, steps=300, replicas=2, record_walk=True,
            observable=np.arange(10),
        )  # fmt: skip
        assert np.array_equal(run.walk, alone.walk)
        assert np.array_equal(run.hops[:, -1], alone.hops)
        assert np.array_equal(run.transfers[:, -1], alone.transfers)
        assert np.array_equal(run.target, alone.target)


@pytest.mark.usefixtures("reference_only")
def test_starts_are_nodes_with_data():
    network, problem = the_network(), idle_problem()
    for start in ("uniform", "target", "stationary"):
        trace = lw.run(
            network, problem, lw.mhlj(), steps=1, step_size=0.01, replicas=400, start=start,
            record_walk=True,
        )  # fmt: skip
        assert set(trace.walk[:, 0].tolist()) <= set(HOLDERS)
        if start == "uniform":
            shares = np.bincount(trace.walk[:, 0], minlength=10)[list(HOLDERS)] / 400
            assert np.abs(shares - 0.2).max() < 0.12  # six standard deviations
    with pytest.raises(lw.InvalidParameter, match="got node 3, which has none; use 'uniform', or"):
        lw.run(network, problem, lw.mhlj(), steps=1, step_size=0.01, start=3)
    with pytest.raises(lw.InvalidParameter, match="got node 9, which has none"):
        lw.run(network, problem, lw.mhlj(), steps=1, step_size=0.01, replicas=2, start=[0, 9])


def test_saga_averages_over_the_nodes_with_data():
    """The table's mean divides by 5 and not by 10: by hand, from the walk."""
    network, problem = the_network(), idle_problem()
    trace = lw.run(
        network, problem, lw.unif_rw(), steps=60, step_size=0.01, update=lw.saga(),
        record_walk=True, backend="reference",
    )  # fmt: skip
    features, targets, node = samples()
    x, table = np.zeros(2), {v: np.zeros(2) for v in HOLDERS}
    for v in trace.walk[0].tolist():
        a, y = features[node == v], targets[node == v]
        gradient = 2 * (a @ x - y) @ a / len(y)
        mean = sum(table.values()) / 5
        x = x - 0.01 * (gradient - table[v] + mean)
        table[v] = gradient
    assert np.allclose(trace.model[0], x, rtol=1e-9)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ([0, 1, 3, 3], "node 2 has no sample; number the nodes 0 to 2 without holes"),
        ([0, 1, 3, 2**40], "node must be below 2147483647, got 1099511627776 at position 3"),
        ([0, 1, -3, 2], "node must be at least 0, got -3 at position 2"),
    ],
)
def test_nodes_that_are_refused(node, said):
    idle = "error" if "hole" in said else "pass"
    with pytest.raises(lw.InvalidData, match=said):
        lw.LeastSquares(np.ones((4, 1)), np.arange(4.0), node=node, idle=idle)


@pytest.mark.usefixtures("reference_only")
def test_errors_name_a_remedy_that_works():
    features, targets, node = samples()
    with pytest.raises(lw.InvalidData, match="pass the model on with idle='pass'"):
        lw.LeastSquares(features, targets, node=node)
    short = lw.LeastSquares(features[:5], targets[:5])
    with pytest.raises(lw.InvalidParameter, match=r"10 nodes but problem has 5.*idle='pass'"):
        lw.run(the_network(), short, lw.unif_rw(), steps=1, step_size=0.01)
    mended = lw.LeastSquares(features[:5], targets[:5], idle="pass")
    assert lw.run(the_network(), mended, lw.unif_rw(), steps=1, step_size=0.01).visits.sum() == 1
    with pytest.raises(lw.InvalidParameter, match="idle must be one of 'error', 'pass'"):
        lw.LeastSquares(features, targets, node=node, idle="skip")
    with pytest.raises(
        lw.InvalidParameter, match="network has 5 nodes but problem has data of nod"
    ):
        lw.run(lw.ring(5), idle_problem(), lw.unif_rw(), steps=1, step_size=0.01)


def test_a_problem_of_ones_own_says_which_nodes_hold_data():
    class Bowls:
        n, dim, smoothness, optimum = 2, 1, np.ones(2), np.array([1.0])
        holders = np.array([1, 3])

        def local_loss(self, v, x):
            return 0.5 * float((x[0] - 2 * v) ** 2)

        def local_gradient(self, v, x):
            return x - 2 * v

    trace = lw.run(lw.ring(4), Bowls(), lw.unif_rw(), steps=500, step_size=0.1, record_walk=True)
    assert set(trace.walk[0].tolist()) == {1, 3}
    wrong = Bowls()
    wrong.holders = np.array([3, 1])
    with pytest.raises(lw.InvalidData, match="ascending order"):
        lw.run(lw.ring(4), wrong, lw.unif_rw(), steps=1, step_size=0.1)
    wrong.holders = np.array([1, 2, 3])
    with pytest.raises(lw.InvalidData, match="one node number for each of its 2 nodes"):
        lw.run(lw.ring(4), wrong, lw.unif_rw(), steps=1, step_size=0.1)


def test_a_state_file_gives_the_same_bits(tmp_path):
    network, problem = the_network(), idle_problem()
    arguments = {"step_size": 0.01, "replicas": 2, "record_walk": True, "update": lw.saga()}
    arguments["backend"] = "reference"
    whole = lw.run(network, problem, lw.mhlj(), steps=300, **arguments)
    state = tmp_path / "state"
    lw.run(network, problem, lw.mhlj(), steps=300, resume=state, **arguments)
    again = lw.run(network, problem, lw.mhlj(), steps=300, resume=state, **arguments)
    for name in ("walk", "model", "hops", "transfers"):
        assert np.array_equal(getattr(whole, name), getattr(again, name)), name


def test_a_walk_that_never_reaches_data_is_refused(monkeypatch):
    class Stay(lw.Walk):
        name = "stay"

        def decide(self, view, memory, words):
            return lw.Decision(1 if view.node == 0 else view.node)

    monkeypatch.setattr("levywalk.step.MOST_PASSES", 50)
    problem = lw.LeastSquares(np.ones((2, 1)), [0.0, 1.0], node=[0, 2], idle="pass")
    with pytest.raises(lw.InvalidParameter, match="50 times without reaching a node with data"):
        lw.run(lw.path(3), problem, Stay(), steps=5, step_size=0.1, start=0)


@pytest.mark.parametrize("method", ["dsgd", "extra", "tracking", "accelerated"])
def test_in_gossip_a_node_without_data_is_one_whose_loss_is_zero(method):
    features, targets, node = samples()
    others = [v for v in range(10) if v not in HOLDERS]
    zeros = lw.LeastSquares(
        np.concatenate([features, np.full((len(others), 2), 1e-100)]),  # zeros are refused
        np.concatenate([targets, np.zeros(len(others))]),
        node=np.concatenate([node, others]),
    )
    found = lw.gossip(the_network(), idle_problem(), method, iterations=60)
    other = lw.gossip(the_network(), zeros, method, iterations=60)
    assert found.provenance["step_size"] == other.provenance["step_size"]
    np.testing.assert_allclose(found.model, other.model, rtol=1e-12)
    np.testing.assert_allclose(found.distance2, other.distance2, rtol=1e-9)
    np.testing.assert_allclose(0.5 * found.loss, other.loss, rtol=1e-12)  # half of them have data


@pytest.mark.parametrize(
    "method", mostly_more(["extra", "tracking", "accelerated"], lambda method: method == "extra")
)
def test_gossip_over_nodes_without_data_reaches_the_minimiser(method):
    trace = lw.gossip(the_network(), idle_problem(ridge=2.0), method, iterations=3_000)
    assert trace.distance2[0, -1] < 1e-16 * trace.distance2[0, 0]


def test_what_the_error_of_bounds_names_works():
    network, problem = the_network(), idle_problem(ridge=0.1)
    with pytest.raises(lw.InvalidParameter, match=r"use lw\.error_floor or lw\.predict"):
        lw.bounds(network, problem, lw.mhlj(), steps=10, step_size=0.01)
    assert lw.error_floor(network, problem, lw.mhlj(), step_size=0.01).floor > 0.0
    assert lw.predict(network, problem, lw.mhlj(), accuracy=0.1).steps > 0.0
