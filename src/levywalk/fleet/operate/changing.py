"""One command at a time changes the files of a fleet's folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levywalk.fleet.operate.node_processes import FleetProblem


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Keep other commands from changing node files in a folder.

    The lock is the operating system's, so it ends with the process, however that ends.

    Raises
    ------
    FleetProblem
        If another command changes them at the moment.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FleetProblem(
                f"another command changes the node files of {folder} (levywalk fleet join or "
                "rotate): try again when it has ended"
            ) from None
        yield
    finally:
        os.close(number)
