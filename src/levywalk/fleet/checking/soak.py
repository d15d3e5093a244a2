"""Run a large fleet of real processes under faults for long, and check what is left of it:
``python -m levywalk.fleet.checking.soak``.

One fleet walks. At regular times a fault begins, of every kind in turn: processes are killed,
stopped and ended, disks are lost and rolled back, links are cut, delayed, reset and flap, the
network is split into halves. Faults overlap, and nobody waits until the walk has recovered.

If the walk stands still, `fleet status` must say within a stated time that it has stopped, why, and
what to do. That is then done: `fleet revive`, if no copy is left that could continue by itself. A
walk that makes no steps although the status does not say so is an error.

With ``--memory`` nodes remember: the walk asks for the oldest neighbour, and the update is SAGA.

At the end all faults are over, the walk must go on, and the nodes are stopped. Then I1 to I8 are
checked from all disks, those that were lost included, and the number of lost updates: it equals the
one that `fleet status` shows, or lies in the range that it shows if a disk was lost.

The command for half an hour, which needs a machine with nothing else to do:

``python -m levywalk.fleet.checking.soak --minutes 30 --nodes 50 --every 10``
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from levywalk.errors import LevywalkError
from levywalk.fleet.checking.logs import WalkVerdict, judge_folder
from levywalk.fleet.checking.process_faults import (
    LOST_DISK,
    ROLLBACK,
    FaultInjector,
    ProcessFault,
)
from levywalk.fleet.checking.processes import TERMS, links, say, settle
from levywalk.fleet.checking.running_fleet import NONE, RunningFleet, WalkProgress
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.revive import revive
from levywalk.fleet.runtime.sightings import DEATHS
from levywalk.network import watts_strogatz

LOOK = 2.0  # seconds between two looks at the walk
SAYS = 20.0  # seconds that a walk may stand still, beyond what `fleet status` waits itself
ENDS = 120.0  # seconds within which all faults must be over at the end
_RESTS = 3  # looks without any progress before the status is asked


@dataclass
class Soak:
    """What has happened so far."""

    pauses: list[float] = field(default_factory=list)  # seconds without a step, the longer ones
    said: list[str] = field(default_factory=list)  # what the status said of a walk that stood still
    revived: int = 0
    faults_begun: int = 0
    late: int = 0  # faults that had to wait for a node to begin with


class SoakRun:
    """Runs one fleet under faults that overlap.

    Parameters
    ----------
    live
        The fleet, whose walk has begun.
    every
        Seconds between the beginnings of two faults.
    """

    def __init__(self, live: RunningFleet, draws: random.Random, every: float) -> None:
        self.live, self.draws, self.every = live, draws, every
        self.injector = FaultInjector(live, draws)
        self.found = Soak()
        self.dead_after = live.fleet.terms.dead_after
        self._deck: list[str] = []
        self._due: list[tuple[float, ProcessFault, int]] = []
        self._last, self._moved = NONE, time.monotonic()
        self._told = ""

    # Faults

    def _kind(self) -> str:
        """Return the next kind: all kinds come up equally often, in random order."""
        if not self._deck:
            self._deck = list(self.injector.kinds)
            self.draws.shuffle(self._deck)
        return self._deck.pop()

    def _begin(self) -> None:
        """Begin a fault at a node that has none."""
        kind = self._kind()
        taken = {v for _, _, v in self._due}
        if kind in (LOST_DISK, ROLLBACK) and any(
            fault.kind in (LOST_DISK, ROLLBACK) for _, fault, _ in self._due
        ):
            kind = "kill"  # one disk at a time; two in short succession may happen
        free = [v for v in range(self.live.n) if v not in taken and self.live.runs(v)]
        if not free:
            self.found.late += 1
            return
        fault, v = self.injector.made(kind, self.live.roles(), taken)
        self.injector.say(f"{kind}: {fault.text}")
        self.injector.tally.kinds[kind] += 1
        self.found.faults_begun += 1
        self._due.append((time.monotonic(), fault, v))

    def _advance(self) -> None:
        """Let all faults take their next steps that are due."""
        for entry in sorted(self._due, key=lambda one: one[0]):
            at, fault, v = entry
            if at <= time.monotonic():
                self._due.remove(entry)
                pause = next(fault.stages, None)
                if pause is None:
                    self.injector.say(f"{fault.kind} is over: {fault.text}")
                else:
                    self._due.append((time.monotonic() + pause, fault, v))

    # The walk

    def _look(self) -> None:
        """Check whether the walk continues; if it does not for long, it must say why."""
        now, pulse = time.monotonic(), self.live.pulse()
        if pulse.goes_on_from(self._last) or self._last == NONE:
            if now - self._moved > self.dead_after:
                self.found.pauses.append(now - self._moved)
                self.injector.say(f"went on after {now - self._moved:.1f} s, at {pulse}")
            self._last, self._moved, self._told = max(pulse, self._last), now, ""
            return
        still = now - self._moved
        if still > _RESTS * LOOK + self.dead_after and not self._told:
            self._ask(still)

    def _ask(self, still: float) -> None:
        """Ask the status why the walk stands still, and do what it says."""
        fleet = FleetFolder.open(self.live.folder)
        status = fleet.status(patience=5.0)
        stopped, waits = status["stopped"], status["waits"]
        if stopped is not None:
            self._told = stopped
            self.found.said.append(stopped)
            self.injector.say(f"the status says: {stopped}")
            if "fleet revive" in stopped:
                self._revive(fleet)
        elif still > DEATHS * self.dead_after + SAYS and not waits and not self._due:
            raise Violation(
                "silence",
                f"the walk makes no step for {still:.0f} s, and the status does not say so",
            )

    def _revive(self, fleet: FleetFolder) -> None:
        try:
            done = revive(fleet, timeout=60.0)
        except LevywalkError as error:
            self.injector.say(f"not revived: {error}")
            self._told = ""  # look again
            return
        self.found.revived += 1
        self.injector.say(f"revived from step {done.copy.step} at {done.copy.where}")
        self._last = NONE

    def run(self, seconds: float) -> None:
        """Inject faults for so long; then let all of them end, and the walk go on."""
        began = self._moved = time.monotonic()
        strike = look = began
        while (now := time.monotonic()) < began + seconds:
            if now >= strike:
                strike += self.every
                self._begin()
            self._advance()
            if now >= look:
                look = now + LOOK
                self._look()
                _show(began, seconds, self.found, self._last)
            time.sleep(0.05)
        end = time.monotonic() + ENDS
        while self._due and time.monotonic() < end:
            self._advance()
            time.sleep(0.05)
        if self._due:
            names = ", ".join(f"{fault.kind} ({fault.text})" for _, fault, _ in self._due)
            raise Violation("faults", f"these do not end within {ENDS:.0f} s: {names}")
        self.goes_on()

    def goes_on(self) -> None:
        """Wait until the walk continues after all faults, with the operator's help if it says
        so.
        """
        since, end = self.live.pulse(), time.monotonic() + DEATHS * self.dead_after + ENDS
        self._moved, self._told = time.monotonic(), ""
        while not self.live.pulse().goes_on_from(since):
            if time.monotonic() > end:
                status = FleetFolder.open(self.live.folder).status(patience=5.0)
                raise Violation(
                    "I2", f"the walk does not go on from {since}; the status says {status['waits']}"
                )
            self._last = max(self._last, since)
            revivals = self.found.revived
            self._look()
            if self.found.revived > revivals:
                since = self.live.pulse()
            time.sleep(LOOK)


def summary(
    found: Soak, kinds: dict[str, int], verdict: WalkVerdict, seconds: float, nodes: int
) -> str:
    """Return what a person wants to know."""
    least, most = verdict.shown
    shown = (
        f"{least:,}"
        if most == least
        else f"{least:,} to {'any number' if most is None else f'{most:,}'}"
    )
    rows = [
        ("processes, and minutes", f"{nodes}, {seconds / 60:.1f}"),
        ("faults", f"{sum(kinds.values())}"),
        ("updates that count", f"{verdict.steps:,}"),
        ("hand-offs", f"{verdict.handoffs:,}"),
        ("epochs", f"{verdict.epochs:,}"),
        ("models that equal the replay's, to the bit", f"{verdict.models:,}"),
        ("memories of nodes that equal the replay's", f"{verdict.entries:,}"),
        ("times that memory started again", f"{verdict.generations:,}"),
        ("neighbours that did not answer in time", f"{verdict.silences:,}"),
        ("updates lost, by the replay of all disks", f"{verdict.lost:,}"),
        ("updates lost, as fleet status shows them", shown),
        ("of them reported by the nodes themselves", f"{verdict.reported:,}"),
        ("times that the walk stood for dead_after", f"{len(found.pauses)}"),
        ("times that it said that it had stopped", f"{len(found.said)}"),
        ("times that it was revived", f"{found.revived}"),
    ]
    lines = [f"  {kind:<12} {count:>5}" for kind, count in sorted(kinds.items())]
    lines += [f"{name:<44} {value:>16}" for name, value in rows]
    if found.pauses:
        lines.append(
            f"seconds of those pauses: median {statistics.median(found.pauses):.0f}, most "
            f"{max(found.pauses):.0f}"
        )
    lines += [f"it said: {text}" for text in found.said]
    lines.append("no invariant is broken: I1 to I8 hold")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run a soak; print a summary, or what is broken; return 1 if something is."""
    asked = _parser().parse_args(arguments)
    if asked.nodes < 6 or asked.minutes <= 0 or asked.every <= 0:
        say(
            f"Error: --nodes must be at least 6, --minutes and --every more than 0, got "
            f"{asked.nodes}, {asked.minutes:g} and {asked.every:g}"
        )
        return 2
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    root = Path(tempfile.mkdtemp(prefix="levywalk-")) if asked.keep is None else Path(asked.keep)
    draws = random.Random(seed)
    terms = replace(TERMS, heartbeat=asked.dead_after / 8, dead_after=asked.dead_after, retry=0.5)
    network = watts_strogatz(asked.nodes, 4, 0.1, seed=draws.randrange(1000))
    between = None
    try:
        between = links(asked.network, asked.nodes)
        name = "loopback, never broken" if between is None else between.name
        say(f"seed {seed}, network: {name}, {asked.nodes} processes, {asked.minutes:g} minutes")
        drawn, memory = draws.randrange(1000), 0 if asked.memory else None
        folder = settle(root / "fleet", network, seed=drawn, terms=terms, memory=memory)
        with RunningFleet(folder, between) as live:
            run = SoakRun(live, draws, asked.every)
            try:
                live.begin(patience=600.0)
                began = time.monotonic()
                run.run(60.0 * asked.minutes)
                seconds = time.monotonic() - began
                for v in live.running():
                    live.end(v)
                verdict = judge_folder(live.fleet, folder)
            finally:
                (folder / "timeline.txt").write_text("\n".join(run.injector.tally.timeline) + "\n")
    except Violation as broken:
        say(f"\n{broken}\n\nseed {seed}; what happened is in {folder / 'timeline.txt'}")
        return 1
    except LevywalkError as error:
        say(f"Error: {error}")
        return 1
    finally:
        if between is not None:
            between.close()
    say(summary(run.found, dict(run.injector.tally.kinds), verdict, seconds, asked.nodes))
    if asked.keep is None:
        shutil.rmtree(root)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m levywalk.fleet.checking.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=30.0, help="how many minutes (default: %(default)s)")
    add("--nodes", type=int, default=50, help="number of processes (default: %(default)s)")
    add("--every", type=float, default=10.0, help="seconds between faults (default: %(default)s)")
    add(
        "--dead-after",
        type=float,
        default=8.0,
        help="seconds after which a silent node is considered dead (default: %(default)s)",
    )
    add("--memory", action="store_true", help="with a method that has memory at the nodes")
    add("--seed", type=int, help="seed of the faults; drawn and printed if it is not given")
    add(
        "--network",
        choices=("auto", "netns", "proxy", "none"),
        default="proxy",
        help="how links are broken; a proxy (the default) has all kinds of faults",
    )
    add("--keep", metavar="DIR", help="keep the fleet's folder in this one")
    return parser


def _show(began: float, seconds: float, found: Soak, at: WalkProgress) -> None:
    if sys.stderr.isatty():
        done = time.monotonic() - began
        sys.stderr.write(
            f"\r{done / 60:.1f} of {seconds / 60:.1f} min, {found.faults_begun} faults, step "
            f"{at.step:,}, epoch {at.epoch[0]} "
        )
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
