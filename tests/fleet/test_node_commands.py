"""``levywalk fleet init``, ``up``, ``status`` … and ``levywalk node``, as a user types them."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.fleet.status import picture
from levywalk.cli.main import app
from levywalk.errors import LevywalkError
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.runtime.node_status import running
from tests.limits import PATIENCE
from tests.limits import eventually as until

pytestmark = pytest.mark.filterwarnings("ignore:the minimiser is not unique")
HEAVY = ("numba", "scipy", "networkx", "matplotlib", "xarray", "h5py", "grpc")
runner = CliRunner()


def fleet(*arguments: str | int | Path) -> Result:
    return runner.invoke(app, ["fleet", *map(str, arguments)])


def typed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a process whose output is a pipe, and wait until nobody holds that
    any more.
    """
    command = [sys.executable, "-m", "levywalk.cli.main", *map(str, arguments)]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def status(folder: Path) -> dict[str, Any]:
    return dict(json.loads(fleet("status", folder, "--json").stdout))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fleet that was started by the command, so that it has no parent; its walk is over."""
    path = tmp_path_factory.mktemp("commands") / "my fleet"
    made = fleet("init", "--network", "ring:4", "--steps", 300, "--seed", 3, "--shared-key", path)
    assert made.exit_code == 0, made.output
    assert f"Next: levywalk fleet up '{path}'" in made.stdout
    try:
        done = typed("fleet", "up", path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Started nodes 0-3. 4 of 4 nodes run; logs are" in done.stdout
        assert all(running(path / f"node-{v}/state") for v in range(4))
        until(lambda: all(node["finished"] for node in status(path)["nodes"]))
        yield path
    finally:
        FleetFolder.open(path).stop(force=True)


def test_status_for_people_and_for_machines(folder: Path) -> None:
    found = status(folder)
    assert (found["name"], found["step"], found["finished"], found["lost_updates"]) == (
        "my-fleet",
        300,
        True,
        0,
    )
    assert type(found["holder"]) is type(found["nodes"][0]["id"]) is int
    said = fleet("status", folder).stdout
    assert "the walk is over" in said
    assert "300 of 300 updates" in said
    for node in found["nodes"]:
        assert re.search(rf"^ +{node['id']} +{node['pid']} +up", said, re.MULTILINE)


def test_status_loads_no_library_of_the_simulation(folder: Path) -> None:
    code = (
        "import sys; from levywalk.cli.main import app; app(sys.argv[1:], standalone_mode=False);"
        f"print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "fleet", "status", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.split() == []


def test_up_again_changes_nothing(folder: Path) -> None:
    before = [node["pid"] for node in status(folder)["nodes"]]
    again = fleet("up", folder)
    assert again.exit_code == 0
    assert "All nodes were running" in again.stdout
    assert [node["pid"] for node in status(folder)["nodes"]] == before


def test_the_trace_and_the_model_are_those_of_the_simulation(folder: Path, tmp_path: Path) -> None:
    same = lw.run(
        *(lw.ring(4), lw.heterogeneous(4, seed=3), lw.mhlj()),
        steps=300,
        step_size="theory",
        seed=3,
        backend="reference",
        record_walk=True,
    )
    done = fleet("trace", folder, "--out", tmp_path / "walk.nc")
    assert done.exit_code == 0, done.output
    assert "300 updates, " in done.stdout
    assert "no updates lost" in done.stdout
    trace = lw.load_trace(tmp_path / "walk.nc")
    assert trace.walk is not None
    assert same.walk is not None
    assert np.array_equal(trace.walk, same.walk)
    assert np.array_equal(trace.model, same.model)
    assert np.array_equal(trace.transfers[:, np.isin(trace.step, same.step)], same.transfers)
    done = fleet("model", folder, "--out", tmp_path / "model.safetensors")
    assert done.exit_code == 0, done.output
    assert np.array_equal(load_file(tmp_path / "model.safetensors")["model"], same.model[0])


def test_logs_in_words_and_as_json(folder: Path) -> None:
    said = fleet("logs", folder).stdout
    assert "the walk is over after 300 updates" in said
    lines = [
        json.loads(line)
        for line in fleet("logs", folder, "--node", 2, "--json").stdout.splitlines()
    ]
    assert {line["node"] for line in lines} == {2}
    assert lines[0]["event"] == "started"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "--watch"], "over"),
        pytest.param(["logs", "--follow"], "is over", marks=pytest.mark.more),
    ],
)
def test_what_goes_on_ends_by_ctrl_c(folder: Path, arguments: list[str], words: str) -> None:
    command = [
        sys.executable,
        "-u",
        "-m",
        "levywalk.cli.main",
        "fleet",
        arguments[0],
        str(folder),
        arguments[1],
    ]
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # whoever runs the tests may ignore it
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    deadline = threading.Timer(PATIENCE, process.kill)
    deadline.start()
    try:
        assert any(words in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        deadline.cancel()
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")


def test_the_doctor_is_content(folder: Path) -> None:
    done = fleet("doctor", folder)
    assert done.exit_code == 0, done.output
    assert "ok       all 4 nodes run" in done.stdout
    found = json.loads(fleet("doctor", folder, "--json").stdout)
    assert found["problems"] == 0
    assert {finding["level"] for finding in found["findings"]} == {"ok"}


def test_begin_is_for_the_start_alone(folder: Path) -> None:
    start = FleetFolder.open(folder).manifest.start
    done = fleet("begin", folder / f"node-{start}/node.toml")
    assert done.exit_code == 0
    assert done.stdout == fleet("begin", folder).stdout == "The walk had started before.\n"
    wrong = fleet("begin", folder / f"node-{(start + 1) % 4}/node.toml")
    assert f"must be the file of node {start}, where the walk starts" in str(wrong.exception)


@pytest.mark.more
def test_nodes_of_many_machines_are_started_one_by_one_and_begin_by_a_word(tmp_path: Path) -> None:
    """No folder holds all of them: each operator starts its own node, and one says begin."""
    path = tmp_path / "fleet"
    assert fleet("init", "--network", "ring:3", "--steps", 50, "--seed", 3, path).exit_code == 0
    files = [path / f"node-{v}/node.toml" for v in range(3)]
    start = FleetFolder.open(path).manifest.start
    try:
        for file in files:
            done = fleet("up", file)
            assert done.exit_code == 0, done.output
        assert [status(file)["step"] for file in files] == [0, 0, 0]
        done = fleet("begin", files[start])
        assert (done.exit_code, done.stdout) == (0, "The walk starts.\n")
        until(lambda: all(status(file)["nodes"][0]["finished"] for file in files))
        assert fleet("begin", files[start]).stdout == "The walk had started before.\n"
        assert status(path)["step"] == 50
        for file in files:
            assert fleet("stop", file).exit_code == 0
        assert not any(running(path / f"node-{v}/state") for v in range(3))
    finally:
        FleetFolder.open(path).stop(force=True)


def test_a_check_prints_what_a_node_publishes(folder: Path) -> None:
    done = runner.invoke(app, ["node", str(folder / "node-2/node.toml"), "--check"])
    assert done.exit_code == 0, done.output
    smoothness = lw.heterogeneous(4, seed=3).smoothness[2]
    assert f"L_v = {smoothness:.6g}; its neighbours learn the score {smoothness:.6g}" in done.stdout


def test_renew_says_when_it_counts(folder: Path) -> None:
    done = fleet("renew", folder, "--node", 1, "--days", 30)
    assert "Renewed 1 certificate, valid for 30 days." in done.stdout
    assert "Node 1 already uses its new certificate." in done.stdout


def test_a_node_in_the_foreground(folder: Path) -> None:
    os.kill(
        next(node["pid"] for node in status(folder)["nodes"] if node["id"] == 3), signal.SIGTERM
    )
    until(lambda: running(folder / "node-3/state") is None)
    file = folder / "node-3/node.toml"
    command = [sys.executable, "-m", "levywalk.cli.main", "node", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "started"
        assert running(folder / "node-3/state") == process.pid
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE)
        assert json.loads(said.splitlines()[-1])["event"] == "stopped"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        FleetFolder.open(folder).up()


def test_stop(folder: Path) -> None:
    done = fleet("stop", folder)
    assert done.exit_code == 0
    assert "Stopped nodes 0-3." in done.stdout
    assert status(folder)["nodes_up"] == 0
    assert "No node was running" in fleet("stop", folder).stdout
    gone = fleet("gone", folder, 3)
    assert gone.exit_code == 1
    assert "no neighbour of node 3 was told: nodes 0, 2 do not run" in gone.stderr
    FleetFolder.open(folder).up()


# What is shown


def shown(**more: Any) -> str:
    node = {"up": True, "answers": True, "role": ""}
    nodes = [
        node,
        node | {"role": "holder"},
        node | {"role": "guardian"},
        node | {"up": False},
        node | {"answers": False},
    ]
    nodes = [{"id": v, "name": {2: "[b]Oslo"}.get(v)} | node for v, node in enumerate(nodes)]
    found = {
        "name": "five",
        "finished": False,
        "holder": 1,
        "guardian": 2,
        "epoch": 1,
        "step": 1500,
        "steps": 2000,
        "transfers": 1200,
        "lost_updates": 7,
        "lost_updates_at_most": 7,
        "hops_per_second": 120.3,
        "loss": 0.0123456,
        "diverged_at": None,
        "memory_starts": [],
        "stopped": None,
        "metrics": {"accuracy": 0.98765},
        "waits": [],
        "nodes_up": 4,
        "nodes_down": 1,
        "nodes": nodes,
    }
    console = Console(width=100, file=io.StringIO())
    console.print(picture(found | more))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_picture() -> None:
    said = shown(waits=["node 1 waits for its guardian, node 2, which is silent"])
    for words in (
        *(
            "at node 1, guarded by node 2 ('[b]Oslo')",
            "1,500 of 2,000 updates",
            "1,200  (120 a second)",
            "0.01235",
            "accuracy   0.9877",
        ),
        *("1, 7 updates lost", "4 up, 1 down", "·●◆✗‖", "! node 1 waits for its guardian"),
    ):
        assert words in said, words
    said = shown(
        holder=None,
        guardian=None,
        loss=None,
        hops_per_second=None,
        lost_updates=0,
        lost_updates_at_most=0,
    )
    assert "the walk has not started" in said
    assert "no updates lost" in said
    said = shown(holder=None, guardian=None, stopped="the walk has stopped")
    assert "lost: no node can continue" in said
    assert "an unknown number of updates lost" in said
    assert "7 to 27 updates lost" in shown(lost_updates_at_most=27)
    assert "at least 7 updates lost" in shown(lost_updates_at_most=None)


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init", "--network", "rnig:8", "DIR"], "did you mean 'ring:n'"),
        (["init", "--network", "ring:8", "--data", "no/such.csv", "DIR"], "no/such.csv"),
        (
            ["init", "--network", "ring:8", "--for", "docker", "DIR"],
            "'systemd', 'compose', 'kubernetes'",
        ),
        (["init", "--network", "ring:8", "--policy", "hasty", "DIR"], "policy must be"),
        (["init", "--network", "ring:8", "--step-size", "tuned", "DIR"], "--step-size must be"),
        (["init", "--network", "ring:8", "."], "never overwritten"),
        (["init", "--network", "ring:8", "--addresses", "nosuch", "DIR"], "no file at 'nosuch'"),
        (["init", "--network", "ring:8", "--host", "192.0.2.1", "DIR"], "--addresses FILE"),
        (["up", "DIR"], "not a fleet's folder"),
        (["status", "DIR"], "levywalk fleet init creates one"),
        (["stop", "DIR"], "not a fleet's folder"),
        (["doctor", "DIR"], "not a fleet's folder"),
        (["begin", "DIR"], "not a fleet's folder"),
        (["begin", "node.toml"], "not a fleet's folder"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    done = fleet(*arguments)
    assert isinstance(done.exception, LevywalkError)
    assert words in str(done.exception)
    assert list(tmp_path.iterdir()) == [tmp_path / "something"]


def test_a_walk_without_a_running_node_does_not_wait_for_one(tmp_path: Path) -> None:
    made = fleet("init", "--network", "ring:3", "--data", "homogeneous", tmp_path / "ours")
    assert made.exit_code == 0, made.output
    done = fleet("begin", tmp_path / "ours")
    assert done.exit_code == 1
    assert f"no node runs; start them: levywalk fleet up {tmp_path / 'ours'}" in done.stderr


def test_a_fleet_whose_owners_keep_their_data(tmp_path: Path) -> None:
    hosts, ours = tmp_path / "hosts.txt", tmp_path / "ours"
    hosts.write_text("one.example:7400\n\ntwo.example:7400\nthree.example:7400\n")
    private = ("--data", "private", "--dim", 2, "--mean-smoothness", 3.5, "--step-size", 0.02)
    made = fleet("init", "--network", "ring:3", "--addresses", hosts, *private, ours)
    assert made.exit_code == 0, made.output
    assert "move each" in made.stdout
    text = (ours / "node-1" / "node.toml").read_text()
    assert 'address = "three.example:7400"' in text
    assert "../node-" not in text
    assert not list(ours.rglob("data.*"))
    (ours / "node-1" / "data.csv").write_text("a,b,y\n3,4,1\n")
    said = typed("node", ours / "node-1" / "node.toml", "--check")
    assert (said.returncode, said.stderr) == (0, "")
    assert "L_v = 50;" in said.stdout


def test_mistakes_have_no_traceback(tmp_path: Path) -> None:
    done = typed("fleet", "status", tmp_path / "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path / 'nothing'} is not a fleet's folder")
    assert "Traceback" not in done.stderr
