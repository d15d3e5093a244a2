"""Threads that walk side by side: how far they may go, what each has to do, and how far they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import numpy as np

from levywalk.engine.interrupt import Interruptible
from levywalk.progress import Bar

_LOOK = 0.1  # seconds between two looks at the progress bar


class Pace:
    """How far the walks may go: to the end, or after Ctrl-C or a deadline to the furthest step that one of them began.

    So all replicas end at the same step, and no thread waits for another before that. A deadline lets every walk do
    one piece at least.
    """

    def __init__(self, begin: int, steps: int, piece: int, interrupt: Interruptible, deadline: float) -> None:
        self.limit = steps
        self.furthest = self._begin = begin
        self._piece, self._interrupt, self._deadline = piece, interrupt, deadline
        self._lock = threading.Lock()
        self._settled = False

    def until(self, t: int, goal: int) -> int:
        """Return where the piece that begins at t ends."""
        with self._lock:
            if not self._settled and (self._interrupt.requested or self._late()):
                self.limit, self._settled = self.furthest, True
            stop = min(t + self._piece, goal, self.limit)
            self.furthest = max(self.furthest, stop)
            return stop

    def _late(self) -> bool:
        return self.furthest > self._begin and time.monotonic() >= self._deadline


class Going(Protocol):
    """Something on its way: the steps that it has done."""

    done: int


Share = TypeVar("Share", bound=Going)


def equal_shares(replicas: int, threads: int) -> list[slice]:
    """Return each thread's replicas.

    Examples
    --------
    >>> equal_shares(5, 2), equal_shares(1, 2)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = np.array_split(np.arange(replicas), min(threads, replicas))
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


def side_by_side(shares: Sequence[Share], go: Callable[[Share, Callable[[int], None]], None], bar: Bar) -> None:
    """Let each share have a thread, if there are several; this one shows their progress and takes Ctrl-C.

    ``go(share, report)`` takes a share through all it has to do and reports the steps done on the way.
    """
    if len(shares) == 1:
        go(shares[0], bar.advance)
        return
    with ThreadPoolExecutor(len(shares)) as pool:
        shown = sum(share.done for share in shares)
        pending = {pool.submit(go, share, lambda steps: None) for share in shares}
        while pending:
            finished, pending = wait(pending, timeout=_LOOK)
            done = sum(share.done for share in shares)
            bar.advance(done - shown)
            shown = done
            for future in finished:
                future.result()
