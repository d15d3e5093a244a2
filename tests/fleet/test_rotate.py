"""New keys without a stop: neighbours follow the signatures of the old ones, and old signatures
stay valid.
"""

from __future__ import annotations

import os
import signal
import ssl
from pathlib import Path

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import (
    CertificateFacts,
    fingerprint,
    key_fingerprint,
    key_fingerprints,
)
from levywalk.fleet.identity.errors import WrongKey
from levywalk.fleet.identity.key_files import public_der
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.identity.rotation import (
    KEPT,
    FormerKeys,
    Rotations,
    endorsed,
    read_rotations,
    rotations_bytes,
)
from levywalk.fleet.operate import export
from levywalk.fleet.operate import rotate as rotating
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.rotate import rename_keys, rotate
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.findings import FindingLevel
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.runtime.transport import METHOD, SERVICE
from levywalk.fleet.runtime.wire import MOST_CERTIFICATE
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.node_file import NodeFile, host_port
from tests.fleet.nodes import make, tls_of, up
from tests.limits import PATIENCE, eventually


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority", "five")


def rotated(authority: Authority, old: Path, new: Path) -> Path:
    return authority.rotate(old / "node.key", old / "node.crt", new)


def test_neighbours_follow_the_old_keys_signature_to_the_new_ones(
    authority: Authority, tmp_path: Path
) -> None:
    old = authority.issue(3, ["a.example"], folder=tmp_path / "old")
    other = Identity.open(authority.issue(4, ["b.example"], folder=tmp_path / "other"))
    before = Identity.open(old)
    said = before.signer().sign(b"to 7")
    new = rotated(authority, old, tmp_path / "new")
    after = Identity.open(new, node=3)
    known = key_fingerprint(before.certificate)
    assert key_fingerprints(after.certificate) == (key_fingerprint(after.certificate), known)
    assert (before.rotation, after.rotation) == (0, 1)
    assert other.learn(before.certificate) == 3
    assert not other.is_earlier(before.certificate)
    assert other.learn(after.certificate) == 3
    assert other.is_earlier(before.certificate)
    with pytest.raises(WrongKey):
        other.learn(before.certificate)
    fresh = after.signer().sign(b"to 8")
    assert other.signer().verify(3, b"to 7", said)  # made with the old key
    assert other.signer().verify(3, b"to 8", fresh)
    assert not other.signer().verify(3, b"to 9", said)
    assert other.verify_present(3, b"to 8", fresh)
    assert not other.verify_present(3, b"to 7", said)


def test_a_stolen_authority_cannot_replace_a_nodes_keys(
    authority: Authority, tmp_path: Path
) -> None:
    """Without the old private key, no signature leads from what neighbours know to new keys."""
    old = Identity.open(authority.issue(3, ["a.example"], folder=tmp_path / "old"))
    tls, signing = generate_private_key(SECP256R1()), Ed25519PrivateKey.generate()
    public = signing.public_key().public_bytes_raw()
    thief = Ed25519PrivateKey.generate()
    false = endorsed("five", 3, Rotations(), public_der(old._tls), thief, "00" * 32)
    mine = old._signing.public_key().public_bytes_raw()
    false = false._replace(former=(false.former[0]._replace(signing=mine),))
    facts = CertificateFacts("five", 3, ("a.example",), public, false)
    made = authority._certify(tls.public_key(), facts, 10, None)
    assert false.former[0].fingerprint == key_fingerprint(old.certificate)
    assert key_fingerprints(made) == (key_fingerprint(made),)
    with pytest.raises(WrongKey, match="were not signed by its present ones"):
        old.adopt(Identity(facts, tls, signing, made, authority.certificate))


