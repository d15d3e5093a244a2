"""Entrapment: how long the model stays where it is held, from the chain itself and from a recorded walk.

A region S is entered and left. Under the chain's own law ν its mean sojourn is ν(S)/Q(S), with Q(S) = Σ_{v∈S, u∉S}
ν(v)P(v,u) the flow out of it: exact, and for one node 1/(1 - P(v,v)). Independent draws from the same law would stay
1/(1 - ν(S)) steps. The ratio of the two is what entrapment means here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import spsolve

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.theory.chain.gap_result import SpectralGap
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.chain.stationary import stationary
from levywalk.theory.chain.transition import adjacency_matrix, require_design, transition
from levywalk.theory.judge.curvature import local_gradients
from levywalk.trace import Trace
from levywalk.walks import Design, unif_rw

IMPORTANT = 10.0  # a node is important from ten times the uniform share on
_MOST_REGIONS = 20


@dataclass(frozen=True)
class ObservedRegion:
    """A region in a recorded run: complete stays, their mean length, and what the visits are worth as independent ones.

    Attributes
    ----------
    stays, dwell, longest
        How many complete stays there were, their mean and greatest length.
    share
        Share of the updates done in the region.
    effective_size
        How many independent draws would know the region's share as well as this run does (of ``updates``).
    """

    stays: int
    dwell: float
    longest: int
    share: float
    effective_size: float
    updates: int


@dataclass(frozen=True)
class Region:
    """An important node, or neighbouring important nodes, and how the chain holds the model there.

    Attributes
    ----------
    nodes
        The region.
    target, mass
        Its share under the target π and under the chain's own law ν.
    dwell, iid_dwell
        Expected consecutive steps per visit, and under independent draws from ν.
    escape, iid_escape
        Expected steps from the region until the model is more than ``radius`` hops away from it, and under
        independent draws.
    conductance
        Flow out of the region over the lesser of ν(S) and 1 - ν(S).
    observed
        The same in a recorded run, or None.
    """

    nodes: tuple[int, ...]
    target: float
    mass: float
    dwell: float
    iid_dwell: float
    escape: float
    iid_escape: float
    conductance: float
    observed: ObservedRegion | None = None


@dataclass(frozen=True)
class EntrapmentReport:
    """What `entrapment` found.

    Attributes
    ----------
    regions
        By expected dwell, the longest first.
    score
        The greatest ratio of dwell to i.i.d. dwell over the regions: 1 is none, 100 says that a visit lasts a hundred
        times longer than independent draws from the same law would.
    gap, uniform_gap
        The right spectral gap of this chain and of UnifRW on the same network.
    correlation
        From a trace: autocorrelation of the updates at lags 0, 1, …, or None.

    Examples
    --------
    >>> import levywalk as lw
    >>> report = lw.entrapment(lw.ring(50), lw.heterogeneous(50, important=1), lw.weight_rw())
    >>> report.regions[0].dwell > report.regions[0].iid_dwell
    True
    """

    design: str
    radius: int
    regions: tuple[Region, ...]
    score: float
    gap: SpectralGap
    uniform_gap: SpectralGap
    correlation: Floats | None = None

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        worst = max(self.regions, key=lambda region: region.dwell / region.iid_dwell)
        where = (
            f"node {worst.nodes[0]}"
            if len(worst.nodes) == 1
            else f"the {len(worst.nodes)} nodes around {worst.nodes[0]}"
        )
        return (
            f"Under {self.design} the model stays {_steps(worst.dwell)} per visit at {where}; i.i.d. sampling from the "
            f"same law stays {_steps(worst.iid_dwell)}."
        )


def _steps(value: float) -> str:
    return f"{value:.3g} step{'' if f'{value:.3g}' == '1' else 's'}"


def entrapment(
    network: Network,
    problem: Problem,
    design: Design,
    *,
    trace: Trace | None = None,
    radius: int = 3,
    nodes: Ints | None = None,
) -> EntrapmentReport:
    """Say whether, where and how long a design holds the model.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`.
    trace
        A run of the same design with ``record_walk=True``: adds what was observed beside what is expected.
    radius
        How many hops away counts as escaped.
    nodes
        The nodes to look at; by default those with at least ten times the uniform share of the target (or the
        greatest, if none has).

    Examples
    --------
    >>> import levywalk as lw
    >>> report = lw.entrapment(lw.ring(100), lw.heterogeneous(100, important=1), lw.weight_rw())
    >>> report.score > 10
    True
    """
    radius = checks.integer("radius", radius, low=1)
    design = require_design(network, problem, design)
    bound = design.bind(network, problem)
    P = transition(network, problem, design)
    law = stationary(P)
    important = _important(bound.law) if nodes is None else _given(nodes, network.n)
    hops = adjacency_matrix(network)
    regions = [_region(P, law, bound.law, hops, members, radius) for members in _clusters(hops, important)]
    if trace is not None:
        regions = [_with_observed(region, trace) for region in regions]
    regions.sort(key=lambda region: -region.dwell)
    uniform = transition(network, problem, unif_rw())
    return EntrapmentReport(
        design=design.name,
        radius=radius,
        regions=tuple(regions[:_MOST_REGIONS]),
        score=max(region.dwell / region.iid_dwell for region in regions),
        gap=spectral_gap(P),
        uniform_gap=spectral_gap(uniform),
        correlation=None if trace is None else update_correlation(trace, problem),
    )


def _important(target: Floats) -> Ints:
    found = np.flatnonzero(target * len(target) >= IMPORTANT)
    return found if len(found) else np.array([int(target.argmax())])


def _given(nodes: Ints, n: int) -> Ints:
    clean = np.unique(np.atleast_1d(np.asarray(nodes)))
    if clean.dtype.kind not in "iu" or not clean.size or clean.min() < 0 or clean.max() >= n:
        raise InvalidParameter(f"nodes must be node numbers in [0, {n - 1}], got {nodes!r}")
    return clean.astype(np.int64)


def _clusters(hops: sparse.csr_array, nodes: Ints) -> list[Ints]:
    """Return the nodes as groups of neighbours."""
    count, label = csgraph.connected_components(hops[nodes][:, nodes], directed=False)
    return [nodes[label == k] for k in range(count)]


def _ball(hops: sparse.csr_array, nodes: Ints, radius: int) -> Ints:
    inside = np.zeros(hops.shape[0], dtype=bool)
    inside[nodes] = True
    for _ in range(radius):
        inside |= hops @ inside.astype(np.float64) > 0
    return np.flatnonzero(inside)


def _region(
    P: sparse.csr_array,
    law: Floats,
    target: Floats,
    hops: sparse.csr_array,
    nodes: Ints,
    radius: int,
) -> Region:
    mass = float(law[nodes].sum())
    inner = P[nodes][:, nodes]
    flow = float(law[nodes] @ (1.0 - inner.sum(axis=1)))
    if flow <= 0.0 or mass >= 1.0:
        raise InvalidParameter(f"nodes {nodes[:5].tolist()}… hold the model forever; give fewer nodes")
    ball = _ball(hops, nodes, radius)
    outside = 1.0 - float(law[ball].sum())
    escape = np.inf
    if len(ball) < len(law):
        system = sparse.csc_array(sparse.eye_array(len(ball)) - P[ball][:, ball])
        times = np.atleast_1d(spsolve(system, np.ones(len(ball))))
        start = law[nodes] / mass
        escape = float(start @ times[np.searchsorted(ball, nodes)])
    return Region(
        nodes=tuple(int(v) for v in nodes),
        target=float(target[nodes].sum()),
        mass=mass,
        dwell=mass / flow,
        iid_dwell=1.0 / (1.0 - mass),
        escape=escape,
        iid_escape=1.0 / outside if outside > 1e-15 else np.inf,
        conductance=flow / min(mass, 1.0 - mass),
    )


def _with_observed(region: Region, trace: Trace) -> Region:
    if trace.walk is None:
        raise InvalidParameter("trace needs the walk: run with record_walk=True")
    here = np.isin(trace.walk, region.nodes)
    stays = [length for row in here for length in _complete_stays(row)]
    observed = ObservedRegion(
        stays=len(stays),
        dwell=float(np.mean(stays)) if stays else np.nan,
        longest=int(max(stays, default=0)),
        share=float(here.mean()),
        effective_size=_effective_size(here),
        updates=here.size,
    )
    return replace(region, observed=observed)


def _complete_stays(here: np.ndarray) -> Ints:
    """Return the lengths of stays that begin and end within the run."""
    edges = np.diff(here.astype(np.int8))
    begins, ends = np.flatnonzero(edges == 1) + 1, np.flatnonzero(edges == -1) + 1
    ends = ends[ends > begins[0]] if len(begins) else ends[:0]
    return np.asarray(ends - begins[: len(ends)], dtype=np.int64)


def _effective_size(here: np.ndarray) -> float:
    try:
        from arviz_stats.base.array import array_stats
    except ImportError:
        raise InvalidParameter("an effective sample size needs arviz-stats: pip install 'levywalk[data]'") from None
    if here.all() or not here.any():
        return np.nan  # never left or never entered: nothing varies
    ess: Any = array_stats.ess
    return float(ess(here.astype(np.float64), method="mean", chain_axis=0, draw_axis=1))


def update_correlation(trace: Trace, problem: Problem, lags: int = 200) -> Floats:
    """Return the autocorrelation of the updates' directions along the recorded walks, at lags 0, …, ``lags``.

    The update at node v is judged at the optimum, h(v) = ∇f_v(x*): what a node always pulls towards. Independent
    updates have 0 from lag 1 on.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.homogeneous(30)
    >>> trace = lw.run(lw.complete(30), problem, lw.iid_uniform(), steps=20_000, step_size=1e-3, record_walk=True)
    >>> correlation = update_correlation(trace, problem)
    >>> bool(abs(correlation[1:]).max() < 0.1)
    True
    """
    if trace.walk is None or trace.optimum is None:
        raise InvalidParameter("trace needs the walk (record_walk=True) and the problem its optimum")
    weights = 1.0 / (problem.n * trace.target)
    pulls = weights[:, None] * local_gradients(problem, trace.optimum)
    steps = trace.walk.shape[1]
    lags = min(lags, steps - 1)
    total = np.zeros(lags + 1)
    for walk in trace.walk:
        series = pulls[walk] - (trace.target @ pulls)
        size = 1 << (2 * steps - 1).bit_length()
        spectrum = np.abs(np.fft.rfft(series, n=size, axis=0)) ** 2
        total += np.fft.irfft(spectrum.sum(axis=1), n=size)[: lags + 1] / (steps - np.arange(lags + 1))
    return np.asarray(total / total[0])
