"""The operator port: who may ask, what can be asked, what is answered, and what never is."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import server_name
from levywalk.fleet.identity.errors import IdentityError, Untrusted
from levywalk.fleet.identity.node_identity import Identity, Tls
from levywalk.fleet.identity.operator_certificate import operator_tls
from levywalk.fleet.operate import export
from levywalk.fleet.operate.any_fleet import open_any_fleet
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.operator_client import OperatorAnswer
from levywalk.fleet.operate.remote import RemoteFleet
from levywalk.fleet.operate.remote_view import checked_status, checked_view
from levywalk.fleet.operate.revive import revive
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.findings import FindingLevel
from levywalk.fleet.runtime.operator_port import BURST, OperatorPort, QuestionBudget
from levywalk.fleet.runtime.operator_port_format import (
    METHOD,
    MOST_QUESTION,
    SERVICE,
    Records,
    pieces,
)
from levywalk.fleet.runtime.transport import METHOD as TALK
from levywalk.fleet.runtime.transport import SERVICE as NODE
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.model_code import ModelCode
from levywalk.fleet.setup.node_file import NodeFile, host_port
from levywalk.fleet.setup.operator_folder import operator_folder, read_operator_file
from tests.fleet.nodes import tls_of
from tests.limits import PATIENCE, eventually

NODES, STEPS = 3, 40


def new_fleet(folder: Path, **more: Any) -> Path:
    return create(
        folder,
        lw.ring(NODES),
        lw.heterogeneous(NODES, dim=2, seed=1, important=1),
        lw.mhlj(),
        steps=STEPS,
        step_size="theory",
        name="test",
        seed=3,
        start=0,
        metrics=False,
        terms=HandOffTerms(run=b"", dead_after=PATIENCE),
        record_every=5,
        **{"operator_port": 0} | more,
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetFolder]:
    """Nodes that have finished their walk and still run."""
    fleet = FleetFolder.open(new_fleet(tmp_path_factory.mktemp("port") / "fleet"))
    fleet.up(PATIENCE)
    try:
        eventually(lambda: all(one.about["final"] for one in fleet.node_views(PATIENCE)))
        yield fleet
    finally:
        fleet.stop(PATIENCE, force=True)


@pytest.fixture(scope="module")
def away(running: FleetFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's folder, copied to another place."""
    return Path(shutil.copytree(running.path / "operator", tmp_path_factory.mktemp("x") / "away"))


def call(
    address: str,
    tls: Tls | None,
    question: bytes,
    node: int = 0,
    service: str = SERVICE,
    method: str = METHOD,
) -> list[bytes]:
    """Ask with any certificate and any bytes."""
    options = (
        ("grpc.ssl_target_name_override", server_name(node)),
        ("grpc.max_receive_message_length", -1),
    )
    made = grpc.ssl_channel_credentials(*(() if tls is None else (tls[2], tls[0], tls[1])))
    with grpc.secure_channel(address, made, options=options) as channel:
        asked = channel.unary_stream(f"/{service}/{method}")
        return list(asked(question, timeout=30.0))


def refusal(*given: Any, **more: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call(*given, **more)
    return caught.value.code()


# What is answered


def steady(found: dict[str, Any]) -> dict[str, Any]:
    """Return a status without what changes from moment to moment."""
    found = copy.deepcopy(found)
    for one in found["nodes"]:
        del one["hops_per_second"]
    return found


def test_the_status_is_that_of_the_folder(running: FleetFolder, away: Path) -> None:
    here, elsewhere = running.status(PATIENCE), open_any_fleet(away).status()
    assert steady(elsewhere) == steady(here)
    assert elsewhere["finished"]
    assert elsewhere["step"] == STEPS
    assert elsewhere["nodes_unreached"] == []


def test_the_model_and_the_trace_are_those_of_the_folder(
    running: FleetFolder, away: Path, tmp_path: Path
) -> None:
    remote = open_any_fleet(away)
    export.model(running, tmp_path / "here")
    found = export.model(remote, tmp_path / "away")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "away").read_bytes()
    assert found.final
    assert found.token.step == STEPS
    here, beside = export.trace(running), export.trace(open_any_fleet(running.path / "operator"))
    np.testing.assert_array_equal(beside.distance2, here.distance2)
    there = export.trace(remote)
    np.testing.assert_array_equal(there.walk, here.walk)
    np.testing.assert_array_equal(there.model, here.model)
    np.testing.assert_array_equal(there.hops, here.hops)
    assert np.isnan(there.loss).all()
    assert np.isnan(there.target).all()
    assert there.provenance["fleet"]["data"] == "elsewhere"


