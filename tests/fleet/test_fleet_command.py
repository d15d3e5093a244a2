"""``levywalk fleet simulate`` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.fleet.planned_faults import draw_faults
from levywalk.cli.main import app
from levywalk.fleet.operate import export
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.report.figures.timeline import plot_timeline
from tests.fleet.nodes import make

runner = CliRunner()
FILES = {"timeline.png", "timeline.svg", "fleet.json", "trace.nc"}


def simulate(*arguments: str) -> Result:
    return runner.invoke(app, ["fleet", "simulate", *arguments])


def test_without_faults_it_is_the_simulation(tmp_path: Path) -> None:
    done = simulate(
        "ring:20",
        "--important",
        "1",
        "--steps",
        "300",
        "--seed",
        "3",
        "--out",
        str(tmp_path),
        "--json",
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["summary"]["finished"]
    assert document["summary"]["lost_updates"] == 0
    trace = lw.load_trace(tmp_path / "trace.nc")
    network, problem = lw.ring(20), lw.heterogeneous(20, important=1, seed=3)
    again = lw.run(
        network,
        problem,
        lw.mhlj(),
        steps=300,
        step_size="theory",
        seed=3,
        backend="reference",
        record_walk=True,
    )
    assert np.array_equal(trace.walk, again.walk)
    assert np.array_equal(trace.model, again.model)
    assert document["error"] == again.error[0, -1]
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert all(Path(name).stat().st_size > 500 for name in document["files"])


@pytest.mark.more
def test_the_table_tells_what_happened_to_the_model(tmp_path: Path) -> None:
    faults = [
        "--kill",
        "holder@0.5014",
        "--cut",
        "0-4@3-5",
        "--leave",
        "9@1",
        "--join",
        "12@0.4",
    ]
    done = simulate(
        "ws:20,4,0.1", "--steps", "900", "--policy", "eager", *faults, "--out", str(tmp_path)
    )
    assert done.exit_code == 0, done.output
    text = " ".join(word for word in done.output.split() if word not in "│┃")
    for words in (
        "✗ is killed",
        "disconnected from the others: 0-4",
        "has left",
        "→ joins",
        "are down",
        "the walk is over",
    ):
        assert words in text, words
    assert "900 updates" in text
    assert "epochs" in text


@pytest.mark.more
def test_random_faults_are_drawn_from_the_seed_and_survived(tmp_path: Path) -> None:
    arguments = [
        "ws:20,4,0.1",
        "--steps",
        "800",
        "--random",
        "5",
        "--dead-after",
        "0.4",
        "--policy",
        "eager",
        "--json",
    ]
    one = json.loads(simulate(*arguments, "--out", str(tmp_path)).stdout)
    two = json.loads(simulate(*arguments, "--out", str(tmp_path)).stdout)
    other = json.loads(simulate(*arguments, "--seed", "1", "--out", str(tmp_path)).stdout)
    assert one == two
    assert one["summary"]["finished"]
    assert one["events"] != other["events"]
    assert len(draw_faults(5, 20, 4.0, 1.0, 0)) == 10


@pytest.mark.more
def test_a_walk_that_waits_says_for_what(tmp_path: Path) -> None:
    done = simulate(
        "ring:20", "--kill", "guardian@0.502", "--dead-after", "0.2", "--out", str(tmp_path)
    )
    assert done.exit_code == 0, done.output
    assert "not finished" in done.output
    assert "which is dead: restart it" in done.output


@pytest.mark.more
def test_designs_stops_and_signatures(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    for more in (
        "--signed",
        "--then unif_rw",
        "--stop detector",
        "--own-keys",
        "--self-loops counted",
    ):
        arguments = [
            "--data",
            "homogeneous",
            "--steps",
            "60",
            *more.split(),
            "--out",
            str(tmp_path),
            "--json",
        ]
        done = simulate("ring:12", *arguments)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["summary"]["updates"] == 60


@pytest.mark.more
def test_a_fault_after_the_end_is_said_to_be_too_late(tmp_path: Path) -> None:
    done = simulate(
        "ring:12",
        "--data",
        "homogeneous",
        "--steps",
        "40",
        "--kill",
        "3@99",
        "--out",
        str(tmp_path),
    )
    assert "Too late, after the end of the walk: kill 3@99" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs a network"),
        (["ring:12", "--network", "ring:9"], "given once, got ring:12 and --network ring:9"),
        (["--network", "rin:12"], "did you mean 'ring:n'"),
        (["rin:12"], "did you mean 'ring:n'"),
        (["ring:12", "--kill", "5"], "--kill must be NODE@TIME"),
        (["ring:12", "--kill", "boss@3"], "must be a number, holder or guardian"),
        (["ring:12", "--kill", "50@3"], "the node in .--kill 50@3. must be one of 0 to 11, got 50"),
        (["ring:12", "--kill", "5@soon"], "must be a number of seconds"),
        (["ring:12", "--kill", "5@-1"], "must be a number of seconds of at least 0, got '-1'"),
        (["ring:12", "--cut", "0-x@2-3"], "must be such as 0-9,12"),
        (["ring:12", "--cut", "0-3@2"], "--cut must be NODES@FROM-TO"),
        (["ring:12", "--cut", "5-2@2-3"], "must be such as 0-9,12, all below 12, got '5-2'"),
        (["ring:12", "--cut", "0-99999999999@2-3"], "all below 12"),
        (["ring:12", "--cut", "0-@2-3"], "must be such as 0-9,12"),
        (["ring:12", "--cut", "0-3@4-2"], "must end after it begins, got 4 to 2"),
        (["ring:12", "--join", "holder@2"], "must be a number, got 'holder'"),
        (["ring:12", "--latency", "5"], "--dead-after must be at least 4 latencies"),
        (["ring:12", "--dead-after", "0"], "--dead-after must be"),
        (["ring:12", "--heartbeat", "3"], "--dead-after must be at least 3 heartbeats of 3, or"),
        (["ring:12", "--heartbeat", "0"], "--heartbeat must be"),
        (["ring:12", "--latency", "0"], "--latency must be"),
        (["ring:12", "--policy", "hope"], "policy must be one of"),
        (["ring:12", "--stop", "never"], "stop must be one of"),
        (
            ["ring:12", "--design", "iid_uniform"],
            "design must walk over the edges in a fleet, got i.i.d. uniform, "
            "which only a server can do",
        ),
        (["ring:12", "--design", "mhlj,unif_rw"], "design must be one"),
        (["ring:12", "--step-size", "tuned"], "--step-size must be theory or a number"),
        (["ring:12", "--steps", "0"], "steps must be an integer"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = simulate(*arguments, "--data", "homogeneous", "--out", str(tmp_path / "out"))
    with pytest.raises(lw.LevywalkError, match=message):
        raise done.exception or AssertionError(done.output)
    assert not (tmp_path / "out").exists()


def test_the_exit_code_is_2_and_there_is_no_traceback() -> None:
    command = [sys.executable, "-m", "levywalk", "fleet", "simulate", "ring:12", "--kill", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: --kill must be NODE@TIME, such as 5@1.5, got '5'\n"


def test_the_figure_shows_each_kind_once() -> None:
    legs = [
        ("epoch 0", [0.0, 1.0, 2.0], [0, 29, 29], False),
        ("epoch 0", [2.0, 3.0], [29, 29], True),
    ]
    figure = plot_timeline(
        30, 4.0, legs, [(1.0, 2, "kill"), (2.0, 3, "kill")], [(2, 1.0, 4.0, "away")], title="x"
    )
    assert isinstance(figure, Figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "epoch 0",
        "lost",
        "killed",
        "not running",
    ]


def test_the_trace_of_a_walk_that_goes_on_does_not_count_updates_that_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between recorded steps the walk may have made very many."""
    folder = make(tmp_path / "fleet", 3, steps=5_000_000)
    every = FleetFolder.open(folder).manifest.published.record_every
    merged = lw.run(
        *(lw.ring(3), lw.homogeneous(3, dim=2), lw.mhlj()),
        steps=2 * every,
        step_size="theory",
        record_every=every,
        backend="reference",
    )
    about = {
        "stopped_at": -1,
        "lost_updates": 0,
        "lost_updates_at_most": 0,
        "memory_starts": [],
        "damaged": [],
    }
    about |= {"missing": [0, 2 * every], "epochs": [{}]}
    merged = replace(merged, provenance=merged.provenance | {"fleet": about})
    monkeypatch.setattr(export, "trace", lambda *_, **__: merged)
    done = CliRunner().invoke(
        app, ["fleet", "trace", str(folder), "--out", str(tmp_path / "walk.nc")]
    )
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert every > 1
    assert said.startswith(f"The trace ends at recorded step {2 * every:,}: ")
    assert f"The walk is not over; the next recorded step is {3 * every:,}." in said
    assert "1 step took place: no log that was read has it, so its node is -1." in said
