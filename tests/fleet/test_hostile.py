"""A neighbour with a valid certificate, or anybody else, says what it must not: the node refuses
it, and is unharmed.

The node is a real process. Whoever is refused gets a clear error, the node's disk is to the byte
what it was, and the node answers its other neighbours.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

import levywalk.fleet
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.node_identity import Identity, Tls
from levywalk.fleet.protocol.ending import Ending
from levywalk.fleet.protocol.events import Genesis, Start
from levywalk.fleet.protocol.evidence import Lie, Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.links import KINDS, EpochLink, Opening, Right
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certificate,
    Certified,
    Fenced,
    Finished,
    Guard,
    Guarding,
    Heartbeat,
    Message,
    Prepare,
    Prepared,
    Refused,
    Release,
    Renew,
    Withdraw,
)
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.tensors import Tensor
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.runtime import control, transport
from levywalk.fleet.runtime.launch import ENVIRONMENT, command
from levywalk.fleet.runtime.messages_pb2 import Frame
from levywalk.fleet.runtime.plausible import PLAUSIBLE
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.runtime.wire import FORMAT, MOST_FRAME, chunk_frames, encode_frame
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.reader import StoreReader
from tests.fleet.linked import Hands
from tests.fleet.nodes import Caller, Running, make, tls_of
from tests.limits import PATIENCE, eventually, mostly_more

VICTIM, NEIGHBOUR, OTHER, STRANGER = (
    3,
    0,
    2,
    1,
)  # of a ring of four; a neighbour with a lower id dials
BORN = Epoch(0, 0, 0)
END = Ending(OTHER, BORN, 1, 50, bytes(32), bytes(64), Right())
Code = grpc.StatusCode


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(
        make(tmp_path_factory.mktemp("hostile") / "fleet", metrics=True) / f"node-{VICTIM}"
    ) as node:
        yield node


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A node whose models come in chunks."""
    folder = make(tmp_path_factory.mktemp("large") / "fleet", dim=10_000)
    with Running(folder / f"node-{VICTIM}") as node:
        yield node


@contextlib.contextmanager
def unharmed(node: Running) -> Iterator[None]:
    """Nothing on the node's disk changes, and afterwards it answers everybody who keeps to the
    rules.
    """
    before = node.state()
    yield
    assert node.state() == before
    for neighbour in (NEIGHBOUR, OTHER):
        with node.dial(neighbour) as caller:
            caller.greet().sync()
    assert node.state() == before
    assert not {"fault", "disk full"} & node.status()["counts"].keys()


def token(node: Running, **changes: Any) -> Token:
    """Return a token as the neighbour could hand it over."""
    return node.manifest.first_token.handed_over(NEIGHBOUR, VICTIM)._replace(
        **{"epoch": BORN} | changes
    )


def heartbeat(**changes: Any) -> Heartbeat:
    return Heartbeat(FIRST, b"", True, 1, True, 2, 2, (1.0,))._replace(**changes)


def hands(folder: Path) -> Hands:
    """Return what signs in the name of every node of a fleet."""
    keys = {v: Identity.open(folder / f"node-{v}").signer() for v in range(4)}
    return Hands(Manifest.read(folder / "manifest.json").digest, keys)


def guard(node: Running, of: Token) -> Guard:
    """Return the request of the neighbour to guard a token that it has restored; another node, not
    a neighbour of the victim, has signed its right.
    """
    return Guard(of, hands(node.folder.parent).regenerated(of, VICTIM, STRANGER))


def right_of(node: Running) -> bytes:
    return der(node.folder.parent / f"node-{STRANGER}")


# Who may speak at all


def closed(caller: Caller) -> bool:
    """Whether TLS has refused the caller: gRPC then knows no more than that."""
    with caller:
        return bool(caller.refused().code() is Code.UNAVAILABLE)


def reissued(node: Running, who: int, tmp_path: Path, **about: Any) -> Tls:
    """Return a new certificate, for new keys, of the fleet's own authority."""
    authority = Authority.load(node.folder.parent / "authority")
    return tls_of(authority.issue(who, ["127.0.0.1"], folder=tmp_path / "keys", **about))


def test_a_certificate_of_another_authority_is_refused(victim: Running, tmp_path: Path) -> None:
    folder = Authority.create(tmp_path / "ca", "test").issue(NEIGHBOUR, ["127.0.0.1"])
    own = tls_of(victim.folder)
    with unharmed(victim):
        assert closed(victim.dial(NEIGHBOUR, tls=tls_of(folder)._replace(authority=own.authority)))


@pytest.mark.parametrize(
    "ago", [timedelta(days=10), timedelta(days=-10)], ids=["expired", "not valid yet"]
)
def test_a_certificate_out_of_date_is_refused(
    victim: Running, tmp_path: Path, ago: timedelta
) -> None:
    old = tmp_path / "old"
    tls = reissued(victim, NEIGHBOUR, old, days=2, now=datetime.now(UTC) - ago)
    with unharmed(victim):
        assert closed(victim.dial(NEIGHBOUR, tls=tls))


def test_a_clock_that_is_a_day_off_does_not_matter(victim: Running) -> None:
    """A certificate is valid from a day before it was issued, and for a year: neither end's clock
    needs to be right.
    """
    for day in (-1, 1):
        now = datetime.now(UTC) + timedelta(days=day) + timedelta(minutes=5)
        own = Identity.open(victim.folder, now=now)
        for neighbour in (NEIGHBOUR, OTHER):
            pem = (victim.folder.parent / f"node-{neighbour}" / "node.crt").read_bytes()
            assert own.peer_id(pem, now=now) == neighbour == own.learn(pem, now=now)


MOVED = """
import sys, time
from datetime import timedelta
from pathlib import Path
from levywalk.fleet.identity import certificates, node_identity
from levywalk.fleet.runtime import process
clock, real, seen = Path(sys.argv[1]).with_name("clock"), time.time, certificates.utc
off = lambda: float(clock.read_text()) if clock.exists() else 0.0
time.time = lambda: real() + off()
certificates.utc = node_identity.utc = lambda now: \
seen(now) + timedelta(seconds=off() if now is None else 0.0)
sys.exit(process.main([sys.argv[1]]))
"""


def metric(node: Running, name: str) -> float:
    about = fetched(str(node.file.metrics), b"GET /metrics HTTP/1.1\r\n\r\n").decode()
    return float(re.findall(rf"levywalk_{name}\{{.* (\S+)\n", about)[0])


