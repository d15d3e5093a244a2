"""Metrics for Prometheus on a loopback address (``GET /metrics``),
and ``GET /healthz`` for probes.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from typing import TYPE_CHECKING

from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.runtime.few_connections import FewConnections
from levywalk.fleet.runtime.spending import spending_of

if TYPE_CHECKING:
    from levywalk.fleet.runtime.process import Process
    from levywalk.fleet.runtime.token_runner import TokenRunner
_PATIENCE = 5.0  # seconds for a request to arrive
_MOST = 16  # connections at a time; any user of the machine may open them
_ABOUT = {
    "up_seconds": ("gauge", "Seconds since the process started."),
    "epoch": ("gauge", "How often the token was restored, as far as this node knows."),
    "holds_token": ("gauge", "1 while this node holds the token."),
    "guards_token": ("gauge", "1 while this node guards the token."),
    "finished": ("gauge", "1 when this node knows the end of the walk."),
    "diverged": (
        "gauge",
        "1 if the last model at this node has overflowed: it is not updated any more.",
    ),
    "step": ("gauge", "Updates of the last model at this node."),
    "transfers": ("gauge", "Hand-offs of the last model at this node."),
    "silence_seconds": ("gauge", "Seconds since this node last saw a step of the walk."),
    "stalled": (
        "gauge",
        "1 if this node has seen no step for so long that the walk seems to have stopped.",
    ),
    "neighbours": ("gauge", "Neighbours in the node file."),
    "neighbours_connected": ("gauge", "Neighbours that are connected now."),
    "out_of_order": ("gauge", "1 while the node waits after an error, such as a full disk."),
    "fenced": ("gauge", "1 if neighbours have seen more of this node than its disk holds."),
    "answers_awaited": ("gauge", "Neighbours whose answers the node needs before it acts."),
    "commits_total": ("counter", "Transactions on the disk since the process started."),
    "regenerations_total": ("counter", "Tokens restored by this node."),
    "refused_total": ("counter", "Messages refused."),
    "models_refused_total": (
        "counter",
        "Models that this node has refused as a guardian, also before the process started.",
    ),
    "nodes_avoided": ("gauge", "Nodes that this node avoids, because it has refused their models."),
    "messages_sent_total": ("counter", "Messages sent to neighbours."),
    "messages_dropped_total": (
        "counter",
        "Messages dropped because a neighbour was not connected or too slow.",
    ),
    "certificate_expires_seconds": ("gauge", "When the node's certificate expires, as Unix time."),
    "hops_per_second": (
        "gauge",
        "Hand-offs per second of the fleet, measured between two visits here.",
    ),
    "local_loss": ("gauge", "This node's own loss of the last model that it received."),
    "privacy_updates_spent": (
        "gauge",
        "Updates that this node's privacy budget has spent; of several tokens, for each.",
    ),
    "privacy_updates_cap": (
        "gauge",
        "Updates that this node's privacy budget allows; of several tokens, for each.",
    ),
    "privacy_epsilon_spent": ("gauge", "Epsilon that this node has spent, for all tokens."),
    "privacy_epsilon_cap": ("gauge", "Epsilon that this node never exceeds, for all tokens."),
    "privacy_delta": ("gauge", "Delta of every epsilon."),
    "metric": ("gauge", "A metric of the last model received, on this node's held-out data."),
}  # the kind of every metric, and what it says


def text(process: Process) -> str:
    """Return all metrics in Prometheus' text format.

    If there are several tokens, what is about one of them has the label ``token``.
    """
    node = f'node="{process.file.id}"'
    found: dict[str, dict[str, float]] = {}  # by metric, by labels
    for name, value in _of_node(process).items():
        found[name] = {node: value}
    for runner in process.runners:
        labels = node if len(process.runners) == 1 else f'{node},token="{runner.number}"'
        for name, value in _of_token(runner).items():
            found.setdefault(name, {})[labels] = value
        for metric, value in runner.sightings.metrics().items():
            found.setdefault("metric", {})[f'{labels},metric="{metric}"'] = value
    lines = []
    for name, (kind, about) in _ABOUT.items():
        if name in found:
            lines += [f"# HELP levywalk_{name} {about}", f"# TYPE levywalk_{name} {kind}"]
            lines += [
                f"levywalk_{name}{{{labels}}} {_number(value)}"
                for labels, value in found[name].items()
            ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.17g}"
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _of_node(process: Process) -> dict[str, float]:
    """Return the metrics of the node that are known now."""
    links = process.transport.links.values()
    values: dict[str, float] = {
        "up_seconds": time.time() - process.began,
        "neighbours": len(process.file.neighbours),
        "neighbours_connected": sum(link.open for link in links),
        "messages_sent_total": sum(link.sent for link in links),
        "messages_dropped_total": sum(link.dropped for link in links),
        "certificate_expires_seconds": process.identity.certificate.not_valid_after_utc.timestamp(),
    }
    return values | _epsilon(process)


def _of_token(runner: TokenRunner) -> dict[str, float]:
    """Return the metrics of one token at the node that are known now."""
    node, disk, sightings = runner.node, runner.node.disk, runner.sightings
    seen, rate, loss = sightings.seen, sightings.rate(), sightings.loss()
    holds = disk.held is not None and disk.held.status != HeldStatus.PREPARED
    guards = disk.guarded is not None and disk.guarded.register is None and disk.final is None
    values: dict[str, float] = {
        "epoch": disk.known.epoch.counter,
        "holds_token": float(holds),
        "guards_token": float(guards),
        "finished": float(disk.final is not None),
        "diverged": float(seen is not None and seen.diverged_at >= 0),
        "step": 0 if seen is None else seen.step,
        "transfers": 0 if seen is None else seen.transfers,
        "silence_seconds": sightings.silence(),
        "stalled": float(runner.stalled),
        "out_of_order": float(bool(runner.out_of_order)),
        "fenced": float(bool(node.fenced)),
        "answers_awaited": len(node.awaited),
        "commits_total": runner.counts["commits"],
        "regenerations_total": runner.counts["regenerated"],
        "refused_total": runner.counts["refused"],
    }
    if node.published.check is not None:
        senders = () if disk.refusals is None else disk.refusals.senders
        values["models_refused_total"] = sum(one.times for one in senders)
        values["nodes_avoided"] = sum(one.avoided for one in senders)
    if rate is not None and disk.final is None and not runner.stalled:
        values["hops_per_second"] = rate
    if loss is not None:
        values["local_loss"] = loss["value"]
    bound = runner.manifest.published.privacy
    if bound is not None:
        values["privacy_updates_spent"] = min(_releases(runner), bound.cap)
        values["privacy_updates_cap"] = bound.cap
    return values


def _epsilon(process: Process) -> dict[str, float]:
    """Return what the node's budget has spent for all tokens, in ε; nothing without privacy."""
    bound = process.manifest.published.privacy
    told = spending_of(process.manifest, sum(map(_releases, process.runners)))
    if bound is None or told is None:
        return {}
    return {
        "privacy_epsilon_spent": told["epsilon_spent"],
        "privacy_epsilon_cap": told["epsilon_at_cap"],
        "privacy_delta": bound.privacy.delta,
    }


