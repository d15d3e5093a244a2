"""Models as safetensors files: named arrays, in a format without code, that other tools read.

A file is the length of a header (8 bytes, little-endian), the header (JSON: the type, the shape and
the place of every array) and the numbers. What a file says is checked before anything is
allocated: the arrays must fill the file exactly, one after the other, and none may be larger than
the file itself.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidData, InvalidParameter, MissingFile
from levywalk.whole_files import write_whole

_TYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_MOST_HEADER = 1 << 20  # bytes
_MOST_AXES = 32


def save_model(path: str | Path, model: Mapping[str, Any]) -> Path:
    """Write a model, which is named arrays, as a safetensors file.

    Parameters
    ----------
    path
        The file, which is replaced as a whole if it exists.
    model
        Names and arrays of float32 or float64, such as
        ``problem.arrays.unpack(trace.model[0])``, or a module's parameters.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import levywalk as lw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = lw.save_model(pathlib.Path(folder) / "a.safetensors", {"bias": np.ones(2)})
    ...     lw.load_model(file)
    {'bias': array([1., 1.])}
    """
    if not isinstance(model, Mapping) or not model:
        raise InvalidParameter(f"model must be a dict of names and arrays, got {model!r:.80}")
    header: dict[str, Any] = {}
    pieces, at = [], 0
    for name, value in model.items():
        array = np.asarray(value)
        if not isinstance(name, str) or name == "__metadata__" or array.dtype not in _NAMES:
            raise InvalidParameter(
                f"model must map names to arrays of float32 or float64, got {name!r}: {array.dtype}"
            )
        content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + len(content)],
        }
        pieces.append(content)
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise InvalidParameter(f"model must have fewer arrays, got {len(header)}")
    file = Path(path)
    write_whole(file, struct.pack("<Q", len(text)) + text + b"".join(pieces))
    return file


def load_model(path: str | Path) -> dict[str, AnyArray]:
    """Read a model from a safetensors file; a file that contradicts itself is refused.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.load_model("nowhere.safetensors")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: nowhere.safetensors does not exist
    """
    file = Path(path)
    if not file.is_file():
        raise MissingFile(f"{path} does not exist")
    size = file.stat().st_size
    with file.open("rb") as opened:
        first = opened.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else -1
        if not 2 <= length <= min(_MOST_HEADER, size - 8):
            raise InvalidData(f"{path} is no safetensors file: its header has an impossible length")
        header = _parsed(path, opened.read(length))
        room = size - 8 - length
        found: dict[str, AnyArray] = {}
        at = 0
        for name, entry in sorted(header.items(), key=lambda item: _place(path, *item)[0]):
            start, stop = _place(path, name, entry)
            dtype, shape = _TYPES[entry["dtype"]], entry["shape"]
            if start != at or stop > room or stop - start != dtype.itemsize * math.prod(shape):
                raise InvalidData(f"{path} contradicts itself: {name!r} does not fit its place")
            content = opened.read(stop - start)
            if len(content) != stop - start:
                raise InvalidData(f"{path} ends early, in {name!r}")
            native = dtype.newbyteorder("=")
            found[name] = np.frombuffer(content, dtype).astype(native).reshape(shape)
            at = stop
    if at != room:
        raise InvalidData(f"{path} contradicts itself: {room - at} bytes belong to no array")
    return {name: found[name] for name in header}


def _parsed(path: str | Path, text: bytes) -> dict[str, Any]:
    """Return the header's entries; a name that occurs twice is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        header = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{path} is no safetensors file: {error}") from None
    if not isinstance(header, dict):
        raise InvalidData(f"{path} is no safetensors file: its header is no dict")
    header.pop("__metadata__", None)
    if not header:
        raise InvalidData(f"{path} has no arrays")
    return header


def _place(path: str | Path, name: str, entry: Any) -> tuple[int, int]:
    """Return where an array begins and ends; refuse an entry that is not one of ours."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InvalidData(f"{path}: the entry of {name!r} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise InvalidData(f"{path}: {name!r} must be F32 or F64, got {dtype!r:.40}")
    for numbers, most in ((shape, _MOST_AXES), (offsets, 2)):
        if (
            not isinstance(numbers, list)
            or len(numbers) > most
            or not all(type(number) is int and 0 <= number < 2**48 for number in numbers)
        ):
            raise InvalidData(f"{path}: {name!r} has an impossible shape or place")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise InvalidData(f"{path}: {name!r} has an impossible place")
    return offsets[0], offsets[1]
