"""`compare` is fair: each design at its own best step size,
tuned on walks that are not reported.
"""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from levywalk import draws
from levywalk.draws import Domain
from levywalk.engine import run_step_sizes
from levywalk.trace.ranking import Ranking
from levywalk.trace.statistics import mean_over_walks, settled_at

MODULE = import_module("levywalk.experiments.compare")
TUNING = import_module("levywalk.experiments.tuning")
Trial, best = TUNING.Trial, TUNING.best
NETWORK, PROBLEM = lw.complete(20), lw.homogeneous(20, dim=3)
BY_DISTANCE = Ranking("distance2", 0.01)
DESIGNS = {"walk": lw.unif_rw(), "iid": lw.iid_weighted()}


@pytest.fixture(scope="module")
def tuned():
    return lw.compare(
        NETWORK, PROBLEM, DESIGNS, steps=600, replicas=6, accuracy=0.2, seed=3, record_walk=True
    )


def test_the_step_size_is_the_best_of_its_sweep(tuned):
    for name in DESIGNS:
        sweep = tuned.sweep[name]
        key = [(trial.steps_to, trial.final_error) for trial in sweep]
        assert tuned.step_size[name] == sweep[key.index(min(key))].step_size
        assert math.isfinite(min(key)[0])


def test_the_sweep_is_one_log_grid_in_the_designs_own_unit(tuned):
    for name, design in DESIGNS.items():
        largest = design.bind(NETWORK, PROBLEM).largest
        relative = np.array([trial.relative for trial in tuned.sweep[name]])
        assert np.diff(np.log10(relative)) == pytest.approx(0.25)
        assert [trial.step_size for trial in tuned.sweep[name]] == pytest.approx(relative / largest)
        assert relative[0] <= 0.01 * (1 + 1e-9)
        assert relative[-1] >= 10**0.25 * (1 - 1e-9)


def test_the_reported_run_is_the_run_at_that_step_size_and_nothing_of_the_tuning(tuned):
    for name, design in DESIGNS.items():
        alone = lw.run(
            NETWORK,
            PROBLEM,
            design,
            steps=600,
            replicas=6,
            seed=3,
            record_walk=True,
            step_size=tuned.step_size[name],
        )
        for array in ("walk", "model", "distance2", "visits"):
            assert np.array_equal(getattr(alone, array), getattr(tuned.traces[name], array))


def test_tuning_never_reads_the_keys_of_the_report(monkeypatch):
    asked = []
    original = draws.keys

    def spy(seed, domain, replicas):
        asked.append(domain)
        return original(seed, domain, replicas)

    monkeypatch.setattr(import_module("levywalk.engine.run"), "keys", spy)
    run_step_sizes(
        NETWORK,
        PROBLEM,
        lw.unif_rw(),
        np.array([0.01]),
        steps=10,
        replicas=2,
        seed=0,
        record_every=None,
        start="uniform",
        x0=None,
        threads=1,
        update=None,
        progress=False,
    )
    assert set(asked) == {Domain.TUNING, Domain.TUNING_START}
    asked.clear()
    lw.run(NETWORK, PROBLEM, lw.unif_rw(), steps=10, step_size=0.01, replicas=2)
    assert set(asked) == {Domain.WALK, Domain.START}


def test_the_sweeps_numbers_are_those_of_runs_on_the_tuning_keys(tuned, monkeypatch):
    # Tuning runs a whole grid as one batch; each entry must be the run it stands for.
    swap = {Domain.WALK: Domain.TUNING, Domain.START: Domain.TUNING_START}
    original = draws.keys
    monkeypatch.setattr(
        import_module("levywalk.engine.run"), "keys", lambda s, d, r: original(s, swap.get(d, d), r)
    )
    for trial in tuned.sweep["walk"][3:9]:
        trace = lw.run(
            NETWORK, PROBLEM, lw.unif_rw(), steps=600, replicas=6, seed=3, step_size=trial.step_size
        )
        mean = mean_over_walks(trace.error)
        assert trial.steps_to == settled_at(trace.step, mean[None], 0.2)[0]
        assert trial.final_error == pytest.approx(mean[-1], rel=1e-9)


