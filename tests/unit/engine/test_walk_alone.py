"""The walk alone is the walk of a run, and its notes are what numpy finds in it."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from tests.limits import mostly_more

MODULE = import_module("levywalk.engine.walk_alone")
NETWORK = lw.watts_strogatz(40, 4, 0.2)
PROBLEM = lw.heterogeneous(40, dim=3, important=2)
DESIGNS = {
    "SimpleRW": lw.simple_rw(),
    "UnifRW": lw.unif_rw(),
    "WeightRW": lw.weight_rw(),
    "MHLJ": lw.mhlj(),
    "MHLJ, scheduled": lw.mhlj(schedule=lw.Decaying(0.9, 30)),
    "far jumps": lw.Design(target="degree", jump=lw.JumpLaw(0.5, lw.PowerLaw(1.0, 9))),
    "i.i.d.": lw.iid_weighted(),
}
VALUES = np.random.default_rng(0).normal(size=40)


def walked(design, **arguments):
    options = {
        "problem": PROBLEM,
        "steps": 500,
        "replicas": 11,
        "seed": 3,
        "record_first": True,
        "record_walk": True,
        "observable": VALUES,
    }
    return lw.walk(NETWORK, design, **(options | arguments))


@pytest.mark.parametrize(
    "name", mostly_more(DESIGNS, lambda name: name in ("MHLJ, scheduled", "WeightRW"))
)
def test_it_is_the_walk_of_the_oracle(name):
    walks = walked(DESIGNS[name])
    trace = lw.run(
        NETWORK,
        PROBLEM,
        DESIGNS[name],
        steps=500,
        step_size=1e-3,
        replicas=11,
        seed=3,
        record_walk=True,
        backend="reference",
    )
    for field in ("walk", "visits", "final_node", "target"):
        assert np.array_equal(getattr(walks, field), getattr(trace, field)), field
    assert np.array_equal(walks.hops, trace.hops[:, -1])
    assert np.array_equal(walks.transfers, trace.transfers[:, -1])
    assert np.array_equal(walks.longest_dwell, trace.longest_dwell()[0])


@pytest.mark.parametrize("name", mostly_more(DESIGNS, lambda name: "i.i.d." not in name))
@pytest.mark.parametrize("piece", [1 << 16, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_its_notes_are_what_numpy_finds_in_the_walk(name, piece, threads, monkeypatch):
    monkeypatch.setattr(MODULE, "_PIECE", piece)
    walks = walked(DESIGNS[name], threads=threads)
    for r, walk in enumerate(walks.walk):
        begins = np.append(0, np.flatnonzero(np.diff(walk)) + 1)
        lengths = np.diff(np.append(begins, len(walk)))
        assert walks.stays[r] == len(begins)
        assert walks.longest_dwell[r] == lengths.max()
        assert walks.longest_dwell_node[r] == walk[begins[lengths.argmax()]]
        first = np.full(40, -1)
        nodes, places = np.unique(walk, return_index=True)
        first[nodes] = places
        assert np.array_equal(walks.first_visit[r], first)
        assert np.array_equal(walks.visits[r], np.bincount(walk, minlength=40))
    assert walks.mean_dwell == 500 * 11 / walks.stays.sum()
    seen = VALUES[walks.walk]
    batches = np.add.reduceat(seen, np.append(0, np.cumsum(walks.batches)[:-1]), axis=1)
    assert walks.batches.sum() == 500
    centred = walks.batch_sums + walks.observable_middle * walks.batches
    assert np.allclose(centred, batches, rtol=0, atol=1e-12)
    assert np.isclose(walks.observable_variance, seen.var(), rtol=1e-10)
    assert np.isclose(walks.correlation().mean, seen.mean(), rtol=0, atol=1e-12)


def test_notes_that_are_not_asked_for_are_not_there():
    walks = lw.walk(NETWORK, lw.unif_rw(), steps=50, record_visits=False, record_dwell=False)
    fields = ("visits", "walk", "first_visit", "stays", "longest_dwell", "batch_sums")
    assert all(getattr(walks, field) is None for field in fields)
    for call in (walks.share, walks.hitting_times, walks.correlation, lambda: walks.mean_dwell):
        with pytest.raises(lw.InvalidParameter, match=r"record_|observable"):
            call()
    assert walks.summary()["hops_per_step"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"design": lw.weight_rw()}, "problem must be given: WeightRW"),
        ({"design": lw.mixed_rw(0.5)}, "problem must be given"),
        ({"design": lw.switching(lw.mhlj(), lw.unif_rw())}, "switching design needs a model"),
        ({"design": "mhlj"}, "design must be a Walk"),
        ({"network": "ring"}, "network must be a levywalk Network"),
        ({"problem": lw.homogeneous(9)}, "network has 40 nodes but problem has 9"),
        ({"steps": 0}, "steps must be"),
        ({"replicas": 0}, "replicas must be"),
        ({"start": 40}, "start must lie in"),
        ({"start": "here"}, "start must be"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads must be"),
        ({"observable": [1.0, 2.0]}, r"one number per node \(40\)"),
        ({"observable": ["a"] * 40}, "observable must be numbers"),
        ({"observable": [np.nan] * 40}, "observable must be finite"),
        ({"steps": 10**12, "record_walk": True}, "walk of shape"),
        ({"replicas": 10**12}, "would take"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    given = {"network": NETWORK, "design": lw.unif_rw(), "steps": 10} | arguments
    with pytest.raises(lw.LevywalkError, match=message):
        lw.walk(given.pop("network"), given.pop("design"), **given)


def test_a_network_in_pieces_is_refused():
    network = lw.Network.from_edges([(0, 1), (2, 3)], n=4)
    with pytest.raises(lw.NotConnected):
        lw.walk(network, lw.simple_rw(), steps=10)


def test_starts_are_those_of_a_run():
    for start in ("uniform", "target", "stationary", 7, list(range(11))):
        walks = walked(lw.mhlj(), start=start)
        trace = lw.run(
            NETWORK,
            PROBLEM,
            lw.mhlj(),
            steps=1,
            step_size=1e-3,
            replicas=11,
            seed=3,
            start=start,
            record_walk=True,
            backend="reference",  # the starts are drawn before a backend is asked
        )
        assert np.array_equal(walks.walk[:, 0], trace.walk[:, 0]), start


def test_an_observable_that_does_not_vary_has_no_memory_to_measure():
    walks = lw.walk(NETWORK, lw.unif_rw(), steps=500, observable=np.ones(40))
    with pytest.raises(lw.InvalidParameter, match="must not be the same"):
        walks.correlation()
    with pytest.raises(lw.InvalidParameter, match="at least two batches"):
        lw.walk(NETWORK, lw.unif_rw(), steps=1, replicas=5, observable=VALUES).correlation()
    assert walks.summary()["correlation"] is None


def test_the_memory_is_the_same_whatever_is_added_to_the_observable():
    plain, shifted = (
        walked(lw.unif_rw(), observable=VALUES + shift).correlation() for shift in (0.0, 1e12)
    )
    assert np.isclose(plain.time, shifted.time, rtol=1e-3)
    assert np.isclose(shifted.mean - 1e12, plain.mean, atol=1e-3)


@pytest.mark.more
def test_a_million_walkers_need_no_checkpoints():
    walks = lw.walk(lw.ring(50), lw.unif_rw(), steps=3, replicas=100_000, record_visits=False)
    assert walks.hops.tolist() == [3] * 100_000


def test_ctrl_c_keeps_what_was_done(monkeypatch):
    monkeypatch.setattr(MODULE, "_PIECE", 10)
    original = MODULE.StepLimit.until
    asked = []

    def until(self, t, goal):
        asked.append(t)
        if len(asked) == 5:
            self.ctrl_c.requested = True
        return original(self, t, goal)

    monkeypatch.setattr(MODULE.StepLimit, "until", until)
    with pytest.raises(lw.Interrupted) as raised:
        walked(lw.unif_rw(), threads=2)
    monkeypatch.undo()
    walks = raised.value.partial
    assert walks.provenance["interrupted"]
    assert 0 < walks.steps < 500
    whole = walked(lw.unif_rw())
    assert np.array_equal(walks.walk, whole.walk[:, : walks.steps])
    assert (walks.visits.sum(axis=1) == walks.steps).all()
    assert walks.batches.sum() <= walks.steps
    ended = int(walks.batches.sum())
    assert np.isclose(
        walks.correlation().mean, VALUES[walks.walk[:, :ended]].mean(), rtol=0, atol=1e-12
    )
