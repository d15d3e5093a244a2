"""Run the worker, start it anew after a crash, and count the outcomes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Found:
    """How many inputs were tried, by kind and outcome, and the failures."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return sum(self.counts.values())


def fuzz(seed: int = 0, seconds: float = 1e9, inputs: int = 10**9, first: int = 0) -> Found:
    """Try inputs until the time or their number is over; the same seed gives the same inputs."""
    found, end = Found(), time.monotonic() + seconds
    while first < inputs and time.monotonic() < end and len(found.failures) < 50:
        first = _one_worker(found, seed, first, end - time.monotonic(), inputs)
    return found


def _one_worker(found: Found, seed: int, first: int, seconds: float, inputs: int) -> int:
    """Run one worker to its end; return the number of the input after its last one."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said_wrong:
        arguments = [folder, str(seed), str(first), str(seconds), str(inputs)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=said_wrong,  # a file, because nobody reads a pipe while the worker writes
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        asked: dict[str, object] | None = None
        for line in process.stdout:
            said = json.loads(line)
            if "number" in said:
                asked, first = said, said["number"] + 1
                continue
            assert asked is not None
            good = said["outcome"] in ("read", "refused")
            found.counts[asked["name"], said["outcome"] if good else "failed"] += 1
            if not good:
                found.failures.append(f"seed {seed}, {asked}:\n{said['outcome']}")
            asked = None
        code = process.wait()
        process.stdout.close()
        said_wrong.seek(0)
        words = said_wrong.read()[-3000:]
        if asked is not None:
            found.counts[asked["name"], "failed"] += 1
            found.failures.append(f"seed {seed}, {asked}: the process ended with {code}\n{words}")
        elif code != 0:
            raise RuntimeError(f"the worker ended with {code}: {words}")
        elif first < inputs:
            return inputs  # the time is over
        return first
