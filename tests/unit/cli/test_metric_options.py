"""``--held-out``, ``--metrics``, ``--rank-by`` and ``--partition`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.experiments.spec import check_experiment

RUNNER = CliRunner()
QUICK = ["--steps", "300", "--replicas", "3", "--designs", "unif_rw", "--step-size", "0.02"]
METRIC = ["--held-out", "0.25", "--metrics", "mean_squared_error,r2"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3))
    rows = np.column_stack([features, features.sum(axis=1) + 0.1 * rng.normal(size=40)])
    np.savetxt("a.csv", rows, delimiter=",", header="a,b,c,y", comments="")
    return "a.csv"


def typed(*words: str) -> Result:
    return RUNNER.invoke(app, list(words))


@pytest.mark.more
def test_a_comparison_by_a_metric_and_its_experiment_file(data: str) -> None:
    ranked = ["--rank-by", "mean_squared_error", "--accuracy", "0.5"]
    done = typed("compare", "ring:30", "--data", data, *QUICK, *METRIC, *ranked, "--out", "one")
    assert done.exit_code == 0, done.output
    assert "UnifRW reached mean_squared_error 0.5 after" in done.output
    result = lw.Comparison.load("one")
    trace = result.traces["UnifRW"]
    assert list(trace.metrics) == ["mean_squared_error", "r2"]
    mean = trace.metrics["mean_squared_error"][
        :, np.searchsorted(trace.step, trace.metric_step)
    ].mean(axis=0)
    last = int(np.flatnonzero(mean > 0.5)[-1]) + 1
    assert result.steps_to["UnifRW"] == trace.metric_step[last]
    assert "higher" not in result.ranking.best
    again = typed("run", "one/experiment.toml", "--out", "two")
    assert again.exit_code == 0, again.output
    assert lw.Comparison.load("two").table().equals(result.table())
    other = typed("run", "one/experiment.toml", "--rank-by", "r2", "--set", "run.accuracy=0.5",
                  "--out", "three", "--json")  # fmt: skip
    assert other.exit_code == 0, other.output
    assert json.loads(other.stdout)["rank_by"] == "r2"
    assert lw.Comparison.load("three").ranking.higher_is_better


def test_held_out_samples_are_at_no_node(data: str) -> None:
    content = {
        "network": {"family": "ring", "n": 30},
        "problem": {"data": "file", "file": data, "held_out": 0.25},
        "designs": {"a": {"kind": "unif_rw"}},
        "run": {"steps": 9, "metrics": ["held_out_loss"]},
    }
    spec = check_experiment(content)
    _, problem, _, metrics = spec.build_with_metrics(Path())
    whole = np.loadtxt(data, delimiter=",", skiprows=1)
    test = metrics["held_out_loss"].features
    assert (len(test), problem.n_samples) == (10, 30)
    both = np.vstack([test, problem.features])
    assert sorted(map(tuple, both)) == sorted(map(tuple, whole[:, :3]))
    x = np.ones(3)
    rows = {tuple(row[:3]): row[3] for row in whole}
    wanted = np.mean([(rows[tuple(row)] - row.sum()) ** 2 for row in test])
    assert metrics["held_out_loss"](x) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--rank-by", "r2"], "give --metrics r2"),
        (["--rank-by", "foo"], "one of the metrics, which are accuracy, log_loss, held_out_loss, "),
        (["--metrics", "r2"], "metrics need held-out samples of a data file: add --held-out 0.2"),
        (
            ["--data", "homogeneous", "--metrics", "r2"],
            "metrics need held-out samples of a data file: add --data FILE --held-out 0.2",
        ),
        (["--metrics", "r3", "--held-out", "0.2"], "metrics must be of accuracy"),
        (["--held-out", "2"], "--held-out must be a number between 0 and 1"),
        (["--metrics", "accuracy", "--held-out", "0.2"], "one with classes"),
        (["--partition", "dirichlet:alpa=1"], "takes alpha=0.5, min_size=2"),
        (["--partition", "shards"], "'--partition': must be one of 'iid'"),
        (["--accuracy", "3"], "accuracy must be between 0 and 1"),
    ],
)
def test_mistakes_name_what_to_type(data: str, words: list[str], match: str) -> None:
    done = typed("compare", "ring:30", "--data", data, *QUICK, *words)
    assert done.exit_code != 0
    said = " ".join(done.stderr.split())  # of options that are refused while they are read
    assert match in f"{done.exception} {said}"
    assert not list(Path().glob("*/result.json"))


def test_drawn_data_have_nothing_to_hold_out(data: str) -> None:
    done = typed("compare", "ring:30", *QUICK, "--held-out", "0.2")
    assert "--held-out belong to a data file" in str(done.exception)


@pytest.mark.more
def test_options_of_a_partition_are_typed_after_a_colon(data: str) -> None:
    done = typed(
        "compare", "ring:4", "--data", data, *QUICK, "--partition", "size:alpha=0.1,min_size=3",
        "--out", "four",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert 'partition = "size:alpha=0.1,min_size=3"' in Path("four/experiment.toml").read_text()
