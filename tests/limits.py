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
    """Return whether this is `make test`, and not `make test-more`."""
    return settings.default is not None and settings.default.max_examples < 100


def examples(count: int, *, derandomize: bool = False) -> settings:
    """Return settings for a property that needs another number of examples than the usual 100.

    ``count`` is the number in `make test-more`.
    `make test` draws the same share of it as of the usual number.
    """
    share = settings.default.max_examples / 100
    chosen = settings(max_examples=max(5, round(share * count)), deadline=None)
    return settings(chosen, derandomize=True) if derandomize else chosen


def mostly_more(values: Iterable[T], quick: Callable[[T], bool]) -> list[Any]:
    """Return values to parametrise a test with.

    `make test` runs the quick ones, and `make test-more` the others.
    """
    found = list(values)
    assert any(map(quick, found)), "none is quick"
    return [
        value if quick(value) else pytest.param(value, marks=pytest.mark.more) for value in found
    ]


def eventually(look: Callable[[], T]) -> T:
    """Wait until ``look`` returns something true, and return that."""
    end = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)
    return seen
