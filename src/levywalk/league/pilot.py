"""A short walk without data, which shows how soon a walk sees all nodes and what it asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levywalk.arrays import Floats, Ints32
from levywalk.engine import run
from levywalk.memory import token_bytes
from levywalk.network import Network
from levywalk.problem import homogeneous
from levywalk.walks import Walk

_LAPS, _MOST_STEPS, _WALKS = 60, 3_000_000, 2
_FEW_STEPS = 3_000  # in Python these take less time than loading, let alone compiling, the loops
_RARE_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Pilot:
    """What some walks of a pilot saw.

    Attributes
    ----------
    first
        The sorted steps of the first visits, the mean over walks; infinite for nodes that some walk
        did not see.
    marks, small
        Steps, and the mean number of small messages until then.
    rare_gap
        The mean steps between two visits of the nodes that are visited least, of which one in
        twenty is.
    repeats
        The share of moves, in the second half, that are those of the last time that the model came
        to the node from the same neighbour: 1 for laps that are all alike.
    token_bytes
        The bytes that the walk adds to the token.
    most_visits
        The visits of the node that is visited most, in units of the mean over all nodes.
    """

    steps: int
    first: Floats
    marks: Floats
    small: Floats
    rare_gap: float
    repeats: float
    token_bytes: int
    most_visits: float

    @property
    def cover(self) -> float:
        """The steps until all nodes were seen."""
        return float(self.first[-1])

    def until(self, share: float) -> float:
        """Return the steps until this share of the nodes was seen."""
        return float(self.first[min(int(share * len(self.first)), len(self.first) - 1)])

    def small_messages(self, steps: float) -> float:
        """Return the small messages until a step; beyond the pilot they grow as in its second
        half.
        """
        if not np.isfinite(steps):
            return float("inf")
        if steps <= self.marks[-1]:
            return float(np.interp(steps, self.marks, self.small))
        middle = np.interp(self.marks[-1] / 2, self.marks, self.small)
        slope = (self.small[-1] - middle) / (self.marks[-1] / 2)
        return float(self.small[-1] + slope * (steps - self.marks[-1]))


_RECENT: dict[tuple[str, str, int], Pilot] = {}
_MOST_RECENT = 32


def pilot(network: Network, design: Walk, seed: int) -> Pilot:
    """Run a walk for about sixty laps, without data; recent pilots are remembered.

    Examples
    --------
    >>> import levywalk as lw
    >>> seen = pilot(lw.ring(50), lw.oldest_neighbour(), 0)
    >>> seen.cover, seen.small_messages(10.0)
    (49.0, 40.0)
    """
    key = (network.fingerprint(), repr(design), seed)
    if key not in _RECENT:
        while len(_RECENT) >= _MOST_RECENT:
            _RECENT.pop(next(iter(_RECENT)))
        _RECENT[key] = _walked(network, design, seed)
    return _RECENT[key]


def _walked(network: Network, design: Walk, seed: int) -> Pilot:
    n = network.n
    steps = max(min(_LAPS * n, _MOST_STEPS), 1)
    # A problem without meaning: only the walk counts, and the compiled loops need one.
    trace = run(
        network,
        homogeneous(n, dim=1),
        design,
        steps=steps,
        step_size=1e-9,
        replicas=_WALKS,
        seed=seed,
        record_every=np.unique(np.linspace(0, steps, 61).astype(np.int64)),
        record_walk=True,
        record_visits=False,
        threads=1,
        measure_loss=1,
        progress=False,
        backend="reference" if steps <= _FEW_STEPS else "auto",
    )
    assert trace.walk is not None
    first, visits = np.full((_WALKS, n), np.inf), np.zeros((_WALKS, n))
    for r, walk in enumerate(trace.walk):
        nodes, at = np.unique(walk, return_index=True)
        first[r, nodes] = at
        visits[r] = np.bincount(walk, minlength=n)
    return Pilot(
        steps,
        np.sort(first, axis=1).mean(axis=0),
        trace.step.astype(np.float64),
        trace.small_messages.mean(axis=0),
        steps / max(float(np.quantile(visits, _RARE_SHARE)), 0.5),
        float(np.mean([repeated_moves(walk) for walk in trace.walk])),
        token_bytes(design.token_memory, 1),
        float(np.mean(visits.max(axis=1) / visits.mean(axis=1))),
    )


def repeated_moves(walk: Ints32) -> float:
    """Return the share of moves in the second half of a walk that repeat the last one from there.

    Examples
    --------
    >>> repeated_moves(np.array([0, 1, 2] * 20, dtype=np.int32))
    1.0
    >>> repeated_moves(np.random.default_rng(0).integers(0, 50, 9000).astype(np.int32)) < 0.1
    True
    """
    if len(walk) < 4:
        return 0.0
    nodes = int(walk.max()) + 1
    places, to = walk[:-2].astype(np.int64) * nodes + walk[1:-1], walk[2:]
    order = np.argsort(places, kind="stable")  # moves from the same place stay in time's order
    same = (places[order][1:] == places[order][:-1]) & (to[order][1:] == to[order][:-1])
    late = order[1:] >= len(places) // 2
    return float(same[late].mean())
