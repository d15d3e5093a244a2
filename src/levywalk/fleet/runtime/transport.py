"""How messages travel between real nodes: gRPC over mutual TLS 1.3, one stream per pair of neighbours.

The node with the lower id dials. Both ends begin with a hello: the manifest's hash, the sender's certificate, and which
life of its state folder it is. Who the other end is, TLS says, and nothing else does: a frame with another sender is
refused.
Small messages are one frame each; a large model follows its message in chunks, which are hashed as they come.

A message may be lost: what cannot be sent now is dropped, and the protocol says it again.

=====================================  ================================================================================
what is wrong                          the answer
=====================================  ================================================================================
no certificate, plaintext, wrong       the TLS handshake fails
authority, expired, TLS below 1.3
not a neighbour, or another key        PERMISSION_DENIED
another manifest or wire format        FAILED_PRECONDITION
a malformed frame, another's name      INVALID_ARGUMENT, and the stream is closed
too many frames or streams             RESOURCE_EXHAUSTED, and the stream is closed
no hello in time                       DEADLINE_EXCEEDED, and the stream is closed
=====================================  ================================================================================
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from levywalk.errors import LevywalkError
from levywalk.fleet.identity.certificates import key_fingerprint, parse, server_name
from levywalk.fleet.identity.errors import IdentityError
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.messages import Activate, Certified, Message, Prepare
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.link import Call, Flood, Late, Link, Outgoing, first_frame, send_waiting
from levywalk.fleet.runtime.wire import (
    FORMAT,
    MOST_FRAME,
    Hello,
    Reader,
    encode_frame,
    hello_frame,
    proven,
)
from levywalk.fleet.setup.node_file import Peer
from levywalk.fleet.storage.codec import Limits
from levywalk.fleet.storage.failpoints import failpoint
from levywalk.version import __version__

SERVICE, METHOD = "levywalk.fleet.v1.Node", "Talk"
STREAMS = 4  # that a neighbour may have at once: one counts, and others may be about to end
_AGAIN = 0.1, 0.5  # seconds between attempts to reach a neighbour: at first, and at most
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_FRAME),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.so_reuseport", 0),  # a port in use is an error
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # without it a peer that is stopped goes unnoticed for a minute
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),  # what is on its way stays below the window: a ping must not queue behind a model
    ("grpc.http2.lookahead_bytes", 1 << 20),
    ("grpc.http2.write_buffer_size", 1 << 16),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long a handshake may take
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.server_handshake_timeout_ms", 10_000),  # who says nothing must not keep a connection for two minutes
    ("grpc.max_connection_idle_ms", 30_000),  # a connection without a stream is of no use
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class PortInUse(LevywalkError, OSError):
    """The node's address cannot be listened on."""


class Mismatch(LevywalkError):
    """The other end is of another run, or speaks another format."""


class Stranger(LevywalkError):
    """The other end has no business here."""


_ANSWERS: dict[type[LevywalkError], grpc.StatusCode] = {
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    Flood: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Late: grpc.StatusCode.DEADLINE_EXCEEDED,
    Mismatch: grpc.StatusCode.FAILED_PRECONDITION,
    Stranger: grpc.StatusCode.PERMISSION_DENIED,
    IdentityError: grpc.StatusCode.PERMISSION_DENIED,
}


class LinkListener(Protocol):
    """Who wants to know what happens on the links."""

    def opened(self, node: int, hello: Hello) -> None:
        """A link is open, and the other end has said who it is."""

    def closed(self, node: int, why: str) -> None:
        """A link is closed, or could not be opened."""

    def got(self, node: int, message: Message) -> None:
        """A message came."""

    def stirred(self, node: int) -> None:
        """A part of a large message came."""

    def doubted(self, node: int, message: Message, why: str) -> None:
        """A message came with a certificate that cannot be believed."""


