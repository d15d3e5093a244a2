"""``levywalk compare`` as a user types it;
what it writes, `levywalk run` runs to the same numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from tests.forked import levywalk

RUNNER = CliRunner()
QUICK = ["--steps", "400", "--replicas", "3", "--accuracy", "0.3"]
ARRAYS = ("step", "distance2", "hops", "transfers", "visits", "walk", "model")


def compare(*arguments: str) -> Result:
    return RUNNER.invoke(app, ["compare", *arguments])


def numbers(folder: Path) -> dict[str, Any]:
    """Return result.json without what says how it came about."""
    document: dict[str, Any] = json.loads((folder / "result.json").read_text())
    for row in document["designs"].values():
        row["provenance"] = {
            key: row["provenance"][key] for key in ("network", "problem", "design", "seed", "start")
        }
    return {key: document[key] for key in ("accuracy", "designs", "settings")}


def assert_same(one: Path, other: Path) -> None:
    assert numbers(one) == numbers(other)
    names = sorted(path.name for path in one.glob("*.nc"))
    assert names == sorted(path.name for path in other.glob("*.nc"))
    for name in names:
        a, b = lw.load_trace(one / name), lw.load_trace(other / name)
        for array in ARRAYS:
            assert np.array_equal(getattr(a, array), getattr(b, array)), (name, array)


@pytest.mark.more
def test_it_writes_all_and_its_experiment_file_gives_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    designs = "unif_rw,mhlj:p_jump=0.2,max_hops=2,mixed_rw:mix=0.1"
    done = compare("ws:40,4,0.1", "--important", "2", "--designs", designs, "--seed", "5", *QUICK)
    assert done.exit_code == 0, done.output
    out = tmp_path / "levywalk-compare"
    wanted = {"table.csv", "figure.png", "result.json", "report.html", "experiment.toml"}
    assert {path.name for path in out.iterdir()} >= wanted
    assert not (out / "unfinished").exists()
    for text in (
        "UnifRW",
        "MHLJ(p_jump=0.2, max_hops=2)",
        "MixedRW(0.1)",
        "tuned to 30 %",
        "% of the initial error",
    ):
        assert text in done.stdout
    again = RUNNER.invoke(app, ["run", "levywalk-compare/experiment.toml", "--out", "again"])
    assert again.exit_code == 0, again.output
    assert_same(out, tmp_path / "again")
    found = json.loads((out / "result.json").read_text())["designs"]
    network, problem = (
        lw.watts_strogatz(40, 4, 0.1, seed=5),
        lw.heterogeneous(40, important=2, seed=5),
    )
    by_hand = lw.compare(
        network,
        problem,
        {"UnifRW": lw.unif_rw()},
        steps=400,
        replicas=3,
        accuracy=0.3,
        seed=5,
        record_every=1,
    )
    assert found["UnifRW"]["step_size"] == by_hand.step_size["UnifRW"]
    assert found["UnifRW"]["final_error"] == by_hand.table().loc["UnifRW", "final_error"]


@pytest.mark.more
def test_the_page_says_what_was_typed(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = compare("ring:20", "--designs", "mhlj", "--step-size", "theory", *QUICK, "--out", out)
    assert done.exit_code == 0, done.output
    options = "--designs mhlj --steps 400 --replicas 3 --accuracy 0.3 --step-size theory"
    typed = f"levywalk compare ring:20 {options} --out {out}"
    page = (tmp_path / "out" / "report.html").read_text()
    assert f'<code id="command">{typed}</code>' in page
    assert "right spectral gap" in page
    assert f"# {typed}\n" in (tmp_path / "out" / "experiment.toml").read_text()
    assert "step sizes given, not tuned" in done.stdout


@pytest.mark.more
def test_own_files_are_found_from_the_experiment_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "graph.edges").write_text("\n".join(f"{i} {(i + 1) % 10}" for i in range(10)))
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((40, 2)), rng.integers(0, 2, 40)])
    np.savetxt(place / "data.csv", rows, delimiter=",")
    monkeypatch.chdir(place)
    own = [
        "graph.edges",
        "--data",
        "data.csv",
        "--loss",
        "logistic",
        "--ridge",
        "0.1",
        "--partition",
        "label",
    ]
    done = compare(*own, "--designs", "unif_rw", *QUICK, "--out", "deep/out")
    assert done.exit_code == 0, done.output
    assert 'file = "../../graph.edges"' in (place / "deep" / "out" / "experiment.toml").read_text()
    assert "right spectral gap" in (place / "deep" / "out" / "report.html").read_text()
    monkeypatch.chdir(tmp_path)
    again = RUNNER.invoke(app, ["run", "mine/deep/out/experiment.toml", "--out", "again"])
    assert again.exit_code == 0, again.output
    assert_same(place / "deep" / "out", tmp_path / "again")


@pytest.mark.more
def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    done = levywalk("compare", "ring:20", "--designs", "unif_rw", *QUICK, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["command"] == "compare"
    assert str(Path("levywalk-compare") / "experiment.toml") in document["files"]
    assert done.stderr == ""


@pytest.mark.more
def test_an_experiment_file_changed_by_hand_is_never_lost(tmp_path: Path) -> None:
    out, arguments = (
        tmp_path / "out",
        ["ring:20", "--designs", "unif_rw", *QUICK, "--out", str(tmp_path / "out")],
    )
    assert compare(*arguments).exit_code == 0
    assert compare(*arguments, "--seed", "1").exit_code == 0  # its own file is written anew
    changed = (out / "experiment.toml").read_text().replace("steps = 400", "steps = 500")
    (out / "experiment.toml").write_text(changed)
    before = (out / "result.json").read_bytes()
    done = compare(*arguments)
    assert isinstance(done.exception, lw.LevywalkError)
    for word in ("changed by hand", "--out", "levywalk run"):
        assert word in str(done.exception)
    assert (out / "experiment.toml").read_text() == changed
    assert (out / "result.json").read_bytes() == before


def test_very_long_walks_are_not_kept() -> None:
    from levywalk.experiments.experiment_file import written_experiment

    parts = {
        "network": {"family": "ring", "n": 9},
        "problem": {"data": "homogeneous"},
        "designs": {"a": {"kind": "mhlj"}},
    }
    kept = [
        written_experiment(**parts, run={"steps": steps, "replicas": 10}, folder=Path("out"))[
            1
        ].run.record_walk
        for steps in (1_000_000, 100_000_000)
    ]
    assert kept == [True, False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["network", "levywalk compare ring:1000"]),
        (["ring"], ["'ring:n'"]),
        (["rng:50"], ["'rng:50'", "'ring:n'"]),
        (["ring:10.5"], ["ring:n", "whole", "10.5"]),
        (["ring:2"], ["n must", "got 2"]),
        (["none.edges"], ["none.edges"]),
        (["ring:20", "--data", "heterogenous"], ["'heterogenous'", "did you mean 'heterogeneous'"]),
        (["ring:20", "--data", "none.csv"], ["none.csv"]),
        (
            ["ring:20", "--data", "homogeneous", "--important", "2"],
            ["important", "'heterogeneous'"],
        ),
        (["ring:20", "--loss", "logistic"], ["loss", "data file"]),
        (["ring:20", "--ridge", "0.1"], ["ridge", "data file"]),
        (["ring:20", "--designs", "mhjl"], ["'mhjl'", "did you mean 'mhlj'"]),
        (["ring:20", "--designs", "MHLJ"], ["did you mean 'mhlj'"]),
        (["ring:20", "--designs", "switching"], ["'switching'", "levywalk run --example"]),
        (["ring:20", "--designs", "mhlj,mhlj"], ["'MHLJ' twice"]),
        (["ring:20", "--designs", "mhlj:p_jmp=0.2"], ["'p_jmp=0.2'", "did you mean 'p_jump'"]),
        (["ring:20", "--designs", "mhlj:p_jump=2"], ["p_jump", "[0, 1]", "2"]),
        (["ring:20", "--designs", "mhlj:max_hops=2.5"], ["max_hops", "whole", "'2.5'"]),
        (["ring:20", "--designs", "unif_rw:p_jump=1"], ["unif_rw", "no parameters"]),
        (["ring:20", "--designs", "simple_rw:reweight=maybe"], ["reweight", "true or false"]),
        (["ring:20", "--designs", "mixed_rw"], ["mixed_rw:mix=0.3"]),
        (["ring:20", "--designs", ""], ["''"]),
        (["ring:20", "--steps", "0"], ["steps", "at least 1", "got 0"]),
        (["ring:20", "--replicas", "-1"], ["replicas", "at least 1", "got -1"]),
        (["ring:20", "--accuracy", "2"], ["accuracy", "between 0 and 1", "got 2"]),
        (["ring:20", "--accuracy", "nan"], ["accuracy", "nan"]),
        (["ring:20", "--step-size", "big"], ["tuned, theory", "'big'"]),
        (["ring:20", "--step-size", "-1"], ["--step-size", "above 0", "'-1'"]),
    ],
)
def test_bad_input_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = compare(*arguments)
    assert isinstance(done.exception, lw.LevywalkError), (
        done.output
    )  # `main` prints it and exits with 2
    for word in words:
        assert word in str(done.exception)
    assert not list(tmp_path.glob("levywalk-compare/*"))


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--partition", "'iid', 'label', 'dirichlet', 'size'"),
        ("--directed", "'symmetrise', 'error'"),
        ("--self-loops", "'none', 'counted'"),
        ("--network-format", "'edges', 'mtx', 'graphml', 'npz'"),
        ("--data-format", "'csv', 'libsvm', 'npz'"),
        ("--missing", "'refuse', 'drop'"),
    ],
)
def test_a_word_that_an_option_does_not_know_is_refused_with_the_list(
    option: str, known: str
) -> None:
    done = compare("ring:20", option, "lable")
    assert done.exit_code == 2
    assert option in done.stderr
    assert known in done.stderr
    assert "'lable'" in done.stderr


def test_the_exit_code_is_2_and_there_is_no_traceback(tmp_path: Path) -> None:
    done = levywalk("compare", "ring:20", "--designs", "mhjl", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown design 'mhjl'; did you mean 'mhlj'? known: ")
    assert "changing_jumps" not in done.stderr  # it needs an experiment file
    assert "unif_rw" in done.stderr
    assert done.stderr.endswith("add your own with --load FILE\n")
    assert "Traceback" not in done.stderr


def test_an_error_about_an_argument_names_the_option(tmp_path: Path) -> None:
    done = levywalk("compare", "ring:20", "--replicas", "0", cwd=tmp_path)
    assert done.stderr.startswith("error: --replicas must be ")


def test_help_has_examples() -> None:
    done = compare("--help")
    assert "levywalk compare ring:1000" in done.output
    assert "mhlj:p_jump=0.2" in done.output


@pytest.mark.more
def test_costs_of_the_command_line_give_a_time_and_are_repeated_by_its_file(tmp_path: Path) -> None:
    out, again = tmp_path / "first", tmp_path / "again"
    costs = ["--costs", "mobile,latency=0.5"]
    done = compare("ring:20", "--designs", "mhlj", *QUICK, *costs, "--out", str(out))
    assert done.exit_code == 0, done.output
    (file,) = out.glob("*.nc")
    trace, name = lw.load_trace(file), file.name
    sent = trace.transfers * 80  # ten numbers of eight bytes
    expected = 0.01 * trace.step + 0.5 * trace.transfers + sent / (11.22e6 / 8)
    np.testing.assert_allclose(trace.time, expected, rtol=1e-12)
    experiment = str(out / "experiment.toml")
    assert RUNNER.invoke(app, ["run", experiment, "--out", str(again)]).exit_code == 0
    assert np.array_equal(lw.load_trace(again / name).time, trace.time)
    other = ["run", experiment, "--costs", "compute=1,latency=0,bandwidth=1e30"]
    assert RUNNER.invoke(app, [*other, "--out", str(tmp_path / "other")]).exit_code == 0
    alone = lw.load_trace(tmp_path / "other" / name)
    np.testing.assert_allclose(alone.time, np.tile(alone.step, (3, 1)), rtol=1e-12)


def test_wrong_costs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    refused = compare("ring:20", *QUICK, "--costs", "5G", "--out", str(tmp_path / "none"))
    assert "costs must be one of" in str(refused.exception)
    assert not (tmp_path / "none").exists()
