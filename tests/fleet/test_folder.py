"""A fleet's folder: real node processes on the loopback, started, looked at, killed, stopped and
read out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import levywalk as lw
from levywalk.cli.fleet.planned_faults import draw_faults
from levywalk.errors import InvalidParameter
from levywalk.fleet.operate import export, log_entries
from levywalk.fleet.operate.doctor import examine, running_nodes, whole_walks
from levywalk.fleet.operate.fleet_status import (
    NOTHING_KNOWN,
    NodeView,
    _winner,
    fleet_status,
)
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.lost_updates import lost_updates
from levywalk.fleet.operate.merge import winning_chain
from levywalk.fleet.operate.node_processes import FleetProblem, Starting
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.links import NO_RIGHT, EpochLink, LinkKind, Opening
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import (
    NOBODY,
    Archived,
    Began,
    Disk,
    Guarded,
    Held,
    HeldStatus,
    Known,
    Own,
)
from levywalk.fleet.protocol.starts import NeighbourStart, Starts
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.findings import FindingLevel
from levywalk.fleet.runtime.node_status import describe, running, waits_for
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.store import NodeStore, whole
from levywalk.trace import Trace
from tests.limits import PATIENCE
from tests.limits import eventually as until

pytestmark = pytest.mark.filterwarnings("ignore:the minimiser is not unique")
N = 5
REFERENCE: dict[str, Any] = {"backend": "reference", "record_walk": True}
QUICK = HandOffTerms(b"", renew_after=20, heartbeat=0.25, dead_after=4.0, retry=0.2)
PATIENT = replace(
    QUICK, dead_after=PATIENCE
)  # where nobody dies, nobody is considered dead on a slow machine


def founded(path: Path, steps: int, terms: HandOffTerms = PATIENT, **more: Any) -> FleetFolder:
    problem = lw.heterogeneous(N, important=1, seed=7)
    create(
        path,
        lw.ring(N),
        problem,
        lw.mhlj(),
        steps=steps,
        step_size="theory",
        seed=7,
        terms=terms,
        **more,
    )
    return FleetFolder.open(path)


def assert_same(trace: Trace, other: Trace) -> None:
    """To the bit."""
    for name in ("step", "walk", "model", "transfers", "hops", "distance2"):
        assert np.array_equal(getattr(trace, name), getattr(other, name)), name


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetFolder]:
    """A fleet with a shared key whose walk is over; its nodes run."""
    fleet = founded(
        tmp_path_factory.mktemp("fleet") / "replay", 250, shared_key=True, record_every=50
    )
    try:
        assert fleet.up() == list(range(N))
        until(lambda: all(node["finished"] for node in fleet.status()["nodes"]))
        yield fleet
    finally:
        fleet.stop(force=True)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetFolder]:
    """A fleet that walks for longer than these tests take; each leaves all of its nodes running."""
    fleet = founded(tmp_path_factory.mktemp("fleet") / "endless", 10**7, QUICK)
    try:
        fleet.up()
        yield fleet
    finally:
        fleet.stop(force=True)


def pids(fleet: FleetFolder) -> dict[int, int | None]:
    return {node["id"]: node["pid"] for node in fleet.status()["nodes"]}


def kill(pid: int | None, number: signal.Signals) -> None:
    assert pid is not None
    os.kill(pid, number)


# A walk that is over


def test_the_status_of_a_walk_that_is_over(replay: FleetFolder) -> None:
    status = replay.status(patience=PATIENCE)
    assert json.loads(json.dumps(status)) == status
    assert status["finished"]
    assert (status["step"], status["steps"], status["epoch"], status["lost_updates"]) == (
        250,
        250,
        0,
        0,
    )
    assert (status["nodes_up"], status["nodes_down"], status["waits"]) == (N, 0, [])
    assert status["holder"] == int(export.trace(replay).final_node[0])
    assert [node["id"] for node in status["nodes"]] == list(range(N))
    assert all(
        node["up"] and node["answers"] and node["pid"] == running(replay.files[node["id"]].state)
        for node in status["nodes"]
    )
    losses = [node["loss"] for node in status["nodes"]]
    assert status["loss"] == pytest.approx(np.mean(losses))


def test_with_a_shared_key_the_nodes_walk_as_the_simulation_does(replay: FleetFolder) -> None:
    trace = export.trace(replay)
    problem = lw.heterogeneous(N, important=1, seed=7)
    given = {"steps": 250, "step_size": "theory", "seed": 7, "record_every": 50}
    assert_same(trace, lw.run(lw.ring(N), problem, lw.mhlj(), **REFERENCE, **given))
    assert trace.provenance["fleet"]["shared_key"]


@pytest.mark.more
def test_edges_of_nodes_to_themselves_count_in_real_nodes_too(tmp_path: Path) -> None:
    network = lw.Network.from_edges([(0, 1), (1, 2), (2, 0)], self_loops="counted")
    problem = lw.heterogeneous(3, seed=2)
    given = {"steps": 120, "step_size": "theory", "seed": 2, "record_every": 40}
    create(
        tmp_path / "fleet",
        network,
        problem,
        lw.mhlj(),
        shared_key=True,
        terms=PATIENT,
        metrics=False,
        **given,
    )
    fleet = FleetFolder.open(tmp_path / "fleet")
    assert fleet.manifest.self_loops == "counted"
    try:
        fleet.up()
        until(lambda: all(node["finished"] for node in fleet.status()["nodes"]))
        assert [control.ask(file.state, "status")["degree"] for file in fleet.files.values()] == [
            3,
            3,
            3,
        ]
        assert_same(export.trace(fleet), lw.run(network, problem, lw.mhlj(), **REFERENCE, **given))
    finally:
        fleet.stop(force=True)


@pytest.mark.parametrize("node", [None, 3])
def test_the_final_model_is_safetensors(
    replay: FleetFolder, tmp_path: Path, node: int | None
) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(InvalidParameter, match="out must be a file in a folder that exists"):
        export.model(replay, tmp_path / "no" / "model", node=node)
    copy = export.model(replay, path, node=node)
    final = export.trace(replay).model[0]
    assert copy.final
    assert np.array_equal(load_file(path)["model"], final)
    assert np.array_equal(np.fromfile(path, "<f8", offset=128), final)


def test_without_visits_the_log_has_its_other_lines(replay: FleetFolder) -> None:
    began = 0
    for file in replay.files.values():
        with StoreReader(file.state) as reading:
            lines = [line for line in reading.lines() if not isinstance(line, Visit)]
            assert list(reading.without_visits()) == lines
            began += len(lines)
    assert began == 2  # the first token's, at the start and at its guardian


def test_a_fleet_that_is_well_has_nothing_to_complain_of(replay: FleetFolder) -> None:
    assert [finding for finding in examine(replay.path) if finding.level != FindingLevel.OK] == []


def test_the_logs_are_merged_by_time_and_in_words(replay: FleetFolder) -> None:
    entries = list(log_entries.entries({v: replay.log(v) for v in replay.files}))
    assert [entry["time"] for entry in entries] == sorted(entry["time"] for entry in entries)
    assert {entry["node"] for entry in entries} == set(range(N))
    said = "\n".join(log_entries.in_words(entry) for entry in entries)
    for words in (
        "starts, levywalk",
        "the edge to node 1 is up",
        "creates the first model; node",
        "over after 250 updates",
    ):
        assert words in said


def test_a_walk_that_has_begun_does_not_begin_again(replay: FleetFolder) -> None:
    before = replay.status()["step"]
    assert not replay.begin()
    (replay.path / "begun").unlink()
    assert not replay.begin()
    assert replay.begun
    assert replay.status()["step"] == before


# Nodes that die


@pytest.mark.more
def test_up_starts_only_what_is_dead(endless: FleetFolder) -> None:
    before = pids(endless)
    kill(before[2], signal.SIGKILL)
    until(
        lambda: not endless.status()["nodes"][2]["up"]
    )  # a zombie, until this process has waited for it
    status = endless.status()
    assert (status["nodes_up"], status["nodes_down"], status["nodes"][2]["pid"]) == (N - 1, 1, None)
    levels = {
        finding.level
        for finding in examine(endless.path)
        if "4 of 5 nodes run; down: 2" in finding.what
    }
    assert levels == {FindingLevel.WARNING}
    assert endless.up() == [2]
    after = pids(endless)
    assert after[2] not in (None, before[2])
    assert {v: pid for v, pid in after.items() if v != 2} == {
        v: pid for v, pid in before.items() if v != 2
    }
    assert endless.up() == []


@pytest.mark.more
def test_up_starts_a_node_again_that_dies_while_it_waits(endless: FleetFolder) -> None:
    """One is killed when it has answered, while another one that was stopped keeps `up` waiting."""
    before = pids(endless)
    kill(before[1], signal.SIGSTOP)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            kill(before[0], signal.SIGKILL)
        elif pids(endless)[0] not in (None, before[0]):
            kill(before[1], signal.SIGCONT)

    assert endless.up(say=say) == [0]
    after = pids(endless)
    assert after[0] not in (None, before[0])
    assert after[1] == before[1]


def test_a_node_that_is_killed_again_and_again_is_given_up() -> None:
    starts: list[int] = []

    def start(v: int) -> subprocess.Popen[bytes]:
        starts.append(v)
        process = subprocess.Popen(["sleep", "600"])
        process.kill()
        process.wait()
        return process

    nodes = Starting(start, lambda v: v != 7)
    for _ in range(9):
        nodes.see_to([6, 7])
    assert (starts, nodes.ended, nodes.started) == ([7] * 4, {7: -signal.SIGKILL}, [7])
    wrong = Starting(
        lambda v: subprocess.Popen(["false"]), lambda v: False
    )  # it ends by itself, and would do so again
    until(lambda: wrong.see_to([3]) == [] and wrong.ended == {3: 1})


@pytest.mark.more
def test_a_zombie_is_down(endless: FleetFolder) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    state = endless.path / "zombie"
    state.mkdir()
    (state / "lock").write_text(f"{process.pid}\n")
    until(
        lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )
    assert running(state) is None
    process.wait()


@pytest.mark.more
def test_nodes_that_are_stopped_are_read_from_their_disks(endless: FleetFolder) -> None:
    before = pids(endless)
    try:
        for pid in before.values():
            kill(pid, signal.SIGSTOP)
        status = endless.status(patience=0.2)
        assert (status["nodes_up"], status["hops_per_second"], status["loss"]) == (N, None, None)
        assert all(node["up"] and not node["answers"] for node in status["nodes"])
        assert status["step"] > 0
        assert status["holder"] in before
        assert status["guardian"] in before
        assert any("does not answer" in wait for wait in status["waits"])
        with pytest.raises(
            FleetProblem, match=f"process {before[0]}.*does not answer.*kill -CONT {before[0]}"
        ):
            endless.up(timeout=0.1)
    finally:
        for pid in before.values():
            kill(pid, signal.SIGCONT)
    assert endless.up() == []


@pytest.mark.more
def test_a_holder_that_dies_is_replaced_and_what_is_lost_is_counted(endless: FleetFolder) -> None:
    before = pids(endless)
    epoch = endless.status()["epoch"]
    for pid in before.values():
        kill(pid, signal.SIGSTOP)
    dead = endless.status(patience=0.2)["holder"]
    kill(before[dead], signal.SIGKILL)
    for v, pid in before.items():
        if v != dead:
            kill(pid, signal.SIGCONT)
    seen = until(lambda: (status := endless.status())["epoch"] > epoch and status)
    assert not seen["nodes"][dead]["up"]
    until(lambda: endless.status()["step"] > seen["step"])
    endless.stop()
    logs = export.read_logs(endless)
    lost = winning_chain(logs, endless.manifest.published).lost
    assert lost is not None
    assert endless.status()["lost_updates"] == len(lost)
    assert len(lost) <= QUICK.renew_after + 1
    endless.up()
    until(lambda: endless.status()["nodes"][dead]["epoch"] > epoch)
    endless.stop()
    assert endless.status()["lost_updates"] == len(lost)
    endless.up()


@pytest.mark.more
def test_a_node_that_is_gone_for_good(endless: FleetFolder) -> None:
    with pytest.raises(InvalidParameter, match=r"node 3 is not gone: process [0-9]+ runs"):
        endless.gone(3)
    kill(pids(endless)[3], signal.SIGKILL)
    until(lambda: not endless.status()["nodes"][3]["up"])
    assert until(lambda: _told(endless, 3)) == ([2, 4], [])
    until(lambda: not any(endless.status()["nodes"][v]["edges"]["3"]["up"] for v in (2, 4)))
    step = endless.status()["step"]
    until(lambda: endless.status()["step"] > step)
    endless.up()
    until(lambda: endless.status()["nodes"][3]["edges_up"] == 2)


def _told(fleet: FleetFolder, node: int) -> tuple[list[int], list[int]] | None:
    try:
        return fleet.gone(node)
    except FleetProblem:  # their ends of the connection may be open for a moment
        return None


@pytest.mark.more
def test_stop_takes_the_stopped_too_and_up_goes_on(endless: FleetFolder) -> None:
    kill(pids(endless)[1], signal.SIGSTOP)
    assert endless.stop() == list(range(N))
    status = endless.status()
    assert (status["nodes_up"], status["nodes_down"]) == (0, N)
    assert any("no node runs" in wait for wait in status["waits"])
    assert endless.stop() == []
    with pytest.raises(FleetProblem, match=r"the walk is not over: [0-9,]+ of 10,000,000 updates"):
        export.model(endless, endless.path / "model")
    assert not export.model(endless, endless.path / "model", now=True).final
    trace = export.trace(endless)
    assert int(trace.step[-1]) <= status["step"]
    endless.up()
    until(lambda: endless.status()["step"] > status["step"])


@pytest.mark.more
def test_leaving(endless: FleetFolder) -> None:
    with pytest.raises(InvalidParameter, match=r"node must be one of .*0-4, got 9"):
        endless.leave(9)
    until(lambda: endless.status()["nodes"][4]["waits"] is None)  # it may just have started again
    endless.leave(4)
    until(lambda: endless.status()["nodes"][4]["edges_up"] == 0)
    assert endless.status()["nodes"][4]["leaving"]


# Trouble


@pytest.mark.more
def test_a_node_that_cannot_start_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    fleet = founded(tmp_path / "fleet", 100)
    data = fleet.files[1].data
    data.unlink()
    try:
        with pytest.raises(
            FleetProblem,
            match=r"node 1 ended with exit code 1; the end of .*node.log:\n(.|\n)*data.npz",
        ):
            fleet.up()
        assert not fleet.begun
        assert [node["up"] for node in fleet.status()["nodes"]] == [True, False, True, True, True]
        problems = [
            finding.what for finding in examine(fleet.path) if finding.level == FindingLevel.PROBLEM
        ]
        assert any("node 1" in what and "data.npz" in what for what in problems)
    finally:
        fleet.stop(force=True)


def test_the_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    fleet = founded(tmp_path / "fleet", 100)
    text = (tmp_path / "fleet/node-0/node.toml").read_text()
    fleet.files[1].key.chmod(0o644)
    fleet.files[2].manifest.write_text("{}")
    print_of_4 = next(peer.fingerprint for peer in fleet.files[0].neighbours if peer.id == 4)
    (tmp_path / "fleet/node-0/node.toml").write_text(text.replace(print_of_4, "0" * 64))
    (tmp_path / "fleet/node-3/node.toml").write_text("id = 3\n")
    problems = " | ".join(
        f"{one.what} {one.remedy}"
        for one in examine(fleet.path)
        if one.level == FindingLevel.PROBLEM
    )
    for words in (
        "node-1/node.key",
        "node-2/manifest.json",
        "node 0 has a wrong fingerprint of node 4",
        "node-3/node.toml",
    ):
        assert words in problems, words
    assert print_of_4 in problems


def test_certificates_are_renewed(tmp_path: Path) -> None:
    fleet = founded(tmp_path / "fleet", 100)
    before = {v: file.certificate.read_bytes() for v, file in fleet.files.items()}
    assert fleet.renew([2]) == [fleet.files[2].certificate]
    changed = [v for v, file in fleet.files.items() if file.certificate.read_bytes() != before[v]]
    assert changed == [2]
    assert len(fleet.renew()) == N
    assert [
        finding for finding in examine(fleet.path) if finding.level == FindingLevel.PROBLEM
    ] == []


def test_what_is_no_fleet_folder(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidParameter,
        match=r"not a fleet's folder: it has no manifest.json; levywalk fleet init",
    ):
        FleetFolder.open(tmp_path)
    fleet = founded(tmp_path / "fleet", 100)
    with pytest.raises(
        InvalidParameter,
        match=f"one node's folder: give {fleet.path / 'node-2' / 'node.toml'}, or the",
    ):
        FleetFolder.open(fleet.path / "node-2")
    (fleet.path / "node-2").rename(fleet.path / "node-9")
    with pytest.raises(InvalidParameter, match=r"node-9: its node.toml is of node 2"):
        FleetFolder.open(fleet.path)


def test_one_node_alone_is_looked_at_stopped_and_not_begun(tmp_path: Path) -> None:
    fleet = founded(tmp_path / "fleet", 100)
    one = FleetFolder.open(fleet.path / "node-2" / "node.toml")
    try:
        assert one.up() == [2]
        status = one.status()
        assert [(node["id"], node["up"]) for node in status["nodes"]] == [(2, True)]
        assert (status["step"], status["holder"], one.log(2).exists(), one.begun) == (
            0,
            None,
            True,
            False,
        )
    finally:
        assert one.stop(force=True) == [2]


def test_before_anything_has_happened(tmp_path: Path) -> None:
    fleet = founded(tmp_path / "fleet", 100)
    status = fleet.status()
    assert (status["holder"], status["guardian"], status["step"], status["nodes_down"]) == (
        None,
        None,
        0,
        N,
    )
    assert status["lost_updates"] == 0
    assert any("not started" in wait for wait in status["waits"])
    with pytest.raises(FleetProblem, match="no disk has a model yet"):
        export.model(fleet, tmp_path / "model", now=True)
    with pytest.raises(FleetProblem, match="the walk has not started"):
        export.trace(fleet)
    with pytest.raises(FleetProblem, match="no node runs; start them"):
        fleet.begin(timeout=0.0)
    with pytest.raises(control.NoAnswer):
        fleet.leave(2)


def test_an_end_that_was_overtaken_is_not_the_end(tmp_path: Path) -> None:
    """One node has seen the walk's end, another one an epoch that was brought back from
    before it.
    """
    fleet = founded(tmp_path / "fleet", 100)
    first = fleet.manifest.first_token
    final = first._replace(epoch=Epoch(0, 0, 0), step=100, model=first.model + 1.0)
    later = first._replace(epoch=Epoch(1, 3, 1), step=80, base=80, model=first.model + 2.0)
    blank = Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})
    for v, disk in (
        (0, replace(blank, known=Known(final.epoch, 0), final=final)),
        (
            1,
            replace(
                blank,
                known=Known(later.epoch, 80),
                held=Held("active", later, 2, -1, -1, 80, FIRST),
            ),
        ),
    ):
        with NodeStore(
            fleet.files[v].state, fleet.manifest.digest, limits=fleet.manifest.limits
        ) as store:
            store.persist(whole(disk))
    out = tmp_path / "model"
    with pytest.raises(FleetProblem, match="the walk is not over: 80 of 100 updates are done"):
        export.model(fleet, out)
    assert not out.exists()
    assert export.model(fleet, out, now=True)[::2] == (1, False)
    assert np.array_equal(load_file(out)["model"], later.model)
    assert export.model(fleet, out, node=0).final  # as far as that node knows


def test_what_a_holder_waits_for() -> None:
    token = Token.first(np.zeros(2))._replace(epoch=Epoch(0, 0, 1), step=100)
    held = Held("active", token, 5, -1, -1, 0, FIRST)
    disk = Disk(Known(token.epoch, 0), Own(2, 0, leaving=False), {}, held=held)
    guardian = "waits for its guardian, node 5, which does not answer"
    assert waits_for(disk, set(), 100) == guardian
    assert waits_for(disk, {5}, 100) is None
    assert waits_for(disk, set(), 101) is None  # it may go on for an update
    disk.held = held._replace(status="moving", to=6)
    assert waits_for(disk, {6}, 101) == guardian
    assert waits_for(disk, {5}, 101) == "waits for the next node, node 6, which does not answer"
    disk.held = held._replace(status="withdrawing", to=6)
    assert waits_for(disk, {6}, 101) == guardian
    assert waits_for(disk, {5}, 101) is None
    disk.held = held._replace(status="active", guardian=5)
    assert waits_for(disk, {5, 6}, 101, {6, 7, 8}) == (
        "waits for the answers of nodes 7, 8 to the walk's question"
    )
    assert waits_for(disk, {5, 6}, 101, {6}) is None  # it will answer in a moment
    disk.held = held._replace(status="prepared")
    assert waits_for(disk, set(), 1) is None


def test_what_helps_a_node_that_waits_is_what_helps() -> None:
    """Neither a full disk nor a guardian that is connected is settled by `up` or by `gone`."""
    full = {"version": lw.__version__, "waits": "disk full", "silence": 9.0}
    disk = Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})
    held = Held(HeldStatus.ACTIVE, Token.first(np.zeros(2)), 3, NOBODY, NOBODY, 0, FIRST)
    disk.held = held._replace(copied=-9)
    slow = waits_for(disk, {3}, 1, unresponsive=(3, 7.0))
    views = {
        2: NodeView(2, 42, True, describe(disk) | full | {"waits": slow}, (), None, None),
        3: NodeView(3, 43, True, NOTHING_KNOWN | full, (), None, None),
    }
    again = waits_for(disk, {3}, 1, unresponsive=(3, None))
    once = views[2]._replace(about=views[2].about | {"waits": again}).waits_for_others("f")
    assert once is not None
    assert "node 3, which is connected and did not take the model the last time; do: " in once
    room = "make room on the disk of its state folder; it continues by itself"
    ask = "levywalk fleet logs f --node 3, and if its owner cannot help, levywalk fleet revoke f 3"
    about = "node 2 waits for its guardian, node 3, which is connected and has not answered for 7 s"
    assert views[3].waits_to_act("f") == f"node 3 waits, disk full; do: {room}"
    assert views[2].waits_for_others("f") == f"{about}; do: {ask}"
    found = {one.what: one.remedy for one in running_nodes(Path("f"), views)}
    assert (found["node 3 waits, disk full"], found[about]) == (room, ask)


def test_doctor_says_that_a_node_leaves_or_has_left() -> None:
    """Its edges are meant to be down, so they are no findings of its neighbours."""
    fleet = Fleet.of(
        lw.ring(4), lw.homogeneous(4, dim=2), lw.mhlj(), steps=100_000, step_size="theory"
    )
    virtual = VirtualFleet(fleet)
    virtual.run(until=0.5)
    virtual.at(0.5, PlannedFault("leave", 3))
    answer = {"version": lw.__version__, "waits": None}

    def said(*, up: bool = True) -> list[str]:
        views = {
            v: NodeView(
                v, 40 + v if up or v != 3 else None, True, one.about | answer, (), None, None
            )
            for v, one in enumerate(seen(virtual))
        }
        found = running_nodes(Path("fleet"), views)
        return [f"{one.what}; do: {one.remedy}" for one in found]

    def leaves() -> bool:
        return bool(virtual.machines[3].disk["own"].leaving)

    while not leaves():
        virtual.step()
    assert any(
        one.startswith("node 3 is leaving, and ") and "levywalk fleet status fleet" in one
        for one in said()
    )
    virtual.run(until=30.0)
    assert any(
        one.startswith("node 3 has left; its process may be stopped: kill 43") for one in said()
    )
    assert not any("is down" in one for one in said())
    gone = said(up=False)
    assert gone[:2] == ["all 3 nodes run; do: ", "node 3 has left; do: "]
    assert not any("down" in one for one in gone)


# What is lost


def seen(virtual: VirtualFleet) -> Iterator[NodeView]:
    """Look at a virtual fleet's disks as at a real one's."""
    for v, machine in enumerate(virtual.machines):
        lines = tuple(line for line in machine.log if isinstance(line, Archived | Began))
        yield NodeView(v, None, False, describe(Disk(**machine.disk)), lines, None, None)


@pytest.mark.more
@pytest.mark.parametrize("policy", ["wait", pytest.param("eager", marks=pytest.mark.soak)])
def test_what_is_lost_is_counted_as_the_merged_logs_count_it(policy: str) -> None:
    network, problem = (
        lw.watts_strogatz(12, 4, 0.1, seed=1),
        lw.heterogeneous(12, important=2, seed=1),
    )
    terms = HandOffTerms(b"", 20, policy, heartbeat=0.05, dead_after=0.3, retry=0.05)
    blank = describe(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {}))
    most = bounded = 0
    for seed in range(6):
        fleet = Fleet.of(
            network, problem, lw.mhlj(), steps=600, step_size="theory", seed=seed, terms=terms
        )
        virtual = VirtualFleet(fleet)
        for at, fault in [
            *draw_faults(6, 12, 2.0, 0.3, seed),
            (0.9, PlannedFault("kill", "holder")),
        ]:
            virtual.at(at, fault)
        for moment in (0.7, 1.5, 9.0):
            virtual.run(until=moment)
            lost = winning_chain(virtual.logs, fleet.published).lost
            assert lost is not None
            views = list(seen(virtual))
            counted = lost_updates(views, *_winner(views), terms.renew_after)
            assert counted == (len(lost), len(lost)), (seed, moment)  # no disk is lost
            most = max(most, len(lost))
            for gone in combinations(range(12), 2):  # as if these had lost their disks
                left = [
                    one if one.id not in gone else one._replace(about=blank, lines=())
                    for one in views
                ]
                if _winner(left) != _winner(views):
                    continue
                partly = lost_updates(left, *_winner(left), terms.renew_after)
                assert partly.certain <= len(lost), (seed, moment, gone)
                assert partly.at_most is None or partly.at_most >= len(lost), (seed, moment, gone)
                bounded += partly.at_most is not None
    assert most > 0
    assert bounded > 100


def test_an_epoch_of_which_no_disk_is_left_does_not_count_as_lost() -> None:
    """Epoch B came between A and C, and all disks that knew it are lost: 2 updates, and not 118."""
    a, b, c = Epoch(0, 0, 0), Epoch(1, 40, 1), Epoch(2, 45, 2)
    token = Token.first(np.zeros(2))._replace(epoch=a, step=118)
    blank = describe(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {}))
    known = describe(Disk(Known(c, 130), Own(2, 0, leaving=False), {}))
    lines: dict[int, tuple[Archived | Began, ...]] = {
        0: (Began(a, FIRST, 0), Archived(token, "active", b, 2)),
        1: (),
        2: (Began(c, b, 130),),
    }
    views = [
        NodeView(v, None, False, blank if v == 1 else known, lines[v], None, None) for v in lines
    ]
    assert lost_updates(views, c, 130, 20) == (2, 2 + 21)
    views[0] = views[0]._replace(lines=lines[0][:1])  # that line is lost as well
    # Perhaps B was a revived copy, so nobody knows how far the holder before it came.
    assert lost_updates(views, c, 130, 20) == (0, None)
    revived = Archived(token._replace(step=130), "revived", c, 0)
    views[2] = views[2]._replace(lines=(*lines[2], revived))
    assert lost_updates(views, c, 130, 20).at_most is None


def test_how_an_epoch_was_opened_is_known_when_its_openers_disk_is_lost() -> None:
    """Node 1 opened epoch B and lost its disk. Only if it restored a copy as the guardian, the
    holder before it made at most K updates more.
    """
    a, b = Epoch(0, 0, 0), Epoch(1, 40, 1)
    token = Token.first(np.zeros(2))._replace(epoch=b, step=118)

    def views(kind: LinkKind | None) -> list[NodeView]:
        opening = None if kind is None else Opening(kind, b, a, a, 40, True, 40, 118, b"", 0, b"")
        link = None if opening is None else EpochLink(opening, NO_RIGHT)
        known = describe(Disk(Known(b, 118, link), Own(2, 0, leaving=False), {}))
        lines = {0: (Began(a, FIRST, 0),), 2: ()}
        found = [NodeView(v, None, False, known, told, None, None) for v, told in lines.items()]
        held = describe(Disk(Known(b, 118, link), Own(2, 0, leaving=False), {}, final=token))
        return [*found, NodeView(3, None, False, held, (), None, None)]

    assert lost_updates(views(LinkKind.REGENERATED), b, 118, 20) == (0, 21)
    assert lost_updates(views(LinkKind.REVIVED), b, 118, 20) == (0, None)
    assert lost_updates(views(None), b, 118, 20) == (0, None)  # not known


def test_with_all_disks_a_branch_that_ended_between_two_nodes_is_counted_exactly() -> None:
    """A split fleet walked on in both halves. When they met again, the model of the lower branch
    was between two nodes: the next one had not started with it.
    """
    a, low, high = Epoch(0, 0, 0), Epoch(1, 8, 0), Epoch(1, 8, 1)
    guarded = Archived(
        Token.first(np.zeros(2))._replace(epoch=low, base=17, step=56), "guarded", high, 39
    )
    held = Token.first(np.zeros(2))._replace(epoch=high, base=17, step=90)

    def disk(v: int, seen: dict[int, NeighbourStart]) -> dict[str, Any]:
        starts = Starts(bytes([v]), 1, 9, "", seen)
        found = Disk(Known(high, 17), Own(1, 0, leaving=False), {}, starts=starts)
        if v == 1:
            found.held = Held("active", held, 0, NOBODY, NOBODY, 80, a)
        return describe(found)

    def views(seen: dict[int, NeighbourStart]) -> list[NodeView]:
        lines = {0: (Began(a, FIRST, 0), Began(low, a, 17), guarded), 1: (Began(high, a, 17),)}
        whose = {0: {1: NeighbourStart(bytes([1]))}, 1: seen}
        return [NodeView(v, None, False, disk(v, whose[v]), lines[v], None, None) for v in lines]

    assert lost_updates(views({0: NeighbourStart(bytes([0]))}), high, 17, 20) == (39, 39)
    assert lost_updates(views({}), high, 17, 20) == (39, 39)
    again = NeighbourStart(
        bytes([0]), past=(bytes([9]),)
    )  # node 0 has lost an earlier state folder
    assert lost_updates(views({0: again}), high, 17, 20) == (39, None)
    assert lost_updates(views({0: NeighbourStart(bytes([9]))}), high, 17, 20) == (39, None)
    assert lost_updates(views({})[:1], high, 17, 20) == (39, None)  # node 1 is not here


def test_who_holds_the_model_is_known_without_the_holders_disk() -> None:
    network, problem = lw.ring(6), lw.heterogeneous(6, important=1, seed=1)
    fleet = Fleet.of(network, problem, lw.mhlj(), steps=400, step_size="theory", seed=1)
    manifest = Manifest.of(fleet)
    blank = describe(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {}))
    virtual = VirtualFleet(fleet)
    looked = 0
    for moment in np.linspace(0.01, 1.0, 60):
        virtual.run(until=float(moment))
        views = list(seen(virtual))
        status = fleet_status(views, manifest, begun=True)
        holder, guardian = status["holder"], status["guardian"]
        if virtual.whose("holder") is None or views[holder].about["held"] is None:
            continue  # on its way, or over
        assert (holder, guardian) == (virtual.whose("holder"), virtual.whose("guardian"))
        views[holder] = views[holder]._replace(about=blank)
        assert fleet_status(views, manifest, begun=True)["holder"] in (holder, guardian)
        looked += 1
    assert looked > 10


def test_the_folder_tells_what_the_fleet_was_founded_with(replay: FleetFolder) -> None:
    fleet = fleet_of(replay.path)
    assert (fleet.network.n, fleet.start, fleet.shared_key) == (N, replay.manifest.start, True)


def test_a_false_end_is_reported_and_not_exported(tmp_path: Path) -> None:
    """A former guardian has signed it, and the walk goes on: a later hand-off of its epoch is held,
    guarded or released.
    """
    born = Epoch(0, 0, 0)
    first = founded(tmp_path / "fleet", 100).manifest.first_token._replace(epoch=born)
    false = first._replace(seq=3, step=100, model=first.model + 1.0)
    token = first._replace(seq=5, step=80, model=first.model + 2.0)
    seal = Certificate(4, born, 5, 2, 1, b"", b"")
    blank = Disk(Known(born, 0), Own(2, 0, leaving=False), {})
    end = Ending(4, born, 3, 100, false.digest(), b"", NO_RIGHT)
    holds = replace(blank, held=Held("active", token, 4, -1, -1, 80, FIRST))
    guards = replace(blank, guarded=Guarded(token, 1, None, seal._replace(seq=4)))
    released = replace(blank, guarded=Guarded(token._replace(seq=3), 1, seal._replace(seq=3), None))
    for number, other in enumerate((holds, guards, released)):
        fleet = founded(tmp_path / f"fleet {number}", 100)
        for v, disk in ((0, replace(blank, final=false, end=end)), (1, other)):
            store = NodeStore(
                fleet.files[v].state, fleet.manifest.digest, limits=fleet.manifest.limits
            )
            with store:
                store.persist(whole(disk))
        found = fleet.status()
        assert not found["finished"]
        assert not any(row["finished"] for row in found["nodes"])
        (said,) = found["false_ends"]
        assert said in found["waits"]
        assert said.startswith("node 0 takes the walk to be over at update 100, which is false, ")
        assert "a guardian has lied; do: levywalk fleet logs" in said
        assert found["step"] == 80
        findings = [one for one in whole_walks([found], fleet.manifest) if "false" in one.what]
        assert [one.level for one in findings] == [FindingLevel.PROBLEM]
        out = tmp_path / "model"
        with pytest.raises(FleetProblem, match="the walk is not over"):
            export.model(fleet, out)
        with pytest.raises(FleetProblem, match="which is false"):
            export.model(fleet, out, node=0)
        assert export.model(fleet, out, now=True).node == 1
        assert found["lost_updates"] == 0


def test_an_end_that_its_holder_does_not_know_is_not_the_end(tmp_path: Path) -> None:
    """The present guardian has signed it; the holder, which is down, has still this very token."""
    fleet = founded(tmp_path / "fleet", 100)
    born = Epoch(0, 0, 0)
    first = fleet.manifest.first_token._replace(epoch=born, seq=3)
    false = first._replace(step=100, model=first.model + 1.0)
    blank = Disk(Known(born, 0), Own(2, 0, leaving=False), {})
    for v, disk in (
        (0, replace(blank, final=false)),
        (1, replace(blank, held=Held("active", first._replace(step=80), 0, -1, -1, 80, FIRST))),
    ):
        with NodeStore(
            fleet.files[v].state, fleet.manifest.digest, limits=fleet.manifest.limits
        ) as store:
            store.persist(whole(disk))
    assert not fleet.status()["finished"]
    with pytest.raises(FleetProblem, match="the walk is not over: 80 of 100"):
        export.model(fleet, tmp_path / "model")
    with NodeStore(
        fleet.files[1].state, fleet.manifest.digest, limits=fleet.manifest.limits
    ) as store:
        store.persist(Persist({"held": Held("ending", false, 0, -1, -1, 100, FIRST)}, ()))
    assert fleet.status()["finished"]  # it is about to hear of it
