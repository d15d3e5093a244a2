"""Let an operator work on a fleet of real processes while they are killed, and check what is left:
``python -m levywalk.fleet.checking.service``.

One fleet walks. A thread of its own kills a random process (SIGKILL) at regular times, and brings
it back a little later, whatever else happens. Meanwhile an operator types commands, each as a
process of its own, one after the other: `levywalk fleet rotate`, `fleet join` and `fleet revoke`.
Now and then the command itself is killed. A command that fails, or was killed, is typed again, and
must succeed then.

At the end the nodes are stopped, and I1 to I7 are checked from all disks. No update may be lost but
those that a revoked node had made itself and not handed over.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levywalk.errors import LevywalkError
from levywalk.fleet.checking.log_pieces import pieces
from levywalk.fleet.checking.logs import WalkVerdict, judge_folder
from levywalk.fleet.checking.processes import say, settle
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import winning_chain
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.network import watts_strogatz

PATIENCE = 600.0  # seconds after which something hangs, however slow the machine is
_DIM = 10
_TYPED = 6  # times that a command is typed before it counts as failed
_STEPS = 5  # that the walk must make between two commands
_MOST_JOINS, _MOST_REVOKED = 10, 5  # in one run


class Kill(NamedTuple):
    """A process that was killed."""

    node: int
    during: str  # the command that ran at that moment; empty if there was none
    meant: bool  # whether the command was about this node


class Killer(threading.Thread):
    """Kills a random node at regular times, and brings it back.

    Parameters
    ----------
    folder
        The fleet's folder.
    every
        Seconds between two kills.
    away
        The longest time, in seconds, for which a node stays away.
    """

    def __init__(self, folder: Path, draws: random.Random, every: float, away: float) -> None:
        super().__init__(daemon=True)
        self.folder, self.every, self.away = folder, every, away
        self._draws, self._over = draws, threading.Event()
        self.kills: list[Kill] = []
        self.command, self.about = "", ()  # type: str, tuple[int, ...]
        self.spared: set[int] = set()  # nodes that were revoked
        self.error: BaseException | None = None

    def run(self) -> None:
        """Kill and bring back until it is over."""
        try:
            due = time.monotonic() + self.every
            while not self._over.wait(max(0.0, due - time.monotonic())):
                due += self.every
                if self._kill():
                    self._over.wait(self._draws.uniform(0.0, self.away))
                    self.bring_back()
        except BaseException as error:
            self.error = error
            raise

    def _kill(self) -> bool:
        fleet = FleetFolder.open(self.folder)
        there = [v for v in fleet.ids if v not in self.spared]
        wanted = [v for v in self.about if v in there]
        # every second kill is one of a node that the operator works on, if there is one
        node = self._draws.choice(wanted if wanted and self._draws.random() < 0.5 else there)
        pid = running(fleet.files[node].state)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills.append(Kill(node, self.command, node in self.about))
        return True

    def bring_back(self) -> None:
        """Start what does not run, as an operator does; other commands may start it as well."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                FleetFolder.open(self.folder).up(PATIENCE)
                return
            except LevywalkError:  # another command has stopped a node just then: again
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def end(self) -> None:
        """End the kills, with all nodes running."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error
        self.bring_back()


@dataclass
class Service:
    """What the operator has done."""

    typed: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)  # because it failed
    killed: Counter[str] = field(default_factory=Counter)  # commands that were killed themselves
    said: list[str] = field(default_factory=list)  # why a command was typed again
    joined: list[int] = field(default_factory=list)
    revoked: list[int] = field(default_factory=list)
    rotated: int = 0


class Operator:
    """Types commands about a fleet while its processes are killed.

    Parameters
    ----------
    interrupts
        The probability that a command is killed, at its first try.
    """

    def __init__(
        self, folder: Path, draws: random.Random, killer: Killer, interrupts: float = 0.25
    ) -> None:
        self.folder, self.draws, self.killer = folder, draws, killer
        self.interrupts, self.found = interrupts, Service()
        self._samples = np.random.default_rng(draws.randrange(1 << 30))

    def type_in(self, words: Sequence[str], about: Sequence[int]) -> str:
        """Type a command until it succeeds; return what it has printed."""
        name = words[1]
        self.killer.command, self.killer.about = name, tuple(about)
        breaks = name != "revoke" and self.draws.random() < self.interrupts
        try:
            for _ in range(_TYPED):
                self.found.typed[name] += 1
                patience = self.draws.uniform(0.5, 6.0) if breaks else PATIENCE
                breaks = False
                code, output = _run(words, patience)
                if code == 0 or "has joined already" in output:
                    return output
                if code is None:
                    self.found.killed[name] += 1
                    continue
                self.found.repeated[name] += 1
                self.found.said.append(f"{' '.join(words[:2])}: {output.strip()}")
        finally:
            self.killer.command, self.killer.about = "", ()
        raise Violation("operator", f"{' '.join(words)} fails again and again: {output}")

    def goes_on(self, steps: int = _STEPS) -> None:
        """Wait until the walk has made some steps."""
        before, end = self._step(), time.monotonic() + PATIENCE
        while self._step() < before + steps:
            if time.monotonic() > end:
                raise Violation("I2", f"the walk does not go on from step {before}")
            if self.killer.error is not None:
                raise self.killer.error
            time.sleep(0.2)

    def _step(self) -> int:
        return int(FleetFolder.open(self.folder).status(5.0)["step"] or 0)

    # Commands

    def rotate(self, nodes: Sequence[int] | None) -> None:
        """Give some nodes new keys, or all of them."""
        at = str(self.folder)
        fleet = FleetFolder.open(self.folder)
        for v in [None] if nodes is None else nodes:
            one = [] if v is None else ["--node", str(v)]
            self.type_in(["fleet", "rotate", at, *one], fleet.ids if v is None else [v])
            self.found.rotated += len(fleet.ids) if v is None else 1

    def join(self, neighbours: Sequence[int]) -> int:
        """Let a node join; return its number."""
        number = FleetFolder.open(self.folder).manifest.nodes
        data = self.folder.parent / f"new-{number}.npz"
        np.savez(data, features=self._samples.normal(size=(1, _DIM)), targets=np.ones(1))
        near = ",".join(map(str, neighbours))
        words = ["fleet", "join", str(self.folder), "--neighbours", near, "--data", str(data)]
        self.type_in(words, [*neighbours, number])
        now = FleetFolder.open(self.folder).manifest.nodes
        if now != number + 1:
            raise Violation("join", f"the fleet had {number} nodes and has {now} after one join")
        self.found.joined.append(number)
        return number

    def revoke(self, node: int) -> None:
        """Revoke a node."""
        self.killer.spared.add(node)
        self.type_in(["fleet", "revoke", str(self.folder), str(node)], [])
        self.found.revoked.append(node)

    def rest_is_connected(self, without: set[int]) -> bool:
        """Return whether the other nodes are connected without these."""
        edges = FleetFolder.open(self.folder).neighbours()
        alive = [v for v in edges if v not in without]
        seen, todo = {alive[0]}, [alive[0]]
        while todo:
            for u in edges[todo.pop()]:
                if u not in without and u not in seen:
                    seen.add(u)
                    todo.append(u)
        return len(seen) == len(alive)

    def work(self, until: Callable[[int, list[Kill]], bool]) -> None:
        """Type all commands in turn, until so many rounds and kills are enough."""
        rounds = 0
        while not until(rounds, self.killer.kills):
            ids = [v for v in FleetFolder.open(self.folder).ids if v not in self.found.revoked]
            if rounds == 0:
                self.rotate(None)
            else:
                self.rotate(self.draws.sample(ids, 2))
            self.goes_on()
            for _ in range(min(2, _MOST_JOINS - len(self.found.joined))):
                self.join(sorted(self.draws.sample(ids, 2)))
                self.goes_on()
            gone = set(self.found.revoked)
            free = [v for v in ids if v != 0 and self.rest_is_connected(gone | {v})]
            if free and len(gone) < _MOST_REVOKED:
                self.revoke(self.draws.choice(free))
                self.goes_on()
            rounds += 1


def _run(words: Sequence[str], patience: float) -> tuple[int | None, str]:
    """Run a command; return its exit code, None if it was killed, and its output."""
    command = [sys.executable, "-m", "levywalk", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0].decode(errors="replace")
    return process.returncode, output.decode(errors="replace")


def who_lost(fleet: Fleet, folder: Path) -> Counter[int]:
    """Return which nodes had made the updates that do not count."""
    logs: dict[int, list[Line]] = {}
    for piece in pieces(folder):
        logs.setdefault(piece.node, []).extend(piece.lines)
    chain = winning_chain(logs, fleet.published)
    if chain.lost is None:
        raise Violation("report", "the merged logs do not tell which updates are lost")
    made = {
        (Epoch(*line.token_epoch), line.step): v
        for v, lines in logs.items()
        for line in lines
        if isinstance(line, Visit)
    }
    return Counter(made[place] for place in chain.lost)


def run_service(
    folder: Path,
    draws: random.Random,
    every: float,
    until: Callable[[int, list[Kill]], bool],
    away: float,
) -> tuple[Service, list[Kill], WalkVerdict]:
    """Run a fleet, kill its nodes and work on it; return what was done and what is left of it."""
    fleet = FleetFolder.open(folder)
    killer = Killer(folder, random.Random(draws.randrange(1 << 30)), every, away)
    operator = Operator(folder, draws, killer)
    try:
        fleet.up(PATIENCE)
        operator.goes_on()
        killer.start()
        operator.work(until)
        killer.end()
        operator.goes_on()
    finally:
        killer._over.set()
        FleetFolder.open(folder).stop(PATIENCE, force=True)
    whole = fleet_of(folder)
    verdict = judge_folder(whole, folder)
    lost = who_lost(whole, folder)
    if lost.total() != verdict.lost or set(lost) - set(operator.found.revoked):
        raise Violation("loss", f"updates of nodes that were not revoked are lost: {dict(lost)}")
    return operator.found, killer.kills, verdict


def summary(
    found: Service, kills: list[Kill], verdict: WalkVerdict, nodes: int, seconds: float
) -> str:
    """Return what a person wants to know.

    Examples
    --------
    >>> found = Service(joined=[20, 21], revoked=[7], rotated=22)
    >>> kills = [Kill(3, "join", True), Kill(5, "", False)]
    >>> verdict = WalkVerdict(900, 700, 2, 0, 0, 300)
    >>> print(summary(found, kills, verdict, 20, 90.0).splitlines()[2])
    kills while a command ran, of nodes that it was about      1, 1
    """
    during = [one for one in kills if one.during]
    rows = [
        ("processes at first, and minutes", f"{nodes}, {seconds / 60:.1f}"),
        ("kills", f"{len(kills)}"),
        (
            "kills while a command ran, of nodes that it was about",
            f"{len(during)}, {sum(one.meant for one in during)}",
        ),
        ("commands typed", f"{found.typed.total()}"),
        ("typed again after an error", f"{found.repeated.total()}"),
        ("commands that were killed, and typed again", f"{found.killed.total()}"),
        ("new keys, joined nodes, revoked nodes", _counts(found)),
        ("updates that count", f"{verdict.steps:,}"),
        ("hand-offs", f"{verdict.handoffs:,}"),
        ("epochs", f"{verdict.epochs}"),
        ("models that equal the replay's, to the bit", f"{verdict.models:,}"),
        ("updates lost", f"{verdict.lost}"),
    ]
    lines = [f"{name:<58} {value}" for name, value in rows]
    lines += [f"typed again: {text}" for text in found.said]
    lines.append("no invariant is broken: I1 to I7 hold")
    return "\n".join(lines)


def _counts(found: Service) -> str:
    return f"{found.rotated}, {len(found.joined)}, {len(found.revoked)}"


def main(arguments: list[str] | None = None) -> int:
    """Run a fleet in service; print a summary, or what is broken; return 1 if something is."""
    asked = _parser().parse_args(arguments)
    if asked.nodes < 6 or asked.minutes <= 0 or asked.every <= 0:
        say("Error: --nodes must be at least 6, --minutes and --every more than 0")
        return 2
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    root = Path(tempfile.mkdtemp(prefix="levywalk-")) if asked.keep is None else Path(asked.keep)
    draws = random.Random(seed)
    network = watts_strogatz(asked.nodes, 4, 0.1, seed=draws.randrange(1000))
    terms = HandOffTerms(b"", dead_after=asked.dead_after)
    say(f"seed {seed}, {asked.nodes} processes, a kill every {asked.every:g} s")
    folder = settle(root / "fleet", network, seed=draws.randrange(1000), terms=terms, dim=_DIM)
    began = time.monotonic()
    end = began + 60.0 * asked.minutes
    try:
        found, kills, verdict = run_service(
            folder, draws, asked.every, lambda *_: time.monotonic() > end, min(5.0, asked.every / 2)
        )
    except LevywalkError as error:
        say(f"{error}\n\nseed {seed}; the fleet is in {folder}")
        return 1
    say(summary(found, kills, verdict, asked.nodes, time.monotonic() - began))
    if asked.keep is None:
        shutil.rmtree(root)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m levywalk.fleet.checking.service",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=6.0, help="how many minutes (default: %(default)s)")
    add("--nodes", type=int, default=20, help="processes at first (default: %(default)s)")
    add("--every", type=float, default=10.0, help="seconds between kills (default: %(default)s)")
    add(
        "--dead-after",
        type=float,
        default=60.0,
        help="seconds after which a silent node is considered dead (default: %(default)s)",
    )
    add("--seed", type=int, help="seed of kills and commands; drawn and printed if not given")
    add("--keep", metavar="DIR", help="keep the fleet's folder in this one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
