"""Revoked nodes: the order reaches all nodes and lasts, and the walk continues without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import winning_chain
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.operate.revoke import revoke
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.events import Got, Notice, Reached, Revoke, Send, Start
from levywalk.fleet.protocol.links import LinkKind, Right
from levywalk.fleet.protocol.messages import Fenced, Heartbeat, Revoked
from levywalk.fleet.protocol.revocation import Revocation, Revocations
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime import control
from levywalk.fleet.storage.codec import decode_slot, encode
from tests.fleet.linked import stepped
from tests.fleet.nodes import make, up
from tests.fleet.test_false_epochs import BORN, FLEET, TERMS, WHO, Attacked, N, attackers
from tests.limits import PATIENCE, eventually


def word(fleet: Attacked, node: int, epoch: Epoch = BORN, by: int = OPERATOR) -> Revocation:
    blank = Revocation(node, epoch, b"")
    return blank._replace(signature=fleet.hands.of(by).sign(blank.statement(TERMS.run)))


def told(fleet: Attacked, node: int) -> None:
    """Tell one node, far from the revoked one, and wait until all others know it."""
    far = (node + N // 2) % N
    fleet.virtual._tell(far, Revoke(word(fleet, node)))
    machines = fleet.virtual.machines
    others = [machine for v, machine in enumerate(machines) if v != node]
    stepped(fleet.virtual, lambda: all(one.disk["revoked"].nodes == {node} for one in others))


@pytest.mark.parametrize("who", WHO)
def test_all_nodes_learn_it_and_the_walk_comes_to_its_end_without_the_node(who: str) -> None:
    fleet = Attacked()
    node = attackers(fleet)[who]
    told(fleet, node)
    near = lw.ring(N).neighbours(node).tolist()
    stepped(
        fleet.virtual,
        lambda: not any(fleet.virtual.machines[u].disk["edges"][node].up for u in near),
    )
    machines = fleet.virtual.machines
    held = [one.disk["held"] for one in machines if one.disk["held"] is not None]
    reached = max(one.token.step for one in held)
    final = fleet.goes_on()
    assert final.step == FLEET.published.steps
    chain = winning_chain(fleet.virtual.logs, FLEET.published)
    assert not chain.missing
    assert all(step <= reached for step, (v, _) in chain.visits.items() if v == node)
    for v, machine in enumerate(fleet.virtual.machines):
        if v != node:
            assert machine.disk["final"].step == final.step


def test_only_the_operator_revokes() -> None:
    fleet = Attacked()
    node = fleet.virtual.node(0)
    right = word(fleet, 3)
    for wrong in (
        right._replace(signature=b""),
        right._replace(node=4),
        right._replace(epoch=Epoch(5, 5, 5)),
        word(fleet, 3, by=3),
        word(fleet, 3, by=1),
    ):
        effects = node.receive(Got(1, Revoked(wrong)), fleet.virtual.now)
        assert [one.what for one in effects if isinstance(one, Notice)] == ["refused"]
        assert node.disk.revoked == Revocations()
    node.receive(Got(1, Revoked(right)), fleet.virtual.now)
    assert node.disk.revoked.orders == (right,)
    other = word(fleet, 3, Epoch(9, 9, 9))  # the first word counts
    node.receive(Got(1, Revoked(other)), fleet.virtual.now)
    assert node.disk.revoked.orders == (right,)


def test_nothing_is_taken_from_a_revoked_node() -> None:
    fleet = Attacked()
    node, near = fleet.virtual.node(2), 3
    assert node.disk.edges[near].up
    effects = node.receive(Revoke(word(fleet, near)), fleet.virtual.now)
    assert {one.to for one in effects if isinstance(one, Send)} >= {1, near}  # it learns why
    assert not node.disk.edges[near].up
    before = replace(node.disk)
    beat = Heartbeat(BORN, b"", True, 9, True, 2, 2, FLEET.scores_of(0))
    effects = node.receive(Got(near, beat), fleet.virtual.now)
    assert not [one for one in effects if isinstance(one, Send | Notice)]
    effects = node.receive(Reached(near), fleet.virtual.now)
    assert [type(one.message) for one in effects if isinstance(one, Send)] == [Revoked]
    assert node.disk == before


def test_a_revoked_guardian_opens_no_epoch_and_earlier_ones_stay() -> None:
    fleet = Attacked()
    guardian = fleet.guardian
    kept = fleet.virtual.machines[guardian].disk["guarded"]
    right = Right(kept.activate)
    made = fleet.link(guardian, LinkKind.REGENERATED, right, 1, kept.copy.seq)
    for covered in (True, False):
        node = fleet.virtual.node(fleet.holder)
        free = replace(node.disk, held=None, guarded=None, revoked=Revocations())
        node.disk = free
        at = BORN if covered else made.epoch
        node.receive(Revoke(word(fleet, guardian, at)), fleet.virtual.now)
        near = lw.ring(N).neighbours(fleet.holder).tolist()
        other = next(u for u in near if u != guardian)
        effects = node.receive(Got(other, Fenced(made)), fleet.virtual.now)
        assert (node.disk.known.epoch == made.epoch) == (not covered), effects
        said = [str(one.about) for one in effects if isinstance(one, Notice)]
        assert any(f"node {guardian} was revoked" in one for one in said) == covered


def test_it_is_on_the_disk_and_a_node_that_starts_does_not_wait_for_a_revoked_one() -> None:
    fleet = Attacked()
    words = Revocations((word(fleet, 3), word(fleet, 5)))
    assert decode_slot("revoked", encode(words)) == words
    node = fleet.virtual.node(2)
    node.receive(Revoke(word(fleet, 3)), fleet.virtual.now)
    node.receive(Start(b"x" * 16), fleet.virtual.now)
    assert 3 not in node.awaited
    assert 1 in node.awaited


# Real nodes


@pytest.mark.more
def test_real_nodes_shut_a_revoked_node_out(tmp_path: Path) -> None:
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    fleet = FleetFolder.open(make(tmp_path / "fleet", 4, steps=10_000_000, terms=terms))
    with up(fleet):
        victim = fleet.status(PATIENCE)["holder"] or 0
        shown = CliRunner().invoke(app, ["fleet", "revoke", str(fleet.path), str(victim)])
        assert shown.exit_code == 0, shown.output
        assert f"Node {victim} is revoked. Nodes 0-3 were told" in shown.output
        near = [(victim + 1) % 4, (victim + 3) % 4]

        def out() -> bool:
            views = fleet.node_views(PATIENCE)
            edges = [views[u].about["edges"][str(victim)] for u in near]
            return not any(edge["up"] or edge["connected"] for edge in edges)

        eventually(out)
        step = fleet.status(PATIENCE)["step"]
        eventually(lambda: fleet.status(PATIENCE)["step"] > step + 20)
        assert fleet.status(PATIENCE)["revoked"] == [victim]
        said = [one.what for one in examine(fleet.path)]
        assert any(f"node {victim} was revoked, and its process still runs" in one for one in said)
        assert "revoked" in CliRunner().invoke(app, ["fleet", "status", str(fleet.path)]).output
        log = fleet.log(victim).read_text()
        assert '"event": "revoked"' in log  # it knows why
    with up(fleet):  # it lasts
        step = fleet.status(PATIENCE)["step"]
        eventually(lambda: fleet.status(PATIENCE)["step"] > step + 10)
        assert all(not one["up"] for u in near for one in [edge_of(fleet, u, victim)])


def edge_of(fleet: FleetFolder, node: int, to: int) -> dict[str, bool]:
    found: dict[str, bool] = fleet.node_views(PATIENCE)[node].about["edges"][str(to)]
    return found


def test_wrong_commands(tmp_path: Path) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    with pytest.raises(InvalidParameter, match="node must be from 0 to 2"):
        revoke(fleet, 3)
    with pytest.raises(FleetProblem, match="no other node was told"):
        revoke(fleet, 1)
    assert operators_key(fleet, "revoke a node")
    (fleet.path / "authority" / "operator.key").unlink()
    with pytest.raises(FleetProblem, match=r"operator\.key does not exist"):
        revoke(fleet, 1)


def test_a_node_that_objects_does_not_keep_the_others_from_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is fenced, one does not run; the command goes on, and may be typed again."""
    fleet = FleetFolder.open(make(tmp_path / "fleet", 4))
    said: dict[int, Exception] = {0: InvalidParameter("node 0 is fenced"), 1: control.NoAnswer("")}
    asked = []

    def ask(self: FleetFolder, node: int, do: str, /, **about: object) -> dict[str, object]:
        asked.append((node, do, about["node"]))
        if node in said:
            raise said[node]
        return {"done": True}

    monkeypatch.setattr(FleetFolder, "ask", ask)
    assert revoke(fleet, 3) == ([2, 3], [0, 1])
    assert asked == [(v, "revoke", 3) for v in range(4)]
    said[2] = control.NoAnswer("")
    with pytest.raises(FleetProblem, match=r"no other node was told(.|\n)*node 0 is fenced"):
        revoke(fleet, 3)
