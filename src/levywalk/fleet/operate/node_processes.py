"""The processes of nodes that a command starts and stops on this machine, and waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from levywalk.errors import LevywalkError
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.launch import RUNS_ALREADY
from levywalk.fleet.runtime.node_status import running

_WAIT = 0.05, 0.5  # seconds between looks, at first and at most
_AGAIN = 3  # times that a node which is killed is started again
_TAIL = 5  # lines of a log that tell why a process ended
_children: dict[
    int, subprocess.Popen[bytes]
] = {}  # child processes, by pid; they must be waited for when they end


Say = Callable[[str], None]


class FleetProblem(LevywalkError, RuntimeError):
    """The fleet cannot do what was asked; the message says which nodes, and why."""


def nothing_said(_: str) -> None:
    """Report no progress."""


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
    end again for the same reason. One that another command has started at the same time runs.

    Parameters
    ----------
    start
        Starts the process of a node.
    runs
        Returns whether a node's process runs.
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
            by_itself = code is not None and code >= 0 and code != RUNS_ALREADY
            if by_itself or self._times[v] > _AGAIN:
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
            _children.pop(pid, None)  # another thread may have seen it, too


def tail(path: Path) -> str:
    """Return the last lines of a log, which tell why a process ended."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  ({error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-_TAIL:])


def stop_processes(
    states: Mapping[int, Path], timeout: float, *, force: bool, say: Say
) -> list[int]:
    """Stop the nodes that run, of those with these state folders, and wait until their processes
    have ended; return them. ``force`` kills those that do not end in time.

    Raises
    ------
    FleetProblem
        If some still run.
    """
    reap()
    runs = {v: pid for v, state in states.items() if (pid := running(state)) is not None}
    for v, pid in runs.items():
        _order_stop(v, pid, states[v])
    left = _await_end(runs, states, time.monotonic() + timeout, say)
    if force and left:
        for v in left:
            _signal(v, runs[v], states[v], signal.SIGKILL)
        left = _await_end(runs, states, time.monotonic() + timeout, say)
    if left:
        shown = ", ".join(f"{v} (process {runs[v]})" for v in sorted(left))
        raise FleetProblem(
            f"nodes {shown} still run after {timeout:g} s; --force kills them, and loses nothing"
        )
    return sorted(runs)


def _order_stop(node: int, pid: int, state: Path) -> None:
    _signal(node, pid, state, signal.SIGCONT)  # a stopped process could not receive the order
    try:
        control.ask(state, "stop", timeout=1.0)
    except LevywalkError:
        _signal(node, pid, state, signal.SIGTERM)


def _signal(node: int, pid: int, state: Path, number: signal.Signals) -> None:
    """Send a signal to a node's process, after checking that the process id is still the node's."""
    if running(state) == pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            raise FleetProblem(
                f"node {node} (process {pid}) belongs to another user: stop it as that user"
            ) from None


def _await_end(
    runs: Mapping[int, int], states: Mapping[int, Path], until: float, say: Say
) -> set[int]:
    left = set(runs)
    for _ in looks(until):
        reap()
        left = {v for v in left if running(states[v]) == runs[v]}
        say(f"{len(runs) - len(left)} of {len(runs)} nodes have ended")
        if not left:
            break
    return left
