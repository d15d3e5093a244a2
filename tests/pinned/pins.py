"""Turn results into pins, and compare results with them; what is exact and what is close enough."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("pins.json")

RELATIVE = 1e-9
# Beside the relative tolerance: an entry that is far smaller than its array's largest one (a
# coordinate of a model that passes zero, an excess loss f(x) - f(x*) near the optimum) is a
# difference of large numbers and has lost digits. This much of the largest entry is forgiven.
FLOOR = 1e-12

WHOLE = 24  # arrays of up to so many numbers are stored whole …
KEPT = 20  # … and of others so many entries, evenly spread, and their norm
DIGITS = 24  # of a digest that are stored
BEGINS = 6  # integers that are stored beside a digest, for a message that can be read

Pin = dict[str, Any]


def pin(value: Any) -> Pin:
    """Return what is stored of a result: of integers a digest, of numbers some and their norm."""
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        numbers = np.ascontiguousarray(array, dtype="<i8")
        digest = hashlib.sha256(repr(array.shape).encode() + numbers.tobytes()).hexdigest()[:DIGITS]
        return {
            "shape": list(array.shape),
            "begins": numbers.ravel()[:BEGINS].tolist(),
            "sha256": digest,
        }
    if array.dtype.kind != "f":
        raise TypeError(f"a result must be integers or real numbers, got {value!r}")
    entries = array.ravel().astype(np.float64)
    if entries.size <= WHOLE:
        return {"shape": list(array.shape), "entries": [_written(x) for x in entries]}
    kept = entries[np.linspace(0, entries.size - 1, KEPT).round().astype(int)]
    finite = entries[np.isfinite(entries)]
    largest = float(np.abs(finite).max(initial=0.0))
    norm = largest * float(np.linalg.norm(finite / largest)) if largest > 0.0 else 0.0
    # The norm is of the finite entries; how many there are is stored beside it.
    return {
        "shape": list(array.shape),
        "entries": [_written(x) for x in kept],
        "norm": _written(norm),
        "finite": int(finite.size),
    }


def _written(x: float) -> float | str:
    """Return a number as JSON can hold it: infinities and NaN as text."""
    return float(x) if np.isfinite(x) else repr(float(x))


def first_difference(found: Mapping[str, Any], pinned: Mapping[str, Pin]) -> str | None:
    """Return what differs first between results and pins, with both values, or None."""
    if list(found) != list(pinned):
        missing, new = [k for k in pinned if k not in found], [k for k in found if k not in pinned]
        if missing or new:
            return f"the quantities differ: missing {missing}, not pinned {new}"
    for name, value in found.items():
        difference = _difference(pin(value), pinned[name])
        if difference:
            return f"{name}: {difference}"
    return None


def _difference(found: Pin, pinned: Pin) -> str | None:
    if found["shape"] != pinned["shape"]:
        return f"shape {found['shape']}, pinned {pinned['shape']}"
    if "sha256" in found or "sha256" in pinned:
        if found.get("sha256") == pinned.get("sha256"):
            return None
        return f"digest {_shown(found)}, pinned {_shown(pinned)}"
    if found.get("finite") != pinned.get("finite"):
        return f"{found.get('finite')} finite entries, pinned {pinned.get('finite')}"
    here, there = (np.array([float(x) for x in one["entries"]]) for one in (found, pinned))
    scale = float(np.abs(there[np.isfinite(there)]).max(initial=0.0))
    close = np.isclose(here, there, rtol=RELATIVE, atol=FLOOR * scale, equal_nan=True)
    if not close.all():
        i = int(np.argmin(close))
        return f"stored entry {i} is {float(here[i])!r}, pinned {float(there[i])!r}"
    if "norm" in pinned and not np.isclose(found["norm"], pinned["norm"], rtol=RELATIVE, atol=0.0):
        return f"the norm of all entries is {found['norm']!r}, pinned {pinned['norm']!r}"
    return None


def _shown(one: Pin) -> str:
    if "sha256" not in one:
        return f"of numbers {one['entries'][:BEGINS]}"
    return f"{one['sha256'][:12]}… (begins {one['begins']})"


def exact(value: Any) -> str:
    """Return the digest of all bytes of a result, numbers included, with its shape and kind."""
    array = np.asarray(value)
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    data = np.ascontiguousarray(array, dtype=kind).tobytes()
    return hashlib.sha256(f"{kind} {array.shape} ".encode() + data).hexdigest()


def write(pins: Mapping[str, Mapping[str, Pin]], path: Path) -> None:
    """Write pins, one quantity a line, so that a diff can be read."""
    cases = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in pins[name].items()
        )
        + "\n}"
        for name in sorted(pins)
    ]
    path.write_text("{\n" + ",\n".join(cases) + "\n}\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read pins or exact digests, by case and quantity."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
