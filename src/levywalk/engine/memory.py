"""Refuse arrays that are too large, before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from levywalk.errors import TooLarge

# The largest size of one recorded array on any machine, because it must also be saved, loaded and
# plotted.
LARGEST_ARRAY = 4 * 2**30


def available_bytes() -> int:
    """Return the number of bytes that are available for a new array.

    Examples
    --------
    >>> available_bytes() > 0
    True
    """
    table = Path("/proc/meminfo")
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def require_room(name: str, shape: tuple[int, ...], itemsize: int, remedy: str) -> None:
    """Refuse an array that exceeds `LARGEST_ARRAY` or half of the available memory.

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
    limit = min(LARGEST_ARRAY, available_bytes() // 2)
    if size > limit:
        text = " x ".join(map(str, shape))
        raise TooLarge(
            f"{name} of shape {text} would take {size / 2**30:.1f} GiB, more than the limit of "
            f"{limit / 2**30:.1f} GiB; {remedy}"
        )
