"""A comparison that was stopped goes on: what is finished is read, what was under way continues."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.state_files import StateFolder
from tests.limits import mostly_more

COMPARE = import_module("levywalk.experiments.compare")
RESUME = import_module("levywalk.engine.resume")
NETWORK, PROBLEM = lw.complete(20), lw.homogeneous(20, dim=5)
DESIGNS = {"walk": lw.unif_rw(), "i.i.d. / server": lw.iid_weighted()}


class Stopped(Exception):
    pass


def go(**options):
    arguments = {"designs": DESIGNS, "steps": 300, "replicas": 3, "accuracy": 0.3, **options}
    return lw.compare(NETWORK, PROBLEM, **arguments)


@pytest.fixture
def stop_before_save(monkeypatch):
    """Stop when a state would be written for the k-th time."""

    def arrange(k):
        original, count = RESUME.StateFile.save, 0

        def save(self, *arguments):
            nonlocal count
            count += 1
            if count == k:
                raise Stopped
            original(self, *arguments)

        monkeypatch.setattr(RESUME.StateFile, "save", save)

    return arrange


def same(a, b):
    assert a.step_size == b.step_size
    assert a.sweep == b.sweep
    for name, trace in b.traces.items():
        for array in ("distance2", "loss", "hops", "visits", "model"):
            assert np.array_equal(getattr(a.traces[name], array), getattr(trace, array)), (
                name,
                array,
            )


@pytest.mark.parametrize("k", mostly_more([1, 2, 3, 4], lambda k: k == 3))
def test_a_comparison_stopped_anywhere_goes_on_to_the_same_result(
    k, tmp_path, stop_before_save, monkeypatch
):
    stop_before_save(k)
    with pytest.raises(Stopped):
        go(resume=tmp_path)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.npz"))) == k - 1
    same(go(resume=tmp_path), go())


def test_what_is_finished_is_not_walked_again(tmp_path, monkeypatch):
    first = go(resume=tmp_path)
    monkeypatch.setattr(
        import_module("levywalk.engine.drive").RunShare, "through", lambda *_: pytest.fail("walked")
    )
    same(go(resume=tmp_path), first)


@pytest.mark.parametrize(
    "change", [{"steps": 301}, {"replicas": 4}, {"seed": 1}, {"start": 3}, {"record_every": 7}]
)
def test_a_changed_comparison_is_refused(change, tmp_path):
    go(resume=tmp_path)
    with pytest.raises(lw.ResumeError, match="holds another run"):
        go(resume=tmp_path, **change)


def test_another_accuracy_that_another_step_size_wins_is_refused(tmp_path):
    first, fresh = go(resume=tmp_path), go(accuracy=0.7)
    assert (
        first.step_size != fresh.step_size
    )  # the sweep is read, another winner found, and its run is another run
    with pytest.raises(lw.ResumeError, match="step size"):
        go(resume=tmp_path, accuracy=0.7)


def test_no_two_designs_share_a_file(tmp_path):
    unfinished = StateFolder(tmp_path)
    names = ["a b", "a-b", "a/b", "../a", "", "ä" * 200]
    files = {unfinished.file(name, "run") for name in names}
    assert len(files) == len(names)
    assert all(path.parent == tmp_path and len(path.name) < 100 for path in files)


def test_removal_takes_the_state_files_and_nothing_else(tmp_path):
    unfinished = StateFolder(tmp_path / "unfinished")
    unfinished.remove()  # nothing there yet
    state = unfinished.file("a", "run")
    for path in (
        state,
        state.with_name(state.name + ".partial"),
        state.with_name(state.name + ".lock"),
    ):
        path.touch()
    assert unfinished.exists()
    own = tmp_path / "unfinished" / "notes.txt"
    own.touch()
    unfinished.remove()
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == ["notes.txt"]
    own.unlink()
    unfinished.remove()
    assert not (tmp_path / "unfinished").exists()


@pytest.mark.parametrize("bad", [5, "file"])
def test_a_resume_that_is_no_folder_is_named(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(lw.InvalidParameter, match="resume must be a folder"):
        go(resume=bad)
