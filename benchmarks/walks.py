"""The section on the walk alone: levywalk against the peers, simple random walk and Metropolis-Hastings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import levywalk as lw
from benchmarks.cases import Case, heterogeneous, networks
from benchmarks.peers import ANY, PEERS, Peer, QuantEcon, Walks
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import STEP, Contender, Row, absent, interleave, seconds

OURS = "levywalk.walk"
UPDATING = "levywalk's kernel with an update of dim 2"  # 64 replicas
WALKERS = 1024  # of levywalk.walk
TIMES = 20  # levywalk.walk takes so many times the peers' steps: its call also checks and binds


def walks(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """The walk alone, on one thread: ns per step."""
    for network in networks(scale.nodes):
        title = f"{network.name}, simple random walk"
        contenders: dict[str, Contender] = {}
        missing: dict[str, str] = {}
        _add_ours(contenders, missing, network, lw.simple_rw(), None, scale)
        problem = heterogeneous(network.n, 2)
        case = Case(network, problem, scale.large_steps // 16, 64, design=lw.simple_rw())
        contenders[UPDATING] = case.kernel()
        for peer in PEERS:
            _add_peer(contenders, missing, peer, peer.prepare, network, scale, may_stay=False)
        yield from _measure(title, contenders, missing, scale)

        title = f"{network.name}, Metropolis-Hastings to the importance law"
        problem = heterogeneous(network.n)
        contenders, missing = {}, {}
        _add_ours(contenders, missing, network, lw.weight_rw(), problem, scale)
        for peer in PEERS:
            if peer.can == ANY and isinstance(peer, QuantEcon):
                matrix = lw.transition(network, problem, lw.weight_rw())
                prepare = _chain(peer, matrix)
                _add_peer(contenders, missing, peer, prepare, network, scale, may_stay=True)
        yield from _measure(title, contenders, missing, scale)


def _add_ours(
    contenders: dict[str, Contender],
    missing: dict[str, str],
    network: lw.Network,
    design: lw.Design,
    problem: lw.Problem | None,
    scale: Scale,
) -> None:
    """`levywalk.walk`, the whole call, on one thread."""
    if not hasattr(lw, "walk"):
        missing[OURS] = "not in this version"
        return
    walk: Callable[..., Any] = lw.walk
    steps = max(scale.walk_steps * TIMES // WALKERS, 1)

    def work() -> object:
        return walk(network, design, problem=problem, steps=steps, replicas=WALKERS, threads=1, record_visits=False)

    contenders[OURS] = lambda: 1e9 / (steps * WALKERS) * seconds(work)


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


def _measure(title: str, contenders: dict[str, Contender], missing: dict[str, str], scale: Scale) -> Iterator[Row]:
    if contenders:
        baseline = next(iter(contenders))
        for row in interleave("walk", title, contenders, max(scale.repetitions // 2, 3), unit=STEP, baseline=baseline):
            assert row.median is not None
            yield replace(row, note=f"{1e3 / row.median:.3g} M steps/s")
    for name, note in missing.items():
        yield absent("walk", title, name, STEP, note)
