"""Refuse what would not fit into memory, before anything is allocated.

The sizes that a file or an argument declares are compared with a budget: half of the memory that is
available, or less where somebody else's settings are tried (`at_most`).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import TooLarge

# The largest size of one recorded array on any machine, because it must also be saved, loaded and
# plotted.
LARGEST_ARRAY = 4 * 2**30
_TEXT_COPIES = 4  # an array of text, and what sorting it takes
_GROUP = Path("/sys/fs/cgroup")
_lowered: ContextVar[int | None] = ContextVar("lowered", default=None)


def available_bytes() -> int:
    """Return the number of bytes that are available for a new array.

    Limits of the machine, of the process group (cgroup) and of the process (``ulimit -v``) count.

    Examples
    --------
    >>> available_bytes() > 0
    True
    """
    return max(0, min(_of_machine(), _of_group(), _of_process()))


def budget() -> int:
    """Return how many bytes one network, data set or file may take: half of what is available.

    Examples
    --------
    >>> with at_most(1000):
    ...     budget()
    1000
    """
    half = available_bytes() // 2
    lowered = _lowered.get()
    return half if lowered is None else min(half, lowered)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Lower the budget for a while, for settings that somebody else wrote."""
    before = _lowered.set(size)
    try:
        yield
    finally:
        _lowered.reset(before)


def require_bytes(what: str, size: int, remedy: str) -> None:
    """Refuse something that needs more bytes than the budget.

    Examples
    --------
    >>> require_bytes("the network", 10**18, "take a smaller one")
    Traceback (most recent call last):
    levywalk.errors.TooLarge: the network would take 931322574.6 GiB of memory, more than the limit
        of ... GiB; take a smaller one
    """
    limit = budget()
    if size > limit:
        raise TooLarge(
            f"{what} would take {size / 2**30:.1f} GiB of memory, more than the limit of "
            f"{limit / 2**30:.1f} GiB; {remedy}"
        )


def require_room(name: str, shape: tuple[int, ...], itemsize: int, remedy: str) -> None:
    """Refuse an array that exceeds `LARGEST_ARRAY` or the budget.

    Examples
    --------
    >>> require_room("visits", (64, 10_000_000), 8, "use record_visits=False")
    Traceback (most recent call last):
    levywalk.errors.TooLarge: visits of shape 64 x 10000000
        would take 4.8 GiB, more than the limit of ... GiB; use ...
    """
    size = itemsize
    for length in shape:
        size *= length
    limit = min(LARGEST_ARRAY, budget())
    if size > limit:
        text = " x ".join(map(str, shape))
        raise TooLarge(
            f"{name} of shape {text} would take {size / 2**30:.1f} GiB, more than the limit of "
            f"{limit / 2**30:.1f} GiB; {remedy}"
        )


def text_array(what: str, values: Sequence[str]) -> AnyArray:
    """Return text as an array; numpy gives every entry the room of the longest, so that one long
    entry among many short ones may be refused.

    Examples
    --------
    >>> text_array("names", ["ann", "bo"])
    array(['ann', 'bo'], dtype='<U3')
    >>> with at_most(10**6):
    ...     text_array("names", ["a" * 1000] + ["b"] * 1000)
    Traceback (most recent call last):
    levywalk.errors.TooLarge: names (1001 entries, of which the longest has 1000 characters) would
        take 0.0 GiB of memory, more than the limit of 0.0 GiB; shorten the longest
    """
    longest = max(map(len, values), default=0)
    require_bytes(
        f"{what} ({len(values)} entries, of which the longest has {longest} characters)",
        _TEXT_COPIES * 4 * longest * len(values),
        "shorten the longest",
    )
    return np.array(values, dtype=np.str_)


def _of_machine() -> int:
    table = Path("/proc/meminfo")
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_group() -> int:
    """Return what the container may still use; files in the cache are dropped when needed."""
    try:
        most = int((_GROUP / "memory.max").read_text())
        used = int((_GROUP / "memory.current").read_text())
        table = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 2**62
    return most - used + int(table.get("inactive_file", 0))


def _of_process() -> int:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return 2**62
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return most
    return most - pages * os.sysconf("SC_PAGE_SIZE")
