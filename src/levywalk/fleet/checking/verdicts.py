"""What must hold in every state of a small fleet.

A verdict is an invariant and what is wrong, or None.
"""

from __future__ import annotations

from typing import Any

from levywalk.fleet.checking.small_fleet import SmallFleet, applied, last_visit
from levywalk.fleet.checking.states import LIVE, DiskValue
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.lineage import Lineage
from levywalk.fleet.protocol.links import EpochLink
from levywalk.fleet.protocol.messages import Certificate, Heartbeat, Message
from levywalk.fleet.protocol.records import NOBODY, Held, HeldStatus
from levywalk.fleet.protocol.token import Epoch, Token


def place(token: Token) -> str:
    """Return the position of a token in its history, in words."""
    return f"e{token.epoch.counter}.{token.epoch.node} seq {token.seq} step {token.step}"


def message_text(message: Message) -> str:
    """Return a message in a few words.

    Examples
    --------
    >>> from levywalk.fleet.protocol.messages import Alive
    >>> message_text(Alive(Epoch(1, 0, 2), 5))
    'Alive(e1.2 seq 5)'
    """
    name = type(message).__name__
    if isinstance(message, Heartbeat):
        return (
            f"Heartbeat(e{message.epoch.counter}.{message.epoch.node}"
            f"{', finished' if message.end else ''})"
        )
    parts: list[str] = []
    for part in message:
        if isinstance(part, Token):
            parts.append(place(part))
        elif isinstance(part, Certificate):
            parts.append(
                f"e{part.epoch.counter}.{part.epoch.node} seq {part.seq} → {part.to} by "
                f"{part.guardian}"
            )
        elif isinstance(part, Lie):
            parts.append(f"of node {part.liar}")
        elif isinstance(part, FleetSize):
            parts.append(f"version {part.version}")
        elif isinstance(part, EpochLink):
            one = part.opening
            parts.append(f"{one.kind} e{one.epoch.counter}.{one.epoch.node} seq {one.seq}")
    if not parts:
        epoch: Any = getattr(message, "epoch", None)
        parts.append(f"e{epoch.counter}.{epoch.node}")
        parts += [
            f"{key} {getattr(message, key)}" for key in ("seq", "to") if hasattr(message, key)
        ]
    return f"{name}({' '.join(parts)})"


def judge_facts(facts: list[tuple[Any, ...]]) -> tuple[str, str] | None:
    """Check I3, I4 and I6 on the facts.

    Examples
    --------
    >>> e = Epoch(0, 0, 0)
    >>> judge_facts([("activated", e, 2, 1), ("regenerated", e, 1, 0, 0)])
    ('I3', 'regenerated at e0.0 seq 1, but 2 was activated at node 1')
    >>> judge_facts([("activated", e, 2, 1), ("activated", e, 2, 0)])
    ('I4', 'e0.0 seq 2 was activated at nodes 1 and 0')
    """
    active: dict[tuple[Epoch, int], int] = {}
    visits: dict[tuple[Epoch, int], int] = {}
    for kind, epoch, number, other, *_ in facts:
        table = {"activated": active, "visited": visits}.get(kind)
        if table is None:
            continue
        first = table.setdefault((epoch, number), other)
        if first != other and kind == "activated":
            return (
                "I4",
                f"e{epoch.counter}.{epoch.node} seq {number} was activated at nodes {first} and "
                f"{other}",
            )
        if first != other:
            return (
                "I6",
                f"step {number} of e{epoch.counter}.{epoch.node} was done at nodes {first} and "
                f"{other}",
            )
    for kind, epoch, number, *_ in facts:
        for (other_epoch, seq), node in active.items():
            if kind == "regenerated" and epoch == other_epoch and seq > number:
                name = f"e{epoch.counter}.{epoch.node} seq {number}"
                return "I3", f"regenerated at {name}, but {seq} was activated at node {node}"
    return None


def two_live(memories: list[DiskValue]) -> tuple[str, str] | None:
    """Check I1. A token whose choice is released can only become a guardian's copy."""
    live: dict[Epoch, list[int]] = {}
    for v, memory in enumerate(memories):
        held = memory.held
        if held is not None and held.status in LIVE:
            live.setdefault(held.token.epoch, []).append(v)
    for epoch, nodes in live.items():
        if len(nodes) > 1:  # most states end here
            counted = [v for v in nodes if not _is_released(memories, v)]
            if len(counted) > 1:
                names = " and ".join(map(str, counted))
                return "I1", f"nodes {names} both have a live token of {epoch}"
    return None