@pytest.mark.parametrize(
    "detail",
    [
        {"window": 5, "patience": 3, "step_size": 0.002},  # the second phase keeps its own
        {"window": 5, "patience": 3},  # the second phase follows the first, up to 1/L*
        {"step_size": "theory"},  # the detector follows the first phase
    ],
)
def test_each_entry_of_a_grid_is_a_switching_run_at_that_step_size(monkeypatch, detail):
    design = lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.5, **detail)
    sizes = np.array([0.001, 0.01])
    options = {
        "steps": 80 if "window" in detail else 3000,
        "replicas": 3,
        "seed": 1,
        "record_every": 20,
        "start": [0, 5, 7],
        "x0": np.eye(3),
        "threads": 2,
    }
    found = run_step_sizes(NETWORK, PROBLEM, design, sizes, update=None, progress=False, **options)
    found = found.error.reshape(2, 3, -1)
    original = draws.keys
    monkeypatch.setattr(
        import_module("levywalk.engine.run"), "keys", lambda s, d, r: original(s, Domain.TUNING, r)
    )
    for i, size in enumerate(sizes):
        alone = lw.run(NETWORK, PROBLEM, design, step_size=size, **options)
        assert (alone.switched_at >= 0).any()
        assert found[i] == pytest.approx(alone.error, rel=1e-9)


def trials_with(winner):
    """A stand-in for running: the final error is least at γL* = winner."""

    def fake(network, problem, design, step_sizes, ranking, *, steps, record_every, **options):
        largest = design.bind(network, problem).largest
        distance = np.abs(np.log10(step_sizes * largest) - np.log10(winner))
        return np.array([[1.0, 1.0 + d] for d in distance])

    return fake


@pytest.mark.parametrize(("winner", "edge"), [(10**-3.0, "low"), (10**1.5, "high"), (0.1, None)])
def test_the_grid_is_extended_until_its_winner_lies_inside(monkeypatch, winner, edge):
    monkeypatch.setattr(TUNING, "mean_values", trials_with(winner))
    sweep = TUNING.tune_step_size(
        NETWORK,
        PROBLEM,
        lw.unif_rw(),
        lw.unif_rw().bind(NETWORK, PROBLEM).largest,
        BY_DISTANCE,
        steps=1,
        record_every=None,
    )
    relative = [trial.relative for trial in sweep]
    assert relative == sorted(relative)
    chosen = best(sweep)
    assert chosen.relative == pytest.approx(winner)
    assert relative[0] < chosen.relative < relative[-1]
    grid = [10 ** (k / 4) for k in TUNING.GRID]
    assert (min(relative) < grid[0] * 0.99) == (edge == "low")
    assert (max(relative) > grid[-1] * 1.01) == (edge == "high")


def test_the_extension_ends_even_if_the_winner_runs_away(monkeypatch):
    monkeypatch.setattr(TUNING, "mean_values", trials_with(1e-300))
    sweep = TUNING.tune_step_size(
        NETWORK, PROBLEM, lw.unif_rw(), 1.0, BY_DISTANCE, steps=1, record_every=None
    )
    assert len(sweep) == len(TUNING.GRID) + TUNING.MOST_EXTENSIONS


def test_fewest_steps_win_then_the_least_error():
    a, b, c = (
        Trial(0.1, 1.0, 500.0, 0.001),
        Trial(0.2, 2.0, 300.0, 0.04),
        Trial(0.3, 3.0, 300.0, 0.03),
    )
    assert best((a, b, c)) is c
    never = (
        Trial(0.1, 1.0, np.inf, 0.5),
        Trial(0.2, 2.0, np.inf, 0.4),
        Trial(0.3, 3.0, np.inf, np.inf),
    )
    assert best(never) is never[1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.01, {"walk": 0.01, "iid": 0.01}),
        ({"walk": 0.02, "iid": 0.005}, {"walk": 0.02, "iid": 0.005}),
        (
            "theory",
            {name: 1.0 / design.bind(NETWORK, PROBLEM).largest for name, design in DESIGNS.items()},
        ),
    ],
)
def test_given_step_sizes_are_used_as_they_are(given, expected):
    result = lw.compare(NETWORK, PROBLEM, DESIGNS, steps=50, replicas=2, step_size=given)
    assert result.step_size == pytest.approx(expected)
    assert result.sweep == {"walk": (), "iid": ()}
    for name, design in DESIGNS.items():
        alone = lw.run(NETWORK, PROBLEM, design, steps=50, replicas=2, step_size=expected[name])
        assert np.array_equal(alone.model, result.traces[name].model)


