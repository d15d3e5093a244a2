"""The status of a whole fleet: where the model is, how far the walk is, what was lost.

Nodes may be down or stopped.

A node that runs is asked. The disk of a node that does not answer is read instead. It tells the
same, except for what is only in memory: the rate, the loss, and what the node waits for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from statistics import median
from typing import Any, NamedTuple

from levywalk.errors import LevywalkError
from levywalk.fleet.operate.false_ends import disputed_ends, false_ends
from levywalk.fleet.operate.log_text import count
from levywalk.fleet.operate.lost_updates import lost_updates
from levywalk.fleet.operate.means import mean_metrics, mean_of
from levywalk.fleet.operate.stopped_walk import able_to_continue, why_stopped
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import Began, Disk, Known, NewGeneration, Own
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.node_status import UNRESPONSIVE, describe, running
from levywalk.fleet.runtime.own_disk import read_disk
from levywalk.fleet.runtime.spending import fleet_spending, spending_of
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.storage.reader import OtherLine

PATIENCE = 1.0  # seconds to wait for a node's answer
_AT_ONCE = 32  # number of nodes that are asked at the same time
_TOKENS = ("held", "guarded", "final")
_REMEDY = {
    True: "do: levywalk fleet logs {at} says which guardian has signed it, and levywalk fleet "
    "revoke {at} NODE shuts it out",
    False: "do: levywalk fleet up {at}",
}
# Why a node waits after an error, and what helps.
_OUT_OF_ORDER = {
    "disk full": "make room on the disk of its state folder; it continues by itself",
    "no file descriptors": "raise the limit of open files (ulimit -n) and restart it, or wait: it "
    "tries again by itself",
    "fault": "levywalk fleet logs {at} --node {node} says what has failed; it tries again itself",
}
_ASKED = re.compile(r", node (\d+), which is connected")
NOTHING_KNOWN = describe(Disk(Known(FIRST, 0), Own(0, 0, leaving=False), {}))


class NodeRole(StrEnum):
    """What a node does for the token."""

    HOLDER = "holder"
    GUARDIAN = "guardian"
    NONE = ""


class NodeView(NamedTuple):
    """What is known about one node."""

    id: int
    pid: int | None
    answers: bool
    about: dict[str, Any]  # from `node_status.describe`, or from the node itself if it answers
    lines: tuple[OtherLine, ...]  # lines of its log that are not visits
    last: Visit | None  # the last line of its log
    error: str | None  # why its disk cannot be read
    name: str | None = None  # in the network file
    continued: frozenset[Epoch] = frozenset()  # epochs that it ended as the holder, with a new one
    measured: dict[str, float] = {}  # noqa: RUF012  # the last metrics in its log
    local: bool = False  # whether it runs on this machine or nowhere, as its neighbours do
    unreached: str | None = None  # of a node elsewhere that has not answered: why

    @property
    def metrics(self) -> dict[str, float]:
        """Its metrics of the last model that it received, or the last ones in its log."""
        return dict(self.about.get("metrics") or self.measured)

    @property
    def spent(self) -> int | None:
        """How many updates its privacy budget has spent for the token that this is about; None
        if that is not known.
        """
        return None if self.unreached is not None else self.about.get("spent")

    def waits_to_act(self, at: str) -> str | None:
        """Return why it does not act on what is on its disk, and what to type; None if it does."""
        fenced, awaited = self.about.get("fenced"), self.about.get("awaits")
        if fenced:
            return f"node {self.id} is fenced: {fenced}; do: levywalk fleet rejoin {at} {self.id}"
        if awaited:
            return (
                f"node {self.id} {self.about['waits']}; do: levywalk fleet up {at}, or levywalk "
                f"fleet gone {at} {awaited[0]} if it will never come back"
            )
        if self.answers and self.about["waits"] in _OUT_OF_ORDER:  # after an error
            remedy = _OUT_OF_ORDER[self.about["waits"]].format(at=at, node=self.id)
            return f"node {self.id} waits, {self.about['waits']}; do: {remedy}"
        return None

    def waits_for_others(self, at: str) -> str | None:
        """Return for which other node it waits with the model, and what to type if that is not
        clear; None if it waits for none, or does not act itself.
        """
        if not self.answers or not self.about["waits"] or self.waits_to_act(at) is not None:
            return None
        said, silent, _ = f"node {self.id} {self.about['waits']}".partition(UNRESPONSIVE)
        asked = _ASKED.search(said)
        if not silent or asked is None:
            return said + silent
        return (
            f"{said}; do: levywalk fleet logs {at} --node {asked[1]}, and if its owner cannot "
            f"help, levywalk fleet revoke {at} {asked[1]}"
        )

    @property
    def tokens(self) -> list[dict[str, Any]]:
        """Every copy of the model that it has, ready for JSON; none if its disk is fenced."""
        if self.about.get("fenced"):
            return []
        return [self.about[name] for name in _TOKENS if self.about[name] is not None]


def view_nodes(
    files: Mapping[int, NodeFile], manifest: Manifest, *, patience: float = PATIENCE
) -> list[NodeView]:
    """Ask all nodes at the same time, so that waiting for stopped nodes does not add up.

    Read the disks of those that do not answer.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(
            pool.map(
                lambda file: view_node(file, manifest, patience), (files[v] for v in sorted(files))
            )
        )


