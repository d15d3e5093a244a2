"""Entrapment: how long the model stays in a region, from the chain and from a recorded walk.

Let ν be the stationary law of the chain. The mean length of a stay in a region S is ν(S)/Q(S),
where Q(S) = Σ_{v∈S, u∉S} ν(v)P(v,u) is the flow out of S. This is exact, and for one node it is
1/(1 - P(v,v)). With independent draws from ν a stay lasts 1/(1 - ν(S)) steps. Entrapment is the
ratio of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.problem import Problem, holders_of
from levywalk.theory.chain.absorption import absorption_times
from levywalk.theory.chain.blas_threads import one_blas_thread
from levywalk.theory.chain.gap_result import SpectralGap
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.chain.stationary import StationaryReport, stationary_report
from levywalk.theory.chain.stochastic_matrix import reversible
from levywalk.theory.chain.transition import (
    adjacency_matrix,
    affordable_chain,
    require_design,
    transition,
)
from levywalk.theory.judge.curvature import local_gradients
from levywalk.theory.judge.regions import HEADER, ObservedRegion, Region, cells, steps_text
from levywalk.trace import Trace
from levywalk.walks import BoundWalk, Design, unif_rw

IMPORTANT = 10.0  # a node is important if it has ten times the uniform share or more
_MOST_REGIONS = 20


@dataclass(frozen=True, repr=False)
class EntrapmentReport:
    """The result of `entrapment`.

    Attributes
    ----------
    design, radius
        The name of the design, and the number of hops that count as escaped.
    regions
        The regions, the longest expected dwell first.
    score
        The largest ratio of dwell to i.i.d. dwell over the regions. 1 means no entrapment. 100
        means that a visit lasts a hundred times longer than with independent draws from the same
        law.
    spectral_gap, uniform_spectral_gap
        The right spectral gap of this chain and of UnifRW on the same network.
    law
        The stationary law of the chain, with the method that found it and its error.
    correlation
        The autocorrelation of the updates at lags 0, 1, … in the trace; None without a trace.

    Examples
    --------
    >>> import levywalk as lw
    >>> report = lw.entrapment(lw.ring(50), lw.heterogeneous(50, important=1), lw.weight_rw())
    >>> report
    EntrapmentReport(WeightRW: score ..., ... steps per visit at node ..., right spectral gap ...)
    """

    design: str
    radius: int
    regions: tuple[Region, ...]
    score: float
    spectral_gap: SpectralGap
    uniform_spectral_gap: SpectralGap
    law: StationaryReport
    correlation: Floats | None = None

    @property
    def answers(self) -> dict[str, str]:
        """How each number was found: "exact", or "iterative" with an error estimate."""
        return {
            "stationary law": self.law.answer,
            "steps to escape": self.worst.escape_answer,
            "right spectral gap": self.spectral_gap.answer,
        }

    @property
    def worst(self) -> Region:
        """The region with the largest ratio of dwell to i.i.d. dwell."""
        return max(self.regions, key=lambda region: region.ratio)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return (
            f"Under {self.design} the model stays {steps_text(self.worst.dwell)} per visit at "
            f"{self.worst.place}; i.i.d. sampling from the same law stays "
            f"{steps_text(self.worst.iid_dwell)}."
        )

    def __repr__(self) -> str:
        return (
            f"EntrapmentReport({self.design}: score {self.score:.3g}, "
            f"{steps_text(self.worst.dwell)} per visit at {self.worst.place}, "
            f"right spectral gap {self.spectral_gap.value:.3g})"
        )

    def _repr_html_(self) -> str:
        answers = "; ".join(f"{name}: {answer}" for name, answer in self.answers.items())
        caption = (
            f"Entrapment of {self.design}: score {self.score:.3g}, right spectral gap "
            f"{self.spectral_gap.value:.3g} (UnifRW: {self.uniform_spectral_gap.value:.3g}); "
            f"{answers}"
        )
        return columns_html(HEADER, [cells(region) for region in self.regions], caption)


@one_blas_thread
def entrapment(
    network: Network,
    problem: Problem,
    design: Design,
    *,
    trace: Trace | None = None,
    radius: int = 3,
    nodes: Ints | None = None,
) -> EntrapmentReport:
    """Return where, and for how long, a design keeps the model in a region.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`.
    trace
        A run of the same design with ``record_walk=True``. If given, the report also contains what
        was observed.
    radius
        The number of hops that count as escaped.
    nodes
        The nodes to look at. Default: the nodes with at least ten times the uniform share of the
        target, or the one with the largest share if there are none.

    Notes
    -----
    Steps are updates: while nodes without data pass the model on, no step is counted, and a stay
    lasts from an update in the region to the first update outside.

    On networks without small separators, where sparse factors would be nearly full, the steps to
    escape and the gaps come from iterations with an error bound. ``answers`` says which method
    answered.

    Examples
    --------
    >>> import levywalk as lw
    >>> report = lw.entrapment(lw.ring(100), lw.heterogeneous(100, important=1), lw.weight_rw())
    >>> report.score > 10
    True
    """
    design = require_design(network, problem, design)
    P = affordable_chain(network, problem, design)
    uniform = spectral_gap(transition(network, problem, unif_rw()))
    return entrapment_of_chain(
        network,
        problem,
        design,
        P,
        stationary_report(P),
        uniform_spectral_gap=uniform,
        trace=trace,
        radius=radius,
        nodes=nodes,
    )


def entrapment_of_chain(
    network: Network,
    problem: Problem,
    design: Design,
    P: Any,
    found: StationaryReport,
    *,
    uniform_spectral_gap: SpectralGap,
    trace: Trace | None = None,
    radius: int = 3,
    nodes: Ints | None = None,
) -> EntrapmentReport:
    """Return `entrapment` where the chain, its law and the gap of UnifRW are already known."""
    radius = checks.integer("radius", radius, low=1)
    bound = design.bind(network, problem)
    important = _important(bound) if nodes is None else _given(nodes, bound)
    hops = adjacency_matrix(network)
    regions = [
        _region(P, found.law, bound, hops, members, radius)
        for members in _clusters(hops, important)
    ]
    regions.sort(key=lambda region: -region.dwell)
    score = max(region.ratio for region in regions)
    symmetric = reversible(P, found.law)
    regions = [
        _with_escape(region, P, found.law, bound, hops, radius, symmetric=symmetric)
        for region in regions[:_MOST_REGIONS]
    ]
    if network.given_names is not None:
        names = network.given_names
        regions = [replace(each, names=tuple(names[v] for v in each.nodes)) for each in regions]
    if trace is not None:
        regions = [_with_observed(region, trace) for region in regions]
    return EntrapmentReport(
        design=design.name,
        radius=radius,
        regions=tuple(regions),
        score=score,
        spectral_gap=spectral_gap(P, stationary=found.law),
        uniform_spectral_gap=uniform_spectral_gap,
        law=found,
        correlation=None if trace is None else update_correlation(trace, problem),
    )


def _important(bound: BoundWalk) -> Ints:
    """Return the nodes of the network that the target visits most."""
    target = bound.law
    found = np.flatnonzero(target * len(target) >= IMPORTANT)
    found = found if len(found) else np.array([int(target.argmax())])
    return found if bound.holders is None else bound.holders[found]


def _given(nodes: Ints, bound: BoundWalk) -> Ints:
    clean, n = np.unique(np.atleast_1d(np.asarray(nodes))), bound.network.n
    if clean.dtype.kind not in "iu" or not clean.size or clean.min() < 0 or clean.max() >= n:
        raise InvalidParameter(f"nodes must be node numbers in [0, {n - 1}], got {nodes!r}")
    if bound.idle is not None and bound.idle[clean].any():
        v = int(clean[bound.idle[clean]][0])
        raise InvalidParameter(f"nodes must have data, got node {v}, which has none; leave it out")
    return clean.astype(np.int64)


def _states(bound: BoundWalk, nodes: Ints) -> Ints:
    """Return the states of the chain that belong to nodes of the network; idle ones have none."""
    if bound.holders is None:
        return nodes
    return np.flatnonzero(np.isin(bound.holders, nodes))


def _clusters(hops: sparse.csr_array, nodes: Ints) -> list[Ints]:
    """Return the nodes as groups of neighbouring nodes."""
    count, label = csgraph.connected_components(hops[nodes][:, nodes], directed=False)
    return [nodes[label == k] for k in range(count)]


def _ball(hops: sparse.csr_array, nodes: Ints, radius: int) -> Ints:
    inside = np.zeros(hops.shape[0], dtype=bool)
    inside[nodes] = True
    for _ in range(radius):
        inside |= hops @ inside.astype(np.float64) > 0
    return np.flatnonzero(inside)


def _region(
    P: Any, law: Floats, bound: BoundWalk, hops: sparse.csr_array, nodes: Ints, radius: int
) -> Region:
    """Return a region without the steps to escape."""
    states = _states(bound, nodes)
    mass = float(law[states].sum())
    if isinstance(P, LinearOperator):
        outside_nodes = np.ones(len(law))
        outside_nodes[states] = 0.0
        leave = np.asarray(P.matvec(outside_nodes))[states]
    else:
        leave = 1.0 - P[states][:, states].sum(axis=1)
    flow = float(law[states] @ leave)
    if flow <= 0.0 or mass >= 1.0:
        raise InvalidParameter(
            f"nodes {nodes[:5].tolist()}… keep the model forever; give fewer nodes"
        )
    outside = 1.0 - float(law[_states(bound, _ball(hops, nodes, radius))].sum())
    return Region(
        nodes=tuple(int(v) for v in nodes),
        target=float(bound.law[states].sum()),
        mass=mass,
        dwell=mass / flow,
        iid_dwell=1.0 / (1.0 - mass),
        escape=np.inf,
        iid_escape=1.0 / outside if outside > 1e-15 else np.inf,
        conductance=flow / min(mass, 1.0 - mass),
    )


def _with_escape(
    region: Region,
    P: Any,
    law: Floats,
    bound: BoundWalk,
    hops: sparse.csr_array,
    radius: int,
    *,
    symmetric: bool,
) -> Region:
    nodes = np.asarray(region.nodes)
    states, ball = _states(bound, nodes), _states(bound, _ball(hops, nodes, radius))
    if len(ball) == len(law):
        return region
    found = absorption_times(P, ball, law, symmetric=symmetric)
    start = law[states] / region.mass
    return replace(
        region,
        escape=float(start @ found.times[np.searchsorted(ball, states)]),
        escape_method=found.method,
        escape_error=found.error,
    )


def _with_observed(region: Region, trace: Trace) -> Region:
    if not hasattr(trace, "walk"):
        raise InvalidParameter(
            f"trace must be what levywalk.run(…, record_walk=True) returns, got {trace!r}"
        )
    if trace.walk is None:
        raise InvalidParameter("trace must contain the walk; run with record_walk=True")
    here = np.isin(trace.walk, region.nodes)
    stays = [length for row in here for length in _complete_stays(row)]
    observed = ObservedRegion(
        n_stays=len(stays),
        dwell=float(np.mean(stays)) if stays else np.nan,
        longest=int(max(stays, default=0)),
        share=float(here.mean()),
        effective_size=_effective_size(here),
        n_updates=here.size,
    )
    return replace(region, observed=observed)


def _complete_stays(here: np.ndarray) -> Ints:
    """Return the lengths of the stays that begin and end within the run."""
    edges = np.diff(here.astype(np.int8))
    begins, ends = np.flatnonzero(edges == 1) + 1, np.flatnonzero(edges == -1) + 1
    ends = ends[ends > begins[0]] if len(begins) else ends[:0]
    return np.asarray(ends - begins[: len(ends)], dtype=np.int64)


def _effective_size(here: np.ndarray) -> float:
    with needs("data", "the effective sample size of a recorded walk"):
        from arviz_stats.base.array import array_stats
    if here.all() or not here.any():
        return np.nan  # the model never left or never entered the region
    ess: Any = array_stats.ess
    return float(ess(here.astype(np.float64), method="mean", chain_axis=0, draw_axis=1))


def update_correlation(trace: Trace, problem: Problem, lags: int = 200) -> Floats:
    """Return the autocorrelation of the updates along the recorded walks, at lags 0, …, ``lags``.

    The update at node v is represented by its weighted gradient at the optimum. Independent updates
    have correlation 0 from lag 1 on.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(30), lw.homogeneous(30)
    >>> trace = lw.run(
    ...     network, problem, lw.iid_uniform(), steps=20_000, step_size=1e-3, record_walk=True
    ... )
    >>> correlation = update_correlation(trace, problem)
    >>> bool(abs(correlation[1:]).max() < 0.1)
    True
    """
    if trace.walk is None or trace.optimum is None:
        raise InvalidParameter(
            "trace must contain the walk and the optimum; run with record_walk=True and a problem "
            "with an optimum"
        )
    target, holders = trace.target, holders_of(problem)
    if holders is not None:
        target = target[holders]
    weights = 1.0 / (problem.n * target)
    pulls = weights[:, None] * local_gradients(problem, trace.optimum)
    steps = trace.walk.shape[1]
    lags = min(lags, steps - 1)
    total = np.zeros(lags + 1)
    for walk in trace.walk:
        states = walk if holders is None else np.searchsorted(holders, walk)
        series = pulls[states] - (target @ pulls)
        size = 1 << (2 * steps - 1).bit_length()
        spectrum = np.abs(np.fft.rfft(series, n=size, axis=0)) ** 2
        total += np.fft.irfft(spectrum.sum(axis=1), n=size)[: lags + 1] / (
            steps - np.arange(lags + 1)
        )
    return np.asarray(total / total[0])
