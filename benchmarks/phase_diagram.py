"""Compute and draw the phase diagram; what the folder holds is not computed again.

python -m benchmarks.phase_diagram [--out levywalk-phase] [--graphs ring,grid,ws,er,gnutella]
                                   [--workers N | --scheduler tcp://…] [--write]

It takes about 100 minutes of one core for 1,920 instances (50 minutes on two idle cores), and
resumes when it is run again. With --write the result goes to docs/figures and into the package,
where `levywalk inspect` reads it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from levywalk.report.figures.phase import write_phase
from levywalk.reproduction.phase import GRAPHS, descriptions, measure_phase
from levywalk.reproduction.phase_diagram import DIAGRAM, document
from levywalk.sweeps.jobs import run_all
from levywalk.sweeps.store import ResultStore

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("levywalk-phase"))
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--workers", type=int)
    parser.add_argument("--scheduler")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    names = asked.graphs.split(",")
    unknown = [name for name in names if name not in GRAPHS]
    if unknown:
        raise SystemExit(f"--graphs must be of {', '.join(GRAPHS)}, got {unknown[0]!r}")
    store = ResultStore(asked.out / "store")
    results = {}
    for name in names:
        tasks = descriptions(name)
        keys = run_all(
            tasks,
            measure_phase,
            store,
            workers=asked.workers,
            scheduler=asked.scheduler,
            given={"folder": str(DATA)},
        )
        results[name] = [store.load(key) for key in keys]
        print(f"{name}: {len(keys)} instances", flush=True)
        found = document(results)
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
        (asked.out / "phase_diagram.json").write_text(text, encoding="utf-8")
        drawn = write_phase(found, asked.out, ("png", "svg"))
    print("written:", *drawn)
    if asked.write:
        DIAGRAM.write_text(text, encoding="utf-8")
        print("written:", DIAGRAM, *write_phase(found, ROOT / "docs" / "figures", ("svg",)))


if __name__ == "__main__":
    main()
