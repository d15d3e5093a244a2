"""The metrics and callbacks of a run, which are evaluated at its checkpoints.

All threads stop at a checkpoint that has metrics or callbacks, and the thread that called `run`
evaluates the metrics and calls the callbacks. So users' functions are never called by two threads
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine.prepare import Job
from levywalk.engine.run_state import RunRecord
from levywalk.errors import CallbackError, InvalidParameter

Callback = Callable[[dict[str, Any]], object]


def check_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return callbacks as a tuple; refuse what cannot be called.

    Examples
    --------
    >>> check_callbacks([print])
    (<built-in function print>,)
    """
    if callbacks is None:
        return ()
    if callable(callbacks) or not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise InvalidParameter(
            f"callbacks must be a list of functions, such as [print], got {callbacks!r:.80}"
        )
    for one in callbacks:
        if not callable(one):
            raise InvalidParameter(
                f"callbacks must be functions that take a dict, got {one!r:.80} among them"
            )
    return tuple(callbacks)


class Observer:
    """The checkpoints at which a run stops for metrics or callbacks, and what is done there.

    Parameters
    ----------
    job, record
        The run, and where its measurements are.
    name
        The design's name.
    models
        A function that returns the replicas' models and whether each is finite.
    """

    def __init__(
        self,
        job: Job,
        record: RunRecord,
        name: str,
        models: Callable[[], tuple[Floats, Any]],
    ) -> None:
        self.job, self.record, self.name, self.models = job, record, name, models
        if job.callbacks:
            self.stops: Ints = job.checkpoints
        elif job.metrics is not None:
            self.stops = job.checkpoints[job.metrics.columns]
        else:
            self.stops = job.checkpoints[-1:]

    def until(self, done: int) -> int:
        """Return the next step at which metrics are evaluated or callbacks are called."""
        return int(self.stops[np.searchsorted(self.stops, done, side="right")])

    def look(self, done: int) -> None:
        """Evaluate metrics and call callbacks, if this step is one of theirs."""
        column = int(np.searchsorted(self.job.checkpoints, done))
        if self.job.checkpoints[column] != done:
            return
        metrics = self.job.metrics
        if metrics is not None and column in metrics.columns:
            self.record.metrics[:, :, column] = metrics.values(*self.models(), done)
        if self.job.callbacks:
            self._call(column, done)

    def _call(self, column: int, done: int) -> None:
        for callback in self.job.callbacks:
            try:
                callback(self.checkpoint_values(column))
            except Exception as error:  # a user's function may raise anything
                called = getattr(callback, "__name__", type(callback).__name__)
                raise CallbackError(
                    f"callback {called} raised {type(error).__name__} at step {done}: {error}; "
                    "what was done is in `.partial`"
                ) from error

    def checkpoint_values(self, column: int) -> dict[str, Any]:
        """Return what callbacks are told at a checkpoint: plain numbers, text and arrays."""
        job, record = self.job, self.record
        distance2, excess, loss = (record.errors[:, i, column].copy() for i in range(3))
        hops, transfers, small = (record.counts[:, i, column].copy() for i in range(3))
        found: dict[str, Any] = {
            "design": self.name,
            "step": int(job.checkpoints[column]),
            "steps": job.run_plan.steps,
            "distance2": distance2,
            "excess_loss": excess,
            "loss": loss,
            "hops": hops,
            "transfers": transfers,
            "small_messages": small,
            "bytes": transfers * job.run_plan.method.token_bytes,
        }
        if job.costs is not None:
            found["time"] = record.time[:, column].copy()
        if job.metrics is not None and column in job.metrics.columns:
            names = enumerate(job.metrics.functions)
            found["metrics"] = {name: record.metrics[:, i, column].copy() for i, name in names}
        else:
            found["metrics"] = {}
        return found
