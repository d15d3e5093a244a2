"""The connection to one neighbour: what waits to be sent, how much the neighbour may send, and
whether it is open.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import grpc
import grpc.aio

from levywalk.errors import LevywalkError
from levywalk.fleet.protocol.tensors import Tensor
from levywalk.fleet.runtime.at_once import begin_at_once
from levywalk.fleet.runtime.wire import chunk_frames
from levywalk.fleet.setup.node_file import Peer
from levywalk.fleet.storage.failpoints import failpoint

WAITING = 64  # messages that may wait for a neighbour; more are dropped
RATE, BURST = (
    2000.0,
    4000.0,
)  # frames that a neighbour may send: per second in the long run, and at once
PATIENCE = 10.0  # seconds to wait for a hello
_CONNECT = 30.0  # seconds for a connection and our own hello; gRPC gives up after five
_ANSWER = 10.0  # seconds to wait for the answer to a large model before it is sent again


class FrameFlood(LevywalkError):
    """A neighbour sends more than it may."""


class PeerTimeout(LevywalkError):
    """The other end has sent nothing."""


class Call(Protocol):
    """One end of a stream, at the caller or at the server."""

    async def write(self, data: bytes) -> None:
        """Send a frame."""

    async def read(self) -> Any:
        """Return the next frame, or `grpc.aio.EOF`."""


class Outgoing(NamedTuple):
    """A message to send: its frame, and the models that follow it."""

    frame: bytes
    tensors: list[Tensor]
    mark: bytes = b""  # what follows the frame, and is not part of what is sent again
    token: int = 0  # which of several tokens it is about


class Link:
    """The connection to one neighbour; all tokens of a fleet share it, and its limits are for each
    of them.
    """

    def __init__(self, peer: Peer, tokens: int = 1) -> None:
        self.peer, self.tokens = peer, tokens
        self.open = False
        self.call: Call | None = None  # the newest stream; older ones are ignored
        self.task: asyncio.Task[None] | None = None  # the task that reads from it
        self.writer: StreamWriter | None = None  # of the newest stream
        self.waiting: deque[Outgoing] = deque()
        self.under_way: Outgoing | None = None
        # by token: the last message with a large model that was sent, and when
        self.large: dict[int, tuple[Outgoing, float]] = {}
        self.budget = FrameBudget(tokens)
        self.streams = 0
        self.sent = self.received = self.dropped = 0
        self.why = "not reached yet"  # why it is closed

    def put(self, out: Outgoing) -> bool:
        """Send a message, as soon as those before it are sent; return False if it is dropped
        instead.
        """
        if (
            not self.open
            or len(self.waiting) >= WAITING * self.tokens
            or (out.tensors and self._waits(out))
        ):
            self.dropped += 1
            return False
        self.waiting.append(out)
        if self.writer is not None:
            self.writer.wake()
        return True

    def _waits(self, out: Outgoing) -> bool:
        """Return whether the same message is being sent already.

        A message with a large model, repeated every second, would otherwise never arrive. (Another
        message with the same model is a different message.)
        """
        sent, at = self.large.get(out.token, (None, 0.0))
        sent = sent if time.monotonic() - at < _ANSWER else None
        return any(
            one is not None and one.frame == out.frame
            for one in (*self.waiting, self.under_way, sent)
        )


class FrameBudget:
    """Limits how many frames a neighbour may send, on all its streams together."""

    def __init__(self, tokens: int = 1) -> None:
        self.rate, self.burst = RATE * tokens, BURST * tokens
        self.left, self.at = self.burst, time.monotonic()

    def count(self, node: int) -> None:
        """Count a frame; raise an error if the limit is exceeded."""
        now = time.monotonic()
        self.left, self.at = min(self.burst, self.left + self.rate * (now - self.at)), now
        self.left -= 1
        if self.left < 0:
            raise FrameFlood(
                f"node {node} sends more than {self.rate:.0f} frames a second: the stream is closed"
            )


async def say_first(call: Call, node: int, frame: bytes) -> None:
    """Send the first frame, for which gRPC connects to the other end.

    This must not take too long: the neighbour would be out of reach until this node starts again.
    """
    try:
        async with asyncio.timeout(_CONNECT):
            await call.write(frame)
    except TimeoutError:
        raise PeerTimeout(f"node {node} was not reached in {_CONNECT:.0f} seconds") from None


async def first_frame(call: Call, node: int) -> Any:
    """Return the first frame.

    It must arrive in time, because a silent stream would be kept for ever.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await call.read()
    except TimeoutError:
        raise PeerTimeout(f"node {node} has not said hello in {PATIENCE:.0f} seconds") from None


class StreamWriter:
    """Sends the waiting messages of a link in order. It is the only writer of its stream.

    A message that waits for no other one is given to gRPC at once, and not by a task that the event
    loop has to wake first: the whole walk waits for it.
    """

    def __init__(self, link: Link, call: Call) -> None:
        self._link, self._call = link, call
        self._writing = False
        self._task: asyncio.Task[None] | None = None  # what sends while gRPC is slow

    def wake(self) -> None:
        """Send what waits, unless that is under way."""
        if not self._writing:
            self._writing = True
            self._task = begin_at_once(self._send_waiting())

    def stop(self) -> None:
        """Send nothing more."""
        self._writing = True
        if self._task is not None:
            self._task.cancel()

    async def _send_waiting(self) -> None:
        link, call = self._link, self._call
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            while link.waiting and link.call is call:
                out = link.under_way = link.waiting.popleft()
                await call.write(out.frame + out.mark)
                for tensor in out.tensors:
                    for frame in chunk_frames(tensor):
                        await call.write(frame)
                        link.large[out.token] = out, time.monotonic()
                link.under_way = None
                link.sent += 1
                failpoint("send:after")
            self._writing = False  # after an error the stream is broken, and stays silent
