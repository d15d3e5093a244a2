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
from benchmarks.reference_c import ReferenceC, WalkC
from benchmarks.scale import Scale
from benchmarks.timing import STEP, Contender, Row, absent, interleave, seconds
from levywalk.draws import Domain, keys
from levywalk.engine.bind import BoundPhase
from levywalk.engine.kernels.tables import pack
from levywalk.engine.kernels.walkers import NEAR, StepParameters
from levywalk.engine.threads import StepLimit
from levywalk.engine.walk_alone import bind_walk
from levywalk.engine.walk_shares import KernelWalkShare, WalkNotes
from levywalk.interruption import CtrlC
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
    advance = WalkAlone(network, design, problem).kernel(steps)
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


class WalkAlone:
    """Walkers without a model, once bound; kernel and C go on from where they are."""

    def __init__(self, network: lw.Network, design: lw.Design, problem: lw.Problem | None) -> None:
        self.network = network
        _, bound = bind_walk(network, design, problem)
        self.tables, self.reach = pack(network, bound, None, None)
        published = PublishedPhase(bound.walk, bound.mean_score, lw.Constant(1.0))
        phase = BoundPhase(bound, published)
        self.step_parameters = StepParameters(
            np.ones(1), phase.jump_probabilities(0, 1), phase.distances()
        )
        self.keys = keys(0, Domain.WALK, range(WALKERS))

    def kernel(self, steps: int, notes: WalkNotes | None = None) -> Callable[[], None]:
        """Return what takes walkers through so many steps in the kernel."""
        share = KernelWalkShare(
            self._notes() if notes is None else notes,
            slice(0, WALKERS),
            self.keys,
            self.tables,
            False,
            self.reach,
            lambda start, stop: self.step_parameters,
        )

        def advance() -> None:
            step_limit = StepLimit(share.done, share.done + steps, steps, CtrlC(), math.inf)
            ends = np.array([share.done + steps])
            share.through(lambda done: None, marks=ends, step_limit=step_limit)

        return advance

    def c(
        self, compiler: ReferenceC, steps: int, notes: WalkNotes | None = None
    ) -> Callable[[], None]:
        """Return what takes walkers through so many steps in walk.c."""
        kept = self._notes() if notes is None else notes
        function = WalkC(compiler, self.tables, self.reach > NEAR, self.step_parameters, self.keys)
        done = 0

        def advance() -> None:
            nonlocal done
            function.advance(kept, done, done + steps)
            done += steps

        return advance

    def check(self, compiler: ReferenceC, steps: int = 5_000) -> None:
        """Raise if walk.c and the kernel do not walk alike."""
        ours, theirs = self._notes(), self._notes()
        self.kernel(steps, ours)()
        self.c(compiler, steps, theirs)()
        for name in ("node", "hops", "transfers"):
            if not np.array_equal(getattr(ours, name), getattr(theirs, name)):
                raise SystemExit(f"check: {self.network.name}: walk.c differs in {name}")

    def _notes(self) -> WalkNotes:
        starts = np.random.default_rng(0).integers(0, self.network.n, WALKERS)
        return WalkNotes(
            self.network.n, 0, WALKERS, starts, False, False, False, False, np.empty(0)
        )


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
