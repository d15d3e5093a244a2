"""One instance, measured: the curves are those of a run."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.reproduction import measurement
from levywalk.reproduction.measurement import build, geometric_checkpoints, measure

INSTANCE = {
    "network": {"family": "watts_strogatz", "n": 30, "k": 4, "p": 0.1, "seed": 2},
    "problem": {"data": "heterogeneous", "dim": 3, "important": 1, "seed": 2},
    "design": {"kind": "mhlj"},
    "relative": [0.1, 0.5],
    "steps": 400,
    "walks": 5,
    "start": "uniform",
    "seed": 7,
}


def test_curves_are_those_of_a_run():
    arrays, numbers = measure(INSTANCE)
    network = lw.watts_strogatz(30, 4, 0.1, seed=2)
    problem = lw.heterogeneous(30, dim=3, important=1, seed=2)
    largest = lw.mhlj().bind(network, problem).largest
    assert numbers["largest"] == largest
    assert numbers["important"] == 1
    for i, relative in enumerate(INSTANCE["relative"]):
        trace = lw.run(
            network,
            problem,
            lw.mhlj(),
            steps=400,
            step_size=relative / largest,
            replicas=5,
            seed=7,
            record_every=geometric_checkpoints(400),
        )
        assert np.array_equal(arrays["step"], trace.step)
        assert np.array_equal(arrays["distance"][i], trace.error.mean(axis=0))
        assert np.array_equal(arrays["median"][i], np.median(trace.error, axis=0))
        assert np.array_equal(arrays["transfers"][i], trace.transfers.mean(axis=0))
        assert np.allclose(
            arrays["excess"][i], (trace.excess_loss / trace.excess_loss[:, :1]).mean(axis=0)
        )


def test_tuning_walks_are_others_than_the_reported_ones():
    tuning, _ = measure(INSTANCE | {"tuning": True})
    reported, _ = measure(INSTANCE)
    assert np.array_equal(tuning["step"], reported["step"])
    assert tuning["distance"].shape == reported["distance"].shape
    assert not np.array_equal(tuning["distance"], reported["distance"])


def test_a_step_size_that_diverges_counts_as_infinite():
    arrays, _ = measure(
        INSTANCE | {"relative": [1e6], "problem": {"data": "homogeneous", "seed": 0}}
    )
    assert np.isinf(arrays["distance"][0, -1])


def test_a_dropped_step_size_is_kept_until_the_drop():
    plain, _ = measure(INSTANCE)
    dropped, _ = measure(INSTANCE | {"drop_at": 100})
    early = plain["step"] <= 100
    assert np.array_equal(plain["distance"][:, early], dropped["distance"][:, early])
    assert not np.array_equal(plain["distance"][:, ~early], dropped["distance"][:, ~early])


def test_a_network_that_cannot_be_connected_is_refused():
    with pytest.raises(lw.InvalidSpec, match="not connected"):
        build(INSTANCE | {"network": {"family": "erdos_renyi", "n": 200, "p": 0.001, "seed": 0}})


@pytest.mark.parametrize("ask", ["gaps", "entrapment"])
def test_theory_is_asked_as_the_library_answers(ask):
    _, numbers = measure(
        {key: INSTANCE[key] for key in ("network", "problem", "design")} | {"ask": ask}
    )
    network, problem, design, _ = build(INSTANCE)
    if ask == "gaps":
        P = lw.transition(network, problem, design)
        assert numbers["right"] == lw.spectral_gap(P, "right").value
        assert numbers["singular"] == lw.spectral_gap(P, "singular").value
    else:
        regions = lw.entrapment(network, problem, design).regions
        assert numbers["dwell"] / numbers["iid_dwell"] == max(
            r.dwell / r.iid_dwell for r in regions
        )


def test_the_mean_model_of_each_instance_is_of_walks_of_its_own(monkeypatch):
    seeds = []
    monkeypatch.setattr(measurement, "_MANY", 50)
    monkeypatch.setattr(measurement, "_SETTLED", 20)
    monkeypatch.setattr(
        measurement,
        "run",
        lambda *args, **options: seeds.append(options["seed"]) or lw.run(*args, **options),
    )
    for seed in (3, 61_000):
        problem = {"data": "heterogeneous", "dim": 3, "important": 1, "seed": seed}
        ring = {"family": "ring", "n": 30}
        measure({"network": ring, "problem": problem, "design": {"kind": "mhlj"}, "ask": "limit"})
    assert seeds == [3, 61_000]


def test_without_noise_all_walks_may_end_at_one_point():
    problem = {"data": "heterogeneous", "dim": 3, "important": 1, "noise": 0.0, "seed": 53_010}
    ring, design = {"family": "ring", "n": 30}, {"kind": "mhlj", "p_jump": 0.9}
    _, numbers = measure({"network": ring, "problem": problem, "design": design, "ask": "limit"})
    assert numbers["error"] < 1e-20
