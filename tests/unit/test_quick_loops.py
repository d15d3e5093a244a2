"""Quick tests use few compiled loops: what the suite does to keep it so."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import levywalk as lw
from tests.quick_loops import GROUP, QUICK, LoopGuard, kind_of

SQUARES, LOGISTIC = (0, 0, False, False), (1, 0, False, False)


@cache
def made(*given: Any) -> tuple[Any, ...]:
    return given


def test_a_loop_that_is_not_in_the_list_fails_a_quick_test_with_its_remedy() -> None:
    guard = LoopGuard()
    make = guard._watched("compiled_loop", made)
    assert make(*LOGISTIC) == LOGISTIC  # a long test
    guard.watching = True
    assert make(*SQUARES) == SQUARES
    with pytest.raises(pytest.fail.Exception, match=r"compiled_loop.*reference_only.*marker more"):
        make(*LOGISTIC)


def test_what_depends_on_the_machine_makes_no_difference() -> None:
    kinds = {
        kind_of("compiled_walkers", (1, group, group, 2, False, False, False, 0))
        for group in (2, 4, 8)
    }
    assert kinds == {("compiled_walkers", 1, GROUP, 2, False, False, False, 0)}
    assert kinds < QUICK
    tables = kind_of("compiled_tables", (1, 1, 8, 8, 1, False, False, False))
    assert tables == ("compiled_tables", 1, 1, GROUP, 1, False, False, False)
    assert tables not in QUICK


@pytest.mark.usefixtures("reference_only")
def test_a_test_may_ask_for_the_reference_backend_alone() -> None:
    problem = lw.Logistic([[1.0], [2.0], [-1.0]], [0, 1, 0], ridge=0.1)
    trace = lw.run(lw.ring(3), problem, lw.mhlj(), steps=3, step_size=0.1)
    assert trace.provenance["backend"] == "reference"


def test_the_suite_watches_its_own_quick_tests() -> None:
    problem = lw.Logistic([[1.0], [2.0], [-1.0]], [0, 1, 0], ridge=0.1)
    with pytest.raises(pytest.fail.Exception, match="this quick test uses the compiled loop"):
        lw.run(lw.ring(3), problem, lw.mhlj(), steps=3, step_size=0.1, backend="kernel")
