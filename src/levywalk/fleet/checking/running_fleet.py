"""A fleet of real processes that a test controls:
it starts, kills, stops and asks them one by one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from levywalk.errors import InvalidParameter
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.records import Guarded, Held, HeldStatus
from levywalk.fleet.runtime.control import NoAnswer, ask
from levywalk.fleet.runtime.launch import ENVIRONMENT, command
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.failpoints import VARIABLE
from levywalk.fleet.storage.reader import StoreReader

POLL = 0.05  # seconds


class Links(Protocol):
    """The network between the nodes, and how it is broken."""

    name: str
    kinds: tuple[str, ...]  # kinds of faults that it supports

    def settle(self, files: list[Path]) -> None:
        """Change the node files so that the nodes use it."""

    def command(self, v: int, command: list[str]) -> list[str]:
        """Return how a node's command is run."""

    def cut(self, a: int, b: int) -> None:
        """Let nothing pass from a to b."""

    def heal(self, a: int, b: int) -> None:
        """Let everything pass again."""

    def delay(self, v: int, seconds: float) -> None:
        """Delay everything that a node sends; 0 ends it."""

    def reset(self, a: int, b: int) -> None:
        """Break the connections between two nodes."""

    def close(self) -> None:
        """Remove everything."""


class WalkProgress(NamedTuple):
    """How far the walk is, as far as can be seen. The larger of two is the later one."""

    epoch: tuple[int, ...]
    step: int
    transfers: int
    base: int  # the step at which the epoch began

    def goes_on_from(self, other: WalkProgress) -> bool:
        """Return whether updates were made since. A new epoch alone does not count."""
        if self.epoch == other.epoch:
            return self.step > other.step
        return self.epoch > other.epoch and self.step > self.base


NONE = WalkProgress((-1, 0, 0), 0, 0, 0)


