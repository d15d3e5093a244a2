"""A run that was stopped, by Ctrl-C or by force, goes on from its file to the bits of one that
never was.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import types
import warnings
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from tests.limits import PATIENCE, mostly_more

DRIVE = import_module("levywalk.engine.drive")
RESUME = import_module("levywalk.engine.resume")
NETWORK, PROBLEM = lw.ring(12), lw.heterogeneous(12, dim=3, important=2)
LABELS = [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0]
LOGISTIC = lw.Logistic(PROBLEM.features, LABELS, ridge=0.1)
ARRAYS = (
    "step",
    "distance2",
    "excess_loss",
    "loss",
    "hops",
    "transfers",
    "bytes",
    "visits",
    "walk",
    "model",
    "final_node",
    "switched_at",
    "diverged_at",
)
CASES = {
    "plain": {},
    "two threads": {"threads": 2},
    "reference": {"backend": "reference"},
    "schedules": {
        "design": lw.mhlj(schedule=lw.Decaying(0.3, 40)),
        "step_size": lw.Decaying(0.02, 50),
    },
    "switching": {
        "design": lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.9, window=5, patience=200),
        "threads": 2,
    },
    "switching, reference": {
        "design": lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.9, window=5, patience=200),
        "backend": "reference",
    },
    "diverging before": {"step_size": 5.0},
    "diverging before, reference": {"step_size": 5.0, "backend": "reference"},
    "diverging after": {"step_size": 1.0},
    "diverging after, reference": {"step_size": 1.0, "backend": "reference"},
    "logistic": {"problem": LOGISTIC, "measure_loss": 5},
    "i.i.d.": {"design": lw.iid_weighted()},
    "costs": {"costs": lw.Costs(0.3, 0.2, 100.0, per_node=1.0 + np.arange(NETWORK.n) / 7)},
}


def go(network=NETWORK, problem=PROBLEM, design=None, **options):
    arguments = {
        "steps": 400,
        "step_size": 0.001,
        "replicas": 3,
        "record_walk": True,
        "record_every": 30,
        **options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DivergedWarning)
        return lw.run(network, problem, lw.mhlj() if design is None else design, **arguments)


def same_bits(a, b):
    for name in ARRAYS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


@pytest.fixture(autouse=True)
def _default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(DRIVE, "_PIECE", 7)
    monkeypatch.setattr(DRIVE, "_PIECE_SECONDS", 1e6)  # pieces of a slow machine are as long


@pytest.fixture
def stop_after(monkeypatch, small_pieces):
    """Press Ctrl-C after so many pieces of 7 steps: between two checkpoints."""

    def arrange(pieces):
        original, count = DRIVE.StepLimit.until, 0

        def until(self, t, goal):
            nonlocal count
            if count == pieces:
                signal.raise_signal(signal.SIGINT)
            count += 1
            return original(self, t, goal)

        monkeypatch.setattr(DRIVE.StepLimit, "until", until)

    return arrange


@pytest.fixture
def saved(tmp_path, stop_after):
    """The file of a run that was stopped half-way."""
    path = tmp_path / "walk.npz"
    stop_after(22)
    with pytest.raises(lw.Interrupted) as raised:
        go(resume=path)
    assert raised.value.partial.provenance["interrupted"]
    return path


@pytest.mark.parametrize("case", mostly_more(CASES, lambda case: case != "logistic"))
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(
    case, tmp_path, stop_after, monkeypatch
):
    options, path = CASES[case], tmp_path / "walk.npz"
    stop_after(22)
    # A run of two threads cannot take a signal in them, so it is made to save all the time and is
    # stopped by an error.
    if options.get("threads") == 2:
        monkeypatch.undo()
        monkeypatch.setattr(DRIVE, "_PIECE", 7)
        stop_by_error(monkeypatch, saves=4)
        with pytest.raises(Stopped):
            go(resume=path, **options)
        monkeypatch.undo()
    else:
        with pytest.raises(lw.Interrupted) as raised:
            go(resume=path, **options)
        part = raised.value.partial
        assert part.provenance["interrupted"]
        assert 0 < part.step[-1] < 400
    whole, resumed = go(**options), go(resume=path, **options)
    assert len(resumed.provenance["resumed_at"]) == 1
    assert 0 < resumed.provenance["resumed_at"][0] < 400
    same_bits(resumed, whole)
    assert (case == "costs") == (whole.time is not None)
    assert whole.time is None or (whole.time == resumed.time).all()
    if "diverging" in case:
        assert (whole.diverged_at >= 0).all()
        assert (
            (whole.diverged_at < resumed.provenance["resumed_at"][0]) == ("before" in case)
        ).all()
    if (
        "switching" in case
    ):  # after the interruption, so that the detector's averages and streak were needed
        assert (whole.switched_at > resumed.provenance["resumed_at"][0]).any()


class Stopped(Exception):
    pass


def stop_by_error(monkeypatch, saves):
    original, count = RESUME.StateFile.save, 0

    def save(self, *arguments):
        nonlocal count
        original(self, *arguments)
        self.pause = 0.0
        count += 1
        if count == saves:
            raise Stopped

    monkeypatch.setattr(RESUME, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(RESUME.StateFile, "save", save)


@pytest.mark.more
def test_saving_all_the_time_changes_no_bit(tmp_path, small_pieces, monkeypatch):
    monkeypatch.setattr(RESUME, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(RESUME, "_SAVING_SHARE", 0)
    for threads in (1, 2, 3):
        same_bits(go(resume=tmp_path / f"{threads}.npz", threads=threads), go())


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1)])
def test_the_number_of_threads_may_change_in_between(before, after, tmp_path, small_pieces):
    path = tmp_path / "walk.npz"
    with pytest.MonkeyPatch.context() as patch:
        stop_by_error(patch, saves=3)
        with pytest.raises(Stopped):
            go(resume=path, threads=before)
    same_bits(go(resume=path, threads=after), go())


def test_a_run_can_be_interrupted_and_resumed_many_times(tmp_path, small_pieces):
    path, times = tmp_path / "walk.npz", 0
    while True:
        try:
            with pytest.MonkeyPatch.context() as patch:
                stop_by_error(patch, saves=5)
                resumed = go(resume=path)
            break
        except Stopped:
            times += 1
    assert times > 5
    assert len(resumed.provenance["resumed_at"]) == times
    same_bits(resumed, go())


def test_a_finished_run_is_returned_without_a_step(tmp_path, monkeypatch):
    path = tmp_path / "walk.npz"
    first = go(resume=path)
    monkeypatch.setattr(DRIVE.RunShare, "through", lambda *_: pytest.fail("walked"))
    again = go(resume=path)
    same_bits(again, first)
    assert again.provenance["interrupted"] is False
    assert again.provenance["resumed_at"] == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["walk.npz"]


def test_the_file_of_an_interrupted_run_stands_between_two_checkpoints(saved):
    whole = go()
    with np.load(saved, allow_pickle=False) as state:
        done = json.loads(bytes(state["about"]))["done"]
        assert 0 < done < 400
        assert done not in whole.step
        assert np.array_equal(state["state.walk"][:, :done], whole.walk[:, :done])
        assert not state["state.walk"][:, done:].any()


def test_the_bar_starts_where_the_run_stands(saved, monkeypatch):
    opened = []

    class Watching(DRIVE.Bar):
        def __init__(self, *arguments, done=0.0, **options):
            opened.append(done)
            super().__init__(*arguments, done=done, **options)

    monkeypatch.setattr(DRIVE, "Bar", Watching)
    resumed = go(resume=saved)
    assert opened == resumed.provenance["resumed_at"]


CHILD = """
import sys, warnings
from importlib import import_module
import levywalk as lw
resume = import_module("levywalk.engine.resume")
drive = import_module("levywalk.engine.drive")
resume.SAVE_EVERY, resume._SAVING_SHARE, drive._PIECE = 0.0, 0, 50
before = resume.StateFile.save
def save(self, state, record, progress):
    before(self, state, record, progress)
    print(progress.done, flush=True)
