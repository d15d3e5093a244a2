"""Nodes' logs become one trace: the winning lineage, what is missing, what was lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.errors import InvalidParameter, InvalidTrace
from levywalk.fleet.operate.fleet_status import NodeView
from levywalk.fleet.operate.lost_updates import lost_updates
from levywalk.fleet.operate.merge import merge, winning_chain
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Archived, Began, Disk, Known, Line, Own
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.runtime.node_status import describe
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.limits import examples

TERMS = HandOffTerms(
    run=b"merge", renew_after=10, heartbeat=0.1, dead_after=1.0, retry=0.05, policy="eager"
)
A, B, C = Epoch(0, 0, 0), Epoch(1, 3, 1), Epoch(2, 5, 2)


def fleet_of(steps: int = 300, n: int = 12, **more: object) -> Fleet:
    problem = lw.heterogeneous(n, important=1, seed=1)
    how: dict[str, object] = {
        "steps": steps,
        "step_size": "theory",
        "terms": TERMS,
        "record_every": 10,
        "seed": 5,
    }
    return Fleet.of(lw.watts_strogatz(n, 4, 0.2, seed=2), problem, lw.mhlj(), **(how | more))


def visit(epoch: Epoch, step: int) -> Visit:
    return Visit(epoch, step, step, step, 0, -1, -1, np.full(10, float(step)))


def visits(epoch: Epoch, *steps: int) -> list[Line]:
    return [visit(epoch, step) for step in steps]


def three_epochs() -> dict[int, list[Line]]:
    """Epoch A does steps 0 to 5, B goes on from 3, and C, which wins, from B's step 5."""
    return {
        0: [Began(A, FIRST, 0), *visits(A, 0, 1, 2)],
        1: [*visits(A, 3, 4, 5), Began(B, A, 3), *visits(B, 3, 4, 5, 6)],
        2: [Began(C, B, 5), *visits(C, 5, 6, 7, 8)],
    }


def test_the_highest_epoch_wins_from_its_base_on_and_its_parent_below():
    chain = winning_chain(three_epochs(), fleet_of(8).published)
    assert chain.epochs == ((A, 0), (B, 3), (C, 5))
    assert [Epoch(*chain.visits[step][1].token_epoch) for step in range(9)] == [A] * 3 + [B] * 2 + [
        C
    ] * 4
    assert chain.missing == ()
    assert chain.lost == ((A, 3), (A, 4), (A, 5), (B, 5), (B, 6))


@pytest.mark.parametrize("parent", [C, Epoch(3, 0, 0)], ids=["itself", "a later one"])
def test_an_epoch_that_names_itself_as_its_parent_does_not_hold_the_readers_up(parent):
    """A node of an earlier version may have logged such a line on a neighbour's word."""
    logs = three_epochs()
    logs[3] = [Began(C, parent, 5)]
    chain = winning_chain(logs, fleet_of(8).published)
    assert chain.epochs == ((A, 0), (B, 3), (C, 5))
    del logs[2][0]
    assert winning_chain(logs, fleet_of(8).published).lost is None
    about = describe(Disk(Known(C, 5), Own(2, 0, leaving=False), {}))
    views = [
        NodeView(
            v, None, False, about, tuple(one for one in log if isinstance(one, Began)), None, None
        )
        for v, log in logs.items()
    ]
    assert lost_updates(views, C, 5, 10).certain >= 0


def test_a_branch_beside_the_winning_lineage_is_lost_as_a_whole():
    logs = three_epochs()
    logs[2] = [Began(C, A, 4), *visits(C, 4, 5, 6, 7, 8)]
    chain = winning_chain(logs, fleet_of(8).published)
    assert chain.epochs == ((A, 0), (C, 4))
    assert chain.lost == ((A, 4), (A, 5), (B, 3), (B, 4), (B, 5), (B, 6))


def test_an_end_that_was_overtaken_is_no_update():
    logs = {
        0: [Began(A, FIRST, 0), *visits(A, *range(9))],
        1: [Began(B, A, 6), *visits(B, 6, 7, 8)],
    }
    assert winning_chain(logs, fleet_of(8).published).lost == ((A, 6), (A, 7))


def test_a_step_that_two_nodes_claim_is_refused():
    logs = three_epochs()
    logs[0].append(visit(C, 6))
    with pytest.raises(InvalidParameter, match="nodes 0 and 2 both have step 6"):
        merge(logs, fleet_of(8))


def test_nothing_to_merge():
    with pytest.raises(InvalidParameter, match="at least one line"):
        merge({0: [], 1: []}, fleet_of())
    with pytest.raises(InvalidParameter, match="at least one model"):
        merge({0: [Began(A, FIRST, 0)]}, fleet_of())
    with pytest.raises(InvalidParameter, match="missing must be"):
        merge(three_epochs(), fleet_of(8), missing="ignore")


