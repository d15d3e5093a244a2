"""Inject faults into real node processes, and check their logs:

``python -m levywalk.fleet.checking.processes``.

Fleets of a few nodes are created one after another. Processes are killed, stopped and ended, their
disks are lost, their links are cut. After each fault the walk must continue in time. At the end of
a fleet one node is killed for good. Then all logs are read, and checked for I1 to I8. If something
is broken, the seed, all faults and the folder, which is kept, are printed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from levywalk.fleet.checking.logs import WalkVerdict, judge_folder
from levywalk.fleet.checking.namespaces import Namespaces, NoNamespaces
from levywalk.fleet.checking.process_faults import FaultInjector, FaultTally
from levywalk.fleet.checking.proxy import Proxy
from levywalk.fleet.checking.running_fleet import Links, RunningFleet
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.create import create
from levywalk.network import Network, erdos_renyi, ring, watts_strogatz
from levywalk.problem import heterogeneous
from levywalk.walks import Walk, least_used_edge, mhlj, oldest_neighbour

NETWORKS: tuple[Callable[[int, int], Network], ...] = (
    lambda n, seed: ring(n),
    lambda n, seed: watts_strogatz(n, 4, 0.1, seed=seed),
    lambda n, seed: erdos_renyi(n, 0.5, seed=seed),
)
TERMS = HandOffTerms(b"", renew_after=20, heartbeat=0.3, dead_after=3.0, retry=0.2)
ENDLESS = 1_000_000_000  # steps
LARGE = 8300  # size of a model that is stored in a file
PER_FLEET = 60  # faults
# Methods with memory at the nodes or in the token, for every node with its samples: a walk, and an
# update. Fleets that are created one after another take them in turn.
WITH_MEMORY: tuple[tuple[Callable[[], Walk], str], ...] = (
    (oldest_neighbour, "saga"),
    (least_used_edge, "saga"),
    (mhlj, "point_saga"),
    (mhlj, "heavy_ball"),
)


@dataclass
class Total:
    """The results of all fleets."""

    tally: FaultTally = field(default_factory=FaultTally)
    verdicts: list[WalkVerdict] = field(default_factory=list)
    fleets: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [f"{self.fleets} fleets, {self.tally.kinds.total()} faults in {self.seconds:.0f} s"]
        lines += [f"  {kind:<10} {count:>6}" for kind, count in sorted(self.tally.kinds.items())]
        for name in _NAMES:
            lines.append(
                f"{_NAMES[name]:<40} {sum(getattr(one, name) for one in self.verdicts):>9,}"
            )
        for name, waits in (
            ("after a fault", self.tally.waits),
            ("after a loss", self.tally.after_loss),
        ):
            if waits:
                lines.append(
                    f"seconds until the walk went on {name}: "
                    f"median {statistics.median(waits):.2f}, most {max(waits):.2f}"
                )
        return "\n".join(lines)


_NAMES = {
    "steps": "updates that count",
    "handoffs": "hand-offs",
    "epochs": "epochs",
    "lost": "updates lost",
    "reported": "of them reported by the node itself",
    "models": "models that equal the replay's",
    "entries": "memories of nodes that equal the replay's",
    "generations": "times that memory started again",
    "silences": "neighbours that did not answer",
}


def settle(
    folder: Path,
    network: Network,
    *,
    seed: int,
    terms: HandOffTerms = TERMS,
    dim: int = 10,
    steps: int = ENDLESS,
    memory: int | None = None,
) -> Path:
    """Create a fleet for these tests: it uses full gradients, and logs many of its models.

    With ``memory`` its nodes remember: it is a number of `WITH_MEMORY`.
    """
    problem = heterogeneous(network.n, dim=dim, seed=seed, important=1)
    design, update = (mhlj, "sgd") if memory is None else WITH_MEMORY[memory % len(WITH_MEMORY)]
    return create(
        folder,
        network,
        problem,
        design(),
        update=update,
        steps=steps,
        step_size="theory",
        seed=seed,
        terms=terms,
        metrics=False,
        record_every=3,
    )


def links(kind: str, n: int) -> Links | None:
    """Return the network between the nodes."""
    if kind in ("auto", "netns"):
        try:
            return Namespaces(n)
        except NoNamespaces:
            if kind == "netns":
                raise
    return None if kind == "none" else Proxy()


def check_fleet(
    folder: Path,
    between: Links | None,
    draws: random.Random,
    faults: int,
    total: Total,
    patience: float,
) -> None:
    """Create a fleet, inject faults, stop it, and check its logs; raise `Violation` if an invariant
    is broken.
    """
    with RunningFleet(folder, between) as live:
        havoc = FaultInjector(
            live, draws, patience=patience, files=live.fleet.published.dim >= LARGE
        )
        try:
            live.begin()
            done = 0
            while done < faults:
                done += havoc.strike(min(3, faults - done))
                _progress(total, havoc.tally)
            havoc.lose(draws.choice(("holder", "releasing", "guardian", "next")))
            for v in live.running():
                live.end(v)
            verdict = judge_folder(live.fleet, folder)
        except Violation as broken:
            why = str(broken).removeprefix(f"{broken.which}: ")
            raise Violation(broken.which, "\n".join([why, *havoc.tally.timeline])) from broken
        finally:
            (folder / "timeline.txt").write_text("\n".join(havoc.tally.timeline) + "\n")
    total.tally += havoc.tally
    total.verdicts.append(verdict)
    total.fleets += 1


def main(arguments: list[str] | None = None) -> int:
    """Inject faults into fleets; print a summary, or what is broken; return 1 if something is."""
    asked = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    draws, total, began = random.Random(seed), Total(), time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="levywalk-")) if asked.keep is None else Path(asked.keep)
    left = asked.faults
    try:
        while left > 0:
            faults = min(left, PER_FLEET)
            between = links(asked.network, asked.nodes)
            try:
                if total.fleets == 0:
                    say(
                        f"seed {seed}, network: "
                        f"{'loopback, never broken' if between is None else between.name}"
                    )
                network = NETWORKS[total.fleets % len(NETWORKS)](asked.nodes, draws.randrange(1000))
                folder = settle(
                    root / f"fleet-{total.fleets}",
                    network,
                    seed=draws.randrange(1000),
                    dim=_dim(total.fleets),
                    memory=total.fleets if asked.memory else None,
                )
                check_fleet(folder, between, draws, faults, total, asked.patience)
            finally:
                if between is not None:
                    between.close()
            left -= faults
            if asked.keep is None:
                shutil.rmtree(folder)
    except Violation as broken:
        say(f"\n{broken}\n\nseed {seed}; the folder is kept: {folder}")
        return 1
    except NoNamespaces as error:
        say(f"Error: {error}; use --network proxy")
        return 1
    total.seconds = time.monotonic() - began
    say(str(total))
    if asked.keep is None:
        shutil.rmtree(root)
    return 0


def _dim(fleet: int) -> int:
    """Return the model's size; in every third fleet the model is so large that it is stored in
    files.
    """
    return LARGE if fleet % 3 == 2 else 10


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m levywalk.fleet.checking.processes", description=__doc__
    )
    parser.add_argument(
        "--faults", type=int, default=50, help="number of faults (default: %(default)s)"
    )
    parser.add_argument(
        "--nodes", type=int, default=8, help="number of nodes of each fleet (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="seed of the faults; drawn at random and printed if it is not given",
    )
    parser.add_argument(
        "--network",
        choices=("auto", "netns", "proxy", "none"),
        default="auto",
        help="how links are broken",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=1.0,
        help="factor for all waiting times, for slow machines",
    )
    parser.add_argument(
        "--memory", action="store_true", help="with methods that have memory at the nodes"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep all folders in this one")
    return parser


def _progress(total: Total, tally: FaultTally) -> None:
    if sys.stderr.isatty():
        done = total.tally.kinds.total() + tally.kinds.total()
        sys.stderr.write(f"\r{done} faults, fleet {total.fleets + 1} ")
        sys.stderr.flush()


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
