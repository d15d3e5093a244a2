"""The network and the problem behind a fleet whose logs are merged.

If all nodes' files are in a folder here, they are known. Of a fleet elsewhere only the network is
known: the nodes' data stay where they are, so the errors of its trace are unknown (NaN), unless the
operator's folder lies in the folder from which the fleet was created.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import LevywalkError
from levywalk.fleet.operate.any_fleet import AnyFleet, is_elsewhere, network_behind
from levywalk.fleet.operate.folder import MANIFEST
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.trace import Trace


class ElsewhereProblem:
    """A problem whose data are at nodes elsewhere: nothing of it can be computed here."""

    optimum = None

    def __init__(self, manifest: Manifest) -> None:
        self.n = manifest.nodes - len(manifest.idle)
        self.dim = manifest.published.dim
        self.smoothness: Floats = np.ones(self.n)
        if manifest.idle:
            self.holders = np.setdiff1d(np.arange(manifest.nodes), list(manifest.idle))

    def local_loss(self, v: int, x: Floats) -> float:
        """Return NaN."""
        return float("nan")

    def local_gradient(self, v: int, x: Floats) -> Floats:
        """Return zeros: a merge of logs needs none."""
        return np.zeros(self.dim)


def fleet_behind(fleet: AnyFleet) -> Fleet:
    """Return what made a fleet's walk, for the merge of its logs.

    Under privacy nothing is computed from the nodes' data, even if they are here.
    """
    found = _found_behind(fleet).of_token(fleet.manifest.token_number)
    if fleet.manifest.published.privacy is None:
        return found
    return replace(found, problem=ElsewhereProblem(fleet.manifest), real=True)


def _found_behind(fleet: AnyFleet) -> Fleet:
    if not is_elsewhere(fleet.path):
        return fleet_of(fleet.path)
    above = fleet.path.parent
    if _is_origin(above, fleet.manifest):
        try:
            return fleet_of(above)
        except LevywalkError:
            pass  # the data are not there
    manifest = fleet.manifest
    network, problem = network_behind(fleet), ElsewhereProblem(manifest)
    first = np.zeros(manifest.published.dim)
    ones = tuple(np.ones(manifest.nodes) for _ in manifest.design.phases)
    return Fleet(
        network,
        problem,
        manifest.design,
        manifest.published,
        manifest.terms,
        ones,
        manifest.start,
        first,
        manifest.seed,
        manifest.shared,
        starts=manifest.starts,
        token_number=manifest.token_number,
    )


def _is_origin(folder: Path, manifest: Manifest) -> bool:
    try:
        return Manifest.read(folder / MANIFEST).text == manifest.text
    except LevywalkError:
        return False


def without_errors(trace: Trace, fleet: Fleet) -> Trace:
    """Return a trace that says nothing about what is not known here: errors, loss and target."""
    if not isinstance(fleet.problem, ElsewhereProblem):
        return trace
    private = fleet.published.privacy is not None
    trace.provenance["fleet"]["data"] = "private" if private else "elsewhere"
    trace.provenance["loss"] = {"kind": "unknown", "nodes": 0, "of": fleet.problem.n}
    return replace(trace, target=np.full_like(trace.target, np.nan))
