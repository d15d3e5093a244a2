"""`compare` is fair: each design at its own best step size,
tuned on walks that are not reported.
"""

from __future__ import annotations

import dataclasses
import html
import math
import re
from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from levywalk import draws
from levywalk.draws import Domain
from levywalk.engine import run_step_sizes
from levywalk.remedy import command_line
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
        key = [(trial.steps_limit, trial.error_limit) for trial in sweep]
        assert tuned.step_size[name] == sweep[key.index(min(key))].step_size
        assert math.isfinite(min(key)[0])


def test_the_sweep_is_one_log_grid_in_the_designs_own_unit_refined_around_the_best(tuned):
    for name, design in DESIGNS.items():
        largest = design.bind(NETWORK, PROBLEM).largest
        relative = np.array([trial.relative for trial in tuned.sweep[name]])
        exponents = np.log10(relative) * TUNING.PER_DECADE
        assert exponents == pytest.approx(np.round(exponents))
        assert {*TUNING.GRID} <= {*np.round(exponents).astype(int)}
        assert [trial.step_size for trial in tuned.sweep[name]] == pytest.approx(relative / largest)
        at = [trial.step_size for trial in tuned.sweep[name]].index(tuned.step_size[name])
        assert np.diff(exponents)[at - 1 : at + 1] == pytest.approx(1.0)  # its neighbours


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

    def spied(original):
        def spy(seed, domain, *rest):
            asked.append(domain)
            return original(seed, domain, *rest)

        return spy

    for name in ("keys", "token_keys"):
        monkeypatch.setattr(import_module("levywalk.engine.run"), name, spied(getattr(draws, name)))
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
    monkeypatch.setattr(
        import_module("levywalk.engine.run"),
        "token_keys",
        lambda s, d, r, m: draws.token_keys(s, swap.get(d, d), r, m),
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
    monkeypatch.setattr(
        import_module("levywalk.engine.run"),
        "token_keys",
        lambda s, d, r, m: draws.token_keys(s, Domain.TUNING, r, m),
    )
    for i, size in enumerate(sizes):
        alone = lw.run(NETWORK, PROBLEM, design, step_size=size, **options)
        assert (alone.switched_at >= 0).any()
        assert found[i] == pytest.approx(alone.error, rel=1e-9)


def walks_with(winner):
    """A stand-in for running: the final error is least at γL* = winner."""

    def fake(network, problem, design, step_sizes, ranking, *, steps, record_every, **options):
        largest = design.bind(network, problem).largest
        distance = np.abs(np.log10(step_sizes * largest) - np.log10(winner))
        return np.array([[[1.0, 1.0 + d]] * 2 for d in distance])

    return fake


def tuned_with(monkeypatch, winner):
    monkeypatch.setattr(TUNING, "tuning_values", walks_with(winner))
    unit = 1.0 / lw.unif_rw().bind(NETWORK, PROBLEM).largest
    return TUNING.tune_step_size(
        NETWORK, PROBLEM, lw.unif_rw(), unit, BY_DISTANCE, steps=1, record_every=None
    )


@pytest.mark.parametrize(
    ("winner", "edge"),
    [(10**-3.0, "low"), (10**1.5, "high"), (0.1, None), (10 ** (-11 / 16), None)],
)
def test_the_grid_is_extended_until_its_winner_lies_inside_and_refined(monkeypatch, winner, edge):
    sweep = tuned_with(monkeypatch, winner)
    relative = [trial.relative for trial in sweep]
    assert relative == sorted(relative)
    chosen = best(sweep)
    assert chosen.relative == pytest.approx(winner)
    assert relative[0] < chosen.relative < relative[-1]
    grid = TUNING.relative_sizes(TUNING.GRID)
    assert (min(relative) < grid[0] * 0.99) == (edge == "low")
    assert (max(relative) > grid[-1] * 1.2) == (edge == "high")
    assert chosen.share == 1.0


def test_the_extension_ends_even_if_the_winner_runs_away(monkeypatch):
    sweep = tuned_with(monkeypatch, 1e-300)
    lowest = 10 ** ((TUNING.GRID[0] - TUNING.COARSE * TUNING.MOST_EXTENSIONS - 3) / 16)
    assert sweep[0].relative == pytest.approx(lowest)
    assert best(sweep) is sweep[0]


def test_a_grid_that_diverges_everywhere_is_extended_downwards():
    found = TUNING.search_step_sizes(
        lambda ks: {k: (np.inf, np.inf if k > -40 else 1.0 - k) for k in ks},
        lambda tried: {min(tried, key=tried.get)},
        lambda score: np.isinf(score[1]),
    )
    assert min(found, key=found.get) == -40


def test_all_that_refines_a_grid_costs_less_than_the_grid():
    tried = []

    def try_out(exponents):
        tried.extend(exponents)
        return {k: abs(k + 13) for k in exponents}

    found = TUNING.search_step_sizes(
        try_out, lambda all_: {min(all_, key=all_.get)}, lambda score: False
    )
    assert min(found, key=found.get) == -13
    assert len(tried) == len(set(tried)) <= 1.5 * len(TUNING.GRID)


def test_the_fewest_steps_that_suffice_in_most_draws_win_then_the_least_error():
    lucky = Trial(0.3, 3.0, 200.0, 0.04, 9000.0, 0.05, 0.2)  # a knife edge
    a, b = (
        Trial(0.1, 1.0, 500.0, 0.001, 550.0, 0.002, 0.3),
        Trial(0.2, 2.0, 300.0, 0.03, 550.0, 0.004, 0.5),
    )
    assert best((lucky, a, b)) is a
    never = (
        Trial(0.1, 1.0, np.inf, 0.5, np.inf, 0.6, 0.0),
        Trial(0.2, 2.0, np.inf, 0.4, np.inf, 0.5, 1.0),
        Trial(0.3, 3.0, np.inf, np.inf, np.inf, np.inf, 0.0),
    )
    assert best(never) is never[1]


def test_a_step_size_whose_floor_is_at_the_accuracy_is_not_taken(monkeypatch):
    """Fast walks whose mean is just below the accuracy lose against slower ones far below it."""
    rng = np.random.default_rng(0)
    step = np.arange(0, 101)

    def fake(network, problem, design, step_sizes, ranking, **options):
        rates = step_sizes / unit
        falling = np.exp(-np.outer(rates, step))
        noise = rng.exponential(size=(8, len(step)))
        return falling[:, None, :] + 0.095 * np.minimum(rates, 3.0)[:, None, None] * noise

    unit = 1.0
    monkeypatch.setattr(TUNING, "tuning_values", fake)
    ranking = Ranking("distance2", 0.1)
    sweep = TUNING.tune_step_size(
        NETWORK, PROBLEM, lw.unif_rw(), unit, ranking, steps=100, record_every=1
    )
    by_mean = min(sweep, key=lambda trial: (trial.steps_to, trial.final_error))
    chosen = best(sweep)
    assert chosen.relative < by_mean.relative
    assert chosen.steps_limit < by_mean.steps_limit
    assert sum(trial.share for trial in sweep) == pytest.approx(1.0)


class Halved(type(lw.sgd())):
    """SGD with a unit of its own: step size 2 does what SGD's 1 does."""

    def default_step_size(self, largest, problem):
        return 2.0 / largest

    def apply(self, model, memory, local, step_size, weight, words):
        return super().apply(model, memory, local, step_size / 2.0, weight, words)


def test_the_grid_is_in_units_of_the_updates_own_default_step_size():
    small = {"steps": 60, "replicas": 3, "accuracy": 0.5, "record_every": 5}
    plain = lw.compare(NETWORK, PROBLEM, {"a": (lw.unif_rw(), lw.sgd())}, **small)
    halved = lw.compare(NETWORK, PROBLEM, {"a": (lw.unif_rw(), Halved())}, **small)
    assert halved.step_size["a"] == pytest.approx(2 * plain.step_size["a"])
    assert [t.relative for t in halved.sweep["a"]] == [t.relative for t in plain.sweep["a"]]


def page(result):
    from levywalk.report.page.summary import table_section

    return html.unescape(str(table_section(result)))


def test_an_easier_accuracy_is_named_where_one_was_not_reached(tuned):
    ends = {name: tuned.final(name) for name in DESIGNS}
    asked = dataclasses.replace(
        tuned,
        accuracy=0.06,
        sweep={
            name: [dataclasses.replace(trial, steps_limit=math.inf) for trial in trials]
            for name, trials in tuned.sweep.items()
        },
    )
    with command_line():
        told = [text for text in asked.cautions if "no step size reached 6 %" in text]
    assert len(told) == len(DESIGNS)
    for text in told:
        named = re.search(r"--accuracy ([0-9.]+)", text)
        end = ends[text.partition(":")[0]]
        possible = [share for share in (0.1, 0.2, 0.5) if share >= 2 * end]
        assert (named is not None and float(named[1])) == (possible[0] if possible else False)


def test_what_tuning_could_not_settle_is_a_warning_and_a_caution(monkeypatch):
    with pytest.warns(lw.DataWarning, match="no step size reached 1 % of the initial error"):
        result = lw.compare(NETWORK, PROBLEM, {"a": lw.unif_rw()}, steps=5, replicas=2)
    (caution,) = result.cautions
    assert caution in page(result)
    monkeypatch.setattr(TUNING, "MOST_EXTENSIONS", 0)
    monkeypatch.setattr(TUNING, "GRID", (-96, -92))
    how = {"steps": 20, "replicas": 2, "rank_by": "loss"}
    with pytest.warns(lw.DataWarning, match="the largest that was tried .* a larger one may"):
        lw.compare(NETWORK, PROBLEM, {"a": lw.unif_rw()}, **how)


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
        for accuracy in ("0.2", "0.1", "0.03", "0.01"):
            low, high = row[f"steps_to_{accuracy}_low"], row[f"steps_to_{accuracy}_high"]
            assert low <= row[f"steps_to_{accuracy}"] <= high
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


@pytest.mark.more
def test_an_update_without_a_step_size_to_tune_takes_its_own():
    network, problem = lw.ring(20), lw.homogeneous(20, dim=2, seed=1)
    designs = {"Newton": (lw.mhda(), lw.newton_token()), "SGD": lw.unif_rw()}
    result = lw.compare(network, problem, designs, steps=100, replicas=2, accuracy=0.1)
    assert result.step_size["Newton"] == 1.0
    assert not result.sweep["Newton"]
    assert result.sweep["SGD"]
    assert result.steps_to["Newton"] <= 20
