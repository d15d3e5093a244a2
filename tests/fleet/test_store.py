from __future__ import annotations

import errno
import math
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.messages import Greeting, Sighting
from levywalk.fleet.protocol.node_step import Measured, Visit
from levywalk.fleet.protocol.records import Archived, Began, Disk, Edge, Guarded, Held, Known, Own
from levywalk.fleet.protocol.starts import Starts, disagreement, next_link
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.storage import store as module
from levywalk.fleet.storage.codec import encode
from levywalk.fleet.storage.errors import (
    DiskFull,
    NoDescriptors,
    NodeStoreError,
    StoreDamaged,
    StoreForeign,
    StoreInUse,
)
from levywalk.fleet.storage.limits import Limits
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.rows import StoredRow
from levywalk.fleet.storage.store import NodeStore, whole

RUN = b"run"
LARGE = 100_000
NEW = Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {1: Edge(0, True, 2, (1.5,), True)})


def model(seed: int, dim: int = LARGE) -> Token:
    return Token.first(np.random.default_rng(seed).normal(size=dim))


def held(token: Token) -> Held:
    return Held("active", token, 1, -1, -1, token.step, FIRST)


def visit(step: int, token: Token | None = None) -> Visit:
    return Visit(FIRST, step, step, step, 2 * step, -1, -1, None if token is None else token.model)


def same(one: object, other: object) -> bool:
    """Whether two values are the same to the bit."""
    return encode(one) == encode(other)


def started(folder: Path, **more: object) -> NodeStore:
    store = NodeStore(folder, RUN, **more)
    store.persist(whole(NEW))
    return store


def files(folder: Path) -> list[Path]:
    return sorted((folder / "models").iterdir())


def test_a_new_store_is_empty_and_its_owner_s_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "node"
    with NodeStore(folder, RUN) as store:
        assert store.load() is None
        assert list(store.lines()) == []
        store.persist(Persist(whole(NEW).slots | {"held": held(model(0))}, ()))
        for path in (folder, folder / "models"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for path in [*files(folder), folder / "state.db", folder / "state.db-wal", folder / "lock"]:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("dim", [10, LARGE])
def test_what_was_persisted_is_loaded_to_the_bit(tmp_path: Path, dim: int) -> None:
    token, copy = model(0, dim), model(1, dim)._replace(step=3, chain=bytes(32))
    guarded = Guarded(copy, 4, "regenerated", None)
    lines = (
        visit(0, token),
        visit(1),
        Began(Epoch(1, 2, 3), FIRST, 7),
        Archived(copy, "guarded", Epoch(1, 2, 3), 2),
    )
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(token), "guarded": guarded}, lines[:2]))
        store.persist(Persist({"known": Known(Epoch(1, 2, 3), 7)}, lines[2:]))
    with NodeStore(tmp_path, RUN, limits=Limits(dim, 1)) as store:
        disk = store.load()
        assert disk is not None
        assert (disk.known, disk.own, disk.edges, disk.final) == (
            Known(Epoch(1, 2, 3), 7),
            NEW.own,
            NEW.edges,
            None,
        )
        assert same(disk.held, held(token))
        assert same(disk.guarded, guarded)
        found = list(store.lines())
        assert len(store) == 4
        assert all(same(one, other) for one, other in zip(found, lines, strict=True))
        assert [type(line) for line in store.lines(after=2)] == [Began, Archived]
    assert len(files(tmp_path)) == (2 if dim == LARGE else 0)  # each model once


def test_a_large_memory_lies_in_a_file_of_its_own_and_has_the_manifest_s_size(
    tmp_path: Path,
) -> None:
    carried = np.random.default_rng(2).integers(0, 256, 8 * LARGE).astype(np.uint8)
    token = model(0, 10)._replace(memory=carried)
    dim = len(token.model)
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(token)}, ()))
    (path,) = files(tmp_path)
    with NodeStore(tmp_path, RUN, limits=Limits(dim, 1, len(carried))) as store:
        disk = store.load()
        assert disk is not None
        assert disk.held is not None
        assert same(disk.held, held(token))
        assert disk.held.token.digest() == token.digest()
        assert not disk.held.token.memory.flags.writeable
    with (
        NodeStore(tmp_path, RUN, limits=Limits(dim, 1, len(carried) - 1)) as store,
        pytest.raises(StoreDamaged, match=f"with {len(carried) - 1} bytes was expected"),
    ):
        store.load()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    with (
        NodeStore(tmp_path, RUN, limits=Limits(dim, 1, len(carried))) as store,
        pytest.raises(StoreDamaged, match="a memory does not have the announced hash"),
    ):
        store.load()


