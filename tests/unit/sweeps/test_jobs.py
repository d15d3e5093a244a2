"""`run_all`: each piece of work once, the same bits everywhere, and whatever happens, what is
finished is kept.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk import registry, version
from levywalk.sweeps import jobs, pools, task, workers
from levywalk.sweeps.jobs import run_all
from levywalk.sweeps.pools import ClusterError
from levywalk.sweeps.store import ResultStore, ResultStoreError, ResultStoreWarning
from levywalk.sweeps.task import name_of
from levywalk.sweeps.workers import JobsFailed, Workers
from tests.limits import PATIENCE, eventually, mostly_more
from tests.unit.sweeps.test_store import full_disk
from tests.unit.sweeps.work import logged, other, pickles, walks, whose

ROOT = Path(__file__).parents[3]


def about(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"i": i} | {key: value[i] for key, value in more.items() if i in value}
        for i in range(count)
    ]


@pytest.fixture(autouse=True)
def no_loaded_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests have loaded: it is part of a task's key, and children lack it."""
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.delenv(registry.LOAD, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "store")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def executed(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().split())


def go(
    descriptions: list[dict[str, Any]], store: ResultStore, log: Path, **options: Any
) -> list[str]:
    return run_all(descriptions, logged, store, given={"log": str(log)}, **options)


# --- once, and in order ---------------------------------------------------------------------------


@pytest.mark.parametrize("workers", mostly_more([0, 1], lambda workers: workers == 0))
def test_only_what_the_store_lacks_is_computed(store: ResultStore, log: Path, workers: int) -> None:
    go(about(3), store, log, workers=workers)
    assert executed(log) == [0, 1, 2]
    keys = go(about(5), store, log, workers=workers)
    assert executed(log) == [0, 1, 2, 3, 4]
    for i, key in enumerate(keys):
        found = store.load(key)
        assert found is not None
        assert found.numbers == {"i": i}
        assert np.array_equal(found.arrays["squares"], np.arange(i) ** 2)


def test_equal_descriptions_are_computed_once(store: ResultStore, log: Path) -> None:
    keys = go([{"i": 1}, {"i": np.int64(1)}, {"i": 2}], store, log, workers=0)
    assert executed(log) == [1, 2]
    assert keys[0] == keys[1] != keys[2]


def test_another_work_has_other_keys(store: ResultStore) -> None:
    assert run_all([{"n": 3}], jobs.squares, store, workers=0) != run_all(
        [{"n": 3}], other, store, workers=0
    )


