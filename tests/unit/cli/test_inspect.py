"""``levywalk inspect`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app

runner = CliRunner()


@pytest.mark.more
def test_terminal_report_names_designs_sentence_and_assumptions() -> None:
    done = runner.invoke(app, ["inspect", "ring:24", "--important", "1"])
    assert done.exit_code == 0, done.output
    for word in (
        "UnifRW",
        "WeightRW",
        "MHLJ",
        "steps per visit at node",
        "Assumption 4",
        "predicted steps to 1 %",
    ):
        assert word in done.output


@pytest.mark.more
def test_json_is_alone_and_equals_the_library() -> None:
    done = runner.invoke(
        app, ["inspect", "ws:30,4,0.1", "--important", "2", "--seed", "3", "--json"]
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    network, problem = (
        lw.watts_strogatz(30, 4, 0.1, seed=3),
        lw.heterogeneous(30, important=2, seed=3),
    )
    report = lw.entrapment(network, problem, lw.weight_rw())
    row = next(row for row in document["designs"] if row["design"] == "WeightRW")
    assert row["score"] == pytest.approx(report.score)
    assert row["spectral_gap"] == pytest.approx(report.spectral_gap.value)
    assert row["steps"] == pytest.approx(lw.predict(network, problem, lw.weight_rw()).steps)


def test_column_of_smoothness_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "L.txt"
    np.savetxt(path, np.r_[100.0, np.ones(4)])
    done = runner.invoke(app, ["inspect", "ring:5", "--smoothness", str(path), "--json"])
    assert done.exit_code == 0, done.output
    row = next(row for row in json.loads(done.stdout)["designs"] if row["design"] == "WeightRW")
    assert row["dwell"] == pytest.approx(100.0)
    assert row["steps"] is None


@pytest.mark.more
def test_own_files_and_figure(tmp_path: Path) -> None:
    (tmp_path / "graph.edges").write_text("\n".join(f"{i} {(i + 1) % 10}" for i in range(10)))
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((40, 2)), rng.integers(0, 2, 40)])
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",")
    arguments = [
        "inspect",
        str(tmp_path / "graph.edges"),
        "--data",
        str(tmp_path / "data.csv"),
        "--loss",
        "logistic",
    ]
    done = runner.invoke(app, [*arguments, "--ridge", "0.1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "inspect.png").stat().st_size > 1000
    assert json.loads((tmp_path / "out" / "inspect.json").read_text())["network"]


@pytest.mark.more
def test_tune_prints_the_best_parameters() -> None:
    done = runner.invoke(
        app, ["inspect", "ring:10", "--important", "1", "--tune", "--json", "--accuracy", "0.2"]
    )
    assert done.exit_code == 0, done.output
    tuned = json.loads(done.stdout)["tuned"]
    assert tuned["steps"] == min(row["cost"] for row in tuned["curve"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ring"], "ring:…"),
        (["ring:ten"], "ring:n"),
        (["ws:10"], "ws:n,k,p"),
        (["ring:2"], "2"),
        (["none.edges"], "none.edges"),
        (["ring:10", "--data", "nothing"], "heterogeneous"),
        (["ring:10", "--p-jump", "2"], "p_jump"),
        (["rnig:10"], "did you mean 'ring:n'"),
        (["ring:10", "--loss", "logistik"], "'logistik'"),
        (["ring:10", "--ridge", "1"], "belong to a data file"),
        (["ring:10", "--data", "homogeneous", "--important", "1"], "important = 1 belongs"),
        (["ring:10", "--smoothness", "none.txt"], "none.txt"),
    ],
)
def test_bad_input_is_named(arguments: list[str], words: str) -> None:
    done = runner.invoke(app, ["inspect", *arguments])
    assert isinstance(done.exception, lw.LevywalkError)  # `main` prints it and exits with 2
    assert words in str(done.exception)