def test_sqlite_is_asked_for_full_durability_and_agrees(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        assert store._one("PRAGMA journal_mode") == "wal"
        assert store._one("PRAGMA synchronous") == 2


def test_a_setting_that_sqlite_does_not_take_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.SETTINGS, "synchronous", ("FULL", 3))
    with pytest.raises(NodeStoreError, match="needs SQLite with synchronous"):
        NodeStore(tmp_path, RUN)


def test_a_second_process_is_kept_away_and_told_the_folder(tmp_path: Path) -> None:
    code = (
        f"from levywalk.fleet.storage.store import NodeStore; NodeStore({str(tmp_path)!r}, b'run')"
    )
    with started(tmp_path):
        with pytest.raises(StoreInUse, match=rf"{tmp_path} is in use by process {os.getpid()}"):
            NodeStore(tmp_path, RUN)
        other = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert other.returncode == 1
        assert f"StoreInUse: {tmp_path} is in use by process {os.getpid()}" in other.stderr
    NodeStore(tmp_path, RUN).close()


def test_the_log_is_read_by_others_while_the_node_runs(tmp_path: Path) -> None:
    code = f"""if True:
        from levywalk.fleet.storage.reader import StoreReader
        with StoreReader({str(tmp_path)!r}, b'run') as there:
            print(sum(line.step for line in there.lines()), there.load().held.token.step)"""
    with started(tmp_path) as store:
        store.persist(
            Persist({"held": held(model(0)._replace(step=5))}, tuple(visit(i) for i in range(1500)))
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert found.split() == [str(sum(range(1500))), "5"]
        with StoreReader(tmp_path) as there:
            store.persist(Persist({"held": held(model(1))}, (visit(1500, model(2)),)))
            disk = there.load()
            assert disk is not None
            assert same(disk.held, held(model(1)))
            assert same(list(there.lines())[-1], visit(1500, model(2)))
            with pytest.raises(AttributeError):
                there.persist(whole(NEW))  # type: ignore[attr-defined]


def test_a_folder_without_a_store_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NodeStoreError, match=r"not a node's folder.*state.db does not exist"):
        StoreReader(tmp_path)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = started(tmp_path)
    store.close()
    with pytest.raises(NodeStoreError, match="closed; open it again"):
        store.load()


def test_the_first_change_must_be_whole(tmp_path: Path) -> None:
    with NodeStore(tmp_path, RUN) as store:
        with pytest.raises(InvalidParameter, match="also edges, known, own at first"):
            store.persist(Persist({"held": None}, ()))
        with pytest.raises(InvalidParameter, match="no slot hold"):
            store.persist(Persist({"hold": None}, ()))
        assert store.load() is None


def test_what_cannot_be_read_again_is_not_written(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        bad = model(0, 3)._replace(model=np.array([1.0, np.nan, 2.0]))
        with pytest.raises(Malformed, match="finite"):
            store.persist(Persist({"known": Known(Epoch(9, 9, 9), 9), "held": held(bad)}, ()))
        disk = store.load()
        assert disk is not None
        assert (disk.known, disk.held) == (NEW.known, None)


def test_what_a_slot_holds_already_is_not_written_again(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0, 3))}, ()))
        size = (tmp_path / "state.db-wal").stat().st_size
        changes = store._open_db.total_changes
        store.persist(Persist({"held": held(model(0, 3))}, ()))
        assert (size, changes) == (
            (tmp_path / "state.db-wal").stat().st_size,
            store._open_db.total_changes,
        )


@pytest.mark.parametrize("dim", [3, LARGE])
def test_a_token_that_was_encoded_ahead_is_written_as_it_would_be(tmp_path: Path, dim: int) -> None:
    token, written = model(0, dim), []
    for folder, ahead in ((tmp_path / "one", False), (tmp_path / "two", True)):
        with started(folder) as store:
            if ahead:
                store.encode_ahead(token)
                assert not files(folder)
                assert (id(token) in store._recent) == (dim == 3)
            store.persist(Persist({"held": held(token)}, ()))
            written.append(store._rows("SELECT * FROM slots WHERE name = 'held'"))
            assert len(files(folder)) == (dim == LARGE)
    assert written[0] == written[1]