class Transport:
    """All links of one node.

    Parameters
    ----------
    listen
        Host and port.
    hello
        What this node says first.
    known
        Certificates (DER) of nodes learned of earlier; ``learned`` is told of new ones, to keep them.
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
    ) -> None:
        self.identity, self.id, self.listen, self.limits, self.heard = identity, identity.node, listen, limits, heard
        own = identity.certificate.public_bytes(Encoding.DER)
        self.hello = Hello(FORMAT, manifest, incarnation, __version__, own)
        self.links = {peer.id: Link(peer) for peer in peers}
        self._learned: Callable[[int, bytes], None] | None = None
        self._certificates: dict[int, bytes] = {self.id: own}
        self._checked: set[bytes] = {own}
        for node, der in (known or {}).items():
            with suppress(LevywalkError):  # expired meanwhile, or of earlier keys: it will say its new one
                self._learn(node, der)
        self._learned = learned
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Any = None
        self._channels: list[Any] = []

    async def start(self) -> None:
        """Listen, and begin to dial."""
        tls = self.identity.tls()
        most = STREAMS * len(self.links) + 16
        limit = ("grpc.max_allowed_incoming_connections", most + 64)  # strangers must not take all file descriptors
        self._server = grpc.aio.server(options=(*_OPTIONS, limit), maximum_concurrent_rpcs=most)
        talk = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: talk}),))
        credentials = grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.authority, require_client_auth=True)
        try:
            bound = self._server.add_secure_port(self.listen, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            raise PortInUse(
                f"listen {self.listen} cannot be listened on: the port is in use, or the address is not of this "
                "machine; end the other process, or change the node file and the neighbours' address of this node"
            )
        await self._server.start()
        dial = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        for node, link in self.links.items():
            if self.id < node:
                options = (*_OPTIONS, ("grpc.ssl_target_name_override", server_name(node)))
                channel = grpc.aio.secure_channel(link.peer.address, dial, options=options)
                self._channels.append(channel)
                task = asyncio.create_task(self._dial(link, channel.stream_stream(f"/{SERVICE}/{METHOD}")))
                self._tasks.add(task)

    async def stop(self) -> None:
        """Close everything; nothing is waited for."""
        for task in self._tasks:
            task.cancel()
        for channel in self._channels:
            await channel.close()
        if self._server is not None:
            await self._server.stop(0)

    def send(self, to: int, message: Message) -> None:
        """Send a message, or drop it if the neighbour is not there."""
        link = self.links.get(to)
        if link is None or not link.open:
            return
        failpoint("send:before")
        link.put(Outgoing(*encode_frame(self.id, message, self._vouching(message))))

    def _vouching(self, message: Message) -> bytes:
        """Return the certificate of the guardian that a message rests on: the receiver may never have met it."""
        if isinstance(message, Prepare):
            return self._certificates.get(message.guardian, b"")
        if isinstance(message, Activate | Certified):
            return self._certificates.get(message.certificate.guardian, b"")
        return b""

    def _learn(self, node: int, der: bytes) -> None:
        """Check a certificate once, and remember the node's signing key."""
        if der in self._checked and self._certificates.get(node) == der:
            return
        certificate = _certificate(node, der)
        found = self.identity.peer_id(certificate)
        if found != node:
            raise Malformed(f"a certificate of node {node} was expected, got one of node {found}")
        if node in self.links:
            self._is(self.links[node].peer, certificate)
        self.identity.learn(certificate)
        self._certificates[node] = der
        self._checked.add(der)
        if self._learned is not None:
            self._learned(node, der)

    # A stream

    async def _dial(self, link: Link, talk: Any) -> None:
        """Keep a stream to a neighbour open."""
        pause = _AGAIN[0]
        while True:
            call = talk()
            try:
                await self._talk(link, call)
                why = "the other end has closed the stream"
            except grpc.aio.AioRpcError as error:
                why = f"{error.code().name}: {error.details()}"
            except asyncio.CancelledError:
                call.cancel()
                raise
            except Exception as error:  # whatever it is, the neighbour must be dialled again
                why = f"{type(error).__name__}: {error}"
                call.cancel()
            pause = _AGAIN[0] if link.received else min(_AGAIN[1], 2 * pause)
            self._closed(link, call, why)
            await asyncio.sleep(pause)

    async def _serve(self, _: Any, context: Any) -> None:
        """Take a neighbour's stream."""
        link: Link | None = None
        try:
            link = self._caller(context.auth_context())
            await self._talk(link, context)
            self._closed(link, context, "the other end has closed the stream")
        except LevywalkError as error:
            text = str(error)
            if link is not None:
                self._closed(link, context, f"{type(error).__name__}: {text}")
            else:
                self.heard.closed(-1, text)
            code = next((c for kind, c in _ANSWERS.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
            await context.abort(code, text[:1000])
        except Exception as error:  # of gRPC, or a fault of ours: the link must not seem open
            if link is not None:
                self._closed(link, context, f"{type(error).__name__}: {error}")
            raise
        except asyncio.CancelledError:
            if link is not None and link.call not in (None, context):  # or the other end would never hear of it
                await context.abort(grpc.StatusCode.ABORTED, "replaced by a newer stream")
            if link is not None:
                self._closed(link, context, "the stream broke")
            raise

    def _caller(self, auth: Any) -> Link:
        """Return the link of whoever calls; TLS has checked the chain, the rest is checked here."""
        version = auth.get("ssl_tls_version", [b""])[0]
        if version not in (b"", b"TLSv1.3"):
            raise Stranger(f"TLS 1.3 is needed, got {version.decode(errors='replace')}")
        pem = auth["x509_pem_cert"][0]
        node = self.identity.peer_id(pem)
        link = self.links.get(node)
        if link is None:
            raise Stranger(f"node {node} is not a neighbour of node {self.id}: its node file does not list it")
        self._is(link.peer, parse(pem))
        if node > self.id:
            raise Stranger(f"node {node} does not dial node {self.id}: of two neighbours the lower id does")
        if link.streams >= STREAMS:
            raise Flood(f"node {node} has {STREAMS} streams already")
        return link

    def _is(self, peer: Peer, certificate: x509.Certificate) -> None:
        found = key_fingerprint(certificate)
        if found != peer.fingerprint:
            raise Stranger(
                f"node {peer.id} has keys with the fingerprint {found}, but the node file of node {self.id} says "
                f"{peer.fingerprint}: if it was issued anew, change the node file"
            )

    async def _talk(self, link: Link, call: Call) -> None:
        """Speak and listen until the stream ends."""
        reader, writer = Reader(self.limits, link.peer.id), None
        node = link.peer.id
        link.received = 0
        link.streams += 1
        nonce = secrets.token_bytes(16)
        try:
            if self.id < node:
                await call.write(hello_frame(self.id, self.hello._replace(nonce=nonce)))
            data = await first_frame(call, node)
            while data is not grpc.aio.EOF:
                link.budget.count(node)
                found = reader.take(data)
                if isinstance(found, Hello):
                    self._greeted(link, found)
                    if self.id < node:
                        self._check_proof(node, found, nonce)
                    else:
                        await call.write(hello_frame(self.id, self._answer(node, found.nonce)))
                    self._opened(link, call, found)
                    writer = asyncio.create_task(send_waiting(link, call))
                elif link.call is not call:
                    pass  # an older stream than another one has nothing to say any more
                elif found is None:
                    self.heard.stirred(node)
                else:
                    link.received += 1
                    self._take(node, *found)
                data = await call.read()
        finally:
            link.streams -= 1
            if writer is not None:
                writer.cancel()

    def _take(self, node: int, message: Message, certificate: bytes) -> None:
        """Pass a message on, if the certificate with it is that of the guardian that it rests on."""
        if certificate:
            try:
                self._learn(_guardian(message), certificate)
            except (IdentityError, Stranger) as error:
                self.heard.doubted(node, message, str(error))
                return
        self.heard.got(node, message)

    def _greeted(self, link: Link, hello: Hello) -> None:
        node = link.peer.id
        if hello.format != FORMAT:
            raise Mismatch(f"wire format {FORMAT} was expected, got {hello.format} (levywalk {hello.software})")
        if hello.manifest != self.hello.manifest:
            raise Mismatch(
                f"node {node} has the manifest {hello.manifest.hex()[:16]}…, node {self.id} "
                f"{self.hello.manifest.hex()[:16]}…: all nodes of a run need the same manifest file"
            )
        self._learn(node, hello.certificate)

    def _answer(self, node: int, nonce: bytes) -> Hello:
        statement = proven(self.hello.manifest, nonce, self.id, node)
        return self.hello._replace(nonce=nonce, proof=self.identity.signer().sign(statement))

    def _check_proof(self, node: int, hello: Hello, nonce: bytes) -> None:
        """Believe an answer only from whoever has the key in its certificate: another one may have TLS keys of old."""
        statement = proven(self.hello.manifest, nonce, node, self.id)
        if hello.nonce != nonce or not self.identity.signer().verify(node, statement, hello.proof):
            raise Stranger(f"node {node} has not proven that it has the key of its certificate")

    def _opened(self, link: Link, call: Call, hello: Hello) -> None:
        if link.call is not None and link.task is not None:
            link.task.cancel()
            self._closed(link, link.call, "replaced by a newer stream")
        link.call, link.task, link.open, link.why = call, asyncio.current_task(), True, ""
        self.heard.opened(link.peer.id, hello)

    def _closed(self, link: Link, call: Any, why: str) -> None:
        if link.call is not None and link.call is not call:
            return
        told = link.open or "refused" not in why  # that a neighbour has not started yet is no news
        link.call, link.open, link.under_way, link.large = None, False, None, None
        link.waiting.clear()  # what was for an earlier life of the other end must not reach a later one
        if link.why != why:
            link.why = why
            if told:
                self.heard.closed(link.peer.id, why)


def _certificate(node: int, der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise Malformed(f"a certificate of node {node} cannot be read: {error}") from None


def _guardian(message: Message) -> int:
    if isinstance(message, Prepare):
        return message.guardian
    if isinstance(message, Activate | Certified):
        return message.certificate.guardian
    raise Malformed(f"a {type(message).__name__} does not come with a certificate")
