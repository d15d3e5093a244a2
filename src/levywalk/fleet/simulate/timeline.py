"""What happened to the model in a virtual fleet: as sentences, as numbers, and as data for a
figure.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

from levywalk.fleet.operate.log_text import epoch_name, sentence, short
from levywalk.fleet.operate.merge import Chain, winning_chain
from levywalk.fleet.protocol.records import HeldStatus
from levywalk.fleet.simulate.virtual import FaultKind, PlannedFault, Stay, TimedReport, VirtualFleet
from levywalk.remedy import python_or_command

_EDGES = ("edge down", "edge up")


class TimelineRow(NamedTuple):
    """One event; step and hand-offs are those of the token at that time."""

    time: float
    node: int
    what: str
    text: str
    step: int
    handoffs: int


def timeline(virtual: VirtualFleet) -> list[TimelineRow]:
    """Return what happened, in order.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.build import Fleet
    >>> virtual = VirtualFleet(
    ...     Fleet.of(lw.ring(12), lw.homogeneous(12), lw.mhlj(), steps=50, step_size="theory")
    ... )
    >>> virtual.run()
    True
    >>> for row in timeline(virtual):
    ...     print(row.node, row.text)
    0 creates the first model; node 1 guards it
    7 the walk is over after 50 updates
    """
    times = [stay.time for stay in virtual.path]
    handoffs = [
        0,
        *accumulate(
            int(a.node != b.node and a.epoch == b.epoch) for a, b in pairwise(virtual.path)
        ),
    ]
    down: set[tuple[int, int]] = set()
    ended = (-1, 0)  # how many stays there were at the end of the walk, and its updates
    rows = []
    for what, group in groupby(virtual.reports, key=lambda told: told.what):
        together = list(group)
        told = (
            _edges(together, down)
            if what in _EDGES
            else [(one, sentence(one.what, one.about)) for one in together]
        )
        for one, words in told:
            seen = bisect.bisect_right(times, one.time)
            if what == "finished":  # its last node has made updates after the token arrived
                ended = seen, one.about["step"]
            step = ended[1] if ended[0] == seen else virtual.path[seen - 1].step if seen else 0
            rows.append(
                TimelineRow(one.time, one.node, what, words, step, handoffs[max(0, seen - 1)])
            )
    return rows


def _edges(
    group: Sequence[TimedReport], down: set[tuple[int, int]]
) -> list[tuple[TimedReport, str]]:
    """Return one sentence about several edges.

    Edges that the other end has reported already are left out.
    """
    said = {(min(v, u), max(v, u)) for v, u in ((told.node, told.about["node"]) for told in group)}
    falls = group[0].what == "edge down"
    found = sorted(said - down if falls else said & down)
    (down.update if falls else down.difference_update)(said)
    if not found:
        return []
    shown = ", ".join(f"{v}–{u}" for v, u in found[:6]) + (
        f" and {len(found) - 6} more" if len(found) > 6 else ""
    )
    many = "s" if len(found) > 1 else ""
    return [
        (
            group[0]._replace(node=-1),
            f"edge{many} {shown} {'are' if many else 'is'} {'down' if falls else 'up'}",
        )
    ]


def summary(virtual: VirtualFleet) -> dict[str, Any]:
    """Return the result of the walk in numbers."""
    chain = winning_chain(virtual.logs, virtual.fleet.published)
    done = virtual.over
    final = virtual.final if done else None
    return {
        "finished": done,
        "seconds": round(virtual.now, 6),
        "updates": final.step if final else max(chain.visits, default=-1) + 1,
        "handoffs": final.transfers if final else None,
        "hops": final.hops if final else None,
        "messages": virtual.messages,
        "epochs": [{"epoch": list(epoch), "from_step": base} for epoch, base in chain.epochs],
        "lost_updates": None if chain.lost is None else len(chain.lost),
        "missing_steps": len(chain.missing),
        "too_late": [_typed(time, fault) for time, fault in virtual.to_come] if done else [],
        "why_not": "" if done else why_stuck(virtual),
    }


def _typed(time: float, fault: PlannedFault) -> str:
    return f"{fault.what} {short(sorted(fault.nodes)) if fault.nodes else fault.node}@{time:g}"


def why_stuck(virtual: VirtualFleet) -> str:
    """Return what a walk that does not continue waits for, and what would help.

    Only what an operator could see is used: the disks, and which answers nodes wait for.
    """
    runs = {v for v, machine in enumerate(virtual.machines) if machine.node is not None}
    if not runs:
        return "no node runs"
    if any(virtual.machines[v].disk["final"] is not None for v in runs):
        return "the walk is over, but some nodes cannot learn it: the network is not connected"
    for v, node in ((v, virtual.node(v)) for v in sorted(runs)):
        if node.fenced:
            remedy = python_or_command(
                "plan a fault 'rejoin'",
                f"let it start as a new node (--lose-disk {v}@TIME --gone {v}@TIME --restart "
                f"{v}@LATER)",
            )
            return f"node {v} is fenced, because {node.fenced}: {remedy}"
        if node.awaited:
            first = min(node.awaited)
            return (
                f"node {v} has started again and waits until node {first} confirms that its disk "
                "is up to date: restart that node, or tell the others that it is gone (--gone "
                f"{first}@TIME)"
            )
    helds = [
        (v, held)
        for v, machine in enumerate(virtual.machines)
        if (held := machine.disk["held"]) is not None
    ]
    working = [
        (held.token.epoch, held.token.seq, v, held)
        for v, held in helds
        if held.status != HeldStatus.PREPARED
    ]
    if not working:
        return "no disk holds the model, except as a copy"
    _, _, v, held = max(working, key=lambda found: found[:3])
    if v not in runs:
        return f"node {v}, which holds the model, does not run: restart it"
    guardian = held.guardian
    if guardian < 0:
        return f"node {v} holds the model and finds no node to guard it: it needs a neighbour"
    guarded = virtual.machines[guardian].disk["guarded"]
    waits, remedy, policy = (
        "cannot be reached",
        "restore the connection, ",
        ", or choose --policy eager",
    )
    if guardian not in runs:
        waits, remedy = "is dead", "restart it, "
    elif guarded is None or guarded.copy.epoch != held.token.epoch:
        waits, remedy, policy = (
            "has lost its disk",
            "",
            "",
        )  # it answers, so it is not considered dead
    return (
        f"node {v} holds the model and waits for its guardian, node {guardian}, which {waits}: "
        f"{remedy}tell the others "
        f"that it is gone (--gone {guardian}@TIME){policy}"
    )


class EpochPath(NamedTuple):
    """The path of the token in one epoch: at times[i] it came to nodes[i].

    A lost leg was replaced by a higher epoch.
    """

    name: str
    times: list[float]
    nodes: list[int]
    lost: bool


class TimelineData(NamedTuple):
    """A timeline as plain data: legs, marks (time, node, what), bars (node, from, to, what)."""

    n: int
    end: float
    legs: list[EpochPath]
    marks: list[tuple[float, int, str]]
    bars: list[tuple[int, float, float, str]]


def timeline_data(virtual: VirtualFleet) -> TimelineData:
    """Return the data of the timeline's figure."""
    chain = winning_chain(virtual.logs, virtual.fleet.published)
    marks = [
        (told.time, told.node, told.what)
        for told in virtual.reports
        if told.what
        in (
            "kill",
            "lose disk",
            "restart",
            "leave",
            "join",
            "regenerated",
            "model refused",
            "poison",
            "guardian gone",
            "finished",
        )
    ]
    return TimelineData(
        virtual.fleet.network.n,
        virtual.now,
        _legs(virtual.path, chain, virtual.now),
        marks,
        _bars(virtual),
    )


