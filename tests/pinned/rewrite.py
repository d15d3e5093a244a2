"""Rewrite the pins, or compare two commits to the bit: ``python -m tests.pinned.rewrite``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.pinned.cases import CASES
from tests.pinned.pins import FILE, exact, first_difference, pin, read, write

EXPLANATION = """
Without an option, rewrite tests/pinned/pins.json with what the code computes now, and list what
has changed. Say in CHANGELOG.md why. To compare two commits to the bit, on one machine:

  python -m tests.pinned.rewrite --exact before.json     at the first commit
  python -m tests.pinned.rewrite --compare before.json   at the second one
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pinned.rewrite",
        description=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--exact", metavar="FILE", type=Path, help="write the digest of every result, to the bit"
    )
    what.add_argument(
        "--compare",
        metavar="FILE",
        type=Path,
        help="compare with such a file; exit code 1 if anything differs",
    )
    parser.add_argument(
        "--case", metavar="NAME", action="append", help="only this case; can be repeated"
    )
    asked = parser.parse_args(arguments)
    names = asked.case or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"--case must be one of {', '.join(sorted(CASES))}; got {unknown[0]!r}")
    if asked.exact:
        write(
            {name: {k: exact(v) for k, v in CASES[name]().items()} for name in names}, asked.exact
        )
        say(f"{len(names)} cases written to {asked.exact}")
        return 0
    if asked.compare:
        return compare(names, read(asked.compare))
    return rewrite(names)


def rewrite(names: list[str]) -> int:
    """Write the pins of these cases, leave those of others, and say what has changed."""
    before = read(FILE) if FILE.exists() else {}
    pins = {name: one for name, one in before.items() if name in CASES}
    for name in names:
        began = time.process_time()
        found = CASES[name]()
        pins[name] = {key: pin(value) for key, value in found.items()}
        change = first_difference(found, before[name]) if name in before else "new"
        say(f"{name}: {change or 'unchanged'} ({time.process_time() - began:.2f} s of CPU)")
    for name in sorted(set(before) - set(pins)):
        say(f"{name}: dropped, it is no case any more")
    write(pins, FILE)
    return 0


def compare(names: list[str], before: dict[str, dict[str, str]]) -> int:
    """Compute these cases and list every quantity that is not the same to the bit."""
    differs = 0
    for name in names:
        now = {key: exact(value) for key, value in CASES[name]().items()}
        then = before.get(name, {})
        for key in [*now, *(key for key in then if key not in now)]:
            if now.get(key) != then.get(key):
                differs += 1
                why = (
                    "differs"
                    if key in now and key in then
                    else "is new"
                    if key in now
                    else "is missing"
                )
                say(f"{name}: {key} {why}")
    for name in [] if len(names) < len(CASES) else sorted(set(before) - set(names)):
        differs += 1
        say(f"{name}: is missing")
    verdict = f"{differs} quantities differ" if differs else "the same to the bit"
    say(f"{len(names)} cases compared: {verdict}")
    return int(differs > 0)


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
