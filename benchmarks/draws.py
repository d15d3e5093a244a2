"""Statistical tests of the draws at any length, and the draws as raw bytes for other batteries.

``python -m benchmarks.draws --words 2^30`` examines every order of words in chunks and prints a
table; the exit status is 1 if a p-value is below the threshold. ``--stdout --interleave walkers``
writes words without end, 8 bytes each, lowest first, to be piped into a battery that reads standard
input. What the tests and the orders are: ``tests/statistical/battery.py`` and ``streams.py``; what
was found: ``docs/draws.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from itertools import count

import numpy as np
from scipy import stats
from tests.statistical.battery import (
    LEVEL,
    MOST,
    THRESHOLD,
    Evidence,
    avalanche,
    caught_by,
    examine,
    p_values,
)
from tests.statistical.streams import (
    FLAWED,
    ORDERS,
    SEED,
    Order,
    Scheme,
    Words64,
    levywalk,
    unexpanded,
)

CHUNK = 1 << 20
PARTS = ("k0", "k1", "step", "slot")
SCHEMES: dict[str, Scheme] = {"levywalk": levywalk, "unexpanded": unexpanded, **FLAWED}
GENERATORS = ("PCG64", "Philox", "SFC64", "MT19937")


def number(text: str) -> int:
    """Read 1000 or 2^20."""
    base, _, power = text.partition("^")
    return int(pow(int(base), int(power or 1)))


def chunks(scheme: Scheme, order: Order, words: int, size: int) -> Iterator[Words64]:
    """Yield the words of a scheme in an order, ``size`` at a time."""
    for start in range(0, words, size):
        yield order.words(scheme, start, min(size, words - start))


def generated(name: str, words: int, size: int) -> Iterator[Words64]:
    """Yield raw words of a generator of numpy's."""
    source = getattr(np.random, name)(SEED)
    for start in range(0, words, size):
        some = min(size, words - start)
        if name == "MT19937":  # 32 bits at a time
            yield source.random_raw(2 * some).astype("<u4").view("<u8")
        else:
            yield source.random_raw(some)


def line(*fields: object) -> None:
    """Print one row of the table."""
    print("{:<18}{:>8}{:>7}{:>11}  {:<34}{:>8}  {}".format(*fields), flush=True)


def report(
    name: str, length: str, found: dict[str, float], seconds: float, claimed: bool = True
) -> list[str]:
    """Print the row of one order and return what caught it."""
    least = min(found, key=lambda test: found[test])
    caught = caught_by(found)
    outcome = f"FAILS {len(caught)}: {', '.join(caught[:4])}" if caught else "passes"
    line(
        name,
        length,
        len(found),
        f"{found[least]:.2g}",
        least,
        f"{seconds:.1f}",
        outcome + " (not claimed)" * (not claimed),
    )
    return caught


def length_of(words: int) -> str:
    """Write a power of two as one."""
    return f"2^{words.bit_length() - 1}" if words & (words - 1) == 0 else str(words)


def survey(scheme: str, orders: list[str], words: int, size: int, bases: int) -> bool:
    """Print the table of a scheme, or of a generator of numpy's; return whether all passes."""
    print(
        f"{scheme}, seed {SEED}, chunks of {length_of(size)} words; a p-value below "
        f"{THRESHOLD:.0e} fails"
    )
    line("order", "words", "tests", "least p", "of", "seconds", "outcome")
    every: list[float] = []
    failures = 0
    if scheme in GENERATORS:
        began = time.perf_counter()
        found = p_values(examine(generated(scheme, words, size)))
        failures += bool(report("-", length_of(words), found, time.perf_counter() - began))
        every += found.values()
        orders, bases = [], 0
    for name in orders:
        began = time.perf_counter()
        order = ORDERS[name]
        found = p_values(examine(chunks(SCHEMES[scheme], order, words, size), order.width))
        caught = report(name, length_of(words), found, time.perf_counter() - began, order.claimed)
        failures += bool(caught) and order.claimed
        every += found.values()
    if bases and scheme not in ("lcg", "xorshift"):  # which have no key
        began = time.perf_counter()
        found = {f"avalanche of {part}": flips(SCHEMES[scheme], part, bases).p for part in PARTS}
        failures += bool(report("avalanche", length_of(bases), found, time.perf_counter() - began))
        every += found.values()
    print(f"{len(every)} p-values of at most {MOST}, smallest {min(every):.2g}, "
          f"{sum(p < 0.01 for p in every)} below 0.01 ({len(every) * 0.01:.0f} expected at most); "
          f"{'passes' if not failures else 'FAILS'} at level {LEVEL:.0e}")  # fmt: skip
    return not failures


