"""HDF5 files from strangers: what crashes the library or keeps it busy for ever ends a child, and
an error names the file.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

import levywalk as lw
from levywalk.trace import hdf5
from levywalk.trace.hdf5 import read_hdf5

DATA = Path(__file__).parents[2] / "data" / "hostile"
HANGS = [DATA / "hang-1.nc", DATA / "hang-2.nc"]


@pytest.fixture(scope="module")
def trace():
    return lw.run(
        lw.ring(9),
        lw.homogeneous(9, dim=2),
        lw.mhlj(),
        steps=20,
        step_size=0.01,
        backend="reference",
    )


def test_arrays_are_those_that_h5py_reads(trace, tmp_path):
    path = trace.save(tmp_path / "t.nc")
    found = read_hdf5(path, ("format", "nothing"))
    assert found.text == {"format": "levywalk-trace-1", "nothing": None}
    with h5py.File(path) as file:
        for name, array in found.arrays.items():
            assert np.array_equal(array, file[name][()], equal_nan=True)
    assert {"step", "model", "visits"} <= set(found.arrays)


def test_one_child_reads_many_files_and_a_new_one_follows_a_killed_one(trace, tmp_path):
    path = trace.save(tmp_path / "t.nc")
    read_hdf5(path, ())
    (first,) = hdf5._running
    read_hdf5(path, ())
    assert hdf5._running == [first]
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert "step" in read_hdf5(path, ()).arrays
    assert hdf5._running != [first]


@pytest.mark.parametrize("path", HANGS, ids=lambda path: path.stem)
def test_a_file_on_which_the_library_never_ends_is_refused(path):
    """Two mutated traces on which HDF5 loops; with a limit of half a second of processor time."""
    with pytest.raises(lw.InvalidTrace, match=r"crashed on it, or did not end|not a trace"):
        read_hdf5(path, ("format",), seconds=0.5)


def test_a_file_that_declares_huge_arrays_is_refused_before_they_are_allocated(tmp_path):
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("walk", shape=(10**6, 10**6), dtype="i4", chunks=(1000, 1000))
    with pytest.raises(lw.TooLarge, match="more than the limit"):
        read_hdf5(path, ())
    with h5py.File(path, "w") as file:  # 80 MB of zeros that are not stored
        file.create_dataset("walk", shape=(10**4, 10**3), dtype="i8", chunks=(1000, 1000))
    with pytest.raises(lw.TooLarge, match=r"for a file of 0\.0 MiB"):
        read_hdf5(path, ())


def test_a_file_that_points_to_other_files_is_refused(tmp_path):
    other = tmp_path / "secret.bin"
    other.write_bytes(bytes(80))
    path = tmp_path / "t.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("walk", shape=(10,), dtype="f8", external=[(str(other), 0, 80)])
    with pytest.raises(lw.InvalidTrace, match="no plain array"):
        read_hdf5(path, ())
    with h5py.File(tmp_path / "other.nc", "w") as file:
        file["x"] = np.arange(5)
    with h5py.File(path, "w") as file:
        file["walk"] = h5py.ExternalLink(str(tmp_path / "other.nc"), "x")
    with pytest.raises(lw.InvalidTrace, match="link"):
        read_hdf5(path, ())


@pytest.mark.parametrize("seed", range(3))
def test_damaged_bytes_give_a_trace_or_an_error(trace, tmp_path, seed):
    content = trace.save(tmp_path / "t.nc").read_bytes()
    rng = np.random.default_rng(seed)
    path = tmp_path / "damaged.nc"
    for _ in range(20):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=rng.integers(1, 6)):
            damaged[at] = rng.integers(256)
        path.write_bytes(bytes(damaged)[: rng.integers(len(content) // 2, len(content) + 1)])
        try:
            told = lw.load_trace(path).provenance["design"] and "damaged.nc"
        except lw.LevywalkError as error:
            told = str(error)
        assert "damaged.nc" in told