# Models in files


def test_a_large_model_is_a_safetensors_file_named_by_its_hash(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0))}, ()))
    (path,) = files(tmp_path)
    assert np.array_equal(load_file(path)["model"], model(0).model)
    sha = subprocess.run(
        ["sha256sum", path], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    assert path.name == f"{sha}.safetensors"


def test_a_model_is_removed_when_nothing_refers_to_it_and_not_before(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(
            Persist({"held": held(model(0)), "guarded": Guarded(model(0), 1, None, None)}, ())
        )
        store.persist(Persist({"held": held(model(1))}, ()))
        assert len(files(tmp_path)) == 2  # the guarded copy is still there
        store.persist(Persist({"guarded": None}, (visit(0, model(1)),)))
        assert len(files(tmp_path)) == 1
        store.persist(Persist({"held": None}, ()))
        assert len(files(tmp_path)) == 1  # the log refers to it for ever
        assert same(next(store.lines()), visit(0, model(1)))


def test_files_are_removed_after_what_waits_for_the_change(tmp_path: Path) -> None:
    """Removing a large file takes time, and is left to the next change at the latest."""
    with started(tmp_path) as store:
        for seed in range(3):
            store.persist(Persist({"held": held(model(seed))}, (visit(seed),)), tidy=False)
            assert len(files(tmp_path)) == 1 + (seed > 0)
        store.tidy()
        assert len(files(tmp_path)) == 1
        store.persist(Persist({"held": None}, (visit(3),)), tidy=False)
        assert store.prune(keep_bytes=0) == 3  # all lines count
        assert not files(tmp_path)


def test_orphans_are_removed_at_open_and_other_files_are_not(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0))}, (visit(0, model(1)),)))
    for name in (f"{'0' * 64}.safetensors", f"{'1' * 64}.partial", "notes.txt"):
        (tmp_path / "models" / name).write_bytes(b"?")
    with NodeStore(tmp_path, RUN) as store:
        assert [path.name for path in files(tmp_path)] == sorted(
            [*(f"{a.hex()}.safetensors" for a in store._referred()), "notes.txt"]
        )


@pytest.mark.parametrize("damage", ["cut", "longer", "flipped", "empty", "missing"])
@pytest.mark.parametrize("owner", ["slot", "line"])
def test_a_damaged_model_is_named_with_the_remedy(tmp_path: Path, damage: str, owner: str) -> None:
    token = model(0)
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(token)} if owner == "slot" else {}, (visit(0, token),)))
    (path,) = files(tmp_path)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[5000] ^= 1
    harmed = {
        "cut": content[:-100],
        "longer": content + b"?",
        "flipped": bytes(flipped),
        "empty": b"",
    }
    path.unlink() if damage == "missing" else path.write_bytes(harmed[damage])

    def look() -> None:
        with NodeStore(tmp_path, RUN) as store:
            store.load()
            list(store.lines())

    with pytest.raises(StoreDamaged, match=rf"{path} .*restore this file.*move {tmp_path} away"):
        look()
    if damage != "missing":
        assert path.read_bytes() == harmed[damage]  # nothing was changed
    path.write_bytes(content)
    look()


def test_a_model_of_another_run_s_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0))}, ()))
    with (
        NodeStore(tmp_path, RUN, limits=Limits(dim=7)) as store,
        pytest.raises(StoreDamaged, match="with 7 numbers"),
    ):
        store.load()


# Damaged and foreign databases


def harm(folder: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(folder / "state.db")
    db.execute(statement, values)
    db.commit()
    db.close()


def look(folder: Path) -> None:
    with NodeStore(folder, RUN) as store:
        store.load()
        list(store.lines())


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        (
            "UPDATE slots SET value = x'0100' WHERE name = 'known'",
            "wrong checksum in slots, row 'known'",
        ),
        ("UPDATE slots SET value = 'text' WHERE name = 'known'", "wrong checksum"),
        ("UPDATE slots SET name = 'old' WHERE name = 'held'", "wrong checksum"),
        ("DELETE FROM slots WHERE name = 'own'", "lacks own"),
        ("UPDATE lines SET value = x'' WHERE number = 2", "wrong checksum in lines, row 2"),
        ("DELETE FROM lines WHERE number = 2", "lacks line 2"),
        ("UPDATE lines SET number = 7 WHERE number = 3", "wrong checksum"),
        ("DROP TABLE lines", "no such table"),
    ],
)
def test_a_database_that_was_meddled_with_is_refused(
    tmp_path: Path, statement: str, word: str
) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({}, tuple(visit(i) for i in range(3))))
    harm(tmp_path, statement)
    with pytest.raises(NodeStoreError, match=f"{tmp_path / 'state.db'} .*{word}"):
        look(tmp_path)


