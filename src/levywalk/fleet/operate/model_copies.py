"""A model at a node, and which of several is the one to take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levywalk.fleet.protocol.records import Disk
from levywalk.fleet.protocol.token import Token


class ModelCopy(NamedTuple):
    """A model at a node."""

    node: int
    token: Token
    final: bool
    place: str = ""  # held, guarded or final


def copies_of(node: int, disk: Disk | None) -> list[ModelCopy]:
    """Return the models on a node's disk."""
    if disk is None:
        return []
    found = {
        "held": None if disk.held is None else disk.held.token,
        "guarded": None if disk.guarded is None else disk.guarded.copy,
        "final": disk.final,
    }
    return [
        ModelCopy(node, token, final=place == "final", place=place)
        for place, token in found.items()
        if token is not None
    ]


def newest_copy(copies: Iterable[ModelCopy]) -> ModelCopy | None:
    """Return the copy of the highest epoch that has come furthest; a final one first."""
    return max(
        copies,
        key=lambda copy: (copy.token.epoch, copy.final, copy.token.step, copy.token.seq),
        default=None,
    )
