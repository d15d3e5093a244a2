"""The faults of `levywalk fleet simulate`: read from its options, or drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levywalk.fleet.simulate.virtual import PlannedFault

Faults = list[str] | None


def read_faults(
    chosen: dict[str, Faults], cuts: Faults, n: int
) -> list[tuple[float, PlannedFault]]:
    """Read the faults of n nodes from the options.

    Examples
    --------
    >>> for time, fault in read_faults({"kill": ["5@1.5"]}, ["0-2,7@2-4"], 10):
    ...     print(time, fault.what, fault.node, sorted(fault.nodes))
    1.5 kill 5 []
    2.0 cut -1 [0, 1, 2, 7]
    4.0 heal -1 [0, 1, 2, 7]
    """
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.simulate.virtual import FaultKind, PlannedFault

    found = []
    for what, texts in chosen.items():
        for text in texts or []:
            option = f"--{what.replace(' ', '-')}"
            node, time = _at(option, "NODE@TIME, such as 5@1.5", text)
            fault = PlannedFault(FaultKind(what), _node(what, f"{option} {text}", node, n))
            found.append((_seconds(text, time), fault))
    for text in cuts or []:
        nodes, times = _at("--cut", "NODES@FROM-TO, such as 0-9@2-4", text)
        since, to, until = times.partition("-")
        if not to:
            raise InvalidParameter(f"--cut must be NODES@FROM-TO, such as 0-9@2-4, got {text!r}")
        begin, end, group = _seconds(text, since), _seconds(text, until), _nodes(text, nodes, n)
        if end <= begin:
            raise InvalidParameter(
                f"the cut {text!r} must end after it begins, got {since} to {until}"
            )
        found += [
            (begin, PlannedFault(FaultKind.CUT, nodes=group)),
            (end, PlannedFault(FaultKind.HEAL, nodes=group)),
        ]
    return found


def _at(option: str, form: str, text: str) -> tuple[str, str]:
    from levywalk.errors import InvalidParameter

    what, at, when = text.rpartition("@")
    if not at or not what or not when:
        raise InvalidParameter(f"{option} must be {form}, got {text!r}")
    return what, when


def _node(what: str, text: str, node: str, n: int) -> int | str:
    from levywalk.errors import InvalidParameter

    if node in ("holder", "guardian") and what != "join":
        return node
    if not node.isdecimal():
        who = "a number" if what == "join" else "a number, holder or guardian"
        raise InvalidParameter(f"the node in {text!r} must be {who}, got {node!r}")
    if int(node) >= n:
        raise InvalidParameter(f"the node in {text!r} must be one of 0 to {n - 1}, got {node}")
    return int(node)


def _nodes(text: str, nodes: str, n: int) -> frozenset[int]:
    from levywalk.errors import InvalidParameter

    found: set[int] = set()
    for part in nodes.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or not int(first) <= int(last) < n:
            raise InvalidParameter(
                f"the nodes in {text!r} must be such as 0-9,12, all below {n}, got {nodes!r}"
            )
        found.update(range(int(first), int(last) + 1))
    return frozenset(found)


def _seconds(text: str, time: str) -> float:
    from levywalk.errors import InvalidParameter

    try:
        value = float(time)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidParameter(
            f"the time in {text!r} must be a number of seconds of at least 0, got {time!r}"
        )
    return value


def draw_faults(
    count: int, n: int, duration: float, dead_after: float, seed: int
) -> list[tuple[float, PlannedFault]]:
    """Draw crashes with restart, and partitions that heal, over a duration."""
    from levywalk.draws import Domain, generator
    from levywalk.fleet.simulate.virtual import FaultKind, PlannedFault

    dice = generator(seed, Domain.FLEET, n)  # a stream that no node uses
    found = []
    for _ in range(count):
        begin = float(dice.uniform(0.0, duration))
        end = begin + float(dice.uniform(0.2, 3.0)) * dead_after
        v = int(dice.integers(n))
        if dice.random() < 0.7:
            found += [
                (begin, PlannedFault(FaultKind.KILL, v)),
                (end, PlannedFault(FaultKind.RESTART, v)),
            ]
        else:
            group = frozenset((v + i) % n for i in range(int(dice.integers(1, max(2, n // 2)))))
            found += [
                (begin, PlannedFault(FaultKind.CUT, nodes=group)),
                (end, PlannedFault(FaultKind.HEAL, nodes=group)),
            ]
    return found