class RunningFleet:
    """The processes of a fleet's folder.

    All of them are stopped at the end of the ``with`` block.

    Parameters
    ----------
    folder
        A folder that `levywalk.fleet.setup.create.create` has made.
    links
        The network between the nodes; None for the loopback interface.
    """

    def __init__(self, folder: Path, links: Links | None = None) -> None:
        self.folder, self.links = folder, links
        self.fleet: Fleet = fleet_of(folder)
        self.limits = Manifest.read(folder / "manifest.json").limits
        self.n = self.fleet.network.n
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.frozen: set[int] = set()
        self.lost_disks = 0
        if links is not None:
            links.settle([folder / f"node-{v}" / "node.toml" for v in range(self.n)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for v in range(self.n):
            self.kill(v)

    def state(self, v: int) -> Path:
        """Return a node's state folder."""
        return self.folder / f"node-{v}" / "state"

    def neighbours(self, v: int) -> list[int]:
        """Return the neighbours of a node."""
        return [int(u) for u in self.fleet.network.neighbours(v) if u != v]

    # Processes

    def start(self, v: int, failpoint: str | None = None) -> None:
        """Start a node's process. It runs when this returns, but may not answer yet."""
        assert not self.runs(v)
        run = command(self.folder / f"node-{v}" / "node.toml")
        environment = (
            os.environ | ENVIRONMENT | ({} if failpoint is None else {VARIABLE: failpoint})
        )
        with (self.folder / f"node-{v}" / "node.log").open("ab") as log:
            self._processes[v] = subprocess.Popen(
                run if self.links is None else self.links.command(v, run),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def runs(self, v: int) -> bool:
        """Whether a node's process exists."""
        return v in self._processes and self._processes[v].poll() is None

    def running(self) -> list[int]:
        """Return the nodes that run and are not frozen."""
        return [v for v in range(self.n) if v not in self.frozen and self.runs(v)]

    def kill(self, v: int) -> None:
        """Kill a process with SIGKILL, and wait until it has ended."""
        if self.runs(v):
            self._processes[v].kill()
            self._processes[v].wait()
        self.frozen.discard(v)

    def end(self, v: int) -> int:
        """Ask a node to stop, and wait; return its exit code."""
        process = self._processes[v]
        process.terminate()
        try:
            return process.wait(15.0)
        except subprocess.TimeoutExpired:
            raise Violation("stop", f"node {v} does not stop when it is told to") from None

    def freeze(self, v: int) -> None:
        """Stop a process (SIGSTOP)."""
        self._processes[v].send_signal(signal.SIGSTOP)
        self.frozen.add(v)

    def thaw(self, v: int) -> None:
        """Let a stopped process continue (SIGCONT)."""
        self._processes[v].send_signal(signal.SIGCONT)
        self.frozen.discard(v)

    def catch(self, role: str, patience: float = 60.0) -> int:
        """Freeze the node that has a role at this moment, and return it.

        A role is "holder" (it works, or the next node does not have the token yet, so that the
        guardian was not asked), "releasing" (the next node has it, and the guardian may have been
        asked, and may have answered), "guardian" (of a holder that is active), or "next" (the token
        is prepared there).
        """
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for v in self.running():
                if self._has(v, role):
                    self.freeze(v)
                    if self._has(v, role):
                        return v
                    self.thaw(v)
        raise Violation("I2", f"for {patience:.0f} s there was no {role}")

    def _has(self, v: int, role: str) -> bool:
        held, guarded = self._disk(v)
        if role == "guardian":
            if guarded is None or guarded.register is not None or guarded.holder < 0:
                return False
            other = self._disk(guarded.holder)[0]
            place = (guarded.copy.epoch, guarded.copy.seq)
            return (
                other is not None
                and other.status != HeldStatus.PREPARED
                and (other.token.epoch, other.token.seq) == place
            )
        if held is None:
            return False
        if role == "next":
            return held.status == HeldStatus.PREPARED
        if held.status != HeldStatus.MOVING:
            return role == "holder" and held.status == HeldStatus.ACTIVE
        after = self._disk(held.to)[0]
        place = (held.token.epoch, held.token.seq + 1)
        there = after is not None and (after.token.epoch, after.token.seq) == place
        return there == (role == "releasing")

    def _disk(self, v: int) -> tuple[Held | None, Guarded | None]:
        """Return what a node holds and guards, read from its disk."""
        with (
            suppress(NodeStoreError),
            StoreReader(self.state(v), limits=self.limits) as reading,
        ):
            disk = reading.load()
            if disk is not None:
                return disk.held, disk.guarded
        return None, None

    def lose_disk(self, v: int) -> None:
        """Move a dead node's state away; the log on it can still be checked."""
        assert not self.runs(v)
        self.lost_disks += 1
        self.state(v).rename(self.state(v).with_name(f"state.lost-{self.lost_disks}"))

    def back_up(self, v: int) -> None:
        """Copy a dead node's state."""
        assert not self.runs(v)
        shutil.rmtree(self._backup(v), ignore_errors=True)
        unused = shutil.ignore_patterns("control", "lock")
        shutil.copytree(self.state(v), self._backup(v), ignore=unused)

    def roll_back(self, v: int) -> None:
        """Put the copy of a dead node's state in its place; the log on the true one can still be
        checked.
        """
        self.lose_disk(v)
        self._backup(v).rename(self.state(v))

    def is_fenced(self, v: int) -> bool | None:
        """Return whether a node's neighbours have fenced it; None if it is not known yet."""
        with suppress(NoAnswer, InvalidParameter):
            about = ask(self.state(v), "status", timeout=2.0)
            return None if about["awaits"] else about["fenced"] is not None
        return None

    def settle_rollback(self, v: int, *, fenced: bool) -> None:
        """Let a fenced node rejoin as a new one. If it is not fenced, its true disk has lost
        nothing that counts.
        """
        if fenced:
            self.kill(v)
            self.state(v).rename(self.state(v).with_name(f"fenced-{self.lost_disks}"))
            self.start(v)
        else:
            lost = self.state(v).with_name(f"state.lost-{self.lost_disks}")
            lost.rename(self.state(v).with_name(f"unseen-{self.lost_disks}"))

    def _backup(self, v: int) -> Path:
        return self.state(v).with_name("backup")

    # Status

    def begin(self, patience: float = 60.0) -> None:
        """Start all nodes, and the walk; all of them answer when this returns."""
        for v in range(self.n):
            self.start(v)
        self._until(
            lambda: self._order_begin() and self.pulse().step > 0,
            patience,
            "the walk does not start",
        )
        self._until(lambda: len(self.statuses()) == self.n, patience, "a node does not answer")

    def _order_begin(self) -> bool:
        with suppress(NoAnswer):
            ask(self.state(self.fleet.start), "begin", timeout=5.0)
            return True
        return False

    def statuses(self) -> dict[int, dict[str, Any]]:
        """Ask all running nodes; those that do not answer are left out."""
        found = {}
        for v in self.running():
            with suppress(NoAnswer, InvalidParameter):
                found[v] = ask(self.state(v), "status", timeout=2.0)
        return found

    def pulse(self) -> WalkProgress:
        """Return how far the walk is."""
        return max(
            (pulse for status in self.statuses().values() for pulse in _pulses(status)),
            default=NONE,
        )

    def roles(self) -> dict[str, int]:
        """Return the present holder, guardian and next node, as far as the nodes tell."""
        best, found = NONE, {}
        for v, status in self.statuses().items():
            held = status["held"]
            if held is not None and held["live"] and (pulse := _pulse(held)) > best:
                best = pulse
                who = {"holder": v, "guardian": held["guardian"], "next": held["to"]}
                found = {role: node for role, node in who.items() if node is not None}
        return found

    def wait(self, since: WalkProgress, patience: float) -> float:
        """Wait until updates are made beyond this progress; return how long it took."""
        began = time.monotonic()
        self._until(
            lambda: self.pulse().goes_on_from(since),
            patience,
            f"the walk does not continue from {since}",
        )
        return time.monotonic() - began

    def _until(self, holds: Any, patience: float, why: str) -> None:
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                raise Violation("I2", f"{why} for {patience:.0f} s")
            for v in range(self.n):
                self._check_alive(v)
            time.sleep(POLL)

    def _check_alive(self, v: int) -> None:
        """Raise an error if a process has ended by itself."""
        process = self._processes.get(v)
        if process is not None and process.poll() not in (None, 0, -signal.SIGKILL):
            raise Violation(
                "crash",
                f"node {v} has ended with {process.returncode}: see "
                f"{self.folder}/node-{v}/node.log",
            )


def _pulses(status: dict[str, Any]) -> Iterator[WalkProgress]:
    held = status["held"]
    if (
        held is not None and held["live"] and held["status"] != HeldStatus.SEEKING
    ):  # before anything is known
        yield _pulse(held)
    for name in ("guarded", "final"):
        if status[name] is not None:
            yield _pulse(status[name])


def _pulse(token: dict[str, Any]) -> WalkProgress:
    return WalkProgress(tuple(token["epoch"]), token["step"], token["transfers"], token["base"])
