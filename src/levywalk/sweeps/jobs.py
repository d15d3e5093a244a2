"""`run_all`: compute many tasks, each once, on all cores or on a Dask cluster.

A task is a plain description and the name of a function that turns it into arrays and numbers. A
worker gets both as text and returns the bytes of the result's file; only the process that asked
writes files. So a result does not depend on where it was computed, and a worker needs nothing from
this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from levywalk.progress import Bar
from levywalk.sweeps.store import ResultStore
from levywalk.sweeps.task import tasks_of
from levywalk.sweeps.workers import Workers, workers_for


def run_all(
    descriptions: Sequence[Mapping[str, Any]],
    work: str | Callable[..., Any],
    store: ResultStore,
    *,
    workers: int | Workers | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    names: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[str]:
    """Compute the results that the store lacks, and return the key of every description's result.

    Parameters
    ----------
    descriptions
        Plain dicts; each holds everything that decides its result.
    work
        A module-level function or its name, "package.module:function". ``work(description,
        **given)`` returns a dict of arrays and a dict of plain numbers. The hash of a result covers
        this name, the source of its module and the sources of levywalk: a result that was computed
        with another version of the code is never used.
    store
        Where each result is written as soon as it is finished.
    workers
        Number of processes on this machine; default: one per core. 0 computes in this process. The
        results are the same to the bit. Open `Workers` can be used for several calls.
    scheduler
        Address of a Dask scheduler, such as "tcp://10.0.0.1:8786", whose workers are used instead.
    progress
        Whether to show a progress bar with the time left; default: in a notebook, or if stderr is a
        terminal.
    names
        What error messages call the descriptions; default: their JSON.
    given
        More plain arguments of ``work`` that change no result, such as the folder to read files
        from.

    Raises
    ------
    JobsFailed
        At the end, if some tasks failed, or killed their worker again when they ran alone.
    ResultStoreError
        If results cannot be written. No new task is started then; running tasks are finished and
        their results are written if possible.
    Interrupted
        Soon after Ctrl-C. What is finished is stored, and the same call computes the rest.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ResultStore(folder)
    ...     keys = run_all([{"n": 2}, {"n": 3}], "levywalk.sweeps.jobs:squares", store, workers=0)
    ...     [store.load(key).numbers["total"] for key in keys]
    [1, 5]
    """
    tasks = tasks_of(descriptions, work, names, given)
    unique = {task.key: task for task in tasks}
    missing = [task for task in unique.values() if store.load(task.key, task.content) is None]
    with workers_for(workers, scheduler, len(missing)) as used:
        if missing:
            stored = len(unique) - len(missing)
            with _Countdown("computing", len(unique), done=stored, show=progress) as bar:
                used.compute(missing, store, bar)
    return [task.key for task in tasks]


def keys_of(descriptions: Sequence[Mapping[str, Any]], work: str | Callable[..., Any]) -> list[str]:
    """Return the keys under which `run_all` stores the results, without computing any.

    Examples
    --------
    >>> [len(key) for key in keys_of([{"n": 2}, {"n": 3}], squares)]
    [64, 64]
    """
    return [task.key for task in tasks_of(descriptions, work)]


def squares(description: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the squares below n² and their sum: a tiny task for examples and for trying out a
    cluster.

    Examples
    --------
    >>> squares({"n": 3})
    ({'squares': array([0, 1, 4])}, {'total': 5})
    """
    import numpy as np

    values = np.arange(description["n"]) ** 2
    return {"squares": values}, {"total": int(values.sum())}


class _Countdown(Bar):
    """A bar for a few long tasks: it counts them and estimates the time left from all finished
    ones.
    """

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
