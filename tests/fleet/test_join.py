"""Nodes join a fleet beyond the number that it was created for: the record of its size, what tokens
carry of it, and that every update uses the number of nodes and the L̄ that its log says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter, InvalidSpec, LevywalkError
from levywalk.fleet.checking.growing import SizeAt, founded_by, size_of
from levywalk.fleet.checking.log_pieces import pieces
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.checking.schedules import sweep
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.operate import join as joining
from levywalk.fleet.operate import newcomer
from levywalk.fleet.operate.changing import changing
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.join import join
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.rotate import rotate
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.events import Got, Notice, Persist, Resize, Send
from levywalk.fleet.protocol.fleet_size import UNKNOWN, FleetSize
from levywalk.fleet.protocol.messages import Prepare, Prepared, Sized
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NewSize
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.runtime import messages_pb2
from levywalk.fleet.runtime.wire import encode_frame
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.operator_folder import operator_folder, read_operator_file
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.setup.size_file import write_size
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.fleet.nodes import Running, make, up
from tests.limits import PATIENCE, eventually

N = 7  # nodes at the end; the last one joins
TERMS = HandOffTerms(run=b"join", heartbeat=0.5, dead_after=5.0, retry=0.2)
METHODS = {
    "importance": (lw.mhlj(), None),
    "mixed": (lw.mixed_rw(0.5), None),
    "uniform": (lw.unif_rw(), None),
    "saga": (lw.unif_rw(), "saga"),
    "switching": (lw.switching(lw.mhlj(), lw.unif_rw()), None),
}


def grown(method: str, steps: int = 400) -> Fleet:
    """Return a fleet of seven nodes that was created for six."""
    design, update = METHODS[method]
    network = lw.watts_strogatz(N, 4, 0.3, seed=2)
    problem = lw.heterogeneous(N, dim=3, seed=1, important=2)
    more = {} if update is None else {"update": update}
    fleet = Fleet.of(
        network, problem, design, steps=steps, step_size=0.01, seed=4, start=0, terms=TERMS, **more
    )
    return founded_by(fleet, N - 1)


def sizes_used(virtual: VirtualFleet) -> dict[int, SizeAt]:
    """Return from which steps on which size was used, as the nodes' logs say."""
    fleet = virtual.fleet
    first = size_of(fleet, N - 1)
    lines = [line for one in virtual.machines for line in one.log if isinstance(line, NewSize)]
    found = {0: SizeAt(first.nodes, first.mean_smoothness)}
    return found | {line.step: SizeAt(line.nodes, line.mean_smoothness) for line in lines}


def walked(virtual: VirtualFleet) -> list[int]:
    logs = {v: machine.log for v, machine in enumerate(virtual.machines)}
    trace = merge(logs, virtual.fleet)
    return [*trace.walk[0].tolist(), int(trace.final_node[0])]


@pytest.mark.parametrize("method", list(METHODS))
def test_a_node_joins_and_every_update_is_that_of_its_size(method: str) -> None:
    fleet = grown(method)
    last = size_of(fleet, N)
    virtual = VirtualFleet(fleet, absent={N - 1}, grows=last, signed=method == "mixed")
    virtual.at(0.5, PlannedFault("join", N - 1))
    assert virtual.run()
    assert virtual.final is not None
    assert virtual.final.size == 1
    kept = [machine.disk["size"] for machine in virtual.machines]
    assert {one[:3] for one in kept} == {last[:3]}
    walk, sizes = walked(virtual), sizes_used(virtual)
    assert len(sizes) == 2
    assert N - 1 in walk
    at = max(sizes)
    assert N - 1 not in walk[:at]
    check_replay(fleet, walk, virtual.final, sizes=sizes)
    if method != "uniform":  # whose updates depend on neither number
        for wrong in ({0: sizes[0]}, {0: sizes[at]}, {0: sizes[0], at + 1: sizes[at]}):
            with pytest.raises(Violation):
                check_replay(fleet, walk, virtual.final, sizes=wrong)


