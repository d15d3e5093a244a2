"""Compiled code is stored where that is possible, and people are told why they wait for it.

numba stores compiled code beside the package, or in a cache folder of the user's. Where it can
write to neither, it refuses to compile at all; here the code is then compiled in each process.

Many processes may start at once: the workers of a sweep, the nodes of a cluster. One of them
compiles, and the others wait for its code and load it.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event as numba_event
from numba.core.compiler_lock import global_compiler_lock

from levywalk.engine.kernels.source import source_tag
from levywalk.errors import CacheWarning
from levywalk.interruption import CtrlC

event: Any = numba_event
# numba could not read its own index: a type in it was renamed or moved since.
_STALE = (AttributeError, ImportError, EOFError, ValueError, KeyError, TypeError)
# A wrapper to be called from C is never used, and takes time to compile.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_POLL = 0.02  # seconds between two looks whether another process has compiled
_watching: list[CtrlC] = []  # what a wait for another process listens to
_told = False


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function with numba when it is first called; store the code if that is possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            found = njit(cache=True, **_OPTIONS, **options)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
            _warn_once()
            return njit(**_OPTIONS, **options)(function)  # type: ignore[no-any-return]
        shared_by_processes(found)
        return found  # type: ignore[no-any-return]

    return decorate


def shared_by_processes(compiled: Any) -> None:
    """Let several processes use one store of a compiled function: nothing is mixed up, and nothing
    is compiled twice.

    numba compares the store with the file of the function alone. Here code is also out of date if
    any other file of the kernels has changed, because the function may call what is in it.
    """
    stored = compiled._cache
    stored._cache_file._source_stamp = (stored._cache_file._source_stamp, source_tag())
    stored.load_overload = _forgiving(stored)
    stored._cache_file.save = _named_by_content(stored._cache_file)
    compiled.compile = _one_at_a_time(compiled.compile, Path(stored._cache_file._index_path))


def _forgiving(stored: Any) -> Callable[..., Any]:
    """Return how to load stored code; an index that cannot be read any more is removed."""
    original = stored.load_overload

    def load_overload(*arguments: Any) -> Any:
        try:
            return original(*arguments)
        except _STALE:
            Path(stored._cache_file._index_path).unlink(missing_ok=True)
            return None

    return load_overload


def _named_by_content(file: Any) -> Callable[..., None]:
    """Return how to store compiled code, in a file whose name says for which types it is.

    numba numbers these files. If two processes compile for different types at once, both take the
    next number, and whoever comes later finds the code of one under the types of the other. With
    these names the worst is that code is missing from the index, and compiled once more.
    """

    def save(key: Any, data: Any) -> None:
        about = hashlib.sha256(repr((file._source_stamp, key)).encode()).hexdigest()[:16]
        name = f"{Path(file._index_name).stem}.{about}.nbc"
        file._save_data(name, data)
        file._save_index(file._load_index() | {key: name})

    return save


def _one_at_a_time(compile_it: Callable[..., Any], index: Path) -> Callable[..., Any]:
    """Return how to compile while no other process compiles the same function for the same types.

    The lock of this process comes first, so that only one of its threads waits for others; a
    function is locked before those that it calls, so that no two processes wait for each other.
    """

    def compile(*types: Any) -> Any:
        with global_compiler_lock, _locked(index, repr(types)), _no_collections():
            return compile_it(*types)

    return compile


@contextmanager
def _no_collections() -> Iterator[None]:
    """Within it, Python does not look for garbage.

    That takes up to a tenth of the time of compiling, which keeps most of the objects it makes.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _locked(index: Path, what: str) -> Iterator[None]:
    """Within it, no other process is within it for the same index and the same text.

    The system releases the lock of a process that dies. Where files cannot be locked, it does
    nothing: the worst is that code is compiled twice.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = int.from_bytes(hashlib.sha256(f"{index.name} {what}".encode()).digest()[:7])
    try:
        file = _lock_file(index.parent)
    except OSError:
        yield
        return
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            break
        except BlockingIOError:
            for ctrl_c in _watching:
                ctrl_c.check()
            time.sleep(_POLL)
        except OSError:  # a file system without locks
            yield
            return
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


@cache
def _lock_file(folder: Path) -> int:
    """Return the file of a folder's locks.

    It is never closed, because closing it would release all locks of this process.
    """
    return os.open(folder / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def store_of_compiled_code() -> Path | None:
    """Return the folder where the code of this package's kernels is stored; None if there is
    none.
    """
    from levywalk.engine.kernels.measure import distances2

    stored = getattr(distances2, "_cache", None)
    found = getattr(stored, "cache_path", None)
    return None if found is None else Path(found)


@cache
def _warn_once() -> None:
    warnings.warn(
        "compiled code cannot be stored, because neither the folder of levywalk nor your cache "
        "folder can be written to: every process compiles anew, which takes seconds. Set the "
        "environment variable NUMBA_CACHE_DIR to a folder that you can write to",
        CacheWarning,
        stacklevel=4,
    )


class _Teller(event.Listener):  # type: ignore[misc]
    def on_start(self, _: Any) -> None:
        global _told
        if not _told:
            _told = True
            sys.stderr.write("Compiling, once per machine: a few seconds.\n")
            sys.stderr.flush()

    def on_end(self, _: Any) -> None:
        pass


class _Stopper(event.Listener):  # type: ignore[misc]
    """Ends compiling after Ctrl-C, in whichever thread it is, before the compiler's next pass."""

    def __init__(self, ctrl_c: CtrlC) -> None:
        self._ctrl_c = ctrl_c

    def on_start(self, _: Any) -> None:
        self._ctrl_c.check()

    def on_end(self, _: Any) -> None:
        pass


@contextmanager
def watched(show: bool, ctrl_c: CtrlC) -> Iterator[None]:
    """Within it, say on stderr that code is being compiled, once in a process; Ctrl-C ends
    compiling.
    """
    with ExitStack() as listeners:
        listeners.enter_context(event.install_listener("numba:run_pass", _Stopper(ctrl_c)))
        if show and not _told:
            listeners.enter_context(event.install_listener("numba:compile", _Teller()))
        _watching.append(ctrl_c)
        listeners.callback(_watching.remove, ctrl_c)
        yield
