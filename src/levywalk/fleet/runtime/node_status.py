"""The status of a node: what its disk says, and whether its process runs.

The node itself answers with this (`control`). For a node that is down, the same is read from its
folder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from levywalk.fleet.protocol.links import LinkKind, Opening
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.records import NOBODY, Disk, Guarded, Held, HeldStatus, RegisterValue
from levywalk.fleet.protocol.starts import Starts
from levywalk.fleet.protocol.token import Token

# What a node adds, which does not know the fleet's folder, if it waits for one that is connected.
UNRESPONSIVE = ": look at its log; if its owner cannot help, levywalk fleet revoke"


def describe(disk: Disk) -> dict[str, Any]:
    """Return the contents of a disk in short, ready for JSON.

    Examples
    --------
    >>> from levywalk.fleet.protocol.records import Known, Own
    >>> from levywalk.fleet.protocol.token import FIRST
    >>> describe(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {}))["held"] is None
    True
    """
    return {
        "epoch": list(disk.known.epoch),
        "base": disk.known.base,
        "opened": None if disk.known.link is None else _opened(disk.known.link.opening),
        "held": None if disk.held is None else _held(disk.held),
        "guarded": None if disk.guarded is None else _guarded(disk.guarded),
        "final": None if disk.final is None else _token(disk.final),
        "degree": disk.own.degree,
        "leaving": disk.own.leaving,
        "liars": {str(lie.liar): list(lie.epoch) for lie in disk.liars if lie.pardon is None},
        "revoked": sorted(disk.revoked.nodes),
        "size": None if disk.size is None else list(disk.size[:2]),
        "fenced": None if disk.starts is None else disk.starts.fenced or None,
        "state_folders": None if disk.starts is None else _state_folders(disk.starts),
        "spent": None if disk.spent is None else disk.spent.releases,
        "refused": {
            str(one.node): {"count": one.times, "step": one.step, "avoided": one.avoided}
            for one in (() if disk.refusals is None else disk.refusals.senders)
        },
        "edges": {
            str(u): {"up": edge.up, "degree": edge.degree} for u, edge in sorted(disk.edges.items())
        },
    }


def _opened(opening: Opening) -> dict[str, Any]:
    """Return how the epoch was opened: after which one, and whether the operator revived a copy."""
    return {"parent": list(opening.parent), "revived": opening.kind == LinkKind.REVIVED}


def _state_folders(starts: Starts) -> dict[str, Any]:
    """Return what names this node's state folder, and those of its neighbours that it has seen."""
    seen = {str(u): [*past.past, past.origin] for u, past in sorted(starts.seen.items())}
    return {
        "own": starts.origin.hex(),
        "seen": {u: [name.hex() for name in names if name] for u, names in seen.items()},
    }


def _token(token: Token) -> dict[str, Any]:
    return {
        "epoch": list(token.epoch),
        "base": token.base,
        "seq": token.seq,
        "step": token.step,
        "transfers": token.transfers,
        "jumping": token.jumping,
        "diverged_at": None if token.diverged_at < 0 else token.diverged_at,
    }


def _held(held: Held) -> dict[str, Any]:
    return _token(held.token) | {
        "status": held.status,
        "guardian": None if held.guardian == NOBODY else held.guardian,
        "to": None if held.to == NOBODY else held.to,
        "live": held.status != HeldStatus.PREPARED,
    }


def _guarded(guarded: Guarded) -> dict[str, Any]:
    register = guarded.register
    return _token(guarded.copy) | {
        "holder": None if guarded.holder == NOBODY else guarded.holder,
        "register": "released" if isinstance(register, Certificate) else register,
        "before": None if guarded.activate is None else guarded.activate.guardian,
    }