@pytest.mark.more
def test_clocks_that_are_moved_by_a_day_during_the_walk_change_nothing(tmp_path: Path) -> None:
    terms = HandOffTerms(run=b"", heartbeat=0.05, dead_after=PATIENCE, retry=0.5)
    folder = make(tmp_path / "fleet", steps=200, metrics=True, terms=terms)
    moved = {NEIGHBOUR: -1, VICTIM: 1}
    with contextlib.ExitStack() as all_of_them:
        nodes = [all_of_them.enter_context(Running(folder / f"node-{v}", MOVED)) for v in range(4)]
        eventually(
            lambda: all(edge["up"] for node in nodes for edge in node.status()["edges"].values())
        )
        for v, days in moved.items():
            node = nodes[v]
            # Renamed into place: the node reads it at any moment, and an empty one is no number.
            (node.folder / "next").write_text(str(86_400 * days))
            (node.folder / "next").rename(node.folder / "clock")
            assert round(metric(node, "up_seconds") / 86_400) == days  # so the clock was moved
            sent = metric(node, "messages_sent_total")
            eventually(
                lambda node=node, sent=sent: metric(node, "messages_sent_total") > sent + 20
            )  # heartbeats
        nodes[nodes[0].manifest.start].ask("begin")
        for v in moved:
            assert nodes[v].kill(signal.SIGTERM) == 0
            nodes[v] = all_of_them.enter_context(
                Running(folder / f"node-{v}", MOVED)
            )  # new looks at certificates
        eventually(lambda: all(node.status()["final"] for node in nodes))
        said = {line["event"] for node in nodes for line in node.log()}
        ordinary = {
            "started",
            "edge up",
            "began",
            "confirmed",
            "finished",
            "link closed",
            "stopped",
        }
        assert said <= ordinary


def test_no_certificate_is_refused(victim: Running) -> None:
    with unharmed(victim):
        options = [("grpc.ssl_target_name_override", f"node-{VICTIM}.levywalk.internal")]
        trust = grpc.ssl_channel_credentials(tls_of(victim.folder).authority)
        with grpc.secure_channel(victim.file.listen, trust, options) as channel:
            call = channel.stream_stream(f"/{transport.SERVICE}/{transport.METHOD}")(
                iter(()), timeout=PATIENCE
            )
            with pytest.raises(grpc.RpcError) as error:
                next(call)
            assert error.value.code() is Code.UNAVAILABLE


def test_plaintext_is_refused(victim: Running) -> None:
    with unharmed(victim):
        with grpc.insecure_channel(victim.file.listen) as channel:
            call = channel.stream_stream(f"/{transport.SERVICE}/{transport.METHOD}")(
                iter(()), timeout=PATIENCE
            )
            with pytest.raises(grpc.RpcError) as error:
                next(call)
            assert error.value.code() is Code.UNAVAILABLE
        host, port = victim.file.listen.split(":")
        with socket.create_connection((host, int(port)), PATIENCE) as line:
            line.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert not line.recv(100).startswith(b"HTTP")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_TLS_below_1_3_is_refused(victim: Running, version: ssl.TLSVersion) -> None:
    folder = victim.folder.parent / f"node-{NEIGHBOUR}"
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "node.crt", folder / "node.key")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    host, port = victim.file.listen.split(":")
    with unharmed(victim), socket.create_connection((host, int(port)), PATIENCE) as line:
        if version is ssl.TLSVersion.TLSv1_3:
            with context.wrap_socket(line, server_hostname=host) as spoken:
                assert spoken.version() == "TLSv1.3"
        else:
            with pytest.raises((ssl.SSLError, OSError)):
                context.wrap_socket(line, server_hostname=host)


def test_a_node_that_is_no_neighbour_is_refused(victim: Running) -> None:
    with unharmed(victim), victim.dial(STRANGER) as caller:
        caller.write(caller.hello())
        error = caller.refused()
        assert error.code() is Code.PERMISSION_DENIED
        assert (
            error.details() == "node 1 is not a neighbour of node 3: its node file does not list it"
        )


def test_another_key_of_a_neighbour_is_refused(victim: Running, tmp_path: Path) -> None:
    tls = reissued(victim, NEIGHBOUR, tmp_path)
    with unharmed(victim), victim.dial(NEIGHBOUR, tls=tls) as caller:
        error = caller.refused()
        assert error.code() is Code.PERMISSION_DENIED
        assert key_fingerprint(tls.certificate) in error.details()


def test_a_certificate_of_another_fleet_by_the_same_authority_is_refused(
    victim: Running, tmp_path: Path
) -> None:
    authority = Authority.load(victim.folder.parent / "authority")
    authority.fleet = "another"
    tls = tls_of(authority.issue(NEIGHBOUR, ["127.0.0.1"], folder=tmp_path / "keys"))
    with unharmed(victim), victim.dial(NEIGHBOUR, tls=tls) as caller:
        error = caller.refused()
        assert error.code() is Code.PERMISSION_DENIED
        assert "fleet another" in error.details()


@pytest.mark.more
def test_a_neighbour_that_is_to_be_dialled_does_not_dial(tmp_path: Path) -> None:
    """It would take the place of the stream that this node keeps open, and this node would never
    dial again.
    """
    with Running(make(tmp_path / "fleet") / "node-0") as low:
        with low.dial(3) as caller:
            error = caller.refused()
            assert (error.code(), error.details()) == (
                Code.PERMISSION_DENIED,
                "node 3 must not connect to node 0: the node with the lower id opens the "
                "connection",
            )
        with Running(low.folder.parent / "node-3"):
            eventually(lambda: low.status()["edges"]["3"]["connected"])


# How a stream must begin


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        (
            {"manifest": bytes(32)},
            Code.FAILED_PRECONDITION,
            "all nodes of a run need the same manifest file",
        ),
        (
            {"format": FORMAT + 1},
            Code.FAILED_PRECONDITION,
            f"wire format {FORMAT} was expected, got {FORMAT + 1} (levywalk hostile)",
        ),
        ({"certificate": b""}, Code.INVALID_ARGUMENT, "a certificate of node 0 cannot be read"),
        (
            {"certificate": b"garbage"},
            Code.INVALID_ARGUMENT,
            "a certificate of node 0 cannot be read",
        ),
    ],
)
def test_a_wrong_hello_is_refused(
    victim: Running, changes: dict[str, Any], code: Code, says: str
) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.write(caller.hello(**changes))
        caller.say(heartbeat())
        error = caller.refused()
        assert error.code() is code
        assert says in error.details()


def der(folder: Path) -> bytes:
    return Identity.open(folder).certificate.public_bytes(Encoding.DER)


def odd_version(folder: Path) -> bytes:
    """Return a certificate with a version that does not exist,
    which is an error of another kind.
    """
    good = der(folder)
    assert good.count(b"\xa0\x03\x02\x01\x02") == 1
    return good.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07")


def foreign(folder: Path, tmp_path: Path) -> bytes:
    return der(Authority.create(tmp_path / "ca", "test").issue(OTHER, ["127.0.0.1"]))


