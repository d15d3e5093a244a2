"""Errors of files that ``--load`` has run, in one line that names the place and the remedy."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType

from levywalk.registry import LOADED_MODULES

_REMEDY = "correct the file; docs/extending.md says what each method is given and returns"


def error_of_loaded_file(error: BaseException) -> str | None:
    """Return what is wrong in a file that was loaded, or None if the error is not of such a file.

    Besides errors that are raised inside such a file, these are calls of its methods with arguments
    that they do not take, and files that are no Python.
    """
    told = "".join(traceback.TracebackException.from_exception(error).format_exception_only())
    text = told.strip().splitlines()[-1]
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {text}; correct the file"
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).startswith(LOADED_MODULES):
            inside = frame.f_code.co_name
            where = "" if inside == "<module>" else f", in {inside}"
            place = f"{frame.f_code.co_filename}, line {line}{where}"
    if place is None and isinstance(error, TypeError):
        place = _file_of_call(str(error))
    return None if place is None else f"{place}: {text}; {_REMEDY}"


def _file_of_call(message: str) -> str | None:
    """Return the file of the method in a message such as "Mine.decide() takes 2 arguments …"."""
    called = re.match(r"(?:.*\.)?(\w+)\.(\w+)\(\)", message)
    for module in [] if called is None else list(_loaded_modules()):
        assert called is not None
        if called[2] in vars(getattr(module, called[1], object)):
            return str(module.__file__)
    abstract = re.match(r"Can't instantiate abstract class (\w+) ", message)
    for module in [] if abstract is None else list(_loaded_modules()):
        assert abstract is not None
        if hasattr(module, abstract[1]):
            return str(module.__file__)
    return None


def _loaded_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name.startswith(LOADED_MODULES):
            yield module
