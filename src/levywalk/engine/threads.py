"""Parallel threads of a run: how far they may go, what each has to do, and their progress."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from levywalk.arrays import Ints
from levywalk.interruption import CtrlC
from levywalk.progress import Bar

_LOOK = 0.1  # seconds between two updates of the progress bar


class StepLimit:
    """The step up to which all threads may walk.

    This is the last step of the run; after Ctrl-C or a deadline, it is the furthest step that a
    thread has been allowed to reach.

    Therefore all replicas end at the same step, and no thread has to wait for another before that.
    Even after a deadline every thread does at least one piece.
    """

    def __init__(self, begin: int, steps: int, piece: int, ctrl_c: CtrlC, deadline: float) -> None:
        self.limit = steps
        self.furthest = self._begin = begin
        self._piece, self.ctrl_c, self._deadline = piece, ctrl_c, deadline
        self._lock = threading.Lock()
        self._settled = False

    def until(self, t: int, goal: int) -> int:
        """Return the step at which the piece that begins at t ends."""
        with self._lock:
            if not self._settled and (self.ctrl_c.requested or self._late()):
                self.limit, self._settled = self.furthest, True
            stop = min(t + self._piece, goal, self.limit)
            self.furthest = max(self.furthest, stop)
            return stop

    def _late(self) -> bool:
        return self.furthest > self._begin and time.monotonic() >= self._deadline


class Share(ABC):
    """One thread's replicas, which walk through marks such as checkpoints or ends of batches."""

    done = 0  # steps

    def through(self, report: Callable[[int], None], *, marks: Ints, step_limit: StepLimit) -> None:
        """Walk through the remaining marks, or to an earlier step if ``step_limit`` limits it."""
        while self.done < marks[-1]:
            column = int(np.searchsorted(marks, self.done, side="right"))  # of the next mark
            goals = self.goals(marks, column)
            stop = step_limit.until(self.done, min(int(goals[-1]), self.done + self.most_steps()))
            if stop == self.done:
                return
            # If a piece ends between two marks, its result is written to the column of the next
            # mark, until that mark is reached.
            self.advance(np.append(goals[goals < stop], stop), column)
            self.done, steps = stop, stop - self.done
            report(steps)

    def goals(self, marks: Ints, column: int) -> Ints:
        """Return the marks that the next piece may reach."""
        return marks[column:]

    def most_steps(self) -> int:
        """Return how many steps the next piece may have at most."""
        return 1 << 62

    @abstractmethod
    def advance(self, marks: Ints, column: int) -> None:
        """Advance the replicas from ``done`` to the last mark; ``column`` belongs to the first
        mark.
        """


def equal_shares(replicas: int, threads: int) -> list[slice]:
    """Return each thread's replicas.

    Examples
    --------
    >>> equal_shares(5, 2), equal_shares(1, 2)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = np.array_split(np.arange(replicas), min(threads, replicas))
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


def side_by_side(shares: Sequence[Share], marks: Ints, step_limit: StepLimit, bar: Bar) -> int:
    """Advance all shares through the marks and return the step that they reached.

    If there are several shares, each has its own thread.

    The calling thread shows their progress and receives Ctrl-C.
    """
    with _while_compiling(bar.show, step_limit.ctrl_c):
        return _side_by_side(shares, marks, step_limit, bar)


def _while_compiling(show: bool, ctrl_c: CtrlC) -> AbstractContextManager[None]:
    """Return a context that says when compiling takes time, and in which Ctrl-C ends compiling.

    Without kernels there is nothing to compile.
    """
    compiling = sys.modules.get("levywalk.engine.kernels.compiling")
    return compiling.watched(show, ctrl_c) if compiling else nullcontext()


def _side_by_side(shares: Sequence[Share], marks: Ints, step_limit: StepLimit, bar: Bar) -> int:
    if len(shares) == 1:
        shares[0].through(bar.advance, marks=marks, step_limit=step_limit)
        return step_limit.limit
    with ThreadPoolExecutor(len(shares)) as pool:
        shown = sum(share.done for share in shares)
        pending = {
            pool.submit(share.through, lambda steps: None, marks=marks, step_limit=step_limit)
            for share in shares
        }
        while pending:
            finished, pending = wait(pending, timeout=_LOOK)
            done = sum(share.done for share in shares)
            bar.advance(done - shown)
            shown = done
            for future in finished:
                future.result()
    return step_limit.limit
