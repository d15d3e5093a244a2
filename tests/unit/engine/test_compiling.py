"""Compiled code on installations that cannot be written to, and with an index of other sources."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import levywalk
from levywalk.engine.kernels import compiling
from levywalk.engine.kernels.compiling import _locked, _named_by_content, kernel
from tests.limits import PATIENCE

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import levywalk as lw
trace = lw.run(lw.ring(12), lw.homogeneous(12, dim=2), lw.unif_rw(), steps=20, step_size=0.01,
               progress="shown" in sys.argv)
print(lw.__file__, trace.model.sum())
"""


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *words],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


def copied(folder: Path) -> Path:
    """Return a copy of the package without compiled code, as pip installs it."""
    source = Path(levywalk.__file__).parent
    for file in source.rglob("*.py"):
        target = folder / "levywalk" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    return folder


@pytest.mark.more
def test_an_installation_that_cannot_be_written_to_compiles_without_a_store(tmp_path: Path) -> None:
    package = copied(tmp_path / "installed")
    # A file where numba would make its folder: nobody, not even root, can write there.
    for folder in [package / "levywalk", *(package / "levywalk").rglob("*/")]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    here = run(package, HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "home"))
    assert str(package) in here.stdout
    assert here.stderr.count("NUMBA_CACHE_DIR") == 1
    elsewhere = run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert elsewhere.stdout == here.stdout
    assert "NUMBA_CACHE_DIR" not in elsewhere.stderr


@pytest.mark.more
def test_compiling_is_announced_once_and_an_unreadable_index_is_replaced(tmp_path: Path) -> None:
    package, cache = copied(tmp_path / "installed"), tmp_path / "cache"
    first = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert first.stderr.count("Compiling, once per machine") == 1
    again = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert "Compiling" not in again.stderr
    indices = list(cache.rglob("*walkers*.nbi"))
    assert indices
    for index in indices:
        # What pickle finds if a class was renamed since: the stamp is right, a name in it is not.
        index.write_bytes(index.read_bytes().replace(b"Scratch", b"Sketchy"))
    mended = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert mended.stdout == again.stdout
    assert mended.stderr.count("Compiling, once per machine") == 1


def plus_one(x):  # type: ignore[no-untyped-def]
    return x + 1


def test_stored_code_is_used_until_any_file_of_the_kernels_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found_in_store() -> int:
        compiled: Any = kernel()(plus_one)
        assert compiled(1) == 2
        return sum(compiled.stats.cache_hits.values())

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert [found_in_store(), found_in_store()] == [0, 1]
    other = compiling.source_tag() + 1  # as if a file that numba does not look at had changed
    monkeypatch.setattr(compiling, "source_tag", lambda: other)
    assert [found_in_store(), found_in_store()] == [0, 1]


def test_python_looks_for_no_garbage_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looking = []

    class Watching(compiling.event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            looking.append(gc.isenabled())

        def on_end(self, _: Any) -> None:
            pass

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    with compiling.event.install_listener("numba:run_pass", Watching()):
        assert kernel()(plus_one)(1) == 2
    assert looking
    assert not any(looking)
    assert gc.isenabled()


def test_two_processes_that_compile_at_once_do_not_take_each_others_code(tmp_path: Path) -> None:
    file = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    other = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    save, save_other = _named_by_content(file), _named_by_content(other)
    save_data = file._save_data

    def late(name: str, data: object) -> None:
        save_other("for doubles", "code for doubles")  # between the other's index and its data
        save_data(name, data)

    file._save_data = late
    save("for integers", "code for integers")
    assert {key: other.load(key) for key in ("for integers", "for doubles")} == {
        "for integers": "code for integers",
        "for doubles": "code for doubles",
    }


IS_LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked")
"""


def test_one_process_compiles_while_the_others_wait(tmp_path: Path) -> None:
    def others_wait() -> bool:
        command = [sys.executable, "-c", IS_LOCKED, str(tmp_path / "compiling.lock")]
        return subprocess.run(command, capture_output=True, check=True).stdout == b"locked\n"

    with _locked(tmp_path / "kernel.nbi", "for integers"):
        with _locked(tmp_path / "called.nbi", "for integers"):
            assert others_wait()
        assert others_wait()  # the lock of what is called does not release that of its caller
    assert not others_wait()


COUNTED = """
from numba.core.caching import IndexDataCacheFile
import levywalk as lw
stored, original = [], IndexDataCacheFile._save_data
def save(file, name, data):
    stored.append(name)
    original(file, name, data)
IndexDataCacheFile._save_data = save
trace = lw.run(lw.ring(12), lw.homogeneous(12, dim=2), lw.unif_rw(), steps=20, step_size=0.01)
print(len(stored), trace.model.sum())
"""


@pytest.mark.more
def test_processes_that_start_together_compile_each_function_once(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTED], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    found = [process.communicate(timeout=PATIENCE)[0].split() for process in started]
    compiled = len(list(tmp_path.rglob("*.nbc")))
    assert compiled > 0
    assert sum(int(count) for count, _ in found) == compiled
    assert len({model for _, model in found}) == 1
