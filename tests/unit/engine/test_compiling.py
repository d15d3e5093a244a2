"""Compiled code on installations that cannot be written to, and with an index of other sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import levywalk
from tests.limits import PATIENCE

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import levywalk as lw
trace = lw.run(lw.ring(12), lw.homogeneous(12, dim=2), lw.unif_rw(), steps=20, step_size=0.01,
               progress="shown" in sys.argv)
print(lw.__file__, trace.model.sum())
"""


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *words],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


def copied(folder: Path) -> Path:
    """Return a copy of the package without compiled code, as pip installs it."""
    source = Path(levywalk.__file__).parent
    for file in source.rglob("*.py"):
        target = folder / "levywalk" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    return folder


@pytest.mark.more
def test_an_installation_that_cannot_be_written_to_compiles_without_a_store(tmp_path: Path) -> None:
    package = copied(tmp_path / "installed")
    # A file where numba would make its folder: nobody, not even root, can write there.
    for folder in [package / "levywalk", *(package / "levywalk").rglob("*/")]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    here = run(package, HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "home"))
    assert str(package) in here.stdout
    assert here.stderr.count("NUMBA_CACHE_DIR") == 1
    elsewhere = run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert elsewhere.stdout == here.stdout
    assert "NUMBA_CACHE_DIR" not in elsewhere.stderr


def test_compiling_is_announced_once_and_an_unreadable_index_is_replaced(tmp_path: Path) -> None:
    package, cache = copied(tmp_path / "installed"), tmp_path / "cache"
    first = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert first.stderr.count("Compiling, once per machine") == 1
    again = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert "Compiling" not in again.stderr
    indices = list(cache.rglob("*walkers*.nbi"))
    assert indices
    for index in indices:
        # What pickle finds if a class was renamed since: the stamp is right, a name in it is not.
        index.write_bytes(index.read_bytes().replace(b"Scratch", b"Sketchy"))
    mended = run(package, "shown", NUMBA_CACHE_DIR=str(cache))
    assert mended.stdout == again.stdout
    assert mended.stderr.count("Compiling, once per machine") == 1
