"""The law of the walk while nodes die, come back, join and leave: read from the nodes themselves,
against theory.

Every survivor's decision is a function of a word. Which part of the words leads where is found by
bisection, to 2^-53, from `NodeSite.decide` in a virtual fleet after the fault; the matrices to
compare with are written out here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import JUMP, Key
from levywalk.fleet.protocol.events import Got, Joins, Start
from levywalk.fleet.protocol.messages import Heartbeat
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.protocol.records import Disk, Known, Own
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Token
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.walks import Walk

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 4), (4, 5), (4, 6), (5, 6), (0, 5)]
LIPSCHITZ = [1.0, 9.0, 0.5, 3.0, 20.0, 2.0, 1.5]
TERMS = HandOffTerms(run=b"churn", heartbeat=0.1, dead_after=1.0, retry=0.05, policy="eager")
DESIGNS = {
    "uniform": lw.unif_rw(),
    "importance": lw.weight_rw(),
    "mixed": lw.mixed_rw(0.3),
    "jumps": lw.mhlj(0.3, 0.5, 3),
}
TOP = 1 << 64


class Fixed(Key):
    """A key that answers every question about a hop with one word, and never asks for a jump."""

    __slots__ = ("answer",)

    def __init__(self, answer: int) -> None:
        object.__setattr__(self, "answer", answer)

    def word(self, step: int, slot: int) -> int:
        return TOP - 1 if slot == JUMP else self.answer


def decides(here: NodeSite, token: Token, word: int) -> int:
    """Where the node sends the token if its word for the hop is this one."""
    own, here.key = here.key, Fixed(word)
    try:
        return here.decide(token)[1]
    finally:
        here.key = own


def row(here: NodeSite, token: Token, pieces: int, n: int) -> np.ndarray:
    """The law of a decision: in each of ``pieces`` equal parts of the words, one proposal, accepted
    below a bound.
    """
    law = [Fraction(0)] * n
    for piece in range(pieces):
        low, high = -(-piece * TOP // pieces), -(-(piece + 1) * TOP // pieces) - 1
        first, last = decides(here, token, low), decides(here, token, high)
        bound, beyond = low, high
        while first != last and beyond - bound > 1:
            middle = (bound + beyond) // 2
            bound, beyond = (
                (middle, beyond) if decides(here, token, middle) == first else (bound, middle)
            )
        edge = Fraction(beyond if first != last else high + 1)
        law[first] += (edge - Fraction(piece * TOP, pieces)) / TOP
        law[last] += (Fraction((piece + 1) * TOP, pieces) - edge) / TOP
    return np.array([float(part) for part in law])


def matrix(virtual: VirtualFleet, alive: list[int], phase: str) -> np.ndarray:
    """The survivors' one-step law: of a Metropolis-Hastings decision ("mh"), or of one hop of a
    jump ("hop").
    """
    n = virtual.fleet.network.n
    plain = virtual.fleet.token
    found = np.zeros((n, n))
    for v in alive:
        here = virtual.node(v).site
        if phase == "mh":
            found[v] = row(here, plain, here.views[0].degree, n)
        else:
            found[v] = row(
                here, plain._replace(step=1, hop=1, distance=2), max(1, len(here.views[0].live)), n
            )
    return found[np.ix_(alive, alive)]


def whole_law(virtual: VirtualFleet, alive: list[int]) -> np.ndarray:
    """The law of a whole step, jumps included, from the nodes' own decisions and the published jump
    law.
    """
    decision = matrix(virtual, alive, "mh")
    jump = virtual.fleet.published.phases[0].walk.jump
    if jump is None:
        return decision
    hop = matrix(virtual, alive, "hop")
    far = sum(
        q * np.linalg.matrix_power(hop, i + 1) for i, q in enumerate(jump.distance.probabilities())
    )
    return (1 - jump.p_jump) * decision + jump.p_jump * far


def adjacency(edges: list[tuple[int, int]], n: int, policy: str) -> np.ndarray:
    A = np.zeros((n, n))
    for v, u in edges:
        A[v, u] = A[u, v] = 1.0
    return A + np.eye(n) if policy == "counted" else A


def expected_law(
    fleet: Fleet, edges: list[tuple[int, int]], alive: list[int], policy: str
) -> np.ndarray:
    """MH with the degrees of ``edges``, proposals to the dead being stays; hops uniform over live
    neighbours.
    """
    n, t = fleet.network.n, fleet.scores[0]
    A = adjacency(edges, n, policy)
    d = A.sum(axis=1)
    P, W = np.zeros((n, n)), np.zeros((n, n))
    for v in alive:
        for u in alive:
            if A[v, u] and u != v:
                P[v, u] = min(t[v] / d[v], t[u] / d[u]) / t[v]
        P[v, v] = 1.0 - P[v].sum()
        live = [u for u in alive if A[v, u]]
        for u in live or [v]:
            W[v, u] = 1.0 / max(1, len(live))
    jump = fleet.published.phases[0].walk.jump
    if jump is not None:
        far = sum(
            q * np.linalg.matrix_power(W, i + 1)
            for i, q in enumerate(jump.distance.probabilities())
        )
        P = (1 - jump.p_jump) * P + jump.p_jump * far
    return P[np.ix_(alive, alive)]


def stationary(P: np.ndarray) -> np.ndarray:
    n = len(P)
    return np.linalg.lstsq(
        np.vstack([P.T - np.eye(n), np.ones(n)]), np.append(np.zeros(n), 1.0), rcond=None
    )[0]


def fleet_of(design: Walk, policy: str = "none", steps: int = 10**6) -> Fleet:
    network = lw.Network.from_edges(EDGES, n=7, self_loops=policy)
    features = np.sqrt(np.array(LIPSCHITZ) / 2.0)[:, None]
    return Fleet.of(
        network,
        lw.LeastSquares(features, np.zeros(7)),
        design,
        steps=steps,
        step_size="theory",
        terms=TERMS,
        start=0,
    )


def after(
    fleet: Fleet, *faults: tuple[float, PlannedFault], absent: tuple[int, ...] = ()
) -> VirtualFleet:
    virtual = VirtualFleet(fleet, latency=0.01, absent=absent)
    for time, fault in faults:
        virtual.at(time, fault)
    virtual.run(until=faults[-1][0] + 4.0 if faults else 1.0)
    assert not virtual.over
    return virtual


ALL = list(range(7))


def without(*dead: int) -> list[int]:
    return [v for v in ALL if v not in dead]


@pytest.fixture(params=["none", pytest.param("counted", marks=pytest.mark.more)])
def policy(request) -> str:
    return request.param


@pytest.fixture(params=sorted(DESIGNS))
def design(request) -> Walk:
    return DESIGNS[request.param]


def assert_law(
    virtual: VirtualFleet, edges: list[tuple[int, int]], alive: list[int], policy: str
) -> None:
    found, expected = whole_law(virtual, alive), expected_law(virtual.fleet, edges, alive, policy)
    assert np.abs(found - expected).max() < 1e-12
    if virtual.fleet.published.phases[0].walk.jump is None:
        target = virtual.fleet.scores[0][alive]
        assert stationary(found) == pytest.approx(target / target.sum(), abs=1e-12)


def test_with_all_nodes_there_it_is_the_matrix_that_theory_gives(design, policy):
    fleet = fleet_of(design, policy)
    virtual = after(fleet)
    assert_law(virtual, EDGES, ALL, policy)
    assert whole_law(virtual, ALL) == pytest.approx(
        lw.transition(fleet.network, fleet.problem, design).toarray(), abs=1e-12
    )


def test_a_death_that_both_ends_agree_on_leaves_the_target_on_the_survivors(design, policy):
    virtual = after(fleet_of(design, policy), (0.5, PlannedFault("kill", 3)))
    assert_law(virtual, EDGES, without(3), policy)


def test_two_deaths(design):
    virtual = after(
        fleet_of(design), (0.5, PlannedFault("kill", 2)), (0.8, PlannedFault("kill", 6))
    )
    assert_law(virtual, EDGES, without(2, 6), "none")


def test_who_comes_back_with_its_disk_is_as_before(design, policy):
    virtual = after(
        fleet_of(design, policy), (0.5, PlannedFault("kill", 3)), (3.0, PlannedFault("restart", 3))
    )
    assert_law(virtual, EDGES, ALL, policy)


def test_who_comes_back_without_its_disk_is_as_before_too(design, policy):
    virtual = after(
        fleet_of(design, policy),
        (0.5, PlannedFault("lose disk", 3)),
        (3.0, PlannedFault("restart", 3)),
    )
    assert_law(virtual, EDGES, ALL, policy)


def test_who_leaves_is_as_if_dead(design):
    virtual = after(fleet_of(design), (0.5, PlannedFault("leave", 3)))
    assert_law(virtual, EDGES, without(3), "none")


def test_a_partition_that_heals_leaves_no_trace(design):
    side = frozenset([4, 5, 6])
    virtual = after(
        fleet_of(design),
        (0.5, PlannedFault("cut", nodes=side)),
        (4.0, PlannedFault("heal", nodes=side)),
    )
    assert_law(virtual, EDGES, ALL, "none")


def test_who_joins_makes_it_the_larger_network(design, policy):
    fleet = fleet_of(design, policy)
    before = [edge for edge in EDGES if 3 not in edge]
    virtual = VirtualFleet(fleet, latency=0.01, absent=[3])
    virtual.run(until=0.5)
    assert_law(virtual, before, without(3), policy)
    virtual.at(0.5, PlannedFault("join", 3))
    virtual.run(until=4.0)
    assert_law(virtual, EDGES, ALL, policy)


class Lossy(VirtualFleet):
    """A third of all messages are lost."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        super().__init__(fleet, latency=0.01, absent=[3])
        self.cuts = [frozenset()]

    def _connected(self, v: int, u: int) -> bool:
        return bool(self.dice.random() > 0.3)


