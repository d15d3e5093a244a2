"""``levywalk sweep`` as a user types it, right, wrong and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.experiments.result_folder import result_folder
from levywalk.experiments.spec import check_experiment
from levywalk.sweeps import pools, workers
from levywalk.sweeps.store import ResultStore, ResultStoreError
from tests.limits import PATIENCE
from tests.unit.sweeps.test_jobs import cluster, running_cluster  # noqa: F401 (fixtures)
from tests.unit.sweeps.test_sweep import BASE

runner = CliRunner()
SWEEP = BASE + '\n[sweep]\n"network.n" = [20, 30]\n"run.seed" = [0, 1]\n[output]\nfigure = "none"\n'
FAILING = SWEEP.replace(
    '"network.n" = [20, 30]',
    '"network" = [{ family = "ring", n = 20 }, { family = "erdos_renyi", n = 40, p = 0.01 }]',
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*arguments: str, file: str = "sweep.toml") -> Any:
    return runner.invoke(app, ["sweep", file, "--workers", "0", *arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "store").iterdir()}


def test_a_sweep_writes_table_json_and_store_and_shows_the_table(folder: Path) -> None:
    done = sweep("--out", "results")
    assert done.exit_code == 0, done.output
    assert "4 points, 2 designs: 8 different runs" in done.stderr
    for word in (
        "network.n",
        "run.seed",
        "UnifRW",
        "my walk",
        "Written: results/table.csv, results/result.json",
    ):
        assert word in done.stdout
    assert len(contents(folder / "results")) == 8


def test_repeated_it_computes_nothing_and_says_so(folder: Path) -> None:
    first = sweep("--json")
    before = {path: path.stat().st_mtime_ns for path in (folder / "out" / "store").iterdir()}
    second = sweep("--json")
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert "8 of them stored" in second.stderr
    assert before == {
        path: path.stat().st_mtime_ns for path in (folder / "out" / "store").iterdir()
    }


@pytest.mark.more
def test_fresh_runs_it_again_to_the_same_bytes(folder: Path) -> None:
    sweep()
    before, stored = contents(folder / "out"), folder / "out" / "store"
    times = {path: path.stat().st_mtime_ns for path in stored.iterdir()}
    done = sweep("--fresh")
    assert done.exit_code == 0
    assert "stored" not in done.stderr
    assert contents(folder / "out") == before
    assert all(path.stat().st_mtime_ns > times[path] for path in stored.iterdir())


def test_a_dry_run_says_what_would_be_run_and_leaves_no_trace(folder: Path) -> None:
    done = sweep("--dry-run")
    assert done.exit_code == 0
    assert "network.n = 20, run.seed = 0, UnifRW" in done.stdout
    assert "4 points, 8 different runs to compute" in done.stdout
    assert not (folder / "out").exists()
    (folder / "sweep.toml").write_text(SWEEP.replace("[0, 1]", "[0]"))
    sweep()
    (folder / "sweep.toml").write_text(SWEEP)
    document = json.loads(sweep("--dry-run", "--json").stdout)
    assert (document["points"], document["to_compute"]) == (4, 4)
    assert [row["run.seed"] for row in document["runs"] if row["stored"]] == [0] * 4


def test_the_example_is_printed_and_can_be_swept(folder: Path) -> None:
    printed = runner.invoke(app, ["sweep", "--example"])
    assert printed.exit_code == 0
    (folder / "example.toml").write_text(printed.stdout)
    done = sweep("--dry-run", file="example.toml")
    assert "12 points, 20 different runs" in done.stdout


def test_a_failed_point_is_named_the_others_are_written_and_the_exit_code_is_1(
    folder: Path,
) -> None:
    (folder / "sweep.toml").write_text(FAILING)
    done = sweep("--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert len(document["rows"]) == 4
    assert len(document["failures"]) == 4
    assert "error: 4 runs failed" in done.stderr
    assert "erdos_renyi" in done.stderr
    assert "components" in done.stderr


def test_a_full_disk_is_reported_with_exit_code_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ResultStore, key: str, content: bytes) -> None:
        raise ResultStoreError("could not be written: No space left on device")

    monkeypatch.setattr(workers.tempfile, "tempdir", str(folder))
    monkeypatch.setattr(ResultStore, "put", full)
    done = sweep()
    assert done.exit_code == 1
    assert "No space left" in done.stderr
    assert "lost" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep"], "--example"),
        (["sweep", "nowhere.toml"], "nowhere.toml"),
        (
            ["sweep", "sweep.toml", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"],
            "--workers or --scheduler",
        ),
        (["sweep", "sweep.toml", "--out", "sweep.toml"], "sweep.toml"),
    ],
)
def test_bad_input_is_named(folder: Path, arguments: list[str], words: str) -> None:
    done = runner.invoke(app, arguments)
    assert isinstance(done.exception, lw.LevywalkError)  # `main` prints it and exits with 2
    assert words in str(done.exception)
    assert not (folder / "out").exists()


@pytest.mark.more
def test_a_wrong_key_exits_with_2_and_no_traceback(folder: Path) -> None:
    (folder / "sweep.toml").write_text(SWEEP.replace("network.n", "network.nodes"))
    command = [sys.executable, "-m", "levywalk", "sweep", "sweep.toml"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "network.nodes: unknown key" in done.stderr


@pytest.mark.more
def test_on_a_cluster_it_stores_the_same_bytes(folder: Path, cluster: str) -> None:  # noqa: F811
    assert sweep("--out", "here").exit_code == 0
    done = runner.invoke(app, ["sweep", "sweep.toml", "--scheduler", cluster, "--out", "there"])
    assert done.exit_code == 0, done.output
    assert contents(folder / "here") == contents(folder / "there")
    assert (folder / "here" / "table.csv").read_bytes() == (
        folder / "there" / "table.csv"
    ).read_bytes()


def test_a_cluster_that_does_not_answer_exits_with_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(pools, "_CONNECT", 0.3)
    done = runner.invoke(app, ["sweep", "sweep.toml", "--scheduler", "tcp://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "no Dask scheduler answers" in done.stderr


# The third run of the sweep never ends, so that a signal meets it.
CHILD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from levywalk.sweeps import sweep
before, begun = sweep.execute, []
def execute(*arguments, **options):
    begun.append(1)
    print("begun", len(begun), file=sys.stderr, flush=True)
    if len(begun) == 3 and "stuck" in sys.argv:
        time.sleep(3600)  # longer than anybody waits: only the signal can end it
    return before(*arguments, **options)
sweep.execute = execute
sys.argv = [word for word in sys.argv if word != "stuck"]
from levywalk.cli.main import main
main()
"""


