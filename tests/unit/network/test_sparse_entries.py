"""Every array of every sparse format is checked before compiled code sees it.

The oracle of valid matrices is scipy's own conversion.
"""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from levywalk.errors import InvalidNetwork, TooLarge
from levywalk.network import Network, read_network
from levywalk.network.sparse_entries import ARRAYS, entries_of, entries_of_matrix

FORMATS = (*ARRAYS, "lil", "dok")
CRASH = {
    "format": np.array(b"csr"),
    "shape": [2, 2],
    "data": np.ones(0),
    "indices": np.zeros(0, np.int32),
    "indptr": np.array([0, 10**7, 0], np.int32),
}


def _random_matrix(seed: int, kind: str):
    rng = np.random.default_rng(seed)
    dense = (rng.random((12, 12)) < 0.2) * rng.integers(1, 5, (12, 12))
    return sparse.csr_array(dense).asformat(kind)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_entries_are_those_that_scipy_finds(kind, seed):
    matrix = _random_matrix(seed, kind)
    rows, columns, values = entries_of_matrix(matrix)
    dense = np.zeros(matrix.shape)
    np.add.at(dense, (rows, columns), values)
    assert np.array_equal(dense, matrix.toarray())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_files_of_every_format_give_the_same_network(kind, tmp_path):
    matrix = _random_matrix(3, kind)
    symmetric = (matrix + matrix.T).asformat(kind)
    symmetric.data[:] = symmetric.data != 0
    path = tmp_path / "net.npz"
    sparse.save_npz(path, symmetric)
    with pytest.warns(match="dropped"):
        found = read_network(path)
    with pytest.warns(match="dropped"):
        assert found == Network.from_scipy(sparse.coo_array(symmetric.toarray()))


def test_room_behind_the_last_entry_is_not_read():
    arrays = {"data": np.ones(4), "indices": np.array([1, 0, 1, 0]), "indptr": np.array([0, 1, 2])}
    rows, columns, _ = entries_of("csr", arrays, (2, 2))
    assert rows.tolist() == [0, 1]
    assert columns.tolist() == [1, 0]


def test_the_file_that_crashed_the_process_is_refused(tmp_path):
    """In a child, since it ended the process before."""
    path = tmp_path / "crash.npz"
    np.savez(path, **CRASH)
    code = (
        "import sys, levywalk as lw\n"
        "try:\n    lw.read_network(sys.argv[1])\n"
        "except lw.InvalidNetwork as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "indptr must not decrease" in done.stdout


VALID = {
    "csr": {"data": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 1, 2])},
    "csc": {"data": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 1, 2])},
    "bsr": {"data": np.ones((1, 2, 2)), "indices": np.array([0]), "indptr": np.array([0, 1])},
    "coo": {"data": np.ones(2), "row": np.array([0, 1]), "col": np.array([1, 0])},
    "dia": {"data": np.ones((2, 2)), "offsets": np.array([-1, 1])},
}
INTEGERS = ("indices", "indptr", "row", "col", "offsets")
MUTATIONS = [
    lambda a: a[:-1],
    lambda a: np.append(a, 0),
    lambda a: a * 0 - 1,
    lambda a: a * 0 + 10**7,
    lambda a: a.astype(float),
    lambda a: a.astype(complex),
    lambda a: a.astype(object),
    lambda a: a.astype("U1"),
    lambda a: a[None],
    lambda a: np.array(5),
    lambda a: a.astype(np.uint64) - np.uint64(2**63 + 5),
    lambda a: np.where(np.arange(a.size) == 1, 2**62, a),
]


@pytest.mark.parametrize("kind", VALID)
def test_each_damaged_array_is_refused(kind):
    """No mutation of an array of indices passes, except one that scipy itself takes as well."""
    refused = 0
    for name in (name for name in VALID[kind] if name in INTEGERS):
        for mutate in MUTATIONS:
            with np.errstate(all="ignore"):
                arrays = VALID[kind] | {name: mutate(VALID[kind][name])}
            try:
                rows, columns, values = entries_of(kind, arrays, (2, 2))
            except InvalidNetwork:
                refused += 1
                continue
            assert rows.shape == columns.shape == values.shape
            assert len(rows) == 0 or (min(rows.min(), columns.min()) >= 0)
            assert len(rows) == 0 or (max(rows.max(), columns.max()) < 2)
    assert refused >= 10


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_a_matrix_in_python_with_bad_pointers_is_refused(kind):
    matrix = _random_matrix(1, kind)
    matrix.indptr = np.array([0, 10**7, *[0] * (len(matrix.indptr) - 2)], dtype=np.int32)
    with pytest.raises(InvalidNetwork, match="indptr must not decrease"):
        Network.from_scipy(matrix)


def test_other_damaged_matrices_in_python_are_refused():
    lil = sparse.lil_array((2, 2))
    lil.rows[0], lil.data[0] = [10**9], [1.0]
    coo = sparse.coo_array(([1.0], ([0], [1])), shape=(2, 2))
    coo.coords = (np.array([-5], np.int32), np.array([1], np.int32))
    dia = sparse.dia_array((np.ones((1, 2)), [1]), shape=(2, 2))
    dia.offsets = np.array([2**40])
    for matrix in (lil, coo, dia):
        with pytest.raises(InvalidNetwork, match="not a valid"):
            Network.from_scipy(matrix)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": np.array(b"xyz")}, "the sparse format must be one of csr"),
        ({"format": np.array(7)}, "holds int64"),
        ({"shape": [2, 2, 2]}, "two sides"),
        ({"shape": [-2, 2]}, "two sides"),
        ({"shape": [2**40, 2**40]}, "two sides"),
        ({"shape": [3, 3]}, "indptr must have 4 entries"),
        ({"indices": np.zeros((2, 2), np.int32)}, "same length"),
        ({"data": np.ones(3, dtype=complex)}, "holds complex128"),
        ({"indptr": np.array([0, 1, 2])}, "indptr ends at 2, but there are 0 indices"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(change, message, tmp_path):
    path = tmp_path / "net.npz"
    np.savez(path, **(CRASH | {"indptr": np.array([0, 0, 0])} | change))
    with pytest.raises(InvalidNetwork, match=message):
        read_network(path)


def test_a_file_that_declares_far_more_nodes_than_entries_is_refused(tmp_path):
    path = tmp_path / "net.npz"
    sparse.save_npz(path, sparse.coo_array(([1.0], ([0], [1])), shape=(2**31 - 1, 2**31 - 1)))
    with pytest.raises((InvalidNetwork, TooLarge), match="nodes"):
        read_network(path)


def test_an_archive_that_packs_more_than_the_limit_is_refused(tmp_path):
    path = tmp_path / "net.npz"
    file = io.BytesIO()
    zeros = np.broadcast_to(np.zeros(1), (1_000_000,))
    np.savez_compressed(file, format=np.array(b"coo"), shape=[2, 2], data=zeros, row=[0], col=[1])
    path.write_bytes(file.getvalue())
    with pytest.raises(InvalidNetwork, match="more than the limit of 1 MiB"):
        read_network(path, max_bytes=1 << 20)
