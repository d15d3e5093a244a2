"""Names and numbers of nodes: kept, shown, and found again; graphs of other libraries."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import levywalk as lw
from levywalk.errors import DataWarning, InvalidNetwork, InvalidParameter, NotConnected
from levywalk.remedy import command_line


@pytest.fixture
def write(tmp_path):
    def write(content: str, name: str = "net.csv"):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


def test_names_with_spaces_quotes_and_semicolons_are_read(write):
    expected = ["New York", "Oslo", "Rio de Janeiro"]
    for content in (
        "New York,Oslo\nOslo,Rio de Janeiro\n",
        '"New York";"Oslo"\n"Oslo";"Rio de Janeiro"\n',
        "New York\tOslo\nOslo\tRio de Janeiro\n",
    ):
        network = lw.read_network(write(content))
        assert network.labels.tolist() == expected
        assert network.names == tuple(expected)
        assert network.numbers_of(["Oslo", "Bergen"]).tolist() == [1, -1]


def test_a_node_is_shown_by_its_name(write):
    network = lw.read_network(write("ann,bob\neve,dan\n"))
    with pytest.raises(NotConnected, match=r"node 2 \('dan'\) cannot be reached .*; keep"):
        network.require_connected()
    with command_line(), pytest.raises(NotConnected, match=r"add --largest-component$"):
        network.require_connected()
    assert lw.ring(5).shown(3) == "3"


def test_the_base_of_the_ids_makes_missing_ids_nodes(write):
    file = write("1,2\n2,4\n")
    assert lw.read_network(file).labels.tolist() == [1, 2, 4]
    network = lw.read_network(file, node_base=1)
    assert (network.n, network.labels.tolist()) == (4, [1, 2, 3, 4])
    assert network.neighbours(1).tolist() == [0, 3]
    zero = lw.read_network(file, node_base=0)
    assert (zero.n, zero.labels) == (5, None)
    assert zero.names == ("0", "1", "2", "3", "4")
    with pytest.raises(InvalidNetwork, match="the id 0 is below the base 1; use node_base=0"):
        lw.read_network(write("0 1\n1 2\n"), node_base=1)
    with pytest.raises(InvalidNetwork, match="ids are names"):
        lw.read_network(write("a b\nb c\n"), node_base=0)
    with pytest.raises(InvalidNetwork, match="only 2 edges; leave node_base out"):
        lw.read_network(write("0 1\n1 99999999999\n"), node_base=0)
    with pytest.raises(InvalidParameter, match="node_base must be 0, 1 or None, got 2"):
        lw.read_network(file, node_base=2)


@pytest.mark.parametrize("suffix", [".npz", ".mtx", ".graphml"])
def test_other_formats_count_from_one_too(tmp_path, suffix):
    from scipy import io as scipy_io

    file = tmp_path / f"net{suffix}"
    graph = nx.path_graph(3)
    if suffix == ".graphml":
        nx.write_graphml(nx.relabel_nodes(graph, {0: 1, 1: 2, 2: 3}), file)
    elif suffix == ".npz":
        sparse.save_npz(file, nx.to_scipy_sparse_array(graph))
    else:
        scipy_io.mmwrite(file, nx.to_scipy_sparse_array(graph))
    network = lw.read_network(file, node_base=1)
    assert network.labels.tolist() == [1, 2, 3]
    assert network == lw.path(3)


class Vertices(dict):
    def attributes(self):
        return list(self)


class Vertexes:
    """A graph with the methods of igraph that are used."""

    def __init__(self, edges, names=None, directed=False, weights=None):
        self.edges, self.directed = edges, directed
        self.vs = Vertices({} if names is None else {"name": names})
        self.es = Vertices({} if weights is None else {"weight": weights})

    def vcount(self):
        return 1 + max(max(edge) for edge in self.edges)

    def get_edgelist(self):
        return self.edges

    def is_directed(self):
        return self.directed


def test_a_graph_with_the_methods_of_igraph_is_taken():
    network = lw.as_network(Vertexes([(0, 1), (1, 2)], names=["x", "y", "z"]))
    assert network == lw.path(3)
    assert network.names == ("x", "y", "z")
    with pytest.warns(DataWarning, match="dropped 1 weight; 2 of 2 arcs have no reverse"):
        lw.as_network(Vertexes([(0, 1), (1, 2)], directed=True, weights=[1, 3]))


def test_a_graph_of_igraph_is_taken_without_importing_igraph():
    igraph = pytest.importorskip("igraph")
    assert lw.as_network(igraph.Graph.Ring(7)) == lw.ring(7)
    named = igraph.Graph.TupleList([("a", "b"), ("b", "c")])
    assert lw.as_network(named).names == ("a", "b", "c")
    with pytest.warns(DataWarning, match="arcs have no reverse"):
        lw.as_network(igraph.Graph.Ring(5, directed=True))


def test_run_compare_and_walk_take_graphs_directly():
    graph, problem = nx.cycle_graph(12), lw.homogeneous(12)
    options = {"steps": 40, "step_size": "theory", "replicas": 2, "backend": "reference"}
    expected = lw.run(lw.ring(12), problem, lw.unif_rw(), **options)
    for given in (graph, nx.to_scipy_sparse_array(graph)):
        trace = lw.run(given, problem, lw.unif_rw(), **options)
        np.testing.assert_array_equal(trace.model, expected.model)
    del options["backend"]
    found = lw.compare(graph, problem, {"u": lw.unif_rw()}, **options)
    assert found.traces["u"].visits.shape == (2, 12)
    assert lw.walk(graph, lw.unif_rw(), steps=5).visits.sum() == 5


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("my.edges", r"for a file: lw.read_network\('my.edges'\)"),
        (np.eye(3), r"for a matrix: scipy.sparse.csr_array\(matrix\)"),
        ([(0, 1)], r"for pairs of node numbers: lw.Network.from_edges\(pairs\)"),
    ],
)
def test_what_is_no_graph_says_what_to_type(graph, said):
    with pytest.raises(InvalidNetwork, match=said):
        lw.run(graph, lw.homogeneous(3), lw.unif_rw(), steps=1, step_size=0.1)
