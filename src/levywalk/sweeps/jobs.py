"""`run_all`: many pieces of work, each done once, on all cores or on a Dask cluster, whatever happens on the way.

A piece of work is a plain description and the name of a function that turns it into arrays and numbers. Workers get
both as text and answer with the bytes of the result's file; this process alone writes them. So a result does not depend
on where it was computed, and a worker needs nothing of this machine.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from levywalk import checks
from levywalk.engine.interrupt import Interruptible
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.progress import Bar
from levywalk.sweeps.store import Store, StoreError, canonical, key_of, pack, plain, unpack
from levywalk.version import source_digest

Answer = bytes | str  # the bytes of the result's file, or why there is none

_TICK = 0.1  # seconds between two looks at Ctrl-C
_CONNECT = 10.0  # seconds for a scheduler to answer …
_PATIENCE = 60.0  # … and for a cluster without workers to get one

# The sources that decide numbers, besides the module of the work itself.
_DECIDE = (
    *("draws.py", "schedule.py", "network", "problem", "walks", "updates", "trace", "theory", "engine"),
    *("experiments/spec.py", "experiments/compare.py", "experiments/execute.py"),
)


class JobsFailed(LevywalkError):
    """Some pieces of work failed; all others are stored. ``failures`` says which and why."""

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures = tuple(failures)
        lines = "\n".join(f"  {failure.name}: {failure.why}" for failure in failures)
        super().__init__(
            f"{len(failures)} of {total} pieces of work failed; the others are stored and will not be computed again:\n"
            f"{lines}"
        )


class ClusterError(LevywalkError, ConnectionError):
    """A Dask cluster that cannot be reached, or was lost."""


class ClusterLost(ClusterError):
    """A Dask cluster that was reached, and then stopped, lost its workers or dropped the work."""


@dataclass(frozen=True)
class Failure:
    """One piece of work that failed: its key, what it was, and why."""

    key: str
    name: str
    description: dict[str, Any]
    why: str


@dataclass(frozen=True)
class _Task:
    key: str
    name: str
    work: str
    content: dict[str, Any]  # what the store hashes: the description, the work's name and the state of its source
    given: str


def run_all(
    descriptions: Sequence[Mapping[str, Any]],
    work: str | Callable[..., Any],
    store: Store,
    *,
    workers: int | Workers | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    names: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[str]:
    """Compute what the store lacks, and return the key of every description's result.

    Parameters
    ----------
    descriptions
        Plain dicts: all that decides a result.
    work
        A module-level function or its name, "package.module:function". ``work(description, **given)`` returns a dict of
        arrays and a dict of plain numbers. Its name is part of what is hashed, and so are the sources of its module and
        of levywalk: results of an earlier state of the code are not taken for this one's.
    store
        Where the results go, each as soon as it is finished.
    workers
        Processes on this machine; by default one per core, and 0 for this one. Results are the same to the bit.
        `Workers` that are open serve several calls.
    scheduler
        The address of a Dask scheduler, such as "tcp://10.0.0.1:8786": its workers are used instead.
    progress
        Whether to show a bar with the time left; by default where stderr is a terminal.
    names
        What errors call the descriptions; by default their JSON.
    given
        More plain arguments of ``work``, which change no result (a folder to read from).

    Raises
    ------
    JobsFailed
        At the end, if some work failed, or killed its worker again when it was alone; it names each.
    StoreError
        If results cannot be written. No new work is begun then; that under way is finished and tried to be written.
    KeyboardInterrupt
        Soon after Ctrl-C; what is finished is stored, and the same call computes the rest.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     keys = run_all([{"n": 2}, {"n": 3}], "levywalk.sweeps.jobs:squares", store, workers=0)
    ...     [store.load(key).numbers["total"] for key in keys]
    [1, 5]
    """
    tasks = _tasks(descriptions, work, names, given)
    unique = {task.key: task for task in tasks}
    missing = [task for task in unique.values() if store.load(task.key, task.content) is None]
    with _crew(workers, scheduler, len(missing)) as crew:
        if missing:
            with _Countdown("computing", len(unique), done=len(unique) - len(missing), show=progress) as bar:
                crew.compute(missing, store, bar)
    return [task.key for task in tasks]


def keys_of(descriptions: Sequence[Mapping[str, Any]], work: str | Callable[..., Any]) -> list[str]:
    """Return the keys under which `run_all` stores the results, without computing any.

    Examples
    --------
    >>> [len(key) for key in keys_of([{"n": 2}, {"n": 3}], squares)]
    [64, 64]
    """
    return [task.key for task in _tasks(descriptions, work, None, None)]


def squares(description: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the squares below n² and their sum: the least piece of work, for examples and to try a cluster.

    Examples
    --------
    >>> squares({"n": 3})
    ({'squares': array([0, 1, 4])}, {'total': 5})
    """
    import numpy as np

    values = np.arange(description["n"]) ** 2
    return {"squares": values}, {"total": int(values.sum())}