@pytest.mark.parametrize("method", ["importance", "mixed", "uniform", "switching"])
def test_the_law_after_the_join_is_the_target_of_all_nodes(method: str) -> None:
    """The Metropolis rule with what the nodes know at the end gives the target of all seven nodes,
    by exact linear algebra, and the mean of its scores is the published one.
    """
    fleet = grown(method)
    virtual = VirtualFleet(fleet, absent={N - 1}, grows=size_of(fleet, N))
    virtual.at(0.5, PlannedFault("join", N - 1))
    assert virtual.run()
    virtual.run(until=virtual.now + 20 * TERMS.heartbeat)
    smoothness, degree = fleet.problem.smoothness, fleet.network.degree
    mean = float(np.mean(smoothness))
    for phase, part in enumerate(fleet.design.phases):
        target = lw.walks.as_target(part.target).scores(degree, smoothness, mean)
        P = np.zeros((N, N))
        for v in range(N):
            site = virtual.node(v).site
            view = site.views[phase]
            assert view.degree == degree[v]
            t, d = view.score, view.degree
            for u, other_d, other_t in zip(
                view.neighbours, view.neighbour_degrees, view.neighbour_scores, strict=True
            ):
                P[v, u] = min(t / d, other_t / other_d) / t
            P[v, v] = 1.0 - P[v].sum()
            published = site.published.phases[phase]
            if published.mean_score is not None:
                assert published.mean_score == pytest.approx(target.mean(), rel=1e-14)
        values, vectors = np.linalg.eig(P.T)
        law = np.real(vectors[:, np.argmax(np.real(values))])
        np.testing.assert_allclose(law / law.sum(), target / target.sum(), atol=1e-12)


# The operator's signed order


def two() -> tuple[Fleet, VirtualFleet]:
    fleet = grown("importance")
    return fleet, VirtualFleet(fleet, signed=True)


def test_only_the_operator_says_how_large_the_fleet_is() -> None:
    fleet, virtual = two()
    node, near = virtual.node(2), int(fleet.network.neighbours(2)[0])
    size, run = size_of(fleet, N), TERMS.run
    signed = size._replace(signature=virtual.signers[OPERATOR].sign(size.statement(run)))
    false = [
        size,
        size._replace(signature=virtual.signers[near].sign(size.statement(run))),
        signed._replace(nodes=N + 1),
        signed._replace(version=2),
        signed._replace(mean_smoothness=1.0),
        size._replace(signature=virtual.signers[OPERATOR].sign(size.statement(b"another run"))),
    ]
    for wrong in ({"nodes": N - 2}, {"mean_smoothness": float("nan")}, {"mean_smoothness": 0.0}):
        bad = size._replace(**wrong)
        false.append(bad._replace(signature=virtual.signers[OPERATOR].sign(bad.statement(run))))
    for one in false:
        effects = node.receive(Got(near, Sized(one)), virtual.now)
        assert node.disk.size is None
        assert [effect.what for effect in effects if isinstance(effect, Notice)] == ["refused"]
    effects = node.receive(Got(near, Sized(signed)), virtual.now)
    assert node.disk.size == signed
    assert node.published.method.n == N
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Send)  # it is on the disk before it is told
    told = {one.to for one in effects if isinstance(one, Send) and one.message == Sized(signed)}
    assert told == set(node.neighbours)


def test_an_older_size_is_answered_with_the_later_one() -> None:
    fleet, virtual = two()
    node, near = virtual.node(2), int(fleet.network.neighbours(2)[0])
    words = []
    for version in (1, 2):
        size = size_of(fleet, N, version)
        sign = virtual.signers[OPERATOR].sign
        words.append(size._replace(signature=sign(size.statement(TERMS.run))))
    node.receive(Resize(words[1]), virtual.now)
    for older in (words[0], UNKNOWN):  # a neighbour that was away, and a question
        effects = node.receive(Got(near, Sized(older)), virtual.now)
        sent = [one for one in effects if isinstance(one, Send)]
        assert sent[0][:2] == (near, Sized(words[1]))
        assert node.disk.size == words[1]
    node.receive(Resize(words[0]), virtual.now)
    assert node.disk.size == words[1]
    again = fleet.node(2, replace(node.disk), virtual.signers[2])  # after a crash
    assert again.published.method.n == N
    assert again.published.phases[0].mean_score == words[1].mean_smoothness


