"""Trials: what a pair takes on the problem itself, and what a recommendation makes of it."""

from __future__ import annotations

import networkx as nx
import pytest

import levywalk as lw
from levywalk.league.trial import (
    FEWEST_NODES,
    LAPS,
    MOST_WORK,
    PairTrial,
    _safest,
    can_be_tried,
    try_pair,
)

N = 100
RING = lw.ring(N)
DATA = lw.heterogeneous(N, dim=4, important=1, seed=2)


@pytest.mark.more
def test_one_lap_of_a_ring_is_what_the_newton_token_takes():
    # Exact once every node was seen, whatever the draws: one lap; a question and an answer for
    # each of the two neighbours.
    found = try_pair(RING, DATA, lw.oldest_neighbour(), lw.newton_token(), 1e-18, seed=3)
    assert found is not None
    assert N - 2 <= found.steps <= N
    assert found.transfers == found.steps
    assert found.small_messages == 4.0 * found.steps
    assert found.factor == 1.0


@pytest.mark.more
def test_a_step_size_of_a_trial_reaches_the_accuracy_in_other_walks():
    found = try_pair(RING, DATA, lw.oldest_neighbour(), lw.point_saga(), 1e-6, seed=3)
    assert found is not None
    size = found.factor * lw.point_saga().default_step_size(1.0, DATA)
    trace = lw.run(
        RING, DATA, lw.oldest_neighbour(), update=lw.point_saga(), step_size=size, seed=11,
        steps=LAPS * N, replicas=4, record_every=1,
    )  # fmt: skip
    assert found.steps / 1.5 < trace.steps_to(1e-6) < 1.5 * found.steps


def test_a_step_size_at_its_limit_is_not_taken():
    small, middle, large = (
        PairTrial(f, s, s, 0.0) for f, s in ((1.0, 900.0), (2.0, 500.0), (4.0, 300.0))
    )
    assert _safest([small, middle, large, None]) is middle  # eight times does not get there
    assert _safest([None, small, None, None]) is small
    assert _safest([None, None]) is None


@pytest.mark.more
def test_what_is_too_long_for_a_trial_is_estimated_longer_than_it():
    assert try_pair(RING, DATA, lw.mhda(), lw.point_saga(), 1e-30, seed=0) is None
    best = lw.recommended(RING, DATA, allow=("mhda", "point_saga"), accuracy=1e-30)
    assert best.estimate >= LAPS * N
    assert "is estimated to take" in best.why


@pytest.mark.more
def test_a_recommendation_says_whether_it_was_tried():
    assert "in a trial of 4 walks" in lw.recommended(RING, DATA).why
    assert "is estimated to take" in lw.recommended(RING, DATA, trial=False).why
    small = lw.heterogeneous(FEWEST_NODES - 1, dim=4, seed=1)
    assert not can_be_tried(small)
    wide = lw.homogeneous(N, dim=int(MOST_WORK) // N + 1, seed=1)
    assert not can_be_tried(wide)


@pytest.mark.more
def test_what_did_not_get_there_in_its_trial_comes_last():
    # Along least-used edge Point-SAGA does not get there on a ring of cliques; its estimate in
    # seconds is short, because it asks nobody.
    network = lw.as_network(nx.ring_of_cliques(12, 10))
    data = lw.heterogeneous(120, dim=4, important=2, seed=3)
    best = lw.recommended(network, data, goal="time", accuracy=1e-3, allow="first-order")
    trace = lw.run(
        network, data, best.design, update=best.update, step_size=best.step_size, seed=7,
        steps=LAPS * 120, replicas=4,
    )  # fmt: skip
    assert (trace.error[:, -1] < 1e-3).all()


@pytest.mark.more
@pytest.mark.parametrize("goal", ["transfers", "time"])
def test_no_other_walk_is_much_better_where_the_rules_were_wrong(goal):
    tree = lw.as_network(nx.from_prufer_sequence([(7 * i * i) % 300 for i in range(298)]))
    data = lw.heterogeneous(300, important=2, seed=1)
    best = lw.recommended(tree, data, goal=goal, allow="first-order")
    taken = {}
    for name in ("oldest_neighbour", "least_used_edge", "depth_first_tour", "mhda"):
        other = lw.recommended(tree, data, goal=goal, allow=("first-order", name))
        for pair in (best, other):
            trace = lw.run(
                tree, data, pair.design, update=pair.update, step_size=pair.step_size,
                steps=60 * 300, replicas=4, seed=5, record_every=50, costs="home-broadband",
            )  # fmt: skip
            at = trace.steps_to(1e-6)
            count = trace.time if goal == "time" else trace.transfers
            taken[pair.pair] = count[:, list(trace.step).index(at)].mean() if at < 1e9 else at
    assert taken[best.pair] <= 1.5 * min(taken.values())
