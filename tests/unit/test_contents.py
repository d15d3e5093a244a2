"""Decompression stops at a limit, which the error states and an option raises."""

from __future__ import annotations

import gzip
import io
import resource
import subprocess
import sys

import numpy as np
import pytest

from levywalk import load_dataset, read_network
from levywalk.contents import VARIABLE, most_bytes, read_content, size_of_text
from levywalk.errors import InvalidData, InvalidNetwork, InvalidParameter, TooLarge


@pytest.mark.parametrize(
    ("name", "read"), [("a.txt.gz", read_network), ("a.csv.gz", load_dataset), ("a.svm.gz", None)]
)
def test_a_small_file_that_unpacks_to_much_is_refused(name, read, tmp_path):
    line = {"a.txt.gz": b"0 1\n", "a.csv.gz": b"1,2\n", "a.svm.gz": b"1 1:2\n"}[name]
    path = tmp_path / name
    path.write_bytes(gzip.compress(line * 40_000))
    with pytest.raises(
        TooLarge, match=r"more than 0 MiB after decompression.*max_bytes=8 \* 2\*\*30"
    ):
        (read or load_dataset)(path, max_bytes=1 << 16)


def test_a_gzipped_archive_is_bounded_too(tmp_path):
    file = io.BytesIO()
    np.savez(file, X=np.zeros((100_000, 2)), y=np.zeros(100_000))
    path = tmp_path / "a.npz.gz"
    path.write_bytes(gzip.compress(file.getvalue()))
    with pytest.raises(TooLarge, match="more than 1 MiB"):
        load_dataset(path, max_bytes=1 << 20)
    assert load_dataset(path)[0].shape == (100_000, 2)


def test_the_variable_raises_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(3000)))
    monkeypatch.setenv(VARIABLE, "2K")
    with pytest.raises(TooLarge):
        read_content(path, InvalidData)
    monkeypatch.setenv(VARIABLE, "4K")
    assert len(read_content(path, InvalidData)) == 3000
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(InvalidParameter, match="such as 500M or 8G"):
        most_bytes()


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "8X", "9" * 16])
def test_sizes_that_are_none_are_refused(text):
    with pytest.raises(InvalidParameter):
        size_of_text(text)


def test_a_bomb_takes_no_more_memory_than_the_limit(tmp_path):
    """2 MB that stand for 2 GB, in a child that may take 1 GB."""
    path = tmp_path / "bomb.txt.gz"
    piece = gzip.compress(b"0 1\n" * 1_000_000, 9)
    path.write_bytes(piece * 500)
    code = (
        "import sys, levywalk as lw\n"
        "try:\n    lw.read_network(sys.argv[1])\n"
        "except lw.LevywalkError as error:\n    print(type(error).__name__, error)\n"
    )
    most = 1 << 30
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("TooLarge")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for content in (b"no gzip", b"\x1f\x8b\x08broken"):
        path = tmp_path / "a.txt.gz"
        path.write_bytes(content)
        with pytest.raises(InvalidNetwork, match="damaged or cut off gzip"):
            read_network(path)
