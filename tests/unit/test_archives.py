"""Archives from strangers: whatever the bytes, an array or an error, and never much memory."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest

from levywalk.archives import Archive, array_header
from levywalk.errors import InvalidData, LevywalkError
from levywalk.room import at_most


def _packed(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _raw(header: bytes, body: bytes = b"", name: str = "x.npy", method: int = 8) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, header + body)
    return file.getvalue()


def _header(text: str, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin-1")


def _archive(content: bytes, most: int = 1 << 20) -> Archive:
    return Archive(io.BytesIO(content), "x.npz", InvalidData, most)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(4, dtype=">i4"),
        np.array(3.5),
        np.empty((0, 4)),
        np.array([True, False]),
    ],
)
def test_arrays_come_back_as_they_were(array):
    found = _archive(_packed(x=array)).array("x")
    assert np.array_equal(found, array)
    assert found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an archive"),
        (b"PK\x05\x06" + b"\xff" * 18, "not an archive"),
        (_raw(b""), "must begin with numpy's header"),
        (_raw(b"\x93NUMPY\x09\x09"), "must begin with numpy's header"),
        (_raw(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"), "longer than 10000"),
        (_raw(_header("{'descr': '<f8', 'fortran_order': False, 'shape': (")), "cannot be read"),
        (_raw(_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}")), "holds object"),
        (_raw(_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}")), "shape"),
        (
            _raw(_header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**9,)}")),
            "cannot be read",
        ),
        (
            _raw(_header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,)}")),
            "more than the limit of 1 MiB",
        ),
        (
            _raw(_header("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"), bytes(8)),
            "does not have the size of its member",
        ),
        (_raw(_header("(" * 3000)), "cannot be read"),
        (_packed(x=np.zeros(2, dtype=[("a", "f8")])), "holds"),
        (_packed(y=np.zeros(2)), "has no array 'x', only 'y'"),
    ],
)
def test_damaged_archives_are_refused(content, message):
    with pytest.raises(InvalidData, match=message):
        _archive(content).array("x")


def test_a_member_that_says_it_is_small_is_not_unpacked_beyond_that():
    """The directory declares 100 bytes; the stream holds ten million."""
    header = _header("{'descr': '|u1', 'fortran_order': False, 'shape': (50,)}")
    content = bytearray(_raw(header, bytes(10_000_000)))
    declared = struct.pack("<I", len(header) + 10_000_000)
    assert content.count(declared) == 2
    content = content.replace(declared, struct.pack("<I", len(header) + 50))
    with pytest.raises(InvalidData, match=r"cannot be read|continues"):
        _archive(bytes(content)).array("x")


def test_a_member_that_says_it_is_huge_is_refused_before_anything_is_allocated():
    header = _header("{'descr': '|u1', 'fortran_order': False, 'shape': (2000000000,)}")
    content = bytearray(_raw(header, bytes(10)))
    declared = struct.pack("<I", len(header) + 10)
    content = content.replace(declared, struct.pack("<I", len(header) + 2_000_000_000))
    with pytest.raises(InvalidData, match="declares more bytes"):
        _archive(bytes(content), most=1 << 40)


def test_overlapping_repeated_and_encrypted_members_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", b"1")
        with pytest.warns(match="Duplicate"):
            archive.writestr("x.npy", b"2")
    with pytest.raises(InvalidData, match="same name"):
        _archive(file.getvalue())
    content = _packed(x=np.zeros(100), y=np.ones(100))
    found = _archive(content)
    found._zip.infolist()[0].compress_size = 10**6
    with pytest.raises(InvalidData, match="overlap"):
        found._checked_directory(len(content))
    lzma = io.BytesIO()
    with zipfile.ZipFile(lzma, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", b"1" * 100)
    with pytest.raises(InvalidData, match="unusual way"):
        _archive(lzma.getvalue())


def test_every_cut_and_many_flipped_bytes_give_an_array_or_an_error():
    content = _packed(x=np.arange(20), y=np.ones((3, 3)))
    rng = np.random.default_rng(0)
    damaged = [content[:length] for length in range(0, len(content), 7)]
    for _ in range(300):
        flipped = bytearray(content)
        for at in rng.integers(len(content), size=rng.integers(1, 4)):
            flipped[at] = rng.integers(256)
        damaged.append(bytes(flipped))
    for one in damaged:
        try:
            archive = _archive(one)
            for name in archive.names:
                archive.array(name)
        except LevywalkError:
            pass


def test_the_budget_bounds_an_array():
    content = _packed(x=np.zeros(1000))
    with at_most(1000), pytest.raises(InvalidData, match="more than the limit"):
        _archive(content).array("x")


def test_a_header_reads_as_numpy_reads_it():
    for array in (np.zeros((2, 3)), np.zeros(0, np.int8), np.asfortranarray(np.eye(2))):
        file = io.BytesIO()
        np.save(file, array)
        file.seek(0)
        shape, fortran, dtype = array_header(file)
        assert (shape, dtype) == (array.shape, array.dtype)
        assert fortran == (array.ndim == 2 and not array.flags.c_contiguous)
