"""Values of the command line that replace those of an experiment file: ``--set run.steps=5000``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from levywalk.errors import InvalidSpec


def parse_override(text: str) -> dict[str, Any]:
    """Read one ``--set KEY=VALUE``: the key dotted as in TOML, the value TOML or else plain text.

    Examples
    --------
    >>> parse_override("run.steps=500"), parse_override("run.start=target")
    ({'run': {'steps': 500}}, {'run': {'start': 'target'}})
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidSpec(f"--set takes KEY=VALUE, such as run.steps=5000, got {text!r}")
    for candidate in (value, '"' + value.strip().replace("\\", "\\\\").replace('"', '\\"') + '"'):
        try:
            return tomllib.loads(f"{key}={candidate}")
        except (ValueError, RecursionError):
            continue
    raise InvalidSpec(
        "--set takes a dotted key, such as run.steps=5000 or 'designs.\"my name\".p_jump=0.2', "
        f"got {text!r}"
    )


def merge_overrides(texts: list[str]) -> dict[str, Any]:
    """Read several ``--set``; later ones replace earlier ones."""
    found: dict[str, Any] = {}
    for text in texts:
        found = merged(found, parse_override(text))
    return found


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables with the values of ``base``, replaced by those of ``over``.

    Examples
    --------
    >>> merged({"run": {"steps": 5, "seed": 1}}, {"run": {"steps": 7}})
    {'run': {'steps': 7, 'seed': 1}}
    """
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out
