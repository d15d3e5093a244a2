"""Progress of long computations: a bar on stderr if it is a terminal, otherwise nothing."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self


class Progress(Protocol):
    """The interface to which a long computation reports its progress."""

    def advance(self, amount: float) -> None:
        """Report that ``amount`` more of the work is done."""


class Bar:
    """A progress bar (by rich) that appears after ``patience`` seconds if stderr is a terminal.

    ``done`` is the part of ``total`` that was already done by a run that is now resumed.

    Examples
    --------
    >>> with Bar("walking", total=10, show=False) as bar:
    ...     bar.advance(10)
    """

    speed_over = 30.0  # the remaining time is estimated from the last 30 seconds

    def __init__(
        self,
        title: str,
        total: float,
        *,
        done: float = 0.0,
        show: bool | None = None,
        patience: float = 0.5,
    ) -> None:
        self.title = title
        self.total = total
        self.show = sys.stderr.isatty() if show is None else show
        self.patience = patience
        self._started = time.monotonic()
        self._done = done
        self._bar: object | None = None
        self._task = 0

    def advance(self, amount: float) -> None:
        """Move the bar by ``amount`` of ``total``."""
        self._done += amount
        if not self.show:
            return
        if self._bar is None:
            if time.monotonic() - self._started < self.patience:
                return
            self._open()
        from rich.progress import Progress as RichProgress

        assert isinstance(self._bar, RichProgress)
        self._bar.update(self._task, description=self.title, completed=self._done)  # type: ignore[arg-type]

    def columns(self) -> list[Any]:
        """Return the columns of the progress bar, in rich's format."""
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

        return [
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        ]

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        bar = RichProgress(
            *self.columns(),
            console=Console(stderr=True),
            transient=True,
            speed_estimate_period=self.speed_over,
        )
        bar.start()
        self._bar = bar
        self._task = bar.add_task(self.title, total=self.total, completed=self._done)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            from rich.progress import Progress as RichProgress

            assert isinstance(self._bar, RichProgress)
            self._bar.stop()