resume.StateFile.save = save
lw.run(lw.ring(12), lw.heterogeneous(12, dim=3, important=2), lw.mhlj(), steps=200_000, \
step_size=0.001, replicas=3,
       record_walk=True, record_every=3_000, threads=int(sys.argv[2]), resume=sys.argv[1])
"""


@pytest.mark.more  # tests/unit/cli/test_resume_command.py kills a quick one
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_a_run_killed_by_force_while_it_writes_goes_on_to_the_same_bits(tmp_path, threads):
    path = tmp_path / "walk.npz"
    for lines in (3, 40, 17):  # so many saves are seen; the kill meets whatever it does then
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(threads)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        seen = [int(child.stdout.readline()) for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=PATIENCE)
        assert child.returncode == -signal.SIGKILL
        with np.load(
            path, allow_pickle=False
        ) as state:  # whole, and not older than what was reported
            assert json.loads(bytes(state["about"]))["done"] >= seen[-1]
    options = {"steps": 200_000, "record_every": 3_000}
    resumed = go(resume=path, **options)
    assert len(resumed.provenance["resumed_at"]) == 3
    same_bits(resumed, go(**options))


# Kills itself at its fifth save: while an array is written, when all is written, or when the file
# is in place.
MOMENTS = {
    "in the middle": """