def test_what_is_given_beside_changes_no_key(store: ResultStore, log: Path, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert go(about(1), store, log, workers=0) == go(about(1), store, tmp_path / "other", workers=0)


def test_a_damaged_result_is_computed_again(store: ResultStore, log: Path) -> None:
    key = go(about(1), store, log, workers=0)[0]
    store.path(key).write_bytes(b"rust")
    with pytest.warns(ResultStoreWarning, match="damaged"):
        go(about(1), store, log, workers=0)
    assert executed(log) == [0, 0]
    assert store.has(key)


def test_nothing_to_do_is_done_at_once(store: ResultStore, log: Path) -> None:
    assert go([], store, log) == []


# --- what a key knows of the sources --------------------------------------------------------------


def test_results_of_other_sources_are_not_taken_for_these(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = go(about(1), store, log, workers=0)
    with monkeypatch.context() as patch:
        patch.setattr(task, "source_of", lambda name: "edited")
        assert go(about(1), store, log, workers=0) != before
    assert go(about(1), store, log, workers=0) == before
    assert executed(log) == [0, 0]


def test_the_digest_knows_levywalk_and_the_module_of_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def source_of(name: str) -> str:
        task._source.cache_clear()
        return task.source_of(name)

    ours, theirs = (
        source_of("levywalk.sweeps.jobs:squares"),
        source_of("tests.unit.sweeps.work:logged"),
    )
    assert ours != theirs
    monkeypatch.setattr(task, "source_digest", lambda *parts: "edited")
    assert source_of("levywalk.sweeps.jobs:squares") != ours


def test_all_that_decides_numbers_is_in_the_digest() -> None:
    package = Path(lw.__file__).parent
    assert all((package / part).exists() for part in task.DECISIVE_SOURCES)
    assert version.source_digest("draws.py") != version.source_digest("schedule.py")


def test_a_worker_with_other_sources_is_refused(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "source_of", lambda name: "edited")  # here, and not in the worker
    with pytest.raises(JobsFailed, match="source code differs"):
        go(about(1), store, log, workers=1)
    assert executed(log) == []


# --- the same workers for several calls -----------------------------------------------------------


def pids(store: ResultStore, keys: list[str]) -> set[int]:
    found = [store.load(key) for key in keys]
    return {result.numbers["pid"] for result in found if result is not None}


@pytest.mark.more
def test_the_same_processes_serve_several_calls_and_then_go(store: ResultStore) -> None:
    with Workers(1) as workers:
        first = pids(store, run_all([{"i": 0}], whose, store, workers=workers))
        second = pids(store, run_all([{"i": 1}], whose, store, workers=workers))
    assert first == second != {os.getpid()}
    with pytest.raises(ProcessLookupError):
        os.kill(*first, 0)


@pytest.mark.more
def test_one_that_is_killed_is_replaced_in_this_call_and_in_the_next(
    store: ResultStore, log: Path
) -> None:
    with Workers(2) as workers:
        keys = go(about(3, dies={1: 1}), store, log, workers=workers)
        with pytest.raises(JobsFailed, match="its worker was killed"):
            go([{"i": 9, "dies": 99}], store, log, workers=workers)
        keys += go(about(6)[4:], store, log, workers=workers)
        (idle,) = pids(store, run_all([{"i": 0}], whose, store, workers=workers))
        os.kill(idle, signal.SIGKILL)  # between two calls
        eventually(lambda: has_ended(idle))
        keys += go([{"i": 7}, {"i": 8}], store, log, workers=workers)
    assert all(store.has(key) for key in keys)


def has_ended(pid: int) -> bool:
    """Return whether the process is no more, or waits for its parent to notice."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.more
def test_after_a_failure_of_the_store_the_same_workers_can_be_asked_again(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ResultStore, key: str, content: bytes) -> None:
        raise ResultStoreError("full")

    with Workers(1) as workers:
        with monkeypatch.context() as patch:
            patch.setattr(ResultStore, "put", full)
            with pytest.raises(ResultStoreError, match="full"):
                go(about(1), store, log, workers=workers)
        assert all(store.has(key) for key in go(about(2), store, log, workers=workers))


def test_workers_know_where_they_work(store: ResultStore, log: Path) -> None:
    with pytest.raises(lw.InvalidParameter, match="scheduler"):
        go(about(1), store, log, workers=Workers(0), scheduler="tcp://127.0.0.1:1")
    with pytest.raises(lw.InvalidParameter, match="workers"):
        Workers(-1)


# --- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("levywalk.sweeps.jobs", "package.module:function"),
        ("levywalk.nowhere:work", "levywalk.nowhere"),
        ("levywalk.sweeps.jobs:nothing", "nothing"),
        ("levywalk.sweeps.workers:_TICK", "function"),
        (lambda description: None, "module"),
        (5, "module"),
    ],
)
def test_work_that_no_worker_could_find_is_refused(
    store: ResultStore, work: Any, words: str
) -> None:
    with pytest.raises(lw.InvalidParameter, match=words):
        run_all([{"i": 0}], work, store)


def test_a_function_is_known_by_its_name() -> None:
    assert name_of(logged) == "tests.unit.sweeps.work:logged"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": -1}, "workers"),
        ({"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "scheduler"),
        ({"names": ["one", "two"]}, "names"),
    ],
)
def test_wrong_options_are_named(
    store: ResultStore, log: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(lw.InvalidParameter, match=words):
        go(about(1), store, log, **options)
    assert executed(log) == []


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("workers", [0, 2])
def test_one_error_names_every_failure_and_the_others_are_kept(
    store: ResultStore, log: Path, workers: int
) -> None:
    descriptions = about(6, says={1: "too wet", 4: "too dry"}, leaves={2: 3})
    with pytest.raises(JobsFailed) as caught:
        go(descriptions, store, log, workers=workers, names=[f"task {i}" for i in range(6)])
    message = str(caught.value)
    assert message.startswith("3 of 6 tasks failed")
    for words in (
        "task 1: ValueError: too wet (",
        "task 4: ValueError: too dry (",
        "task 2: SystemExit: 3 (",
    ):
        assert words in message
    assert sorted(failure.description["i"] for failure in caught.value.failures) == [1, 2, 4]
    assert len(list(store.folder.iterdir())) == 3
    with pytest.raises(JobsFailed):  # only the failed ones are tried again
        go(descriptions, store, log, workers=0)
    assert executed(log) == [0, 1, 1, 2, 2, 3, 4, 4, 5]


def test_without_names_the_description_is_the_name(store: ResultStore, log: Path) -> None:
    with pytest.raises(JobsFailed, match=r'\{"i":0,"says":"no"\}: ValueError: no'):
        go([{"i": 0, "says": "no"}], store, log, workers=0)


def test_a_result_that_would_need_pickle_fails(store: ResultStore) -> None:
    with pytest.raises(JobsFailed, match="'objects'"):
        run_all([{}], pickles, store, workers=0)


@pytest.mark.more
def test_a_killed_worker_is_replaced_and_its_work_done_again(store: ResultStore, log: Path) -> None:
    keys = go(about(6, dies={1: 1}), store, log, workers=2)
    assert all(store.has(key) for key in keys)
    assert executed(log).count(1) == 2


@pytest.mark.more
def test_work_that_always_kills_its_worker_is_reported_and_only_that(
    store: ResultStore, log: Path
) -> None:
    with pytest.raises(JobsFailed, match=r"1 of 6(.|\n)*its worker was killed") as caught:
        go(about(6, dies={1: 99}), store, log, workers=2)
    assert [failure.description["i"] for failure in caught.value.failures] == [1]
    assert len(list(store.folder.iterdir())) == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_stops_the_work_and_loses_no_finished_result(
    store: ResultStore, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = go(about(2), store, log, workers=0)
    monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path))

    def elsewhere_has_room(self: ResultStore, key: str, content: bytes) -> None:
        if self.folder == store.folder:
            with full_disk(monkeypatch):
                put(self, key, content)
        else:
            put(self, key, content)

    put = ResultStore.put
    with monkeypatch.context() as patch:
        patch.setattr(ResultStore, "put", elsewhere_has_room)
        with pytest.raises(
            ResultStoreError, match=r"No space left.*1 finished results are in (\S+):"
        ) as caught:
            go(about(6), store, log, workers=0)
    assert all(store.has(key) for key in kept)
    assert executed(log) == [0, 1, 2]  # nothing new was begun
    rescued = Path(str(caught.value).rpartition(" are in ")[2].partition(":")[0])
    for path in rescued.iterdir():
        path.rename(store.folder / path.name)
    go(about(6), store, log, workers=0)
    assert executed(log) == [0, 1, 2, 3, 4, 5]


@pytest.mark.more
def test_room_that_is_made_in_time_is_used(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, refused = ResultStore.put, []

    def full_for_a_while(self: ResultStore, key: str, content: bytes) -> None:
        if len(refused) < 3:
            refused.append(key)
            raise ResultStoreError("full")
        put(self, key, content)

    monkeypatch.setattr(ResultStore, "put", full_for_a_while)
    keys = go(about(4, seconds={1: 1.0}), store, log, workers=2)
    assert all(store.has(key) for key in keys)
    assert executed(log) == [0, 1, 2, 3]


# --- interruptions, of real processes -------------------------------------------------------------

CHILD = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a detached parent leaves it ignored
from tests.unit.sweeps.test_jobs import go
from levywalk.sweeps.store import ResultStore
from pathlib import Path
if __name__ == "__main__":
    folder, options, descriptions = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    try:
        go(descriptions, ResultStore(Path(folder) / "store"), Path(folder) / "log", **options)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def begun(
    store: ResultStore, log: Path, descriptions: list[dict[str, Any]], stored: int, **options: Any
) -> Any:
    """Start `go` in a process of its own group, and wait until so many results are stored and one
    more has begun.
    """
    arguments = [str(log.parent), json.dumps(options), json.dumps(descriptions)]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def has_begun() -> bool:
        assert child.poll() is None, child.communicate()[1]
        return len(list(store.folder.glob("*.npz"))) >= stored and len(executed(log)) > stored

    eventually(has_begun)
    return child


@pytest.mark.parametrize("workers", mostly_more([0, 1], lambda workers: workers == 0))
def test_ctrl_c_stops_soon_keeps_what_is_finished_and_the_same_call_goes_on(
    store: ResultStore, log: Path, workers: int
) -> None:
    slow = about(4, seconds={2: 3600.0})  # longer than anybody waits: only the signal can end it
    child = begun(store, log, slow, stored=2, workers=workers)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert len(list(store.folder.iterdir())) == 2
    assert executed(log) == [0, 1, 2]
    go(
        about(4), store, log, workers=0
    )  # 2 is another description now, 0, 1 are stored, 3 was not begun
    assert executed(log) == [0, 1, 2, 2, 3]


@pytest.mark.more
def test_killed_by_force_the_same_call_goes_on(store: ResultStore, log: Path) -> None:
    child = begun(store, log, about(4, stuck={2: 1}), stored=2, workers=1)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=PATIENCE)
    go(about(4, stuck={2: 1}), store, log, workers=0)
    assert executed(log) == [0, 1, 2, 2, 3]
    assert not list(store.folder.glob("*.partial"))


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@pytest.mark.more
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_workers_do_not_outlive_a_parent_that_is_killed(store: ResultStore, log: Path) -> None:
    child = begun(store, log, about(2, seconds={1: 3600.0}), stored=1, workers=1)
    left = children(child.pid)
    assert left
    child.kill()
    child.communicate(timeout=PATIENCE)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


# --- the same bits everywhere ---------------------------------------------------------------------


@pytest.fixture
def cluster(running_cluster: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a cluster whose workers, like this test, have no files of a user's loaded."""
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.delenv(registry.LOAD, raising=False)
    return running_cluster


def written_address(file: Path) -> str:
    """The scheduler's address, or "" as long as the scheduler has not written all of its file."""
    try:
        return str(json.loads(file.read_text())["address"])
    except (FileNotFoundError, json.JSONDecodeError):
        return ""


def test_an_address_that_is_not_written_yet_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    assert written_address(file) == ""
    file.write_text("")
    assert written_address(file) == ""
    file.write_text('{"address": "tcp://127.0.0.1:1"}')
    assert written_address(file) == "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Dask scheduler and two workers with nannies, as processes on free ports of this machine."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    address = folder / "scheduler.json"
    common = ["--scheduler-file", str(address), "--no-dashboard"]
    commands = [
        ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common],
        ["dask_worker", "--host", "127.0.0.1", "--nworkers", "2", "--nthreads", "1", *common],
    ]
    with (folder / "log").open("wb") as output:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{command[0]}", *command[1:]],
                cwd=folder,
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
                    registry.LOAD: "",
                },
                stdout=output,
                stderr=output,
            )
            for command in commands
        ]
    try:
        eventually(lambda: written_address(address))  # the file is there before it is filled
        yield written_address(address)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=PATIENCE)