def test_a_model_that_was_handed_over_meanwhile_is_taken_from_its_guardian(
    running: FleetFolder, away: Path
) -> None:
    remote = open_any_fleet(away)
    guarded = next(
        copy for v in range(NODES) for copy in remote.copies(v) if copy.place == "guarded"
    )
    found = remote.fetched(guarded._replace(place="held"))  # no node holds it any more
    assert (found.node, found.token.step) == (guarded.node, guarded.token.step)
    np.testing.assert_array_equal(found.token.model, remote.fetched(guarded).token.model)
    with pytest.raises(InvalidParameter, match="has no held model now"):
        remote._model(remote._clients[guarded.node], "held")


def test_logs_and_doctor_from_elsewhere(running: FleetFolder, away: Path) -> None:
    fleet = open_any_fleet(away)
    reports = fleet.reports()
    events = {(one["node"], one["event"]) for one in reports.all()}
    assert {(v, "started") for v in range(NODES)} <= events
    assert not {one["event"] for one in reports.new()} & {"started"}
    found = list(examine(away))
    assert not [one for one in found if one.level == FindingLevel.PROBLEM], found
    assert any("have answered" in one.what for one in found)
    with pytest.raises(InvalidParameter, match="scrub reads the nodes' disks"):
        list(examine(away, scrub=True))


def test_no_answer_contains_samples_or_keys(running: FleetFolder, away: Path) -> None:
    tls = operator_tls(away)
    questions = [{"do": do} for do in ("status", "doctor", "logs", "trace", "copies")]
    questions += [{"do": "model", "place": "final"}]
    for v, reached in read_operator_file(away / "operator.toml", NODES).items():
        said = b"".join(
            b"".join(call(reached.address, tls, json.dumps(one).encode(), v)) for one in questions
        )
        assert len(said) > 1000
        with np.load(running.path / f"node-{v}" / "data.npz") as data:
            for number in np.concatenate([data["features"].ravel(), data["targets"].ravel()]):
                assert number.tobytes() not in said
                assert repr(float(number)).encode() not in said
        key = (running.path / f"node-{v}" / "node.key").read_bytes()
        for line in key.splitlines()[1:-1]:
            assert line.startswith(b"-----") or line not in said


# Who may ask


def test_only_an_operators_certificate_opens_the_port(
    running: FleetFolder, away: Path, tmp_path: Path
) -> None:
    address = read_operator_file(away / "operator.toml", NODES)[0].address
    ask = json.dumps({"do": "status"}).encode()
    assert call(address, operator_tls(away), ask)
    neighbour = tls_of(running.path / "node-1")
    assert refusal(address, neighbour, ask) == grpc.StatusCode.PERMISSION_DENIED
    own = tls_of(running.path / "node-0")
    assert refusal(address, own, ask) == grpc.StatusCode.PERMISSION_DENIED
    other = Authority.create(tmp_path / "other", "test")
    strange = operator_tls(other.issue_operator(tmp_path / "strange"))
    strange = strange._replace(authority=neighbour.authority)
    assert refusal(address, strange, ask) == grpc.StatusCode.UNAVAILABLE  # TLS fails
    assert refusal(address, None, ask) == grpc.StatusCode.UNAVAILABLE


def test_an_operators_certificate_is_no_neighbours(running: FleetFolder, away: Path) -> None:
    file = running.files[1]
    code = refusal(file.listen, operator_tls(away), b"", 1, NODE, TALK)
    assert code == grpc.StatusCode.PERMISSION_DENIED
    identity = Identity.open(running.path / "node-0")
    with pytest.raises(Untrusted, match="not a node's certificate"):
        identity.peer_id((away / "tls.crt").read_bytes())


