"""The processes of nodes that a command starts on this machine, and waits for."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_WAIT = 0.05, 0.5  # seconds between looks, at first and at most
_AGAIN = 3  # times that a node which is killed is started again
_TAIL = 5  # lines of a log that tell why a process ended
_children: dict[
    int, subprocess.Popen[bytes]
] = {}  # child processes, by pid; they must be waited for when they end


def start_process(place: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the process of the node in a folder; its output is added to the log."""
    from levywalk.fleet.runtime.launch import ENVIRONMENT, command

    with log.open("ab") as file:
        process = subprocess.Popen(
            command(place / "node.toml"),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            close_fds=True,
            env=os.environ | ENVIRONMENT,
            cwd=place,
        )
    _children[process.pid] = process
    return process


class Starting:
    """The nodes that a command starts, and starts again if they are killed while it waits.

    A node that ends by itself, because of a wrong file for example, is not started again: it would
    end again for the same reason.

    Parameters
    ----------
    start
        Starts the process of a node.
    runs
        Tells whether a node's process runs.
    """

    def __init__(
        self, start: Callable[[int], subprocess.Popen[bytes]], runs: Callable[[int], bool]
    ) -> None:
        self._start, self._runs = start, runs
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._times: Counter[int] = Counter()
        self.ended: dict[int, int | None] = {}  # nodes that are given up, with their exit codes

    @property
    def started(self) -> list[int]:
        """The nodes that were started, in order."""
        return sorted(self._processes)

    def see_to(self, nodes: Iterable[int]) -> list[int]:
        """Start those that do not run; return them."""
        fresh = []
        for v in nodes:
            process = self._processes.get(v)
            code = None if process is None else process.poll()
            if v in self.ended or (process is not None and code is None) or self._runs(v):
                continue
            if (code is not None and code >= 0) or self._times[v] > _AGAIN:
                self.ended[v] = code
                continue
            self._times[v] += 1
            self._processes[v] = self._start(v)
            fresh.append(v)
        return fresh


def looks(until: float) -> Iterator[None]:
    """Yield at once, and then after growing pauses, until the time is over."""
    pause = _WAIT[0]
    while True:
        yield
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(1.5 * pause, _WAIT[1])


def reap() -> None:
    """Wait for child processes that have ended."""
    for pid, process in list(_children.items()):
        if process.poll() is not None:
            del _children[pid]


def tail(path: Path) -> str:
    """Return the last lines of a log, which tell why a process ended."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  ({error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-_TAIL:])
