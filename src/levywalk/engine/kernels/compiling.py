"""Compiled code is stored where that is possible, and people are told why they wait for it.

numba stores compiled code beside the package, or in a cache folder of the user's. Where it can
write to neither, it refuses to compile at all; here the code is then compiled in each process.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event as numba_event

from levywalk.errors import CacheWarning

event: Any = numba_event
# numba could not read its own index: a type in it was renamed or moved since.
_STALE = (AttributeError, ImportError, EOFError, ValueError, KeyError, TypeError)
_told = False


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function with numba when it is first called; store the code if that is possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            found = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
            _warn_once()
            return njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
        found._cache.load_overload = _forgiving(found._cache)
        return found  # type: ignore[no-any-return]

    return decorate


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


@contextmanager
def telling(show: bool) -> Iterator[None]:
    """Within it, say on stderr that code is being compiled, once in a process."""
    if not show or _told:
        yield
        return
    with event.install_listener("numba:compile", _Teller()):
        yield
