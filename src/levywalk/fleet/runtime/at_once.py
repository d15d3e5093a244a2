"""Begin a coroutine at once, and not when the event loop comes to its task."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any


def begin_at_once(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run a coroutine until it waits for something; the rest is a task, None if it is done.

    An error is the task's, also if it happens at once: it never reaches the caller.

    Examples
    --------
    >>> async def work():
    ...     print("begun")
    ...     await asyncio.sleep(0)
    ...     print("done")
    >>> async def main():
    ...     task = begin_at_once(work())
    ...     print("waits")
    ...     await task
    >>> asyncio.run(main())
    begun
    waits
    done
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    except (Exception, asyncio.CancelledError) as error:
        return asyncio.get_running_loop().create_task(_failed(error))
    return asyncio.get_running_loop().create_task(_driven(work, awaited))


async def _failed(error: BaseException) -> None:
    raise error


async def _driven(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    """Do the rest: from Python 3.12 on a task takes a coroutine only, and no generator."""
    await _rest(work, awaited)


@types.coroutine
def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that waits for something."""
    step: Callable[[], Any]
    while True:
        try:
            found = yield awaited
        except BaseException as error:  # also if the task is cancelled
            step = partial(work.throw, error)
        else:
            step = partial(work.send, found)
        try:
            awaited = step()
        except StopIteration:
            return
