"""Progress of long computations: a bar in a notebook, and on stderr if it is a terminal; otherwise
nothing.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from levywalk.notebook import LiveBar, in_notebook

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """The interface to which a long computation reports its progress."""

    def advance(self, amount: float) -> None:
        """Report that ``amount`` more of the work is done."""


class Bar:
    """A progress bar that appears after ``patience`` seconds, in a notebook (as HTML) or if stderr
    is a terminal (by rich).

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
        self.show = in_notebook() or sys.stderr.isatty() if show is None else show
        self.patience = patience
        self._started = time.monotonic()
        self._done = self._done_before = done
        self._live: LiveBar | None = None
        self._bar: RichProgress | None = None
        self._task: Any = 0

    def advance(self, amount: float) -> None:
        """Move the bar by ``amount`` of ``total``."""
        self._done += amount
        if not self.show:
            return
        if self._bar is None and self._live is None:
            if time.monotonic() - self._started < self.patience:
                return
            self._open()
        if self._live is not None:
            self._live.update(self.title, self._done / max(self.total, 1e-300), self.time_left())
        if self._bar is not None:
            self._bar.update(self._task, description=self.title, completed=self._done)

    def time_left(self) -> str:
        """Return the time left as text, at the mean speed so far; empty if it is not known."""
        moved = self._done - self._done_before
        if moved <= 0.0 or self._done >= self.total:
            return ""
        seconds = (time.monotonic() - self._started) * (self.total - self._done) / moved
        return time_left_text(seconds)

    def columns(self) -> list[Any]:
        """Return the columns of the progress bar in a terminal, in rich's format."""
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

        return [
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        ]

    def _open(self) -> None:
        if in_notebook():
            self._live = LiveBar()
            return
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
        self._task = bar.add_task(
            self.title,
            total=self.total,
            completed=self._done,  # type: ignore[arg-type]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.end()
        if self._bar is not None:
            self._bar.stop()


def time_left_text(seconds: float | None) -> str:
    """Return the time left as text.

    Examples
    --------
    >>> time_left_text(None), time_left_text(8.0), time_left_text(100.0), time_left_text(4000.0)
    ('time left not known yet', 'a few seconds left', 'about 2 min left', 'about 1 h 7 min left')
    """
    if seconds is None:
        return "time left not known yet"
    minutes = round(seconds / 60.0)
    if seconds < 15.0:
        return "a few seconds left"
    if minutes < 2:
        return (
            f"about {10 * round(seconds / 10.0)} s left" if seconds < 85.0 else "about 1 min left"
        )
    return (
        f"about {minutes} min left"
        if minutes < 60
        else f"about {minutes // 60} h {minutes % 60} min left"
    )
