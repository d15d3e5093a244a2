"""What to type to correct a mistake: an argument in Python, an option on the command line.

Most errors come from code that both share. The command line says once that it is in use, and each
message then names an option where Python code would name an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ON_COMMAND_LINE: ContextVar[bool] = ContextVar("on_command_line", default=False)


def python_or_command(python: str, command: str) -> str:
    """Return the remedy in the words of whoever made the call.

    Examples
    --------
    >>> python_or_command("largest_component=True", "--largest-component")
    'largest_component=True'
    >>> with command_line():
    ...     python_or_command("largest_component=True", "--largest-component")
    '--largest-component'
    """
    return command if _ON_COMMAND_LINE.get() else python


@contextmanager
def command_line() -> Iterator[None]:
    """Name options instead of arguments in the messages of this block."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)
