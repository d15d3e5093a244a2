"""Links between nodes, in one process: what is sent arrives, who is silent or lies is let go, and
is dialled again.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.messages import Activate, Alive, Certificate, Message, Prepare, Renew
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.runtime import link, transport, wire
from levywalk.fleet.runtime.at_once import begin_at_once
from levywalk.fleet.runtime.link import WAITING, Link, Outgoing, StreamWriter
from levywalk.fleet.runtime.transport import METHOD, SERVICE, PortInUse, Transport
from levywalk.fleet.runtime.wire import FORMAT, Hello, encode_frame, hello_frame, proven
from levywalk.fleet.setup.node_file import Peer
from levywalk.fleet.storage.limits import Limits
from tests.fleet.nodes import free_ports
from tests.limits import PATIENCE

T = TypeVar("T")
RUN, LIFE, LOW, HIGH, FAR = bytes(range(32)), bytes(16), 2, 5, 9
SMALL, LARGE = 3, 200_000
BORN = Epoch(0, 0, LOW)


class Ear:
    """Writes down what a transport tells."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.tokens: list[int] = []  # that the messages were about

    def opened(self, node: int, hello: Hello) -> None:
        self.told.append(("opened", node, hello.incarnation))

    def closed(self, node: int, why: str) -> None:
        self.told.append(("closed", node, why))

    def got(self, node: int, message: Message, start: int, commit: int, token: int) -> None:
        self.told.append(("got", node, message))
        self.tokens.append(token)

    def part_received(self, node: int) -> None:
        self.told.append(("part_received", node, None))

    def certificate_refused(self, node: int, message: Message, why: str, token: int) -> None:
        self.told.append(("certificate_refused", node, why))

    def all(self, what: str) -> list[Any]:
        return [about for kind, _, about in self.told if kind == what]


class Pair:
    """A fleet of two neighbours, the lower of which dials, and a third node,
    which neither knows.
    """

    def __init__(self, folder: Path, dim: int = SMALL) -> None:
        self.authority = Authority.create(folder / "ca", "test")
        self.folders = {v: self.authority.issue(v, ["127.0.0.1"]) for v in (LOW, HIGH, FAR)}
        low, high = free_ports(2)
        self.addresses = {LOW: f"127.0.0.1:{low}", HIGH: f"127.0.0.1:{high}"}
        self.limits = Limits(dim, 1, 0)

    def identity(self, v: int) -> Identity:
        return Identity.open(self.folders[v])

    def certificate(self, v: int) -> bytes:
        return self.identity(v).certificate.public_bytes(Encoding.DER)

    def peer(self, v: int) -> Peer:
        return Peer(
            v, self.addresses[v], key_fingerprint((self.folders[v] / "node.crt").read_bytes())
        )

    def make(self, v: int, **changes: Any) -> tuple[Transport, Ear]:
        ear = Ear()
        given = {"manifest": RUN, "incarnation": LIFE, "limits": self.limits} | changes
        peers = (self.peer(HIGH if v == LOW else LOW),)
        return Transport(self.identity(v), self.addresses[v], peers, heard=ear, **given), ear

    @asynccontextmanager
    async def running(self, v: int, **changes: Any) -> AsyncIterator[tuple[Transport, Ear]]:
        one, ear = self.make(v, **changes)
        await one.start()
        try:
            yield one, ear
        finally:
            await one.stop()

    def token(self) -> Token:
        model = np.arange(float(self.limits.dim or 0))
        return Token.first(model)._replace(epoch=BORN, model=sealed_model(model))

    def hello(self, v: int, **changes: Any) -> bytes:
        return hello_frame(
            v, Hello(FORMAT, RUN, LIFE, "test", self.certificate(v))._replace(**changes)
        )

    @asynccontextmanager
    async def calling(self, v: int) -> AsyncIterator[Any]:
        """A stream to the higher node, on which anything may be said."""
        key, certificate, authority = self.identity(v).tls()
        options = [
            ("grpc.ssl_target_name_override", f"node-{HIGH}.levywalk.internal"),
            ("grpc.enable_retries", 0),
        ]
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        async with grpc.aio.secure_channel(self.addresses[HIGH], credentials, options) as channel:
            yield channel.stream_stream(f"/{SERVICE}/{METHOD}")()

    @asynccontextmanager
    async def posing(
        self, who: Path, talk: Callable[[Any], Awaitable[None]]
    ) -> AsyncIterator[None]:
        """Somebody who listens where the higher node should."""
        key, certificate, authority = Identity.open(who).tls()

        async def served(_: Any, context: Any) -> None:
            await talk(context)

        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(served)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], authority, require_client_auth=True
        )
        assert server.add_secure_port(self.addresses[HIGH], credentials)
        await server.start()
        try:
            yield
        finally:
            await server.stop(0)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(transport, "_AGAIN", (0.01, 0.05))
    return Pair(tmp_path)


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not look():
            await asyncio.sleep(0.005)


