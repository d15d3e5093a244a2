"""An experiment file's settings written as TOML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any


def toml(settings: Mapping[str, Any]) -> str:
    """Return an experiment file with these settings.

    Examples
    --------
    >>> print(
    ...     toml(
    ...         {
    ...             "network": {"family": "ring", "n": 9},
    ...             "designs": {"a b": {"kind": "mhlj", "schedule": None}},
    ...         }
    ...     )
    ... )
    [network]
    family = "ring"
    n = 9
    <BLANKLINE>
    [designs."a b"]
    kind = "mhlj"
    >>> print(toml({"problem": {"snr": float("inf")}}))
    [problem]
    snr = inf
    """
    blocks = []
    for part, content in settings.items():
        if isinstance(content, dict):
            inner = {f"designs.{_key(name)}": table for name, table in content.items()}
            tables = inner if part == "designs" else {_key(part): content}
            blocks += [
                _block(title, table) for title, table in tables.items() if isinstance(table, dict)
            ]
    return "\n\n".join(blocks)


def _block(title: str, table: Mapping[str, Any]) -> str:
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in table.items() if value is not None]
    return "\n".join([f"[{title}]", *lines])


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _toml(text)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(
            f"{_key(key)} = {_toml(item)}" for key, item in value.items() if item is not None
        )
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf and nan, as TOML writes them
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