count = 0
write = np.lib.format.write_array
def cut(member, array, **options):
    global count
    count += array.dtype == np.int32  # the walk, once in every save
    if count == 5:
        member.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    write(member, array, **options)
np.lib.format.write_array = cut
opened = pathlib.Path.open
def remember(self, *arguments, **options):
    global file
    file = opened(self, *arguments, **options)
    return file
pathlib.Path.open = remember
""",
    "before it is in place": """
count = 0
replace = pathlib.Path.replace
def late(self, target):
    global count
    count += 1
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
pathlib.Path.replace = late
""",
    "when it is in place": """
count = 0
sync = resume.sync_folder
def soon(folder):
    global count
    count += 1
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(folder)
resume.sync_folder = soon
""",
}


@pytest.mark.more
@pytest.mark.parametrize("moment", mostly_more(MOMENTS, lambda moment: moment == "in the middle"))
def test_a_kill_at_any_moment_of_a_save_leaves_the_last_state_or_the_new_one(tmp_path, moment):
    path = tmp_path / "walk.npz"
    setup, call = CHILD.rsplit("lw.run", 1)
    code = f"import os, pathlib, signal\nimport numpy as np{setup}{MOMENTS[moment]}lw.run{call}"
    child = subprocess.run(
        [sys.executable, "-c", code, str(path), "1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    reported = [int(line) for line in child.stdout.split()]
    assert len(reported) == 4
    options = {"steps": 200_000, "record_every": 3_000}
    resumed = go(resume=path, **options)
    (at,) = resumed.provenance["resumed_at"]
    assert at == reported[-1] + (50 if moment == "when it is in place" else 0)
    same_bits(resumed, go(**options))


OTHERS = {
    "network": {"network": lw.path(12)},
    "problem": {"problem": lw.heterogeneous(12, dim=3, important=2, seed=1)},
    "design": {"design": lw.mhlj(p_jump=0.2)},
    "step size": {"step_size": 0.002},
    "seed": {"seed": 1},
    "steps": {"steps": 401},
    "replicas": {"replicas": 4},
    "start": {"start": 3},
    "x0": {"x0": [1.0, 0.0, 0.0]},
    "backend": {"backend": "reference"},
    "update": {"update": lw.Sgd(minibatch=1)},
    "record_walk": {"record_walk": False},
    "record_visits": {"record_visits": False},
    "checkpoints": {"record_every": 31},
    "loss": {"measure_loss": 5},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_run_is_refused_by_the_name_of_what_differs(name, saved):
    before = saved.read_bytes()
    with pytest.raises(
        lw.ResumeError, match=rf"holds another run, with a different (.*, )?{name}"
    ) as caught:
        go(resume=saved, **OTHERS[name])
    assert "delete" in str(caught.value)
    assert isinstance(caught.value, (lw.LevywalkError, ValueError))
    assert saved.read_bytes() == before


def test_values_that_say_something_are_shown(saved):
    with pytest.raises(lw.ResumeError, match=r"steps \(400 there, 500 here\)"):
        go(resume=saved, steps=500)


def test_schedules_and_designs_that_differ_in_a_value_are_other_runs(tmp_path):
    class Steps:
        def __init__(self, value):
            self.value = value

        def values(self, start, stop):
            return np.where(np.arange(start, stop) < 200, 0.001, self.value)

    path = tmp_path / "walk.npz"
    go(resume=path, step_size=Steps(0.0005))
    go(resume=path, step_size=Steps(0.0005))
    with pytest.raises(lw.ResumeError, match="step size"):
        go(resume=path, step_size=Steps(0.0004))
    other = tmp_path / "other.npz"
    go(resume=other, design=lw.mhlj(schedule=lw.Decaying(0.3, 40)))
    with pytest.raises(lw.ResumeError, match="design"):
        go(resume=other, design=lw.mhlj(schedule=lw.Decaying(0.3, 41)))
    third = tmp_path / "third.npz"
    go(resume=third, design=lw.Design(target=np.arange(1.0, 13.0)))
    with pytest.raises(lw.ResumeError, match="design"):
        go(resume=third, design=lw.Design(target=np.arange(2.0, 14.0)))


def test_a_problem_of_ones_own_is_told_apart_by_what_it_answers(tmp_path):
    class Bowls:
        n, dim, smoothness, optimum = 12, 1, np.ones(12), np.zeros(1)

        def __init__(self, shift):
            self.shift = shift

        def local_loss(self, v, x):
            return 0.5 * float((x[0] - self.shift[v]) ** 2)

        def local_gradient(self, v, x):
            return x - self.shift[v]

    path, shift = tmp_path / "walk.npz", np.arange(12.0) - 5.5
    first = go(problem=Bowls(shift), resume=path)
    same_bits(go(problem=Bowls(shift), resume=path), first)
    with pytest.raises(lw.ResumeError, match="problem"):
        go(problem=Bowls(shift[::-1]), resume=path)


def test_the_designs_name_and_the_threads_make_no_other_run(tmp_path):
    path = tmp_path / "walk.npz"
    go(resume=path)
    assert (
        go(
            resume=path, threads=2, design=lw.Design("importance", lw.mhlj().jump, name="other")
        ).name
        == "other"
    )


def rewrite(path: Path, change) -> None:
    """Write the file again with some members changed, whole and with the right sums."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    change(arrays)
    np.savez(path, **arrays)