def run(test: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(test)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Return how the other end ends a stream."""
    try:
        while await asyncio.wait_for(call.read(), PATIENCE) is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()
    return await call.code(), await call.details()


# What is sent arrives


@pytest.mark.parametrize("dim", [SMALL, LARGE])
def test_messages_arrive_in_order_both_ways(tmp_path: Path, dim: int) -> None:
    pair = Pair(tmp_path, dim)
    token = pair.token()

    async def test() -> None:
        async with pair.running(HIGH) as (high, above), pair.running(LOW) as (low, below):
            await until(lambda: low.links[HIGH].open and high.links[LOW].open)
            for sender, to in ((low, HIGH), (high, LOW)):
                sender.send(to, Alive(BORN, 1))
                sender.send(to, Prepare(token, LOW))
                sender.send(to, Alive(BORN, 2))
            for ear in (above, below):
                await until(lambda ear=ear: len(ear.all("got")) == 3)
                first, prepare, last = ear.all("got")
                assert (first, last) == (Alive(BORN, 1), Alive(BORN, 2))
                assert prepare.token.digest() == token.digest()
                assert not prepare.token.model.flags.writeable
            assert (below.told[0], above.told[0]) == (("opened", HIGH, LIFE), ("opened", LOW, LIFE))

    run(test())


def test_a_guardian_that_the_receiver_never_met_is_vouched_for(pair: Pair) -> None:
    far = pair.identity(FAR).signer()
    word = Certificate(FAR, BORN, 0, HIGH, LOW, bytes(32), far.sign(b"a statement"))
    learned: list[tuple[int, bytes]] = []

    async def test() -> None:
        noted = {"learned": lambda node, der: learned.append((node, der))}
        async with pair.running(HIGH, **noted) as (high, above), pair.running(LOW) as (low, _):
            low._known.learn(FAR, pair.certificate(FAR))
            await until(lambda: low.links[HIGH].open)
            assert not high.identity.signer().verify(FAR, b"a statement", word.signature)
            low.send(HIGH, Activate(word))
            await until(lambda: above.all("got"))
            assert high.identity.signer().verify(FAR, b"a statement", word.signature)
            assert learned == [(LOW, pair.certificate(LOW)), (FAR, pair.certificate(FAR))]

    run(test())


def test_a_node_that_comes_back_is_found_again(pair: Pair) -> None:
    async def test() -> None:
        async with pair.running(LOW) as (low, below):
            async with pair.running(HIGH):
                await until(lambda: low.links[HIGH].open)
            await until(lambda: not low.links[HIGH].open)
            low.send(HIGH, Alive(BORN, 1))  # lost
            async with pair.running(HIGH, incarnation=b"1" * 16) as (_, above):
                await until(lambda: low.links[HIGH].open)
                low.send(HIGH, Alive(BORN, 2))
                await until(lambda: above.all("got"))
                assert above.all("got") == [Alive(BORN, 2)]
            assert below.all("opened") == [LIFE, b"1" * 16]

    run(test())


def test_a_connection_that_hangs_is_given_up_and_another_channel_is_tried(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a limit the node would wait for it as long as it runs."""

    async def test() -> None:
        host, port = pair.addresses[HIGH].split(":")
        with monkeypatch.context() as patch:
            patch.setattr(link, "_CONNECT", 0.05)
            # Somebody accepts the connection and says nothing.
            silent = await asyncio.start_server(lambda *_: None, host, int(port))
            low, below = pair.make(LOW)
            await low.start()
            await until(lambda: HIGH in low._channels)
            first = low._channels[HIGH]
            await until(lambda: below.all("closed"))
            assert below.all("closed") == ["PeerTimeout: node 5 was not reached in 0 seconds"]
            await until(lambda: low._channels[HIGH] is not first)
            silent.close()
        async with pair.running(HIGH):
            await until(lambda: low.links[HIGH].open)
        await low.stop()

    run(test())


def test_a_newer_stream_takes_the_place_of_an_older_one(pair: Pair) -> None:
    async def test() -> None:
        async with (
            pair.running(HIGH) as (high, above),
            pair.calling(LOW) as older,
            pair.calling(LOW) as newer,
        ):
            for count, call in enumerate((older, newer)):
                await call.write(pair.hello(LOW))
                await until(lambda count=count: len(above.all("opened")) > count)
            assert ("closed", LOW, "replaced by a newer stream") in above.told
            await newer.write(encode_frame(LOW, Alive(BORN, 7))[0])
            await until(lambda: above.all("got"))
            assert above.all("got") == [Alive(BORN, 7)]
            assert await refusal(older) == (grpc.StatusCode.ABORTED, "replaced by a newer stream")
            assert high.links[LOW].open
            assert high.links[LOW].streams == 1

    run(test())


# What waits


def new_link(open_: bool = True) -> Link:
    found = Link(Peer(HIGH, "127.0.0.1:1", "0" * 64))
    found.open = open_
    return found


def outgoing(message: Message) -> link.Outgoing:
    return link.Outgoing(*encode_frame(LOW, message))


def test_only_so_many_messages_wait() -> None:
    one = new_link()
    assert sum(one.put(outgoing(Alive(BORN, i))) for i in range(WAITING + 9)) == WAITING
    assert one.dropped == 9
    assert not new_link(open_=False).put(outgoing(Alive(BORN, 1)))


def test_a_large_model_does_not_wait_twice() -> None:
    token = Token.first(np.ones(LARGE))
    one = new_link()
    assert one.put(outgoing(Prepare(token, LOW)))
    assert not one.put(outgoing(Prepare(token, LOW)))
    assert one.put(outgoing(Prepare(Token.first(np.zeros(LARGE)), LOW)))
    one.under_way = one.waiting.popleft()
    assert not one.put(outgoing(Prepare(token, LOW)))
    assert one.put(outgoing(Renew(token)))  # another message, though with the same model
    small = Token.first(np.ones(SMALL))
    assert one.put(outgoing(Prepare(small, LOW)))
    assert one.put(outgoing(Prepare(small, LOW)))


def test_a_large_model_that_was_sent_is_not_sent_again_before_there_can_be_an_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = Token.first(np.ones(LARGE))
    one = new_link()

    class Written:
        async def write(self, data: bytes) -> None:
            pass

    async def test() -> None:
        one.call = Written()
        one.writer = StreamWriter(one, one.call)
        assert one.put(outgoing(Prepare(token, LOW)))
        assert one.sent == 1
        assert not one.put(outgoing(Prepare(token, LOW)))
        assert one.put(outgoing(Renew(token)))
        assert one.put(outgoing(Prepare(Token.first(np.zeros(LARGE)), LOW)))
        assert one.sent == 3
        sent = outgoing(Prepare(token, LOW))
        one.large[0] = sent, time.monotonic()
        other = Outgoing(*encode_frame(LOW, Prepare(token, LOW), token=1), token=1)
        one.tokens = 2
        assert one.put(other)  # about another token it is another message
        assert not one.put(sent)
        monkeypatch.setattr(link, "_ANSWER", 0.0)  # it has had its time
        assert one.put(outgoing(Prepare(token, LOW)))

    run(test())


class Slow:
    """A stream that takes its time with every frame."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ends: list[asyncio.Future[None]] = []

    async def write(self, data: bytes) -> None:
        self.begun.append(data)
        self.ends.append(asyncio.get_running_loop().create_future())
        await self.ends[-1]


def test_the_rest_of_what_begins_at_once_is_a_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on a task takes nothing else."""
    create = asyncio.BaseEventLoop.create_task
    done = []

    def strict(loop: Any, work: Any, **more: Any) -> Any:
        assert inspect.iscoroutine(work)
        return create(loop, work, **more)

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(True)

    async def test() -> None:
        task = begin_at_once(work())
        assert task is not None
        await task

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", strict)
    run(test())
    assert done == [True]


def test_a_message_is_written_at_once_unless_another_one_is_under_way() -> None:
    async def test() -> None:
        one, call = new_link(), Slow()
        one.call, one.writer = call, StreamWriter(one, call)
        frames = [outgoing(Alive(BORN, i)) for i in range(4)]
        for frame in frames[:3]:
            assert one.put(frame)
        assert call.begun == [frames[0].frame]
        for i in (1, 2):
            call.ends[-1].set_result(None)
            await until(lambda i=i: len(call.begun) == i + 1)
        call.ends[-1].set_result(None)
        await until(lambda: one.sent == 3)
        assert one.put(frames[3])
        assert call.begun == [frame.frame for frame in frames]
        await asyncio.sleep(0)
        one.writer.stop()
        assert call.ends[-1].cancelled()
        assert one.put(frames[0])
        assert len(call.begun) == 4

    run(test())


@pytest.mark.parametrize(
    "error", [asyncio.InvalidStateError(), asyncio.CancelledError(), RuntimeError("broken")]
)
@pytest.mark.parametrize("later", [False, True])
def test_an_error_of_a_stream_does_not_reach_who_sends(error: BaseException, later: bool) -> None:
    """The reader of the stream ends it; the state machine that sends has nothing to do with it."""
    tried = 0

    class Broken:
        async def write(self, data: bytes) -> None:
            nonlocal tried
            tried += 1
            if later:
                await asyncio.sleep(0)
            raise error

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        one = new_link()
        one.call = call = Broken()
        one.writer = StreamWriter(one, call)
        for i in range(3):
            assert one.put(outgoing(Alive(BORN, i)))
            for _ in range(5):
                await asyncio.sleep(0)
        assert (tried, one.sent) == (1, 0)

    run(test())


def test_a_message_that_was_encoded_ahead_is_sent_as_it_would_be(pair: Pair) -> None:
    token, other = pair.token(), pair.token()
    encoded: list[Message] = []

    async def test() -> None:
        async with pair.running(HIGH) as (_, above), pair.running(LOW) as (low, _):
            await until(lambda: low.links[HIGH].open)
            low.encode_ahead(Prepare(token, LOW))
            one = transport.encode_frame
            transport.encode_frame = lambda *args: encoded.append(args[1]) or one(*args)
            try:
                for message in (Prepare(token, LOW), Prepare(token, HIGH), Prepare(other, LOW)):
                    low.send(HIGH, message)
                low._known._certificates[LOW] = b""  # new keys: another certificate goes with it
                low.send(HIGH, Prepare(token, LOW))
            finally:
                transport.encode_frame = one
            await until(lambda: len(above.all("got")) == 4)
            found = [(one.token.digest(), one.guardian) for one in above.all("got")]
            assert found == [(token.digest(), v) for v in (LOW, HIGH, LOW, LOW)]
            assert [message[1] for message in encoded] == [HIGH, LOW, LOW]
            assert [message[0] is token for message in encoded] == [True, False, True]

    run(test())


# Who calls


def test_a_port_in_use_is_said(pair: Pair) -> None:
    async def test() -> None:
        async with pair.running(HIGH):
            with pytest.raises(
                PortInUse, match=r"the port is in use, or the address is not of this machine; stop"
            ):
                async with pair.running(HIGH):
                    pass

    run(test())


def test_a_caller_that_says_nothing_is_let_go(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE", 0.05)

    async def test() -> None:
        async with pair.running(HIGH) as (high, above), pair.calling(LOW) as call:
            assert (await refusal(call))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
            assert above.told == [
                ("closed", LOW, "PeerTimeout: node 2 has not said hello in 0 seconds")
            ]
            await until(lambda: high.links[LOW].streams == 0)

    run(test())


def test_a_caller_that_says_hello_may_be_silent(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent() -> bool:
        """Return whether the hello came in time, which a busy machine may prevent."""
        async with pair.running(HIGH) as (high, above), pair.calling(LOW) as call:
            await call.write(pair.hello(LOW))
            await until(lambda: high.links[LOW].open or above.all("closed"))
            if not high.links[LOW].open:
                return False
            opened = time.monotonic()
            await until(lambda: time.monotonic() > opened + 2 * link.PATIENCE)
            await call.write(encode_frame(LOW, Alive(BORN, 1))[0])
            await until(lambda: above.all("got"))
            return True

    for patience in (0.25, 1.0, 4.0, 16.0, 64.0):
        monkeypatch.setattr(link, "PATIENCE", patience)
        if run(silent()):
            return
    raise AssertionError("a hello is never in time")


def test_too_many_frames_are_refused_also_on_a_new_stream(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RATE", 0.001)
    monkeypatch.setattr(link, "BURST", 20.0)
    frames = [pair.hello(LOW), *[encode_frame(LOW, Alive(BORN, i))[0] for i in range(30)]]

    async def test() -> None:
        async with pair.running(HIGH) as (_, above):
            async with pair.calling(LOW) as call:
                with suppress(
                    grpc.RpcError, asyncio.InvalidStateError
                ):  # once the stream is closed
                    for frame in frames:
                        await call.write(frame)
                flood = "node 2 sends more than 0 frames a second: the stream is closed"
                await until(lambda: above.all("closed") == [f"FrameFlood: {flood}"])
            assert len(above.all("got")) == 19  # and a hello
            async with pair.calling(LOW) as call:
                await call.write(pair.hello(LOW))
                assert await refusal(call) == (grpc.StatusCode.RESOURCE_EXHAUSTED, flood)
            assert len(above.all("got")) == 19

    run(test())


def test_only_a_fault_of_the_link_itself_ends_a_stream_and_it_is_said(pair: Pair) -> None:
    """Whatever happens in what hears a message, the link must not seem open afterwards."""

    async def test() -> None:
        async with pair.running(HIGH) as (high, above), pair.calling(LOW) as call:
            above.got = lambda *_: 1 // 0  # type: ignore[assignment, method-assign, misc]
            await call.write(pair.hello(LOW))
            await until(lambda: high.links[LOW].open)
            await call.write(encode_frame(LOW, Alive(BORN, 1))[0])
            assert (await refusal(call))[0] is grpc.StatusCode.UNKNOWN
            assert not high.links[LOW].open
            assert "ZeroDivisionError" in high.links[LOW].why

    run(test())


# Who is called


def odd_version(der: bytes) -> bytes:
    assert der.count(b"\xa0\x03\x02\x01\x02") == 1
    return der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nothing", "PeerTimeout: node 5 has not said hello"),
        ("garbage", "Malformed: the bytes are not a frame"),
        ("message first", "Malformed: a Hello was expected first"),
        ("another's name", "Malformed: a frame from node 5 names node 9 as its sender"),
        ("another run", "Mismatch: node 5 has the manifest"),
        ("another format", f"Mismatch: wire format {FORMAT} was expected, got {FORMAT + 1}"),
        ("odd certificate", "Malformed: a certificate of node 5 cannot be read"),
        (
            "another's certificate",
            "Malformed: a certificate of node 5 was expected, got one of node 9",
        ),
        ("the end", "the other end has closed the stream"),
    ],
)
def test_who_answers_wrongly_is_let_go_and_dialled_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, what: str, says: str
) -> None:
    monkeypatch.setattr(link, "PATIENCE", 0.2 if what == "nothing" else PATIENCE)
    frame = {
        "nothing": b"",
        "garbage": b"\xff" * 9,
        "message first": encode_frame(HIGH, Alive(BORN, 1))[0],
        "another's name": encode_frame(FAR, Alive(BORN, 1))[0],
        "another run": pair.hello(HIGH, manifest=bytes(32)),
        "another format": pair.hello(HIGH, format=FORMAT + 1),
        "odd certificate": pair.hello(HIGH, certificate=odd_version(pair.certificate(HIGH))),
        "another's certificate": pair.hello(HIGH, certificate=pair.certificate(FAR)),
        "the end": b"",
    }[what]

    async def talk(context: Any) -> None:
        if frame:
            await context.write(frame)
        if what != "the end":
            await context.read()
            await asyncio.Event().wait()

    async def test() -> None:
        async with pair.running(LOW) as (low, below):
            async with pair.posing(pair.folders[HIGH], talk):
                await until(lambda: any(says in why for why in below.all("closed")))
                assert not below.all("opened")
                assert not below.all("got")
            async with pair.running(HIGH):
                await until(lambda: low.links[HIGH].open)

    run(test())


def test_a_revoked_neighbour_that_tries_again_and_again_is_reported_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        calls = []
        async with pair.running(HIGH) as (high, above):
            high.bar([LOW])
            caller = high._caller

            def counted(auth: Any) -> Any:
                calls.append(auth)
                return caller(auth)

            monkeypatch.setattr(high, "_caller", counted)
            async with pair.running(LOW):
                await until(lambda: len(calls) >= 3)
            assert above.told == [("closed", LOW, "the operator has revoked it")]

    run(test())


def test_another_node_at_a_neighbours_address_is_not_spoken_to(pair: Pair) -> None:
    """Its certificate is good, but TLS was asked for the neighbour's name."""
    reached = []

    async def talk(context: Any) -> None:
        reached.append(True)
        await context.write(pair.hello(HIGH))

    async def test() -> None:
        async with pair.posing(pair.folders[FAR], talk), pair.running(LOW) as (low, _):
            await until(lambda: "Hostname Verification Check failed" in low.links[HIGH].why)
            assert not low.links[HIGH].open
            assert not reached

    run(test())


def test_other_keys_of_a_neighbour_are_not_spoken_to(pair: Pair, tmp_path: Path) -> None:
    other = pair.authority.issue(HIGH, ["127.0.0.1"], folder=tmp_path / "again")
    certificate = Identity.open(other).certificate.public_bytes(Encoding.DER)

    async def talk(context: Any) -> None:
        await context.write(pair.hello(HIGH, certificate=certificate))
        await asyncio.Event().wait()

    async def test() -> None:
        async with pair.posing(other, talk), pair.running(LOW) as (low, below):
            await until(
                lambda: any("has keys with the fingerprint" in why for why in below.all("closed"))
            )
            assert not low.links[HIGH].open

    run(test())


@pytest.mark.parametrize("proof", ["none", "of the old key", "of another time"])
def test_old_keys_of_a_neighbour_with_its_present_certificate_are_not_spoken_to(
    pair: Pair, tmp_path: Path, proof: str
) -> None:
    """The one who dials is not told whose certificate TLS has seen: the other end must prove that
    it has the key.
    """
    old = pair.authority.issue(HIGH, ["127.0.0.1"], folder=tmp_path / "again")

    async def talk(context: Any) -> None:
        asked = wire.Reader(pair.limits, LOW).take(await context.read())
        assert isinstance(asked, Hello)
        statement = proven(RUN, bytes(16) if proof == "of another time" else asked.nonce, HIGH, LOW)
        signer = (Identity.open(old) if proof == "of the old key" else pair.identity(HIGH)).signer()
        signature = b"" if proof == "none" else signer.sign(statement)
        await context.write(pair.hello(HIGH, nonce=asked.nonce, proof=signature))
        await asyncio.Event().wait()

    async def test() -> None:
        async with pair.posing(old, talk), pair.running(LOW) as (low, below):
            await until(lambda: any("has not proved" in why for why in below.all("closed")))
            assert not low.links[HIGH].open
            assert not below.all("opened")

    run(test())


def test_an_old_key_of_a_neighbour_is_not_believed_whoever_vouches_for_it(
    pair: Pair, tmp_path: Path
) -> None:
    """A neighbour says that a guardian, also a neighbour, has keys other than those in the node
    file.
    """
    old = pair.authority.issue(FAR, ["127.0.0.1"], folder=tmp_path / "old")
    false = Identity.open(old).certificate.public_bytes(Encoding.DER)
    prepare = Prepare(pair.token(), FAR)
    known = Peer(FAR, "127.0.0.1:1", key_fingerprint((pair.folders[FAR] / "node.crt").read_bytes()))

    async def test() -> None:
        ear, learned = Ear(), []
        high = Transport(
            *(
                pair.identity(HIGH),
                pair.addresses[HIGH],
                (pair.peer(LOW), known),
                pair.limits,
                RUN,
                LIFE,
                ear,
            ),
            learned=lambda node, der: learned.append(node),
        )
        await high.start()
        try:
            async with pair.calling(LOW) as call:
                await call.write(pair.hello(LOW))
                await until(lambda: ear.all("opened"))
                await call.write(encode_frame(LOW, prepare, false)[0])
                await until(lambda: ear.all("certificate_refused"))
                assert "node 9 has keys with the fingerprint" in ear.all("certificate_refused")[0]
                verify = high.identity.signer().verify
                assert not verify(
                    FAR, b"a statement", Identity.open(old).signer().sign(b"a statement")
                )
                assert (ear.all("got"), learned) == ([], [LOW])
                await call.write(
                    encode_frame(LOW, prepare, pair.certificate(FAR))[0]
                )  # the stream stays open
                await until(lambda: ear.all("got"))
                assert verify(FAR, b"a statement", pair.identity(FAR).signer().sign(b"a statement"))
                assert learned == [LOW, FAR]
        finally:
            await high.stop()

    run(test())


def test_a_guardian_far_away_that_was_issued_anew_is_believed_and_its_old_key_no_more(
    pair: Pair, tmp_path: Path
) -> None:
    """This node need not be started again for it: it has no entry for that guardian."""
    earlier = datetime.now(UTC) - timedelta(days=1)
    old = Identity.open(
        pair.authority.issue(FAR, ["127.0.0.1"], folder=tmp_path / "old", now=earlier)
    )
    new = pair.identity(FAR)
    prepare = Prepare(pair.token(), FAR)

    async def test() -> None:
        async with pair.running(HIGH) as (high, ear), pair.calling(LOW) as call:
            await call.write(pair.hello(LOW))
            for who, got, certificate_refused in ((old, 1, 0), (new, 2, 0), (old, 2, 1)):
                der = who.certificate.public_bytes(Encoding.DER)
                await call.write(encode_frame(LOW, prepare, der)[0])
                await until(
                    lambda n=got + certificate_refused: (
                        len(ear.all("got") + ear.all("certificate_refused")) == n
                    )
                )
                assert (len(ear.all("got")), len(ear.all("certificate_refused"))) == (
                    got,
                    certificate_refused,
                )
                verify = high.identity.signer().verify
                assert verify(FAR, b"x", new.signer().sign(b"x")) is (got == 2)
                assert verify(FAR, b"x", old.signer().sign(b"x")) is (got == 1)

    run(test())


def test_certificates_that_are_out_of_use_are_not_kept_in_mind(pair: Pair, tmp_path: Path) -> None:
    other = pair.authority.issue(HIGH, ["127.0.0.1"], folder=tmp_path / "again")
    old = Identity.open(other).certificate.public_bytes(Encoding.DER)
    for known, certain in (
        ({HIGH: old}, False),
        ({HIGH: b"torn"}, False),
        ({HIGH: pair.certificate(HIGH)}, True),
    ):
        low, _ = pair.make(LOW, known=known)
        signature = pair.identity(HIGH).signer().sign(b"a statement")
        assert low.identity.signer().verify(HIGH, b"a statement", signature) is certain
        assert low._known.vouching(
            Prepare(Token.first(np.zeros(SMALL))._replace(epoch=FIRST), HIGH)
        ) == (pair.certificate(HIGH) if certain else b"")
