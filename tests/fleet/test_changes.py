"""Real nodes whose neighbours change: edges are taken out of node files, and put in, and the nodes
started again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter
from levywalk.fleet.checking.log_pieces import pieces
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.checking.processes import TERMS, settle
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Held
from levywalk.fleet.runtime.control import ask
from levywalk.fleet.setup.node_file import NodeFile, Peer
from levywalk.fleet.storage.reader import StoreReader
from tests.fleet.nodes import logged
from tests.limits import PATIENCE, eventually, mostly_soak

Change = Callable[[tuple[Peer, ...]], tuple[Peer, ...]]
PATIENT = replace(
    TERMS, dead_after=10.0
)  # an edge is down after that; a slow machine is not silent for so long


def change(live: RunningFleet, v: int, how: Change) -> None:
    """Change the neighbours in a node's file."""
    path = live.folder / f"node-{v}" / "node.toml"
    file = NodeFile.read(path)
    replace(file, neighbours=how(file.neighbours)).write(path)


def drop(live: RunningFleet, a: int, b: int) -> None:
    for v, u in ((a, b), (b, a)):
        change(live, v, lambda peers, u=u: tuple(peer for peer in peers if peer.id != u))


def add(live: RunningFleet, a: int, b: int, through: int) -> None:
    """Add an edge between two nodes that have a neighbour in common, whose file has all that is to
    be known.
    """
    known = {
        peer.id: peer
        for peer in NodeFile.read(live.folder / f"node-{through}" / "node.toml").neighbours
    }
    for v, u in ((a, b), (b, a)):
        change(live, v, lambda peers, u=u: (*peers, known[u]))


def stop_all(live: RunningFleet, holder: int) -> Held:
    """End all nodes but a frozen holder, which is killed; return what that holds."""
    eventually(
        lambda: len(live.statuses()) == len(live.running())
    )  # one that has not begun does not end as it should
    for v in live.running():
        assert live.end(v) == 0
    live.kill(holder)
    with StoreReader(live.state(holder)) as reading:
        disk = reading.load()
    assert disk is not None
    assert disk.held is not None
    return disk.held


def status(live: RunningFleet, v: int) -> dict[str, Any]:
    """Ask one node; `RunningFleet.statuses` leaves out a node that takes seconds to answer."""
    return ask(live.state(v), "status", timeout=PATIENCE)


def events(live: RunningFleet, v: int) -> list[tuple[str, int | None]]:
    return [(line["event"], line.get("neighbour")) for line in logged(live.folder / f"node-{v}")]


@pytest.mark.more  # the test below changes a fleet's edges too
@pytest.mark.parametrize(
    "which", mostly_soak(["guardian", "another"], lambda one: one == "guardian")
)
def test_an_edge_that_is_taken_out_of_both_files(tmp_path: Path, which: str) -> None:
    """The files are the operators' word: nobody waits for a guardian that is no neighbour
    any more.
    """
    network = lw.Network.from_edges([(a, b) for a in range(4) for b in range(a)])
    with RunningFleet(settle(tmp_path / "fleet", network, seed=1, terms=PATIENT)) as live:
        live.begin(PATIENCE)
        live.wait(live.pulse(), PATIENCE)
        holder = live.catch("holder", PATIENCE)
        held = stop_all(live, holder)
        away = held.guardian
        if which == "another":
            away = next(v for v in range(4) if v not in (holder, held.guardian, held.to))
        drop(live, holder, away)
        for v in range(4):
            live.start(v)
        eventually(lambda: len(live.statuses()) == 4)
        live.wait(live.pulse(), PATIENCE)
        for v, u in ((holder, away), (away, holder)):
            assert ("no longer a neighbour", u) in events(live, v)
            eventually(lambda v=v, u=u: not status(live, v)["edges"][str(u)]["up"])
            assert ask(live.state(v), "gone", node=u) == {"done": True}  # the disk knows it still
        for v, u in ((holder, holder), (holder, 9)):
            with pytest.raises(InvalidParameter, match=f"node {u} is not a neighbour of node {v}"):
                ask(live.state(v), "gone", node=u)
        eventually(lambda: len({tuple(one["epoch"]) for one in live.statuses().values()}) == 1)
        live.wait(live.pulse(), PATIENCE)
        assert (live.pulse().epoch > held.token.epoch) == (which == "guardian")
        assert ("guardian gone" in dict(events(live, holder))) == (
            which == "guardian"
        )  # at once, not in a while
        for v in live.running():
            assert live.end(v) == 0
        assert judge_folder(live.fleet, live.folder).lost == 0


@pytest.mark.more
def test_an_edge_that_is_put_into_both_files(tmp_path: Path) -> None:
    """It counts at both ends, all their neighbours hear of it, and the walk takes it."""
    with RunningFleet(settle(tmp_path / "fleet", lw.ring(4), seed=1, terms=PATIENT)) as live:
        live.begin(PATIENCE)
        add(live, 0, 2, through=1)
        for v in (0, 2):
            assert live.end(v) == 0
            live.start(v)
        for v, u in ((0, 2), (2, 0)):
            eventually(lambda v=v: v in live.statuses() and status(live, v)["degree"] == 3)
            eventually(lambda v=v, u=u: status(live, v)["edges"][str(u)]["up"])
        for v in (1, 3):
            assert [status(live, v)["edges"][u]["degree"] for u in ("0", "2")] == [3, 3]

        def taken() -> bool:
            """Whether the walk was at one end, and after one hop at the other."""
            logs = {piece.node: piece.lines for piece in pieces(live.folder)}
            hops = {v: {line.hops for line in logs[v] if isinstance(line, Visit)} for v in (0, 2)}
            return any(one + 1 in hops[2 - v] for v in hops for one in hops[v])

        eventually(taken)
        for v in live.running():
            assert live.end(v) == 0
        assert judge_folder(live.fleet, live.folder).lost == 0
