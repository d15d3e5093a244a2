"""Expensive results that all test processes of a session share.

A process that has nothing left to do takes over tests of one that is busy, also of one that makes a
module's fixture: without this, each of them would make the fixture again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def shared_folder(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Give a folder that is the same in all processes, to one of them at a time.

    The first finds it empty and fills it; the others wait, and read what is there.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    folder.mkdir(exist_ok=True)
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