def test_a_certificate_keeps_the_last_keys_and_fits_into_a_message(
    authority: Authority, tmp_path: Path
) -> None:
    at = authority.issue(3, ["a.very.long.name.of.a.machine.example.org"], folder=tmp_path / "0")
    prints, identity = [key_fingerprint(Identity.open(at).certificate)], Identity.open(at)
    said = identity.signer().sign(b"first")
    for i in range(1, KEPT + 2):
        at = rotated(authority, at, tmp_path / str(i))
        identity.adopt(Identity.open(at))
        prints.insert(0, key_fingerprint(identity.certificate))
        assert identity.rotation == i
        assert identity.signer().verify(3, b"first", said) == (i <= KEPT)
    assert key_fingerprints(identity.certificate) == tuple(prints[: KEPT + 1])
    der = ssl.PEM_cert_to_DER_cert((at / "node.crt").read_text())
    assert 2 * len(der) <= MOST_CERTIFICATE
    renewed = authority.renew(3, folder=at)  # keeps the chain
    assert key_fingerprints(renewed.read_bytes()) == tuple(prints[: KEPT + 1])


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 6, 50, -1])
def test_malformed_rotations_are_refused(cut: int) -> None:
    whole = rotations_bytes(Rotations(3, (FormerKeys(b"t" * 91, bytes(32), bytes(64)),)))
    assert read_rotations(whole).number == 3
    for data in (whole[:cut], whole + b"x", b"\0\0\0\1\2" + whole[5:], b"\xff" * 300):
        with pytest.raises(ValueError, match="malformed"):
            read_rotations(data)


def test_the_node_file_keeps_everything_else(tmp_path: Path) -> None:
    fleet = make(tmp_path / "fleet", 3)
    path = fleet / "node-1" / "node.toml"
    path.write_text("# mine: key = 1\n" + path.read_text() + "# and the end\n")
    before = NodeFile.read(path)
    after = rename_keys(path, fleet / "node-1" / "keys-1")
    assert after.key == fleet / "node-1" / "keys-1" / "node.key"
    assert after.certificate == fleet / "node-1" / "keys-1" / "node.crt"
    assert (after.neighbours, after.state, after.data) == (
        before.neighbours,
        before.state,
        before.data,
    )
    text = path.read_text()
    assert text.startswith("# mine: key = 1\n")
    assert text.endswith("# and the end\n")


def test_nodes_that_do_not_run_use_new_keys_from_their_next_start_on(tmp_path: Path) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    (done,) = rotate(fleet, [1])
    assert not done.used
    assert fleet.files[1].key.exists()  # it is not known whether the node uses the new ones
    again = FleetFolder.open(fleet.path)
    assert again.files[1].key == done.folder / "node.key"
    bad = [one for one in examine(fleet.path) if one.level == FindingLevel.PROBLEM]
    assert not bad  # the neighbours' files have the old fingerprint, which leads to the new one
    with pytest.raises(InvalidParameter, match="days"):
        rotate(FleetFolder.open(fleet.path), [0, 1], days=100_000)


def test_wrong_commands(tmp_path: Path) -> None:
    fleet = make(tmp_path / "fleet", 3)
    found = CliRunner().invoke(app, ["fleet", "rotate", str(fleet), "--node", "9"])
    assert "node must be one of" in str(found.exception)
    lone = CliRunner().invoke(app, ["fleet", "rotate", str(fleet / "node-1" / "node.toml")])
    assert lone.exit_code == 0
    assert not (fleet / "node-1" / "keys-1").exists()


def shown(file: NodeFile) -> str:
    """Return the fingerprint of the certificate that a node shows at its port."""
    address = host_port(file.listen)
    assert address is not None
    return fingerprint(ssl.get_server_certificate(address))