@pytest.mark.more
def test_interrupted_it_exits_with_130_and_the_same_command_runs_only_the_rest(
    folder: Path,
) -> None:
    command = [sys.executable, "-c", CHILD, "sweep", "sweep.toml", "--workers", "0"]
    child = subprocess.Popen(
        [*command, "stuck"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    while child.stderr.readline() != "begun 3\n":
        assert child.poll() is None
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert out == ""
    assert "Interrupted. 6 runs are left. Run the same command again to resume." in err
    assert len(contents(folder / "out")) == 2
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("begun") == 6
    interrupted = (folder / "out" / "table.csv").read_bytes()
    assert sweep("--out", "whole").exit_code == 0
    assert (folder / "whole" / "table.csv").read_bytes() == interrupted


@pytest.mark.more
def test_two_sweeps_never_share_the_default_folder_and_nothing_is_run_twice(folder: Path) -> None:
    assert sweep().exit_code == 0
    first = contents(folder / "out")
    table = (folder / "out" / "table.csv").read_bytes()
    (folder / "more.toml").write_text(SWEEP.replace("[20, 30]", "[20, 30, 40]"))
    planned = sweep("--dry-run", file="more.toml")
    assert "4 different runs to compute, results in out-2" in planned.stdout
    assert not (folder / "out-2").exists()
    more = sweep(file="more.toml")
    assert more.exit_code == 0
    assert "out holds another sweep, so this one goes to out-2." in more.stderr
    assert "12 different runs, 8 of them stored" in more.stderr
    assert (folder / "out" / "table.csv").read_bytes() == table
    assert contents(folder / "out") == first
    assert first.items() <= contents(folder / "out-2").items()
    again = sweep()  # finds its folder again
    assert "8 different runs, 8 of them stored" in again.stderr
    assert "Written: out/table.csv" in again.stdout
    assert not (folder / "out-3").exists()


def test_a_run_does_not_write_into_the_folder_of_a_sweep(folder: Path) -> None:
    assert sweep().exit_code == 0
    settings = json.loads((folder / "out" / "result.json").read_text())["settings"]
    spec = check_experiment(settings)  # the first point of the sweep, which is an experiment
    assert result_folder("out", spec) == Path("out-2")