def _legs(path: Sequence[Stay], chain: Chain, end: float) -> list[EpochPath]:
    """Divide the token's path into epochs, and each epoch at the base of the next one: what comes
    after is lost.
    """
    ends = {epoch: base for (epoch, _), (_, base) in pairwise(chain.epochs)}
    winning = dict(chain.epochs)
    legs: list[EpochPath] = []
    for epoch in sorted({stay.epoch for stay in path}):
        stays = [stay for stay in path if stay.epoch == epoch]
        last = ends.get(epoch, 1 << 62)
        kept = [stay for stay in stays if epoch in winning and stay.step <= last]
        rest = stays[len(kept) - 1 if kept else 0 :] if len(kept) < len(stays) else []
        base = winning.get(epoch, min(stay.step for stay in stays))
        name = epoch_name(epoch) + (f", from step {base}" if base else "")
        for part, lost in ((kept, False), (rest, True)):
            if part:
                legs.append(EpochPath(name, [s.time for s in part], [s.node for s in part], lost))
    # The token stays at its last node until the next epoch begins or the walk is over. For a lost
    # leg this is not known.
    begins = sorted(leg.times[0] for leg in legs)
    for leg in legs:
        ended = leg.times[-1]
        leg.times.append(ended if leg.lost else next((t for t in begins if t > ended), end))
        leg.nodes.append(leg.nodes[-1])
    return legs


def _bars(virtual: VirtualFleet) -> list[tuple[int, float, float, str]]:
    """Return which nodes were away, and when: dead or disconnected."""
    since: dict[tuple[int, str], float] = {(v, "away"): 0.0 for v in virtual.first_absent}
    bars = []
    for told in virtual.reports:
        if told.what in (FaultKind.KILL, FaultKind.LOSE_DISK, "left"):
            since.setdefault((told.node, "away"), told.time)
        elif told.what in (FaultKind.RESTART, FaultKind.JOIN):
            ends = [(told.node, "away")]
            bars += [
                (v, since.pop((v, what)), told.time, what) for v, what in ends if (v, what) in since
            ]
        elif told.what == FaultKind.CUT:
            since |= {(v, "cut"): told.time for v in told.about["nodes"]}
        elif told.what == FaultKind.HEAL:
            whom = told.about.get("nodes") or [v for v, what in since if what == "cut"]
            bars += [
                (v, since.pop((v, "cut")), told.time, "cut") for v in whom if (v, "cut") in since
            ]
    return bars + [(v, began, virtual.now, what) for (v, what), began in since.items()]
