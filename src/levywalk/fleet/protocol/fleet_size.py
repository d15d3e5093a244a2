"""The size of a fleet: how many nodes it has, and the mean L̄ of their smoothness constants.

The manifest has both as they were when the fleet was created: that is version 0. When a node joins,
the operator signs the next version. A node that receives it keeps it and sends it to its
neighbours, which send it to theirs; an older version is never accepted again. A token carries the
version of its last visit, and a node accepts a token only if it has that version or a later one.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import NamedTuple

from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.links import Verifier
from levywalk.fleet.protocol.published_walk import PublishedWalk
from levywalk.step import PublishedPhase
from levywalk.walks import Uniform, Walk, as_target

MOST_NODES = 2**31 - 1
_SIZE = struct.Struct("<2qd")


class FleetSize(NamedTuple):
    """The operator's signed order about the number of nodes and their mean smoothness."""

    version: int
    nodes: int
    mean_smoothness: float
    signature: bytes

    def statement(self, run: bytes) -> bytes:
        """Return the bytes that are signed.

        Examples
        --------
        >>> one = FleetSize(1, 9, 3.5, b"")
        >>> one.statement(b"run") == one._replace(version=2).statement(b"run")
        False
        """
        return b"size|" + run + b"|" + _SIZE.pack(self.version, self.nodes, self.mean_smoothness)


UNKNOWN = FleetSize(0, 0, 0.0, b"")  # what a node says that has the manifest's numbers alone


def refuses_size(size: FleetSize, before: int, run: bytes, keys: Verifier) -> str | None:
    """Return why the signed order is not valid, or None; ``before`` is the number of nodes that
    is known, which never falls.
    """
    if not (size.version >= 1 and before <= size.nodes <= MOST_NODES):
        return (
            f"version {size.version} with {size.nodes} nodes cannot follow a size of {before} nodes"
        )
    if not (math.isfinite(size.mean_smoothness) and size.mean_smoothness > 0.0):
        return f"the mean smoothness must be a positive number, got {size.mean_smoothness}"
    if not keys.verify(OPERATOR, size.statement(run), size.signature):
        return f"the operator has not signed that the fleet has {size.nodes} nodes"
    return None


def resized(published: PublishedWalk, size: FleetSize) -> PublishedWalk:
    """Return what is published about a walk over a fleet of another size.

    The mean score t̄ is L̄ for the targets importance and mixed, and 1 for the uniform one.
    (A fleet with another target cannot be joined.)

    Examples
    --------
    >>> import levywalk as lw
    >>> five = PublishedWalk.of(
    ...     lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=10, step_size=0.1
    ... )
    >>> six = resized(five, FleetSize(1, 6, 2.5, b""))
    >>> six.method.n, six.phases[0].mean_score, six.phases[0].step_size == five.phases[0].step_size
    (6, 2.5, True)
    """
    mean = size.mean_smoothness
    phases = tuple(
        one
        if one.mean_score is None
        else PublishedPhase(
            one.walk, _mean_score(one.walk, mean), one.step_size, one.most, one.scaled
        )
        for one in published.phases
    )
    method = replace(published.method, phases=phases, n=size.nodes - published.idle)
    return replace(published, method=method)


def _mean_score(walk: Walk, mean: float) -> float:
    """Return t̄: the scores of the targets importance and mixed have the mean L̄."""
    return 1.0 if isinstance(as_target(walk.target), Uniform) else mean
