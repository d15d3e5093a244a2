"""The compiled loops that quick tests may use: each takes seconds to compile.

There is a loop for every combination of loss, ridge, samples, width and kind of update.
When one quick test is made cheaper, the next one that uses the same loop compiles it.
So `make test` has a list of loops, and a quick test that uses another one fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import pytest

KERNELS = "levywalk.engine.kernels"
# Where the engine looks for the functions that make a loop.
MAKERS = {
    "walkers": ("compiled_walkers",),
    "loop_backend": ("compiled_loop",),
    "gradient_tables": ("compiled_tables",),
    "sparse_rows": ("compiled_sparse_sgd", "compiled_sparse_lagged"),
    "private_rows": ("compiled_private",),
    "sparse_outputs": ("compiled_outputs_sgd", "compiled_outputs_lagged"),
}
ALONE, GROUP = "one walker", "a group of walkers"
# Least squares without ridge and one sample per node: a dim of at most 4 takes one line, and of at
# most 12 two. The walk alone has no model.
QUICK = {
    *(
        ("compiled_walkers", 1, width, lines, False, False, iid, 0)
        for width in (ALONE, GROUP)
        for lines in (1, 2)
        for iid in (False, True)
    ),
    ("compiled_walkers", 0, ALONE, 0, False, False, False, 0),
    ("compiled_walkers", 0, GROUP, 0, False, False, False, 0),
    ("compiled_loop", 0, 0, False, False),  # plain SGD on least squares, for what has no group
    ("compiled_loop", 0, 0, True, False),  # the same with a walk that has a compiled twin
    ("compiled_tables", 1, 1, ALONE, 1, False, False, False),  # one walker with SAGA
    ("compiled_sparse_sgd",),
    ("compiled_private", False),  # SGD with noise, for losses with one output
}


def kind_of(name: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what kind of loop is asked for, without what depends on the machine."""
    place = {"compiled_walkers": 1, "compiled_tables": 2}.get(name)
    if place is None:
        return (name, *given)
    width = ALONE if given[place] == 1 else GROUP
    return (name, *given[:place], width, *given[place + 2 :])  # without numbers per instruction


class LoopGuard:
    """Makes a quick test fail that uses a loop which is not in the list."""

    def __init__(self) -> None:
        self.watching = False
        self._installed = False

    def install(self) -> None:
        """Watch the functions that make loops, once the package is loaded."""
        if self._installed or "levywalk.engine" not in sys.modules:
            return
        self._installed = True
        for module, names in MAKERS.items():
            loaded = import_module(f"{KERNELS}.{module}")
            for name in names:
                setattr(loaded, name, self._watched(name, getattr(loaded, name)))

    def _watched(self, name: str, make: Any) -> Callable[..., Any]:
        @wraps(make)
        def watched(*given: Any) -> Any:
            kind = kind_of(name, given)
            if self.watching and kind not in QUICK:
                pytest.fail(
                    f"this quick test uses the compiled loop {kind}, which takes seconds to "
                    "compile; use a loop of tests/quick_loops.py, backend='reference' or the "
                    "fixture reference_only, or give the test the marker more",
                    pytrace=False,
                )
            return make(*given)

        watched.cache_clear = make.cache_clear  # type: ignore[attr-defined]
        watched.cache_info = make.cache_info  # type: ignore[attr-defined]
        return watched
