"""Write docs/claims.md, its figures and the expected verdicts from what `levywalk reproduce --all`
left in a folder; what it holds is not run. A result belongs to the sources that computed it (the
engine, the walks, `reproduction/measurement.py`), so write the page before these change: what is
missing is computed again, on all cores, and said.

python -m benchmarks.claims levywalk-reproduction [levywalk-reproduction-second]

The second folder is of `levywalk reproduce --all --seeds second`; its answers are put beside.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from levywalk.report.figures.regions import write_region
from levywalk.reproduction.claims import CLAIMS
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.figure_contents import write_figures
from levywalk.reproduction.paper import FULL, SECOND
from levywalk.reproduction.regions import compared_ranges, picture
from levywalk.reproduction.reproduce import (
    EXPECTED,
    STORE,
    counting_runner,
    markdown,
    stored_runner,
)
from levywalk.sweeps.store import ResultStore

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "figures" / "claims"


def _missing(asked: Sequence[Mapping[str, Any]], computed: int, seconds: float) -> None:
    if computed:
        print(
            f"{computed} of {len(asked)} results were not in the folder, or of other sources: "
            f"computed in {seconds:.0f} s",
            file=sys.stderr,
        )


def main(folder: Path, second: Path | None = None) -> None:
    document = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    if document["effort"] != FULL.name:
        raise SystemExit(
            f"{folder} holds a {document['effort']} run; docs/claims.md is of a full one"
        )
    networks: dict[str, int] = {}
    evidence = Evidence(
        FULL, counting_runner(stored_runner(ResultStore(folder / STORE), tell=_missing), networks)
    )
    claims = [ask(evidence) for ask in CLAIMS]  # with what was asked for since
    document["claims"] = [claim.as_json() for claim in claims]
    regions = {data.name: data for data in map(picture, claims) if data is not None}
    for figure in document["figures"]:
        if figure["name"] in regions:
            drawn = write_region(regions[figure["name"]], FIGURES)
        else:
            drawn = write_figures(evidence, [figure["name"]], FIGURES)
        figure["files"] = [
            path.relative_to(DOCS).as_posix() for path in drawn if path.stem == figure["name"]
        ]
    document |= {
        "networks": len(networks),
        "redrawn": sum(again > 0 for again in networks.values()),
    }
    text = markdown(document)
    if second is not None:
        other = json.loads((second / "claims.json").read_text(encoding="utf-8"))
        if other["effort"] != SECOND.name:
            raise SystemExit(f"{second} holds a {other['effort']} run, not one of --seeds second")
        text += "\n" + "\n".join(compared_ranges(document, other)) + "\n"
    (DOCS / "claims.md").write_text(text, encoding="utf-8")
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    expected[document["effort"]] = {str(c["id"]): c["verdict"] for c in document["claims"]}
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    print(f"written: {DOCS / 'claims.md'}, {len(document['figures'])} figures")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(*map(Path, sys.argv[1:]))
