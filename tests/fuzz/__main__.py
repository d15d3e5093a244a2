"""``python -m tests.fuzz --seconds 60``: fuzz the files and options that strangers hand over."""

from __future__ import annotations

import argparse

from tests.fuzz.fuzz import fuzz

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("--seconds", type=float, default=60.0, help="how long to try inputs")
parser.add_argument("--inputs", type=int, default=10**9, help="how many inputs to try at most")
parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same inputs")
parser.add_argument("--first", type=int, default=0, help="number of the first input")
given = parser.parse_args()
found = fuzz(given.seed, given.seconds, given.inputs, given.first)
for (name, outcome), count in sorted(found.counts.items()):
    print(f"{count:8} {outcome:8} {name}")
print(f"{found.tried} inputs tried, {len(found.failures)} failed")
for failure in found.failures:
    print(f"\n{failure}")
raise SystemExit(bool(found.failures))
