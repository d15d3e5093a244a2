"""Convert values to what JSON can represent."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """Return the value with plain numbers; numbers that JSON cannot represent become None.

    Examples
    --------
    >>> finite({"steps": math.inf, "nodes": (1, 2)})
    {'steps': None, 'nodes': [1, 2]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
