"""Ask a node elsewhere, at its operator port (`runtime.operator_port`).

What comes back is not trusted: TLS has proved which node answers, and nothing else.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.certificates import server_name
from levywalk.fleet.identity.node_identity import TLS_1_3_ONLY, Tls
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.control import NoAnswer
from levywalk.fleet.runtime.operator_port_format import (
    METHOD,
    MOST_HEADER,
    MOST_OPERATOR_FRAME,
    SERVICE,
    Records,
    json_object,
)
from levywalk.printable import printable

# Before gRPC is used for the first time. Reasons of failed handshakes are in our own messages.
for _name, _value in (TLS_1_3_ONLY | {"GRPC_VERBOSITY": "NONE"}).items():
    os.environ.setdefault(_name, _value)

import grpc  # noqa: E402

MOST_ANSWER = 1 << 26  # bytes, without a model
_SHOWN = 160  # characters of a reason
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_OPERATOR_FRAME),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class OperatorAnswer(NamedTuple):
    """A node's answer: what it says, and its records."""

    about: dict[str, Any]
    records: list[bytes]


class OperatorClient:
    """Asks one node at its operator port.

    Parameters
    ----------
    node, address
        The node, and where its port is.
    tls
        The operator's key and certificate, and that of the fleet's authority.
    token
        Which of several tokens the questions are about.
    """

    def __init__(self, node: int, address: str, tls: Tls, token: int = 0) -> None:
        self.node, self.address, self._token = node, address, token
        credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        options = (*_OPTIONS, ("grpc.ssl_target_name_override", server_name(node)))
        self._channel = grpc.secure_channel(address, credentials, options=options)
        self._ask = self._channel.unary_stream(f"/{SERVICE}/{METHOD}")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def ask(
        self, question: dict[str, Any], *, timeout: float, most_record: int = MOST_ANSWER
    ) -> OperatorAnswer:
        """Ask, and return the answer.

        Raises
        ------
        NoAnswer
            If the node does not answer in time, or its answer is not one.
        InvalidParameter
            If the node refuses the question, with its reason.
        """
        about_token = {"token": self._token} if self._token else {}
        data = json.dumps(question | about_token).encode()
        most = MOST_ANSWER + most_record
        found, about = Records(most, most_record), None
        try:
            for frame in self._ask(data, timeout=timeout):
                if about is None:
                    if len(frame) > MOST_HEADER:
                        raise Malformed("its answer is too long")
                    about = json_object(frame, "its answer")
                else:
                    found.take(frame)
            if about is None:
                raise Malformed("its answer is empty")
            return OperatorAnswer(about, found.done())
        except grpc.RpcError as error:
            raise self._refused(error) from None
        except Malformed as error:
            raise self.invalid_answer(error) from None

    def invalid_answer(self, why: object) -> NoAnswer:
        """Return the error about an answer that no correct node gives."""
        return NoAnswer(
            f"node {self.node} at {self.address} has sent an invalid answer: {_cut(why)}"
        )

    def _refused(self, error: Any) -> InvalidParameter | NoAnswer:
        code, why = error.code(), _cut(error.details())
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION):
            return InvalidParameter(why)
        if code == grpc.StatusCode.PERMISSION_DENIED:
            return NoAnswer(f"node {self.node} at {self.address} refuses: {why}")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            why = "it has not answered in time"
        if "Connection refused" in why:
            why = "the connection is refused; it does not run, or has no operator port there"
        if code == grpc.StatusCode.UNIMPLEMENTED:
            why = "this is not an operator port"
        return NoAnswer(f"node {self.node} does not answer at {self.address}: {why}")


def _cut(text: object) -> str:
    """Return a reason that others have given, short and without control characters."""
    found = printable(" ".join(str(text).split()))
    return found if len(found) <= _SHOWN else found[: _SHOWN - 1] + "…"