def test_a_token_of_an_unknown_size_is_not_taken_and_the_size_is_asked_for() -> None:
    fleet, virtual = two()
    size = size_of(fleet, N)
    sign = virtual.signers[OPERATOR].sign
    word = size._replace(signature=sign(size.statement(TERMS.run)))
    near = int(fleet.network.neighbours(2)[0])
    giver, node = virtual.node(near), virtual.node(2)
    giver.receive(Resize(word), virtual.now)
    token = fleet.token._replace(epoch=node.disk.known.epoch, seq=1, size=1, came_from=near)
    guardian = next(u for u in range(N) if u not in (2, near))
    message = Got(near, Prepare(token, guardian))
    effects = node.receive(message, virtual.now)
    assert node.disk.held is None
    (asked,) = [one.message for one in effects if isinstance(one, Send)]
    assert asked == Sized(UNKNOWN)
    told = giver.receive(Got(2, asked), virtual.now)
    assert [one.message for one in told if isinstance(one, Send)] == [Sized(word)]
    node.receive(Got(near, Sized(word)), virtual.now)
    effects = node.receive(message, virtual.now)
    assert any(isinstance(one, Send) and type(one.message) is Prepared for one in effects)


def test_a_fleet_that_nobody_joins_pays_nothing() -> None:
    """No byte of a message and no line of a log: the token's version is 0, which is not sent."""
    virtual = VirtualFleet(grown("importance"))
    assert virtual.run()
    assert virtual.final is not None
    assert virtual.final.size == 0
    assert not [line for one in virtual.machines for line in one.log if isinstance(line, NewSize)]
    sent = encode_frame(0, Prepare(virtual.final, 1))[0]
    raised = encode_frame(0, Prepare(virtual.final._replace(size=1), 1))[0]
    assert len(raised) == len(sent) + 3
    assert messages_pb2.Frame.FromString(raised).prepare.token.size == 1


# Among faults


def test_fleets_that_grow_among_faults() -> None:
    found = sweep(range(16), grows=True)
    assert not found.failures, found.failures[0]
    assert found.faults["grows"] > 30


@pytest.mark.more
def test_many_fleets_that_grow_among_faults() -> None:
    found = sweep(range(1000, 1200), grows=True)
    assert not found.failures, found.failures[0]


def test_a_node_that_does_not_say_which_size_it_used_is_found_out(monkeypatch) -> None:
    def silent(self: Node, token: Token) -> Token:
        size = self.disk.size
        return token if size is None else token._replace(size=size.version)

    monkeypatch.setattr(Node, "_with_size", silent)
    assert sweep(range(8), grows=True).failures


# Real nodes


def samples(path: Path) -> Path:
    """Write the samples of a newcomer."""
    rng = np.random.default_rng(3)
    np.savez(path, features=1.5 * rng.normal(size=(1, 4)), targets=np.ones(1))
    return path


