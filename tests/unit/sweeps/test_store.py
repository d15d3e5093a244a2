"""The store: one content, one key, one file; nothing half-written, nothing believed that does not
fit.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.sweeps import store as module
from levywalk.sweeps.store import (
    ResultStore,
    ResultStoreError,
    ResultStoreWarning,
    canonical,
    key_of,
    pack,
    plain,
)
from tests.limits import PATIENCE

ARRAYS = {"error": np.array([[1.0, 0.5], [1.0, np.inf]]), "step": np.array([0, 10])}
NUMBERS = {"steps_to": float("inf"), "design": "MHLJ", "none": None, "list": [1, 2.5]}
ABOUT = {"network": {"family": "ring", "n": 100}, "run": {"seed": 0, "accuracy": 0.1}}


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "store")


def filled(store: ResultStore) -> str:
    key = store.key(ABOUT)
    store.save(key, ABOUT, ARRAYS, NUMBERS)
    return key


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_is_the_same_for_any_order_and_for_numpy_numbers(store: ResultStore) -> None:
    other = {
        "run": {"accuracy": np.float64(0.1), "seed": np.int32(0)},
        "network": {"n": np.uint8(100), "family": "ring"},
    }
    assert store.key(ABOUT) == store.key(other)


@pytest.mark.parametrize(
    "other",
    [
        {"n": 5.0},
        {"n": 6},
        {"n": "5"},
        {"n": True},
        {"n": [5]},
        {"m": 5},
        {"n": 5, "m": None},
        {},
        {"n": None},
    ],
)
def test_different_content_has_a_different_key(other: dict[str, object]) -> None:
    assert key_of({"n": 5}) != key_of(other)


def test_floats_count_to_the_last_bit() -> None:
    assert key_of({"x": 0.1}) != key_of({"x": np.nextafter(0.1, 1.0)})
    assert key_of({"x": 0.1}) != key_of({"x": np.float32(0.1)})


def test_the_version_and_the_format_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {key_of(ABOUT)}
    monkeypatch.setattr(module, "__version__", "9.9")
    keys.add(key_of(ABOUT))
    monkeypatch.setattr(module, "FORMAT", 99)
    keys.add(key_of(ABOUT))
    assert len(keys) == 3


@pytest.mark.parametrize(
    "value", [{1}, np.zeros(2), object(), b"x", 1j, Path("x"), {"a": {2: 3}}, lw.ring(5)]
)
def test_what_is_not_plain_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(lw.InvalidParameter, match=r"description\.run\[1\]"):
        key_of({"run": [0, value]})


def test_a_description_is_a_dict() -> None:
    with pytest.raises(lw.InvalidParameter, match=r"description must be a dict, got \[1\]"):
        key_of([1])  # type: ignore[arg-type]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_canonical_text_says_it_all_and_is_a_fixed_point(value: dict[str, object]) -> None:
    text = canonical(value)
    assert json.loads(text) == plain(value)
    assert canonical(json.loads(text)) == text


# --- files ----------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_to_the_bit(store: ResultStore) -> None:
    key = filled(store)
    found = store.load(key, ABOUT)
    assert found is not None
    assert found.description == ABOUT
    assert found.numbers == NUMBERS
    assert set(found.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        assert np.array_equal(found.arrays[name], array)
    assert store.has(key)
    assert [path.name for path in store.folder.iterdir()] == [f"{key}.npz"]  # nothing left beside


def test_a_missing_result_is_none_and_no_folder_is_made(store: ResultStore) -> None:
    assert store.load(store.key(ABOUT)) is None
    assert not store.has(store.key(ABOUT))
    assert not store.folder.exists()


def test_the_same_result_is_the_same_bytes() -> None:
    assert pack(ABOUT, ARRAYS, NUMBERS) == pack(
        dict(reversed(ABOUT.items())), ARRAYS, dict(reversed(NUMBERS.items()))
    )


def test_anything_can_read_the_file(store: ResultStore) -> None:
    with np.load(store.path(filled(store)), allow_pickle=False) as archive:
        assert np.array_equal(archive["error"], ARRAYS["error"])
        assert json.loads(archive["about"].tobytes())["description"] == ABOUT


@pytest.mark.parametrize("bad", [{"a": np.array([None])}, {"a": [1, 2]}, {"about": np.zeros(1)}])
def test_arrays_that_need_pickle_are_refused(store: ResultStore, bad: dict[str, object]) -> None:
    with pytest.raises(lw.InvalidParameter, match="arrays must be numpy arrays"):
        store.save(store.key(ABOUT), ABOUT, bad, {})  # type: ignore[arg-type]


def test_a_key_of_something_else_is_refused(store: ResultStore) -> None:
    with pytest.raises(lw.InvalidParameter, match="key must be"):
        store.save(store.key({"other": 1}), ABOUT, ARRAYS, NUMBERS)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lw.InvalidParameter, match="store must be a folder"):
        ResultStore(tmp_path / "file")


# --- damage ---------------------------------------------------------------------------------------


def test_a_flipped_byte_is_noticed_or_harmless(store: ResultStore) -> None:
    key = filled(store)
    whole = store.path(key).read_bytes()
    noticed = 0
    for i in range(0, len(whole), 2):
        store.path(key).write_bytes(whole[:i] + bytes([whole[i] ^ 0x41]) + whole[i + 1 :])
        try:
            found = store.load(key, ABOUT)
        except ResultStoreWarning:  # pytest makes it an error
            noticed += 1
            continue
        assert found is not None
        assert found.numbers == NUMBERS
        assert all(np.array_equal(found.arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert noticed > len(whole) / 4


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense", pickle.dumps({"a": 1})])
def test_a_damaged_file_is_reported_counts_as_missing_and_is_replaced(
    store: ResultStore, content: bytes
) -> None:
    key = filled(store)
    store.path(key).write_bytes(content)
    with pytest.warns(ResultStoreWarning, match="is damaged"):
        assert store.load(key) is None
    with pytest.warns(ResultStoreWarning, match="will be replaced"):
        assert not store.has(key)
    filled(store)
    assert store.has(key)


def test_a_truncated_file_is_damaged(store: ResultStore) -> None:
    key = filled(store)
    whole = store.path(key).read_bytes()
    store.path(key).write_bytes(whole[: len(whole) // 2])
    with pytest.warns(ResultStoreWarning, match="is damaged"):
        assert store.load(key) is None


def test_a_renamed_file_is_noticed(store: ResultStore) -> None:
    key, other = filled(store), store.key({"other": 1})
    store.path(key).rename(store.path(other))
    with pytest.warns(ResultStoreWarning, match="something else"):
        assert store.load(other) is None


def test_a_clash_of_hashes_is_noticed(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "key_of", lambda description: "0" * 64)
    store.save("0" * 64, ABOUT, ARRAYS, NUMBERS)
    with pytest.warns(ResultStoreWarning, match="something else"):
        assert store.load("0" * 64, {"other": 1}) is None


def test_nothing_is_ever_unpickled(store: ResultStore, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "exploded",))

    key = filled(store)
    with zipfile.ZipFile(store.path(key), "a") as archive, archive.open("bomb.npy", "w") as member:
        np.lib.format.write_array(member, np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.warns(ResultStoreWarning, match="is damaged"):
        assert store.load(key) is None
    assert not (tmp_path / "exploded").exists()


# --- disks and other processes --------------------------------------------------------------------


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every new file is /dev/full, which the kernel refuses to fill: a real ENOSPC in the real
    writer.
    """
    real = module.tempfile.mkstemp

    def mkstemp(**options: object) -> tuple[int, str]:
        number, name = real(**options)  # type: ignore[call-overload]
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)
        return number, name

    with monkeypatch.context() as patch:
        patch.setattr(module.tempfile, "mkstemp", mkstemp)
        yield


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_clear_error_and_spoils_nothing(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = filled(store)
    with (
        full_disk(monkeypatch),
        pytest.raises(ResultStoreError, match=r"could not be written: No space left.*make room"),
    ):
        store.save(key, ABOUT, {}, {})
    found = store.load(key)
    assert found is not None
    assert found.numbers == NUMBERS
    assert len(list(store.folder.iterdir())) == 1


def test_a_disk_that_is_full_at_the_sync_is_a_clear_error_too(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "fsync", fsync)
    with pytest.raises(ResultStoreError, match="No space left"):
        filled(store)
    assert list(store.folder.iterdir()) == []


def test_a_store_error_is_an_error_of_levywalk_and_of_the_system() -> None:
    assert issubclass(ResultStoreError, lw.LevywalkError)
    assert issubclass(ResultStoreError, OSError)


def write_many(folder: str) -> None:
    store = ResultStore(folder)
    for _ in range(30):
        filled(store)


@pytest.mark.more
def test_two_processes_may_write_one_key(store: ResultStore) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(str(store.folder),)) for _ in range(2)]
    for writer in writers:
        writer.start()
    key, seen = store.key(ABOUT), 0
    while any(writer.is_alive() for writer in writers):
        seen += store.has(key)  # a half-written file would warn, and a warning is an error here
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert seen
    assert [path.name for path in store.folder.iterdir()] == [f"{key}.npz"]


def test_killed_while_writing_leaves_the_old_result(store: ResultStore) -> None:
    key = filled(store)
    code = (
        "import os, signal, sys\n"
        "from levywalk.sweeps import store as module\n"
        "module.os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"module.ResultStore(sys.argv[1]).put({key!r}, b'half of someth')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.folder)], timeout=PATIENCE, check=False
    )
    assert done.returncode == -9
    found = store.load(key, ABOUT)
    assert found is not None
    assert found.numbers == NUMBERS
