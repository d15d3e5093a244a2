"""The league: cells against plain runs, tuning, goals, files and the command."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.league import results, written
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.engine.gossip import METHODS
from levywalk.league import goals, scenes
from levywalk.league.cell import Competition, marks_of, measure_cell
from levywalk.league.goals import judged_goals
from levywalk.league.league import (
    LeagueCell,
    description_of,
    league,
    left_of,
    median_interval,
    seconds_of,
)
from levywalk.league.pairs import PAIRS, built_pair, pairs_named
from levywalk.league.scenes import (
    ACCURACIES,
    FULL,
    NETWORKS,
    OTHER_NETWORKS,
    QUICK,
    budget,
    network_of,
    problem_of,
)
from levywalk.report.league_document import short_number
from levywalk.trace.costs import PROFILES

RING = {"family": "ring", "n": 30}
TINY = dataclasses.replace(
    QUICK,
    networks={"ring": RING},
    pairs=pairs_named(("oldest_neighbour + point_saga", "depth_first_tour + newton_token")),
)


def named(name):
    return next(pair for pair in PAIRS if pair.name == name)


def described(name, **changes):
    return description_of("ring", RING, "snr10", named(name), TINY, 30) | changes


def test_every_pair_can_be_built_and_names_are_unique():
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    for pair in PAIRS:
        if not pair.gossip:
            walk, update = built_pair(pair.plain())
            assert isinstance(walk, lw.Walk)
            assert isinstance(update, lw.Update)


def test_the_league_has_what_was_asked_for():
    updates = {pair.update for pair in PAIRS if pair.walk == "mhlj"}
    assert updates >= {"sgd", "sag", "saga", "point_saga", "finito", "newton_token", "walkman",
                       "heavy_ball", "adam", "averaged"}  # fmt: skip
    walks = {pair.walk for pair in PAIRS if pair.walk != "gossip"}
    for update in ("point_saga", "newton_token"):
        assert {pair.walk for pair in PAIRS if pair.update == update} == walks
    assert {pair.update for pair in PAIRS if pair.gossip} == set(METHODS)
    assert all(pair.reason for pair in PAIRS)


def test_tuning_never_sees_a_reported_instance():
    for effort in (FULL, QUICK):
        assert not set(effort.seeds) & set(effort.tuning_seeds)


@pytest.mark.more
def test_a_cell_is_what_a_plain_run_takes():
    told = described("oldest_neighbour + point_saga", seeds=[0, 1], also=[1.0])
    arrays, numbers = measure_cell(told)
    i, k = numbers["factors"].index(1.0), 2
    for j, seed in enumerate((0, 1)):
        network, problem = network_of(RING, seed), problem_of("snr10", 30, seed)
        trace = lw.run(
            network, problem, lw.oldest_neighbour(), update=lw.point_saga(), seed=seed,
            steps=told["budget"], step_size="theory", replicas=2,
            record_every=marks_of(told["budget"], 30),
        )  # fmt: skip
        steps = trace.steps_to(1e-3)
        at = int(np.searchsorted(trace.step, steps))
        assert arrays["steps"][i, j, k] == steps
        assert arrays["transfers"][i, j, k] == trace.transfers[:, at].mean()
        assert arrays["small_messages"][i, j, k] == trace.small_messages[:, at].mean()
        hit = [int(np.argmax(error <= 1e-3)) for error in trace.error]
        assert arrays["first"][i, j, :, k].tolist() == [
            trace.transfers[r, hit[r]] for r in range(2)
        ]


@pytest.mark.more
def test_tuning_chooses_the_least_steps_of_what_was_tried():
    _, numbers = measure_cell(described("oldest_neighbour + point_saga"))
    tried = {float(factor): row for factor, row in numbers["tried"].items()}
    for k in range(len(ACCURACIES)):
        chosen = numbers["factors"][numbers["chosen"][k]]
        nearest = min(tried, key=lambda factor: abs(math.log(factor / chosen)))
        count = len(ACCURACIES)
        beyond = [row[k] for row in tried.values() if math.isfinite(row[2 * count + 1 + k])]
        finite = beyond or [row[k] for row in tried.values() if math.isfinite(row[k])]
        assert not finite or tried[nearest][k] == min(finite)


def test_a_step_size_that_just_reaches_an_accuracy_is_not_chosen_if_another_goes_beyond():
    count = len(ACCURACIES)
    competition = Competition(described("oldest_neighbour + point_saga"))
    steps = {1.0: 300.0, 3.0: 100.0, 9.0: math.inf}
    goes_on = {1.0: 400.0, 3.0: math.inf, 9.0: math.inf}

    def tried(*factors):
        return {
            f: np.array([*[steps[f]] * count, 0.1 / f, *[steps[f]] * count, *[goes_on[f]] * count])
            for f in factors
        }

    assert competition.chosen(tried(1.0, 3.0, 9.0)) == ([1.0] * count, [300.0] * count)
    assert competition.chosen(tried(3.0, 9.0)) == ([3.0] * count, [100.0] * count)  # none does
    assert competition.chosen(tried(1.0, 3.0), first=True)[0] == [3.0] * count
    assert competition.chosen(tried(9.0))[0] == [9.0] * count


def test_rows_that_are_tuned_on_one_instance_are_reported_to_the_end_of_their_budget():
    long = description_of("ring", RING, "snr10", named("unif_rw + sag"), FULL, 30)
    assert long["whole"]
    assert len(long["tuning_seeds"]) == 1
    usual = description_of("ring", RING, "snr10", named("oldest_neighbour + point_saga"), FULL, 30)
    assert not usual["whole"]


def test_time_of_walks_and_of_gossip():
    walk = LeagueCell("ring", "snr10", named("oldest_neighbour + point_saga"),
                      {name: np.full((1, 1, 4), value) for name, value in
                       {"steps": 10.0, "transfers": 9.0, "small_messages": 40.0,
                        "bytes": 1440.0}.items()},
                      {"chosen": [0] * 4, "factors": [1.0], "rounds": 1})  # fmt: skip
    costs = PROFILES["mobile"]
    expected = 10 * costs.compute + 49 * costs.latency + 1440 / costs.bandwidth
    assert walk.values("time", 1e-3, costs)[0] == pytest.approx(expected)
    network, problem = network_of(RING, 0), problem_of("snr10", 30, 0)
    trace = lw.gossip(network, problem, "tracking", iterations=7, costs="mobile")
    talk = LeagueCell("ring", "snr10", named("gossip + tracking"),
                      {"steps": np.full((1, 1, 4), 7.0),
                       "transfers": np.full((1, 1, 4), float(trace.transfers[0, -1])),
                       "bytes": np.full((1, 1, 4), float(trace.bytes[0, -1])),
                       "small_messages": np.zeros((1, 1, 4))},
                      {"chosen": [0] * 4, "factors": [1.0], "rounds": 1})  # fmt: skip
    assert talk.values("time", 1e-3, costs)[0] == pytest.approx(trace.time[0, -1])


def goal_cell(name, network, transfers):
    counts = {"transfers": np.full((1, 3, 4), transfers), "steps": np.full((1, 3, 4), transfers),
              "first": np.full((1, 3, 2, 4), transfers)}  # fmt: skip
    numbers = {"n": 1000, "chosen": [0] * 4, "chosen_first": [0] * 4, "factors": [1.0]}
    return LeagueCell(network, "snr10", named(name), counts, numbers)


def test_goals_are_met_or_missed():
    def verdicts(tour, first_order):
        cells = [goal_cell("depth_first_tour + newton_token", "grid", tour),
                 goal_cell("oldest_neighbour + point_saga", "grid", first_order)]  # fmt: skip
        return {goal["goal"]: goal["met"] for goal in judged_goals(cells, FULL)}

    good, bad = verdicts(1999.0, 7000.0), verdicts(2900.0, 12_100.0)
    tour = "Newton token with the tour on grid: transfers to 1e-06 in units of n"
    first = "first-order update on grid: transfers to 1e-06 in units of n"
    assert (good[tour], good[first]) == (True, True)
    assert (bad[tour], bad[first]) == (False, False)
    row = next(goal for goal in bad if goal.startswith("depth_first_tour") and "1e-06" in goal)
    assert (good[row], bad[row]) == (True, False)  # 1.5 times the table's 1,900


def test_the_better_gossip_is_held_against_the_table():
    def verdict(*transfers):
        names = ("gossip + extra", "gossip + tracking")
        cells = [goal_cell(name, "ws", t) for name, t in zip(names, transfers, strict=False)]
        found = [g for g in judged_goals(cells, FULL) if g["goal"].startswith("best gossip")]
        return [(goal["met"], goal["by"]) for goal in found]

    assert verdict(math.inf, 13e6) == [(True, "gossip + tracking")]  # 1.5 times 8.9 M
    assert verdict(14e6) == [(False, "gossip + extra")]
    assert verdict() == []


def test_a_server_meets_no_goal():
    cells = [goal_cell("reshuffling + point_saga", "grid", 1.0)]
    assert not any(
        goal["met"] for goal in judged_goals(cells, FULL) if "first-order" in goal["goal"]
    )


def test_not_reached_is_infinite_in_a_median():
    assert median_interval(np.array([1.0, np.inf, np.inf]))[0] == math.inf
    assert median_interval(np.array([5.0, 5.0, 5.0])) == (5.0, 5.0, 5.0)


def test_budgets_are_positive_and_long_where_the_table_is():
    for pair in PAIRS:
        for network in NETWORKS:
            assert budget(pair, network, 1000, "snr10", FULL) >= 100
    assert budget(named("unif_rw + sag"), "ring", 1000, "snr10", FULL) > 2_800_000


@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_the_other_networks_are_connected_and_no_league_networks(name):
    network = network_of(OTHER_NETWORKS[name], 0)
    network.require_connected()
    assert 400 <= network.n <= 800
    assert OTHER_NETWORKS[name] not in NETWORKS.values()


@pytest.mark.more
def test_a_league_is_written_and_resumed(tmp_path):
    document, files = league({"ring": RING}, TINY, tmp_path, workers=0)
    assert [file.name for file in files] == ["league.html", "league.md", "league.json"]
    assert json.loads(files[2].read_text())["cells"] == document["cells"]
    assert "Which method where" in files[1].read_text()
    assert "depth_first_tour + newton_token" in files[0].read_text().replace("<wbr>", "")
    stored = sorted((tmp_path / "results").iterdir())
    changed = [file.stat().st_mtime_ns for file in stored]
    again, _ = league({"ring": RING}, TINY, tmp_path, workers=0)
    assert again["cells"] == document["cells"]
    assert [file.stat().st_mtime_ns for file in stored] == changed  # nothing was computed again


@pytest.mark.more
def test_the_command_checks_goals(tmp_path, monkeypatch):
    newton = ("oldest_neighbour + newton_token", "depth_first_tour + newton_token")
    effort = dataclasses.replace(TINY, pairs=pairs_named((*newton, "mhda + point_saga")))
    monkeypatch.setattr(scenes, "QUICK", effort)
    monkeypatch.setattr(goals, "MOST_FIRST_ORDER", 1000.0)  # 30 nodes are few for first order
    arguments = ["league", "--quick", "--check", "--workers", "0", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    monkeypatch.setattr(goals, "MOST_NEWTON_TOUR", 0.1)
    missed = CliRunner().invoke(app, arguments)
    assert missed.exit_code == 1
    assert "not met: Newton token with the tour on ring" in missed.output


@pytest.mark.more
def test_a_league_is_written_without_the_results_that_failed(tmp_path, monkeypatch):
    broken = dataclasses.replace(named("mhda + point_saga"), options={"no such option": 1})
    effort = dataclasses.replace(TINY, pairs=(*TINY.pairs, broken))
    monkeypatch.setattr(scenes, "QUICK", effort)
    arguments = ["league", "--quick", "--workers", "0", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 1
    document = json.loads((tmp_path / "league.json").read_text())
    assert len(document["cells"]) == 2
    missing = "Missing: mhda + point_saga (1) on ring, snr10"
    for text in (
        found.output,
        *((tmp_path / f"league.{end}").read_text() for end in ("html", "md")),
    ):
        assert missing in text.replace("<wbr>", "")


@pytest.mark.more
def test_a_dry_run_says_what_is_missing_and_computes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "QUICK", TINY)
    arguments = ["league", "--quick", "--workers", "2", "--out", str(tmp_path)]
    told = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert told.exit_code == 0
    assert told.output.startswith("2 results, 0 of them stored; the others take about")
    assert "on 2 cores" in told.output
    as_json = CliRunner().invoke(app, [*arguments, "--dry-run", "--json"])
    assert json.loads(as_json.stdout).keys() == {"results", "stored", "minutes"}
    assert not list(tmp_path.iterdir())
    league({"ring": RING}, TINY, tmp_path, workers=0)
    assert (
        "2 results, 2 of them stored" in CliRunner().invoke(app, [*arguments, "--dry-run"]).output
    )


def test_longer_cells_are_estimated_longer():
    def seconds(name, network="ring", n=1000, edges=1000, problem="snr10"):
        told = description_of(network, NETWORKS[network], problem, named(name), FULL, n)
        return seconds_of(told, edges)

    assert seconds("unif_rw + sag") > 3 * seconds("unif_rw + sag", problem="logistic")
    assert seconds("mhda + newton_token") > seconds("mhda + point_saga") / 3
    assert seconds("gossip + extra", "gnutella", 6299, 20_776) > seconds("gossip + extra", "grid")
    assert 20 * 60 < left_of(FULL.networks, FULL, Path("none"))[2] < 2 * 75 * 60  # two cores


@pytest.mark.more
def test_the_costs_of_the_column_time_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "QUICK", TINY)
    league({"ring": RING}, TINY, tmp_path, workers=0)
    arguments = ["league", "--quick", "--workers", "0", "--out", str(tmp_path), "--costs"]
    assert CliRunner().invoke(app, [*arguments, "mobile"]).exit_code == 0
    document = json.loads((tmp_path / "league.json").read_text())
    assert document["profile"] == "mobile"
    assert document["stored"] == 2
    for cell in document["cells"]:
        for accuracy, values in cell["time"].items():
            assert values[0] == cell["time_by_profile"]["mobile"][accuracy]
    assert CliRunner().invoke(app, [*arguments, "mobile,latency=0"]).exit_code == 0
    faster = json.loads((tmp_path / "league.json").read_text())
    assert faster["cells"][0]["time"]["0.1"][0] < document["cells"][0]["time"]["0.1"][0]
    refused = CliRunner().invoke(app, [*arguments, "mobile,share=0.1"])
    assert "alike at all nodes" in str(refused.exception)


@pytest.mark.more
def test_results_are_put_into_the_docs(tmp_path):
    document, _ = league({"ring": RING}, TINY, tmp_path, workers=0)
    page = (Path(__file__).parents[3] / "docs" / "league.md").read_text(encoding="utf-8")
    text = results(document)
    changed = written(page, text)
    assert changed.startswith(page[: page.index("## Results")])
    assert changed.count(text) == 1
    assert written(changed, text) == changed
    numbers = document["cells"][0]["transfers"]
    row = f"{short_number(numbers['0.001'][0])} / {short_number(numbers['1e-06'][0])}"
    assert row in text


def test_wrong_arguments_are_refused_before_any_work(tmp_path):
    def refusal(*arguments):
        found = CliRunner().invoke(app, ["league", *arguments, "--out", str(tmp_path / "none")])
        assert found.exit_code != 0
        assert not (tmp_path / "none").exists()
        return str(found.exception) + found.output

    assert "network must be a file or one of" in refusal("rong")
    assert "--check needs a network that a goal is about" in refusal("grid:5,5", "--check")


def test_every_pair_and_its_reason_are_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "league.md").read_text(encoding="utf-8")
    for pair in PAIRS:
        assert f"| {pair.name} | {pair.reason} |" in text


@pytest.mark.more
def test_the_quick_league_meets_its_goals(tmp_path):
    arguments = ["league", "--quick", "--check", "--workers", "0", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    document = json.loads((tmp_path / "league.json").read_text())
    assert len(document["cells"]) == len(QUICK.networks) * len(QUICK.pairs)