def _tasks(
    descriptions: Sequence[Mapping[str, Any]],
    work: str | Callable[..., Any],
    names: Sequence[str] | None,
    given: Mapping[str, Any] | None,
) -> list[_Task]:
    if names is not None and len(names) != len(descriptions):
        raise InvalidParameter(f"names must be one per description, got {len(names)} for {len(descriptions)}")
    spelled = name_of(work)
    arguments = json.dumps(plain(given or {}, "given"))
    tasks = []
    for i, description in enumerate(descriptions):
        content = {"description": plain(description), "work": spelled, "source": source_of(spelled)}
        name = names[i] if names is not None else canonical(description)
        tasks.append(_Task(key_of(content), name, spelled, content, arguments))
    return tasks


def name_of(work: str | Callable[..., Any]) -> str:
    """Return the name by which any process can find the function; refuse one that has none.

    Examples
    --------
    >>> name_of(squares)
    'levywalk.sweeps.jobs:squares'
    """
    if isinstance(work, str):
        find(work)
        return work
    name = f"{getattr(work, '__module__', '')}:{getattr(work, '__qualname__', '')}"
    try:
        found = find(name)
    except InvalidParameter:
        found = None
    if found is not work or name.startswith("__main__:"):
        raise InvalidParameter(f"work must be a function of a module that workers can import, got {work!r}")
    return name


def find(name: str) -> Callable[..., Any]:
    """Return the function of a name such as "package.module:function"."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidParameter(
            f"work must name a function as 'package.module:function', got {name!r}: {error}"
        ) from None
    if not callable(found):
        raise InvalidParameter(f"work must name a function, got {name!r}, which is {found!r}")
    return found  # type: ignore[no-any-return]


@cache
def source_of(name: str) -> str:
    """Return a digest of the sources that decide what a work answers: its module's, and levywalk's as far as it counts.

    Examples
    --------
    >>> len(source_of("levywalk.sweeps.jobs:squares"))
    64
    """
    file = getattr(importlib.import_module(name.partition(":")[0]), "__file__", None)
    own = Path(file).read_bytes() if file is not None and Path(file).exists() else b""
    return hashlib.sha256(source_digest(*_DECIDE).encode() + own).hexdigest()


def carry_out(content: str, given: str, here: bool = False) -> Answer:
    """Do one piece of work, in whatever process; return the bytes of the result's file, or in words why there is none.

    Linear algebra runs on one thread everywhere, for the number of its threads changes last digits. In a worker it
    stays so: several threads may be at work there, and none should undo it for another.
    """
    import scipy.linalg  # noqa: F401 (its BLAS is another than numpy's, and must be loaded to be told)
    from threadpoolctl import threadpool_limits

    task = json.loads(content)
    try:
        work = find(task["work"])
        if source_of(task["work"]) != task["source"]:
            return "the worker's sources are not those of the process that asked: install the same, or start both again"
        limits = threadpool_limits(1)
        try:
            arrays, numbers = work(task["description"], **json.loads(given))
        finally:
            if here:
                limits.restore_original_limits()
        return pack(task, arrays, numbers)
    except LevywalkError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """Say where a surprise happened, since its traceback stays behind."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})" if trace is not None else ""


# --- where work is done ----------------------------------------------------------------------------------------------


