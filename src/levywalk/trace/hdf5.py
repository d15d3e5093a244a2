"""The arrays of an HDF5 file, read by a child process that can be ended (see `hdf5_child`)."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidTrace, TooLarge
from levywalk.remedy import python_or_command
from levywalk.room import LARGEST_ARRAY, budget

_SECONDS = 20.0  # of the processor for a small file …
_BYTES_PER_SECOND = 5 << 20  # … and one more for so many bytes
_DENSEST = 1_100  # bytes that zlib packs into one, at most (1,032), and some room
_LONGEST_HEADER = 64 << 20


@dataclass(frozen=True)
class Hdf5Content:
    """The text attributes of a file, None where there is none, and its arrays, by name."""

    text: dict[str, str | None]
    arrays: dict[str, AnyArray]


def read_hdf5(path: Path, attributes: tuple[str, ...], seconds: float = _SECONDS) -> Hdf5Content:
    """Return all plain arrays of an HDF5 file, and these attributes of the file itself.

    A file that crashes the HDF5 library, or keeps it busy for longer than ``seconds`` of processor
    time and a second per 5 MiB, is refused.
    """
    size = path.stat().st_size
    limit = min(LARGEST_ARRAY, budget() // 2)
    request: dict[str, Any] = {
        "path": str(path.resolve()),
        "attributes": attributes,
        "most": min(limit, _DENSEST * size),
        "seconds": seconds + size / _BYTES_PER_SECOND,
    }
    with _lock:
        try:
            found = _child().ask(request)
        except BaseException:
            _end_child()
            raise
    if found is None:
        raise InvalidTrace(
            f"{path} is not a trace: the HDF5 library crashed on it, or did not end within "
            f"{request['seconds']:.0f} s of computing; the file is damaged"
        )
    header, arrays = found
    if "too_large" in header:
        raise TooLarge(
            f"{path}: its arrays take {header['too_large'] / 2**20:,.1f} MiB, more than the limit "
            f"of {request['most'] / 2**20:,.1f} MiB for a file of {size / 2**20:,.1f} MiB"
        )
    if "error" in header:
        raise InvalidTrace(f"{path} is not a trace: {header['error']}; {traces_come_from()}")
    return Hdf5Content(header["text"], arrays)


def traces_come_from() -> str:
    """Return what writes files with traces, for messages."""
    writers = python_or_command(
        "Trace.save", "`levywalk run FILE.toml` and `levywalk compare NETWORK`"
    )
    return f"traces are written by {writers}"


class _Child:
    """A reader process; it ends when its stdin ends, and so with this process."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("hdf5_child.py")
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process alone
        )

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, AnyArray]] | None:
        """Return header and arrays, or None if the child has ended."""
        source, sink = self.process.stdout, self.process.stdin
        assert source is not None
        assert sink is not None
        try:
            sink.write(json.dumps(request).encode() + b"\n")
            sink.flush()
            line = source.readline(_LONGEST_HEADER)
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            _end_child()
            return None
        header = json.loads(line)
        arrays = {}
        for name, kind, shape in header.get("arrays", ()):
            array = np.empty(shape, dtype=np.dtype(kind))
            view = array.data.cast("B") if array.size else memoryview(b"")
            position = 0
            while position < len(view):
                read = source.readinto(view[position:])  # type: ignore[attr-defined]
                if not read:
                    _end_child()
                    return None
                position += read
            arrays[name] = array
        return header, arrays

    def end(self) -> None:
        """End the child, whatever it is doing."""
        if self.owner == os.getpid():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


_lock = threading.Lock()
_running: list[_Child] = []


def _child() -> _Child:
    """Return the child of this process; the one of a process that was forked is not shared."""
    if _running and (_running[0].owner != os.getpid() or _running[0].process.poll() is not None):
        _end_child()
    if not _running:
        _running.append(_Child())
    return _running[0]


@atexit.register
def _end_child() -> None:
    while _running:
        _running.pop().end()
