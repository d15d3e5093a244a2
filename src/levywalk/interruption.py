"""Ctrl-C: one press ends the work at the next safe place, a second one ends it at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from levywalk.errors import Interrupted

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_active: CtrlC | None = None  # what listens to Ctrl-C now, in the main thread


class CtrlC:
    """What Ctrl-C has asked for so far.

    The first press raises `Interrupted` where the program is. In a section that is `held` it only
    sets ``requested``, and the section has to look at that itself. A second press calls
    ``at_once``, which by default raises `Interrupted` everywhere.

    Python drops an exception that a press raises in a destructor or in the callback of a weak
    reference. Therefore every stage begins with `check`, which raises it again.

    Examples
    --------
    >>> ctrl_c = CtrlC()
    >>> with ctrl_c.held():
    ...     ctrl_c.requested
    False
    >>> ctrl_c.check()
    """

    def __init__(self, at_once: Callable[[], None] | None = None) -> None:
        self.requested = False
        self.holding = 0  # how many sections are held now
        self._at_once = at_once

    def held(self) -> HeldCtrlC:
        """Return a context that no first press of Ctrl-C leaves by an exception."""
        return HeldCtrlC(self)

    def check(self) -> None:
        """Raise `Interrupted` if Ctrl-C was pressed."""
        if self.requested:
            raise Interrupted

    def pressed(self, number: int, frame: FrameType | None) -> None:
        """Note a press of Ctrl-C; this is the handler of the signal."""
        if self.requested:
            self._second_press()
        self.requested = True
        # In this file an exception would leave a section held, or the handler in place.
        if not self.holding and (frame is None or frame.f_code.co_filename != __file__):
            raise Interrupted

    def _second_press(self) -> NoReturn:
        if self._at_once is not None:
            self._at_once()
        raise Interrupted


class HeldCtrlC:
    """A section of `CtrlC` in which the first press only sets ``requested``."""

    def __init__(self, ctrl_c: CtrlC) -> None:
        self._ctrl_c = ctrl_c

    def __enter__(self) -> None:
        self._ctrl_c.holding += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ctrl_c.holding -= 1


class Listening:
    """A context in which Ctrl-C ends the work by `Interrupted`, and is never lost.

    Contexts may be nested: all of them share the `CtrlC` of the outermost one. Outside the main
    thread, and where the program has a handler of its own, the context changes nothing.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> with Listening() as ctrl_c, Listening() as same:
    ...     same is ctrl_c
    True
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self, at_once: Callable[[], None] | None = None) -> None:
        self._own = CtrlC(at_once)
        self._outermost = False

    def __enter__(self) -> CtrlC:
        global _active
        if threading.current_thread() is not threading.main_thread():
            return self._own
        if _active is not None:
            return _active
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._outermost = True
            _active = self._own
            self._before = sys.unraisablehook
            sys.unraisablehook = self._lost
            signal.signal(signal.SIGINT, self._own.pressed)
        return self._own

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _active
        if not self._outermost:
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = self._before
        _active = None
        if kind is None:
            self._own.check()

    def _lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Say nothing of an `Interrupted` that Python drops: the next `check` raises it again."""
        if not isinstance(unraisable.exc_value, Interrupted):
            self._before(unraisable)


def interruptible(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let Ctrl-C end a function by `Interrupted`.

    Examples
    --------
    >>> interruptible(abs)(-2)
    2
    """

    @wraps(function)
    def listening(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with Listening():
            return function(*args, **kwargs)

    return listening