@pytest.mark.more
def test_results_are_the_same_bytes_here_in_processes_and_on_a_cluster(
    tmp_path: Path, cluster: str
) -> None:
    descriptions = [{"seed": seed} for seed in range(2)]
    found = []
    for i, options in enumerate([{"count": 0}, {"count": 2}, {"scheduler": cluster}]):
        store = ResultStore(tmp_path / str(i))
        with Workers(**options) as workers:  # type: ignore[arg-type]
            keys = [
                run_all([description], walks, store, workers=workers)[0]
                for description in descriptions
            ]
        found.append([store.path(key).read_bytes() for key in keys])
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 2


@pytest.mark.more
def test_a_cluster_computes_only_what_is_missing_and_reports_what_fails(
    store: ResultStore, log: Path, cluster: str
) -> None:
    go(about(2), store, log, workers=0)
    with pytest.raises(JobsFailed, match="too wet") as caught:
        go(about(5, says={3: "too wet"}), store, log, scheduler=cluster)
    assert len(caught.value.failures) == 1
    assert executed(log) == [0, 1, 2, 3, 4]
    assert len(list(store.folder.iterdir())) == 4


@pytest.mark.more
def test_a_killed_worker_of_a_cluster_is_survived(
    store: ResultStore, log: Path, cluster: str
) -> None:
    keys = go(about(4, dies={1: 1}), store, log, scheduler=cluster)
    assert all(store.has(key) for key in keys)
    assert executed(log).count(1) == 2


@pytest.mark.more
def test_ctrl_c_leaves_the_cluster_and_keeps_what_is_finished(
    store: ResultStore, log: Path, cluster: str
) -> None:
    child = begun(store, log, about(3, seconds={2: 30.0}), stored=2, scheduler=cluster)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert len(list(store.folder.iterdir())) == 2


def test_a_cluster_that_does_not_answer_is_named(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(pools, "_CONNECT", 0.5)
    with pytest.raises(
        ClusterError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1'.*dask scheduler"
    ):
        go(about(1), store, log, scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["nonsense", "foo://127.0.0.1:1", ""])
def test_what_is_no_address_is_named(store: ResultStore, log: Path, address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at '{address}'"):
        go(about(1), store, log, scheduler=address)


def test_without_dask_the_remedy_is_named(
    store: ResultStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(lw.MissingExtra, match=r"pip install 'levywalk\[cluster\]'"):
        go(about(1), store, log, scheduler="tcp://127.0.0.1:1")