@pytest.mark.parametrize("where", ["hello", "message"])
@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("node of the wrong id", Code.INVALID_ARGUMENT, "was expected, got one of node 1"),
        ("another authority", Code.PERMISSION_DENIED, "was not signed by this fleet's authority"),
        ("odd version", Code.INVALID_ARGUMENT, "cannot be read"),
        ("garbage", Code.INVALID_ARGUMENT, "cannot be read"),
        ("new keys", Code.PERMISSION_DENIED, "has keys with the fingerprint"),
    ],
)
def test_a_certificate_that_does_not_belong_there_is_refused(
    victim: Running, tmp_path: Path, where: str, what: str, code: Code, says: str
) -> None:
    folder = victim.folder.parent
    who = NEIGHBOUR if where == "hello" else OTHER
    with victim.dial(who) as caller:
        caller.greet().sync()  # so that its own certificate is known
    content = {
        "node of the wrong id": lambda: der(folder / f"node-{STRANGER}"),
        "another authority": lambda: foreign(folder, tmp_path),
        "odd version": lambda: odd_version(folder / f"node-{OTHER}"),
        "garbage": lambda: b"0" * 8000,
        "new keys": lambda: certificate_of(reissued(victim, who, tmp_path)),
    }[what]()
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        if where == "hello":
            caller.write(caller.hello(certificate=content))
        else:
            caller.greet()
            caller.say(Prepare(token(victim), OTHER), certificate=content)
            if (
                code is Code.PERMISSION_DENIED
            ):  # not the caller's fault: the token is not taken, and the stream stays
                assert says in caller.hears(Refused).why
                caller.sync()
                return
        error = caller.refused()
        if where == "hello" and "cannot be read" not in says:  # not that of its connection
            code, says = Code.PERMISSION_DENIED, "another certificate than that of its keys"
        assert error.code() is code
        assert says in error.details()


def certificate_of(tls: Tls) -> bytes:
    from cryptography import x509

    return x509.load_pem_x509_certificate(tls.certificate).public_bytes(Encoding.DER)


