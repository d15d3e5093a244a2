"""Measure how fast the disk is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median


def fsync_seconds(folder: str | Path, times: int = 50) -> float:
    """Return the median time that the disk takes to store one page (fsync).

    No hand-off is faster than this.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     0 < fsync_seconds(folder, times=3) < 10
    True
    """
    path = Path(folder) / f"fsync-{os.getpid()}.partial"
    taken = []
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(times):
                file.write(bytes(4096))
                began = time.perf_counter()
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - began)
    finally:
        path.unlink(missing_ok=True)
    return median(taken)