@pytest.mark.more
def test_real_nodes_are_joined(tmp_path: Path) -> None:
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3, steps=10_000_000, terms=terms))
    before, data = fleet.manifest, samples(tmp_path / "new.npz")
    command = ["fleet", "join", str(fleet.path), "--neighbours", "0,2", "--data", str(data)]
    with up(fleet):
        try:
            shown = CliRunner().invoke(app, command)
            assert shown.exit_code == 0, shown.output
            assert "Node 3 joins: the fleet has 4 nodes now" in shown.output
            after = FleetFolder.open(fleet.path)
            assert after.manifest.nodes == 4
            own = float((np.load(data)["features"] ** 2).sum()) * 2.0
            mean = (3 * before.mean_smoothness + own) / 4
            assert after.manifest.mean_smoothness == pytest.approx(mean, rel=1e-12)

            def visited() -> bool:
                views = after.node_views(PATIENCE)
                sizes = [one.about["size"] for one in views]
                return sizes == [[1, 4]] * 4 and views[3].last is not None

            eventually(visited)
            step = after.status(PATIENCE)["step"]
            eventually(lambda: after.status(PATIENCE)["step"] > step + 50)
        finally:
            FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    verdict = judge_folder(fleet_of(fleet.path), fleet.path)
    assert verdict[2:4] == (1, 0)  # one epoch, and nothing lost
    assert verdict.steps > 50
    lines = [line for piece in pieces(fleet.path) for line in piece.lines]
    told = [line[3:] for line in lines if isinstance(line, NewSize)]
    assert told == [(1, 4, after.manifest.mean_smoothness)]


