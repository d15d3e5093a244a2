"""``levywalk privacy`` and ``--privacy`` as a user types them, right and wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.experiments.spec import check_experiment
from levywalk.privacy import as_privacy, check_scores
from levywalk.privacy.published_loss import published_epsilon, published_pairwise_rho

RUNNER = CliRunner()
QUICK = ["--steps", "60", "--replicas", "2", "--step-size", "0.001"]
NETWORK = "complete:10"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(*words: str) -> Result:
    return RUNNER.invoke(app, list(words))


def test_the_curve_as_a_table_a_picture_and_json() -> None:
    done = typed("privacy", NETWORK, *QUICK, "--budgets", "1,8", "--clip", "2", "--out", "costs")
    assert done.exit_code == 0, done.output
    assert "UnifRW: what each ε costs" in done.output
    assert "protects nobody" in done.output
    assert "one sample of one node replaced" in done.output
    assert Path("costs/privacy.png").stat().st_size > 5000
    found = json.loads(Path("costs/privacy.json").read_text())["designs"]["UnifRW"]
    rows = found["budgets"]
    assert [row["budget"] for row in rows] == [1.0, 8.0]
    for row in rows:
        privacy = lw.Privacy(clip=2.0, noise=row["noise"], budget=row["budget"])
        assert privacy.updates_within() == row["updates_at_cap"] == 12
        assert row["epsilon_spent"] <= row["budget"]
    assert rows[0]["noise"] > rows[1]["noise"]


def test_settings_reach_every_design() -> None:
    done = typed(
        "privacy", NETWORK, *QUICK, "--budgets", "4", "--designs", "mhlj,unif_rw+saga",
        "--settings", "scores=public,adjacency=node,delta=1e-6", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["designs"]
    assert list(found) == ["MHLJ", "UnifRW + saga"]
    for curve in found.values():
        assert curve["privacy"]["adjacency"] == "node"
        assert curve["privacy"]["delta"] == 1e-6


def test_against_one_neighbour_the_published_loss_is_shown_and_said_to_be_no_claim() -> None:
    words = ["privacy", "ring:11", "--data", "homogeneous", "--steps", "1100", "--replicas", "1"]
    words += ["--step-size", "0.001", "--budgets", "1,8", "--clip", "2"]
    words += ["--settings", "adversary=neighbour,scores=public"]
    done = typed(*words)
    assert done.exit_code == 0, done.output
    assert "UnifRW: ε between two nodes: expected, as published / of the first walk" in done.output
    assert "each update is counted by itself" in done.output
    assert "no budget and no claim uses it" in done.output
    rows = json.loads(typed(*words, "--json").stdout)["designs"]["UnifRW"]["budgets"]
    chain = lw.transition(lw.ring(11), lw.homogeneous(11), lw.unif_rw())
    for row in rows:
        between = row["between_nodes"]
        rho = published_pairwise_rho(chain, 1100, row["noise"])[0, 1:6]
        assert between["published_rho"] == pytest.approx(rho)
        assert between["published_epsilon"] == pytest.approx(
            [published_epsilon(value, row["noise"], 1e-5) for value in rho]
        )
        assert between["composition_epsilon"] == pytest.approx(
            lw.Privacy(clip=2.0, noise=row["noise"]).epsilon(100)
        )
        assert len(between["epsilon_of_the_walk"]) == 5
        assert row["updates_at_cap"] == 200  # budgets are those of composition


@pytest.mark.parametrize(
    ("network", "settings", "design", "why"),
    [
        (NETWORK, "adversary=neighbour", "unif_rw", "declare L_v by scores='public'"),
        (NETWORK, "adversary=neighbour,scores=public", "mhlj", "without jumps"),
        ("star:12", "adversary=neighbour,scores=public", "simple_rw", "must be symmetric"),
        ("ring:30", "adversary=neighbour,scores=public", "unif_rw", "steps must be at least"),
        (NETWORK, "scores=public", "unif_rw", None),
    ],
)
def test_where_the_published_loss_does_not_hold_the_reason_is_said(
    network: str, settings: str, design: str, why: str | None
) -> None:
    words = [network, *QUICK, "--data", "homogeneous", "--budgets", "1", "--designs", design]
    done = typed("privacy", *words, "--settings", settings)
    assert done.exit_code == 0, done.output
    assert "as published" not in done.output
    if why is None:
        assert "between nodes" not in done.output
    else:
        assert "no published loss between nodes: " in done.output
        assert why in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budgets", "1,x"], "--budgets must be numbers above 0"),
        (["--budgets", "0"], "--budgets must be a number above 0"),
        (["--clip", "-1"], "clip must be a number above 0"),
        (["--settings", "noise=3"], "--settings must not have noise"),
        (["--settings", "adjacency=both"], "adjacency must be one of"),
        (["--designs", "mhlj"], "design MHLJ depends on the nodes' scores"),
        (["--designs", "unif_rw+newton_token"], "update newton_token is refused under privacy"),
    ],
)
def test_mistakes_are_named(words: list[str], said: str) -> None:
    done = typed("privacy", NETWORK, *QUICK, *words)
    assert done.exit_code != 0
    assert said in str(done.exception)


@pytest.mark.more
def test_a_private_comparison_and_its_experiment_file() -> None:
    private = ["--privacy", "clip=2,noise=20,budget=2"]
    done = typed("compare", NETWORK, *QUICK, "--designs", "unif_rw", *private, "--out", "one")
    assert done.exit_code == 0, done.output
    said = lw.Comparison.load("one").traces["UnifRW"].provenance["privacy"]
    assert said["budget"] == 2.0
    assert f"UnifRW: ε spent {said['epsilon_spent']:.3g} (by composition)" in done.output
    assert "protects nobody" in done.output
    assert 'privacy = "clip=2,noise=20,budget=2"' in Path("one/experiment.toml").read_text()
    other = typed("run", "one/experiment.toml", "--privacy", "clip=1,noise=9", "--out", "two")
    assert other.exit_code == 0, other.output
    assert lw.Comparison.load("two").traces["UnifRW"].provenance["privacy"]["noise"] == 9.0


def test_the_remedy_on_the_command_line_can_be_typed() -> None:
    private = ["--privacy", "clip=2,noise=20"]
    done = typed("compare", NETWORK, *QUICK, "--designs", "mhlj", *private)
    assert "scores=public in --privacy" in str(done.exception)
    assert "scores=released,score_low=0.1,score_high=10,score_noise=10" in str(done.exception)
    for more in ("scores=public", "scores=released,score_low=0.1,score_high=10,score_noise=10"):
        check_scores(as_privacy(f"{private[1]},{more}"), lw.mhlj(), "theory")


def test_an_experiment_file_takes_a_text_or_a_table() -> None:
    parts = {
        "network": {"family": "complete", "n": 10},
        "problem": {"data": "homogeneous"},
        "designs": {"a": {"kind": "unif_rw"}},
    }
    made = lw.Privacy(clip=1.0, noise=5.0, scores="public")
    for given in ("clip=1,noise=5,scores=public", {"clip": 1, "noise": 5, "scores": "public"}):
        spec = check_experiment(parts | {"run": {"steps": 9, "privacy": given}})
        assert spec.run.options()["privacy"] == made
    wrong = check_experiment(parts | {"run": {"steps": 9, "privacy": "clip=1"}})
    with pytest.raises(lw.InvalidSpec, match=r"\[run\] privacy must have a number for noise"):
        wrong.run.options()


def test_a_fleet_is_refused_what_its_privacy_forbids() -> None:
    words = ["fleet", "init", "--network", "ring:4", "mine", "--privacy", "clip=1,noise=5"]
    for more, why in (
        ([], "design MHLJ depends on the nodes' scores"),
        (["--design", "unif_rw"], "step_size = 'theory' depends on the largest L_v"),
        (["--design", "unif_rw", "--step-size", "0.01", "--shared-key"], "--shared-key cannot be"),
        (["--design", "unif_rw", "--step-size", "0.01", "--update", "newton_token"], "newton_tok"),
        (["--design", "unif_rw", "--step-size", "0.01", "--for", "compose"], "--for compose"),
        (["--design", "unif_rw", "--step-size", "0.01", "--stop", "detector"], "--stop steps"),
    ):
        done = typed(*words, *more)
        assert done.exit_code != 0
        assert why in str(done.exception)
        assert not Path("mine").exists()


def test_a_simulated_fleet_takes_privacy(tmp_path: Path) -> None:
    words = ["ring:12", "--design", "unif_rw", "--step-size", "0.01", "--steps", "60"]
    privacy = ["--privacy", "clip=1,noise=5,budget=2"]
    done = typed("fleet", "simulate", *words, *privacy, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "protects nobody" in done.output
