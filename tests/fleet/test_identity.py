from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding

from levywalk.errors import InvalidParameter, LevywalkError, MissingFile
from levywalk.fleet.identity import certificates as module
from levywalk.fleet.identity import key_files
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import fingerprint, key_fingerprint, server_name
from levywalk.fleet.identity.errors import (
    ExpiryWarning,
    IdentityError,
    KeyExists,
    KeyExposed,
    NotKeyOrCertificate,
    OutOfDate,
    Untrusted,
    WrongKey,
    WrongNode,
)
from levywalk.fleet.identity.node_identity import TLS_1_3_ONLY, Identity
from tests.limits import PATIENCE

HERE = ["127.0.0.1:7000"]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def fleet(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "test")


def node(fleet: Authority, number: int, **more: Any) -> Identity:
    return Identity.open(fleet.issue(number, HERE, **more), node=number)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Round trips


def test_authority_comes_back(fleet: Authority) -> None:
    again = Authority.load(fleet.folder)
    assert (again.fleet, fingerprint(again.certificate)) == ("test", fingerprint(fleet.certificate))
    one, two = node(fleet, 1), node(again, 2)
    assert one.peer_id(two.certificate) == 2


def test_identity_comes_back_with_all_that_was_issued(fleet: Authority) -> None:
    folder = fleet.issue(3, ["Node.example.org:7000", "10.0.0.3", "[::1]:7000", "10.0.0.3:1"])
    mine = Identity.open(folder)
    assert (mine.node, mine.fleet) == (3, "test")
    assert set(mine.addresses) == {"node.example.org", "10.0.0.3", "::1"}
    san = mine.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert san.get_values_for_type(x509.UniformResourceIdentifier) == ["levywalk://test/node/3"]
    assert server_name(3) in san.get_values_for_type(x509.DNSName)
    assert "PRIVATE" not in repr(mine) + repr(fleet)


def test_private_keys_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        fleet = Authority.create(tmp_path / "ca", "test")
        folder = fleet.issue(1, HERE)
    finally:
        os.umask(before)
    assert mode(fleet.folder / "ca.key") == mode(folder / "node.key") == 0o600
    assert mode(fleet.folder) == mode(folder) == 0o700