def test_wrong_commands(tmp_path: Path) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    data = samples(tmp_path / "new.npz")
    for near, match in (
        ([], "at least one"),
        ([3], "each neighbour must be one of 0 to 2, got 3"),
        ([1, 1], "different nodes"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            join(fleet, near, data=data)
    with pytest.raises(FleetProblem, match=r"no node of .* runs"):
        join(fleet, [0], data=data)
    (fleet.path / "authority" / "operator.key").unlink()
    with pytest.raises(FleetProblem, match=r"operator\.key does not exist"):
        join(fleet, [0], data=data)
    shown = CliRunner().invoke(app, ["fleet", "join", str(fleet.path), "--neighbours", "0;1"])
    assert isinstance(shown.exception, InvalidParameter)
    assert "must be numbers of nodes, such as 0,2" in str(shown.exception)
    assert not (fleet.path / "node-3").exists()


def test_wrong_files(tmp_path: Path) -> None:
    """What the command needs of a newcomer is checked before anybody is told."""
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    short = tmp_path / "short.npz"
    np.savez(short, features=np.ones((1, 3)), targets=np.ones(1))
    cases = [
        ({}, "smoothness must be given"),
        ({"data": tmp_path / "none.csv"}, "data must be a file"),
        ({"data": samples(tmp_path / "a.npz"), "smoothness": 1.0}, "must not be given together"),
        ({"smoothness": -1.0}, "smoothness"),
        ({"smoothness": 1.0, "address": "nowhere"}, "address must be host:port"),
        ({"data": short}, "cannot be used"),
    ]
    with Running(fleet.path / "node-0"):
        for arguments, match in cases:
            with pytest.raises(LevywalkError, match=match):
                join(fleet, [0, 2], **arguments)
            assert not (fleet.path / "node-3").exists()
            assert not (fleet.path / "size.json").exists()


def test_a_size_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "fleet", 3)
    manifest = Manifest.read(folder / "manifest.json")
    size = FleetSize(1, 4, 2.5, b"")
    signed = OperatorKey.load(folder / "authority").signed(size, manifest.digest)
    write_size(folder, signed)
    assert Manifest.read(folder / "manifest.json").nodes == 4
    assert Manifest.read(folder / "manifest.json").digest == manifest.digest
    for wrong in (
        OperatorKey.new().signed(size, manifest.digest),
        signed._replace(nodes=5),
        signed._replace(nodes=2),
    ):
        write_size(folder, wrong)
        with pytest.raises(InvalidSpec, match="copy the file again"):
            Manifest.read(folder / "manifest.json")
    for text in ("", "[]", "{", '{"version": 1}', "[" * 3000):
        (folder / "size.json").write_text(text)
        with pytest.raises(InvalidSpec, match=r"size\.json"):
            Manifest.read(folder / "manifest.json")


def test_a_node_on_another_machine_joins_where_no_node_runs(tmp_path: Path) -> None:
    """Its folder has the size, and so it tells its neighbours; their node files name it, and so
    does the operator's folder.
    """
    folder = create(
        tmp_path / "fleet",
        lw.ring(3),
        lw.heterogeneous(3, dim=4, seed=1),
        lw.mhlj(),
        steps=50,
        step_size="theory",
        name="test",
        addresses=[f"10.0.0.{v}:7400" for v in range(1, 4)],
        operator_port=7500,
    )
    fleet = FleetFolder.open(folder)
    with pytest.raises(FleetProblem, match=r"no node of .* runs"):
        join(fleet, [0, 2], smoothness=3.0)
    found = join(fleet, [0, 2], smoothness=3.0, address="10.0.0.4:7400")
    assert found[3:] == ([], [], False, [0, 2], [], [])
    mean = (3 * fleet.manifest.mean_smoothness + 3.0) / 4
    assert found.size[:3] == (1, 4, pytest.approx(mean, rel=1e-14))
    own = NodeFile.read(folder / "node-3" / "node.toml")
    assert (own.listen, own.operator) == ("0.0.0.0:7400", "0.0.0.0:7500")
    assert [(peer.id, peer.address) for peer in own.neighbours] == [
        (0, "10.0.0.1:7400"),
        (2, "10.0.0.3:7400"),
    ]
    for u, names in ((0, True), (1, False), (2, True)):
        file = NodeFile.read(folder / f"node-{u}" / "node.toml")
        peers = {peer.id: peer for peer in file.neighbours}
        assert (3 in peers) == names
        if names:
            assert peers[3].address == "10.0.0.4:7400"
            assert peers[3].fingerprint == key_fingerprint(own.certificate.read_bytes())
    operators = read_operator_file(folder / "operator" / "operator.toml", 4)
    assert operators[3].address == "10.0.0.4:7500"
    assert Manifest.read(folder / "operator" / "manifest.json").nodes == 4
    further = operator_folder(folder, tmp_path / "further")
    assert [one.id for one in further] == [0, 1, 2, 3]
    assert Manifest.read(tmp_path / "further" / "manifest.json").nodes == 4
    again = join(FleetFolder.open(folder), [3], smoothness=1.0, address="10.0.0.5:7400")
    assert (again.node, again.size.version, again.size.nodes) == (4, 2, 5)


# A join that is interrupted


def scattered(folder: Path) -> FleetFolder:
    """Make a fleet whose nodes are on other machines, so that none has to run."""
    create(
        folder,
        lw.ring(3),
        lw.heterogeneous(3, dim=4, seed=1),
        lw.mhlj(),
        steps=50,
        step_size="theory",
        name="test",
        addresses=[f"10.0.0.{v}:7400" for v in range(1, 4)],
        operator_port=7500,
    )
    return FleetFolder.open(folder)


def known_of(folder: Path) -> list[object]:
    """Return all that a fleet's folder knows of its nodes, keys and signatures aside."""
    fleet = FleetFolder.open(folder)
    size = fleet.manifest
    operators = read_operator_file(folder / "operator" / "operator.toml", size.nodes)
    return [
        size.nodes,
        size.mean_smoothness,
        fleet.neighbours(),
        operators,
        fleet.files[0].neighbours[-1].address,
    ]


STAGES = ["_tell", "write_size", "_add_edges", "_add_operator_address", "sync_folder"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_join_that_is_interrupted_is_finished_by_typing_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, after: bool
) -> None:
    whole, fleet = scattered(tmp_path / "whole"), scattered(tmp_path / "fleet")
    more = {"smoothness": 3.0, "address": "10.0.0.4:7400"}
    join(whole, [0, 2], **more)
    with monkeypatch.context() as patch:
        done = getattr(joining, stage)

        def interrupted(*given: object) -> None:
            if after:
                done(*given)
            raise KeyboardInterrupt

        patch.setattr(joining, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            join(fleet, [0, 2], **more)
    finished = stage == "sync_folder"  # only the mark was left, and it is removed
    if not finished:
        findings = [one for one in examine(fleet.path) if "has not finished joining" in one.what]
        assert [one.remedy for one in findings] == [
            f"run the same command again to resume: levywalk fleet join {fleet.path} "
            "--neighbours 0,2 --smoothness 3.0 --address 10.0.0.4:7400"
        ]
        for near, other in (([0, 1], more), ([0, 2], more | {"smoothness": 4.0})):
            with pytest.raises(
                FleetProblem, match=r"node 3 has not finished joining.*Run the same command again"
            ):
                join(FleetFolder.open(fleet.path), near, **other)
        key = (fleet.path / "node-3" / "node.key").read_bytes()
        found = join(FleetFolder.open(fleet.path), [2, 0], **more)
        assert (found.node, found.size[:2]) == (3, (1, 4))
        assert (fleet.path / "node-3" / "node.key").read_bytes() == key
    assert known_of(fleet.path) == known_of(whole.path)
    assert not [*fleet.path.glob("node-*/joining.json"), *fleet.path.glob(".node-*")]
    again = join(FleetFolder.open(fleet.path), [3], smoothness=1.0, address="10.0.0.5:7400")
    assert (again.node, again.size.version) == (4, 2)


def test_a_join_that_is_interrupted_while_the_folder_is_made_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves a folder that nobody knows, and the next join removes it with its keys."""
    fleet = scattered(tmp_path / "fleet")
    left = fleet.path / ".node-3.0123abcd"
    left.mkdir()
    (left / "node.key").write_text("a key")
    more = {"smoothness": 3.0, "address": "10.0.0.4:7400"}
    assert join(fleet, [0], **more).node == 3
    assert not left.exists()

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(newcomer, "write_size", fails)
    with pytest.raises(KeyboardInterrupt):
        join(FleetFolder.open(fleet.path), [0], smoothness=1.0, address="10.0.0.5:7400")
    there = {path.name for path in fleet.path.iterdir() if "node-" in path.name}
    assert there == {f"node-{v}" for v in range(4)}


def test_a_node_that_has_joined_does_not_join_twice(tmp_path: Path) -> None:
    """The command was killed at its very end, after all was done, and is typed again."""
    fleet, data = scattered(tmp_path / "fleet"), samples(tmp_path / "new.npz")
    assert join(fleet, [0, 2], data=data, address="10.0.0.4:7400").node == 3
    with pytest.raises(FleetProblem, match="node 3 has joined already"):
        join(FleetFolder.open(fleet.path), [0, 2], data=data, address="10.0.0.4:7400")
    other = FleetFolder.open(fleet.path)
    assert join(other, [0, 1], data=data, address="10.0.0.5:7400").node == 4


def test_one_command_at_a_time_changes_node_files(tmp_path: Path) -> None:
    fleet = scattered(tmp_path / "fleet")
    with changing(fleet.path):
        for command in (
            lambda: join(fleet, [0], smoothness=1.0, address="10.0.0.4:7400"),
            lambda: rotate(fleet, [1]),
        ):
            with pytest.raises(FleetProblem, match="another command changes the node files"):
                command()
    assert rotate(fleet, [1])[0].used is False


@pytest.mark.more
@pytest.mark.parametrize("stage", ["_tell", "_add_edges"])
def test_real_nodes_whose_join_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Nodes were told; the newcomer runs, and its neighbours know it, only after the second try."""
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3, steps=10_000_000, terms=terms))
    data = samples(tmp_path / "new.npz")
    with up(fleet):
        try:
            with monkeypatch.context() as patch:
                done = getattr(joining, stage)

                def interrupted(*given: object) -> None:
                    done(*given)
                    raise KeyboardInterrupt

                patch.setattr(joining, stage, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    join(fleet, [0, 2], data=data, timeout=PATIENCE)
            found = join(FleetFolder.open(fleet.path), [0, 2], data=data, timeout=PATIENCE)
            assert (found.node, found.restarted, found.down) == (3, [0, 2], [])
            after = FleetFolder.open(fleet.path)
            eventually(lambda: after.node_views(PATIENCE)[3].last is not None)
        finally:
            FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    verdict = judge_folder(fleet_of(fleet.path), fleet.path)
    assert verdict[2:4] == (1, 0)  # one epoch, and nothing lost