def test_every_page_of_a_damaged_database_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with started(folder) as store:
        store.persist(
            Persist(
                {"held": held(model(0, 2000))}, tuple(visit(i, model(i, 50)) for i in range(40))
            )
        )
    whole_one = (folder / "state.db").read_bytes()
    draw = np.random.default_rng(0)
    noticed = 0
    for page in range(len(whole_one) // 4096):
        damaged = bytearray(whole_one)
        damaged[page * 4096 : (page + 1) * 4096] = draw.bytes(4096)
        (folder / "state.db").write_bytes(damaged)
        with pytest.raises(NodeStoreError, match=r"state\.db"):
            look(folder)
        noticed += 1
        (folder / "state.db").write_bytes(whole_one)
    assert noticed > 8
    look(folder)


@pytest.mark.parametrize("content", [None, b"", b"not a database" * 1000])
def test_a_lost_database_is_not_taken_for_a_new_node(tmp_path: Path, content: bytes | None) -> None:
    started(tmp_path).close()
    path = tmp_path / "state.db"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=rf"{path} .*start the node again without its disk"):
        NodeStore(tmp_path, RUN)


def test_a_cut_database_is_noticed(tmp_path: Path) -> None:
    started(tmp_path).close()
    path = tmp_path / "state.db"
    path.write_bytes(path.read_bytes()[: 2 * 4096])
    with pytest.raises(StoreDamaged, match=rf"{path} .*start the node again without its disk"):
        look(tmp_path)


def test_another_run_s_folder_is_refused(tmp_path: Path) -> None:
    started(tmp_path).close()
    with pytest.raises(
        StoreForeign, match=rf"{tmp_path} belongs to the run b'run', not to b'other'"
    ):
        NodeStore(tmp_path, b"other")
    with pytest.raises(StoreForeign, match="belongs to the run"):
        StoreReader(tmp_path, b"other")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    started(tmp_path).close()
    harm(tmp_path, "PRAGMA user_version = 4")
    with pytest.raises(StoreForeign, match=r"state.db has schema 4, and this levywalk writes 3"):
        NodeStore(tmp_path, RUN)


def test_a_stranger_s_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    harm(tmp_path, "CREATE TABLE songs (name)")
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StoreForeign, match="is not a node's database"):
        NodeStore(tmp_path, RUN)
    assert (tmp_path / "state.db").read_bytes() == before


def test_a_folder_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameter, match="got the file"):
        NodeStore(tmp_path / "file", RUN)


# No room


