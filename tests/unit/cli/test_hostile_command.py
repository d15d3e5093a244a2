"""The command line with sizes, files and terminals that are not what they should be."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import levywalk


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        pytest.param(["run", "--example"], marks=pytest.mark.more),
        pytest.param(["inspect", "ring:12", "--data", "homogeneous"], marks=pytest.mark.more),
        ["inspect", "γ:12"],
    ],
)
def test_every_terminal_can_print(arguments: list[str], tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "levywalk", *arguments],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == (2 if "γ:12" in arguments else 0)
    (done.stdout + done.stderr).decode("ascii")


def test_a_huge_family_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    done = levywalk("inspect", "star:2000000000", cwd=tmp_path)
    assert done.returncode == 2
    assert "star" in done.stderr or "a network holds at most" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.more
def test_the_limit_of_a_file_is_an_option(tmp_path: Path) -> None:
    edges = "".join(f"{v} {(v + 1) % 24}\n" for v in range(24)) + "# more\n" * 200
    (tmp_path / "net.txt.gz").write_bytes(gzip.compress(edges.encode()))
    done = levywalk("inspect", "net.txt.gz", "--max-file-size", "1K", cwd=tmp_path)
    assert done.returncode == 2
    assert "--max-file-size 8G" in done.stderr
    done = levywalk("--max-file-size=1M", "inspect", "net.txt.gz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = levywalk("inspect", "net.txt.gz", "--max-file-size", "much", cwd=tmp_path)
    assert done.returncode == 2
    assert "such as 500M or 8G" in done.stderr
