"""Ctrl-C at exact moments of every command: exit code 130, one line, and the same bits when it is
resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import pytest
import typer

import levywalk as lw
from levywalk.cli.ctrl_c import _Ending, ends_by_ctrl_c
from tests.limits import PATIENCE, mostly_soak
from tests.pressing import Moment, Pressed, calls, pressed, ran, spread

EXPERIMENT = """
[network]
family = "ring"
n = 8
[problem]
data = "heterogeneous"
important = 1
dim = 3
[run]
steps = 300
replicas = 2
accuracy = 0.5
record_walk = true
threads = 1
[designs.one]
kind = "unif_rw"
[designs.two]
kind = "mhlj"
[output]
folder = "out"
figure = "none"
"""
SWEEP = EXPERIMENT + '[sweep]\n"run.seed" = [0, 1]\n'
FILES = {"experiment.toml": EXPERIMENT, "sweep.toml": SWEEP}
RESUME = "Run the same command again to resume."
START_OVER = "Run the same command again; it starts from the beginning."
# What is said if the command itself has not begun.
EARLY = (
    "Nothing was started: run the same command again.",
    "Run the same command again.",
    START_OVER,
)
SMALL = "--steps 300 --replicas 2 --accuracy 0.5 --designs unif_rw,mhlj --threads 1 --out out"
COMMANDS = {
    "run": ["run", "experiment.toml"],
    "compare": ["compare", "ring:8", "--important", "1", *SMALL.split()],
    "sweep": ["sweep", "sweep.toml", "--workers", "0"],
    "reproduce": ["reproduce", "limit", "--quick", "--workers", "0", "--out", "out"],
    "inspect": ["inspect", "ring:12", "--out", "out"],
}
PLACE = TemporaryDirectory(prefix="ctrl-c-")  # removed when Python ends
VOLATILE = {"seconds", "resumed_at", "command"}
# One moment of each stage, by name: reading, tuning, after the last step of a walk, between two
# designs, writing, drawing, storing, judging.
MOMENTS: dict[str, list[Moment]] = {
    "run": [
        ("experiments/spec.py:check_experiment", 1),
        ("engine/drive.py:drive", 2),
        ("trace/comparison_files.py:save_comparison", 1),
    ],
    "compare": [
        ("engine/drive.py:_trace", 1),
        ("engine/run.py:run", 2),
        ("report/figures/plot.py:plot", 1),
        ("experiments/inspect.py:inspect", 1),
    ],
    "sweep": [("sweeps/store.py:ResultStore.put", 2), ("sweeps/sweep.py:write_sweep", 1)],
    "reproduce": [("sweeps/task.py:carry_out", 2)],
    "inspect": [
        ("theory/judge/entrapment.py:entrapment_of_chain", 2),
        ("theory/judge/predict.py:predict_for_chain", 1),
    ],
}
# One of each command, at different stages.
QUICK = [
    ("run", MOMENTS["run"][2]),
    ("compare", MOMENTS["compare"][0]),
    ("sweep", MOMENTS["sweep"][0]),
    ("reproduce", MOMENTS["reproduce"][0]),
    ("inspect", MOMENTS["inspect"][1]),
]


def folder_for(name: str) -> Path:
    folder = Path(mkdtemp(prefix=f"{name}-", dir=PLACE.name))
    for file, text in FILES.items():
        (folder / file).write_text(text)
    return folder


@cache
def whole(name: str) -> dict[str, Any]:
    """Return the results of a command that nothing interrupts."""
    folder = folder_for(name)
    ended = ran(COMMANDS[name], folder)
    assert ended.returncode == 0, ended.stderr
    return results(folder / "out")


def results(folder: Path) -> dict[str, Any]:
    """Return everything that a command wrote, without what may differ between equal runs."""
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".nc":
            trace = lw.load_trace(path)
            for array in ("step", "distance2", "loss", "hops", "transfers", "walk", "model"):
                found[f"{path.name} {array}"] = np.asarray(getattr(trace, array))
        elif path.suffix == ".json":
            found[path.name] = without_volatile(json.loads(path.read_text()))
        elif path.suffix == ".csv":
            found[path.name] = path.read_text()
        elif path.is_dir():
            found |= {file.name: file.stat().st_size > 0 for file in path.glob("*.npz")}
        else:
            found[path.name] = "written"
    return found


def without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_volatile(v) for k, v in value.items() if k not in VOLATILE}
    return [without_volatile(v) for v in value] if isinstance(value, list) else value


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, b[key], equal_nan=True), key
        else:
            assert value == b[key], key


def said(name: str, ended: subprocess.CompletedProcess[str]) -> None:
    """Check the exit code and the line."""
    assert ended.returncode == 130, ended.stderr
    lines = ended.stderr.splitlines()
    assert sum(line.startswith("Interrupted.") for line in lines) == 1, ended.stderr
    ends = (START_OVER if name == "inspect" else RESUME, *EARLY)
    assert lines[-1].endswith(ends), ended.stderr
    for noise in ("Traceback", "ignored", "Error", "Aborted"):
        assert noise not in ended.stderr


def interrupted(name: str, moment: Moment, presses: int = 1) -> Pressed:
    """Press Ctrl-C at a moment of a command, and check its exit code and what it says."""
    found = pressed(COMMANDS[name], lambda: folder_for(name), moment, presses)
    said(name, found.ended)
    return found


def resumed(name: str, folder: Path) -> None:
    """Run a command again where it was interrupted: its results are those of a whole run."""
    again = ran(COMMANDS[name], folder)
    assert again.returncode == 0, again.stderr
    same(results(folder / "out"), whole(name))
    assert not (folder / "out" / "unfinished").exists()


def left_behind(folder: Path) -> str:
    """Return a digest of the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)} {path.is_file()} ".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
    return digest.hexdigest()


