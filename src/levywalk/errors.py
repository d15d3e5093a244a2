"""One root error; every message names the argument, the value and the remedy."""

from __future__ import annotations


class LevywalkError(Exception):
    """Root of every error that levywalk raises on purpose."""


class InvalidParameter(LevywalkError, ValueError):
    """An argument lies outside its domain."""


class InvalidNetwork(LevywalkError, ValueError):
    """A graph that cannot be a network, or a network file that cannot be read."""


class NotConnected(InvalidNetwork):
    """A network in several pieces was bound to a walk: the model could never reach all nodes."""


class InvalidData(LevywalkError, ValueError):
    """A data set that cannot be a problem, or a data file that cannot be read."""


class NoMinimiser(InvalidData):
    """The problem has no minimiser, so there is no error to measure."""


class TooLarge(LevywalkError, ValueError):
    """An array that would not fit was asked for; nothing was allocated."""


class MissingFile(LevywalkError, FileNotFoundError):
    """A file that does not exist."""


class InvalidSpec(LevywalkError, ValueError):
    """An experiment file with an unknown key, a wrong type or an impossible value."""


class InvalidTrace(LevywalkError, ValueError):
    """A file that is not a trace, or a damaged one."""


class ResumeError(LevywalkError, ValueError):
    """A file that a run cannot go on from: of another run, damaged, or in use."""


class ResumeInUse(ResumeError):
    """A file that another run is writing."""


class DataWarning(UserWarning):
    """Something in the input was dropped or is not unique; the message says what and how much."""


class DivergedWarning(UserWarning):
    """Some replicas' models overflowed; ``Trace.diverged_at`` holds the steps."""


class ResumeWarning(UserWarning):
    """A run goes on from a file of another machine, or could not write its own."""