@pytest.mark.more
def test_a_running_node_takes_new_keys_and_its_neighbours_learn_them(tmp_path: Path) -> None:
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3, steps=10_000_000, terms=terms))
    old = tls_of(fleet.path / "node-0")
    with up(fleet):
        first = shown(fleet.files[1])
        step = fleet.status(PATIENCE)["step"]
        done = rotate(fleet)
        assert all(one.used for one in done)
        assert shown(fleet.files[1]) not in (first, "")
        assert not fleet.files[0].key.exists()
        fleet = FleetFolder.open(fleet.path)
        views = lambda: fleet.node_views(PATIENCE)  # noqa: E731
        eventually(lambda: all(e["up"] for one in views() for e in one.about["edges"].values()))
        eventually(lambda: fleet.status(PATIENCE)["step"] > step + 100)
        assert [row["rotation"] for row in fleet.status(PATIENCE)["nodes"]] == [1, 1, 1]
        assert fleet.status(PATIENCE)["epoch"] == 0
        learnt = (fleet.files[1].state / "peers" / "0.der").read_bytes()
        pem = ssl.PEM_cert_to_DER_cert((done[0].folder / "node.crt").read_text())
        assert learnt == pem
        # The old keys, which may have been stolen, open no connection any more.
        options = (("grpc.ssl_target_name_override", "node-1.levywalk.internal"),)
        dial = grpc.ssl_channel_credentials(old.authority, old.key, old.certificate)
        with grpc.secure_channel(fleet.files[1].listen, dial, options=options) as channel:
            talk = channel.stream_stream(f"/{SERVICE}/{METHOD}")
            with pytest.raises(grpc.RpcError) as refused:
                next(iter(talk(iter([b""]), timeout=PATIENCE)))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert "earlier ones" in str(refused.value.details())
    with up(fleet):  # all of this is on the disks
        step = fleet.status(PATIENCE)["step"]
        eventually(lambda: fleet.status(PATIENCE)["step"] > step + 10)


@pytest.mark.soak
def test_rotations_among_kills_change_nothing(tmp_path: Path) -> None:
    """Nodes are killed and get new keys while they walk, and the walk is that of the simulation."""
    n, steps = 6, 300
    problem = lw.heterogeneous(n, dim=4, seed=1, important=1)
    given = {"steps": steps, "step_size": "theory", "seed": 7}
    create(
        tmp_path / "fleet",
        lw.ring(n),
        problem,
        lw.mhlj(),
        **given,
        shared_key=True,
        metrics=False,
        terms=HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE),
    )
    fleet = FleetFolder.open(tmp_path / "fleet")
    turns = 0
    with up(fleet):
        while not fleet.status(PATIENCE)["finished"]:
            v, u = turns % n, (3 * turns + 1) % n
            pid = running(fleet.files[u].state)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            fleet = FleetFolder.open(fleet.path)
            rotate(fleet, [v])
            fleet = FleetFolder.open(fleet.path)
            fleet.up(PATIENCE)
            turns += 1
        found = export.trace(fleet)
    assert turns > 2
    assert found.provenance["fleet"]["lost_updates"] == 0
    simulated = lw.run(
        lw.ring(n), problem, lw.mhlj(), **given, backend="reference", record_walk=True
    )
    np.testing.assert_array_equal(found.walk, simulated.walk)
    np.testing.assert_array_equal(found.model, simulated.model)


# Among kills


def test_a_node_that_is_just_starting_is_told_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have read its node file before the keys were changed."""
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    asked: list[str] = []

    def ask(state: Path, do: str, **about: object) -> dict[str, object]:
        asked.append(do)
        if len(asked) < 3:
            raise control.NoAnswer("it starts")
        return {"done": True}

    monkeypatch.setattr(control, "ask", ask)
    assert not rotating.use_new_keys(fleet, 1, PATIENCE)  # it has no process
    monkeypatch.setattr(rotating, "running", lambda state: 17)
    assert rotating.use_new_keys(fleet, 1, PATIENCE)
    assert asked == ["keys"] * 3


def test_a_node_that_came_back_during_the_rotation_is_told_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    asked: list[Path] = []

    def ask(state: Path, do: str, **about: object) -> dict[str, object]:
        asked.append(state)
        if state == fleet.files[0].state and asked.count(state) == 1:
            raise control.NoAnswer("it was killed")
        return {"done": True}

    monkeypatch.setattr(control, "ask", ask)
    assert [one.used for one in rotating.rotate(fleet)] == [True] * 3


def test_keys_of_rotations_at_which_a_node_did_not_run_are_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", 3))
    place = fleet.place(1)
    assert not rotating.rotate(fleet, [1])[0].used
    assert not rotating.rotate(fleet, [1])[0].used
    keys = [place / "node.key", *(place / f"keys-{k}" / "node.key" for k in (1, 2, 3))]
    assert [path.exists() for path in keys] == [True, True, True, False]
    monkeypatch.setattr(control, "ask", lambda *_, **__: {"done": True})
    assert rotating.rotate(fleet, [1])[0].used
    assert [path.exists() for path in keys] == [False, False, False, True]