def about(arrays, **changes):
    text = json.loads(bytes(arrays["about"])) | changes
    arrays["about"] = np.frombuffer(json.dumps(text).encode(), np.uint8)


def put(name, index, value):
    def change(arrays):
        arrays[name][index] = value

    return change


def flag(arrays):
    arrays["state.active"] = np.full(3, 2, np.uint8).view(np.bool_)


HOSTILE = {
    "node out of range": put("state.node", 0, 12),
    "negative node": put("state.node", 1, -1),
    "NaN in a model": put("state.model", (0, 0), np.nan),
    "infinite model": put("state.model", (2, 1), np.inf),
    "negative hops": put("state.hops", 0, -1),
    "too many hops": put("state.hops", 0, 10**6),
    "too few hops": put("state.hops", 0, 3),
    "negative transfers": put("state.transfers", 0, -5),
    "more transfers than hops": put("state.transfers", 0, 10**5),
    "a flag of two": flag,
    "inactive but not diverged": put("state.active", 0, False),
    "diverged in the future": put("state.diverged_at", 0, 399),
    "phase that does not exist": put("state.phase", 0, 1),
    "phase far out": put("state.phase", 0, 10**6),
    "switched in the future": put("state.switched_at", 0, 399),
    "a node before that is out of range": put("state.came_from", 0, 12),
    "negative small messages": put("state.small_messages", 0, -1),
    "negative visits": put("state.visits", (0, slice(0, 2)), [-1, 10**3]),
    "visits that do not sum": put("state.visits", (0, 0), 0),
    "walk out of the network": put("state.walk", (0, 5), 12),
    "hops that shrink": put("record.counts", (0, 0, 1), 10**5),
    "negative distance": put("record.errors", (0, 0, 1), -1.0),
    "unknown distance": put("record.errors", (0, 0, 1), np.nan),
    "steps beyond the end": lambda arrays: about(arrays, done=401),
    "negative steps": lambda arrays: about(arrays, done=-1),
    "steps that are no integer": lambda arrays: about(arrays, done=100.0),
    "steps that are true": lambda arrays: about(arrays, done=True),
    "other steps": lambda arrays: about(arrays, done=7),
    "NaN seconds": lambda arrays: about(arrays, seconds=float("nan")),
    "resumed in the future": lambda arrays: about(arrays, resumed_at=[10**6]),
    "another format": lambda arrays: about(arrays, format="levywalk-run-0"),
    "no machine": lambda arrays: about(arrays, machine=None),
    "a run that is a list": lambda arrays: about(arrays, run=[1, 2]),
    "wrong shape": lambda arrays: arrays.update({"state.node": np.zeros(4, np.int64)}),
    "wrong type": lambda arrays: arrays.update({"state.node": np.zeros(3, np.int32)}),
    "big-endian": lambda arrays: arrays.update({"state.hops": arrays["state.hops"].astype(">i8")}),
    "Fortran order": lambda arrays: arrays.update(
        {"state.model": np.asfortranarray(arrays["state.model"])}
    ),
    "a missing array": lambda arrays: arrays.pop("state.came_from"),
    "no about": lambda arrays: arrays.pop("about"),
    "about that is no JSON": lambda arrays: arrays.update(
        {"about": np.frombuffer(b"{...", np.uint8)}
    ),
    "about that is a number": lambda arrays: arrays.update({"about": np.array(5)}),
    "a huge about": lambda arrays: arrays.update({"about": np.zeros(1 << 21, np.uint8)}),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_file_is_refused_and_left_as_it_is(change, saved):
    rewrite(saved, change)
    before = saved.read_bytes()
    with pytest.raises(
        lw.ResumeError,
        match=r"walk\.npz .*(delete it to start from the beginning|give resume another file)",
    ):
        go(resume=saved)
    assert saved.read_bytes() == before


DETECTOR = {
    "NaN in the detector": put("state.token_memory.detector.mean", (0, 0), np.nan),
    "negative power": put("state.token_memory.detector.power", 0, -1.0),
    "mass above one": put("state.token_memory.detector.mass", 0, 7.0),
    "negative streak": put("state.token_memory.detector.streak", 0, -1),
}


@pytest.mark.parametrize("change", DETECTOR.values(), ids=list(DETECTOR))
def test_a_detector_that_cannot_be_is_refused(change, tmp_path, stop_after):
    design = lw.switching(lw.mhlj(), lw.unif_rw(), window=1e9)
    file = tmp_path / "walk.npz"
    stop_after(22)
    with pytest.raises(lw.Interrupted):
        go(resume=file, design=design)
    rewrite(file, change)
    with pytest.raises(lw.ResumeError, match="the detector's state is impossible"):
        go(resume=file, design=design)


def test_the_same_file_written_again_unchanged_is_accepted(saved):
    rewrite(saved, lambda arrays: None)
    same_bits(go(resume=saved), go())


def test_a_damaged_file_is_refused_wherever_the_damage_is(saved):
    whole = saved.read_bytes()
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:cut])
        with pytest.raises(lw.ResumeError, match="cannot be read"):
            go(resume=saved)
        assert saved.read_bytes() == whole[:cut]
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        start = archive.getinfo("state.model.npy").header_offset + 200
    saved.write_bytes(whole[:start] + bytes([whole[start] ^ 1]) + whole[start + 1 :])
    with pytest.raises(lw.ResumeError, match="cannot be read"):
        go(resume=saved)