def test_a_certificate_comes_only_with_messages_that_rest_on_it(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet().say(Alive(BORN, 0), certificate=der(victim.folder.parent / f"node-{OTHER}"))
        error = caller.refused()
        assert (error.code(), error.details()) == (
            Code.INVALID_ARGUMENT,
            "a Alive does not come with a certificate",
        )


def test_messages_before_the_hello_are_refused(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.say(heartbeat())
        caller.write(caller.hello())
        error = caller.refused()
        assert (error.code(), error.details()) == (
            Code.INVALID_ARGUMENT,
            "a Hello was expected first, got heartbeat",
        )


def test_a_second_hello_is_refused(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet().write(caller.hello(incarnation=bytes(16)))
        error = caller.refused()
        assert (error.code(), error.details()) == (Code.INVALID_ARGUMENT, "a second Hello")


# Frames


def nan_frame(caller: Caller, bad: float) -> bytes:
    """Return a Prepare with a number that cannot be sent, forged at the level of bytes."""
    good, _ = encode_frame(NEIGHBOUR, Prepare(token(caller.to, model=np.full(4, 1.5)), OTHER))
    assert good.count(np.float64(1.5).tobytes()) >= 1
    return good.replace(np.float64(1.5).tobytes(), np.float64(bad).tobytes(), 1)


def other_type(caller: Caller) -> bytes:
    good, _ = encode_frame(NEIGHBOUR, Prepare(token(caller.to), OTHER))
    return good.replace(b'"F64"', b'"F32"')


def spoken_for(caller: Caller) -> bytes:
    return encode_frame(OTHER, heartbeat())[0]


FRAMES: dict[str, tuple[Callable[[Caller], bytes], str]] = {
    "another's name": (spoken_for, "a frame from node 0 names node 2 as its sender"),
    "no frame": (lambda _: b"\xff" * 100, "the bytes are not a frame"),
    "empty": (lambda _: b"", "one message"),
    "no body": (
        lambda _: Frame(sender=NEIGHBOUR, guardian_certificate=b"x").SerializeToString(),
        "one message",
    ),
    "truncated": (
        lambda c: encode_frame(0, Prepare(token(c.to), OTHER))[0][:-9],
        "the bytes are not a frame",
    ),
    "wrong shape": (
        lambda c: encode_frame(0, Prepare(token(c.to, model=np.zeros(5)), OTHER))[0],
        "4 numbers",
    ),
    "wrong dtype": (other_type, '"dtype":"F32"'),
    "NaN": (lambda c: nan_frame(c, np.nan), "NaN or infinity"),
    "infinity": (lambda c: nan_frame(c, -np.inf), "NaN or infinity"),
    "a chunk that nobody announced": (
        lambda _: next(chunk_frames(Tensor("model", np.zeros(4)))),
        "no message announced",
    ),
    "too many scores": (
        lambda _: encode_frame(0, heartbeat(scores=(1.0,) * 1000))[0],
        "1 scores were expected",
    ),
    "a certificate that is too large": (
        lambda _: Frame(
            sender=0, guardian_certificate=bytes(9000), alive={"epoch": {}}
        ).SerializeToString(),
        "at most 8192 bytes",
    ),
}


@pytest.mark.parametrize("what", FRAMES)
def test_a_malformed_frame_is_refused(victim: Running, what: str) -> None:
    make_frame, says = FRAMES[what]
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet().write(make_frame(caller), encode_frame(NEIGHBOUR, heartbeat())[0])
        error = caller.refused()
        assert error.code() is Code.INVALID_ARGUMENT
        assert says in error.details()


def test_an_oversized_frame_is_refused_unread(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet().write(bytes(MOST_FRAME + 1))
        assert caller.refused().code() is Code.RESOURCE_EXHAUSTED


def test_oversized_metadata_is_refused(victim: Running) -> None:
    metadata = [("x-hostile", "a" * 100_000)]
    with unharmed(victim), victim.dial(NEIGHBOUR, metadata=metadata) as caller:
        caller.write(caller.hello())
        assert caller.refused().code() is Code.RESOURCE_EXHAUSTED


def test_another_method_does_not_exist(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller, pytest.raises(grpc.RpcError) as error:
        caller.channel.unary_unary(f"/{transport.SERVICE}/Own")(b"", timeout=PATIENCE)
    assert error.value.code() is Code.UNIMPLEMENTED


# Models in chunks


def announced(node: Running, bad: float | None = None) -> tuple[bytes, list[bytes]]:
    model = np.ones(10_000)
    frame, (tensor,) = encode_frame(NEIGHBOUR, Prepare(token(node, model=model), OTHER))
    chunks = list(chunk_frames(tensor))
    if bad is not None:
        chunks[-1] = chunks[-1][:-8] + np.float64(bad).tobytes()
    return frame, chunks


def test_a_large_model_that_was_tampered_with_is_refused(large: Running) -> None:
    for bad, says in (
        (2.0, "does not have the announced hash"),
        (np.nan, "does not have the announced hash"),
    ):
        frame, chunks = announced(large, bad)
        with unharmed(large), large.dial(NEIGHBOUR) as caller:
            caller.greet().write(frame, *chunks)
            error = caller.refused()
            assert error.code() is Code.INVALID_ARGUMENT
            assert says in error.details()


def test_another_message_within_a_large_model_is_refused(large: Running) -> None:
    frame, _ = announced(large)
    with unharmed(large), large.dial(NEIGHBOUR) as caller:
        caller.greet().write(frame, encode_frame(NEIGHBOUR, heartbeat())[0])
        error = caller.refused()
        assert (error.code(), error.details()) == (
            Code.INVALID_ARGUMENT,
            "a chunk of a model was expected, got another frame",
        )


def test_a_large_model_that_never_comes_holds_nobody_up(large: Running) -> None:
    frame, _ = announced(large)
    with unharmed(large), contextlib.ExitStack() as all_of_them:
        for _ in range(20):  # each stream takes the place of the one before
            caller = all_of_them.enter_context(large.dial(NEIGHBOUR))
            caller.greet().write(frame, b"\x12\x01\x78")  # the first byte, and no more
        with large.dial(OTHER) as other:
            other.greet().sync()


# What the protocol refuses


def test_a_forged_certificate_brings_nothing_to_life(tmp_path: Path) -> None:
    with (
        Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node,
        node.dial(NEIGHBOUR) as caller,
    ):
        caller.greet().say(Fenced(hands(node.folder.parent).first(token(node), STRANGER)))
        caller.say(
            Prepare(token(node), OTHER), certificate=der(node.folder.parent / f"node-{OTHER}")
        )
        prepared = caller.hears(Prepared)
        before = node.state()
        right = Certificate(OTHER, BORN, 0, VICTIM, NEIGHBOUR, prepared.digest, b"")
        statement = right.statement(node.manifest.digest)
        signed = caller.identity.signer().sign(
            statement
        )  # by the neighbour itself, which is not the guardian
        for forged in (
            right,
            right._replace(signature=bytes(64)),
            right._replace(signature=signed),
        ):
            caller.say(Activate(forged), Certified(forged))
        mine = right._replace(guardian=NEIGHBOUR)
        own = mine._replace(
            signature=caller.identity.signer().sign(mine.statement(node.manifest.digest))
        )
        caller.say(Activate(own))  # signed well, by somebody who is not the guardian of this token
        caller.sync()
        assert node.state() == before
        assert node.status()["held"]["status"] == "prepared"
        guardian = Identity.open(node.folder.parent / f"node-{OTHER}").signer()
        caller.say(
            Activate(right._replace(signature=guardian.sign(statement)))
        )  # so the forgeries were near
        last = caller.hears(Renew)  # no edge is up, so it walks to the end alone
        assert (last.last, last.token.transfers) == (True, 1)


def test_what_was_said_before_changes_nothing_when_it_is_said_again(tmp_path: Path) -> None:
    """Replayed and reordered: a Prepare after its hand-off, an older copy, a release for somebody
    else.
    """
    with (
        Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node,
        node.dial(NEIGHBOUR) as caller,
    ):
        now = Epoch(1, 1, NEIGHBOUR)
        first = token(node, epoch=now)
        caller.greet().say(guard(node, first), certificate=right_of(node))
        assert caller.hears(Guarding) == Guarding(now, 1)
        before = node.state()
        with node.dial(OTHER) as other:  # which is not the holder
            other.greet().say(
                Release(now, 1, OTHER, bytes(32), 9),
                Withdraw(now, 1, 2**63 - 1),
                Renew(first._replace(version=9, step=9)),
            )
            other.sync()
        assert node.state() == before
        caller.say(Renew(first._replace(version=5, step=5)), Release(now, 1, OTHER, bytes(32), 9))
        caller.sync()
        before = node.state()
        caller.say(
            Release(now, 1, STRANGER, bytes(32), 9),  # the register is written once
            Release(now, 1, OTHER, bytes([1]) * 32, 10),
            Withdraw(now, 1, 9),  # it is released, and stays so
            Renew(first._replace(version=3, step=3)),
            Renew(first._replace(version=9, step=9)),
            Renew(first._replace(version=9, step=50), last=True),
            guard(node, first),
            Prepare(first, OTHER),  # it is guarded here, so it was here before
        )
        caller.sync()
        assert node.state() == before


def test_a_stale_epoch_is_fenced(tmp_path: Path) -> None:
    now = Epoch(3, 1, NEIGHBOUR)
    with (
        Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node,
        node.dial(NEIGHBOUR) as caller,
    ):
        newest = guard(node, token(node, epoch=now))
        caller.greet().say(newest, certificate=right_of(node))
        caller.hears(Guarding)
        before = node.state()
        word = Certificate(NEIGHBOUR, BORN, 0, VICTIM, NEIGHBOUR, bytes(32), b"")
        for stale in (
            Prepare(token(node), OTHER),
            Activate(word),
            Certified(word),
            Release(BORN, 1, OTHER, bytes(32), 9),
            Withdraw(BORN, 1, 9),
            Alive(BORN, 1),
            Renew(token(node)),
            guard(node, token(node, epoch=Epoch(1, 1, NEIGHBOUR))),
            Fenced(guard(node, token(node, epoch=Epoch(1, 1, NEIGHBOUR))).link),
            Finished(token(node, step=50), END),
        ):
            caller.say(stale)
            if not isinstance(stale, Fenced):
                assert caller.hears(Fenced) == Fenced(newest.link)
        assert node.state() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 51},
        {"base": 1},
        {"phase": 1},
        {"hop": 1},
        {"seq": 2**62},
        {"transfers": 2**63 - 1},
        {"switched_at": 99},
    ],
)
def test_a_token_that_cannot_be_is_refused(victim: Running, changes: dict[str, int]) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        bad = token(victim, **changes)
        link = guard(victim, token(victim, epoch=Epoch(1, 1, NEIGHBOUR))).link
        caller.greet().say(Renew(bad), Guard(bad, link), Finished(bad, END), Prepare(bad, OTHER))
        refused = caller.hears(Refused)
        assert (refused.epoch, refused.digest) == (bad.epoch, bad.digest())
        assert "impossible" in refused.why or "expected" in refused.why or "must be" in refused.why


def test_counters_that_are_too_large_to_be_true_are_refused(tmp_path: Path) -> None:
    """They never fall again: one message could end the walk, or this node, for good."""
    far = Epoch(PLAUSIBLE + 1, 0, NEIGHBOUR)
    victim = Running(make(tmp_path / "fleet") / f"node-{VICTIM}")
    word = Certificate(NEIGHBOUR, far, 0, VICTIM, NEIGHBOUR, bytes(32), b"")
    with victim, unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet()
        signed = word._replace(
            signature=caller.identity.signer().sign(word.statement(victim.manifest.digest))
        )
        for lie in (
            Fenced(guard(victim, token(victim, epoch=far)).link),
            heartbeat(epoch=far),
            Prepare(token(victim, epoch=far), OTHER),
            guard(victim, token(victim, epoch=far)),
            Finished(token(victim, epoch=far, step=50), END),
            Certified(signed),
            heartbeat(edge_version=2**63 - 1),
            heartbeat(edge_version=PLAUSIBLE + 1),
            heartbeat(degree=5),
        ):
            caller.say(lie)
        caller.sync()
    assert {line["why"] for line in victim.log() if line["event"] == "refused"} >= {
        f"epoch {tuple(far)} is impossible",
        "version 9223372036854775807 of the edge is impossible",
        "a degree of 5 in a fleet of 4 nodes is impossible",
    }


@pytest.mark.more
@pytest.mark.parametrize(
    "how", mostly_more(["moved", "removed", "replaced"], lambda how: how == "moved")
)
def test_a_node_whose_folder_is_removed_says_so_and_stops(tmp_path: Path, how: str) -> None:
    terms = HandOffTerms(run=b"", heartbeat=0.2, dead_after=PATIENCE, retry=0.2)
    node = Running(make(tmp_path / "fleet", terms=terms) / f"node-{VICTIM}")
    with node:
        state = node.file.state
        if how == "moved":
            state.rename(state.with_name("elsewhere"))
        else:
            shutil.rmtree(state)
        if how == "replaced":
            shutil.copytree(node.folder.parent / "authority", state)
            for name in ("lock", "state.db"):
                (state / name).touch()
        assert node.process.wait(PATIENCE) == 1
    written = (node.folder / "node.log").read_text().splitlines()
    stopped, last = (json.loads(line) for line in written[-3:-1])
    assert (stopped["event"], last["event"]) == ("stopped", "cannot run")
    assert "was removed or replaced while the node ran" in last["message"]
    if how == "moved":  # put back, it goes on where it was
        state.with_name("elsewhere").rename(state)
        with Running(node.folder) as again:
            assert again.status()["id"] == VICTIM


# Too much of it


@pytest.mark.more
def test_a_flood_of_prepares_leaves_one_token_and_a_node_that_answers(tmp_path: Path) -> None:
    with (
        Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node,
        node.dial(NEIGHBOUR) as caller,
    ):
        caller.greet().say(Fenced(hands(node.folder.parent).first(token(node), STRANGER)))
        size = (node.file.state / "state.db").stat().st_size
        for hops in range(300):
            caller.say(Prepare(token(node, hops=hops), OTHER))
        with node.dial(OTHER) as other:  # in the midst of it
            other.greet().sync()
        caller.sync()
        assert node.status()["held"]["status"] == "prepared"
        assert node.state()["lines"] == 0
        assert (node.file.state / "state.db").stat().st_size <= size + 64 * 1024


@pytest.mark.more
def test_a_flood_of_epochs_does_not_fill_the_disk(tmp_path: Path) -> None:
    """Each new epoch makes the node archive the model of the one before. Two nodes that lie
    together can open as many as they like.
    """
    with (
        Running(make(tmp_path / "fleet", dim=1000, steps=50) / f"node-{VICTIM}") as node,
        node.dial(NEIGHBOUR) as caller,
    ):
        caller.greet().sync()
        for counter in range(1, 301):
            told = token(node, epoch=Epoch(counter, 1, NEIGHBOUR))
            caller.say(guard(node, told), certificate=right_of(node))
        eventually(lambda: node.status()["counts"].get("refused", 0) >= 300 - 32 - 1)
        with StoreReader(node.file.state) as reading:
            assert 30 < len(reading) < 70
        assert node.status()["epoch"][0] == 32
        refusals = [line["why"] for line in node.log() if line["event"] == "refused"]
        assert any("comes too soon" in why for why in refusals)
        with node.dial(OTHER) as other:  # another neighbour has a budget of its own
            other.greet()
            told = token(node, epoch=Epoch(400, 1, OTHER))
            other.say(guard(node, told), certificate=right_of(node))
            assert other.hears(Guarding).epoch.counter == 400


@pytest.mark.more
def test_nobody_fills_the_log(tmp_path: Path) -> None:
    with Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node:
        with node.dial(NEIGHBOUR) as caller:
            caller.greet()
            for _ in range(500):
                caller.say(heartbeat(degree=5))
            caller.sync()
        for _ in range(120):
            with node.dial(STRANGER) as caller:
                assert caller.refused().code() is Code.PERMISSION_DENIED
        lines = node.log()
        assert len(lines) < 250
        assert [line["event"] for line in lines if "more" in line] == ["refused", "link closed"]
        assert node.status()["counts"]["refused"] > 500


def test_silent_streams_of_one_neighbour_keep_nobody_out(victim: Running) -> None:
    with unharmed(victim), contextlib.ExitStack() as all_of_them:
        callers = [
            all_of_them.enter_context(victim.dial(NEIGHBOUR)) for _ in range(transport.STREAMS + 1)
        ]
        first = eventually(lambda: next((caller for caller in callers if caller.call.done()), None))
        assert (first.call.code(), first.call.details()) == (
            Code.RESOURCE_EXHAUSTED,
            "node 0 has 4 streams already",
        )
        with victim.dial(OTHER) as other:
            other.greet().sync()


@pytest.mark.more
def test_connections_of_anybody_do_not_take_all_file_descriptors(tmp_path: Path) -> None:
    """Without a certificate one can still connect; a node without descriptors could not write its
    state.
    """
    folder = make(tmp_path / "fleet", dim=10_000) / f"node-{VICTIM}"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        running = Running(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    host, port = running.file.listen.split(":")
    with running as node, contextlib.ExitStack() as lines, node.dial(NEIGHBOUR) as caller:
        caller.greet().say(Fenced(hands(node.folder.parent).first(token(node), STRANGER)))
        caller.sync()
        for _ in range(400):
            lines.enter_context(socket.create_connection((host, int(port)), PATIENCE))
        caller.say(Prepare(token(node), OTHER))
        assert caller.hears(Prepared).epoch == BORN  # a model in a file of its own
        assert node.status()["held"]["status"] == "prepared"
        fds = Path(f"/proc/{node.process.pid}/fd")
        eventually(lambda: len(list(fds.iterdir())) < 150)


@pytest.mark.more
def test_connections_of_strangers_do_not_keep_a_neighbour_out(tmp_path: Path) -> None:
    """They say nothing for as long as they like, and there are more of them than a node keeps."""
    with (
        Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node,
        contextlib.ExitStack() as lines,
    ):
        host, port = node.file.listen.split(":")
        with node.dial(NEIGHBOUR) as caller:
            caller.greet().sync()
            for _ in range(300):
                lines.enter_context(socket.create_connection((host, int(port)), PATIENCE))
            with node.dial(OTHER) as other:
                other.greet().sync()
                fds = Path(f"/proc/{node.process.pid}/fd")
                eventually(lambda: len(list(fds.iterdir())) < 100)
                other.sync()  # neighbours stay
            caller.sync()
        assert any("too many" in line.get("why", "") for line in node.log())


@pytest.mark.more
def test_connections_to_the_metrics_do_not_take_all_file_descriptors(tmp_path: Path) -> None:
    """Any user of the machine may connect there."""
    folder = make(tmp_path / "fleet", dim=10_000, metrics=True) / f"node-{VICTIM}"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        running = Running(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert running.file.metrics is not None
    host, port = running.file.metrics.split(":")
    with running as node, contextlib.ExitStack() as lines, node.dial(NEIGHBOUR) as caller:
        caller.greet().say(Fenced(hands(node.folder.parent).first(token(node), STRANGER)))
        caller.sync()
        for _ in range(400):
            lines.enter_context(socket.create_connection((host, int(port)), PATIENCE))
        caller.say(Prepare(token(node), OTHER))
        assert caller.hears(Prepared).epoch == BORN
        assert b" 200 OK" in fetched(running.file.metrics, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert len(list(Path(f"/proc/{node.process.pid}/fd").iterdir())) < 120
        assert len(node.log()) < 50  # and nothing but JSON


# The operator's socket, and metrics


def raw(state: Path, question: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as line, control._address(state) as address:
        line.settimeout(PATIENCE)
        line.connect(address)
        line.sendall(question)
        return line.makefile("rb").readline()


def test_the_socket_is_its_owners_alone(victim: Running) -> None:
    about = (victim.file.state / control.SOCKET).stat()
    assert stat.S_ISSOCK(about.st_mode)
    assert stat.S_IMODE(about.st_mode) == 0o600
    assert stat.S_IMODE(victim.file.state.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("do", "about", "says"),
    [
        ("begin", {}, "the walk begins at node .*, not at node 3"),
        ("gone", {"node": STRANGER}, "node 1 is not a neighbour of node 3"),
        ("gone", {"node": 0.0}, "node 0.0 is not a neighbour"),
        ("gone", {"node": False}, "node False is not a neighbour"),
        ("gone", {"node": [0]}, "is not a neighbour"),
        ("gone", {}, "node None is not a neighbour"),
        (
            "__init__",
            {},
            "do must be one of status, begin, gone, forgive, revive, pardon, keys, revoke, size",
        ),
        ("", {}, "do must be one of"),
    ],
)
def test_wrong_orders_are_refused(
    victim: Running, do: str, about: dict[str, Any], says: str
) -> None:
    with unharmed(victim), pytest.raises(InvalidParameter, match=says):
        victim.ask(do, **about)


def test_a_neighbour_that_is_connected_is_not_gone(victim: Running) -> None:
    with unharmed(victim), victim.dial(NEIGHBOUR) as caller:
        caller.greet().sync()
        with pytest.raises(InvalidParameter, match="is not gone: it is connected"):
            victim.ask("gone", node=NEIGHBOUR)


@pytest.mark.parametrize(
    "question",
    [b"\n", b"{\n", b"[]\n", b"null\n", b"\xff\n", b"[" * 100_000 + b"\n", b'{"do": 1e999}\n'],
)
def test_what_is_no_question_is_answered_so(victim: Running, question: bytes) -> None:
    with unharmed(victim):
        assert "error" in json.loads(raw(victim.file.state, question))


def test_a_question_that_does_not_end_is_not_read_to_its_end(victim: Running) -> None:
    with unharmed(victim), contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert raw(victim.file.state, b" " * (4 * control.MOST)) == b""


def fetched(address: str, request: bytes) -> bytes:
    host, port = address.split(":")
    found = b""
    with (
        socket.create_connection((host, int(port)), PATIENCE) as line,
        contextlib.suppress(ConnectionError),
    ):
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        while more := line.recv(1 << 16):
            found += more
    return found


@pytest.mark.parametrize(
    ("request_", "begins"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
        (b"GET /../node.key HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
        (b"GET /metrics\r\n\r\n", b"HTTP/1.1 404"),
        (b"\r\n\r\n", b"HTTP/1.1 404"),
        (b"\xff\x00 \xff \xff\r\n\r\n", b"HTTP/1.1 404"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b""),
        (b"a" * 100_000, b""),
        (b"GET /metrics HTTP/1.1", b""),
    ],
)
def test_metrics_take_any_request(victim: Running, request_: bytes, begins: bytes) -> None:
    assert victim.file.metrics is not None
    with unharmed(victim):
        found = fetched(victim.file.metrics, request_)
        assert found.startswith(begins)
        assert bool(found) == bool(begins)


def test_metrics_are_told_to_this_machine_alone(victim: Running) -> None:
    text = (victim.folder / "node.toml").read_text()
    (victim.folder / "open.toml").write_text(
        text.replace(f'metrics = "{victim.file.metrics}"', 'metrics = "0.0.0.0:1"')
    )
    assert refuses_to_run(victim.folder / "open.toml", "on this machine's loopback")


# What keeps a node from beginning


def refuses_to_run(path: Path, says: str) -> bool:
    """Whether a node says so, and ends."""
    done = subprocess.run(
        command(path),
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert says in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["event"] == "cannot run"


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("idle") / "fleet")


def test_an_unknown_key_in_a_node_file(idle: Path) -> None:
    path = idle / "node-0" / "wrong.toml"
    path.write_text("lisen = 1\n" + (idle / "node-0" / "node.toml").read_text())
    assert refuses_to_run(path, "unknown key lisen")
    assert not (idle / "node-0" / "state").exists()


def test_a_port_in_use(idle: Path) -> None:
    folder = idle / "node-1"
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        file = NodeFile.read(folder / "node.toml")
        replace(file, listen=f"127.0.0.1:{line.getsockname()[1]}").write(folder / "used.toml")
        assert refuses_to_run(folder / "used.toml", "cannot be listened on: the port is in use")


def test_a_metrics_port_in_use(idle: Path) -> None:
    folder = idle / "node-1"
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        file = NodeFile.read(folder / "node.toml")
        replace(file, metrics=f"127.0.0.1:{line.getsockname()[1]}").write(folder / "used.toml")
        assert refuses_to_run(folder / "used.toml", "metrics")


def test_data_that_cannot_be_read(idle: Path) -> None:
    folder = idle / "node-2"
    file = NodeFile.read(folder / "node.toml")
    for name, content, says in (
        ("missing.npz", None, "missing.npz"),
        ("torn.npz", (folder / "data.npz").read_bytes()[:100], "torn.npz"),
        ("text.csv", b"1,2,x,4,5\n1,2,3,4,5\n", "text.csv"),
    ):
        if content is not None:
            (folder / name).write_bytes(content)
        replace(file, data=folder / name).write(folder / "wrong.toml")
        assert refuses_to_run(folder / "wrong.toml", says)
    assert not (folder / "state").exists()


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(Path(os.environ["BOMB"])),)


def test_pickled_data_is_refused(
    idle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    folder = idle / "node-2"
    objects = np.empty(1, dtype=object)
    objects[0] = Bomb()
    np.savez(folder / "objects.npz", features=objects, targets=objects)
    replace(NodeFile.read(folder / "node.toml"), data=folder / "objects.npz").write(
        folder / "objects.toml"
    )
    assert refuses_to_run(folder / "objects.toml", "objects.npz")
    assert not (tmp_path / "exploded").exists()


def test_nothing_is_ever_unpickled_or_evaluated() -> None:
    (folder,) = levywalk.fleet.__path__
    forbidden = {
        "pickle",
        "marshal",
        "shelve",
        "dill",
        "cloudpickle",
        "joblib",
        "eval",
        "exec",
        "compile",
    }
    looked = 0
    for path in sorted(Path(folder).rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        looked += 1
        for node in ast.walk(ast.parse(path.read_text())):
            names: set[str] = set()
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {str(node.module).partition(".")[0]}
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    names = {node.func.id}
                assert "allow_pickle" not in {word.arg for word in node.keywords}, (
                    f"{path}:{node.lineno}"
                )
                assert not (
                    isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "np.load"
                ), path
            # The one file that runs code: the operator's own, installed there, with the right hash.
            allowed = {"exec", "compile"} if path.name == "model_code.py" else set()
            assert not names & forbidden - allowed, (
                f"{path}:{getattr(node, 'lineno', 0)}: {names & forbidden}"
            )
    assert looked > 20


# A full disk


def test_a_full_disk_stops_the_node_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written has not happened: nothing is said of it, and orders are refused."""
    terms = HandOffTerms(run=b"", dead_after=0.2)
    folder = make(tmp_path / "fleet", dim=5_000, terms=terms) / f"node-{VICTIM}"

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def live() -> None:
        process = Process(folder / "node.toml")
        sent: list[object] = []
        monkeypatch.setattr(process.transport, "send", lambda to, message, *_: sent.append(message))
        process.runners[0].event(Start())
        process.identity.learn((folder.parent / f"node-{NEIGHBOUR}" / "node.crt").read_bytes())
        first = process.manifest.first_token._replace(epoch=BORN, seq=1)
        process.got(NEIGHBOUR, Fenced(hands(folder.parent).first(first, STRANGER)))
        before = process.runners[0].store.load()
        assert before is not None
        assert before.known.epoch == BORN
        sent.clear()
        db = process.runners[0].store._open_db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        with monkeypatch.context() as full:
            full.setattr("builtins.print", no_room)  # the log may be on the same disk
            process.got(NEIGHBOUR, Prepare(first, OTHER))
        assert (
            sent,
            process.runners[0].store.load(),
            process.runners[0].orders.status()["waits"],
        ) == (
            [],
            before,
            "disk full",
        )
        process.got(NEIGHBOUR, Prepare(first, OTHER))  # as if it were down
        with pytest.raises(
            InvalidParameter, match=r"not done \(disk full\): see the node's log, and try again"
        ):
            process.runners[0].orders.answer({"do": "leave"})
        process.opened(NEIGHBOUR, process.transport.hello._replace(incarnation=b"1" * 16))
        assert (sent, process.runners[0].store.load()) == ([], before)
        assert not list(
            (process.file.state / "peers").glob("*.life")
        )  # to be heard of when there is room
        db.execute("PRAGMA max_page_count = 1000000")
        while process.runners[0].out_of_order:
            await asyncio.sleep(0.01)
        process.got(NEIGHBOUR, Prepare(first, OTHER))
        assert [message for message in sent if isinstance(message, Prepared)] == [
            Prepared(BORN, 1, first.digest())
        ]
        with monkeypatch.context() as full:
            full.setattr("levywalk.fleet.runtime.peer_files.write_whole", no_room)
            process.opened(
                NEIGHBOUR, process.transport.hello._replace(incarnation=b"1" * 16)
            )  # no error
        process.runners[0].store.close()

    asyncio.run(live())


def test_a_hello_that_comes_while_the_disk_is_full_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guardian comes back without its disk while the holder can write nothing: the walk must
    not wait for it.
    """
    # So many steps that the model surely leaves the node: a walk of 50 may end where it began.
    terms = HandOffTerms(run=b"", dead_after=0.4)
    folder = make(tmp_path / "fleet", steps=10_000, terms=terms) / f"node-{VICTIM}"
    lives = [bytes([i]) * 16 for i in (1, 2, 3)]

    async def live() -> None:
        process = Process(folder / "node.toml")
        hello = process.transport.hello
        sent: list[tuple[int, Message]] = []
        monkeypatch.setattr(
            process.transport, "send", lambda to, message, *_: sent.append((to, message))
        )
        process.runners[0].event(Start())
        for node, life in ((NEIGHBOUR, lives[0]), (OTHER, lives[1])):
            process.transport.links[node].open = True
            process.opened(node, hello._replace(incarnation=life))
        process.got(NEIGHBOUR, heartbeat())
        process.runners[0].event(Genesis(process.manifest.first_token))
        process.got(NEIGHBOUR, Guarding(Epoch(0, 0, VICTIM), 0))
        held = process.runners[0].node.disk.held
        assert held is not None
        assert held.guardian == NEIGHBOUR
        process.got(OTHER, heartbeat(epoch=held.token.epoch))  # who can guard it instead
        before = process.runners[0].node.disk.edges
        process.runners[0]._begin_again("disk full", "as if")
        sent.clear()
        process.opened(NEIGHBOUR, hello._replace(incarnation=lives[2]))
        assert (process.runners[0].node.disk.edges, sent) == (before, [])
        while process.runners[0].out_of_order:
            await asyncio.sleep(0.01)
        held = process.runners[0].node.disk.held
        assert held is not None
        assert (held.guardian, held.token.epoch.counter) == (OTHER, 1)
        assert [to for to, message in sent if isinstance(message, Guard)][-1] == OTHER
        assert {to for to, message in sent if isinstance(message, Heartbeat)} == {NEIGHBOUR, OTHER}
        assert (process.file.state / "peers" / f"{NEIGHBOUR}.life").read_bytes() == lives[2]
        process.runners[0].store.close()

    asyncio.run(live())


def test_a_disk_that_fails_ends_the_node_and_nothing_more_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory the register is written, but perhaps not on the disk: asked again, the node must
    not say so.
    """
    folder = make(tmp_path / "fleet") / f"node-{VICTIM}"

    def broken(*_: object, **__: object) -> None:
        raise NodeStoreError("disk I/O error")

    async def live() -> None:
        process = Process(folder / "node.toml")
        sent: list[object] = []
        monkeypatch.setattr(process.transport, "send", lambda to, message, *_: sent.append(message))
        process.runners[0].event(Start())
        now = Epoch(1, 1, NEIGHBOUR)
        first = process.manifest.first_token._replace(epoch=now, seq=1)
        for v in (NEIGHBOUR, STRANGER):
            process.identity.learn((folder.parent / f"node-{v}" / "node.crt").read_bytes())
        link = hands(folder.parent).regenerated(first, VICTIM, STRANGER)
        process.got(NEIGHBOUR, Guard(first, link))
        assert sent
        sent.clear()
        monkeypatch.setattr(process.runners[0].store, "persist", broken)
        for _ in range(2):
            process.got(NEIGHBOUR, Release(now, 1, OTHER, bytes(32), 9))
        assert (sent, process.over.is_set(), process.failed) == ([], True, "disk I/O error")
        process.runners[0].store.close()

    asyncio.run(live())


# Whatever else


class Chance:
    """Messages that a neighbour of this run could send, drawn near what the node knows."""

    def __init__(self, node: Running, seed: int) -> None:
        self.node, self.draw = node, random.Random(seed)
        self.kinds = get_args(Message)

    def epoch(self) -> Epoch:
        return Epoch(self.draw.randint(0, 3), self.draw.randint(0, 3), self.draw.randint(-1, 4))

    def count(self) -> int:
        return self.draw.choice([0, 1, 2, 3, 50, 2**31, 2**62, 2**63 - 1])

    def small(self) -> int:
        return self.draw.randint(0, 3)

    def token(self) -> Token:
        model = np.array([self.draw.choice([0.0, -1.0, 1e308, 5e-324]) for _ in range(4)])
        changes = {
            name: self.small() for name in ("base", "seq", "version", "step", "hops", "transfers")
        }
        if self.draw.random() < 0.3:
            changes[self.draw.choice([*changes, "hop", "distance", "phase"])] = self.count()
        if self.draw.random() < 0.2:
            changes |= {"step": 50, "base": 0}
        return token(self.node, epoch=self.epoch(), model=model, **changes)

    def certificate(self) -> Certificate:
        return Certificate(
            self.small(),
            self.epoch(),
            self.small(),
            self.small(),
            self.small(),
            self.draw.randbytes(32),
            bytes(64),
        )

    def opening(self) -> Opening:
        kind, digest = self.draw.choice(KINDS), self.draw.randbytes(32)
        epochs = (self.epoch(), self.epoch(), self.epoch())
        places = (*epochs, self.small(), self.draw.random() < 0.5, self.small(), self.small())
        return Opening(kind, *places, digest, self.small(), bytes(64))

    def right(self) -> Right:
        return self.draw.choice(
            [
                Right(),
                Right(self.certificate()),
                Right(None, self.opening()),
                Right(self.certificate(), self.opening()),
            ]
        )

    def end(self) -> Ending:
        places = (self.small(), self.epoch(), self.small(), self.small())
        return Ending(*places, self.draw.randbytes(32), bytes(64), self.right())

    def pardon(self) -> Pardon | None:
        return self.draw.choice([None, Pardon(self.small(), self.epoch(), bytes(64))])

    def lie(self) -> Lie:
        link, end = self.draw.choice([(self.opening(), None), (None, self.end())])
        return Lie(link, self.certificate(), self.pardon(), end)

    def field(self, hint: Any) -> Any:
        drawn: dict[Any, Callable[[], Any]] = {
            Token: self.token,
            Token | None: lambda: self.token() if self.draw.random() < 0.5 else None,
            Epoch: self.epoch,
            Certificate: self.certificate,
            EpochLink: lambda: EpochLink(self.opening(), self.right()),
            Ending: self.end,
            Lie: self.lie,
            int: lambda: self.small() if self.draw.random() < 0.8 else self.count(),
            bool: lambda: self.draw.random() < 0.5,
            bytes: lambda: self.draw.randbytes(self.draw.choice([0, 32])),
            str: lambda: "why",
            Revocation: lambda: Revocation(self.small(), self.epoch(), bytes(64)),
            FleetSize: lambda: FleetSize(self.small(), self.count(), 1.0, bytes(64)),
            tuple[float, ...]: lambda: (self.draw.choice([0.0, 1.0, 1e308]),),
        }
        return drawn[hint]()

    def message(self) -> Message:
        kind = self.draw.choice(self.kinds)
        fields = [self.field(hint) for hint in get_type_hints(kind).values()]
        return kind(*fields)  # type: ignore[no-any-return]


@pytest.mark.more
@pytest.mark.parametrize("seed", mostly_more([1, 2], lambda seed: seed == 1))
def test_nothing_that_a_neighbour_says_brings_a_token_to_life_or_the_node_down(
    tmp_path: Path, seed: int
) -> None:
    """No certificate, link or end is signed here, so no epoch is believed, and whatever is held is
    inert.
    """
    with Running(make(tmp_path / "fleet") / f"node-{VICTIM}") as node:
        chance = Chance(node, seed)
        epoch, statuses, kinds = FIRST, set(), set()
        for _ in range(15):
            with node.dial(chance.draw.choice([NEIGHBOUR, OTHER])) as caller:
                caller.greet()
                for _ in range(20):
                    said = chance.message()
                    kinds.add(type(said))
                    caller.say(said)
                caller.sync()
            with StoreReader(
                node.file.state, node.manifest.digest, limits=node.manifest.limits
            ) as reading:
                disk = reading.load()
            assert disk is not None
            assert disk.known.epoch >= epoch
            epoch = disk.known.epoch
            statuses.add(None if disk.held is None else disk.held.status)
            status = node.status()
            assert tuple(status["epoch"]) == epoch
            assert "fault" not in status["counts"], node.log()[-1]
        assert statuses <= {None, "prepared"}
        assert kinds == set(get_args(Message))
        assert epoch == FIRST
        assert node.kill(15) == 0
    with Running(node.folder) as again:  # its disk is whole
        assert tuple(again.status()["epoch"]) == epoch


@pytest.mark.more
def test_frames_with_flipped_bits_change_nothing_or_are_messages(victim: Running) -> None:
    """A frame that does not mean anything any more is refused, and nothing is on the disk of it."""
    draw = random.Random(5)
    refused = 0
    frames = [
        encode_frame(NEIGHBOUR, message)[0]
        for message in (
            Alive(BORN, 0),
            Prepared(BORN, 1, bytes(32)),
            Release(BORN, 1, 2, bytes(32), 3),
        )
    ]
    with unharmed(victim):
        for i in range(30):
            frame = bytearray(frames[i % len(frames)])
            for _ in range(draw.randint(1, 3)):
                frame[draw.randrange(len(frame))] ^= 1 << draw.randrange(8)
            with victim.dial(NEIGHBOUR) as caller:
                caller.greet().write(bytes(frame))
                try:
                    caller.sync()
                except grpc.RpcError as error:
                    assert error.code() is Code.INVALID_ARGUMENT  # noqa: PT017
                    refused += 1
    assert refused > 10