@pytest.mark.parametrize(("name", "moment"), QUICK)
def test_one_press_ends_a_command(name: str, moment: Moment) -> None:
    assert "Written" not in interrupted(name, moment).ended.stdout


@pytest.mark.more
def test_the_same_command_gives_the_same_bits() -> None:
    resumed("run", interrupted("run", MOMENTS["run"][1]).folder)


@pytest.mark.more
@pytest.mark.parametrize("count", mostly_soak([3, 10], lambda count: count == 3))
@pytest.mark.parametrize("name", COMMANDS)
def test_at_many_moments_of_all_stages(name: str, count: int, tmp_path: Path) -> None:
    """Some moments, and those with a name; the command is resumed from every state that they
    leave behind, from equal ones once.
    """
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    moments = MOMENTS[name] + spread(calls(COMMANDS[name], tmp_path), count)
    states: set[str] = set()
    seconds: list[float] = []
    for moment in moments:
        found = interrupted(name, moment)
        if moment in MOMENTS[name]:
            assert "Written" not in found.ended.stdout
        seconds.append(found.seconds)
        state = left_behind(found.folder)
        if state not in states:
            states.add(state)
            resumed(name, found.folder)
    report(f"{name}: {len(moments)} moments, {len(states)} states", seconds)


@pytest.mark.more
def test_a_call_that_is_never_made_is_pressed_at_the_last_one_before() -> None:
    """How often some functions are called depends on how fast the machine is."""
    found = interrupted("run", ("trace/comparison_files.py:save_comparison", 1000))
    assert "Written" not in found.ended.stdout


@pytest.mark.parametrize("name", ["compare", "inspect"])
def test_a_second_press_ends_it_at_once(name: str) -> None:
    """The first one only sets a mark, because the walk or the write is held; the second ends it."""
    moment = {
        "compare": ("engine/threads.py:_side_by_side", 1),
        "inspect": ("theory/judge/entrapment.py:entrapment_of_chain", 1),
    }[name]
    interrupted(name, moment, presses=2)


def test_the_line_is_said_once_by_whichever_thread_comes_first(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both the main thread and the thread that watches may end the process."""
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    ending = _Ending("Go on.")
    ending.at_once()
    ending.at_once()
    ending.say("A sentence.")
    assert (capfd.readouterr().err, ends) == ("Interrupted. Go on.\n", [130, 130])


def report(what: str, seconds: list[float]) -> None:
    """Print how long the ends took; nothing is asserted about them (`pytest -s` shows it)."""
    listed = " ".join(f"{value:.2f}" for value in sorted(seconds))
    sys.stdout.write(f"\n{what}; seconds until the process had ended: {listed}\n")


CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a detached parent leaves it ignored
from levywalk.cli.entry import main
if __name__ == "__main__":
    main()
"""
LONG = {
    "run": ["run", "experiment.toml"],
    "compare": ["compare", "ws:60,4,0.1", "--important", "2", "--steps", "20000", "--out", "out"],
    "sweep": ["sweep", "sweep.toml", "--workers", "2"],
    "inspect": ["inspect", "ws:1200,4,0.1", "--tune", "--out", "out"],
}


def children(group: int) -> list[int]:
    """Return the processes of a group that are left, without those that only wait to be reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(rest[2]) == group and rest[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.more
@pytest.mark.parametrize("name", LONG)
def test_real_signals_at_random_moments(name: str) -> None:
    """A terminal sends the signal to the whole group, at any time after the first second."""
    dice = random.Random(name)
    took: list[float] = []
    for _ in range(2):
        folder = folder_for(name)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *LONG[name]],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            child.wait(dice.uniform(1.0, 4.0))
        except subprocess.TimeoutExpired:
            began = time.monotonic()
            os.killpg(child.pid, signal.SIGINT)
            out, err = child.communicate(timeout=PATIENCE)
            took.append(time.monotonic() - began)
            ended = subprocess.CompletedProcess(LONG[name], child.returncode, out, err)
            if child.returncode != 0:  # it may have been over just before
                said(name, ended)
        child.communicate()
        end = time.monotonic() + PATIENCE
        while children(child.pid) and time.monotonic() < end:
            time.sleep(0.05)
        assert not children(child.pid)
    report(f"{name}: {len(took)} signals", took)


LONG_CALL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import scipy.sparse as sp
from scipy.sparse.linalg import splu
from levywalk.cli.ctrl_c import ends_by_ctrl_c
matrix = sp.random(9000, 9000, 0.003, random_state=0, format="csc") + 50 * sp.eye(9000)
@ends_by_ctrl_c("Go on.")
def command():
    print("begun", flush=True)
    splu(matrix.tocsc())  # takes minutes
    print("finished", flush=True)
import typer
try:
    command()
except typer.Exit as ended:  # the press came before the call
    sys.exit(ended.exit_code)
"""


@pytest.mark.more
def test_a_long_call_of_a_library_is_not_waited_for() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LONG_CALL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    report("a factorisation of minutes", [time.monotonic() - began])
    assert (child.returncode, out, err) == (130, "", "Interrupted. Go on.\n")


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), OSError("no")])
def test_a_library_that_is_interrupted_while_it_loads_is_not_taken_for_a_fault(
    cause: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    @ends_by_ctrl_c("Go on.")
    def command() -> None:
        raise ImportError("initialization failed") from cause

    if isinstance(cause, OSError):
        with pytest.raises(ImportError):
            command()
        assert capsys.readouterr().err == ""
    else:
        with pytest.raises(typer.Exit) as ended:
            command()
        assert ended.value.exit_code == 130
        assert capsys.readouterr().err == "Interrupted. Go on.\n"