class Workers:
    """Those who do the work: processes on this machine, this process, or a Dask cluster; for one `run_all` or many.

    They are started when first needed and kept until the end of the ``with``, which saves every call but the first the
    seconds that the start of a process takes. One that dies is replaced.

    Parameters
    ----------
    count
        Processes on this machine; by default one per core, and 0 for this one.
    scheduler
        The address of a Dask scheduler, whose workers are used instead.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder, Workers(0) as workers:
    ...     first = run_all([{"n": 2}], squares, Store(folder), workers=workers)
    ...     second = run_all([{"n": 3}], squares, Store(folder), workers=workers)
    ...     len(first + second)
    2
    """

    def __init__(self, count: int | None = None, scheduler: str | None = None) -> None:
        self.count = None if count is None else checks.integer("workers", count, low=0)
        self.scheduler = scheduler
        if count is not None and scheduler is not None:
            raise InvalidParameter(f"workers belong to this machine, got {count} and the scheduler {scheduler!r}")
        self._pool: _Pool | None = None
        self._most: int | None = None  # processes that would have something to do, if that is known

    def compute(self, tasks: list[_Task], store: Store, bar: Bar) -> None:
        """Do all tasks and store their results as they come; raise at the end if some failed."""
        if self._pool is None:
            self._pool = self._opened()
        work = _Work(tasks, store, self._pool, bar)
        finished = False
        try:
            with Interruptible() if self._pool.listens else nullcontext() as interrupt:
                while work.left():
                    work.start()
                    work.collect()
                    if interrupt is not None and interrupt.requested:
                        raise KeyboardInterrupt
            finished = True
        finally:
            if not finished:  # what is under way is nobody's
                self.close(now=True)
        if work.failures:
            raise JobsFailed(work.failures, len(tasks))

    def _opened(self) -> _Pool:
        if self.scheduler is not None:
            return _Cluster(self.scheduler)
        if self.count == 0:
            return _Here()
        from joblib import cpu_count

        count = cpu_count() if self.count is None else self.count
        return _Local(count if self._most is None else min(count, self._most))

    def close(self, now: bool = False) -> None:
        """Let the workers go; the next call would start others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(now=error is not None)


def _crew(workers: int | Workers | None, scheduler: str | None, tasks: int) -> AbstractContextManager[Workers]:
    """Return workers to use: those given, who stay, or others for this call alone."""
    if isinstance(workers, Workers):
        if scheduler is not None:
            raise InvalidParameter(f"workers know where they work, got Workers and the scheduler {scheduler!r}")
        return nullcontext(workers)
    crew = Workers(workers, scheduler)
    crew._most = tasks
    return crew


class _Pool(Protocol):
    ahead: int  # how many tasks to hand over before the first is back
    killed: tuple[type[BaseException], ...]  # what a future raises when its worker died
    kills: int  # how often a task may be killed while it is alone, before it is given up
    listens: bool  # whether Ctrl-C is to be heard here, and not by the work itself

    def submit(self, task: _Task) -> Future[Answer]: ...
    def renew(self) -> None: ...
    def check(self) -> None: ...
    def close(self, now: bool) -> None: ...


class _Here:
    """The process itself, one piece of work after the other."""

    ahead = 1
    killed: tuple[type[BaseException], ...] = ()
    kills = 1
    listens = False

    def submit(self, task: _Task) -> Future[Answer]:
        future: Future[Answer] = Future()
        future.set_result(carry_out(canonical(task.content), task.given, here=True))
        return future

    def renew(self) -> None: ...
    def check(self) -> None: ...
    def close(self, now: bool) -> None: ...


def _begin() -> None:
    """Make a worker leave Ctrl-C, which a terminal sends to all processes, to its parent, and not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Local:
    """Processes on this machine, by joblib's loky; when one dies, all are replaced."""

    killed: tuple[type[BaseException], ...] = (BrokenExecutor,)
    kills = 2
    listens = True

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.ahead = 2 * workers
        self._open()

    def _open(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self._executor = ProcessPoolExecutor(self.workers, initializer=_begin)

    def submit(self, task: _Task) -> Future[Answer]:
        future: Future[Answer] = self._executor.submit(carry_out, canonical(task.content), task.given)
        return future

    def renew(self) -> None:
        self.close(now=True)
        self._open()

    def check(self) -> None: ...

    def close(self, now: bool) -> None:
        self._executor.shutdown(wait=True, kill_workers=now)


class _Cluster:
    """The workers of a Dask scheduler; it tries again by itself when one dies, a few times."""

    kills = 1
    listens = True

    def __init__(self, address: str) -> None:
        try:
            distributed = importlib.import_module("distributed")
        except ImportError:
            raise InvalidParameter(
                f"scheduler {address!r} needs Dask, which is not installed: pip install 'levywalk[cluster]'"
            ) from None
        self.address = address
        self.killed: tuple[type[BaseException], ...] = (distributed.KilledWorker,)
        self.ahead = 1 << 30  # the scheduler shares out all there is
        try:
            # A client of what is no address would complain when it is cleared away.
            importlib.import_module("distributed.comm").get_address_host_port(address)
            self._client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler`, and workers "
                "with `dask worker ADDRESS`"
            ) from None
        self._executor = self._client.get_executor(pure=False)
        self._seen = self._asked = time.monotonic()

    def submit(self, task: _Task) -> Future[Answer]:
        self._seen = time.monotonic()  # the minute counts from here
        future: Future[Answer] = self._executor.submit(carry_out, canonical(task.content), task.given)
        return future

    def renew(self) -> None: ...

    def check(self) -> None:
        """Give up when there is nobody left to do the work."""
        now = time.monotonic()
        if now - self._asked < min(1.0, _PATIENCE):
            return
        self._asked = now
        try:
            alive = bool(self._client.nthreads())
        except Exception as error:  # of whatever layer the connection broke in
            raise self.lost(error) from None
        self._seen = now if alive else self._seen
        if now - self._seen > _PATIENCE:
            raise ClusterLost(
                f"the Dask scheduler at {self.address!r} has had no workers for {_PATIENCE:g} s; start some with "
                f"`dask worker {self.address}`: the same call goes on where it stopped"
            )

    def lost(self, error: BaseException) -> ClusterLost:
        """Return the error to raise when the scheduler is gone."""
        return ClusterLost(
            f"the Dask scheduler at {self.address!r} was lost ({type(error).__name__}: {error}); when it is back, the "
            "same call goes on where it stopped"
        )

    def close(self, now: bool) -> None:
        self._executor.shutdown(wait=False)  # cancels what is under way
        self._client.close()


# --- how it is done --------------------------------------------------------------------------------------------------


class _Work:
    """Tasks that wait, run, are suspected of killing workers, and results that wait for room on the disk."""

    def __init__(self, tasks: list[_Task], store: Store, pool: _Pool, bar: Bar) -> None:
        self.store, self.pool, self.bar = store, pool, bar
        self.waiting = deque(tasks)
        self.running: dict[Future[Answer], _Task] = {}
        self.suspects: deque[_Task] = deque()
        self.alone: _Task | None = None
        self.kills: Counter[str] = Counter()
        self.broken = False
        self.unsaved: deque[tuple[str, bytes]] = deque()
        self.failures: list[Failure] = []

    def left(self) -> bool:
        """Return whether anything is left to do; a broken pool is left to nobody."""
        return bool(self.waiting or self.running or self.suspects or self.unsaved or self.broken)

    def start(self) -> None:
        """Hand tasks to the pool. Whoever was there when a worker died comes last and alone, which tells the guilty."""
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
            except BrokenExecutor:  # between two looks
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
        self.bar.advance(0)  # shows the bar while the first results are awaited

    def _take(self, task: _Task, future: Future[Answer]) -> None:
        try:
            answer = future.result()
        except self.pool.killed:
            self._killed(task)
            return
        except CancelledError:
            raise ClusterLost(
                f"the scheduler dropped {task.name}: it stopped, or another client cancelled the work; the same call "
                "goes on where it stopped"
            ) from None
        except Exception as error:  # the answer or the function did not get through
            answer = f"{type(error).__name__}: {error}"
        why = answer if isinstance(answer, str) else _unusable(answer, task)
        if why is not None:
            self._fail(task, why)
        elif isinstance(answer, bytes):
            self.unsaved.append((task.key, answer))

    def _killed(self, task: _Task) -> None:
        self.broken = True
        if task is self.alone:
            self.kills[task.key] += 1
        if self.kills[task.key] >= self.pool.kills:
            self._fail(task, "its worker was killed again and again, also with no other at work (for want of memory?)")
        else:
            self.suspects.append(task)

    def _fail(self, task: _Task, why: str) -> None:
        self.failures.append(Failure(task.key, task.name, task.content["description"], why))
        self.bar.advance(1)

    def _write(self, last: bool) -> None:
        """Write what is finished; without room, keep it and try again while other work is under way."""
        while self.unsaved:
            try:
                with Interruptible() as interrupt:
                    self.store.put(*self.unsaved[0])
            except StoreError as error:
                if not last:
                    return
                raise StoreError(f"{error}; {self._rescue()}") from None
            self.unsaved.popleft()
            self.bar.advance(1)
            if interrupt.requested:
                raise KeyboardInterrupt

    def _rescue(self) -> str:
        """Write what the store has no room for elsewhere, and say where."""
        elsewhere = Store(tempfile.mkdtemp(prefix="levywalk-"))
        try:
            for key, content in self.unsaved:
                elsewhere.put(key, content)
        except StoreError:
            return f"{len(self.unsaved)} finished results are lost, since there was no other room either"
        return f"{len(self.unsaved)} finished results are in {elsewhere.folder}: move these files there as well"


def _unusable(answer: bytes, task: _Task) -> str | None:
    """Return why a worker's answer is not the result of the task, or None: it may have another version, or be ill."""
    try:
        found = unpack(answer).description
    except Exception as error:  # as for a damaged file
        return f"the worker's answer cannot be used: {error}"
    return None if found == task.content else "the worker's answer is that of something else"


class _Countdown(Bar):
    """A bar for few long pieces of work: counts them, and tells the time left from all that were done."""

    speed_over = math.inf

    def columns(self) -> list[Any]:
        """Return what the bar shows."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        return [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
        ]
