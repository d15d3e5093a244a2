"""What the page shows at step t is what `lw.run` returns at step t, whatever the pieces."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.live.live_run import LiveRun, StayCounts
from levywalk.walks import ChangingJumps

NETWORK = lw.ring(60)
PROBLEM = lw.heterogeneous(60, dim=3, important=2, seed=1)


def live(design: lw.Walk, update: lw.Update | None = None) -> LiveRun:
    return LiveRun(NETWORK, PROBLEM, design, update, step_size="theory", seed=7)


def same(run: LiveRun, design: lw.Walk, update: lw.Update | None = None) -> None:
    trace = lw.run(
        NETWORK,
        PROBLEM,
        design,
        steps=run.done,
        step_size="theory",
        seed=7,
        update=update,
        record_walk=True,
    )
    assert trace.walk is not None
    assert trace.visits is not None
    assert run.node == trace.final_node[0]
    assert (run.state.model == trace.model).all()
    assert run.error == trace.distance2[0, -1]
    assert (run.transfers, run.hops) == (trace.transfers[0, -1], trace.hops[0, -1])
    assert (run.visits == trace.visits[0]).all()
    nodes = np.append(trace.walk[0], trace.final_node[0])
    moved = np.flatnonzero(np.diff(nodes)) + 1
    begun = int(moved[-1]) if len(moved) else 0
    assert run.stays.now == run.done - begun
    assert run.stays.longest == trace.longest_dwell()[0][0]
    arrivals = np.bincount(nodes[np.append(0, moved)], minlength=60)
    assert (run.stays.arrivals == arrivals).all()


@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.weight_rw(), lw.mhlj(), lw.iid_weighted()], ids=lambda d: d.name
)
def test_pieces_of_any_length_make_the_run_of_the_library(design: lw.Walk) -> None:
    run = live(design)
    for steps in (1, 1, 5, 300, 9000):
        run.advance(steps)
    assert run.backend == "kernel"
    same(run, design)


@pytest.mark.more
def test_a_walk_and_an_update_that_remember_are_shown_as_well() -> None:
    run = live(lw.oldest_neighbour(), lw.saga())
    run.advance(3)
    run.advance(400)
    trace = lw.run(
        NETWORK,
        PROBLEM,
        lw.oldest_neighbour(),
        steps=403,
        step_size="theory",
        seed=7,
        update=lw.saga(),
    )
    assert run.node == trace.final_node[0]
    assert np.allclose(run.state.model, trace.model, rtol=0, atol=1e-9)


def test_jumps_that_are_changed_on_the_way_are_one_design() -> None:
    run = live(lw.weight_rw())
    run.advance(500)
    run.jump_by(0.3, 0.5, 3)
    run.jump_by(0.2, 0.4, 5)  # at the same step: replaces the change before
    run.advance(1)
    run.jump_by(0.0, 0.5, 3)
    run.advance(700)
    whole = run.whole()
    assert isinstance(whole, ChangingJumps)
    assert (whole.begins, whole.p_jump) == ([0, 500, 501], [0.0, 0.2, 0.0])
    same(run, whole)


def test_a_run_that_nobody_changed_is_the_design_itself() -> None:
    run = live(lw.mhlj(0.2))
    run.advance(10)
    assert run.whole() is run.original
    run.jump_by(0.1, 0.5, 3)
    assert run.whole() != run.original


@pytest.mark.parametrize("design", [lw.iid_weighted(), lw.rotor_router()], ids=lambda d: d.name)
def test_a_walk_without_such_jumps_says_so(design: lw.Walk) -> None:
    run = live(design)
    with pytest.raises(lw.InvalidParameter, match="cannot be changed"):
        run.jump_by(0.1, 0.5, 3)


def test_too_many_changes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levywalk.live.live_run.MOST_CHANGES", 2)
    run = live(lw.mhlj())
    run.advance(1)
    run.jump_by(0.2, 0.5, 3)
    run.advance(1)
    with pytest.raises(lw.InvalidParameter, match="restart"):
        run.jump_by(0.3, 0.5, 3)


def test_stays_do_not_depend_on_where_pieces_end() -> None:
    nodes = np.array([3, 3, 3, 3, 1, 1, 2, 2, 2])
    whole, parts = StayCounts(4), StayCounts(4)
    whole.follow(nodes)
    for start, stop in ((0, 2), (2, 3), (3, 7), (7, 8)):
        parts.follow(nodes[start : stop + 1])
    for stays in (whole, parts):
        assert (stays.now, stays.longest) == (2, 4)
        assert stays.arrivals.tolist() == [0, 1, 1, 0]
