"""Settings of all tests: no example has a time limit, and CI draws the same examples every time.

`make test-soak` (``--hypothesis-profile=soak``) draws 100 examples of each property,
`make test-more` (``--hypothesis-profile=more``) half of them, and `make test` a fifth.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem, DoctestModule

# Tests run in two processes beside each other: linear algebra with two threads in each would only
# wait for the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

for name, examples in {"levywalk": 20, "more": 50, "soak": 100}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )
settings.load_profile("levywalk")

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
                 "experiments/advice.py", "judge/tune.py", "league/recommend.py", "league/trial.py",
                 "levywalk/sklearn.py", "problem/linear.py", "updates/averaged.py",
                 "updates/finito.py", "updates/point_saga.py", "updates/sag.py",
                 "updates/walkman.py", "walks/hdt.py", "walks/srrw.py",
                 "figures/column.py")  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long examples to `make test-more`."""
    for item in items:
        if isinstance(item, DoctestItem) and item.path.as_posix().endswith(LONG_EXAMPLES):
            item.add_marker(pytest.mark.more)


gc.disable()  # what is made while tests are collected lives as long as the process


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was made until now."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close what `lw.plot` has opened: pyplot warns of more than twenty figures."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