def view_node(file: NodeFile, manifest: Manifest, patience: float = PATIENCE) -> NodeView:
    """Look at one node."""
    pid, answer = running(file.state), None
    if pid is not None:
        try:
            answer = control.ask(file.state, "status", timeout=patience)
        except LevywalkError:
            pid = running(file.state)  # it may just have ended
    found = read_disk(file, manifest, state=answer is None)
    about = NOTHING_KNOWN if found.disk is None else describe(found.disk)
    return NodeView(
        file.id,
        pid,
        answer is not None,
        about if answer is None else answer,
        found.lines,
        found.last,
        found.error,
        file.name,
        found.continued,
        found.measured,
        local=all(peer.state is not None for peer in file.neighbours),
    )


def fleet_status(
    views: Sequence[NodeView], manifest: Manifest, *, begun: bool, at: str = "DIR"
) -> dict[str, Any]:
    """Return the status of the fleet, ready for JSON; ``at`` is its folder as it must be typed."""
    epoch, base = _winner(views)
    wrong = false_ends(views)
    no_end = wrong.keys() | disputed_ends(views)
    tokens = [
        token
        for one in views
        for token in one.tokens
        if Epoch(*token["epoch"]) == epoch
        and not (one.id in no_end and token is one.about["final"])
    ]
    finals = [token for token in tokens if any(token is one.about["final"] for one in views)]
    holder, guardian = _ended(views, finals[0]) if finals else _holder(views)
    latest = max(tokens, key=lambda token: (token["step"], token["transfers"]), default=None)
    answers = [one.about for one in views if one.answers]
    rates = [rate for about in answers if (rate := about["hops_per_second"]) is not None]
    losses = [about["loss"]["value"] for about in answers if about["loss"] is not None]
    up = [one.id for one in views if one.pid is not None]
    lost = lost_updates(views, epoch, base, manifest.terms.renew_after)
    waits = list(_waits(views, manifest, None if finals else holder, begun=begun, at=at))
    not_ends = [f"{one.why}; {_REMEDY[one.lied].format(at=at)}" for one in wrong.values()]
    waits += not_ends
    refused = _refused_models(views)
    dead = None
    if not finals and (begun or tokens or epoch != FIRST):
        dead = why_stopped(views, manifest, epoch, waits, at)
    if dead is not None and not able_to_continue(views, epoch):
        holder = guardian = None  # what old records name is no longer true
    return {
        "name": manifest.name,
        "run": manifest.run,
        "finished": bool(finals),
        "holder": holder,
        "guardian": guardian,
        "epoch": epoch.counter,
        "epoch_full": list(epoch),
        "step": base if latest is None else latest["step"],
        "steps": manifest.published.steps,
        "transfers": 0 if latest is None else latest["transfers"],
        "lost_updates": lost.certain,
        "lost_updates_at_most": lost.at_most,
        "memory_starts": _memory_starts(views, epoch),
        "hops_per_second": None if not rates or finals or dead is not None else median(rates),
        "loss": mean_of(losses) if losses else None,
        "loss_is_infinite": not all(map(math.isfinite, losses)),
        "metrics": mean_metrics([one.metrics for one in views]),
        "privacy": fleet_spending(manifest, {one.id: one.spent for one in views}, of_token=True),
        "diverged_at": None if latest is None else latest.get("diverged_at"),
        "stopped": dead,
        "waits": waits if dead is None else [dead, *waits],
        "false_ends": not_ends,
        "refused_models": refused,
        "revoked": sorted({v for one in views for v in one.about.get("revoked", ())}),
        "warnings": [
            f"the certificate of node {one.id} expires on {about['expires_soon']}; do: levywalk "
            f"fleet renew {at} --node {one.id}, or levywalk fleet rotate {at} --node {one.id}"
            for one in views
            if (about := one.about).get("expires_soon")
        ]
        + [said_refusal(one, at) for one in refused],
        "nodes_up": len(up),
        "nodes_down": sum(one.pid is None and one.unreached is None for one in views),
        "nodes_unreached": [one.id for one in views if one.unreached is not None],
        "nodes": [_row(one, holder, guardian, manifest, no_end) for one in views],
    }


