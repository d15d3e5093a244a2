from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from levywalk.errors import DataWarning, InvalidNetwork, InvalidParameter, MissingFile
from levywalk.network import Network, path, read_network, watts_strogatz
from levywalk.network.edgelist import _careful, _fast

MTX = b"%%MatrixMarket matrix coordinate pattern general\n"
DENSE = b"%%MatrixMarket matrix array real general\n"
GNUTELLA = Path(__file__).parents[2] / "data" / "p2p-Gnutella08.edges.gz"


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "net.txt") -> Path:
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    return write


@pytest.mark.parametrize(
    "content",
    [
        "0 1\n1 2\n",
        "0\t1\n1\t2",
        "0,1\n1,2\n",
        "0, 1\r\n1, 2\r\n",
        "# Nodes: 3 Edges: 2\n% another comment\n\n2 1 # here too\n1 0\n",
        "\ufeff1 0\n2 1\n",
        "source,target\n0,1\n1,2\n",
        "0 1 {}\n1 2 {}\n",
        "0 1 1.0\n1 2 1\n",
        "0,1,\n1,2,\n",
    ],
)
def test_edge_lists_of_every_habit_are_read(write, content):
    network = read_network(write(content))
    assert network == path(3)
    assert network.labels is None
    assert network.name == "net.txt"


def test_gaps_in_ids_are_closed_in_ascending_order_and_ids_kept(write):
    network = read_network(write("30 10\n10 20\n"))
    assert network.labels.tolist() == [10, 20, 30]
    assert network.neighbours(0).tolist() == [1, 2]
    far = read_network(write(f"5 {10**15}\n{10**15} 7\n"))
    assert far.labels.tolist() == [5, 7, 10**15]
    assert far.degree.tolist() == [1, 1, 2]


def test_names_are_read_as_ids(write):
    network = read_network(write("bob alice\nalice carol 1\n"))
    assert network.labels.tolist() == ["alice", "bob", "carol"]
    assert network.degree.tolist() == [2, 1, 1]


@pytest.mark.parametrize("extra", ["", "1 2 x y\n"])  # the last line needs the careful pass
def test_what_an_edge_list_loses_is_counted_in_one_warning(write, extra):
    content = "0 1 0.5\n1 0 1\n2 2 1\n1 2 7\n" + extra
    weights, duplicates = (3, "2 duplicate edges") if extra else (2, "1 duplicate edge")
    message = f"net.txt: dropped 1 self-loop, {duplicates}, {weights} weights;"
    with pytest.warns(DataWarning, match=message) as caught:
        network = read_network(write(content))
    assert len(caught) == 1
    assert network == path(3)


