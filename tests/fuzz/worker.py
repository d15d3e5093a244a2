"""The child: it tries inputs one after the other and reports each outcome as a line of JSON."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

from levywalk.errors import LevywalkError
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import attempt, options, seeds, words

MEMORY = 4 << 30
SECONDS = 20.0  # of the processor for one input; SIGPROF then ends this process
WORDS, OPTIONS = "words", "options"


def main(folder: Path, seed: int, first: int, seconds: float, most: int) -> None:
    """Try the inputs first, first + 1, … until the time or their number is over."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # commands that are tried may print
    warnings.simplefilter("ignore")
    known = seeds(folder / "seeds")
    names = [*known, *[WORDS] * 6, *[OPTIONS] * 10]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    end = time.monotonic() + seconds
    for number in range(first, most):
        if time.monotonic() > end:
            break
        rng = np.random.default_rng([seed, number])
        name = names[int(rng.integers(len(names)))]
        print(json.dumps({"number": number, "name": name}), file=out)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if name == WORDS:
                words(rng)
            elif name == OPTIONS:
                options(rng, known, folder)
            else:
                kind, file = name.split("/")
                attempt(kind, file, mutated(known[name], file, rng), folder)
            outcome = "read"
        except LevywalkError:
            outcome = "refused"
        except BaseException:  # the very thing that is sought
            outcome = traceback.format_exc(limit=-8)[-3000:]
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        print(json.dumps({"outcome": outcome}), file=out)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    )
