"""The section on the walk alone: levywalk against the peers, simple random walk and
Metropolis-Hastings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import levywalk as lw
from benchmarks.cases import Case, heterogeneous, networks
from benchmarks.peers import ANY, PEERS, Peer, QuantEcon, Walks
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import STEP, Contender, Row, absent, interleave, seconds
from levywalk.draws import Domain, keys
from levywalk.engine.bind import BoundPhase
from levywalk.engine.interrupt import Interruptible
from levywalk.engine.kernels.tables import pack
from levywalk.engine.kernels.walkers import Course
from levywalk.engine.threads import Pace
from levywalk.engine.walk_alone import bind_walk
from levywalk.engine.walk_shares import KernelWalkShare, WalkNotes
from levywalk.step import PublishedPhase

OURS = "levywalk"
WHOLE = "levywalk.walk, the whole call"
UPDATING = "levywalk's kernel with an update of dim 2"
WALKERS = 64
TIMES = 8  # levywalk takes so many times the peers' steps: it would be over too soon


def walks(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """The walk alone, on one thread: ns per step."""
    for network in networks(scale.nodes):
        title = f"{network.name}, simple random walk"
        contenders: dict[str, Contender] = {}
        missing: dict[str, str] = {}
        _add_ours(contenders, network, lw.simple_rw(), None, scale)
        problem = heterogeneous(network.n, 2)
        case = Case(network, problem, scale.large_steps // 16, 64, design=lw.simple_rw())
        contenders[UPDATING] = case.kernel()
        for peer in PEERS:
            _add_peer(contenders, missing, peer, peer.prepare, network, scale, may_stay=False)
        yield from _measure(title, contenders, missing, scale)

        title = f"{network.name}, Metropolis-Hastings to the importance law"
        problem = heterogeneous(network.n)
        contenders, missing = {}, {}
        _add_ours(contenders, network, lw.weight_rw(), problem, scale)
        for peer in PEERS:
            if peer.can == ANY and isinstance(peer, QuantEcon):
                matrix = lw.transition(network, problem, lw.weight_rw())
                prepare = _chain(peer, matrix)
                _add_peer(contenders, missing, peer, prepare, network, scale, may_stay=True)
        yield from _measure(title, contenders, missing, scale)


def _add_ours(
    contenders: dict[str, Contender],
    network: lw.Network,
    design: lw.Design,
    problem: lw.Problem | None,
    scale: Scale,
) -> None:
    """Our walk on one thread, once bound as the peers' graphs are, and the whole call of
    `levywalk.walk`.
    """
    steps = max(scale.walk_steps * TIMES // WALKERS, 1)
    per_step = 1e9 / (steps * WALKERS)
    advance = bound_walk(network, design, problem, steps)
    contenders[OURS] = lambda: per_step * seconds(advance)
    if problem is None:
        options: dict[str, Any] = {
            "record_visits": False,
            "record_dwell": False,
            "threads": 1,
            "progress": False,
        }
        whole = partial(lw.walk, network, design, steps=steps, replicas=WALKERS, **options)
        contenders[WHOLE] = lambda: per_step * seconds(whole)


def bound_walk(
    network: lw.Network, design: lw.Design, problem: lw.Problem | None, steps: int
) -> Callable[[], None]:
    """Return what takes walkers through so many steps, each time from where they are."""
    _, bound = bind_walk(network, design, problem)
    tables, far = pack(network, bound, None, None)
    published = PublishedPhase(bound.walk, bound.mean_score, lw.Constant(1.0))
    phase = BoundPhase(bound, published)
    course = Course(np.ones(1), phase.jump_probabilities(0, 1), phase.distances())
    starts = np.random.default_rng(0).integers(0, network.n, WALKERS)
    record = WalkNotes(network.n, steps, WALKERS, starts, False, False, False, False, np.empty(0))
    walk_keys = keys(0, Domain.WALK, range(WALKERS))
    share = KernelWalkShare(
        record, slice(0, WALKERS), walk_keys, tables, False, far, lambda start, stop: course
    )

    def advance() -> None:
        with Interruptible() as interrupt:
            pace = Pace(share.done, share.done + steps, steps, interrupt, math.inf)
            ends = np.array([share.done + steps])
            share.through(lambda done: None, marks=ends, pace=pace)

    return advance


def _add_peer(
    contenders: dict[str, Contender],
    missing: dict[str, str],
    peer: Peer,
    prepare: Callable[[lw.Network], Walks],
    network: lw.Network,
    scale: Scale,
    *,
    may_stay: bool,
) -> None:
    if not peer.version():
        missing[peer.name] = "not installed"
        return
    prepared = prepare(network)
    prepared.check(may_stay=may_stay)
    steps, walkers = peer.shape(network, scale.walk_steps)
    contenders[peer.name] = lambda: 1e9 / (steps * walkers) * prepared(steps, walkers)


def _chain(peer: QuantEcon, matrix: Any) -> Callable[[lw.Network], Walks]:
    return lambda network: peer.prepare_chain(network, matrix)


def _measure(
    title: str, contenders: dict[str, Contender], missing: dict[str, str], scale: Scale
) -> Iterator[Row]:
    if contenders:
        baseline = next(iter(contenders))
        for row in interleave(
            "walk", title, contenders, max(scale.repetitions // 2, 3), unit=STEP, baseline=baseline
        ):
            assert row.median is not None
            yield replace(row, note=f"{1e3 / row.median:.3g} M steps/s")
    for name, note in missing.items():
        yield absent("walk", title, name, STEP, note)