def test_the_fast_and_the_careful_pass_read_the_same():
    rows = [(4, 7, 1), (7, 4, 2.5), (9, 4, 1.0)]
    for extra, weights in [("", 1), (" 1", 1), (",88", 3)]:
        text = "# a comment\n" + "".join(f"{u},{v} {w}{extra}\n" for u, v, w in rows)
        fast, careful = _fast(text), _careful("net", text)
        assert fast is not None
        assert np.array_equal(fast[0], careful[0])
        assert fast[1] == careful[1] == weights


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("0 1\n1\n2 3\n", 2, "only one id in '1'"),
        ("# c\n0 1\n\n1 x\n", 4, "a name where other lines have integers in '1 x'"),
        ("a b\n0 1\n", 1, "a name where other lines have integers in 'a b'"),
        ("0 1\n-3 1\n", 2, "the negative id -3"),
        ("0 1\n1.5 2\n", 2, "the id 1.5, which is not an integer"),
        ("0 1\n1 1e3\n", 2, "the id 1e3, which is not an integer"),
        ("0 1\n1_000 2\n", 2, "the id 1_000, which is not an integer"),
        ("0,1\n1,,2\n", 2, "an empty id in '1,,2'"),
        (f"0 1\n1 {2**63}\n", 2, "does not fit in 64 bits"),
        ("to be or not to be\n", 1, "more than two names"),
        ("0 1\n" + "9" * 500 + " 1\n", 2, "9" * 60 + r"\.\.\.'"),
    ],
)
def test_a_bad_line_is_named_by_number_and_content(write, content, line, problem):
    with pytest.raises(InvalidNetwork, match=f"net.txt, line {line}: .*") as caught:
        read_network(write(content))
    assert "two node ids, such as '17 42'" in str(caught.value)
    assert len(str(caught.value)) < 600
    with pytest.raises(InvalidNetwork, match=problem):
        read_network(write(content))


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "net.txt", "is empty"),
        (b" \n\n", "net.mtx", "is empty"),
        (b"# only\n% comments\n", "net.txt", "only comments or blank lines"),
        (b"3 3\n", "net.txt", "at least 2 nodes, got 1"),
        (b"\x00\x01\x02\xff" * 20, "net.txt", "not text in UTF-8"),
        (b"\xff\xfe\xfa garbage", "net.csv", "not text in UTF-8"),
        (b"not gzip", "net.txt.gz", "damaged or cut off gzip"),
        (gzip.compress(b"0 1\n" * 1000, mtime=0)[:-12], "net.txt.gz", "damaged or cut off gzip"),
        (b"garbage", "net.mtx", "not a Matrix Market file"),
        (
            MTX + b"3 3 2\n1 2\n9 1\n",
            "net.mtx",
            r"line 4: should hold two indices in \[1, 3\], got '9 1'",
        ),
        (MTX + b"% c\n3 3 2\n1 2\n2 3 4\n", "net.mtx", "line 5: should hold two indices"),
        (MTX + b"3 3\n", "net.mtx", "line 2: should hold rows, columns and entries, got '3 3'"),
        (MTX + b"3 3 5\n1 2\n", "net.mtx", "5 entries announced, 1 found"),
        (MTX + b"3 3 2\n1 2\x002 3\n", "net.mtx", "not a Matrix Market file"),  # crashes scipy 1.17
        (MTX + b"3 3 0\n", "net.mtx", "at least one edge"),
        (MTX, "net.mtx", "no line with the sizes"),
        (MTX + b"3 3 999999999999\n1 2\n", "net.mtx", "far more than the file holds"),
        (MTX + b"2000000000 2000000000 1\n1 2\n", "net.mtx", "far more than the file holds"),
        (MTX + b"2 3 1\n1 2\n", "net.mtx", "must be square, got 2 x 3"),
        (
            MTX.replace(b"pattern", b"complex") + b"2 2 1\n1 2 1 1\n",
            "net.mtx",
            "got complex general",
        ),
        (MTX.replace(b"pattern", b"real") + b"2 2 1\n1 2 nan\n", "net.mtx", "NaN"),
        (
            MTX.replace(b"pattern", b"real") + b"2 2 1\n1 2 x\n",
            "net.mtx",
            "and a number, got '1 2 x'",
        ),
        (DENSE + b"2 2\n0\n1\nx\n0\n", "net.mtx", "line 5: should hold one number"),
        (b"<graphml><oops>", "net.graphml", "not GraphML"),
        (b"garbage", "net.graphml", "not GraphML"),
        (b"garbage", "net.npz", "not scipy.sparse.save_npz's format"),
    ],
)
def test_damaged_files_are_refused_with_the_reason(write, content, name, message):
    with pytest.raises(InvalidNetwork, match=message) as caught:
        read_network(write(content, name))
    assert name in str(caught.value)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa">]><graphml>&a;</graphml>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ENTITIES.encode(), "DOCTYPE or ENTITY"),
        (ENTITIES.encode("utf-16"), "UTF-8 only"),
        (b"<?xml version='1.0' encoding='cp037'?>" + ENTITIES.encode("cp037"), "UTF-8 only"),
    ],
)
def test_xml_entities_are_refused_in_any_disguise(write, content, message):
    with pytest.raises(InvalidNetwork, match=message):
        read_network(write(content, "net.graphml"))


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_an_npz_file_is_never_unpickled(write):
    buffer = io.BytesIO()
    trap = np.array([_Trap()])
    np.savez(
        buffer, format=np.array(b"csr"), shape=[2, 2], data=trap, indices=[0], indptr=[0, 1, 1]
    )
    for content in (buffer.getvalue(), pickle.dumps(_Trap())):
        with pytest.raises(InvalidNetwork, match=r"not scipy\.sparse"):
            read_network(write(content, "net.npz"))


