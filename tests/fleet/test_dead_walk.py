"""A walk that is dead does not look alive: it says so, why, and what to do, and can be revived."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.operate import doctor, export
from levywalk.fleet.operate.fleet_status import NodeView, fleet_status
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.revive import _signed_order, revive
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.events import Got, Notice, Persist, Revive, Send
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import operators_word
from levywalk.fleet.protocol.messages import Fenced, Guard, Guarding, Prepare
from levywalk.fleet.protocol.node_step import PublishedWalk
from levywalk.fleet.protocol.records import Disk, HeldStatus, RegisterValue
from levywalk.fleet.protocol.surviving import token_of
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.metrics import _of_token
from levywalk.fleet.runtime.sightings import DEATHS, Sightings
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.storage.store import NodeStore
from tests.fleet.nodes import stored, up
from tests.fleet.test_protocol import FLEET, HANDS, TOKEN, given_to, sent
from tests.limits import eventually

N = 6
TERMS = HandOffTerms(run=b"", renew_after=5, heartbeat=0.3, dead_after=2.0, retry=0.2)


def halfway(
    folder: Path, steps: int, until: float, **more: Any
) -> tuple[FleetFolder, VirtualFleet]:
    """A fleet whose walk has come half the way, on real disks; its nodes do not run."""
    problem = lw.heterogeneous(N, dim=3, important=1, seed=1)
    given = {"steps": steps, "step_size": "theory", "record_every": 10, "seed": 2, "terms": TERMS}
    create(folder, lw.ring(N), problem, lw.mhlj(), **given, **more)
    virtual = VirtualFleet(fleet_of(folder))
    virtual.run(until=until)
    return stored(folder, virtual), virtual


def both_lost(fleet: FleetFolder, virtual: VirtualFleet) -> tuple[int, int]:
    """Remove the disks of holder and guardian."""
    found = fleet.status()
    holder, guardian = found["holder"], found["guardian"]
    for v in (holder, guardian):
        shutil.rmtree(fleet.files[v].state)
    return holder, guardian


def answering(views: list[NodeView], silence: float) -> list[NodeView]:
    """The same nodes as if they ran and had seen no step for so long."""
    more = {
        "silence": silence, "patience": DEATHS * TERMS.dead_after, "waits": None, "loss": None,
        "hops_per_second": None, "version": "?",
    }  # fmt: skip
    return [one._replace(answers=True, pid=1, about=one.about | more) for one in views]


def test_a_walk_without_holder_and_guardian_says_that_it_has_stopped(tmp_path: Path) -> None:
    fleet, virtual = halfway(tmp_path / "fleet", 10_000, 1.5)
    alive = fleet_status(answering(fleet.node_views(), 100.0), fleet.manifest, begun=True)
    assert "although node" in alive["stopped"]  # the model is there, and does not move
    assert (
        fleet_status(answering(fleet.node_views(), 3.0), fleet.manifest, begun=True)["stopped"]
        is None
    )
    down = fleet.status()
    findings = list(doctor.whole_walks([down], fleet.manifest))
    assert [(one.level, one.remedy) for one in findings] == [("problem", "levywalk fleet up DIR")]
    over = list(doctor.whole_walks([down | {"finished": True}], fleet.manifest))
    unknown = list(doctor.whole_walks([down | {"holder": None}], fleet.manifest))
    elsewhere = list(doctor.whole_walks([down | {"nodes_down": 2}], fleet.manifest))
    assert over == unknown == elsewhere == []  # it is over, has not begun, or others may run
    late = answering(fleet.node_views(), 100.0)
    late[1].about["waits"] = "disk full"
    full = fleet_status(late, fleet.manifest, begun=True)["stopped"]
    assert full.endswith(
        "because node 1 waits, disk full; do: make room on the disk of its state folder; it "
        "continues by itself"
    )
    both_lost(fleet, virtual)
    views = fleet.node_views()
    calm = [
        one._replace(about=one.about | {"hops_per_second": 50.0}) for one in answering(views, 1.0)
    ]
    found = fleet_status(calm, fleet.manifest, begun=True)
    assert (found["stopped"], found["hops_per_second"]) == (None, 50.0)
    late = [one._replace(about=one.about | {"silence": 2.5}) for one in calm]
    found = fleet_status(late, fleet.manifest, begun=True)
    assert found["hops_per_second"] is None  # the nodes' means of the last visits fall slowly
    assert "no copy of the model that could continue is left on any disk" in found["stopped"]
    assert found["stopped"].endswith("do: levywalk fleet revive DIR")
    assert found["waits"][0] == found["stopped"]
    findings = list(doctor.whole_walks([found], fleet.manifest))
    assert [(one.level, one.remedy) for one in findings] == [
        ("problem", "levywalk fleet revive DIR")
    ]
    some = answering(views, 100.0)[:3]  # the others are on other machines
    found = fleet_status(some, fleet.manifest, begun=True)
    assert "on the other machines first" in found["stopped"]


def test_nodes_that_do_not_run_on_this_machine_hide_no_dead_walk(tmp_path: Path) -> None:
    """Holder and guardian have lost their disks and do not run: nobody else waits for ever."""
    fleet, virtual = halfway(tmp_path / "fleet", 10_000, 1.5)
    lost = both_lost(fleet, virtual)
    seen = fleet.node_views()
    views = [seen[v] if v in lost else one for v, one in enumerate(answering(seen, 2.5))]
    found = fleet_status(views, fleet.manifest, begun=True)
    assert found["stopped"] is not None
    assert found["stopped"].endswith("do: levywalk fleet revive DIR")
    assert found["holder"] is found["guardian"] is None
    # Elsewhere they may run and walk on: there the nodes here must have been patient.
    away = [one._replace(local=False) for one in views]
    assert fleet_status(away, fleet.manifest, begun=True)["stopped"] is None


def test_a_guardian_that_does_not_run_is_to_be_started_and_nothing_else(tmp_path: Path) -> None:
    fleet, _ = halfway(tmp_path / "fleet", 10_000, 1.5)
    found = fleet.status()
    shutil.rmtree(fleet.files[found["holder"]].state)
    views = answering(fleet.node_views(), 100.0)
    guardian = found["guardian"]
    views[guardian] = fleet.node_views()[guardian]
    said = fleet_status(views, fleet.manifest, begun=True)["stopped"]
    assert f"because node {guardian}, which can continue it, does not run" in said
    assert said.endswith("do: levywalk fleet up DIR")


def test_silence_counts_from_the_last_step_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("levywalk.fleet.runtime.sightings.time.monotonic", lambda: now)
    node = FLEET.node(2)
    seen = Sightings(node.disk, None)
    now = 50.0
    assert (seen.silence(), seen.patience(1.0)) == (50.0, DEATHS)
    node.receive(Got(1, Fenced(HANDS.first(TOKEN, 1))), 0.0)
    node.receive(Got(1, Prepare(TOKEN, 0)), 0.0)
    seen.look(node.disk)
    assert (seen.silence(), seen.patience(1.0)) == (0.0, 500.0)  # it may be away for that long
    now = 60.0
    node.receive(Got(1, Prepare(TOKEN, 0)), 0.0)  # the same again is no step
    seen.look(node.disk)
    assert seen.silence() == 10.0


def test_the_rate_of_a_walk_that_has_stopped_or_ended_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = FLEET.node(2)
    sightings = Sightings(node.disk, None)
    monkeypatch.setattr(sightings, "rate", lambda: 0.9)  # it falls slowly
    about = {
        "out_of_order": None,
        "manifest": SimpleNamespace(published=node.published),
        "counts": Counter(),
    }
    runner: Any = SimpleNamespace(node=node, sightings=sightings, stalled=False, **about)
    assert _of_token(runner)["hops_per_second"] == 0.9
    runner.stalled = True
    assert "hops_per_second" not in _of_token(runner)
    runner.stalled, node.disk.final = False, TOKEN
    assert "hops_per_second" not in _of_token(runner)


# The protocol


def test_a_copy_becomes_a_higher_epoch_that_needs_a_guardian_first() -> None:
    node = FLEET.node(2)
    for u in (1, 3):
        node.heard[u] = 5.0
    given_to(node, TOKEN, 1, 0)
    disk = node.disk
    assert best_copy(disk) is None  # it is used here
    node.receive(Revive(TOKEN, HANDS.word(TOKEN, 2, 1)), 5.0)
    assert disk.held is not None
    assert disk.held.status == HeldStatus.ACTIVE  # and nothing happens to it
    node = FLEET.node(2)
    for u in (1, 3):
        node.heard[u] = 5.0
    begun = TOKEN._replace(epoch=Epoch(1, 1, 1), base=TOKEN.step)
    node.receive(Got(1, Guard(begun, HANDS.regenerated(begun, 2, 0))), 5.0)
    copy = best_copy(node.disk)
    assert copy is not None
    effects = node.receive(Revive(copy, HANDS.word(copy, 2, 2)), 5.0)
    held, guarded = node.disk.held, node.disk.guarded
    assert held is not None
    assert guarded is not None
    assert (held.status, held.token.epoch, held.token.base, held.parent) == (
        HeldStatus.SEEKING, (2, TOKEN.seq, 2), TOKEN.step, begun.epoch,
    )  # fmt: skip
    assert guarded.register == RegisterValue.REGENERATED  # it will never release the old one
    assert [one.what for one in effects if isinstance(one, Notice)] == ["revived"]
    (guard,) = sent(effects, Guard)
    assert guard.link.opening.parent == begun.epoch
    to = next(one.to for one in effects if isinstance(one, Send))
    node.receive(Got(to, Guarding(held.token.epoch, held.token.seq)), 5.0)
    assert node.disk.known.epoch == held.token.epoch


def test_a_model_in_a_log_is_of_use_if_nothing_else_travels_with_it(tmp_path: Path) -> None:
    fleet, virtual = halfway(tmp_path / "fleet", 10_000, 1.5)
    both_lost(fleet, virtual)
    published = fleet.manifest.published
    for v in fleet.files:
        for copy in fleet.survivors(v):
            assert copy.node == v
    lines = [line for v in range(N) for line in virtual.machines[v].log]
    tokens = [token for line in lines if (token := token_of(line, published)) is not None]
    assert tokens
    for token in tokens:
        assert published.refuses(token) is None
        assert (token.seq, token.step % 10) == (token.transfers, 0)
    problem = lw.heterogeneous(N, dim=3, important=1, seed=1)
    detects = PublishedWalk.of(
        lw.ring(N), problem, lw.mhlj(), steps=100, step_size="theory", stop="detector"
    )
    assert all(token_of(line, detects) is None for line in lines)


def test_a_walk_that_lives_is_not_revived_by_accident(tmp_path: Path) -> None:
    fleet, _ = halfway(tmp_path / "fleet", 10_000, 1.5)
    with pytest.raises(FleetProblem, match=r"has not stopped for good: node . can continue"):
        revive(fleet)
    fleet, _ = halfway(tmp_path / "over", 50, 100.0)
    with pytest.raises(FleetProblem, match="the walk is over"):
        revive(fleet)


def test_without_a_node_that_runs_nothing_is_revived(tmp_path: Path) -> None:
    fleet, virtual = halfway(tmp_path / "fleet", 10_000, 1.5)
    both_lost(fleet, virtual)
    with pytest.raises(FleetProblem, match="which does not run: levywalk fleet up"):
        revive(fleet, force=True)
    for v in fleet.files:
        shutil.rmtree(fleet.files[v].state, ignore_errors=True)
    with pytest.raises(FleetProblem, match="no copy of the model is left"):
        revive(fleet, force=True)


def test_only_the_operators_key_can_revive(tmp_path: Path) -> None:
    fleet, _ = halfway(tmp_path / "fleet", 10_000, 1.5)
    views = fleet.node_views()
    copy = next(copy for v in fleet.files for copy in fleet.survivors(v))
    word = _signed_order(fleet, views, copy)
    keys = Identity.open(fleet.path / "node-0").signer(fleet.manifest.operator)
    statement = word.statement(fleet.manifest.digest)
    assert keys.verify(OPERATOR, statement, word.signature)
    assert not keys.verify(0, statement, word.signature)
    assert word.epoch > max(Epoch(*one.about["epoch"]) for one in views)
    assert (word.to, word.seq, word.digest) == (copy.node, copy.seq, copy.digest)
    path = fleet.path / "authority" / "operator.key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    with pytest.raises(
        FleetProblem, match=r"operator\.key does not exist: only the operator's key"
    ):
        _signed_order(fleet, views, copy)
    OperatorKey.new().write(path.parent)
    with pytest.raises(FleetProblem, match="is not the key that the manifest names"):
        _signed_order(fleet, views, copy)


@pytest.mark.soak  # test_soak has a shorter one
def test_holder_and_guardian_lose_their_disks_and_the_walk_is_revived(tmp_path: Path) -> None:
    """With real processes, by the commands."""

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["fleet", *map(str, arguments)])

    fleet, virtual = halfway(tmp_path / "fleet", 3000, 1.5)
    both_lost(fleet, virtual)
    before = max(token["step"] for one in fleet.node_views() for token in one.tokens)
    try:
        fleet.up()
        eventually(lambda: fleet.status()["stopped"])
        said = run("status", fleet.path).output
        assert "the walk has stopped" in said
        done = run("doctor", fleet.path, "--json")
        assert done.exit_code == 1
        found = json.loads(done.output)["findings"]
        assert any(one["remedy"] == f"levywalk fleet revive {fleet.path}" for one in found)
        done = run("revive", fleet.path)
        assert done.exit_code == 0, done.output
        assert "The walk continues from step" in done.output
        assert fleet.status()["stopped"] is None
        eventually(lambda: fleet.status()["finished"])
        found = fleet.status()
        assert (found["step"], found["epoch"] > 0) == (3000, True)
        assert before > 0
        assert run("revive", fleet.path).exit_code == 1
    finally:
        fleet.stop(force=True)


@pytest.mark.more
def test_the_operator_undoes_a_false_end_that_nobody_can_deny(tmp_path: Path) -> None:
    """The guardian has signed it, all nodes believe it, and the holder's disk is lost."""
    fleet, virtual = halfway(tmp_path / "fleet", 600, 1.5)
    guards = [one.disk["guarded"] for one in virtual.machines]
    guardian = max((v for v in range(N) if guards[v]), key=lambda v: guards[v].copy.seq)
    true, holder = guards[guardian].copy, guards[guardian].holder
    false = true._replace(step=600, version=true.version + 1, model=true.model + 99.0)
    end = HANDS.end(false, guardian, holder)
    for v, one in enumerate(virtual.machines):
        disk = Disk(**one.disk)
        guarded = disk.guarded
        if v == guardian:
            assert guarded is not None
            guarded = guarded._replace(copy=false, register=RegisterValue.FINISHED)
        slots = {"held": None, "guarded": guarded, "final": false, "end": end}
        state = fleet.files[v].state
        with NodeStore(state, fleet.manifest.digest, limits=fleet.manifest.limits) as store:
            store.persist(Persist(slots, ()))
    shutil.rmtree(fleet.files[holder].state)
    with up(fleet):
        eventually(lambda: fleet.status()["nodes_up"] == N and fleet.status()["finished"])
        with pytest.raises(FleetProblem, match=r"the walk is over.*--force"):
            revive(fleet)
        done = revive(fleet, force=True)
        assert 0 < done.copy.step <= true.step
        assert done.epoch == 1
        eventually(lambda: fleet.status()["finished"])
        ended = fleet.status()
        assert (ended["step"], ended["epoch"]) == (600, 1)
        assert not ended["false_ends"]
    last = export.model(fleet, tmp_path / "model").token
    assert float(abs(last.model).max()) < 50.0