def _refused_models(views: Sequence[NodeView]) -> list[dict[str, Any]]:
    """Return which nodes have refused whose models, as guardians."""
    return [
        {"by": one.id, "node": int(u)} | {name: told[name] for name in ("count", "step", "avoided")}
        for one in views
        for u, told in one.about.get("refused", {}).items()
    ]


def said_refusal(one: Mapping[str, Any], at: str) -> str:
    """Return in words that a guardian has refused a node's models, and what to type."""
    avoids = ", and avoids it" if one["avoided"] else ""
    return (
        f"node {one['by']} has refused {count(one['count'], 'model')} of node {one['node']}, the "
        f"last one after step {one['step']:,}{avoids}; do: levywalk fleet logs {at} --node "
        f"{one['by']} says why; levywalk fleet revoke {at} {one['node']} shuts it out, levywalk "
        f"fleet forgive {at} {one['node']} lets it take part again"
    )


def _memory_starts(views: Sequence[NodeView], winner: Epoch) -> list[dict[str, Any]]:
    """Return where the memory of walk and update has started again on the way to an epoch, and why,
    as far as the logs here tell.
    """
    lines = [line for one in views for line in one.lines]
    began = {line.epoch: line for line in lines if isinstance(line, Began) and line.possible}
    ends: dict[Epoch, float] = {winner: math.inf}
    while winner in began:
        ends[began[winner].parent] = min(began[winner].base, ends[winner])
        winner = began[winner].parent
    return [
        line.plain()
        for line in sorted(line for line in lines if isinstance(line, NewGeneration))
        if line.step <= ends.get(line.token_epoch, -1)
    ]


def _row(
    one: NodeView,
    holder: int | None,
    guardian: int | None,
    manifest: Manifest,
    no_end: Collection[int],
) -> dict[str, Any]:
    about = one.about
    edges = {u: edge for u, edge in about["edges"].items() if u != str(one.id)}
    role = {guardian: NodeRole.GUARDIAN, holder: NodeRole.HOLDER}.get(one.id, NodeRole.NONE)
    steps = [token["step"] for token in one.tokens]
    loss = about.get("loss")
    return {
        "id": one.id,
        "name": one.name,
        "pid": one.pid,
        "up": one.pid is not None,
        "answers": one.answers,
        "role": role,
        "epoch": about["epoch"][0],
        "step": max(steps, default=None),
        "finished": about["final"] is not None and one.id not in no_end,
        "leaving": about["leaving"],
        "edges_up": sum(edge["up"] for edge in edges.values()),
        "edges": {u: edge | {"why": edge.get("why", "")} for u, edge in edges.items()},
        "hops_per_second": about.get("hops_per_second"),
        "loss": None if loss is None else loss["value"],
        "loss_is_infinite": loss is not None and not math.isfinite(loss["value"]),
        "metrics": one.metrics,
        "privacy": spending_of(manifest, one.spent, of_token=True),
        "waits": about.get("waits"),
        "fenced": about.get("fenced"),
        "expires": about.get("expires"),
        "rotation": about.get("rotation"),
        "version": about.get("version"),
        "error": one.error,
        "unreached": one.unreached,
    }