def _releases(runner: TokenRunner) -> int:
    """Return how many updates the node has made for a token."""
    spent = runner.node.disk.spent
    return 0 if spent is None else spent.releases


def serve(address: str, process: Process) -> FewConnections:
    """Answer requests until the server is closed."""
    host, _, port = address.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.write(_response(head, process))

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host.strip("[]"), int(port)), family=family)
        return FewConnections(
            listening,
            connected,
            most=_MOST,
            limit=16 * 1024,
            report=lambda why: process.log("metrics wait", level="warning", why=why),
        )
    except OSError as error:
        raise InvalidParameter(
            f"metrics {address} cannot be listened on ({error.strerror or error}): change it in "
            "the node file"
        ) from None


def _response(head: bytes, process: Process) -> bytes:
    request = head.split(b" ", 2)
    path = request[1] if len(request) > 2 and request[0] == b"GET" else b""
    status, body = "404 Not Found", "metrics are at /metrics\n"
    if path == b"/metrics":
        status, body = "200 OK", text(process)
    elif path == b"/healthz":
        status, body = (
            ("503 Service Unavailable", f"{process.out_of_order}\n")
            if process.out_of_order
            else ("200 OK", "ok\n")
        )
    head_lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(body.encode())}",
        "Connection: close",
    )
    return ("\r\n".join(head_lines) + "\r\n\r\n" + body).encode()
