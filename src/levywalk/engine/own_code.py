"""A digest of the code of methods that are not the package's: a run resumes only with the same."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from levywalk.contracts import is_known_class
from levywalk.updates import Update
from levywalk.walks import Walk


def own_code(*methods: Walk | Update) -> str | None:
    """Return a digest of the code of walks and updates of a user's own, or None if there is none.

    It is that of the whole file of a class, because a class may use other functions of its file;
    and of the class alone where it was defined in a script or a notebook, which change for other
    reasons.

    Examples
    --------
    >>> import levywalk as lw
    >>> own_code(lw.mhlj(), lw.sgd()) is None
    True
    """
    parts = sorted({part for method in methods for part in _parts(method)})
    if not parts:
        return None
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def _parts(method: Walk | Update) -> Iterator[str]:
    for kind in type(method).__mro__:
        if not is_known_class(kind):
            yield hashlib.sha256(_content(kind)).hexdigest()
    for value in getattr(method, "__dict__", {}).values():
        if isinstance(value, (Walk, Update)):  # such as the update that is averaged
            yield from _parts(value)
        elif isinstance(value, FunctionType):  # a method that was replaced in the object
            yield hashlib.sha256(_instructions(value.__code__)).hexdigest()


def _content(kind: type) -> bytes:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None and kind.__module__ != "__main__" and Path(file).is_file():
        return Path(file).read_bytes()
    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):  # as in an interactive session
        values = sorted(vars(kind).items())
        return b" ".join(_of_value(name, value) for name, value in values)


def _of_value(name: str, value: Any) -> bytes:
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, FunctionType):
        return name.encode() + _instructions(value.__code__)
    return name.encode()


def _instructions(code: CodeType) -> bytes:
    inside = [
        _instructions(one) if isinstance(one, CodeType) else repr(one).encode()
        for one in code.co_consts
    ]
    return b" ".join([code.co_code, repr(code.co_names).encode(), *inside])
