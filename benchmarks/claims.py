"""Write docs/claims.md and its figures from what `levywalk reproduce --all` left in a folder; what
it holds is not run.

python -m benchmarks.claims levywalk-reproduction
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from levywalk.reproduction.claims import CLAIMS
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_contents import write_figures
from levywalk.reproduction.paper import FULL
from levywalk.reproduction.reproduce import STORE, counted, markdown, stored
from levywalk.sweeps.store import ResultStore

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "figures" / "claims"


def main(folder: Path) -> None:
    document = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    if document["effort"] != FULL.name:
        raise SystemExit(
            f"{folder} holds a {document['effort']} run; docs/claims.md is of a full one"
        )
    networks: dict[str, int] = {}
    evidence = Evidence(FULL, counted(stored(ResultStore(folder / STORE), workers=0), networks))
    document["claims"] = [
        ask(evidence).as_json() for ask in CLAIMS
    ]  # with what was asked for since
    for figure in document["figures"]:
        drawn = write_figures(evidence, [figure["name"]], FIGURES)
        figure["files"] = [
            path.relative_to(DOCS).as_posix() for path in drawn if path.stem == figure["name"]
        ]
    document |= {
        "networks": len(networks),
        "redrawn": sum(again > 0 for again in networks.values()),
    }
    (DOCS / "claims.md").write_text(markdown(document), encoding="utf-8")
    print(f"written: {DOCS / 'claims.md'}, {len(document['figures'])} figures")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
