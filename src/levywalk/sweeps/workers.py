"""`Workers`: processes or a cluster that compute tasks, and store each result as soon as it is
finished.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from levywalk import checks
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.interruption import Listening
from levywalk.progress import Bar
from levywalk.sweeps.pools import (
    RESUME,
    ClusterLost,
    DaskCluster,
    InThisProcess,
    LocalProcesses,
    Pool,
)
from levywalk.sweeps.store import ResultStore, ResultStoreError
from levywalk.sweeps.task import Answer, Task, problem_with

_TICK = 0.1  # seconds between two checks for Ctrl-C


@dataclass(frozen=True)
class Failure:
    """One task that failed: its key, its name, its description and the reason."""

    key: str
    name: str
    description: dict[str, Any]
    why: str


class JobsFailed(LevywalkError):
    """Some tasks failed; the results of all others are stored. ``failures`` lists which failed and
    why.
    """

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures = tuple(failures)
        lines = "\n".join(f"  {failure.name}: {failure.why}" for failure in failures)
        super().__init__(
            f"{len(failures)} of {total} tasks failed; the results of the others are stored and "
            f"will not be computed again:\n{lines}"
        )


class Workers:
    """Compute tasks in processes on this machine, in this process, or on a Dask cluster.

    They are started when they are first needed and kept until the end of the ``with`` block, so
    only the first of several `run_all` pays the seconds that starting a process takes. A process
    that dies is replaced.

    Parameters
    ----------
    count
        Number of processes on this machine; default: one per core. 0 computes in this process.
    scheduler
        Address of a Dask scheduler, whose workers are used instead.

    Examples
    --------
    >>> from levywalk.sweeps.jobs import run_all, squares
    >>> with tempfile.TemporaryDirectory() as folder, Workers(0) as workers:
    ...     first = run_all([{"n": 2}], squares, ResultStore(folder), workers=workers)
    ...     second = run_all([{"n": 3}], squares, ResultStore(folder), workers=workers)
    ...     len(first + second)
    2
    """

    def __init__(self, count: int | None = None, scheduler: str | None = None) -> None:
        self.count = None if count is None else checks.integer("workers", count, low=0)
        self.scheduler = scheduler
        if count is not None and scheduler is not None:
            raise InvalidParameter(
                f"give workers (processes on this machine) or a scheduler, "
                f"got {count} and the scheduler {scheduler!r}"
            )
        self._pool: Pool | None = None
        self._most: int | None = (
            None  # how many processes can have something to do, if that is known
        )

    def compute(self, tasks: list[Task], store: ResultStore, bar: Bar) -> None:
        """Compute all tasks and store each result; raise an error at the end if some failed."""
        if self._pool is None:
            self._pool = self._opened()
        queue = _TaskQueue(tasks, store, self._pool, bar)
        finished = False
        try:
            # A press must not end the pool's own code halfway; a task in this process ends itself.
            listens = self._pool.listens
            with Listening() as ctrl_c, ctrl_c.held() if listens else nullcontext():
                while queue.left():
                    ctrl_c.check()
                    queue.start()
                    queue.collect()
            finished = True
        finally:
            if not finished:  # nobody waits for the running tasks any more
                self.close(now=True)
        if queue.failures:
            raise JobsFailed(queue.failures, len(tasks))

    def _opened(self) -> Pool:
        if self.scheduler is not None:
            return DaskCluster(self.scheduler)
        if self.count == 0:
            return InThisProcess()
        from joblib import cpu_count

        count = cpu_count() if self.count is None else self.count
        return LocalProcesses(count if self._most is None else min(count, self._most))

    def close(self, now: bool = False) -> None:
        """Stop the workers; the next call would start new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(now=error is not None)


def workers_for(
    workers: int | Workers | None, scheduler: str | None, tasks: int
) -> AbstractContextManager[Workers]:
    """Return the workers to use: the given ones, which stay open, or new ones for this call
    alone.
    """
    if isinstance(workers, Workers):
        if scheduler is not None:
            raise InvalidParameter(
                f"give the scheduler to Workers, not beside it, got Workers and {scheduler!r}"
            )
        return nullcontext(workers)
    own = Workers(workers, scheduler)
    own._most = tasks
    return own


