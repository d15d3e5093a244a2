"""Run the settings of the authors' earlier version and compare them with published points.

python -m benchmarks.published [--out levywalk-published] [--workers N] [--write]

It prints the table of docs/paper.md; with --write the figure goes to docs/figures. It takes about
five minutes of one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from levywalk.reproduction import published
from levywalk.sweeps.jobs import run_all
from levywalk.sweeps.store import ResultStore

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("levywalk-published"))
    parser.add_argument("--workers", type=int)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    store = ResultStore(asked.out / "store")
    tasks = published.descriptions()
    keys = run_all(tasks, published.measure_published, store, workers=asked.workers)
    results = published.grouped(tasks, [store.load(key) for key in keys])
    print("\n".join(published.table(results)))
    folder, formats = (DOCS / "figures", ("svg",)) if asked.write else (asked.out, ("svg", "png"))
    print("written:", *published.write(results, folder, formats))


if __name__ == "__main__":
    main()