def joining() -> list[VirtualFleet]:
    fleet = fleet_of(lw.weight_rw())
    calm = [
        VirtualFleet(fleet, latency=latency, absent=[3]) for latency in (0.003, 0.013, 0.05, 0.08)
    ]
    return calm + [Lossy(fleet, seed) for seed in range(12)]


@pytest.mark.more
def test_a_larger_degree_is_used_only_once_every_live_neighbour_has_it_on_disk():
    for virtual in joining():
        virtual.at(0.5, PlannedFault("join", 3))
        used = set()
        while virtual.now < 3.0:
            virtual.step()
            disks = {
                v: machine.disk
                for v, machine in enumerate(virtual.machines)
                if machine.node is not None
            }
            for v, disk in disks.items():
                for u, edge in disk["edges"].items():
                    record = disks[u]["edges"].get(v)
                    if edge.up and edge.joined and record is not None and record.up:
                        assert record.degree >= disk["own"].degree
            used.add(disks[0]["own"].degree)
        assert used == {3, 4}


def beat(degree: int, known_degree: int, *, version: int = 0, up: bool = False) -> Heartbeat:
    return Heartbeat(FIRST, b"", True, version, up, degree, known_degree, (1.0,))


def test_a_neighbour_whose_edge_is_about_to_come_up_must_know_the_larger_degree_too():
    node = fleet_of(lw.unif_rw()).node(3, Disk(Known(FIRST, 0), Own(0, 0, leaving=False), {}))
    node.receive(Start(), 0.0)
    node.receive(Joins(0), 0.0)
    node.receive(Got(0, beat(3, 1)), 0.1)
    assert node.disk.own.degree == 1
    node.receive(Joins(2), 0.2)  # while node 0, which knows of one edge, brings that one up
    node.receive(Got(2, beat(2, 2)), 0.3)
    assert node.disk.own.degree == 1
    node.receive(Got(0, beat(3, 1, version=1, up=True)), 0.3)
    assert (node.disk.own.degree, node.disk.edges[0].up) == (1, True)
    node.receive(Got(0, beat(3, 2, version=1, up=True)), 0.4)
    assert node.disk.own.degree == 2