def test_an_expired_certificate_is_refused(running: FleetFolder, tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    authority = Authority.load(running.path / "authority")
    before = datetime.now(UTC) - timedelta(days=20)
    authority.issue_operator(tmp_path / "old", 5, now=before)
    with pytest.raises(IdentityError, match="expired"):
        operator_tls(tmp_path / "old")
    pem = [(tmp_path / "old" / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt")]
    address = read_operator_file(running.path / "operator" / "operator.toml", NODES)[0].address
    assert refusal(address, Tls(*pem), b'{"do": "status"}') == grpc.StatusCode.UNAVAILABLE


# What can be asked

WRONG = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"[" * 4000,
    b"{}",
    b'{"do": null}',
    b'{"do": ["status"]}',
    b'{"do": "trace", "after": -1}',
    b'{"do": "trace", "after": "1"}',
    b'{"do": "trace", "after": 1e9}',
    b'{"do": "logs", "after": 99999999999999999999}',
    b'{"do": "model"}',
    b'{"do": "model", "place": "../node.key"}',
    b'{"do": "model", "place": "memory"}',
    b'{"do": "revive"}',
    b'{"do": "revive", "counter": 9, "digest": "zz", "signature": "00"}',
    *(json.dumps({"do": do, "node": 1}).encode() for do in ("begin", "gone", "stop", "leave")),
    *(json.dumps({"do": do, "keep_bytes": 0}).encode() for do in ("prune", "pardon", "__class__")),
]


@pytest.mark.parametrize("question", WRONG)
def test_other_questions_are_refused(away: Path, question: bytes) -> None:
    address = read_operator_file(away / "operator.toml", NODES)[0].address
    assert refusal(address, operator_tls(away), question) == grpc.StatusCode.INVALID_ARGUMENT


def test_a_question_that_is_too_long_is_refused(away: Path) -> None:
    address = read_operator_file(away / "operator.toml", NODES)[0].address
    long = json.dumps({"do": "status", "x": "y" * MOST_QUESTION}).encode()
    assert refusal(address, operator_tls(away), long) == grpc.StatusCode.RESOURCE_EXHAUSTED


class Stub:
    """As much of a process and of gRPC's context as a question needs."""

    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None
        self.logged: list[str] = []

    def log(self, what: str, level: str = "info", **about: object) -> None:
        self.logged.append(what)

    def peer(self) -> str:
        return "ipv4:10.0.0.9:4711"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code


def test_more_questions_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answered(asked: dict[str, Any]) -> list[bytes]:
        return [b"{}"]

    async def codes() -> tuple[list[grpc.StatusCode | None], list[str]]:
        stub, found = Stub(), []
        port = OperatorPort(stub, "127.0.0.1:9")  # type: ignore[arg-type]
        port._budget = QuestionBudget(lambda: 0.0)  # no time passes
        monkeypatch.setattr(port, "_check", lambda auth: None)
        monkeypatch.setattr(port._answers, "answer", answered)
        for _ in range(int(BURST) + 2):
            stub.code = None
            _ = [frame async for frame in port._serve(b'{"do": "status"}', stub)]
            found.append(stub.code)
        return found, stub.logged

    found, logged = asyncio.run(codes())
    assert found == [None] * int(BURST) + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
    assert logged == ["operator asks", "operator refused", "operator refused"]


def test_silent_connections_do_not_keep_operators_out(away: Path) -> None:
    address = host_port(read_operator_file(away / "operator.toml", NODES)[1].address)
    assert address is not None
    with contextlib.ExitStack() as held:
        for _ in range(100):
            held.enter_context(socket.create_connection(address))
        eventually(lambda: open_any_fleet(away).status()["nodes_unreached"] == [])


# Answers of nodes that lie


def honest(away: Path) -> tuple[RemoteFleet, OperatorAnswer]:
    fleet = RemoteFleet.open(away)
    return fleet, fleet._clients[0].ask({"do": "status"}, timeout=30.0)


def test_a_false_status_is_refused(away: Path) -> None:
    fleet, answer = honest(away)
    about, manifest = answer.about["status"], fleet.manifest
    assert checked_status(about, 0, manifest)["final"]["step"] == STEPS
    for name in checked_status(about, 0, manifest):
        with pytest.raises(Malformed, match=name):
            checked_status(about | {name: [-7.5]}, 0, manifest)
    token = about["final"]
    for name in token:
        with pytest.raises(Malformed, match="final"):
            checked_status(about | {"final": token | {name: "x" * 10_000}}, 0, manifest)
    for wrong in (None, [], "status"):
        with pytest.raises(Malformed, match="status"):
            checked_status(wrong, 0, manifest)
    for strange in ({"\x1b[2J": 0.5}, {"accuracy": 0.5}):  # this fleet has no metrics
        with pytest.raises(Malformed, match="metrics"):
            checked_status(about | {"metrics": strange}, 0, manifest)
        with pytest.raises(Malformed, match="metrics"):
            checked_view(0, answer._replace(about=answer.about | {"measured": strange}), manifest)
    code = ModelCode("a.py", "build", "0" * 64, (2,), ("accuracy",))
    with_metrics = SimpleNamespace(digest=manifest.digest, code=code)
    told = checked_status(about | {"metrics": {"accuracy": 0.5}}, 0, with_metrics)  # type: ignore
    assert told["metrics"] == {"accuracy": 0.5}
    with pytest.raises(Malformed, match="silence"):
        checked_status(about | {"silence": 10**400}, 0, manifest)
    with pytest.raises(Malformed, match="it says that it is node 0"):
        checked_status(about, 1, manifest)
    with pytest.raises(Malformed, match="another run"):
        checked_status(about | {"run": "00"}, 0, manifest)


def test_false_records_are_refused(away: Path) -> None:
    fleet, answer = honest(away)
    assert answer.records
    for record in (b"", b"\x02\x13", answer.records[0] + b"x", answer.records[0][:-1]):
        with pytest.raises(Malformed):
            checked_view(0, answer._replace(records=[record]), fleet.manifest)


def test_records_are_put_together_within_their_limits() -> None:
    given = [b"", b"a" * 3_000_000, b"bc"]
    found = Records(1 << 22, 1 << 22)
    for piece in pieces(given):
        assert len(piece) <= 1 << 20
        found.take(piece)
    assert found.done() == given
    with pytest.raises(Malformed, match="more than 10"):
        Records(100, 10).take(b"".join(pieces([b"x" * 11])))
    with pytest.raises(Malformed, match="more than 5 bytes"):
        Records(5, 10).take(b"123456")
    half = Records(100, 50)
    half.take(b"".join(pieces([b"x" * 40]))[:-1])
    with pytest.raises(Malformed, match="ends within a record"):
        half.done()


# Nodes that do not answer


def test_nodes_that_do_not_answer_are_named(
    running: FleetFolder, away: Path, tmp_path: Path
) -> None:
    partly = Path(shutil.copytree(away, tmp_path / "partly"))
    text = (partly / "operator.toml").read_text()
    right = read_operator_file(partly / "operator.toml", NODES)[1].address
    (partly / "operator.toml").write_text(text.replace(right, "127.0.0.1:9"))
    fleet = open_any_fleet(partly)
    found = fleet.status()
    assert found["nodes_unreached"] == [1]
    assert found["nodes_up"] == NODES - 1
    assert any(
        wait.startswith("node 1 has not answered, so this does not include it")
        for wait in found["waits"]
    )
    assert found["stopped"] is None
    bad = [one.what for one in examine(partly) if one.level == FindingLevel.PROBLEM]
    assert len(bad) == 1
    assert "node 1 does not answer at 127.0.0.1:9" in bad[0]
    with pytest.raises(FleetProblem, match=r"needs the logs of all nodes.*--missing mark"):
        export.trace(fleet)
    export.model(fleet, tmp_path / "model")
    shown = CliRunner().invoke(app, ["fleet", "status", str(partly)])
    assert shown.exit_code == 0
    assert "1 not reached" in shown.output
    said = CliRunner().invoke(app, ["fleet", "logs", str(partly), "--node", "1"])
    assert said.exit_code == 1
    assert "Without: node 1 does not answer" in said.output


def test_a_node_that_answers_for_another_is_not_believed(away: Path, tmp_path: Path) -> None:
    """Its certificate names it, so that TLS refuses it under another number."""
    swapped = Path(shutil.copytree(away, tmp_path / "swapped"))
    nodes = read_operator_file(swapped / "operator.toml", NODES)
    text = (swapped / "operator.toml").read_text()
    (swapped / "operator.toml").write_text(text.replace(nodes[1].address, nodes[2].address))
    assert open_any_fleet(swapped).status()["nodes_unreached"] == [1]


# Orders, folders and options


def test_revive_needs_the_operators_key_besides(away: Path, tmp_path: Path) -> None:
    fleet = open_any_fleet(away)
    with pytest.raises(FleetProblem, match="the walk is over"):
        revive(fleet)


def test_commands_that_change_something_are_refused_for_an_operators_folder(away: Path) -> None:
    for command in (["up"], ["stop"], ["gone", "1"], ["leave", "1"], ["renew"], ["rejoin", "1"]):
        found = CliRunner().invoke(app, ["fleet", command[0], str(away), *command[1:]])
        assert isinstance(found.exception, InvalidParameter), command
        assert "run this command on the machine of the node" in str(found.exception)


def test_there_is_no_operator_port_unless_it_is_asked_for(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet", operator_port=None)
    assert not (fleet / "operator").exists()
    assert NodeFile.read(fleet / "node-0" / "node.toml").operator is None
    with pytest.raises(InvalidParameter, match="have no operator port"):
        operator_folder(fleet, tmp_path / "out")


def test_ports_of_operators_on_several_machines(tmp_path: Path) -> None:
    hosts = ["a.example:7000", "b.example:7000", "a.example:7001"]
    fleet = new_fleet(tmp_path / "fleet", addresses=hosts, operator_port=7100)
    found = read_operator_file(fleet / "operator" / "operator.toml", NODES)
    told = [one.address for one in found.values()]
    assert told == ["a.example:7100", "b.example:7100", "a.example:7101"]
    assert NodeFile.read(fleet / "node-2" / "node.toml").operator == "0.0.0.0:7101"
    made = operator_folder(fleet, tmp_path / "out", days=3)
    assert [one.address for one in made] == told
    (fleet / "operator" / "operator.toml").unlink()
    again = operator_folder(fleet, tmp_path / "again")
    assert [one.address for one in again] == told
    with pytest.raises(InvalidParameter, match="must leave free ports"):
        new_fleet(tmp_path / "other", addresses=hosts, operator_port=7000)
    with pytest.raises(InvalidParameter, match="cannot be given with deploy"):
        new_fleet(tmp_path / "third", deploy="compose", operator_port=7000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nodes = 3", "a list of tables"),
        ("nodes = []", "must not be empty"),
        ('[[nodes]]\nid = 9\naddress = "a:1"', "nodes.*id"),
        ('[[nodes]]\nid = 0\naddress = "a"', "host:port"),
        ('[[nodes]]\nid = 0\naddress = "a:1"\nkey = 1', "unknown key"),
        ('[[nodes]]\nid = 0\naddress = "a:1"\n[[nodes]]\nid = 0\naddress = "b:1"', "different"),
        ("nodes = [", "not TOML"),
    ],
)
def test_a_wrong_operator_file_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "operator.toml").write_text(text)
    with pytest.raises(InvalidSpec, match=why):
        read_operator_file(tmp_path / "operator.toml", NODES)


def test_a_node_file_with_one_port_for_both_is_refused(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    path = fleet / "node-0" / "node.toml"
    file = NodeFile.read(path)
    assert file.operator is not None
    path.write_text(path.read_text().replace(file.operator, file.listen))
    with pytest.raises(InvalidSpec, match="on another port than listen"):
        NodeFile.read(path)