def flips(scheme: Scheme, part: str, bases: int) -> Evidence:
    """Return the evidence of an avalanche from ``bases`` steps, 2^12 at a time."""
    size = min(bases, 1 << 12)
    found = avalanche(scheme, size, part)
    for first in range(size, bases, size):
        found += avalanche(scheme, size, part, first)
    return found


def calibrate(repetitions: int, words: int, generator: str) -> bool:
    """Print how uniform each test's p-values are on a generator of numpy's; return whether none
    comes too often.
    """
    source = getattr(np.random, generator)(SEED)
    runs = [p_values(examine([source.random_raw(words)], width=64)) for _ in range(repetitions)]
    print(
        f"{generator}, seed {SEED}, {repetitions} times {length_of(words)} words; shares of "
        "p-values below"
    )
    print(
        f"{'test':<34}{'0.001':>9}{'0.01':>9}{'0.1':>9}{'0.5':>9}{'smallest':>11}{'too many':>11}"
    )
    right = True
    for name in runs[0]:
        p = np.array([run[name] for run in runs])
        excess = float(stats.ks_1samp(p, stats.uniform.cdf, alternative="greater").pvalue)
        shares = "".join(f"{(p < level).mean():>9.4f}" for level in (0.001, 0.01, 0.1, 0.5))
        print(f"{name:<34}{shares}{p.min():>11.2g}{excess:>11.2g}")
        right &= excess >= THRESHOLD
    print("no test gives small p-values too often" if right else "FAILS: p-values are too small")
    return right


def pour(scheme: str, name: str, size: int) -> None:
    """Write words to standard output until its reader has enough."""
    order = ORDERS[name]
    try:
        for start in count(0, size):
            words = order.words(SCHEMES[scheme], start, size)
            sys.stdout.buffer.write(np.ascontiguousarray(words, dtype="<u8").data)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # nothing is left to be flushed


def main() -> None:
    """Parse, examine, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draws", description=__doc__)
    parser.add_argument(
        "--words", type=number, default=1 << 24, help="words per order, as 2^30 (default 2^24)"
    )
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS),
                        metavar="ORDER",
                        help=f"which of: {', '.join(ORDERS)} (default all)")  # fmt: skip
    parser.add_argument("--scheme", choices=[*SCHEMES, *GENERATORS], default="levywalk",
                        help="levywalk, a flawed hash, or a generator of numpy's")  # fmt: skip
    parser.add_argument(
        "--chunk", type=number, default=CHUNK, help="words at a time (default 2^20)"
    )
    parser.add_argument(
        "--bases",
        type=number,
        default=1 << 16,
        help="steps per flipped bit (default 2^16; 0: none)",
    )
    parser.add_argument(
        "--calibrate", type=int, metavar="N", help="N p-values of each test on a numpy generator"
    )
    parser.add_argument("--stdout", action="store_true", help="write raw words instead")
    parser.add_argument(
        "--interleave", choices=ORDERS, default="steps", metavar="ORDER", help="the order to write"
    )
    options = parser.parse_args()
    if options.stdout:
        if options.scheme in GENERATORS:
            parser.error("--stdout writes the words of a scheme, not of a generator of numpy's")
        pour(options.scheme, options.interleave, min(options.chunk, 1 << 18))
        return
    if options.calibrate:
        generator = options.scheme if options.scheme in ("PCG64", "Philox", "SFC64") else "PCG64"
        sys.exit(not calibrate(options.calibrate, min(options.words, options.chunk), generator))
    sys.exit(
        not survey(options.scheme, options.orders, options.words, options.chunk, options.bases)
    )


if __name__ == "__main__":
    main()
