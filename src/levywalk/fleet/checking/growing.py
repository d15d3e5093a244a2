"""Fleets that nodes join: what is published before, and the operator's order about the new size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from levywalk.fleet.protocol.fleet_size import FleetSize, resized
from levywalk.fleet.protocol.records import Line, NewSize
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.walks import as_target


class SizeAt(NamedTuple):
    """The number of nodes and L̄ that the updates from some step on have used."""

    nodes: int
    mean_smoothness: float
    mean_scores: tuple[float | None, ...] = ()  # by phase, as the manifest rounds them; empty: L̄


def size_of(fleet: Fleet, nodes: int, version: int = 1) -> FleetSize:
    """Return the size of a fleet whose first so many nodes take part, not signed."""
    return FleetSize(version, nodes, float(np.mean(fleet.problem.smoothness[:nodes])), b"")


def founded_by(fleet: Fleet, nodes: int) -> Fleet:
    """Return a fleet that was created for its first so many nodes; the others may join.

    Examples
    --------
    >>> import levywalk as lw
    >>> whole = Fleet.of(
    ...     lw.ring(6), lw.heterogeneous(6, seed=1), lw.mhlj(), steps=9, step_size=0.1
    ... )
    >>> founded_by(whole, 5).published.method.n, whole.published.method.n
    (5, 6)
    """
    size = size_of(fleet, nodes, 0)
    degrees, constants = fleet.network.degree, fleet.problem.smoothness
    scores = tuple(
        as_target(part.target).scores(degrees, constants, size.mean_smoothness)
        for part in fleet.design.phases
    )
    return replace(fleet, published=resized(fleet.published, size), scores=scores)


def sizes_told(lines: Iterable[Line]) -> dict[Epoch, dict[int, SizeAt]]:
    """Return from which steps of each epoch on updates have used which size; before the first one
    it is the manifest's.
    """
    found: dict[Epoch, dict[int, SizeAt]] = {}
    for line in sorted((one for one in lines if isinstance(one, NewSize)), key=itemgetter(3)):
        own = found.setdefault(Epoch(*line.token_epoch), {})
        own[line.step] = SizeAt(line.nodes, line.mean_smoothness)  # the latest version counts
    return found


def sizes_along(
    lineage: Sequence[tuple[Epoch, int]], told: Mapping[Epoch, Mapping[int, SizeAt]], first: SizeAt
) -> dict[int, SizeAt]:
    """Return the same for the walk that consists of these epochs, each from its first step on."""
    found: dict[int, SizeAt] = {}
    for epoch, base in lineage:
        found = {step: size for step, size in found.items() if step < base}
        found |= {base: first} | dict(told.get(epoch, {}))
    return found
