"""What a fleet's status says in words, in the terminal and on the page of ``levywalk live``."""

from __future__ import annotations

from typing import Any


def said_lost(found: dict[str, Any], what: str = "") -> str:
    """Return how many updates are lost: a number, a range, or a lower bound."""
    if found["holder"] is None and found["stopped"]:
        return "an unknown number of updates"
    low, high = found["lost_updates"], found["lost_updates_at_most"]
    if high is None:
        return f"at least {low:,}{what}"
    if high > low:
        return f"{low:,} to {high:,}{what}"
    return f"{low:,}{what[:-1] if low == 1 else what}" if low else f"no{what}"


def said_diverged(found: dict[str, Any]) -> list[str]:
    """Return that the model has diverged, or nothing."""
    at = found["diverged_at"]
    if at is None:
        return []
    return [
        f"the model has diverged: update {at:,} would have overflowed; the model keeps its last "
        "finite value, and further updates change nothing"
    ]


def said_memory_starts(found: dict[str, Any]) -> list[str]:
    """Return that the method's memory has started again, with the last reason, or nothing."""
    if not found["memory_starts"]:
        return []
    last = found["memory_starts"][-1]
    whose = "" if last["node"] is None else f" (node {last['node']})"
    return [
        f"the memory of the method has started again, the last time before update "
        f"{last['step'] + 1:,}: {last['why']}{whose}"
    ]
