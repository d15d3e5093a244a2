"""Read an HDF5 file in a process of its own: this file is run as a script and imports no levywalk.

A damaged file can make the HDF5 library loop forever or crash, and neither can be stopped from
within Python. Requests come as lines of JSON on stdin. The answer is a line of JSON, and after it
the bytes of the arrays. The processor time of a request is limited by a timer that ends the
process; its memory by RLIMIT_AS.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

_MOST_ARRAYS = 1_000
_CODED = ("scale_factor", "add_offset", "missing_value", "units")  # netCDF's codes for numbers
_NOT_VARIABLES = b"This is a netCDF dimension but not a netCDF variable"


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the header of the answer and the arrays, in the header's order."""
    with h5py.File(request["path"], "r") as file:
        text = {name: _text(file.attrs, name) for name in request["attributes"]}
        if len(file) > _MOST_ARRAYS:
            raise ValueError(f"{len(file)} arrays")
        chosen, total = {}, 0
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link")
            item = file[name]
            if not isinstance(item, h5py.Dataset) or _is_dimension(item):
                continue
            if item.dtype.kind not in "biuf" or item.is_virtual or item.external:
                raise ValueError(f"{name!r} is no plain array of numbers in this file")
            if any(key in item.attrs for key in _CODED) or (
                "_FillValue" in item.attrs and item.dtype.kind != "f"
            ):
                raise ValueError(f"{name!r} holds numbers in a code")
            total += math.prod(item.shape) * item.dtype.itemsize
            if total > request["most"]:
                return {"too_large": total}, []
            chosen[name] = item
        arrays = {}
        for name, item in chosen.items():
            array = np.ascontiguousarray(item[()], dtype=item.dtype.newbyteorder("="))
            arrays[name] = array.astype(bool) if _text(item.attrs, "dtype") == "bool" else array
    header = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    return {"text": text, "arrays": header}, list(arrays.values())


def _is_dimension(item: Any) -> bool:
    name = item.attrs.get("NAME")
    return isinstance(name, bytes) and name.startswith(_NOT_VARIABLES)


def _text(attributes: Any, name: str) -> str | None:
    value = attributes.get(name)
    value = value.decode() if isinstance(value, bytes) else value
    return value if isinstance(value, str) else None


def main() -> None:
    """Answer requests until stdin ends."""
    out = sys.stdout.buffer
    base = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for line in sys.stdin:
        request = json.loads(line)
        most = base + 3 * request["most"] + (256 << 20)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])  # SIGPROF ends the process
        try:
            header, arrays = answer(request)
        except Exception as error:  # h5py raises nearly any type
            told = " ".join(str(error).split())[:200]
            header, arrays = {"error": f"{type(error).__name__}: {told}"}, []
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        out.write(json.dumps(header).encode() + b"\n")
        for array in arrays:
            out.write(array.data if array.size else b"")
        out.flush()


if __name__ == "__main__":
    main()
