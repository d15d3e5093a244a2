"""The errors and warnings of levywalk.

Every message names the argument, the value and the remedy.
"""

from __future__ import annotations


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


class InvalidSpec(LevywalkError, ValueError):
    """An experiment file with an unknown key, a wrong type or an impossible value."""


class InvalidTrace(LevywalkError, ValueError):
    """A file that is not a trace, or a damaged one."""


class ResumeError(LevywalkError, ValueError):
    """A run cannot be resumed from a file: it belongs to another run, is damaged or is in use."""


class ResumeInUse(ResumeError):
    """A file that another run is writing."""


class DataWarning(UserWarning):
    """A part of the input was dropped, or a result is not unique; the message gives the details."""


class CacheWarning(UserWarning):
    """Compiled code cannot be stored, so that every process compiles it anew."""


class DivergedWarning(UserWarning):
    """Some replicas' models overflowed; ``Trace.diverged_at`` holds the steps."""


class ResumeWarning(UserWarning):
    """A run is resumed from a file of another machine, or its state file could not be written."""