def test_a_full_database_leaves_the_old_state_and_a_store_that_works(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0, 10))}, (visit(0),)))
        pages = store._one("PRAGMA page_count")
        store._rows(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFull, match=rf"no room in {tmp_path}.*not damaged"):
            store.persist(
                Persist(
                    {"held": held(model(1, 8000)), "guarded": Guarded(model(2), 1, None, None)}, ()
                )
            )
        assert files(tmp_path) == []
        disk = store.load()
        assert disk is not None
        assert same(disk.held, held(model(0, 10)))
        store.persist(Persist({"known": Known(Epoch(1, 1, 1), 1)}, ()))
        store._rows("PRAGMA max_page_count = 1000000")
        store.persist(Persist({"held": held(model(1, 8000))}, (visit(1),)))
    with NodeStore(tmp_path, RUN) as store:
        disk = store.load()
        assert disk is not None
        assert disk.known.base == 1
        assert same(disk.held, held(model(1, 8000)))
        assert [line.step for line in store.lines() if isinstance(line, Visit)] == [0, 1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_for_a_model_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with started(tmp_path) as store:
        store.persist(Persist({"held": held(model(0))}, ()))
        before = files(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_write_all", full)
            with pytest.raises(DiskFull, match="no room in"):
                store.persist(Persist({"held": held(model(1))}, ()))
        assert files(tmp_path) == before
        disk = store.load()
        assert disk is not None
        assert same(disk.held, held(model(0)))
        store.persist(Persist({"held": held(model(1))}, ()))
        assert len(files(tmp_path)) == 1


def test_a_disk_that_fails_closes_the_store_and_keeps_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with started(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(NodeStoreError, match="cannot be written"):
                store.persist(Persist({"held": held(model(1))}, ()))
        with pytest.raises(NodeStoreError, match="open it again"):
            store.persist(Persist({"held": None}, ()))
    with NodeStore(tmp_path, RUN) as store:
        disk = store.load()
        assert disk is not None
        assert disk.held is None
        assert files(tmp_path) == []


FILL = """
import sys
from pathlib import Path
from tests.fleet.test_store import *
folder = Path(sys.argv[1]) / "node"
with started(folder) as store:
    for i in range(100_000):
        try:
            store.persist(Persist({"held": held(model(i, 4000)._replace(step=i))}, \
(visit(i, model(i, 500)),)))
        except DiskFull:
            break
    for size in (4000, LARGE):
        try:
            store.persist(Persist({"held": held(model(i, size))}, (visit(i),)))
        except DiskFull:
            pass
        else:
            sys.exit("there was room")
    assert store.load().held.token.step == i - 1
with NodeStore(folder, RUN) as store:
    disk = store.load()
    assert same(disk.held, held(model(i - 1, 4000)._replace(step=i - 1)))
    assert [line.step for line in store.lines()] == list(range(i))
print(i, "commits")
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
def test_a_disk_that_is_really_full_loses_nothing(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=6m none {tmp_path} && exec {sys.executable} -c "$0" {tmp_path}'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run(
        [*inside, f"mount -t tmpfs none {tmp_path}"], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine does not let a test mount anything")
    found = subprocess.run([*inside, mount, FILL], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("commits\n")


def test_a_token_that_was_restored_from_its_own_epoch_is_refused(tmp_path: Path) -> None:
    token = model(0, 10)._replace(epoch=Epoch(2, 3, 1))
    for parent, possible in [(Epoch(1, 9, 9), True), (token.epoch, False), (Epoch(3, 0, 0), False)]:
        folder = tmp_path / str(parent.counter)
        with started(folder) as store:
            store.persist(
                Persist({"held": held(token)._replace(status="seeking", parent=parent)}, ())
            )
        with NodeStore(folder, RUN) as store:
            if possible:
                assert store.load() is not None
            else:
                with pytest.raises(StoreDamaged, match="which is no earlier one"):
                    store.load()


def test_without_file_descriptors_the_store_waits_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = model(0), model(1)
    with started(tmp_path) as store:
        store.persist(Persist({"held": held(first)}, ()))
        with monkeypatch.context() as without:

            def fails(*_: object, **__: object) -> None:
                raise OSError(errno.EMFILE, "Too many open files")

            without.setattr(os, "open", fails)
            with pytest.raises(NoDescriptors, match="ulimit -n"):
                store.persist(Persist({"held": held(second)}, ()))
            without.setattr(Path, "open", fails)
            with pytest.raises(NoDescriptors):
                store.load()
        disk = store.load()
        assert disk is not None
        assert same(disk.held, held(first))
        store.persist(Persist({"held": held(second)}, ()))
    with NodeStore(tmp_path, RUN) as store:
        disk = store.load()
        assert disk is not None
        assert same(disk.held, held(second))


# A long log


def test_a_line_of_the_log_takes_little_room(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({}, tuple(visit(i) for i in range(20_000))))
    assert (tmp_path / "state.db").stat().st_size < 45 * 20_000  # it was 115


def test_neither_start_nor_status_read_the_visits(tmp_path: Path) -> None:
    began = Began(Epoch(1, 2, 3), FIRST, 7)
    with started(tmp_path) as store:
        store.persist(Persist({}, (*(visit(i) for i in range(3000)), began, visit(3000))))
    asked: list[str] = []
    with NodeStore(tmp_path, RUN) as store:
        store._open_db.set_trace_callback(asked.append)
        assert list(store.without_visits()) == [began]
        (statement,) = asked
        plan = store._rows(f"EXPLAIN QUERY PLAN {statement}")
        assert "lines_not_visits" in plan[0][3]
    path = tmp_path / "state.db"
    content = bytearray(path.read_bytes())
    at = content.index(encode(visit(1500))) // 4096 * 4096  # a page in the midst of the visits
    content[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with NodeStore(tmp_path, RUN) as store:  # does not look there
        assert store.load() is not None
        with pytest.raises(StoreDamaged):
            store.check_pages()


def test_the_last_metrics_are_found_without_reading_the_visits(tmp_path: Path) -> None:
    asked: list[str] = []
    with started(tmp_path) as store:
        store.persist(Persist({}, tuple(visit(i) for i in range(3000))))
        store._open_db.set_trace_callback(asked.append)
        assert store.last_measured() is None
        (statement,) = asked
        assert "lines_measured" in store._rows(f"EXPLAIN QUERY PLAN {statement}")[0][3]
        lines = tuple(Measured(FIRST, i, (math.nan, 0.5 + i)) for i in range(2))
        store.persist(Persist({}, (*lines, visit(3000))))
        last = store.last_measured()
        assert last is not None
        assert (last.step, last.values[1]) == (1, 1.5)


def test_a_store_without_the_index_of_metrics_is_read_and_gets_it(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({}, (visit(0), Measured(FIRST, 0, (0.5,)), visit(1))))
    harm(tmp_path, "DROP INDEX lines_measured")
    with StoreReader(tmp_path) as reading:
        assert reading.last_measured() == Measured(FIRST, 0, (0.5,))
    with NodeStore(tmp_path, RUN) as store:
        assert store._one("SELECT count(*) FROM sqlite_master WHERE name = 'lines_measured'") == 1
        assert store._one("PRAGMA user_version") == 3
        assert store.last_measured() == Measured(FIRST, 0, (0.5,))


def test_a_store_of_the_second_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    started(tmp_path).close()
    harm(tmp_path, "DELETE FROM slots WHERE name IN ('starts', 'chain')")  # it had none
    harm(tmp_path, "PRAGMA user_version = 2")
    with NodeStore(tmp_path, RUN) as store:
        assert store._one("PRAGMA user_version") == 3
        disk = store.load()
    assert disk is not None
    assert (disk.starts, disk.chain) == (None, None)


def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    with started(tmp_path) as store:
        store.persist(Persist({}, (visit(0), Began(Epoch(1, 2, 3), FIRST, 7))))
    for statement in ("DROP INDEX lines_not_visits", "DROP TABLE marks", "PRAGMA user_version = 1"):
        harm(tmp_path, statement)
    row = StoredRow.summed(1, encode(visit(0)), b"", 32)
    harm(tmp_path, "UPDATE lines SET sum = ? WHERE number = 1", row.sum)
    with StoreReader(tmp_path) as reading:
        assert len(list(reading.lines())) == 2
        assert len(list(reading.without_visits())) == 1
    with NodeStore(tmp_path, RUN) as store:
        store.persist(Persist({}, (visit(1),)))
        assert len(list(store.lines())) == 3
        assert store._one("PRAGMA user_version") == 3


@pytest.mark.parametrize("dim", [10, LARGE])
def test_old_visits_are_removed_and_nothing_else(tmp_path: Path, dim: int) -> None:
    copy = model(7, dim)
    began, archived = Began(Epoch(1, 2, 3), FIRST, 7), Archived(copy, "guarded", Epoch(1, 2, 3), 2)
    with started(tmp_path) as store:
        assert store.prune(keep_bytes=0) == 0
        lines = (visit(0, model(0, dim)), began, archived, *(visit(i) for i in range(1, 1000)))
        store.persist(Persist({}, lines))
        before = store._rows("SELECT number, sum FROM lines WHERE number > 902")
        assert store.prune(keep_bytes=100 * 40) > 800
        assert store.prune(keep_bytes=100 * 40) < 20  # the rest is of about the same size
        found = list(store.lines())
        assert same(found[0], began)
        assert same(found[1], archived)
        assert 50 < len(found) < 200
        assert found[-1].step == 999
        rows = store._rows("SELECT number, sum FROM lines WHERE number > 902")
        assert set(rows) <= set(before)
        assert len(files(tmp_path)) == (1 if dim == LARGE else 0)
        store.persist(Persist({}, (visit(1000),)))
        assert store.prune(keep_bytes=0) > 0
        assert [type(line) for line in store.lines()] == [Began, Archived, Visit]
    with NodeStore(tmp_path, RUN) as store:
        store.persist(Persist({}, (visit(1001),)))  # numbers go on
        assert [line.step for line in store.lines() if isinstance(line, Visit)] == [1000, 1001]
        assert len(store) == 1004
    harm(tmp_path, "DELETE FROM lines WHERE number = 1003")
    with StoreReader(tmp_path) as reading, pytest.raises(StoreDamaged, match="lacks line 1003"):
        list(reading.lines())


def test_visits_are_removed_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr(module.time, "time", lambda: now)
    with started(tmp_path) as store:
        for day in range(10):
            now = 1e9 + 86_400.0 * day
            store.persist(Persist({}, (visit(2 * day), visit(2 * day + 1))))
        assert store.prune(older_than=3.5 * 86_400.0) == 12
        assert [line.step for line in store.lines()] == list(range(12, 20))
        assert store.prune(older_than=3.5 * 86_400.0) == 0


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_damage_in_the_log_of_the_last_writes_makes_the_disk_an_old_one(
    tmp_path: Path, part: float
) -> None:
    """SQLite leaves out what it cannot read there, and all that follows. The disk is whole, and an
    earlier one: neighbours that have seen more of it tell the node so.
    """
    chain = next_link(None, b"random", 0)
    origin = chain.links
    with started(tmp_path / "node") as store:
        for i in range(1, 30):
            own = Starts(origin, 1, i, "", {})
            known = Known(Epoch(i, 0, 1), i)
            store.persist(Persist({"starts": own, "chain": chain, "known": known}, (visit(i),)))
        shutil.copytree(tmp_path / "node", tmp_path / "killed")
    log = tmp_path / "killed" / "state.db-wal"
    content = bytearray(log.read_bytes())
    content[int(part * len(content))] ^= 64
    log.write_bytes(content)
    (tmp_path / "killed" / "state.db-shm").unlink(missing_ok=True)
    with NodeStore(tmp_path / "killed", RUN) as store:
        disk = store.load()
        assert disk is not None
        assert disk.starts is not None
        commits = disk.starts.commits
        assert 0 < commits < 29
        assert (disk.known.epoch.counter, len(store)) == (commits, commits)  # of one write
    again = Greeting(origin, 1, origin, commits)
    seen = Sighting(origin, 1, origin, 29, False, b"")
    assert "the disk is an old copy" in disagreement(again, seen)


@pytest.mark.parametrize("wrong", [0.0, 4e9])
def test_a_clock_that_was_wrong_makes_no_visit_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    """The clock is wrong for one day, also while the log is pruned, and right again: what is
    younger stays, and what is older goes.
    """
    now = 1e9
    monkeypatch.setattr(module.time, "time", lambda: now)
    for day in range(10):
        now = wrong if day == 5 else 1e9 + 86_400.0 * day
        with started(tmp_path) as store:
            store.persist(Persist({}, (visit(2 * day), visit(2 * day + 1))))
            if day == 5 and not wrong:
                assert store.prune(older_than=3.5 * 86_400.0) == 0
    now = 1e9 + 86_400.0 * 7
    with started(tmp_path) as store:
        assert store.prune(older_than=3.5 * 86_400.0) == 8
        assert next(iter(store.lines())).step == 8
        now += 86_400.0 * 2
        store.prune(older_than=3.5 * 86_400.0)
        first = 10 if wrong else 12  # a time in the future does not show that its visits are old
        assert [line.step for line in store.lines()] == list(range(first, 20))
        now += 86_400.0 * 30
        store.prune(older_than=3.5 * 86_400.0)
        assert [line.step for line in store.lines()] == [19]  # the last line always stays


def test_the_log_of_the_database_stays_short(tmp_path: Path) -> None:
    """It is overwritten, which is synced faster than a file that grows."""
    with started(tmp_path) as store:
        for step in range(260):
            store.persist(Persist({"known": Known(Epoch(1, step, 3), step)}, ()))
        assert (tmp_path / "state.db-wal").stat().st_size < 230 * (4096 + 24)
    with StoreReader(tmp_path) as reading:
        disk = reading.load()
    assert disk is not None
    assert disk.known.base == 259