def test_the_table_and_the_steps_are_those_of_the_traces(tuned):
    assert tuned.steps_to == {name: trace.steps_to(0.2) for name, trace in tuned.traces.items()}
    table = tuned.table()
    assert list(table.index) == ["walk", "iid"]
    for name, trace in tuned.traces.items():
        row = table.loc[name]
        assert row["steps_to_0.2"] == trace.steps_to(0.2)
        assert row["steps_to_0.01"] == trace.steps_to(0.01)
        assert row["steps_to_0.2_low"] <= row["steps_to_0.2"] <= row["steps_to_0.2_high"]
        assert row["step_size"] == tuned.step_size[name]
        assert row["final_error"] == pytest.approx(trace.error[:, -1].mean())
    assert "walk" in repr(tuned)


def test_what_is_not_reached_is_infinite_and_stays_in_the_table():
    result = lw.compare(NETWORK, PROBLEM, DESIGNS, steps=5, replicas=2, step_size=1e-6)
    assert result.steps_to == {"walk": np.inf, "iid": np.inf}
    assert np.isinf(result.table()["steps_to_0.01"]).all()


def test_one_node_and_one_model_per_replica_can_be_given_to_a_tuned_comparison():
    x0 = np.arange(6.0).reshape(2, 3)
    result = lw.compare(
        NETWORK,
        PROBLEM,
        {"a": lw.unif_rw()},
        steps=50,
        replicas=2,
        start=[3, 4],
        x0=x0,
        record_walk=True,
    )
    assert result.traces["a"].walk[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"designs": {}}, "designs must be a non-empty dict"),
        ({"designs": [lw.unif_rw()]}, "designs must be a non-empty dict"),
        ({"designs": {"a": lw.unif_rw(), "b": "mhlj"}}, "designs must hold designs.*'mhlj'"),
        ({"accuracy": 0}, "accuracy"),
        ({"accuracy": "good"}, "accuracy"),
        ({"step_size": "best"}, "step_size must be one of 'tuned', 'theory', got 'best'"),
        ({"step_size": -1.0}, "step_size"),
        ({"step_size": True}, "step_size"),
        ({"step_size": np.array([0.1, 0.2])}, "step_size"),
        ({"step_size": {"walk": 0.1}}, "none for 'iid'"),
        ({"step_size": {"walk": 0.1, "iid": 0}}, "step_size of 'iid'"),
        ({"steps": 0}, "steps"),
        ({"steps": "many"}, "steps"),
        ({"replicas": 0}, "replicas"),
        ({"seed": -1}, "seed"),
        ({"record_every": 0}, "record_every"),
        ({"start": [0]}, "start"),
        ({"x0": [1.0]}, "x0"),
        ({"x0": PROBLEM.optimum}, "x0 is the optimum"),
        ({"network": lw.ring(5)}, "5 nodes but problem has 20"),
    ],
)
def test_a_bad_argument_is_named(change, match):
    arguments = {
        "network": NETWORK,
        "problem": PROBLEM,
        "designs": DESIGNS,
        "steps": 20,
        "replicas": 2,
    } | change
    with pytest.raises(lw.LevywalkError, match=match):
        lw.compare(**arguments)


def test_a_bad_last_design_is_found_before_the_first_has_run(monkeypatch):
    monkeypatch.setattr(MODULE, "run", lambda *a, **k: pytest.fail("ran"))
    with pytest.raises(lw.InvalidParameter, match="3 scores"):
        lw.compare(
            NETWORK,
            PROBLEM,
            {"a": lw.unif_rw(), "b": lw.Design(target=[1, 2, 3])},
            steps=5,
            replicas=1,
            step_size=0.1,
        )