def test_a_revived_walk_replays_to_the_bit() -> None:
    """In virtual time: the holder dies while its guardian is dead, and the operator revives."""
    fleet = Fleet.of(
        lw.ring(N), lw.heterogeneous(N, dim=3, important=1, seed=1), lw.mhlj(), steps=400,
        step_size="theory", seed=3, terms=TERMS,
    )  # fmt: skip
    virtual = VirtualFleet(fleet)
    virtual.at(0.3, PlannedFault("kill", "guardian"))
    virtual.at(0.3, PlannedFault("kill", "holder"))
    assert not virtual.run()
    alive = [v for v in range(N) if virtual.machines[v].node is not None]
    copies = {v: best_copy(Disk(**virtual.machines[v].disk)) for v in alive}
    best = max((v for v in alive if copies[v]), key=lambda v: (copies[v].epoch, copies[v].step))
    counter = max(machine.disk["known"].epoch for machine in virtual.machines).counter + 1
    virtual._tell(best, Revive(copies[best], operators_word(copies[best], best, counter)))
    virtual._moved_at = virtual.now
    assert virtual.run()
    trace = merge(virtual.logs, fleet)  # the dead nodes' logs are there
    assert trace.provenance["fleet"]["epochs"][-1]["base"] == copies[best].step
    check_replay(fleet, [*trace.walk[0], int(trace.final_node[0])], virtual.final)