def test_a_key_is_created_with_its_mode(fleet: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = [], os.open

    def spy(path: Any, flags: int, mode: int = 0o777) -> int:
        number = real(path, flags, mode)
        if flags & os.O_CREAT and Path(path).name == "node.key":
            seen.append(
                (
                    bool(flags & os.O_EXCL),
                    os.fstat(number).st_size,
                    stat.S_IMODE(os.fstat(number).st_mode),
                )
            )
        return number

    monkeypatch.setattr(key_files.os, "open", spy)
    fleet.issue(1, HERE)
    assert seen == [(True, 0, 0o600)]


def test_serial_numbers_and_lifetimes(fleet: Authority) -> None:
    one, two = node(fleet, 1), node(fleet, 2)
    assert one.certificate.serial_number.bit_length() > 64
    assert one.certificate.serial_number != two.certificate.serial_number
    now = datetime.now(UTC)
    assert timedelta(hours=1) < now - one.certificate.not_valid_before_utc < timedelta(days=2)
    assert timedelta(days=364) < one.certificate.not_valid_after_utc - now <= timedelta(days=365)


def test_a_node_does_not_outlive_its_authority(tmp_path: Path) -> None:
    fleet = Authority.create(tmp_path / "ca", "test", days=100)
    folder = fleet.issue(1, HERE, days=365)
    certificate = module.parse((folder / "node.crt").read_bytes())
    assert certificate.not_valid_after_utc == fleet.certificate.not_valid_after_utc
    with pytest.raises(OutOfDate, match="authority of fleet test ends"):
        fleet.issue(2, HERE, now=datetime.now(UTC) + timedelta(days=100, hours=1))


def test_fingerprint_is_openssls(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE)
    pem = (folder / "node.crt").read_text()
    assert fingerprint(pem) == module.parse(pem).fingerprint(hashes.SHA256()).hex()
    assert (
        fingerprint(pem)
        == fingerprint(pem.encode())
        == fingerprint(Identity.open(folder).certificate)
    )


def test_renewal_keeps_the_keys(fleet: Authority) -> None:
    folder = fleet.issue(1, ["a.example"])
    old, key = Identity.open(folder), (folder / "node.key").read_bytes()
    (folder / "node.key").rename(folder / "elsewhere")  # on the node's own machine
    fleet.renew(1)
    (folder / "elsewhere").rename(folder / "node.key")
    new = Identity.open(folder, node=1)
    assert fingerprint(new.certificate) != fingerprint(old.certificate)
    assert key_fingerprint(new.certificate) == key_fingerprint(old.certificate)
    assert (folder / "node.key").read_bytes() == key
    assert new.addresses == ("a.example",)
    fleet.renew(1, ["b.example"])
    assert Identity.open(folder).addresses == ("b.example",)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_renewal_mends_an_expired_certificate(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE, now=LONG_AGO)
    fleet.renew(1)
    assert Identity.open(folder).node == 1


def test_renewal_refuses_what_is_not_its_own(fleet: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "test")
    folder = other.issue(1, HERE)
    before = (folder / "node.crt").read_bytes()
    with pytest.raises(Untrusted, match="not signed by this fleet's authority"):
        fleet.renew(1, folder=folder)
    with pytest.raises(WrongNode, match="of node 1, not 2"):
        other.renew(2, folder=folder)
    assert (folder / "node.crt").read_bytes() == before


# Signing


def test_signatures_are_believed_once_the_certificate_is_seen(fleet: Authority) -> None:
    one, two = node(fleet, 1), node(fleet, 2)
    signature, signer = one.signer().sign(b"to 7"), two.signer()
    assert one.signer().verify(1, b"to 7", signature)
    assert not signer.verify(1, b"to 7", signature)
    assert two.learn(one.tls().certificate) == 1
    assert two.learn(one.certificate) == 1
    assert signer.verify(1, b"to 7", signature)
    assert not signer.verify(1, b"to 8", signature)
    assert not signer.verify(2, b"to 7", signature)
    assert not signer.verify(3, b"to 7", signature)


def test_of_two_signing_keys_of_a_node_the_later_one_counts(
    fleet: Authority, tmp_path: Path
) -> None:
    now, hour = datetime.now(UTC), timedelta(hours=1)
    folders = [
        fleet.issue(1, ["127.0.0.1"], folder=tmp_path / f"{i}", now=now + i * hour)
        for i in range(3)
    ]
    early, one, late = map(Identity.open, folders)
    two = node(fleet, 2)
    two.learn(one.certificate)
    with pytest.raises(WrongKey, match="node 1 is known with another signing key, issued later"):
        two.learn(early.certificate)
    assert two.signer().verify(1, b"x", one.signer().sign(b"x"))
    assert not two.signer().verify(1, b"x", early.signer().sign(b"x"))
    two.learn(late.certificate)
    assert two.signer().verify(1, b"x", late.signer().sign(b"x"))
    with pytest.raises(WrongKey):
        two.learn(one.certificate)
    for other in (early, late):
        with pytest.raises(WrongKey):
            one.learn(other.certificate)  # its own name


def test_strangers_are_not_learned(fleet: Authority, tmp_path: Path) -> None:
    mine = node(fleet, 1)
    stranger = node(Authority.create(tmp_path / "other", "test"), 2)
    for ask in (mine.learn, mine.peer_id):
        with pytest.raises(Untrusted, match="not signed by this fleet's authority"):
            ask(stranger.tls().certificate)
        with pytest.raises(Untrusted):
            ask(stranger.authority)
        with pytest.raises(Untrusted):
            ask(mine.authority)  # signed by the authority, but no node's
    assert not mine.signer().verify(2, b"x", stranger.signer().sign(b"x"))


def test_expired_peers_are_refused_also_when_they_were_seen_before(fleet: Authority) -> None:
    one, two = node(fleet, 1), node(fleet, 2)
    pem = two.tls().certificate
    assert one.peer_id(pem) == one.peer_id(pem) == one.peer_id(pem.decode()) == 2
    for days in (-2, 366):
        then = datetime.now(UTC) + timedelta(days=days)
        for ask in (one.peer_id, one.learn):
            with pytest.raises(OutOfDate, match="node 2"):
                ask(pem, now=then)
    with pytest.raises(InvalidParameter, match="time zone"):
        one.peer_id(pem, now=datetime(2030, 1, 1))


@pytest.mark.parametrize(
    ("uris", "extension", "why"),
    [
        ([], b"\x04\x20" + bytes(32), "names no node"),
        (
            ["levywalk://test/node/1", "levywalk://test/node/2"],
            b"\x04\x20" + bytes(32),
            "or several",
        ),
        (["levywalk://test/node/01"], b"\x04\x20" + bytes(32), "names no node"),
        (["levywalk://test/node/9999999999"], b"\x04\x20" + bytes(32), "impossible"),
        (["levywalk://test/node/1"], b"\x04\x20" + bytes(31), "malformed"),
        (["levywalk://test/node/1"], None, "2.25"),
    ],
)
def test_odd_certificates_of_the_right_authority(
    fleet: Authority, uris: list[str], extension: bytes | None, why: str
) -> None:
    mine, key = node(fleet, 1), generate_private_key(SECP256R1())
    names = [*(x509.UniformResourceIdentifier(uri) for uri in uris), x509.DNSName("a.example")]
    both = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    begin, end = module.validity(1, None)
    builder = (
        module.unsigned_certificate(
            fleet.certificate.subject, fleet.certificate.subject, key.public_key(), begin, end
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    if extension is not None:
        builder = builder.add_extension(
            x509.UnrecognizedExtension(module.SIGNING_KEY, extension), critical=False
        )
    with pytest.raises(Untrusted, match=why):
        mine.learn(builder.sign(fleet._key, hashes.SHA256()).public_bytes(Encoding.PEM))


# Loading checks


def test_wrong_authority(fleet: Authority, tmp_path: Path) -> None:
    folder, other = fleet.issue(1, HERE), Authority.create(tmp_path / "other", "test")
    shutil.copy(other.folder / "ca.crt", folder / "ca.crt")
    with pytest.raises(Untrusted, match="not signed by this fleet's authority"):
        Identity.open(folder)
    shutil.copy(folder / "node.crt", folder / "ca.crt")
    with pytest.raises(Untrusted):
        Identity.open(folder)


def test_expired(tmp_path: Path) -> None:
    fleet = Authority.create(tmp_path / "ca", "test", 400, now=LONG_AGO)
    folder = fleet.issue(1, HERE, days=365, now=LONG_AGO)
    assert Identity.open(folder, now=LONG_AGO).node == 1
    with pytest.raises(
        OutOfDate, match=r"node\.crt.* of node 1 expired on 2020-12-31 00:00 UTC.*renew it"
    ):
        Identity.open(folder)
    with pytest.raises(
        OutOfDate, match=r"ca\.crt.* fleet test expired on 2021-02-04.*create a new one"
    ):
        Authority.load(fleet.folder)


def test_not_valid_yet(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE)
    assert Identity.open(folder, now=datetime.now(UTC) - timedelta(hours=23)).node == 1
    with pytest.raises(OutOfDate, match="set this machine's clock"):
        Identity.open(folder, now=datetime.now(UTC) - timedelta(hours=25))


def test_a_warning_before_the_end(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE, days=365)
    assert Identity.open(folder, now=datetime.now(UTC) + timedelta(days=330)).node == 1
    with pytest.warns(ExpiryWarning, match=r"node 1 expires on .* UTC: renew it"):
        Identity.open(folder, now=datetime.now(UTC) + timedelta(days=340))
    assert node(fleet, 2, days=3).node == 2  # a short life is no reason to warn at once


def test_key_of_another_node(fleet: Authority) -> None:
    one, two = fleet.issue(1, HERE), fleet.issue(2, HERE)
    mine, other = (one / "node.key").read_bytes(), (two / "node.key").read_bytes()
    tls, signing = (
        key_files.pem_blocks(text, "", "PRIVATE KEY", "PRIVATE KEY") for text in (mine, other)
    )
    for text in (other, tls[0] + signing[1], signing[0] + tls[1]):
        (one / "node.key").write_bytes(text)
        with pytest.raises(
            WrongKey, match=r"node\.key does not belong to .*node\.crt, which is of node 1"
        ):
            Identity.open(one)


def test_authority_with_the_key_of_another(fleet: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "test")
    shutil.copy(other.folder / "ca.key", fleet.folder / "ca.key")
    with pytest.raises(WrongKey, match="does not belong"):
        Authority.load(fleet.folder)


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_readable_key(fleet: Authority, rights: int) -> None:
    folder = fleet.issue(1, HERE)
    for key, load in (
        (folder / "node.key", Identity.open),
        (fleet.folder / "ca.key", Authority.load),
    ):
        key.chmod(rights)
        with pytest.raises(KeyExposed, match=rf"mode 0{rights:o}\): chmod 600 {key}"):
            load(key.parent)
        key.chmod(0o400)
        load(key.parent)


@pytest.mark.parametrize("name", ["node.key", "node.crt", "ca.crt"])
def test_damaged_files(fleet: Authority, name: str) -> None:
    folder = fleet.issue(1, HERE)
    whole = (folder / name).read_bytes()
    flipped = whole[:80] + (b"B" if whole[80:81] == b"A" else b"A") + whole[81:]
    bad = [whole[:cut] for cut in range(0, len(whole) - 2, 7)]
    bad += [flipped, whole + whole, b"\x80\x04junk", b"-----BEGIN " * 5000, whole + b" " * 65536]
    bad += [b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    for text in bad:
        (folder / name).write_bytes(text)
        with pytest.raises(IdentityError) as caught:
            Identity.open(folder)
        assert name in str(caught.value)


def test_missing_and_odd_files(fleet: Authority, tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"ca\.crt does not exist: copy it here"):
        Authority.load(tmp_path / "nothing")
    folder = fleet.issue(1, HERE)
    (folder / "node.key").unlink()
    with pytest.raises(MissingFile, match=r"node\.key"):
        Identity.open(folder)
    os.mkfifo(folder / "node.key", 0o600)
    with pytest.raises(NotKeyOrCertificate, match="not a file"):
        Identity.open(folder)


def test_node_id_mismatch(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE)
    with pytest.raises(WrongNode, match=r"of node 1, not 2: use the key and certificate of node 2"):
        Identity.open(folder, node=2)


def test_keys_are_never_overwritten(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE)
    before = {
        path: path.read_bytes()
        for path in [*folder.iterdir(), fleet.folder / "ca.key", fleet.folder / "ca.crt"]
    }
    with pytest.raises(KeyExists, match=r"renew node\.crt"):
        fleet.issue(1, HERE)
    with pytest.raises(KeyExists, match=r"Authority\.load"):
        Authority.create(fleet.folder, "test")
    assert {path: path.read_bytes() for path in before} == before
    (folder / "node.crt").unlink()
    with pytest.raises(KeyExists, match="interrupted"):
        fleet.issue(1, HERE)


def test_a_full_disk_leaves_no_part_of_a_key(
    fleet: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(key_files.os, "fsync", full)
        with pytest.raises(IdentityError, match=r"node\.key cannot be written \(No space left"):
            fleet.issue(1, HERE)
    assert list((fleet.folder / "node-1").iterdir()) == []
    assert node(fleet, 1).node == 1


@pytest.mark.parametrize("name", ["", "Big", "a b", "-a", "a-", "a" * 33, "a/b", "é", "a\n"])
def test_fleet_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParameter, match="fleet_name"):
        Authority.create(tmp_path / "ca", name)
    assert not (tmp_path / "ca").exists()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "0.0.0.0:7000",
        "::",
        "[::]:1",
        "a b",
        "é.org",
        "1.2.3",
        "256.1.1.1",
        "fe80::1%eth0",
        "*",
        "a..b",
        "http://a",
        "a:b",
        "node-4.levywalk.internal",
        "a\x00b",
    ],
)
def test_addresses_that_are_none(fleet: Authority, address: str) -> None:
    with pytest.raises(InvalidParameter, match="addresses"):
        fleet.issue(1, [address])
    assert not (fleet.folder / "node-1").exists()


def test_other_arguments(fleet: Authority) -> None:
    for wrong in (
        {"node_id": -1},
        {"node_id": 2**31},
        {"days": 0},
        {"days": 10**6},
        {"addresses": "a.example"},
    ):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            fleet.issue(**{"node_id": 1, "addresses": HERE, **wrong})
    assert issubclass(IdentityError, LevywalkError)


# gRPC


async def served(
    server: Identity, ask: Callable[[Any, int], Awaitable[Any]]
) -> tuple[Any, list[int]]:
    """Run an echo on a free port of loopback, and return what came of the asking, and who was
    served.
    """
    grpc = pytest.importorskip(
        "grpc", reason="grpcio is not installed: pip install 'levywalk[fleet]'"
    )
    pytest.importorskip("grpc.aio")
    callers: list[int] = []

    async def echo(request: bytes, context: Any) -> bytes:
        callers.append(server.peer_id(context.auth_context()["x509_pem_cert"][0]))
        return request

    tls = server.tls()
    running = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "Test", {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    )
    running.add_generic_rpc_handlers((handler,))
    credentials = grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)], tls.authority, require_client_auth=True
    )
    port = running.add_secure_port("127.0.0.1:0", credentials)
    await running.start()
    try:
        return await ask(grpc, port), callers
    finally:
        await running.stop(None)