class _TaskQueue:
    """Tasks that wait, run, or may have killed a worker; and results that wait for space on the
    disk.
    """

    def __init__(self, tasks: list[Task], store: ResultStore, pool: Pool, bar: Bar) -> None:
        self.store, self.pool, self.bar = store, pool, bar
        self.waiting = deque(tasks)
        self.running: dict[Future[Answer], Task] = {}
        self.suspects: deque[Task] = deque()  # were running when a worker died
        self.alone: Task | None = None
        self.kills: Counter[str] = Counter()
        self.broken = False
        self.unsaved: deque[tuple[str, bytes]] = deque()
        self.failures: list[Failure] = []

    def left(self) -> bool:
        """Return whether anything is left to do; a broken pool still has to be replaced."""
        return bool(self.waiting or self.running or self.suspects or self.unsaved or self.broken)

    def start(self) -> None:
        """Submit tasks to the pool.

        A task that was running when a worker died is repeated at the end, alone: if a worker dies
        again, that task is the cause.
        """
        if self.broken and not self.running:
            self.pool.renew()
            self.broken = False
        while not (self.broken or self.unsaved) and len(self.running) < self.pool.ahead:
            if self.waiting:
                self.alone, task = None, self.waiting.popleft()
            elif self.suspects and not self.running:
                self.alone = task = self.suspects.popleft()
            else:
                return
            try:
                self.running[self.pool.submit(task)] = task
            except BrokenExecutor:  # a worker died since the last check
                self._killed(task)

    def collect(self) -> None:
        """Wait a moment for results and keep them."""
        if self.running:
            done, _ = wait(self.running, timeout=_TICK, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(self.running.pop(future), future)
            if not done:
                self.pool.check()
        self._write(last=not self.running)
        self.bar.advance(0)  # shows the bar before the first result is there

    def _take(self, task: Task, future: Future[Answer]) -> None:
        try:
            answer = future.result()
        except self.pool.killed:
            self._killed(task)
            return
        except CancelledError:
            raise ClusterLost(
                f"the scheduler dropped {task.name}: it was stopped, or another client cancelled "
                f"the work; {RESUME}"
            ) from None
        except Exception as error:  # the function or its result could not be transferred
            answer = f"{type(error).__name__}: {error}"
        why = answer if isinstance(answer, str) else problem_with(answer, task)
        if why is not None:
            self._fail(task, why)
        elif isinstance(answer, bytes):
            self.unsaved.append((task.key, answer))

    def _killed(self, task: Task) -> None:
        self.broken = True
        if task is self.alone:
            self.kills[task.key] += 1
        if self.kills[task.key] >= self.pool.kills:
            self._fail(
                task,
                "its worker was killed repeatedly, also when no other task was running "
                "(perhaps it needs more memory than there is)",
            )
        else:
            self.suspects.append(task)

    def _fail(self, task: Task, why: str) -> None:
        self.failures.append(Failure(task.key, task.name, task.content["description"], why))
        self.bar.advance(1)

    def _write(self, last: bool) -> None:
        """Write finished results; if there is no space, keep them and try again while tasks are
        running.
        """
        while self.unsaved:
            try:
                with Listening() as ctrl_c, ctrl_c.held():
                    self.store.put(*self.unsaved[0])
            except ResultStoreError as error:
                if not last:
                    return
                raise ResultStoreError(f"{error}; {self._rescue()}") from None
            self.unsaved.popleft()
            self.bar.advance(1)

    def _rescue(self) -> str:
        """Write the results that the store has no space for into another folder, and return
        which.
        """
        elsewhere = ResultStore(tempfile.mkdtemp(prefix="levywalk-"))
        try:
            for key, content in self.unsaved:
                elsewhere.put(key, content)
        except ResultStoreError:
            return (
                f"{len(self.unsaved)} finished results are lost, because there was no space "
                "elsewhere either"
            )
        return (
            f"{len(self.unsaved)} finished results are in {elsewhere.folder}: "
            "move these files into the store as well"
        )
