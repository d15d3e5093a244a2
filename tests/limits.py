"""Limits that all tests share: how long to wait, and how many examples to draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
# Seconds after which a test gives up what must happen: it hangs, however slow the machine is.
PATIENCE = 600.0


def quick() -> bool:
    """Return whether this is `make test`, and neither `make test-more` nor `make test-soak`."""
    return settings.get_current_profile_name() == "levywalk"


def soak() -> bool:
    """Return whether this is `make test-soak`."""
    return settings.get_current_profile_name() == "soak"


def examples(count: int, *, derandomize: bool = False) -> settings:
    """Return settings for a property that needs another number of examples than the usual 100.

    ``count`` is the number in `make test-soak`.
    `make test` and `make test-more` draw the same share of it as of the usual number.
    """
    share = settings.default.max_examples / 100
    chosen = settings(max_examples=max(5, round(share * count)), deadline=None)
    return settings(chosen, derandomize=True) if derandomize else chosen


def mostly_more(
    values: Iterable[T],
    quick: Callable[[T], bool],
    soak: Callable[[T], bool] = lambda value: False,
) -> list[Any]:
    """Return values to parametrise a test with.

    `make test` runs the quick ones, `make test-soak` those that are for it, and `make test-more`
    the others.
    """
    found = list(values)
    assert any(map(quick, found)), "none is quick"
    marks = [
        () if quick(value) else pytest.mark.soak if soak(value) else pytest.mark.more
        for value in found
    ]
    return [pytest.param(value, marks=mark) for value, mark in zip(found, marks, strict=True)]


def mostly_soak(values: Iterable[T], more: Callable[[T], bool]) -> list[Any]:
    """Return values to parametrise a test of the marker `more` with.

    `make test-more` runs those that are chosen, and `make test-soak` the others.
    """
    found = list(values)
    assert any(map(more, found)), "none is left to `make test-more`"
    return [
        value if more(value) else pytest.param(value, marks=pytest.mark.soak) for value in found
    ]


def eventually(look: Callable[[], T]) -> T:
    """Wait until ``look`` returns something true, and return that.

    Many looks ask processes, which costs them time: after the first ones the pauses are longer.
    """
    end, pause = time.monotonic() + PATIENCE, 0.01
    while not (seen := look()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(pause)
        pause = min(0.2, 1.3 * pause)
    return seen
