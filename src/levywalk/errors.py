"""The errors and warnings of levywalk.

Every message names the argument, the value and the remedy.
"""

from __future__ import annotations

from typing import Any


class LevywalkError(Exception):
    """Base class of all errors that levywalk raises intentionally."""


class InvalidParameter(LevywalkError, ValueError):
    """An argument lies outside its domain."""


class InvalidNetwork(LevywalkError, ValueError):
    """A graph that cannot be a network, or a network file that cannot be read."""


class NotConnected(InvalidNetwork):
    """A walk was bound to a network that is not connected, so the model cannot reach all nodes."""


class InvalidData(LevywalkError, ValueError):
    """A data set that cannot be a problem, or a data file that cannot be read."""


class NoMinimiser(InvalidData):
    """The problem has no minimiser, so there is no error to measure."""


class TooLarge(LevywalkError, ValueError):
    """A requested array would not fit into memory; nothing was allocated."""


class MissingFile(LevywalkError, FileNotFoundError):
    """A file that does not exist."""


class MissingExtra(InvalidParameter, ImportError):
    """A function needs a library that is not installed; the message has the command for it."""


class InvalidSpec(LevywalkError, ValueError):
    """An experiment file with an unknown key, a wrong type or an impossible value."""


class InvalidTrace(LevywalkError, ValueError):
    """A file that is not a trace, or a damaged one."""


class ResumeError(LevywalkError, ValueError):
    """A run cannot be resumed from a file: it belongs to another run, is damaged or is in use."""


class ResumeInUse(ResumeError):
    """A file that another run is writing."""


class CallbackError(LevywalkError, RuntimeError):
    """A callback or a metric raised an exception in the middle of a run, which then ended.

    Attributes
    ----------
    partial
        What was done until then: the shortened `Trace` of `run`, or the `Comparison` of `compare`
        with the designs that have been run. ``__cause__`` is the exception itself.

    Examples
    --------
    >>> import levywalk as lw
    >>> def stop_early(now):
    ...     if now["step"] >= 50:
    ...         raise StopIteration("enough")
    >>> try:
    ...     lw.run(
    ...         lw.ring(9),
    ...         lw.homogeneous(9, dim=2),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size=0.01,
    ...         callbacks=[stop_early],
    ...     )
    ... except lw.CallbackError as error:
    ...     int(error.partial.step[-1]), str(error.__cause__)
    (50, 'enough')
    """

    partial: Any = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended `levywalk.run`, `levywalk.walk` or `levywalk.compare`.

    A loop that calls them ends as well, because it is a `KeyboardInterrupt`.

    Attributes
    ----------
    partial
        What was done until then: the shortened `Trace` of `run`, the shortened `WalkRecord` of
        `walk`, the `Comparison` of `compare` with the designs that have been run, the last one
        perhaps shortened. None if nothing had been done.

    Examples
    --------
    >>> import levywalk as lw
    >>> try:
    ...     trace = lw.run(
    ...         lw.ring(50), lw.homogeneous(50), lw.mhlj(), steps=100, step_size=0.01
    ...     )
    ... except lw.Interrupted as interrupted:
    ...     trace = interrupted.partial
    >>> int(trace.step[-1])
    100
    """

    def __init__(self, partial: Any = None) -> None:
        super().__init__()
        self.partial = partial

    def __str__(self) -> str:
        done = "nothing had been done" if self.partial is None else "what was done is in `.partial`"
        return f"Ctrl-C ended the work; {done}"


class DataWarning(UserWarning):
    """A part of the input was dropped, or a result is not unique; the message gives the details."""


class CacheWarning(UserWarning):
    """Compiled code cannot be stored, so that every process compiles it anew."""


class DivergedWarning(UserWarning):
    """Some replicas' models overflowed; ``Trace.diverged_at`` holds the steps."""


class ResumeWarning(UserWarning):
    """A run is resumed from a file of another machine, or its state file could not be written."""
