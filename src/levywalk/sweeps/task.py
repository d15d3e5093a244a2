"""One piece of work: a plain description and the name of a function, which any process can carry
out.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.registry import loaded_files
from levywalk.sweeps.store import canonical, key_of, pack, plain, unpack
from levywalk.version import source_digest

Answer = bytes | str  # the bytes of the result's file, or the reason why there is none

# The sources that decide numbers, besides the module of the work itself.
DECISIVE_SOURCES = (
    *(
        "draws.py",
        "memory.py",
        "schedule.py",
        "step.py",
        "network",
        "problem",
        "walks",
        "updates",
        "trace",
        "theory",
        "engine",
    ),
    *("experiments/spec.py", "experiments/compare.py", "experiments/execute.py"),
    "experiments/tuning.py",
)


@dataclass(frozen=True)
class Task:
    """A piece of work that a worker gets: all of it is text or plain data.

    Attributes
    ----------
    key
        The key of the result in the store.
    name
        What errors call the task.
    content
        What the store hashes: the description, the name of the function and the digest of its
        sources.
    given
        More arguments of the function, as JSON; they change no result.
    """

    key: str
    name: str
    content: dict[str, Any]
    given: str


def tasks_of(
    descriptions: Sequence[Mapping[str, Any]],
    work: str | Callable[..., Any],
    names: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Task]:
    """Return one task per description."""
    if names is not None and len(names) != len(descriptions):
        raise InvalidParameter(
            f"names must be one per description, got {len(names)} for {len(descriptions)}"
        )
    function = name_of(work)
    arguments = json.dumps(plain(given or {}, "given"))
    tasks = []
    for i, description in enumerate(descriptions):
        content = {
            "description": plain(description),
            "work": function,
            "source": source_of(function),
        }
        name = names[i] if names is not None else canonical(description)
        tasks.append(Task(key_of(content), name, content, arguments))
    return tasks


def name_of(work: str | Callable[..., Any]) -> str:
    """Return the name by which any process can import the function; refuse a function without one.

    Examples
    --------
    >>> from levywalk.sweeps.jobs import squares
    >>> name_of(squares)
    'levywalk.sweeps.jobs:squares'
    """
    if isinstance(work, str):
        find(work)
        return work
    name = f"{getattr(work, '__module__', '')}:{getattr(work, '__qualname__', '')}"
    try:
        found = find(name)
    except InvalidParameter:
        found = None
    if found is not work or name.startswith("__main__:"):
        raise InvalidParameter(
            f"work must be a function of a module that workers can import, got {work!r}"
        )
    return name


def find(name: str) -> Callable[..., Any]:
    """Return the function with a name such as "package.module:function"."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidParameter(
            f"work must name a function as 'package.module:function', got {name!r}: {error}"
        ) from None
    if not callable(found):
        raise InvalidParameter(f"work must name a function, got {name!r}, which is {found!r}")
    return found  # type: ignore[no-any-return]


def source_of(name: str) -> str:
    """Return a digest of the sources that decide a function's result: its own module, parts of
    levywalk, and the files of a user's own methods that are loaded now.

    Examples
    --------
    >>> len(source_of("levywalk.sweeps.jobs:squares"))
    64
    """
    return _source(name, "".join(sorted(loaded_files().values())))


@cache
def _source(name: str, loaded: str) -> str:
    file = getattr(importlib.import_module(name.partition(":")[0]), "__file__", None)
    own = Path(file).read_bytes() if file is not None and Path(file).exists() else b""
    digest = source_digest(*DECISIVE_SOURCES).encode() + own + loaded.encode()
    return hashlib.sha256(digest).hexdigest()


def carry_out(content: str, given: str, here: bool = False) -> Answer:
    """Carry out one task in any process; return the bytes of the result's file, or why there is
    none.

    Linear algebra uses one thread everywhere, because the number of its threads changes the last
    digits. A worker process keeps that limit: several threads may be at work there, and none of
    them should remove the limit of another. ``here`` restores it, in the process that asked.
    """
    # scipy.linalg has a BLAS of its own, which must be loaded before the limit is set.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    task = json.loads(content)
    try:
        work = find(task["work"])
        if source_of(task["work"]) != task["source"]:
            return (
                "the worker's source code differs from that of the process that asked: "
                "install the same version on both, or restart both"
            )
        limits = threadpool_limits(1)
        try:
            arrays, numbers = work(task["description"], **json.loads(given))
        finally:
            if here:
                limits.restore_original_limits()
        return pack(task, arrays, numbers)
    except LevywalkError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """Return the file and line of an unexpected error, because its traceback stays in the
    worker.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})" if trace else ""


def problem_with(answer: bytes, task: Task) -> str | None:
    """Return why the bytes are not the result of the task, or None if they are."""
    try:
        found = unpack(answer).description
    except Exception as error:  # damaged bytes make zipfile, json and numpy raise anything
        return f"the worker's answer cannot be used: {error}"
    return None if found == task.content else "the worker's answer belongs to another task"
