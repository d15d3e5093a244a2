"""A batched run that was stopped in the middle goes on from its file to the bits of one that never
was.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from tests.frameworks.models import FRAMEWORKS, N, network
from tests.frameworks.test_batched import UPDATES, line

DRIVE = import_module("levywalk.engine.drive")
STEPS = 40
ARRAYS = ("step", "loss", "hops", "transfers", "bytes", "visits", "walk", "model", "diverged_at")


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def go(problem: Any, **more: Any) -> lw.Trace:
    given: dict[str, Any] = {"steps": STEPS, "step_size": 0.1, "replicas": 3, "record_every": 15}
    design = more.pop("design", lw.unif_rw())
    return lw.run(lw.ring(N), problem, design, record_walk=True, record_memory=True, **given | more)


def stopped(monkeypatch: pytest.MonkeyPatch, problem: Any, pieces: int, **how: Any) -> lw.Trace:
    """Return what a run has done that Ctrl-C ends after so many pieces of seven steps."""
    original, count = DRIVE.StepLimit.until, 0

    def until(self: Any, t: int, goal: int) -> int:
        nonlocal count
        if count == pieces:
            signal.raise_signal(signal.SIGINT)
        count += 1
        found: int = original(self, t, goal)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(DRIVE, "_PIECE", 7)
        patch.setattr(DRIVE, "_PIECE_SECONDS", 1e6)
        patch.setattr(DRIVE.StepLimit, "until", until)
        with pytest.raises(lw.Interrupted) as raised:
            go(problem, **how)
    partial = raised.value.partial
    assert isinstance(partial, lw.Trace)
    return partial


def check_same_bits(found: lw.Trace, whole: lw.Trace) -> None:
    for name in ARRAYS:
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    assert found.memory is not None
    assert whole.memory is not None
    assert found.memory.keys() == whole.memory.keys()
    for name, array in whole.memory.items():
        assert np.array_equal(found.memory[name], array), name


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(
    framework: str, update: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, how = network(framework), {"update": UPDATES[update]}
    file = tmp_path / "walk.npz"
    part = stopped(monkeypatch, problem, 3, resume=file, **how)
    assert 0 < part.step[-1] < STEPS
    assert part.step[-1] % 15  # between two checkpoints
    resumed, whole = go(problem, resume=file, **how), go(problem, **how)
    assert resumed.provenance["backend"] == "batched"
    assert resumed.provenance["resumed_at"] == [int(part.step[-1])]
    check_same_bits(resumed, whole)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_stopped_twice_along_a_walk_that_remembers_in_float64(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = network(framework, dtype="float64")
    how = {"update": lw.adam(minibatch=1), "design": lw.mhda(), "step_size": lw.Decaying(0.2, 9)}
    file = tmp_path / "walk.npz"
    for pieces in (1, 2):
        stopped(monkeypatch, problem, pieces, resume=file, **how)
    resumed = go(problem, resume=file, **how)
    assert len(resumed.provenance["resumed_at"]) == 2
    check_same_bits(resumed, go(problem, **how))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_replica_that_overflowed_before_stays_where_it_was(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, file = line(framework), tmp_path / "walk.npz"
    how = {"x0": np.array([[0.0], [1.0], [0.0]]), "step_size": 50.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DivergedWarning)
        whole = go(problem, **how)
        part = stopped(monkeypatch, problem, 4, resume=file, **how)
        resumed = go(problem, resume=file, **how)
    assert part.diverged_at.tolist() == [-1, 19, -1]
    check_same_bits(resumed, whole)
