"""Messages between real nodes: gRPC over mutual TLS 1.3, one stream per pair of neighbours.

The node with the lower id opens the connection. Both ends first send a hello: the hash of the
manifest, the sender's certificate, and the incarnation of its state folder. Only TLS decides who
the other end is: a frame with another sender is refused. A small message is one frame. A large
model follows its message in chunks, which are hashed as they arrive.

A message may be lost: what cannot be sent now is dropped, and the protocol sends it again later.
`Transport` is one class, because calling, answering, sending and closing share the links.

===================================  ===============================================================
what is wrong                        the answer
===================================  ===============================================================
no certificate, plaintext, wrong     the TLS handshake fails
authority, expired, TLS below 1.3
not a neighbour, or another key      PERMISSION_DENIED
another manifest or wire format      FAILED_PRECONDITION
a malformed frame or a wrong sender  INVALID_ARGUMENT, and the stream is closed
too many frames or streams           RESOURCE_EXHAUSTED, and the stream is closed
no hello in time                     DEADLINE_EXCEEDED, and the stream is closed
===================================  ===============================================================
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol

import grpc
import grpc.aio

from levywalk.errors import LevywalkError
from levywalk.fleet.identity.certificates import (
    key_fingerprint,
    parse,
    server_name,
)
from levywalk.fleet.identity.errors import IdentityError
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.messages import Message, Prepare
from levywalk.fleet.protocol.tensors import Malformed, Tensor
from levywalk.fleet.runtime.connection_limiter import (
    Address,
    ConnectionLimiter,
    address_of,
    connections_allowed,
)
from levywalk.fleet.runtime.known_nodes import KnownNodes, RevokedPeer, Stranger, certificate_of
from levywalk.fleet.runtime.link import (
    Call,
    FrameFlood,
    Link,
    Outgoing,
    PeerTimeout,
    StreamWriter,
    first_frame,
    say_first,
)
from levywalk.fleet.runtime.server_keys import present_credentials
from levywalk.fleet.runtime.wire import (
    FORMAT,
    MOST_FRAME,
    Hello,
    Reader,
    encode_frame,
    hello_frame,
    mark_of,
    proven,
)
from levywalk.fleet.setup.node_file import Peer
from levywalk.fleet.storage.failpoints import failpoint
from levywalk.fleet.storage.limits import Limits
from levywalk.version import __version__

SERVICE, METHOD = "levywalk.fleet.v1.Node", "Talk"
STREAMS = 4  # streams that a neighbour may have at once: one is in use, others may be about to end
_AGAIN = 0.1, 0.5  # seconds between attempts to connect to a neighbour: at first, and at most
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_FRAME),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.so_reuseport", 0),  # a port in use is an error
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    (
        "grpc.http2.ping_timeout_ms",
        5_000,
    ),  # otherwise a stopped peer is noticed only after a minute
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),  # so that a ping does not wait behind a model
    ("grpc.http2.lookahead_bytes", 1 << 20),
    ("grpc.http2.write_buffer_size", 1 << 16),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long a handshake may take
    ("grpc.max_reconnect_backoff_ms", 500),
    (
        "grpc.server_handshake_timeout_ms",
        10_000,
    ),  # a silent caller must not keep a connection for two minutes
    ("grpc.max_connection_idle_ms", 30_000),  # a connection without a stream is useless
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # what a stream of frames has no use for, and would cost time for every one of them
    ("grpc.enable_retries", 0),
    ("grpc.enable_channelz", 0),
    ("grpc.per_message_compression", 0),
    ("grpc.per_message_decompression", 0),
)


class PortInUse(LevywalkError, OSError):
    """The node cannot listen on its address."""


class Mismatch(LevywalkError):
    """The other end belongs to another run, or uses another format."""


_BARRED = "the operator has revoked it"
_ANSWERS: dict[type[LevywalkError], grpc.StatusCode] = {
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    FrameFlood: grpc.StatusCode.RESOURCE_EXHAUSTED,
    PeerTimeout: grpc.StatusCode.DEADLINE_EXCEEDED,
    Mismatch: grpc.StatusCode.FAILED_PRECONDITION,
    Stranger: grpc.StatusCode.PERMISSION_DENIED,
    IdentityError: grpc.StatusCode.PERMISSION_DENIED,
}


class LinkListener(Protocol):
    """Called with what happens on the links."""

    def opened(self, node: int, hello: Hello) -> None:
        """A link is open, and the other end has sent its hello."""

    def closed(self, node: int, why: str) -> None:
        """A link is closed, or could not be opened."""

    def got(self, node: int, message: Message, start: int, commit: int, token: int) -> None:
        """A message about a token has arrived, from that start of the sender and after that
        write.
        """

    def part_received(self, node: int) -> None:
        """A part of a large message has arrived."""

    def certificate_refused(self, node: int, message: Message, why: str, token: int) -> None:
        """A message about a token has arrived with a certificate that is not valid."""


class Transport:
    """All links of one node.

    Parameters
    ----------
    listen
        Host and port.
    known
        Certificates (DER) of nodes that are known already; ``learned`` is called with new ones.
    tokens
        How many tokens share the streams.
    """

    def __init__(
        self,
        identity: Identity,
        listen: str,
        peers: tuple[Peer, ...],
        limits: Limits,
        manifest: bytes,
        incarnation: bytes,
        heard: LinkListener,
        *,
        known: dict[int, bytes] | None = None,
        learned: Callable[[int, bytes], None] | None = None,
        tokens: int = 1,
    ) -> None:
        self.identity, self.id, self.listen, self.limits, self.heard = (
            identity,
            identity.node,
            listen,
            limits,
            heard,
        )
        self.tokens = tokens
        self.links = {peer.id: Link(peer, tokens) for peer in peers}
        named = {peer.id: peer for peer in peers}
        self._known = KnownNodes(identity, named, known or {}, learned)
        self.hello = Hello(FORMAT, manifest, incarnation, __version__, self._known.own)
        self._tasks: set[asyncio.Task[None]] = set()
        self._dials: list[asyncio.Task[None]] = []
        self._ended: dict[Call, str] = {}  # served streams that this node ends by itself
        self._ahead: dict[int, tuple[Prepare, bytes, bytes]] = {}  # by token: the next one's frame
        self._inside: list[Address | None] = []  # the far ends of neighbours' streams
        self._server: Any = None
        self._channels: dict[int, Any] = {}  # by neighbour that this node connects to

    async def start(self) -> None:
        """Listen, and connect to the neighbours with higher ids."""
        most = STREAMS * len(self.links) + 16
        limit = ("grpc.max_allowed_incoming_connections", connections_allowed(most))
        self._server = grpc.aio.server(options=(*_OPTIONS, limit), maximum_concurrent_rpcs=most)
        talk = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: talk}),)
        )
        credentials = present_credentials(self.identity)
        try:
            bound = self._server.add_secure_port(self.listen, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            raise PortInUse(
                f"listen {self.listen} cannot be listened on: the port is in use, or the address "
                "is not of this "
                "machine; stop the other process, or change the node file and the neighbours' "
                "address of this node"
            )
        await self._server.start()
        told = partial(self.heard.closed, -1)
        watching = ConnectionLimiter(bound).watch(len(self.links), self._inside, told)
        self._tasks.add(asyncio.create_task(watching))
        self._dial_all()

    def _dial_all(self) -> None:
        """Connect to the neighbours with higher ids."""
        tls = self.identity.tls()
        credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        for node, link in self.links.items():
            if self.id < node:
                self._dials.append(asyncio.create_task(self._dial(link, credentials)))

    def _new_channel(self, peer: Peer, credentials: grpc.ChannelCredentials) -> Any:
        options = (*_OPTIONS, ("grpc.ssl_target_name_override", server_name(peer.id)))
        channel = grpc.aio.secure_channel(peer.address, credentials, options=options)
        self._channels[peer.id] = channel
        return channel

    def bar(self, nodes: Collection[int]) -> None:
        """Open no connection to nodes that were revoked, and accept none."""
        self._known.bar(nodes)

    def drop_barred(self) -> None:
        """Close the connections to nodes that were revoked."""
        for link in (self.links[v] for v in self._known.barred if v in self.links):
            call, task = link.call, link.task
            if call is None:
                continue
            self._closed(link, call, _BARRED)
            if link.peer.id < self.id and task is not None:
                self._ended[call] = "the operator has revoked this node"
                task.cancel()
            elif isinstance(call, grpc.aio.Call):
                call.cancel()

    def renew_identity(self) -> None:
        """Use the present keys of the identity, which has got new ones.

        All streams are closed and opened again: nothing that is signed with the new key may reach a
        neighbour that has not seen its certificate.
        """
        self._known.take_own()
        self.hello = self.hello._replace(certificate=self._known.own)
        for link in self.links.values():
            call, task = link.call, link.task
            if call is not None:
                self._closed(link, call, "this node has new keys")
                if link.peer.id < self.id:  # otherwise the other end would never learn of it
                    self._ended[call] = "the other end has new keys"
                if task is not None:
                    task.cancel()
        old, self._channels = list(self._channels.values()), {}
        for task in self._dials:
            task.cancel()
        self._dials.clear()
        if self._server is not None:
            for channel in old:
                closing = asyncio.create_task(channel.close())
                self._tasks.add(closing)
                closing.add_done_callback(self._tasks.discard)
            self._dial_all()

    async def stop(self) -> None:
        """Close everything at once."""
        for task in (*self._tasks, *self._dials):
            task.cancel()
        for channel in self._channels.values():
            await channel.close()
        if self._server is not None:
            await self._server.stop(0)

    def send(
        self, to: int, message: Message, start: int = 0, commit: int = 0, token: int = 0
    ) -> None:
        """Send a message about a token, or drop it if the neighbour is not connected."""
        link = self.links.get(to)
        if link is None or not link.open:
            return
        failpoint("send:before")
        frame, tensors = self._encoded(message, token)
        link.put(Outgoing(frame, tensors, mark_of(start, commit), token))

    def encode_ahead(self, message: Prepare, token: int = 0) -> None:
        """Encode a message that will probably be sent next about a token, while nobody waits for
        that; not one with a large model, of which there would be one more copy in memory.
        """
        vouching = self._known.vouching(message)
        frame, tensors = encode_frame(self.id, message, vouching, self.limits.schema, token)
        if not tensors:
            self._ahead[token] = message, vouching, frame

    def _encoded(self, message: Message, token: int) -> tuple[bytes, list[Tensor]]:
        """Return a message as a frame, and the models that follow it."""
        vouching = self._known.vouching(message)
        if type(message) is Prepare and token in self._ahead:
            known, vouched, frame = self._ahead[token]
            same = known.token is message.token and known.guardian == message.guardian
            if same and vouched == vouching:
                return frame, []
        return encode_frame(self.id, message, vouching, self.limits.schema, token)

    # A stream

    async def _dial(self, link: Link, credentials: grpc.ChannelCredentials) -> None:
        """Keep a stream to a neighbour open."""
        channel, pause = self._new_channel(link.peer, credentials), _AGAIN[0]
        while True:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            try:
                await self._talk(link, call)
                why = "the other end has closed the stream"
            except grpc.aio.AioRpcError as error:
                why = f"{error.code().name}: {error.details()}"
            except asyncio.CancelledError:
                call.cancel()
                raise
            except Exception as error:  # whatever the error is, connect again later
                why = f"{type(error).__name__}: {error}"
                call.cancel()
                if isinstance(
                    error, PeerTimeout
                ):  # every stream of this channel might wait as long
                    await channel.close()
                    channel = self._new_channel(link.peer, credentials)
            pause = _AGAIN[0] if link.received else min(_AGAIN[1], 2 * pause)
            self._closed(link, call, why)
            await asyncio.sleep(pause)

    async def _serve(self, _: Any, context: Any) -> None:
        """Handle a stream that a neighbour has opened."""
        link: Link | None = None
        far = address_of(context.peer())
        try:
            link, keys = self._caller(context.auth_context())
            self._inside.append(far)
            try:
                await self._talk(link, context, keys)
            finally:
                self._inside.remove(far)
            self._closed(link, context, "the other end has closed the stream")
        except LevywalkError as error:
            text = str(error)
            if link is not None:
                self._closed(link, context, f"{type(error).__name__}: {text}")
            elif isinstance(error, RevokedPeer):  # it tries again and again, and is reported once
                self._closed(self.links[error.node], context, _BARRED)
            else:
                self.heard.closed(-1, text)
            code = next(
                (c for kind, c in _ANSWERS.items() if isinstance(error, kind)),
                grpc.StatusCode.INTERNAL,
            )
            await context.abort(code, text[:1000])
        except Exception as error:  # an error of gRPC or a bug: the link must not seem open
            if link is not None:
                self._closed(link, context, f"{type(error).__name__}: {error}")
            raise
        except asyncio.CancelledError:
            if link is not None and link.call not in (
                None,
                context,
            ):  # otherwise the other end would never learn of it
                await context.abort(grpc.StatusCode.ABORTED, "replaced by a newer stream")
            if context in self._ended:
                await context.abort(grpc.StatusCode.ABORTED, self._ended.pop(context))
            if link is not None:
                self._closed(link, context, "the stream broke")
            raise

    def _caller(self, auth: Any) -> tuple[Link, str]:
        """Return the link of the caller, and the fingerprint of the keys that it has proved.

        TLS has checked its certificate chain; everything else is checked here.
        """
        version = auth.get("ssl_tls_version", [b""])[0]
        if version not in (b"", b"TLSv1.3"):
            raise Stranger(f"TLS 1.3 is needed, got {version.decode(errors='replace')}")
        pem = auth["x509_pem_cert"][0]
        node = self.identity.peer_id(pem)
        link = self.links.get(node)
        if link is None:
            raise Stranger(
                f"node {node} is not a neighbour of node {self.id}: its node file does not list it"
            )
        certificate = parse(pem)
        self._known.check(link.peer, certificate)
        if node > self.id:
            raise Stranger(
                f"node {node} must not connect to node {self.id}: the node with the lower id opens "
                "the connection"
            )
        if link.streams >= STREAMS:
            raise FrameFlood(f"node {node} has {STREAMS} streams already")
        return link, key_fingerprint(certificate)

    async def _talk(self, link: Link, call: Call, keys: str | None = None) -> None:
        """Send and receive until the stream ends.

        ``keys`` is the fingerprint of those that TLS has proved, if this end knows it.
        """
        reader, writer = Reader(self.limits, link.peer.id, self.tokens), StreamWriter(link, call)
        node = link.peer.id
        link.received = 0
        link.streams += 1
        nonce = secrets.token_bytes(16)
        try:
            if self.id < node:
                await say_first(call, node, hello_frame(self.id, self.hello._replace(nonce=nonce)))
            data = await first_frame(call, node)
            while data is not grpc.aio.EOF:
                link.budget.count(node)
                found = reader.take(data)
                if isinstance(found, Hello):
                    self._greeted(link, found, keys)
                    if self.id < node:
                        self._check_proof(node, found, nonce)
                    else:
                        await call.write(hello_frame(self.id, self._answer(node, found.nonce)))
                    self._opened(link, call, writer, found)
                elif link.call is not call:
                    pass  # an older stream is ignored
                elif found is None:
                    self.heard.part_received(node)
                else:
                    link.received += 1
                    self._take(node, *found, *reader.mark, reader.token)
                data = await call.read()
        finally:
            link.streams -= 1
            writer.stop()

    def _take(
        self, node: int, message: Message, certificate: bytes, start: int, commit: int, token: int
    ) -> None:
        """Pass a message on, if the certificates that came with it are those of the right nodes."""
        if certificate:
            try:
                self._known.learn_signers(message, certificate)
            except (IdentityError, Stranger) as error:
                self.heard.certificate_refused(node, message, str(error), token)
                return
        self.heard.got(node, message, start, commit, token)

    def _greeted(self, link: Link, hello: Hello, keys: str | None) -> None:
        node = link.peer.id
        if node in self._known.barred:
            raise Stranger(f"node {node} was revoked by the operator")
        if hello.format != FORMAT:
            raise Mismatch(
                f"wire format {FORMAT} was expected, got {hello.format} (levywalk {hello.software})"
            )
        if hello.manifest != self.hello.manifest:
            raise Mismatch(
                f"node {node} has the manifest {hello.manifest.hex()[:16]}…, node {self.id} "
                f"{self.hello.manifest.hex()[:16]}…: all nodes of a run need the same manifest file"
            )
        if keys is not None and keys != key_fingerprint(certificate_of(node, hello.certificate)):
            raise Stranger(f"node {node} has shown another certificate than that of its keys")
        self._known.learn(node, hello.certificate)

    def _answer(self, node: int, nonce: bytes) -> Hello:
        statement = proven(self.hello.manifest, nonce, self.id, node)
        return self.hello._replace(nonce=nonce, proof=self.identity.signer().sign(statement))

    def _check_proof(self, node: int, hello: Hello, nonce: bytes) -> None:
        """Accept an answer only from a node that has the key of its certificate: another node may
        have old TLS keys.
        """
        statement = proven(self.hello.manifest, nonce, node, self.id)
        if hello.nonce != nonce or not self.identity.verify_present(node, statement, hello.proof):
            raise Stranger(f"node {node} has not proved that it has the key of its certificate")

    def _opened(self, link: Link, call: Call, writer: StreamWriter, hello: Hello) -> None:
        if link.call is not None and link.task is not None:
            link.task.cancel()
            self._closed(link, link.call, "replaced by a newer stream")
        link.call, link.task, link.writer = call, asyncio.current_task(), writer
        link.open, link.why = True, ""
        self.heard.opened(link.peer.id, hello)

    def _closed(self, link: Link, call: Any, why: str) -> None:
        if link.call is not None and link.call is not call:
            return
        told = (
            link.open or "refused" not in why
        )  # do not report a neighbour that has not been started yet
        link.call, link.open, link.under_way = None, False, None
        link.large.clear()
        link.waiting.clear()  # messages must not reach the other end after it has lost its disk
        if link.why != why:
            link.why = why
            if told:
                self.heard.closed(link.peer.id, why)