async def called(grpc: Any, channel: Any) -> str:
    """Return the answer, or the status of the refusal; a call that hangs is neither."""
    async with channel:
        try:
            return (await channel.unary_unary("/Test/Echo")(b"hello", timeout=PATIENCE)).decode()
        except grpc.aio.AioRpcError as error:
            return error.code().name


def over_tls(
    client: Identity, name: str | None, authority: bytes | None = None, bare: bool = False
) -> Any:
    async def ask(grpc: Any, port: int) -> str:
        key, certificate, own = client.tls()
        mine = (None, None) if bare else (key, certificate)
        credentials = grpc.ssl_channel_credentials(own if authority is None else authority, *mine)
        options = [("grpc.enable_retries", 0)] + (
            [] if name is None else [("grpc.ssl_target_name_override", name)]
        )
        return await called(
            grpc, grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options)
        )

    return ask


async def over_plaintext(grpc: Any, port: int) -> str:
    return await called(grpc, grpc.aio.insecure_channel(f"127.0.0.1:{port}"))


def test_two_nodes_speak_over_mutual_tls(fleet: Authority) -> None:
    one, two = node(fleet, 1), node(fleet, 2)
    assert asyncio.run(served(one, over_tls(two, None))) == ("hello", [2])  # by its address
    assert asyncio.run(served(one, over_tls(two, server_name(1)))) == ("hello", [2])  # by who it is