def waits_for(
    disk: Disk,
    connected: set[int],
    renew_after: int,
    asked: Collection[int] = (),
    *,
    unresponsive: tuple[int, float | None] | None = None,
) -> str | None:
    """Return which node keeps the token here from moving, in words; None if there is none.

    ``asked`` are neighbours whose answer the walk needs before it decides. ``unresponsive`` is a
    node that is connected but should have answered long ago, and for how many seconds it has not;
    None if it is asked again, because it did not take the model the last time.
    """
    held = disk.held
    if held is None or held.status == HeldStatus.PREPARED:
        return None
    avoided = () if disk.refusals is None else sorted(disk.refusals.avoided)
    if held.status == HeldStatus.SEEKING and held.guardian == NOBODY and avoided:
        who = ", ".join(str(u) for u in avoided)
        return f"waits for a neighbour that can guard the model: it avoids {who}, whose models " + (
            "were refused"
        )
    needed = [(held.guardian, "its guardian"), (held.to, "the next node")]
    if held.status == HeldStatus.ACTIVE:
        needed = needed[:1] if held.token.step - held.copied >= renew_after else []
    if held.status == HeldStatus.WITHDRAWING:  # the next node is not needed any more
        needed = needed[:1]
    for node, what in needed:
        if node != NOBODY and node not in connected:
            return f"waits for {what}, node {node}, which does not answer"
        if unresponsive is not None and node == unresponsive[0]:
            seconds = unresponsive[1]
            said = (
                "did not take the model the last time"
                if seconds is None
                else f"has not answered for {seconds:.0f} s"
            )
            return f"waits for {what}, node {node}, which is connected and {said}{UNRESPONSIVE}"
    silent = sorted(set(asked) - connected)
    if silent:
        who = ", ".join(str(u) for u in silent)
        many = "s" if len(silent) > 1 else ""
        return f"waits for the answer{many} of node{many} {who} to the walk's question"
    return None


def waits_to_act(fenced: str, awaited: set[int]) -> str | None:
    """Return why a node that has started again does not act yet, or never will, in words.

    Examples
    --------
    >>> waits_to_act("", {5, 3})
    "waits until nodes 3, 5 confirm that this node's disk is up to date"
    """
    if fenced:
        return f"is fenced: {fenced}"
    if awaited:
        who = ", ".join(str(u) for u in sorted(awaited))
        confirm = f"nodes {who} confirm" if len(awaited) > 1 else f"node {who} confirms"
        return f"waits until {confirm} that this node's disk is up to date"
    return None


def needed_nodes(disk: Disk) -> set[int]:
    """Return the nodes without which the token at this node, or the one that it guards, cannot go
    on.
    """
    needed = set()
    if disk.held is not None and disk.final is None:
        prepared = disk.held.status == HeldStatus.PREPARED
        needed.add(disk.held.giver if prepared else disk.held.guardian)
    guarded = disk.guarded
    if guarded is not None and guarded.register != RegisterValue.REGENERATED and disk.final is None:
        needed.add(guarded.holder)
    return needed


def running(state: Path) -> int | None:
    """Return the id of the process that runs the node of a folder, or None.

    Zombies do not count, nor does another process that got the same id later.
    """
    try:
        return _holder(state)
    except (OSError, ValueError):
        return None


def is_dead(state: Path) -> bool:
    """Return whether a node's process certainly does not exist: no process has its id, and nobody
    has the lock. If something cannot be read, the answer is False. The id alone proves nothing,
    since it may be of another namespace.
    """
    try:
        with (state / "lock").open("rb") as lock:
            pid = _written_pid(lock)
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return not _exists(pid)
    except (OSError, ValueError):
        return False


def _holder(state: Path) -> int | None:
    """Return the id of the running process that has the lock of a folder."""
    with (state / "lock").open("rb") as lock:
        pid = _written_pid(lock)
        if not _exists(pid):
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return pid
        return None


def _written_pid(lock: BinaryIO) -> int:
    """Return the process id in a lock file; 1 and less would mean init, or groups of processes."""
    pid = int(lock.read(20))
    if not 1 < pid < 1 << 31:
        raise ValueError
    return pid


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True  # no /proc, or the process has just ended: the lock decides
    return status.rpartition(b")")[2].split()[0] not in (b"Z", b"X")
