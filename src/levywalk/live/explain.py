"""``levywalk explain``: one HTML file that opens from disk, on which a visitor can try walks.

A twin of the rule in JavaScript walks in the browser, and equals `lw.walk` and `lw.run` step for
step. The file contains three networks and their data, and asks no server for anything.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.experiments.sources import build_network, build_problem
from levywalk.live.layout import places
from levywalk.live.markup import asset_text, document
from levywalk.problem import LeastSquares
from levywalk.report.page.build import write_page
from levywalk.report.page.markup import embedded, policy

SCRIPTS = ("twin.js", "draw.js", "chart.js", "view.js", "explain.js")
TITLE = "A model walks over a network"
_DATA = {"data": "heterogeneous", "important": 1, "snr": 33_000.0, "seed": 0}
SCENES: tuple[dict[str, Any], ...] = (
    {
        "key": "grid",
        "title": "a grid of 10 × 10 nodes",
        "recipe": {"family": "grid", "rows": 10, "cols": 10},
    },
    {"key": "ring", "title": "a ring of 100 nodes", "recipe": {"family": "ring", "n": 100}},
    {
        "key": "small_world",
        "title": "a small world of 100 nodes",
        "recipe": {"family": "watts_strogatz", "n": 100, "k": 4, "p": 0.1, "seed": 0},
    },
)
_JUMPS = {"pDistance": 0.5, "maxHops": 3, "stepSize": "theory"}
DESIGNS: tuple[dict[str, Any], ...] = (
    {"name": "UnifRW", "kind": "unif_rw", "target": "uniform", "pJump": 0.0, **_JUMPS},
    {"name": "WeightRW", "kind": "weight_rw", "target": "importance", "pJump": 0.0, **_JUMPS},
    {"name": "MHLJ", "kind": "mhlj", "target": "importance", "pJump": 0.1, **_JUMPS},
)


def explain_page(seed: int = 0) -> str:
    """Return the page, which begins with this seed of the walks.

    Examples
    --------
    >>> len(explain_page().encode()) < 150_000
    True
    """
    data = {"seed": seed, "designs": list(DESIGNS), "networks": [_scene(one) for one in SCENES]}
    style = asset_text("live.css")
    script = "\n".join(asset_text(name) for name in SCRIPTS)
    allowed = policy(style, script).replace("img-src data:", "img-src data: blob:")
    return document(
        TITLE,
        asset_text("walk.html"),
        f"<style>{style}</style>",
        f'<script type="application/json" id="data">{embedded(data)}</script>\n'
        f"<script>{script}</script>",
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">',
    )


def write_explain(path: str | Path, seed: int = 0) -> Path:
    """Write the page."""
    return write_page(explain_page(seed), path)


def _scene(scene: dict[str, Any]) -> dict[str, Any]:
    network = build_network(scene["recipe"])
    problem = build_problem(_DATA, network)
    assert isinstance(problem, LeastSquares)
    return {
        **scene,
        "name": network.name,
        "data": _DATA,
        "neighbours": [network.neighbours(v).tolist() for v in range(network.n)],
        "places": np.round(places(network), 4).tolist(),
        "dim": problem.dim,
        "features": _floats(problem.sorted_features),
        "targets": _floats(problem.sorted_targets),
        "smoothness": _floats(problem.smoothness),
        "optimum": _floats(problem.optimum),
    }


def _floats(values: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()
