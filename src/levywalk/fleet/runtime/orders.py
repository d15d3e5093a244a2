"""What an operator can ask of a running node, through its control socket.

Each token of a fleet has a socket of its own. Orders about the node itself (keys, stop) can be
given at any of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.certificates import expires_soon
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.events import (
    Event,
    Forgive,
    Genesis,
    Gone,
    Leaves,
    Pardoned,
    Resize,
    Revive,
    Revoke,
)
from levywalk.fleet.protocol.evidence import Pardon
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.guardian import best_copy
from levywalk.fleet.protocol.links import operators_word
from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.protocol.revocation import Revocation
from levywalk.fleet.protocol.surviving import token_of
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.runtime.node_status import describe, waits_for, waits_to_act
from levywalk.version import __version__

if TYPE_CHECKING:
    from levywalk.fleet.runtime.token_runner import TokenRunner


class Orders:
    """Answers an operator's questions and carries out orders."""

    def __init__(self, runner: TokenRunner) -> None:
        self.runner, self.process = runner, runner.process

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a question that came through the control socket."""
        orders: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": lambda _: self.status(),
            "begin": self._begin,
            "gone": self._gone,
            "forgive": self._forgive,
            "revive": self._revive,
            "pardon": self._pardon,
            "keys": self._keys,
            "revoke": self._revoke,
            "size": self._size,
            "prune": self._prune,
            "leave": lambda _: self._ordered(Leaves()),
            "stop": self._stop,
        }
        order = orders.get(str(asked.get("do")))
        if order is None:
            raise InvalidParameter(
                f"do must be one of {', '.join(orders)}, got {asked.get('do')!r}"
            )
        return order(asked)

    def _ordered(self, event: Event) -> dict[str, Any]:
        if self.runner.node.fenced:
            raise InvalidParameter(
                f"node {self.process.file.id} is fenced: {self.runner.node.fenced}; do: levywalk "
                f"fleet rejoin DIR {self.process.file.id}"
            )
        if self.runner.node.awaited and not isinstance(event, Gone | Pardoned | Revoke | Resize):
            why = waits_to_act("", self.runner.node.awaited)
            raise InvalidParameter(
                f"node {self.process.file.id} {why}. Start those nodes, or say that they are gone "
                "(levywalk fleet gone), and try again"
            )
        self.runner.event(event)
        if self.runner.out_of_order or self.process.failed:
            raise InvalidParameter(
                f"not done ({self.runner.out_of_order or self.process.failed}): see the node's "
                "log, and try again"
            )
        return {"done": True}

    def _begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.runner.manifest.start != self.process.file.id:
            raise InvalidParameter(
                f"the walk begins at node {self.runner.manifest.start}, not at node "
                f"{self.process.file.id}"
            )
        manifest = self.runner.manifest
        first = manifest.first_model(self.process.file.manifest.parent)
        return self._ordered(Genesis(manifest.published.first_token(first)))

    def _gone(self, asked: dict[str, Any]) -> dict[str, Any]:
        node = asked.get("node")
        if (
            type(node) is not int
            or node not in self.runner.node.disk.edges
            or node == self.process.file.id
        ):
            raise InvalidParameter(f"node {node} is not a neighbour of node {self.process.file.id}")
        if node in self.process.transport.links and self.process.transport.links[node].open:
            raise InvalidParameter(
                f"node {node} is not gone: it is connected to node {self.process.file.id}"
            )
        return self._ordered(Gone(node))

    def _forgive(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Forget that models of a node were refused."""
        refused = describe(self.runner.node.disk)["refused"]
        node = asked.get("node")
        if type(node) is not int or str(node) not in refused:
            return {"done": False}
        return self._ordered(Forgive(node))

    def _revive(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Make a copy on this node's disk a new epoch."""
        disk, number = self.runner.node.disk, asked.get("line")
        over = asked.get("over") is True
        if disk.final is not None and not over:
            raise InvalidParameter(
                f"the walk is over, as node {self.process.file.id} knows; if that is not true, "
                "--force revives a copy all the same"
            )
        if disk.held is not None and disk.held.status != HeldStatus.PREPARED:
            raise InvalidParameter(
                f"node {self.process.file.id} holds the model and can continue by itself"
            )
        if number is None:
            token = best_copy(disk)
        elif type(number) is int:
            line = next(self.runner.store.lines(number - 1), None)
            token = None if line is None else token_of(line, self.runner.manifest.published)
        else:
            raise InvalidParameter(f"line must be a number, got {number!r}")
        if token is None:
            raise InvalidParameter(f"node {self.process.file.id} has no copy there")
        why = self.runner.manifest.published.refuses(token)
        if why is not None:
            raise InvalidParameter(f"the copy of node {self.process.file.id} is not valid: {why}")
        order = _revival_order(asked, token, self.process.file.id)
        if order.digest != token.digest():
            raise InvalidParameter(
                f"the copy of node {self.process.file.id} has changed in the meantime: try again"
            )
        before = disk.held
        done = self._ordered(Revive(token, order, over=over))
        if self.runner.node.disk.held is before:
            raise InvalidParameter(
                f"node {self.process.file.id} does not accept the operator's order: it is not "
                "signed with the key that the manifest names, or a higher epoch is known there"
            )
        return done | {"step": token.step, "epoch": list(token.epoch)}

    def _pardon(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Let a node in again that has lied, on the operator's signed order."""
        node, epoch, signature = _about_node(asked, "let a node in again")
        done = self._ordered(Pardoned(Pardon(node, epoch, signature)))
        if str(node) in describe(self.runner.node.disk)["liars"]:
            raise InvalidParameter(
                f"node {self.process.file.id} does not accept the operator's order: it is not "
                f"signed with the key that the manifest names, or is not about the last lie of "
                f"node {node}"
            )
        return done

    def _revoke(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Let a node take no part any more, on the operator's signed order."""
        node, epoch, signature = _about_node(asked, "revoke a node")
        if not 0 <= node < self.runner.manifest.nodes:
            raise InvalidParameter(f"node must be below {self.runner.manifest.nodes}, got {node}")
        done = self._ordered(Revoke(Revocation(node, epoch, signature)))
        if node not in self.runner.node.disk.revoked.nodes:
            raise InvalidParameter(
                f"node {self.process.file.id} does not accept the operator's order: it is not "
                "signed with the key that the manifest names"
            )
        return done

    def _size(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Let the fleet have more nodes, on the operator's signed order."""
        size = _told_size(asked)
        done = self._ordered(Resize(size))
        known = self.runner.node.disk.size
        if known != size:
            kept = "none" if known is None else f"version {known.version}"
            raise InvalidParameter(
                f"node {self.process.file.id} does not accept the operator's order: it is not "
                f"signed with the key that the manifest names, or is not later than what it has "
                f"({kept})"
            )
        return done

    def _keys(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Use the keys and the certificate that the node file names now."""
        changed = self.process.take_keys()
        return {"done": True, "changed": changed}

    def _prune(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Remove old visits from the log."""
        limits = {name: asked.get(name) for name in ("keep_bytes", "older_than")}
        for name, value in limits.items():
            if value is not None and (type(value) not in (int, float) or not value >= 0):
                raise InvalidParameter(f"{name} must be a number of at least 0, got {value!r}")
        if self.runner.out_of_order or self.process.failed:
            raise InvalidParameter("not done: see the node's log, and try again")
        return {"removed": self.runner.store.prune(**limits)}

    def _stop(self, asked: dict[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_soon(self.process.over.set)
        return {"done": True}

    def status(self) -> dict[str, Any]:
        """Return the status of this node."""
        node, disk = self.runner.node, self.runner.node.disk
        terms, needed = self.runner.manifest.terms, node.unanswered(time.monotonic())
        unresponsive: tuple[int, float | None] | None = None
        if needed is not None and node.keeps_waiting(*needed):
            which, seconds = needed
            unresponsive = which, seconds if seconds > terms.dead_after else None
        waits = waits_to_act(node.fenced, node.awaited) or waits_for(
            disk,
            self._connected(),
            terms.renew_after,
            () if node.inquiry is None else node.inquiry.due,
            unresponsive=unresponsive,
        )
        found = describe(disk)
        for u, link in self.process.transport.links.items():
            about = {"connected": link.open, "why": link.why}
            found["edges"].setdefault(str(u), {"up": False, "degree": 0}).update(about)
        return found | {
            "id": self.process.file.id,
            "pid": os.getpid(),
            "run": self.runner.manifest.digest.hex(),
            "version": __version__,
            "began": self.process.began,
            "expires": self.process.identity.certificate.not_valid_after_utc.isoformat(),
            "expires_soon": expires_soon(self.process.identity.certificate),
            "rotation": self.process.identity.rotation,
            "hops_per_second": self.runner.sightings.rate(),
            "loss": self.runner.sightings.loss(),
            "metrics": self.runner.sightings.metrics(),
            "silence": self.runner.sightings.silence(),
            "patience": self.runner.sightings.patience(self.runner.manifest.terms.dead_after),
            "waits": self.runner.out_of_order or waits,
            "awaits": sorted(node.awaited),
            "counts": dict(self.runner.counts),
        }

    def _connected(self) -> set[int]:
        return {u for u, link in self.process.transport.links.items() if link.open}


def _told_size(asked: dict[str, Any]) -> FleetSize:
    """Return what the operator has signed about the fleet's size, from a request."""
    kinds = {"version": int, "nodes": int, "mean_smoothness": float, "signature": str}
    values: list[Any] = [asked.get(key) for key in kinds]
    right = all(type(one) is kind for one, kind in zip(values, kinds.values(), strict=True))
    if not right or not 0 < values[0] < 1 << 62:
        raise InvalidParameter("an order about the fleet's size needs the operator's signature")
    version, nodes, mean, signature = values
    return FleetSize(version, nodes, mean, bytes.fromhex(signature))


def _about_node(asked: dict[str, Any], what: str) -> tuple[int, Epoch, bytes]:
    """Return what the operator has signed about a node: the node, an epoch, the signature."""
    node, epoch, signature = (asked.get(key) for key in ("node", "epoch", "signature"))
    numbers = [node, *epoch] if isinstance(epoch, list) else []
    right = len(numbers) == 4 and all(type(one) is int and -1 <= one < 1 << 62 for one in numbers)
    if not right or not isinstance(signature, str):
        raise InvalidParameter(f"an order to {what} needs the operator's signature")
    number, *place = numbers
    return number, Epoch(*place), bytes.fromhex(signature)


def _revival_order(asked: dict[str, Any], token: Token, node: int) -> Certificate:
    """Return what the operator has signed, from a request to revive a copy."""
    counter, digest, signature = (asked.get(key) for key in ("counter", "digest", "signature"))
    if (
        type(counter) is not int
        or not 0 <= counter < 1 << 62
        or not isinstance(digest, str)
        or not isinstance(signature, str)
    ):
        raise InvalidParameter("an order to revive a walk needs the operator's signature")
    blank = operators_word(token, node, counter)
    return blank._replace(digest=bytes.fromhex(digest), signature=bytes.fromhex(signature))