def test_an_npz_file_with_indices_out_of_range_is_refused(write):
    buffer = io.BytesIO()
    np.savez(
        buffer, format=np.array(b"csr"), shape=[2, 2], data=[1.0], indices=[10**6], indptr=[0, 1, 1]
    )
    with pytest.raises(InvalidNetwork):
        read_network(write(buffer.getvalue(), "net.npz"))
    np.savez(buffer := io.BytesIO(), a=[1])
    with pytest.raises(InvalidNetwork, match=r"not scipy\.sparse"):
        read_network(write(buffer.getvalue(), "net.npz"))


def _store(network: Network, file: Path) -> None:
    """Write the network with the other libraries' writers."""
    graph = network.to_networkx()
    matrix = nx.to_scipy_sparse_array(graph, weight=None)
    writers = {
        ".graphml": lambda buffer: nx.write_graphml(graph, buffer),
        ".mtx": lambda buffer: scipy_io.mmwrite(buffer, matrix),
        ".npz": lambda buffer: sparse.save_npz(buffer, matrix),
        ".edgelist": lambda buffer: nx.write_edgelist(graph, buffer),
        ".csv": lambda buffer: nx.write_edgelist(graph, buffer, delimiter=",", data=False),
    }
    writers[file.suffixes[0]](buffer := io.BytesIO())
    content = buffer.getvalue()
    file.write_bytes(gzip.compress(content, mtime=0) if file.suffix == ".gz" else content)


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".graphml", ".mtx", ".npz", ".edgelist", ".csv"])
def test_what_networkx_and_scipy_write_is_read_back_equal(tmp_path, suffix, zipped):
    network = watts_strogatz(40, 4, 0.3, seed=2)
    file = tmp_path / f"net{suffix}{zipped}"
    _store(network, file)
    assert read_network(file) == network
    assert read_network(str(file), self_loops="counted") == network.with_self_loops("counted")


def test_graphml_names_and_weights_are_kept_and_dropped(tmp_path):
    graph = nx.DiGraph([("x", "y"), ("y", "z"), ("z", "y")])
    graph["x"]["y"]["weight"] = 2.0
    nx.write_graphml(graph, tmp_path / "net.graphml")
    with pytest.warns(DataWarning, match="dropped 1 weight;"):
        network = read_network(tmp_path / "net.graphml")
    assert network.labels.tolist() == ["x", "y", "z"]
    assert network == path(3)


def test_dense_and_symmetric_matrix_market_files_are_read(tmp_path):
    dense = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    scipy_io.mmwrite(tmp_path / "dense.mtx", dense)
    assert read_network(tmp_path / "dense.mtx") == path(3)
    for matrix in (dense, sparse.coo_array(dense)):
        for symmetry in ("general", "symmetric"):
            scipy_io.mmwrite(tmp_path / "half.mtx", matrix, symmetry=symmetry)
            assert read_network(tmp_path / "half.mtx") == path(3)
    skew = np.triu(dense) - np.tril(dense)
    scipy_io.mmwrite(tmp_path / "skew.mtx", skew, symmetry="skew-symmetric")
    with pytest.warns(DataWarning, match="dropped 2 weights"):
        assert read_network(tmp_path / "skew.mtx") == path(3)


def test_the_format_follows_the_suffix_unless_named(write):
    with pytest.raises(
        InvalidParameter, match=r"path must end in one of .*, got 'net.dat'; name the format"
    ):
        read_network(write("0 1\n", "net.dat"))
    assert read_network(write("0 1\n1 2\n", "net.dat"), format="edges") == path(3)
    assert read_network(
        write(gzip.compress(b"0 1\n1 2\n", mtime=0), "noext"), format="edges"
    ) == path(3)
    with pytest.raises(InvalidParameter, match=r"format must be one of 'edges', .*, got 'gml'"):
        read_network(write("0 1\n"), format="gml")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(MissingFile, match="no file at"):
        read_network(tmp_path / "nowhere.txt")
    with pytest.raises(InvalidParameter, match="folder"):
        read_network(tmp_path)


def test_a_real_peer_to_peer_network_is_read():
    network = read_network(GNUTELLA)
    assert (network.n, network.n_edges, network.components()) == (6301, 20777, 2)
    largest = read_network(GNUTELLA, largest_component=True)
    assert (largest.n, largest.n_edges, largest.components()) == (6299, 20776, 1)
    assert largest == network.largest_component()
    largest.require_connected()
