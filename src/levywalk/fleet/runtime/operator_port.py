"""The operator port: where an operator elsewhere asks a node, over gRPC with mutual TLS 1.3.

It is another port than that of the neighbours, and there is none unless the node file names it
(``operator``). A caller must have an operator's certificate of the fleet's authority; that of a
node is refused here, and that of an operator at the neighbours' port. What can be asked is in
`operator_answers`, and how in `operator_port_format`.

===================================  ===============================================================
what is wrong                        the answer
===================================  ===============================================================
no certificate, plaintext, wrong     the TLS handshake fails
authority, expired, TLS below 1.3
not an operator's certificate        PERMISSION_DENIED
not a question, or one that cannot   INVALID_ARGUMENT
be asked
a question above 4 KiB, or too many  RESOURCE_EXHAUSTED
an answer that is not taken in time  DEADLINE_EXCEEDED
===================================  ===============================================================
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from levywalk.errors import LevywalkError
from levywalk.fleet.identity.errors import IdentityError, Untrusted
from levywalk.fleet.identity.operator_certificate import check_operator
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.connection_limiter import (
    Address,
    ConnectionLimiter,
    address_of,
    connections_allowed,
)
from levywalk.fleet.runtime.link import FrameFlood
from levywalk.fleet.runtime.operator_answers import OperatorAnswers
from levywalk.fleet.runtime.operator_port_format import (
    METHOD,
    MOST_QUESTION,
    QUESTIONS,
    SERVICE,
    json_object,
)
from levywalk.fleet.runtime.server_keys import present_credentials
from levywalk.fleet.runtime.transport import PortInUse

if TYPE_CHECKING:
    from levywalk.fleet.runtime.process import Process

AT_ONCE = 8  # questions that are answered at the same time, of all operators together
RATE, BURST = 20.0, 60.0  # questions a second in the long run, and at once
_PATIENCE = 120.0  # seconds for an answer to be taken
_TOLD = 64  # kinds of questions of which the log keeps count, by certificate
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_QUESTION),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.max_concurrent_streams", AT_ONCE),
)


class QuestionBudget:
    """Limits how many questions are answered.

    Examples
    --------
    >>> now = [0.0]
    >>> budget = QuestionBudget(lambda: now[0])
    >>> for _ in range(60):
    ...     budget.count()
    >>> budget.count()
    Traceback (most recent call last):
    levywalk.fleet.runtime.link.FrameFlood: more than 20 questions a second: ask again later
    >>> now[0] = 0.1
    >>> budget.count()
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._left, self._at = clock, BURST, clock()

    def count(self) -> None:
        """Count a question; raise an error if there are too many."""
        now = self._clock()
        self._left, self._at = min(BURST, self._left + RATE * (now - self._at)), now
        if self._left < 1:
            raise FrameFlood(f"more than {RATE:.0f} questions a second: ask again later")
        self._left -= 1


class OperatorPort:
    """The operator port of one node."""

    def __init__(self, process: Process, listen: str) -> None:
        self.process, self.listen = process, listen
        self._answers, self._budget = OperatorAnswers(process), QuestionBudget()
        self._inside: list[Address | None] = []  # the far ends of operators' questions
        self._told: set[tuple[str, str]] = set()
        self._server: Any = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen."""
        limit = ("grpc.max_allowed_incoming_connections", connections_allowed(AT_ONCE))
        self._server = grpc.aio.server(options=(*_OPTIONS, limit), maximum_concurrent_rpcs=AT_ONCE)
        ask = grpc.unary_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: ask}),)
        )
        credentials = present_credentials(self.process.identity)
        try:
            bound = self._server.add_secure_port(self.listen, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            raise PortInUse(
                f"operator {self.listen} cannot be listened on: the port is in use, or the address "
                "is not of this machine; stop the other process, or change operator in the node "
                "file and in the operators' folders"
            )
        await self._server.start()
        watching = ConnectionLimiter(bound, AT_ONCE).watch(AT_ONCE, self._inside, self._crowded)
        self._watch = asyncio.create_task(watching)

    async def stop(self) -> None:
        """Close everything at once."""
        if self._watch is not None:
            self._watch.cancel()
        if self._server is not None:
            await self._server.stop(0)

    def _crowded(self, why: str) -> None:
        self.process.log("operator refused", level="warning", why=why)

    async def _serve(self, question: bytes, context: Any) -> AsyncIterator[bytes]:
        """Answer one question."""
        far = address_of(context.peer())
        try:
            self._check(context.auth_context())
            self._budget.count()
            asked = json_object(question, "a question")
            self._tell(asked, context.peer())
            self._inside.append(far)
            try:
                async with asyncio.timeout(_PATIENCE):
                    for frame in await self._answers.answer(asked):
                        yield frame
            finally:
                self._inside.remove(far)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the answer was not taken")
        except LevywalkError as error:
            if isinstance(error, IdentityError | FrameFlood):
                self.process.log("operator refused", level="warning", why=str(error))
            await context.abort(_code(error), str(error)[:1000])

    def _check(self, auth: Any) -> None:
        """Refuse callers that are no operators; TLS has checked their certificate chain."""
        version = auth.get("ssl_tls_version", [b""])[0]
        if version not in (b"", b"TLSv1.3"):
            raise Untrusted(f"TLS 1.3 is needed, got {version.decode(errors='replace')}")
        pem = auth["x509_pem_cert"][0]
        check_operator(self.process.identity.authority, pem, "the caller's certificate")

    def _tell(self, asked: dict[str, Any], peer: str) -> None:
        """Log what operators ask: orders always, and each kind of question once per machine."""
        do, host = str(asked.get("do"))[:40], str((address_of(peer) or ("",))[0])
        if do not in QUESTIONS or (do != "revive" and (do, host) in self._told):
            return
        if len(self._told) < _TOLD:
            self._told.add((do, host))
        self.process.log("operator asks", question=do, host=host)


def _code(error: LevywalkError) -> grpc.StatusCode:
    if isinstance(error, IdentityError):
        return grpc.StatusCode.PERMISSION_DENIED
    if isinstance(error, FrameFlood):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, Malformed | ValueError):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.FAILED_PRECONDITION