def _is_released(memories: list[DiskValue], v: int) -> bool:
    """Return whether the choice of a node is released, by a certificate on any disk."""
    held = memories[v].held
    assert held is not None
    if held.to == NOBODY:
        return False
    token, sent = held.token, held.token.handed_over(v, held.to)
    released = (held.guardian, token.epoch, token.seq, held.to, v, sent.digest())
    for memory in memories:
        found: list[object] = [] if memory.held is None else [memory.held.right.release]
        if memory.guarded is not None:
            found += [memory.guarded.register, memory.guarded.activate]
        if any(isinstance(one, Certificate) and one[:6] == released for one in found):
            return True
    return False


def no_copy(living: list[DiskValue]) -> tuple[str, str] | None:
    """Check I2."""
    highest = max(memory.known.epoch for memory in living)
    registers = [memory.guarded.register for memory in living if memory.guarded is not None]
    digests = {register.digest for register in registers if isinstance(register, Certificate)}
    if any(_can_continue(memory, highest, digests) for memory in living):
        return None
    return "I2", f"nobody alive has a copy that can continue in {highest} or later"


def _can_continue(memory: DiskValue, epoch: Epoch, digests: set[bytes]) -> bool:
    held, guarded, final = memory.held, memory.guarded, memory.final
    holds = held is not None and (
        held.status != HeldStatus.PREPARED or held.token.digest() in digests
    )
    return (
        (held is not None and holds and held.token.epoch >= epoch)
        or (guarded is not None and guarded.register is None and guarded.copy.epoch >= epoch)
        or (final is not None and final.epoch >= epoch)
    )


def accused(memories: list[DiskValue]) -> tuple[str, str] | None:
    """Check that no node is reported to have lied: all nodes are honest here."""
    for v, memory in enumerate(memories):
        if memory.liars:
            return "lie", f"node {v} says that node {memory.liars[0].liar} has lied"
    return None


def wrong_choice(
    setting: SmallFleet, memories: list[DiskValue], facts: list[tuple[Any, ...]]
) -> tuple[str, str] | None:
    """Check I7: a token goes where the script says."""
    silent = {(hops, u) for kind, _, hops, u, *_ in facts if kind == "silence"}
    for v, memory in enumerate(memories):
        held = memory.held
        if held is not None and held.to != NOBODY and setting.asks:
            up = [u for u, edge in memory.edges if edge.up]
            left_out = {u for hops, u in silent if hops == held.token.hops - 1}
            older = _older(setting, held, [u for u in up if u not in left_out])
            if older is not None:
                return "I7", f"node {v} passes {place(held.token)} to {held.to}, not to {older}"
        elif held is not None and held.to != NOBODY:
            to = setting.choice(v, setting.script[held.token.step - 1], setting.around(v))
            if held.to != to:
                return (
                    "I7",
                    f"node {v} passes {place(held.token)} to {held.to}, the script says {to}",
                )
    return None


def _older(setting: SmallFleet, held: Held, near: list[int]) -> int | None:
    """Return a neighbour that answered and that the model should have gone to instead; None if
    there is none. (What a node with a new disk has answered is not known.)
    """
    since = Lineage(*held.token.memory).since
    sure = [u for u in {*near, held.to} if u != setting.forgetful]
    ages = {u: (last_visit(held.token, u, since), u) for u in sure}
    if held.to not in ages:
        return None
    first = min(ages, key=lambda u: ages[u])
    return None if first == held.to else first


def unknown_size(memories: list[DiskValue]) -> tuple[str, str] | None:
    """Check that no node has a token that was updated for a size which it does not know."""
    for v, memory in enumerate(memories):
        tokens = [] if memory.held is None else [memory.held.token]
        tokens += [] if memory.guarded is None else [memory.guarded.copy]
        tokens += [] if memory.final is None else [memory.final]
        known = 0 if memory.size is None else memory.size.version
        for token in tokens:
            if token.size > known:
                return (
                    "size",
                    f"node {v} has {place(token)} of size {token.size}, and knows {known}",
                )
    return None


def wrong_end(memories: list[DiskValue], facts: list[tuple[Any, ...]]) -> tuple[str, str] | None:
    """Check I6 for the final tokens."""
    for memory in memories:
        token = memory.final
        if token is None:
            continue
        steps = [step for step, _ in applied(token)]
        if steps != list(range(token.step)):
            return "I6", f"the model contains the steps {steps}"
        for step, node in applied(token)[token.base :]:
            if ("visited", token.epoch, step, node) not in facts:
                return "I6", f"step {step} at node {node} is in the model, but in no log"
    return None


def updates_at_risk(memories: list[DiskValue], facts: list[tuple[Any, ...]]) -> int:
    """Return how many updates a token of a regenerated epoch is ahead of the copy that
    continues.
    """
    lost = 0
    for kind, epoch, _, step, *_ in facts:
        if kind != "regenerated":
            continue
        tokens = [memory.held.token for memory in memories if memory.held is not None]
        tokens += [memory.final for memory in memories if memory.final is not None]
        lost = max([lost, *(token.step - step for token in tokens if token.epoch == epoch)])
    return lost