def test_a_pickle_is_never_loaded(saved, tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    with np.load(saved, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    trap = np.empty(3, object)
    trap[:] = [Trap(), Trap(), Trap()]
    np.savez(saved, **(arrays | {"state.node": trap}))
    with pytest.raises(lw.ResumeError, match="object"):
        go(resume=saved)
    assert not (tmp_path / "sprung").exists()


def test_a_header_that_promises_terabytes_allocates_nothing(saved):
    with np.load(saved, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
    )
    np.savez(saved, **{name: array for name, array in arrays.items() if name != "state.node"})
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("state.node.npy", header.getvalue())
    with pytest.raises(lw.ResumeError, match="shape"):
        go(resume=saved)


def test_another_machine_is_warned_of_and_the_run_goes_on(saved):
    rewrite(
        saved, lambda arrays: about(arrays, machine={"cpu": "abacus", "numba": "0", "numpy": "0"})
    )
    with pytest.warns(lw.ResumeWarning, match="abacus"):
        resumed = go(resume=saved)
    same_bits(resumed, go())


def test_two_runs_never_share_a_file(tmp_path):
    path, met = tmp_path / "walk.npz", []
    original = DRIVE.RunShare.through

    def through(self, *arguments, **named):  # the first run is on its way
        with pytest.raises(lw.ResumeError, match="in use by another run"):
            go(resume=path)
        met.append(True)
        original(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DRIVE.RunShare, "through", through)
        first = go(resume=path)
    assert met == [True]
    assert [p.name for p in tmp_path.iterdir()] == ["walk.npz"]
    same_bits(go(resume=path), first)


def test_a_disk_that_refuses_is_warned_of_and_the_run_and_the_last_file_are_kept(
    saved, monkeypatch
):
    before = saved.read_bytes()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.warns(lw.ResumeWarning, match="No space left"):
        resumed = go(resume=saved)
    same_bits(resumed, go())
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["walk.npz"]


@pytest.mark.parametrize(
    ("bad", "match"), [(5, "resume must be a path"), ("", "folder"), ("nowhere/walk.npz", "create")]
)
def test_a_bad_path_is_named(bad, match):
    with pytest.raises(lw.InvalidParameter, match=match):
        go(resume=bad)


def test_a_seed_of_numpys_and_a_schedule_of_ones_own_are_resumed(tmp_path):
    def schedule():
        return types.SimpleNamespace(values=lambda a, b: np.full(b - a, 1e-3))

    first = go(resume=tmp_path / "walk.npz", seed=np.int64(3), step_size=schedule())
    same_bits(go(resume=tmp_path / "walk.npz", seed=3, step_size=schedule()), first)


@pytest.mark.parametrize("path", ["/dev/null", "."])
def test_what_is_no_file_is_not_resumed_from(path):
    with pytest.raises(lw.InvalidParameter, match=r"resume must (be|name) a file"):
        go(resume=path)
