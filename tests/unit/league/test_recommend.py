"""Recommendations: they run, obey what is allowed, and choose what the estimates say."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from benchmarks.privacy_digits import Instance

import levywalk as lw
from levywalk.league.pilot import pilot
from levywalk.league.private_choice import PRIVATE_WALKS
from levywalk.league.recommend import GOALS, WALKS

MODULE = import_module("levywalk.league.pilot")
RING = lw.ring(60)
DATA = lw.heterogeneous(60, dim=4, important=1, seed=2)


@pytest.mark.more
def test_one_lap_of_a_ring():
    best = lw.recommended(RING, DATA)
    assert best.update.name == "newton_token"
    trace = lw.run(
        RING, DATA, best.design, update=best.update, step_size=best.step_size, steps=60, replicas=3
    )
    assert (trace.error[:, -1] < 1e-6).all()
    assert best.estimate == trace.transfers[0, -1] - 1  # the last update is before the last move


@pytest.mark.more
@pytest.mark.parametrize("goal", GOALS)
def test_a_first_order_recommendation_reaches_its_accuracy(goal):
    network, problem = lw.erdos_renyi(60, 0.2, seed=1), lw.heterogeneous(60, dim=4, seed=3)
    best = lw.recommended(network, problem, goal=goal, accuracy=1e-6, allow="first-order")
    assert best.update.name == "point_saga"
    trace = lw.run(
        network, problem, best.design, update=best.update, step_size=best.step_size, steps=3000
    )
    assert trace.error[0, -1] < 1e-6


def test_no_pair_is_estimated_to_be_better():
    best = lw.recommended(RING, DATA, goal="bytes", accuracy=1e-3)
    assert best.others
    assert best.estimate <= min(best.others.values())


@pytest.mark.more
def test_questions_count_for_time_only():
    dense = lw.complete(40)
    problem = lw.homogeneous(40, dim=3)
    allow = ("point_saga", "oldest_neighbour", "least_used_edge")
    few = lw.recommended(dense, problem, goal="transfers", allow=allow)
    fast = lw.recommended(dense, problem, goal="time", allow=allow)
    assert few.pair == "oldest_neighbour+point_saga"
    assert fast.pair == "least_used_edge+point_saga"


def test_large_models_send_fewer_bytes_without_second_derivatives():
    network = lw.ring(80)
    small, large = (lw.homogeneous(80, dim=dim, seed=1) for dim in (2, 60))
    assert lw.recommended(network, small, goal="bytes").update.name == "newton_token"
    assert lw.recommended(network, large, goal="bytes").update.name == "point_saga"


def test_allow_is_obeyed_and_checked():
    best = lw.recommended(RING, DATA, allow=["mhda", "saga"])
    assert best.pair == "mhda+saga"
    with pytest.raises(lw.InvalidParameter, match="allow must name 'first-order', walks"):
        lw.recommended(RING, DATA, allow=["unif_rw"])
    with pytest.raises(lw.InvalidParameter, match="goal must be one of"):
        lw.recommended(RING, DATA, goal="joules")
    with pytest.raises(lw.InvalidParameter, match="accuracy must be a number in"):
        lw.recommended(RING, DATA, accuracy=2.0)


def test_a_problem_without_samples_gets_saga():
    class Own:
        n, dim, smoothness = 60, 2, np.ones(60)
        optimum = np.full(2, 29.5)

        def local_loss(self, v, x):
            return 0.5 * float(((x - v) ** 2).sum())

        def local_gradient(self, v, x):
            return x - v

    best = lw.recommended(RING, Own())
    assert best.update.name == "saga"
    with pytest.raises(lw.InvalidParameter, match="allow must name an update that fits"):
        lw.recommended(RING, Own(), allow="newton_token")


def test_why_says_what_the_step_size_is():
    least_squares = lw.recommended(RING, DATA, allow=("first-order", "oldest_neighbour"))
    default = lw.point_saga().default_step_size(1.0, DATA)
    assert least_squares.step_size == pytest.approx(3.0 * default)
    assert "3 times Defazio's" in least_squares.why
    labels = (DATA.targets > 0).astype(int)
    logistic = lw.Logistic(DATA.features, labels, ridge=0.01)
    other = lw.recommended(RING, logistic, allow=("first-order", "oldest_neighbour"))
    assert other.step_size == pytest.approx(1.4 * lw.point_saga().default_step_size(1.0, logistic))


@pytest.mark.more
def test_the_pilot_is_the_walk_itself():
    network = lw.watts_strogatz(30, 4, 0.2, seed=1)
    seen = pilot(network, lw.least_used_edge(), 3)
    record = lw.walk(
        network, lw.least_used_edge(), steps=60 * 30, replicas=2, seed=3, record_first=True
    )
    assert seen.cover == np.sort(record.first_visit, axis=1)[:, -1].mean()
    assert seen.until(0.5) == np.sort(record.first_visit, axis=1)[:, 15].mean()
    asked = pilot(network, lw.oldest_neighbour(), 3)
    counted = lw.walk(network, lw.oldest_neighbour(), steps=1800, replicas=2, seed=3)
    assert asked.small_messages(1800.0) == counted.small_messages.mean()
    assert asked.small_messages(3600.0) == pytest.approx(2 * counted.small_messages.mean(), rel=0.1)


def test_a_small_pilot_compiles_nothing(monkeypatch):
    asked = []

    def run(*arguments, **options):
        asked.append(options["backend"])
        return lw.run(*arguments, **options | {"backend": "reference"})

    monkeypatch.setattr(MODULE, "run", run)
    monkeypatch.setattr(MODULE, "_RECENT", {})
    pilot(lw.ring(9), lw.oldest_neighbour(), 0)
    assert asked == ["reference"]
    monkeypatch.setattr(MODULE, "_FEW_STEPS", 60 * 9 - 1)
    pilot(lw.ring(9), lw.oldest_neighbour(), 1)
    assert asked == ["reference", "auto"]


@pytest.mark.more
@pytest.mark.parametrize("name", WALKS)
def test_a_pilot_in_python_is_the_compiled_one(name, monkeypatch):
    network, found = lw.watts_strogatz(30, 4, 0.2, seed=1), []
    for few in (60 * 30, 0):
        monkeypatch.setattr(MODULE, "_RECENT", {})
        monkeypatch.setattr(MODULE, "_FEW_STEPS", few)
        found.append(pilot(network, WALKS[name](), 3))
    here, compiled = found
    for field in ("first", "marks", "small"):
        assert np.array_equal(getattr(here, field), getattr(compiled, field)), field
    assert (here.rare_gap, here.repeats) == (compiled.rare_gap, compiled.repeats)


@pytest.mark.parametrize("scores", ["public", "released"])
def test_under_privacy_the_recommendation_is_one_that_privacy_accepts(scores):
    network, problem = lw.grid(5, 5), lw.heterogeneous(25, important=1, seed=1)
    more = {"score_low": 1.0, "score_high": 500.0, "score_noise": 5.0}
    privacy = lw.Privacy(
        clip=2.0, noise=5.0, scores=scores, **(more if scores == "released" else {})
    )
    best = lw.recommended(network, problem, privacy=privacy)
    assert best.pair in ("unif_rw+sgd", "mhda+sgd")
    assert "the noise grows with the updates of the node" in best.why
    trace = lw.run(
        network,
        problem,
        best.design,
        update=best.update,
        step_size=best.step_size,
        steps=20,
        privacy=privacy,
    )
    assert trace.provenance["privacy"]["updates_at_cap"] == 20
    # The step size of released scores is that of the noisy ones.
    assert (best.step_size == 1.0 / problem.smoothness.max()) == (scores == "public")


def test_private_scores_and_revealing_updates_are_refused():
    network, problem = lw.ring(8), lw.homogeneous(8)
    private = lw.Privacy(clip=2.0, noise=5.0)
    with pytest.raises(lw.InvalidParameter, match="scores='public'"):
        lw.recommended(network, problem, privacy=private)
    public = lw.Privacy(clip=2.0, noise=5.0, scores="public")
    with pytest.raises(lw.InvalidParameter, match="under privacy, got 'newton_token'"):
        lw.recommended(network, problem, privacy=public, allow="newton_token")
    named = lw.recommended(network, problem, privacy=public, allow=["saga", "unif_rw"])
    assert named.pair == "unif_rw+saga"


def test_the_recommendation_under_privacy_needs_less_noise_than_walks_that_remember_visits():
    """The most visited node decides about the noise: a walk that visits a star's leaves as often as
    its centre has the least.
    """
    most = {
        name: pilot(lw.star(12), make(), 0).most_visits
        for name, make in {**PRIVATE_WALKS, "oldest": lw.oldest_neighbour}.items()
    }
    public = lw.Privacy(clip=2.0, noise=5.0, scores="public")
    best = lw.recommended(lw.star(12), lw.homogeneous(12), privacy=public)
    assert most[best.walk] == min(most.values()) < 2.0 < most["oldest"]
    assert np.isnan(best.estimate)
    assert best.others == {}


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:problem has no optimum")
def test_what_is_recommended_under_privacy_beats_saga():
    """On digits, with noise for ε = 4, at the best of three step sizes each."""
    instance = Instance.of(7)
    privacy = lw.Privacy.calibrated(clip=0.5, budget=4.0, updates=150, scores="public")
    best = lw.recommended(instance.network, instance.problem, privacy=privacy)
    sgd, remembering = (
        max(instance.reached(best.design, update, privacy, size)[0] for size in (0.1, 0.3, 1.0))
        for update in (best.update, lw.saga())
    )
    assert sgd > remembering + 0.05
