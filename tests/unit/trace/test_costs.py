"""Costs: the axis of time against sums over the recorded walk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import Domain, Key, Words, keys
from levywalk.engine.bind import bind
from levywalk.engine.gossip import gossip_time
from levywalk.engine.reference import ask_nodes
from levywalk.memory import NodeMemory
from levywalk.step import Travelling, step
from tests.limits import mostly_more

NETWORK, PROBLEM = lw.watts_strogatz(30, 4, 0.2, seed=3), lw.heterogeneous(30, dim=3, seed=2)
FACTORS = 1.0 + np.arange(30) % 5
COSTS = lw.Costs(compute=0.3, latency=0.07, bandwidth=100.0, per_node=FACTORS)
GIVEN = {"steps": 400, "step_size": 0.001, "seed": 5}


def brute_force(design, update, costs, factors, steps, replica, marks, on_link=lambda u, v: 1.0):
    """Walk hop by hop with the one step, and add up what each message and update takes."""
    method, sites = bind(NETWORK, PROBLEM, design, update, step_size=0.001)
    words_of = keys(5, Domain.WALK, range(replica + 1))[replica]
    key = Key(int(words_of[0]), int(words_of[1]))
    trace = lw.run(
        NETWORK,
        PROBLEM,
        design,
        update=update,
        backend="reference",
        replicas=replica + 1,
        record_walk=True,
        **GIVEN,
    )
    v = int(trace.walk[replica, 0])
    token = Travelling(np.zeros(3), method.first_memory())
    clock, found = 0.0, {0: 0.0}
    memory = _AllMemory(method)
    for t in range(steps):
        clock += costs.compute * factors[v]
        while True:
            site = sites(v)
            memory.attach(site)
            before = token.small_messages
            token, to = step(site, token, Words(key, t))
            asked = token.small_messages - before
            if asked:  # the walks here that ask, ask all neighbours, and all of them answer
                near = [int(u) for u in NETWORK.neighbours(v)]
                assert asked == 2 * len(near)
                clock += sum(2 * costs.latency * on_link(v, u) for u in near)
            if to != v:
                size = 8 * 3 + sum(array.nbytes for array in token.memory.values())
                clock += (costs.latency + size / costs.bandwidth) * on_link(v, to)
            v = to
            if not token.distance:
                break
        found[t + 1] = clock
    return [found[mark] for mark in marks]


class _AllMemory:
    """The memory of all nodes, as the reference backend keeps it."""

    def __init__(self, method):
        self.all = NodeMemory(
            method.node_memory, 1, PROBLEM.dim, NETWORK.degree, np.ones(30, np.int64)
        )
        self.any = bool(method.node_memory)

    def attach(self, site):
        if self.any:
            site.memory = self.all.at(0, site.node)
            site.ask = partial(ask_nodes, self.all, 0)


METHODS = {
    "jumps": (lw.mhlj(p_jump=0.4), lw.sgd()),
    "stays": (lw.weight_rw(), lw.saga()),
    "questions": (lw.oldest_neighbour(), lw.saga()),
    "large token": (lw.oldest_neighbour(), lw.newton_token()),
}
# The others need compiled loops of their own, or take the same way.
QUICK = [("jumps", "kernel"), ("stays", "reference"), ("questions", "reference")]


@pytest.mark.parametrize(
    "case",
    mostly_more(
        [(name, backend) for name in METHODS for backend in ("kernel", "reference")],
        # a walk that asks has a loop of its own, and so has a large token
        lambda case: (
            case[0] == "jumps" or case in (("stays", "reference"), ("questions", "reference"))
        ),
    ),
    ids="-".join,
)
@pytest.mark.parametrize(
    "per_node",
    [pytest.param(None, marks=pytest.mark.more), FACTORS],
    ids=["alike", "factors"],
)
def test_time_is_the_sum_over_the_walk(case, per_node):
    (design, update), backend = METHODS[case[0]], case[1]
    costs = lw.Costs(compute=0.3, latency=0.07, bandwidth=100.0, per_node=per_node)
    trace = lw.run(
        NETWORK,
        PROBLEM,
        design,
        update=update,
        backend=backend,
        replicas=3,
        costs=costs,
        record_every=37,
        **GIVEN,
    )
    factors = np.ones(30) if per_node is None else FACTORS
    expected = brute_force(design, update, costs, factors, 400, 2, trace.step.tolist())
    np.testing.assert_allclose(trace.time[2], expected, rtol=1e-12)
    assert trace.time.shape == trace.hops.shape


LINKS = {(int(u), int(v)): 1.0 + (u * v) % 7 for u in range(30) for v in NETWORK.neighbours(u)
         if u < v and (u + v) % 3}  # fmt: skip


@pytest.mark.parametrize(
    ("design", "update"),
    [
        (lw.mhlj(p_jump=0.4), lw.sgd()),
        (lw.weight_rw(), lw.saga()),
        pytest.param(lw.oldest_neighbour(), lw.newton_token(), marks=pytest.mark.more),
    ],
    ids=["jumps", "stays", "questions"],
)
@pytest.mark.parametrize(
    "per_node",
    [pytest.param(None, marks=pytest.mark.more), FACTORS],
    ids=["alike", "factors"],
)
def test_time_on_links_that_differ_is_the_sum_over_the_hops(design, update, per_node):
    costs = lw.Costs(0.3, 0.07, 100.0, per_node=per_node, per_link=LINKS)
    given = {"update": update, "replicas": 3, "record_every": 37, **GIVEN}
    trace = lw.run(NETWORK, PROBLEM, design, costs=costs, **given)
    factors = np.ones(30) if per_node is None else FACTORS
    expected = brute_force(
        design, update, costs, factors, 400, 2, trace.step.tolist(),
        lambda u, v: LINKS.get((min(u, v), max(u, v)), 1.0),
    )  # fmt: skip
    np.testing.assert_allclose(trace.time[2], expected, rtol=1e-12)
    plain = lw.run(NETWORK, PROBLEM, design, backend="reference", **given)
    assert (plain.model == trace.model).all()


def test_links_that_are_all_alike_give_the_time_of_ordinary_ones():
    alike = dict.fromkeys(LINKS, 1.0)
    given = {"replicas": 2, "tokens": 3, **GIVEN}
    one = lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=lw.Costs(0.3, 0.07, 100.0), **given)
    other = lw.Costs(0.3, 0.07, 100.0, per_link=alike)
    two = lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=other, **given)
    np.testing.assert_allclose(one.time, two.time, rtol=1e-12)


def test_a_run_with_links_that_differ_resumes_its_time(tmp_path):
    costs = lw.Costs(0.3, 0.07, 100.0, per_link=LINKS)
    given = {"costs": costs, "replicas": 2, **GIVEN}
    whole = lw.run(NETWORK, PROBLEM, lw.mhlj(), **given)
    lw.run(NETWORK, PROBLEM, lw.mhlj(), **given, resume=tmp_path / "run.npz")
    again = lw.run(NETWORK, PROBLEM, lw.mhlj(), **given, resume=tmp_path / "run.npz")
    assert (again.time == whole.time).all()
    other = {**given, "costs": lw.Costs(0.3, 0.07, 100.0, per_link={**LINKS, (0, 1): 9.0})}
    with pytest.raises(lw.ResumeError, match="costs"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), **other, resume=tmp_path / "run.npz")


def test_a_law_of_slow_links():
    law = lw.Stragglers(share=0.25, factor=4.0, seed=3)
    factors = lw.Costs(1, 1, 1, per_link=law).link_factors(NETWORK.indptr, NETWORK.indices)
    source = np.repeat(np.arange(30), NETWORK.degree)
    by_link = dict(zip(zip(source.tolist(), NETWORK.indices.tolist(), strict=True), factors,
                       strict=True))  # fmt: skip
    assert all(by_link[v, u] == factor for (u, v), factor in by_link.items())
    assert (factors == 4.0).sum() == 2 * round(0.25 * NETWORK.n_edges)
    assert set(factors) == {1.0, 4.0}


def test_gossip_waits_for_the_slowest_link():
    costs = lw.Costs(compute=1.0, latency=2.0, bandwidth=8.0, per_link={(1, 2): 3.0})
    # A message takes 3 s, and 9 s between the nodes 1 and 2.
    times = gossip_time(lw.path(4), costs, 1, 8, np.array([0, 1, 2]))
    assert times.tolist() == [0.0, 10.0, 20.0]
    slow_end = lw.Costs(compute=1.0, latency=2.0, bandwidth=8.0, per_link={(0, 1): 3.0})
    found = gossip_time(lw.path(4), slow_end, 1, 8, np.array([1, 2, 3]))
    by_hand = np.zeros(4)
    for k in range(3):
        by_hand = by_hand + 1.0
        sent = {(0, 1): 9.0, (1, 2): 3.0, (2, 3): 3.0}
        heard = by_hand.copy()
        for (u, v), seconds in sent.items():
            heard[u] = max(heard[u], by_hand[v] + seconds)
            heard[v] = max(heard[v], by_hand[u] + seconds)
        by_hand = heard
        assert found[k] == by_hand.max()


def test_costs_change_nothing_else():
    plain = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=9, **GIVEN)
    timed = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=9, costs=COSTS, **GIVEN)
    assert plain.time is None
    for name in ("step", "distance2", "loss", "transfers", "visits", "model"):
        assert (getattr(plain, name) == getattr(timed, name)).all(), name


def test_time_does_not_depend_on_threads():
    big = {**GIVEN, "steps": 3000, "replicas": 9}
    one = lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=COSTS, threads=1, **big)
    two = lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=COSTS, threads=2, **big)
    assert (one.time == two.time).all()


def test_time_is_saved_and_loaded(tmp_path):
    trace = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=2, costs=COSTS, **GIVEN)
    again = lw.load_trace(trace.save(tmp_path / "trace.nc"))
    assert (again.time == trace.time).all()
    assert again.provenance["costs"]["per_node"]["largest"] == 5.0
    assert "time" in trace.to_dataframe()
    assert trace.summary()["seconds_per_step"] == pytest.approx(trace.time[:, -1].mean() / 400)


def test_time_that_runs_backwards_is_refused(tmp_path):
    trace = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=2, costs=COSTS, **GIVEN)
    trace.time[1, 5] = 1e9
    with pytest.raises(lw.InvalidTrace, match="time"):
        lw.load_trace(trace.save(tmp_path / "trace.nc"))


def test_other_costs_do_not_resume_a_run(tmp_path):
    file = tmp_path / "state.npz"
    whole = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=3, costs=COSTS, resume=file, **GIVEN)
    slower = lw.Costs(compute=0.6, latency=0.14, bandwidth=50.0, per_node=FACTORS)
    for other in (None, slower):
        with pytest.raises(lw.ResumeError, match="costs"):
            lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=3, costs=other, resume=file, **GIVEN)
    again = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=3, costs=COSTS, resume=file, **GIVEN)
    assert (again.time == whole.time).all()


@pytest.mark.parametrize("per_node", [None, FACTORS], ids=["alike", "factors"])
def test_tokens_walk_at_the_same_time(per_node):
    # Without meetings the first token walks as a run of one token, so several can only take longer,
    # and never as long as one after the other.
    costs = lw.Costs(compute=0.3, latency=0.07, bandwidth=100.0, per_node=per_node)
    one = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=4, costs=costs, **GIVEN)
    many = lw.run(NETWORK, PROBLEM, lw.mhlj(), replicas=4, tokens=3, costs=costs, **GIVEN)
    assert many.time.shape == one.time.shape
    assert (many.time >= one.time).all()
    assert (many.time[:, -1] < 1.5 * one.time[:, -1]).all()
    assert (many.time[:, -1] > one.time[:, -1]).any()


def slow_gossip(network, costs, factors, rounds, size, iterations):
    """Follow every node and every message in plain Python."""
    ready = [0.0] * network.n
    message = costs.latency + size / costs.bandwidth
    for _ in range(iterations):
        ready = [t + costs.compute * f for t, f in zip(ready, factors, strict=True)]
        for _ in range(rounds):
            ready = [
                max([ready[v], *(ready[u] + message for u in network.neighbours(v))])
                for v in range(network.n)
            ]
    return max(ready)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("per_node", [None, FACTORS])
def test_gossip_waits_for_the_slowest_neighbour(rounds, per_node):
    costs = lw.Costs(compute=0.3, latency=0.07, bandwidth=100.0, per_node=per_node)
    factors = np.ones(30) if per_node is None else FACTORS
    marks = np.array([0, 1, 2, 7])
    expected = [slow_gossip(NETWORK, costs, factors, rounds, 24, k) for k in marks]
    np.testing.assert_allclose(gossip_time(NETWORK, costs, rounds, 24, marks), expected)


def test_in_gossip_a_node_without_data_only_passes_on():
    costs = lw.Costs(compute=0.3, latency=0.07, bandwidth=100.0, per_node=FACTORS)
    holders, marks = np.arange(0, 30, 7), np.array([0, 1, 2, 7])
    factors = np.where(np.isin(np.arange(30), holders), FACTORS, 0.0)
    expected = [slow_gossip(NETWORK, costs, factors, 1, 24, k) for k in marks]
    np.testing.assert_allclose(gossip_time(NETWORK, costs, 1, 24, marks, holders), expected)


def test_gossip_records_time():
    trace = lw.gossip(NETWORK, PROBLEM, "tracking", iterations=50, costs="mobile")
    per = 0.01 + 0.04 + 2 * 24 / (11.22e6 / 8)  # two vectors in a message
    np.testing.assert_allclose(trace.time[0], trace.step * per)


def test_comparison_and_plot_have_time():
    designs = {"UnifRW": lw.unif_rw(), "MHLJ": lw.mhlj()}
    result = lw.compare(
        NETWORK,
        PROBLEM,
        designs,
        steps=300,
        replicas=2,
        step_size=0.01,
        accuracy=0.5,
        costs="home-broadband",
    )
    trace = result.traces["MHLJ"]
    at = np.searchsorted(trace.step, result.steps_to["MHLJ"])
    assert result.rows["MHLJ"]["time_to_0.5"] == pytest.approx(trace.time[:, at].mean())
    axes = lw.plot(result, x="time")
    assert axes.get_xlabel() == "time (s)"
    assert axes.lines[1].get_xdata()[-1] == pytest.approx(trace.time[:, -1].mean())
    with pytest.raises(lw.InvalidParameter, match="needs runs with costs"):
        lw.plot(lw.run(NETWORK, PROBLEM, lw.mhlj(), **GIVEN), x="time")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: lw.Costs(-1.0, 0.0, 1.0), "compute must be a number at least 0, got -1.0"),
        (lambda: lw.Costs(1.0, 0.0, 0.0), "bandwidth must be a number above 0"),
        (lambda: lw.Costs(1.0, 0.0, 1.0, per_node=[1.0, np.nan]), "per_node must be one finite"),
        (lambda: lw.Stragglers(share=1.5), "share must be a number in"),
        (lambda: lw.Costs(1.0, 0.0, 1.0, per_link=[1.0]), "per_link must be a dict"),
        (lambda: lw.Costs(1.0, 0.0, 1.0, per_link={(0, 1): -1.0}), "per_link must be a dict"),
        (lambda: lw.Costs(1.0, 0.0, 1.0, per_link={(0, 1): 1, (1, 0): 2}), "per_link must be"),
    ],
)
def test_bad_costs_are_refused(make, match):
    with pytest.raises(lw.InvalidParameter, match=match):
        make()


def test_costs_that_do_not_fit_a_run_are_refused():
    with pytest.raises(lw.InvalidParameter, match="one factor for each of the 30 nodes, got 2"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=lw.Costs(1, 1, 1, [1.0, 2.0]), **GIVEN)
    with pytest.raises(lw.InvalidParameter, match="costs must be"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), costs="5G", **GIVEN)
    with pytest.raises(lw.InvalidParameter, match=r"per_link must name links .* got \(0, 15\)"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=lw.Costs(1, 1, 1, per_link={(0, 15): 2.0}),
               **GIVEN)  # fmt: skip
    with pytest.raises(lw.InvalidParameter, match="links that differ"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), backend="kernel",
               costs=lw.Costs(1, 1, 1, per_link=lw.Stragglers()), **GIVEN)  # fmt: skip
    with pytest.raises(lw.InvalidParameter, match="record_visits"):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=COSTS, record_visits=False, **GIVEN)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("mobile", lw.Costs.mobile()),
        ("compute=0.5,latency=0.25, bandwidth=1e3", lw.Costs(0.5, 0.25, 1000.0)),
        ("mobile,latency=0.5", lw.Costs(1e-2, 0.5, 11.22e6 / 8)),
        ("data-centre,share=0.2,factor=3,seed=4",
         lw.Costs.data_centre(per_node=lw.Stragglers(0.2, 3.0, 4))),
        ("compute=1,latency=1,bandwidth=9,link_share=0.5,link_factor=3,link_seed=2",
         lw.Costs(1.0, 1.0, 9.0, per_link=lw.Stragglers(0.5, 3.0, 2))),
    ],
)  # fmt: skip
def test_costs_can_be_written_as_a_text(text, same):
    def times(costs):
        return lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=costs, **GIVEN).time

    assert (times(text) == times(same)).all()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("5G", "costs must be one of .*, or numbers such as compute=0.01,latency=0.02"),
        ("latency=1", "have a number for compute, bandwidth, got 'latency=1'"),
        (
            "mobile,speed=3",
            "made of compute, latency, bandwidth, share, .* got 'speed=3'",
        ),
        ("mobile,latency=soon", "a number for latency, got 'latency=soon'"),
        ("mobile,latency=-1", "latency must be a number at least 0"),
        ("", "costs must be one of"),
    ],
)
def test_wrong_texts_of_costs_are_refused(text, match):
    with pytest.raises(lw.InvalidParameter, match=match):
        lw.run(NETWORK, PROBLEM, lw.mhlj(), costs=text, **GIVEN)


def test_stragglers_are_a_share_of_the_nodes():
    factors = lw.Stragglers(share=0.3, factor=7.0, seed=1).factors(50)
    assert sorted(set(factors.tolist())) == [1.0, 7.0]
    assert (factors == 7.0).sum() == 15
    assert (factors == lw.Stragglers(share=0.3, factor=7.0, seed=1).factors(50)).all()
