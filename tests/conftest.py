"""Settings of all tests: no example has a time limit, and CI draws the same examples every time.

`make test-soak` (``--hypothesis-profile=soak``) draws 100 examples of each property,
`make test-more` (``--hypothesis-profile=more``) half of them, and `make test` a fifth.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem, DoctestModule

# Tests run in two processes beside each other: linear algebra with two threads in each would only
# wait for the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

from tests.limits import quick
from tests.quick_loops import LoopGuard

for name, examples in {"levywalk": 20, "more": 50, "soak": 100}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )
settings.load_profile("levywalk")

_GUARD = LoopGuard()
_WORKERS = "PYTEST_XDIST_WORKER_COUNT"
# It has no tests, and importing it takes a second in each process that looks for some.
collect_ignore = ["preloaded.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Iterator[list[pytest.Collector]]:
    """Look for doctests in `src` and `docs`, and not in each of the tests' own files."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


# Pages and modules whose examples compile loops that no quick test needs: seconds each.
LONG_EXAMPLES = ("docs/metrics.md", "docs/problems.md", "docs/running.md", "docs/sklearn.md",
                 "experiments/advice.py", "judge/tune.py", "league/recommend.py",
                 "league/recommendation.py", "league/trial.py", "levywalk/sklearn.py",
"problem/linear.py", "updates/averaged.py",
                 "updates/finito.py", "updates/newton_token.py", "updates/point_saga.py",
                 "updates/sag.py", "updates/walkman.py", "walks/hdt.py", "walks/srrw.py",
                 "figures/column.py")  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long examples to `make test-more`."""
    for item in items:
        if isinstance(item, DoctestItem) and item.path.as_posix().endswith(LONG_EXAMPLES):
            item.add_marker(pytest.mark.more)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each test process compile its share of the test files before all are collected.

    In a fresh clone no bytecode is stored yet, and all of them would compile the same files at the
    same time, which takes ten seconds each.
    """
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get(_WORKERS)
    if worker is None or count is None:
        return
    root = session.config.rootpath
    asked = [root / argument.partition("::")[0] for argument in session.config.args]
    files = [
        file
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))
        if any(file.is_relative_to(one) for one in asked)
    ]
    for file in files[int(worker.removeprefix("gw")) :: int(count)]:
        try:
            import_module(".".join(file.relative_to(root).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):  # pytest will find and report it
            continue


gc.disable()  # what is made while tests are collected lives as long as the process


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was made until now."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a quick test fail that uses a loop which is not one of `tests/quick_loops.py`.

    Those of `make frameworks` may use any: `make test` skips them.
    """
    long = any(item.get_closest_marker(name) for name in ("more", "soak"))
    long = long or "frameworks" in item.path.parts
    _GUARD.install()
    _GUARD.watching = quick() and not long
    try:
        return (yield)
    finally:
        _GUARD.watching = False


@pytest.fixture
def reference_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything in the reference backend, also what chooses its backend itself."""
    monkeypatch.setattr("levywalk.engine.prepare.choose_backend", lambda *_: "reference")


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close what `lw.plot` has opened: pyplot warns of more than twenty figures."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
