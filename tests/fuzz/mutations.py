"""Structured mutations of valid files: bytes, cuts, numbers, lines, archive members, JSON."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from typing import Any

import numpy as np

Rng = np.random.Generator
NUMBERS = [
    "-1", "0", "1", "2147483648", "9223372036854775808", "1e400", "-1e300", "nan", "inf", "0x10",
    "1_000", "99999999999999999999999", "1.5", "", "-0", "1e-320", "\u0663", "9" * 5000,
]  # fmt: skip
VALUES = [
    None, True, -1, 0, 10**12, 2**63, 1e308, float("nan"), float("inf"), "", "../x", "/etc/passwd",
    [], {}, [[[]]], "\x00", "a" * 3000, {"kind": "mhlj"}, [1, "a", None], "tuned",
]  # fmt: skip
SIZES = [0, 1, 2, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]


def mutated(content: bytes, name: str, rng: Rng) -> bytes:
    """Return a mutated file; what a format is made of is mutated beside the plain bytes."""
    if name.endswith(".gz") and rng.random() < 0.7:
        return gzip.compress(mutated(gzip.decompress(content), name[:-3], rng), 1)
    for _ in range(int(rng.integers(1, 4))):
        choice = rng.random()
        if name.endswith(".npz") and choice < 0.7:
            content = _archive(content, rng)
        elif name.endswith(".json") and choice < 0.8:
            content = _json(content, rng)
        elif name.endswith((".npz", ".nc", ".gz")) or choice < 0.3:
            content = _bytes(content, rng)
        elif choice < 0.8:
            content = _number(content, rng)
        else:
            content = _lines(content, rng)
    return content


def _bytes(content: bytes, rng: Rng) -> bytes:
    if len(content) < 9 or rng.random() < 0.1:
        return content + bytes(rng.integers(256, size=4).tolist())
    if rng.random() < 0.15:
        return content[: int(rng.integers(len(content)))]
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(changed) - 8))
        if rng.random() < 0.6:
            changed[at] = int(rng.integers(256))
        else:
            width = int(rng.choice([2, 4, 8]))
            value = SIZES[int(rng.integers(len(SIZES)))] % (1 << 8 * width)
            changed[at : at + width] = value.to_bytes(width, "little")
    return bytes(changed)


def _number(content: bytes, rng: Rng) -> bytes:
    found = list(re.finditer(rb"[-+]?[0-9][0-9.eE+-]*", content))
    if not found:
        return _bytes(content, rng)
    one = found[int(rng.integers(len(found)))]
    new = NUMBERS[int(rng.integers(len(NUMBERS)))].encode()
    return content[: one.start()] + new + content[one.end() :]


def _lines(content: bytes, rng: Rng) -> bytes:
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    choice = int(rng.integers(5))
    if choice == 0:
        del lines[at]
    elif choice == 1:
        lines.insert(at, lines[int(rng.integers(len(lines)))])
    elif choice == 2:
        lines[at] = lines[at].replace(b" ", b",").replace(b"=", b":")
    elif choice == 3:
        lines[at] = b'\xff\xfe"' + lines[at]
    else:
        lines[at] = lines[at] * 50
    return b"\n".join(lines)


def _archive(content: bytes, rng: Rng) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # already damaged by an earlier mutation
        return _bytes(content, rng)
    names = list(members)
    if not names:
        return _bytes(content, rng)
    name = names[int(rng.integers(len(names)))]
    choice = int(rng.integers(5))
    if choice == 0:
        del members[name]
    elif choice == 1:
        members[name] = _bytes(members[name], rng)
    elif choice == 2:
        members[name] = _number(members[name][:128], rng) + members[name][128:]
    elif choice == 3:
        members[name] = members[names[int(rng.integers(len(names)))]]
    else:
        members[name] = _array(rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", int(rng.choice([0, 8]))) as archive:
        for one, data in members.items():
            archive.writestr(one, data)
    return file.getvalue()


def _array(rng: Rng) -> bytes:
    kinds = ["<i4", "<i8", "<u8", "<f8", "|b1", ">i8", "<c16", "<U3", "|S3", "<f2"]
    shape = [(0,), (3,), (2, 2), (), (1, 1, 1), (40,), (13,)][int(rng.integers(7))]
    values = rng.choice([0, 1, -1, 2, 10**7, 2**31], size=shape)
    kind = kinds[int(rng.integers(len(kinds)))]
    file = io.BytesIO()
    with np.errstate(all="ignore"):
        np.save(file, np.asarray(values).astype(kind))
    return file.getvalue()


def _json(content: bytes, rng: Rng) -> bytes:
    try:
        document = json.loads(content)
    except ValueError:
        return _bytes(content, rng)
    places: list[tuple[Any, Any]] = []
    _collect(document, places)
    if not places:
        return _bytes(content, rng)
    holder, key = places[int(rng.integers(len(places)))]
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = VALUES[int(rng.integers(len(VALUES)))]
    return json.dumps(document).encode()


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            _collect(value[key], places)
