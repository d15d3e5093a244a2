"""Ctrl-C ends a command with exit code 130 and one line that says how to resume."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

import typer

from levywalk.interruption import CtrlC, Listening

RESUME = "Run the same command again to resume."
START_OVER = "Run the same command again; it starts from the beginning."
EXIT_CODE = 130
_PATIENCE = 1.0  # seconds that the main thread has to see the first press
_LOOK = 0.02  # seconds between two looks whether it has seen it

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def ends_by_ctrl_c(
    how_to_go_on: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator of commands: Ctrl-C ends them with exit code 130 and one line on stderr.

    A command may raise `KeyboardInterrupt` with a sentence of its own that comes before
    ``how_to_go_on``.
    """

    def decorate(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(command)
        def ended(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            ending = _Ending(how_to_go_on)
            try:
                with Listening(ending.at_once) as ctrl_c, _Watch(ctrl_c, ending):
                    return command(*args, **kwargs)
            except KeyboardInterrupt as error:
                ending.say(*error.args)
                raise typer.Exit(EXIT_CODE) from None
            except Exception as error:
                # A compiled library that is interrupted while it loads raises an ImportError.
                if not isinstance(error.__cause__, KeyboardInterrupt):
                    raise
                ending.say()
                raise typer.Exit(EXIT_CODE) from None

        return ended

    return decorate


class _Ending:
    """How a command ends after Ctrl-C: with one line on stderr, and at once where it must."""

    def __init__(self, how_to_go_on: str) -> None:
        self._how_to_go_on = how_to_go_on
        # The main thread and the watching thread may both come to the end: the first one says it.
        self._turn = threading.Lock()
        self._said = threading.Event()

    def say(self, *sentences: str) -> None:
        """Write the line, unless it has been written."""
        if self._turn.acquire(blocking=False):
            print(self._line(*sentences), file=sys.stderr, flush=True)
            self._said.set()

    def _line(self, *sentences: str) -> str:
        return " ".join(["Interrupted.", *sentences, self._how_to_go_on])

    def at_once(self) -> None:
        """End this process and the worker processes that it has started, whatever they do."""
        pools = sys.modules.get("levywalk.sweeps.pools")
        if pools is not None:
            pools.kill_workers()
        if self._turn.acquire(blocking=False):
            if os.isatty(2):
                os.write(2, b"\x1b[?25h\n")  # a progress bar had hidden the cursor
            # Not by print: the main thread may be in the middle of one.
            os.write(2, f"{self._line()}\n".encode())
            self._said.set()
        self._said.wait(_PATIENCE)  # another thread may be about to write it
        os._exit(EXIT_CODE)


class _Watch:
    """A thread that sees Ctrl-C while the main thread is in a long call of a compiled library.

    Python informs the main thread of a signal only after such a call, which can take minutes. This
    thread is informed at once. It ends the process at the second press, and after the first one if
    the main thread does not see it for a second and holds nothing that should be finished. That is
    as safe as any sudden end of the process: every file that a command resumes from is replaced as
    a whole.

    A few functions of LAPACK keep all threads waiting; they are called with at most 2,000 rows.
    """

    def __init__(self, ctrl_c: CtrlC, ending: _Ending) -> None:
        self._ctrl_c, self._ending = ctrl_c, ending
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) != self._ctrl_c.pressed:
            return  # another handler is installed
        reading, writing = self._pipe = os.pipe()
        os.set_blocking(writing, False)
        self._before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pipe is not None:
            signal.set_wakeup_fd(self._before)
            os.close(self._pipe[1])  # the thread reads the end and leaves

    def _watch(self, reading: int) -> None:
        presses = 0
        while signals := os.read(reading, 64):
            presses += signals.count(signal.SIGINT)
            if presses > 1:
                self._ending.at_once()
            if presses and not self._press_is_handled():
                self._ending.at_once()
        os.close(reading)

    def _press_is_handled(self) -> bool:
        """Return whether the main thread has seen the first press, or will after what it holds."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self._ctrl_c.requested or self._ctrl_c.holding:
                return True
            time.sleep(_LOOK)
        return False
