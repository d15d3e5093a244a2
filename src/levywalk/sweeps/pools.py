"""Where tasks are carried out: in this process, in processes on this machine, or on a Dask
cluster.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from typing import Protocol
from weakref import WeakSet

from levywalk.errors import LevywalkError
from levywalk.extras import needs
from levywalk.sweeps.store import canonical
from levywalk.sweeps.task import Answer, Task, carry_out

_CONNECT = 10.0  # seconds that a scheduler has to answer
_PATIENCE = 60.0  # seconds that a cluster may be without workers
RESUME = "make the same call again to resume"


class ClusterError(LevywalkError, ConnectionError):
    """A Dask cluster that cannot be reached, or was lost."""


class ClusterLost(ClusterError):
    """A Dask cluster that was reached and then stopped, lost its workers or dropped the work."""


class Pool(Protocol):
    """What carries out tasks.

    Attributes
    ----------
    ahead
        How many tasks to submit before the first result is back.
    killed
        The exceptions that a future raises when its worker died.
    kills
        How often a task may kill its worker while it runs alone, before it is given up.
    listens
        Whether Ctrl-C is caught by the caller of the pool, and not by the task itself.
    """

    ahead: int
    killed: tuple[type[BaseException], ...]
    kills: int
    listens: bool

    def submit(self, task: Task) -> Future[Answer]:
        """Start a task."""

    def renew(self) -> None:
        """Replace the workers after one of them died."""

    def check(self) -> None:
        """Raise an error if no worker is left."""

    def close(self, now: bool) -> None:
        """Stop the workers; ``now`` also stops the tasks that are running."""


class InThisProcess:
    """Carries out one task after the other, in this process."""

    ahead = 1
    killed: tuple[type[BaseException], ...] = ()
    kills = 1
    listens = False

    def submit(self, task: Task) -> Future[Answer]:
        """Carry out the task and return its finished future."""
        future: Future[Answer] = Future()
        future.set_result(carry_out(canonical(task.content), task.given, here=True))
        return future

    def renew(self) -> None:
        """Do nothing: this process cannot be replaced."""

    def check(self) -> None:
        """Do nothing: this process is always there."""

    def close(self, now: bool) -> None:
        """Do nothing: there is nothing to stop."""


_local: WeakSet[LocalProcesses] = WeakSet()  # all that are open


def kill_workers() -> None:
    """Kill all worker processes of this process at once, without waiting for anything."""
    for pool in list(_local):
        pool.kill()


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Make the processes that start in this block ignore Ctrl-C, even while they load Python.

    They inherit which signals the thread that starts them does not take. Other threads of this
    process still take the signal, so no press is lost.
    """
    from multiprocessing import resource_tracker as tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    for one in (tracker, loky_tracker):
        one.ensure_running()  # when it starts, it lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker() -> None:
    """Make a worker process ignore Ctrl-C, which a terminal sends to all processes, and end with
    its parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class LocalProcesses:
    """Processes on this machine, started by joblib's loky; when one dies, all are replaced."""

    killed: tuple[type[BaseException], ...] = (BrokenExecutor,)
    kills = 2
    listens = True

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.ahead = 2 * workers
        self._open()
        _local.add(self)

    def _open(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self._executor = ProcessPoolExecutor(self.workers, initializer=_start_worker)

    def submit(self, task: Task) -> Future[Answer]:
        """Start a task in one of the processes."""
        with _deaf_children():
            future: Future[Answer] = self._executor.submit(
                carry_out, canonical(task.content), task.given
            )
        return future

    def renew(self) -> None:
        """Replace all processes."""
        self.close(now=True)
        self._open()

    def check(self) -> None:
        """Do nothing: a process that dies breaks its future."""

    def close(self, now: bool) -> None:
        """Stop the processes."""
        self._executor.shutdown(wait=True, kill_workers=now)

    def kill(self) -> None:
        """Kill the processes; nothing else is stopped in an orderly way."""
        for number in list(self._executor._processes or {}):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


class DaskCluster:
    """The workers of a Dask scheduler, which repeats a task by itself a few times when a worker
    dies.
    """

    kills = 1
    listens = True

    def __init__(self, address: str) -> None:
        with needs("cluster", f"the Dask scheduler {address!r}"):
            distributed = importlib.import_module("distributed")
        self.address = address
        self.killed: tuple[type[BaseException], ...] = (distributed.KilledWorker,)
        self.ahead = 1 << 30  # the scheduler distributes all tasks by itself
        try:
            # Dask's client prints errors when it is deleted after a malformed address: check it
            # first.
            importlib.import_module("distributed.comm").get_address_host_port(address)
            self._client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address!r} ({error}); start one with "
                "`dask scheduler`, and workers with `dask worker ADDRESS`"
            ) from None
        self._executor = self._client.get_executor(pure=False)
        self._workers_seen = self._asked = time.monotonic()

    def submit(self, task: Task) -> Future[Answer]:
        """Start a task on the cluster."""
        self._workers_seen = time.monotonic()  # the time without workers counts from here
        future: Future[Answer] = self._executor.submit(
            carry_out, canonical(task.content), task.given
        )
        return future

    def renew(self) -> None:
        """Do nothing: the scheduler replaces its workers."""

    def check(self) -> None:
        """Raise an error if the scheduler is gone, or has had no workers for a minute."""
        now = time.monotonic()
        if now - self._asked < min(1.0, _PATIENCE):
            return
        self._asked = now
        try:
            alive = bool(self._client.nthreads())
        except Exception as error:  # any layer of the connection can break
            raise ClusterLost(
                f"the connection to the Dask scheduler at {self.address!r} was lost "
                f"({type(error).__name__}: {error}); when it is back, {RESUME}"
            ) from None
        self._workers_seen = now if alive else self._workers_seen
        if now - self._workers_seen > _PATIENCE:
            raise ClusterLost(
                f"the Dask scheduler at {self.address!r} has had no workers for {_PATIENCE:g} s; "
                f"start some with `dask worker {self.address}`, then {RESUME}"
            )

    def close(self, now: bool) -> None:
        """Cancel what is running and disconnect."""
        self._executor.shutdown(wait=False)
        self._client.close()