def test_a_lost_log_is_refused_by_the_steps_that_are_missing_or_marked():
    logs = three_epochs() | {1: []}
    with pytest.raises(InvalidParameter, match=r"5 are missing \(steps 0, 1, 2, 3, 4\)"):
        merge(logs, fleet_of(8))
    trace = merge(logs, fleet_of(8), missing="mark")
    assert trace.walk.tolist() == [[-1] * 5 + [2] * 3]
    assert trace.step.tolist() == [5, 6, 7, 8]
    assert trace.provenance["fleet"]["missing"] == [0, 1, 2, 3, 4]
    assert (
        trace.provenance["fleet"]["lost_updates"] is None
    )  # node 1 began an epoch, and nobody knows from which
    assert trace.visits[0, 2] == 3


@pytest.mark.parametrize("name", ["walk.nc", "walk.npz"])
def test_a_trace_with_gaps_can_be_read_again(tmp_path, name):
    trace = merge(three_epochs() | {1: []}, fleet_of(8), missing="mark")
    trace.save(tmp_path / name)
    found = lw.load_trace(tmp_path / name)
    np.testing.assert_array_equal(found.walk, trace.walk)
    np.testing.assert_array_equal(found.step, trace.step)
    for missing in ([0, 1, 2, 3], [0, 1, 2, 3, 99], "all", [True] * 5):  # gaps that nobody tells
        about = trace.provenance["fleet"] | {"missing": missing}
        replace(trace, provenance=trace.provenance | {"fleet": about}).save(tmp_path / name)
        with pytest.raises(InvalidTrace, match="contradicts itself"):
            lw.load_trace(tmp_path / name)


def test_a_walk_that_is_not_over_ends_at_the_last_model():
    logs = three_epochs()
    logs[2][-1] = logs[2][-1]._replace(model=None)
    trace = merge(logs, fleet_of(20))
    assert trace.step[-1] == 7
    assert trace.provenance["interrupted"]
    assert trace.provenance["fleet"]["stopped_at"] == -1


def replayed(fleet: Fleet, walk: np.ndarray) -> np.ndarray:
    """The model after the updates of a walk, by the rule x ← x - γ w(v) ∇f_v(x) alone."""
    bound = fleet.design.bind(fleet.network, fleet.problem)
    x, step_size = np.zeros(fleet.problem.dim), 1.0 / bound.largest
    for v in walk:
        x = x - step_size * (bound.weights[v] * fleet.problem.local_gradient(v, x))
    return x


@examples(25)
@given(
    faults=st.lists(
        st.tuples(
            st.floats(0.05, 4.0),
            st.sampled_from(["kill", "leave"]),
            st.sampled_from(["holder", "guardian", 3, 4]),
        ),
        min_size=1,
        max_size=3,
    ),
    back=st.floats(0.1, 3.0),
)
def test_after_any_faults_the_merged_walk_is_whole_and_replays_to_the_model(faults, back):
    fleet = fleet_of(200)
    virtual = VirtualFleet(fleet)
    for time, what, node in faults:
        virtual.at(time, PlannedFault(what, node))
        for v in range(12):
            virtual.at(time + back, PlannedFault("restart", v))
    assert virtual.run()
    trace = merge(virtual.logs, fleet)
    assert trace.step[-1] == 200
    assert np.array_equal(trace.model[0], virtual.final.model)
    assert np.array_equal(replayed(fleet, trace.walk[0]), trace.model[0])
    assert trace.visits.sum() == 200
    assert trace.hops[0, -1] == virtual.final.hops


@pytest.mark.more
def test_after_a_fork_the_nodes_themselves_report_what_was_lost():
    fleet = fleet_of(300, n=16, shared_key=False, seed=3)
    side = frozenset(range(8))
    seen = 0
    for time in np.arange(0.2, 0.5, 0.0211):
        virtual = VirtualFleet(fleet)
        virtual.run(until=float(time))
        virtual.at(virtual.now, PlannedFault("cut", nodes=side))
        virtual.at(virtual.now + 1.5, PlannedFault("heal", nodes=side))
        assert virtual.run()
        lost = merge(virtual.logs, fleet).provenance["fleet"]["lost_updates"]
        reported: dict[Epoch, int] = {}
        for line in (
            line for log in virtual.logs.values() for line in log if isinstance(line, Archived)
        ):
            reported[line.token.epoch] = max(line.lost, reported.get(line.token.epoch, 0))
        # A node counts from the base of what overtook it; its own epoch may have begun from an
        # older copy.
        assert abs(sum(reported.values()) - lost) <= TERMS.renew_after + 1
        seen += lost > 10
        if lost:
            assert any(told.what == "archived" for told in virtual.reports)
    assert seen


@pytest.mark.more
def test_lost_updates_are_counted_after_the_holder_died():
    fleet = fleet_of(300, shared_key=False)
    lost = []
    for time in np.arange(0.2, 0.5, 0.0211):
        virtual = VirtualFleet(fleet)
        virtual.at(float(time), PlannedFault("kill", "holder"))
        assert virtual.run()
        found = merge(virtual.logs, fleet).provenance["fleet"]
        assert found["lost_updates"] <= TERMS.renew_after + 1
        assert len(found["epochs"]) <= 2
        lost.append(found["lost_updates"])
    assert max(lost) > 0