def has_begun(views: Iterable[NodeView]) -> bool:
    """Return whether the walk has started, as far as nodes know."""
    return any(one.tokens or one.about["epoch"] != list(FIRST) for one in views)


def winning_epoch(views: Iterable[NodeView]) -> Epoch:
    """Return the highest announced epoch."""
    return _winner(views)[0]


def _winner(views: Iterable[NodeView]) -> tuple[Epoch, int]:
    """Return the highest announced epoch, and the step at which it began."""
    found = [(Epoch(*one.about["epoch"]), int(one.about["base"])) for one in views]
    found += [
        (line.epoch, line.base)
        for one in views
        for line in one.lines
        if isinstance(line, Began) and line.possible
    ]
    return max(found, default=(FIRST, 0))


def _holder(views: Iterable[NodeView]) -> tuple[int | None, int | None]:
    """Return the holder and the guardian of the model.

    While it moves, the last node that had it on disk counts as the holder.
    """
    found: list[tuple[Epoch, float, int, int | None]] = []
    for one in views:
        held, guarded = one.about["held"], one.about["guarded"]
        if one.about.get("fenced"):
            continue
        if held is not None and held["live"]:
            found.append((Epoch(*held["epoch"]), held["seq"], one.id, held["guardian"]))
        if guarded is not None and guarded["before"] is not None:
            found.append(
                (Epoch(*guarded["epoch"]), guarded["seq"] - 0.5, one.id, guarded["before"])
            )
        elif (
            guarded is not None and guarded["holder"] is not None
        ):  # the only trace of the holder if its disk is lost
            found.append(
                (Epoch(*guarded["epoch"]), guarded["seq"] - 0.75, guarded["holder"], one.id)
            )
    return max(found, key=lambda one: one[:2], default=(FIRST, 0, None, None))[2:]


def _ended(views: Iterable[NodeView], final: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return where the walk ended, as the log there says, and which node guarded the model last."""
    guards = [
        (one.about["guarded"]["seq"], one.about["guarded"]["holder"], one.id)
        for one in views
        if one.about["guarded"] is not None and one.about["guarded"]["epoch"] == final["epoch"]
    ]
    _, last, guardian = max(guards, default=(0, None, None), key=lambda guard: guard[0])
    for one in views:
        if one.last is not None and (list(one.last.token_epoch), one.last.step) == (
            final["epoch"],
            final["step"],
        ):
            return one.id, guardian if last == one.id else None
    return last, guardian


def _waits(
    views: Sequence[NodeView], manifest: Manifest, holder: int | None, *, begun: bool, at: str
) -> Iterable[str]:
    """Yield what keeps the walk from continuing."""
    yield from (found for one in views if (found := one.waits_to_act(at)) is not None)
    for one in views:
        if one.error is not None:
            yield f"node {one.id}'s disk cannot be read: {one.error}"
        if (found := one.waits_for_others(at)) is not None:
            yield found
    for one in views:
        if one.unreached is not None:
            yield f"node {one.id} has not answered, so this does not include it: {one.unreached}"
    known = {one.id: one for one in views if one.unreached is None}
    if not begun and not any(one.tokens for one in views):
        yield "the walk has not started"
    if all(one.pid is None for one in views):
        yield "no node runs" if known else "no node has answered"
    elif holder in known and known[holder].pid is None:
        yield (
            f"node {holder}, which holds the model, does not run: restart it to continue the walk; "
            "otherwise its "
            f"guardian restores the model after {manifest.terms.dead_after:g} s of silence"
        )
    elif holder in known and not known[holder].answers:
        yield f"node {holder}, which holds the model, does not answer: it is busy, or was stopped"
