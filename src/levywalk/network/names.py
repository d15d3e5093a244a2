"""How messages, tables and pages call a node."""

from __future__ import annotations

from collections.abc import Sequence


def shown_node(v: int, names: Sequence[object] | None) -> str:
    """Return a node's number, and its name if nodes have names and this one is not the number.

    Examples
    --------
    >>> shown_node(1, None), shown_node(1, ["Oslo", "Bergen"]), shown_node(1, ["0", "1", "3"])
    ('1', "1 ('Bergen')", '1')
    """
    if names is None or str(names[v]) == str(v):
        return str(v)
    return f"{v} ({str(names[v])!r})"
