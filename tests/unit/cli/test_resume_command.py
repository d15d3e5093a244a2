"""`levywalk run`, interrupted and run again: it resumes, and says so;
each call is a real process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from tests.forked import levywalk
from tests.limits import PATIENCE, mostly_more

EXPERIMENT = """
[network]
family = "ring"
n = 20
[problem]
data = "heterogeneous"
important = 2
[run]
steps = 15000
replicas = 2
accuracy = 0.3
record_every = 500
record_walk = true
[designs.one]
kind = "unif_rw"
[designs.two]
kind = "mhlj"
[output]
figure = "none"
"""
# Saves all the time, and sends itself the signal once a state file of the given name has been saved
# twice: a signal from outside may come when a busy machine has already finished that part.
CHILD = """
import os, signal, sys
part, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
signal.signal(signal.SIGINT, signal.default_int_handler)
from importlib import import_module
resume, drive = import_module("levywalk.engine.resume"), import_module("levywalk.engine.drive")
resume.SAVE_EVERY, resume._SAVING_SHARE, drive._PIECE = 0.0, 0, 100
before, seen = resume.StateFile.save, []
def save(self, state, record, progress):
    before(self, state, record, progress)
    seen.append(self.path.name.startswith(part))
    if seen[-1] and sum(seen) == 2:
        os.kill(os.getpid(), number)
resume.StateFile.save = save
from levywalk.cli.main import main
main()
"""


def again(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return levywalk("run", "experiment.toml", *arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    return tmp_path


def stop_at(folder: Path, file: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Run until a state file of that name has been written twice and the signal has come."""
    command = [file, str(int(number)), "run", "experiment.toml", "--json"]
    return subprocess.run(
        [sys.executable, "-c", CHILD, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.more
@pytest.mark.parametrize(
    "part",
    mostly_more(
        ["one-7692c3ad-tuning", "one-7692c3ad-run", "two-3fc4ccfe-run"],
        lambda part: part.endswith("tuning"),
    ),
)
def test_killed_by_force_the_same_command_goes_on_to_the_same_numbers(
    folder: Path, part: str
) -> None:
    child = stop_at(folder, part, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert any((folder / "out" / "unfinished").glob(f"{part}*.npz"))
    done = again("--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Resuming from" in done.stderr
    assert "--fresh" in done.stderr
    whole = again("--json", "--out", "whole", cwd=folder)
    assert "Resuming" not in whole.stderr
    resumed, fresh = (json.loads(run.stdout)["designs"] for run in (done, whole))
    for name in ("one", "two"):
        assert resumed[name]["sweep"] == fresh[name]["sweep"]
        a, b = (lw.load_trace(folder / out / f"{name}.nc") for out in ("out", "whole"))
        for array in ("distance2", "walk", "model", "visits"):
            assert np.array_equal(getattr(a, array), getattr(b, array))
    assert not (folder / "out" / "unfinished").exists()
    if "tuning" not in part:
        name = part.partition("-")[0]
        assert resumed[name]["provenance"]["resumed_at"]
        assert not fresh[name]["provenance"]["resumed_at"]


@pytest.mark.more
def test_after_ctrl_c_nothing_more_is_done_and_the_same_command_finishes(
    folder: Path,
) -> None:
    child = stop_at(folder, "two-3fc4ccfe-run", signal.SIGINT)
    assert child.returncode == 130, child.stderr
    assert "Run the same command again to resume." in child.stderr
    assert child.stdout == ""
    done = again("--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not json.loads(done.stdout)["designs"]["two"]["provenance"]["interrupted"]


@pytest.mark.more
def test_ctrl_c_while_tuning_says_that_the_same_command_goes_on(folder: Path) -> None:
    child = stop_at(folder, "one-7692c3ad-tuning", signal.SIGINT)
    assert child.returncode == 130, child.stderr
    assert child.stdout == ""
    assert "Run the same command again to resume." in child.stderr


@pytest.mark.more
def test_a_changed_experiment_is_refused_and_fresh_starts_afresh(folder: Path) -> None:
    stop_at(folder, "one-7692c3ad-run", signal.SIGKILL)
    changed = ["--set", "run.steps=5000", "--out", "out"]
    refused = again(*changed, cwd=folder)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    for word in ("another run", "steps (15000 there, 5000 here)", "--fresh", "--out"):
        assert word in refused.stderr
    assert any((folder / "out" / "unfinished").iterdir())
    fresh = again(*changed, "--fresh", cwd=folder)
    assert fresh.returncode == 0, fresh.stderr
    assert "Resuming" not in fresh.stderr
    assert not (folder / "out" / "unfinished").exists()


def test_a_mistake_leaves_no_folder_behind(folder: Path) -> None:
    assert again("--set", "run.accuracy=-1.0", cwd=folder).returncode == 2
    assert list((folder / "out").iterdir()) == []
