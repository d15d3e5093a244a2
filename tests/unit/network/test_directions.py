"""Directed graphs of every kind: counted in the warning, or refused; undirected ones are silent."""

from __future__ import annotations

import io
import warnings

import networkx as nx
import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

import levywalk as lw
from levywalk.errors import DataWarning, InvalidNetwork
from levywalk.network.direction import declared_directed, one_way_and_distinct

ARCS = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 0)]  # three arcs have no reverse


def matrix_of(arcs):
    u, v = np.array(arcs).T
    return sparse.coo_array((np.ones(len(u)), (u, v)), shape=(4, 4))


def as_bytes(write):
    write(buffer := io.BytesIO())
    return buffer.getvalue()


DIRECTED = {
    "snap.txt": b"# Directed graph: x.txt\n" + b"".join(b"%d\t%d\n" % arc for arc in ARCS),
    "konect.txt": b"% asym unweighted\n" + b"".join(b"%d %d\n" % arc for arc in ARCS),
    "net.graphml": as_bytes(lambda file: nx.write_graphml(nx.DiGraph(ARCS), file)),
    "net.npz": as_bytes(lambda file: sparse.save_npz(file, matrix_of(ARCS))),
    "net.mtx": as_bytes(lambda file: scipy_io.mmwrite(file, matrix_of(ARCS))),
}


@pytest.mark.parametrize("name", DIRECTED)
def test_a_directed_file_is_counted_and_can_be_refused(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(DIRECTED[name])
    with pytest.warns(DataWarning, match="3 of 5 arcs have no reverse: read as undirected"):
        network = lw.read_network(file)
    assert network == lw.ring(4)
    with pytest.raises(InvalidNetwork, match=r"directed: 3 of 5 arcs .*directed='symmetrise'"):
        lw.read_network(file, directed="error")


def test_graphs_of_other_libraries_are_counted_and_can_be_refused():
    for graph in (nx.DiGraph(ARCS), matrix_of(ARCS), matrix_of(ARCS).tocsr()):
        with pytest.warns(DataWarning, match="3 of 5 arcs have no reverse"):
            assert lw.as_network(graph) == lw.ring(4)
        with pytest.raises(InvalidNetwork, match="3 of 5 arcs"):
            lw.as_network(graph, directed="error")


def test_an_edge_list_that_mixes_both_habits_is_counted(tmp_path):
    file = tmp_path / "net.txt"
    file.write_text("0 1\n1 0\n1 2\n2 3\n3 0\n")
    said = "dropped 1 duplicate edge; 1 edge is listed in both directions and 3 in one only"
    with pytest.warns(DataWarning, match=said):
        assert lw.read_network(file) == lw.ring(4)
    with pytest.raises(InvalidNetwork, match="1 edge is listed in both"):
        lw.read_network(file, directed="error")


@pytest.mark.parametrize(
    "content",
    [
        "0 1\n1 2\n2 3\n3 0\n",  # each edge once
        "0 1\n1 2\n2 3\n3 0\n1 0\n2 1\n3 2\n0 3\n",  # each edge in both directions
        "# Directed graph\n0 1\n1 2\n2 3\n3 0\n1 0\n2 1\n3 2\n0 3\n",  # SNAP's collaborations
        "# Undirected graph: x.txt\n0 1\n1 2\n2 3\n3 0\n",
        "# directed: false\n0 1\n1 2\n2 3\n3 0\n",
    ],
)
def test_an_undirected_list_is_read_in_silence_even_if_directions_are_refused(tmp_path, content):
    file = tmp_path / "net.txt"
    file.write_text(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lw.read_network(file, directed="error") == lw.ring(4)


def test_half_of_a_symmetric_matrix_is_undirected():
    full = nx.to_scipy_sparse_array(nx.cycle_graph(5), weight=None)
    for half in (sparse.triu(full), sparse.tril(full), full):
        assert lw.as_network(half, directed="error") == lw.ring(5)


def test_a_declaration_is_sought_in_the_leading_comments_alone():
    assert declared_directed("% asym positive\n")
    assert not declared_directed("0 1\n# Directed graph\n")
    assert not declared_directed("# non-directed\n# an undirected graph, not directed\n0 1\n")


def test_one_way_arcs_are_counted_as_sets_count_them():
    rng = np.random.default_rng(3)
    for _ in range(50):
        u, v = rng.integers(0, 6, size=(2, rng.integers(1, 30)))
        u, v = u[u != v], v[u != v]
        arcs = set(zip(u.tolist(), v.tolist(), strict=True))
        alone = sum((b, a) not in arcs for a, b in arcs)
        assert one_way_and_distinct(u, v) == (alone, len(arcs))