def test_everybody_else_is_refused(tmp_path: Path) -> None:
    fleet = Authority.create(tmp_path / "ca", "test", 7300, now=LONG_AGO)
    one, two = node(fleet, 1), node(fleet, 2)
    foreign = node(Authority.create(tmp_path / "other", "test"), 2)
    authority = one.tls().authority
    old = Identity.open(fleet.issue(3, HERE, now=LONG_AGO), now=LONG_AGO)
    refused = ("UNAVAILABLE", [])
    assert asyncio.run(served(one, over_tls(foreign, server_name(1), authority))) == refused
    assert (
        asyncio.run(served(one, over_tls(foreign, server_name(1)))) == refused
    )  # believes another authority
    assert (
        asyncio.run(served(foreign, over_tls(two, server_name(2)))) == refused
    )  # a foreign server
    assert (
        asyncio.run(served(one, over_tls(two, server_name(2)))) == refused
    )  # not the node that was meant
    assert asyncio.run(served(one, over_tls(two, server_name(1), bare=True))) == refused
    assert asyncio.run(served(one, over_tls(old, server_name(1)))) == refused
    assert asyncio.run(served(one, over_plaintext)) == refused


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.fleet.test_identity import Identity, served, versions
print(asyncio.run(served(Identity.open(sys.argv[1]), versions(Path(sys.argv[1])))))
"""


def versions(folder: Path) -> Any:
    async def ask(grpc: Any, port: int) -> list[bool]:
        took = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
            context.load_cert_chain(folder / "node.crt", folder / "node.key")
            context.set_alpn_protocols(["h2"])
            context.minimum_version = context.maximum_version = version
            try:
                _, writer = await asyncio.wait_for(
                    asyncio.open_connection("127.0.0.1", port, ssl=context), 5
                )
            except (OSError, ssl.SSLError):
                took.append(False)
            else:
                writer.close()
                took.append(True)
        return took

    return ask


def test_tls_1_2_is_refused_with_the_environment(fleet: Authority) -> None:
    folder = fleet.issue(1, HERE)
    if not TLS_1_3_ONLY.keys() & os.environ.keys():  # why it is needed
        assert asyncio.run(served(Identity.open(folder), versions(folder))) == ([True, True], [])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        env={**os.environ, **TLS_1_3_ONLY},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "([False, True], [])"
