"""The operator's connection to a node on the same machine: a Unix socket in its folder, one JSON
object each way.

Whoever may open the socket may give orders. The permissions of the folder are the only protection,
and no network port is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.runtime.few_connections import FewConnections, Report

SOCKET = "control"
MOST = 1 << 20  # largest question or answer, in bytes
_MOST_LINES = 32  # connections at a time
_LONGEST = 100  # longest path of a socket that every system accepts, in bytes

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class NoAnswer(LevywalkError, ConnectionError):
    """The node does not run, or does not answer in time."""


def ask(state: str | Path, do: str, *, timeout: float = 5.0, **about: Any) -> dict[str, Any]:
    """Send a question or an order to a node; return its answer.

    Raises
    ------
    NoAnswer
        If it does not run, or is stopped.
    InvalidParameter
        If it refuses, with its reason.
    """
    state = Path(state)
    question = json.dumps({"do": do} | about).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as line, _address(state) as address:
            line.settimeout(timeout)
            line.connect(address)
            line.sendall(question)
            with line.makefile("rb") as answers:
                raw = answers.readline(MOST)
        answer = json.loads(raw)
    except (OSError, ValueError):
        raise NoAnswer(
            f"the node of {state} does not answer: it does not run, or it is stopped; see "
            "levywalk fleet doctor DIR, and start it with levywalk fleet up DIR"
        ) from None
    if "error" in answer:
        raise InvalidParameter(str(answer["error"]))
    return dict(answer)


@contextlib.contextmanager
def _address(state: Path) -> Iterator[str]:
    """Yield a path of the socket that is short enough for the operating system."""
    path = str(state / SOCKET)
    if len(os.fsencode(path)) <= _LONGEST:
        yield path
        return
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = f"/proc/self/fd/{folder}/{SOCKET}"
        yield short if Path("/proc/self/fd").is_dir() else path
    finally:
        os.close(folder)


def serve(state: Path, answer: Answer, report: Report) -> FewConnections:
    """Answer questions.

    The caller has the folder's lock, so a socket that is already there is a leftover.
    """
    (state / SOCKET).unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        with _address(state) as address:
            line.bind(address)
            line.listen(_MOST_LINES)
    except OSError as error:
        line.close()
        raise InvalidParameter(
            f"{state / SOCKET} cannot be opened: {error.strerror or error}"
        ) from None
    finally:
        os.umask(mask)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = _answered(await reader.readline(), answer)
        writer.write(json.dumps(found).encode() + b"\n")

    return FewConnections(line, connected, most=_MOST_LINES, limit=MOST, report=report)


def _answered(question: bytes, answer: Answer) -> dict[str, Any]:
    try:
        asked = json.loads(question)
        if not isinstance(asked, dict):
            raise InvalidParameter("a question must be a JSON object")
        return answer(asked)
    except LevywalkError as error:
        return {"error": str(error)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return {"error": f"the question cannot be understood: {error}"}
