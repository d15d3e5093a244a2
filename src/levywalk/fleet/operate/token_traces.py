"""The traces of several tokens as one trace. Each token is a replica in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.trace import Trace

_BY_REPLICA = (
    *("distance2", "excess_loss", "loss", "hops", "transfers", "bytes", "visits", "walk"),
    *("final_node", "model", "diverged_at", "switched_at", "small_messages"),
)


def stack_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace of several tokens that have been recorded at the same steps.

    Raises
    ------
    FleetProblem
        If they have not, because lines of a log are missing.
    """
    first = traces[0]
    if any(not np.array_equal(one.step, first.step) for one in traces):
        raise FleetProblem(
            "the tokens were not recorded at the same steps, because lines of a log are missing: "
            "use --token 0, and so on, for a trace of each"
        )
    made: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in traces]) for name in _BY_REPLICA
    }
    metrics = {
        name: np.concatenate([one.metrics[name] for one in traces]) for name in first.metrics
    }
    about = first.provenance | {"replicas": len(traces)}
    about["interrupted"] = any(one.provenance["interrupted"] for one in traces)
    about["start"] = [one.provenance["start"] for one in traces]
    about["fleet"] = _fleet([one.provenance["fleet"] for one in traces])
    return replace(first, **made, metrics=metrics, provenance=about)


def _fleet(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what only a fleet knows, of each token and of all together."""
    lost = [one["lost_updates"] for one in found]
    most = [one["lost_updates_at_most"] for one in found]
    stops = [one["stopped_at"] for one in found]
    return {
        "shared_key": found[0]["shared_key"],
        "lost_updates": None if None in lost else sum(lost),
        "lost_updates_at_most": None if None in most else sum(most),
        "missing": sorted({step for one in found for step in one["missing"]}),
        "stop": found[0]["stop"],
        "stopped_at": -1 if -1 in stops else max(stops),
        **({"data": found[0]["data"]} if "data" in found[0] else {}),
        "tokens": list(found),
    }
