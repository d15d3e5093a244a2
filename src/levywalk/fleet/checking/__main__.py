"""Search for a schedule of faults that breaks the hand-off:
``python -m levywalk.fleet.checking``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

from levywalk.fleet.checking.faults import FaultSchedule, drawing
from levywalk.fleet.checking.machines import Maker, made_of, real_node
from levywalk.fleet.checking.mutants import MUTANTS
from levywalk.fleet.checking.schedules import ScheduleOutcome, sweep
from levywalk.fleet.checking.shrink import shrink, transcript

CHUNK = 50  # schedules between two progress reports


def main(arguments: list[str] | None = None) -> int:
    """Run schedules; print a summary, and the first one that breaks an invariant, shortened.

    Return 1 if there is one.

    Examples
    --------
    >>> main(["--schedules", "2", "--quiet"])
    2 schedules, ...
    0 schedules broke an invariant
    0
    """
    asked = _parser().parse_args(arguments)
    make = real_node if asked.mutant is None else made_of(_mutants()[asked.mutant])
    kinds = {"memory": asked.memory, "privacy": asked.privacy, "grows": asked.grows}
    kinds |= {"checked": asked.check_updates}
    if asked.replay is not None or asked.schedule is not None:
        drawn = drawing(**kinds)
        schedule = (
            drawn(asked.replay) if asked.schedule is None else FaultSchedule.read(asked.schedule)
        )
        return _show(schedule, make, short=asked.shrink)
    play = partial(sweep, make=make, **kinds)
    total = _play(asked.seed, asked.schedules, asked.workers, play, quiet=asked.quiet)
    _say(str(total))
    if not total.failures:
        return 0
    schedule, why = total.failures[0]
    _say(f"\nseed {schedule.seed}: {why}\nafter shortening, this happens:\n")
    _show(schedule, make, short=True)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m levywalk.fleet.checking", description=__doc__)
    parser.add_argument(
        "--schedules", type=int, default=2000, help="number of schedules (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="number of processes (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the first schedule; the others count up from it",
    )
    parser.add_argument(
        "--memory", action="store_true", help="simulate methods that have memory at the nodes"
    )
    parser.add_argument(
        "--privacy", action="store_true", help="simulate methods with privacy, and check I9"
    )
    parser.add_argument("--grows", action="store_true", help="simulate fleets that grow")
    parser.add_argument(
        "--check-updates",
        action="store_true",
        help="simulate guardians that compare models; they must refuse none",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument(
        "--mutant",
        choices=sorted(_mutants()),
        help="simulate nodes with this injected bug, which must be found",
    )
    parser.add_argument(
        "--replay", type=int, metavar="SEED", help="print what happens in the schedule of this seed"
    )
    parser.add_argument(
        "--schedule",
        metavar="JSON",
        help="print what happens in a schedule that was printed before",
    )
    parser.add_argument(
        "--shrink", action="store_true", help="shorten it first, if it breaks an invariant"
    )
    return parser


def _mutants() -> dict[str, type]:
    return {mutant.__name__: mutant for mutant in MUTANTS}


def _show(schedule: FaultSchedule, make: Maker, *, short: bool) -> int:
    text = transcript(shrink(schedule, make) if short else schedule, make)
    _say(text)
    return int(not text.endswith("holds"))


def _play(
    seed: int,
    many: int,
    workers: int,
    play: Callable[[Iterable[int]], ScheduleOutcome],
    *,
    quiet: bool,
) -> ScheduleOutcome:
    chunks = [
        range(first, min(first + CHUNK, seed + many)) for first in range(seed, seed + many, CHUNK)
    ]
    total, began = ScheduleOutcome(), time.perf_counter()
    if workers == 1:
        for chunk in chunks:
            total += play(chunk)
            _progress(total, many, began, quiet)
    else:
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            for part in pool.imap_unordered(play, chunks):
                total += part
                _progress(total, many, began, quiet)
    total.failures.sort(key=lambda failure: failure[0].seed)
    return total


def _progress(total: ScheduleOutcome, many: int, began: float, quiet: bool) -> None:
    if not quiet and sys.stderr.isatty():
        rate = total.schedules / (time.perf_counter() - began)
        sys.stderr.write(
            f"\r{total.schedules:,} of {many:,}, {rate:.0f}/s, {len(total.failures)} broken "
        )
        sys.stderr.flush()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