def test_an_old_message_takes_no_degree_back():
    node = fleet_of(lw.unif_rw()).node(0)
    node.receive(Start(), 0.0)
    node.receive(Got(1, beat(5, 4, up=True)), 0.1)
    node.receive(Got(1, beat(2, 4, up=True)), 0.2)
    assert node.disk.edges[1].degree == 5


class OneSided(Node):
    """A mutant: a node that counts its own live edges as its degree, of which its neighbours know
    nothing.
    """

    def _look(self) -> None:
        live = sum(edge.up for edge in self.disk.edges.values())
        own, self.disk.own = self.disk.own, self.disk.own._replace(degree=live)
        super()._look()
        self.disk.own = own


@pytest.mark.parametrize("kind", ["uniform", "importance", "mixed", "jumps"])
def test_a_node_that_recomputes_its_degree_alone_is_caught(kind, monkeypatch):
    monkeypatch.setattr("levywalk.fleet.setup.build.Node", OneSided)
    virtual = after(fleet_of(DESIGNS[kind]), (0.5, PlannedFault("kill", 3)))
    alive = without(3)
    found, expected = whole_law(virtual, alive), expected_law(virtual.fleet, EDGES, alive, "none")
    assert np.abs(stationary(found) - stationary(expected)).max() > 1e-3
    with pytest.raises(AssertionError):
        assert_law(virtual, EDGES, alive, "none")


def test_suspicion_by_one_end_alone_is_not_exact():
    """Why both ends must agree: the same death, seen by one neighbour only."""
    virtual = after(fleet_of(lw.weight_rw()))
    node = virtual.node(4)
    node.disk.edges[3] = node.disk.edges[3]._replace(up=False)
    node._look()
    law = stationary(whole_law(virtual, ALL))
    target = virtual.fleet.scores[0] / virtual.fleet.scores[0].sum()
    assert np.abs(law - target).max() > 1e-3


@pytest.mark.more
def test_the_walk_itself_has_that_law():
    """The same, by what is seen: visits of a long walk of survivors."""
    fleet = fleet_of(lw.unif_rw(), steps=10**6)
    virtual = VirtualFleet(fleet, latency=0.01)
    virtual.at(0.5, PlannedFault("kill", 3))
    virtual.run(until=4.0)
    begun = {v: len(machine.log) for v, machine in enumerate(virtual.machines)}
    virtual.run(until=104.0)
    visits = np.array([len(machine.log) - begun[v] for v, machine in enumerate(virtual.machines)])
    share = visits[without(3)] / visits.sum()
    assert visits[3] == 0
    assert visits.sum() > 2000
    assert share == pytest.approx(np.full(6, 1 / 6), abs=0.05)
