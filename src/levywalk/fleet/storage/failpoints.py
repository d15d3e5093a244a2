"""Places where a test can kill the process, as a power cut would: nothing runs afterwards, not even
`finally`.

They are before and after every commit, fsync, rename and send.
``LEVYWALK_FAILPOINT=commit:after:3`` kills the process when it reaches ``commit:after`` for the
third time. Without the variable a failpoint costs one comparison.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from levywalk.errors import InvalidParameter

VARIABLE = "LEVYWALK_FAILPOINT"

FAILPOINTS = {
    "create:before": "a new store: the tables are made, but not committed",
    "create:after": "a new store: the tables are there, but not the mark that the store has begun",
    "mark:before": "a new store: the mark is written, but does not have its name yet",
    "mark:after": "a new store: the mark is there",
    "write:before": "a model's file is open and empty",
    "fsync:before": "a model's file is written, but may not be on the disk",
    "fsync:after": "a model's file is on the disk under its temporary name",
    "rename:before": "a model's file is on the disk and about to get its name",
    "rename:after": "a model's file has its name, but a power cut may still undo that",
    "folder:before": "the folder with the new name is about to be synced",
    "folder:after": "a model's file is safe on the disk; nothing refers to it yet",
    "commit:before": "a transaction is written, but not committed",
    "commit:after": "a transaction is committed; nothing that depends on it was sent",
    "remove:before": "a model's file that nothing refers to is about to be removed",
    "remove:after": "a model's file that nothing referred to is gone",
    "send:before": "a message is about to be sent; what it depends on is committed",
    "send:after": "a message was sent",
}


class Armed(NamedTuple):
    """The failpoint at which the process is to be killed."""

    name: str
    time: int  # at which visit of the failpoint, counted from 1


def armed(text: str | None) -> Armed | None:
    """Return the failpoint that ``name`` or ``name:count`` asks for; None if the text is empty.

    Examples
    --------
    >>> armed("commit:after:3")
    Armed(name='commit:after', time=3)
    >>> armed("commit:never")
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: LEVYWALK_FAILPOINT must be one of ...,
        with or without :count, got 'commit:never'
    """
    if not text:
        return None
    name, _, count = (
        text.rpartition(":") if text.rpartition(":")[2].isdecimal() else (text, "", "1")
    )
    if name not in FAILPOINTS or int(count) < 1:
        raise InvalidParameter(
            f"{VARIABLE} must be one of {', '.join(FAILPOINTS)}, with or without :count, got "
            f"{text!r}"
        )
    return Armed(name, int(count))


_armed = armed(os.environ.get(VARIABLE))
_reached = 0


def arm(text: str | None) -> None:
    """Act as if the environment variable had this value, and count from the beginning."""
    global _armed, _reached
    _armed, _reached = armed(text), 0


def failpoint(name: str) -> None:
    """Kill the process here if that was asked for.

    Examples
    --------
    >>> failpoint("commit:before")
    """
    if _armed is not None:
        _come_to(name)


def _come_to(name: str) -> None:
    global _reached
    assert name in FAILPOINTS, name
    if _armed is not None and name == _armed.name:
        _reached += 1
        if _reached == _armed.time:
            os.kill(os.getpid(), signal.SIGKILL)
