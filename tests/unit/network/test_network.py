from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from levywalk.errors import DataWarning, InvalidNetwork, InvalidParameter, NotConnected, TooLarge
from levywalk.network import Network, complete, path, ring


def test_rows_are_sorted_symmetric_and_typed():
    network = Network.from_edges([(3, 1), (0, 3), (2, 0)])
    assert network.n == 4
    assert network.indptr.tolist() == [0, 2, 3, 4, 6]
    assert network.indices.tolist() == [2, 3, 3, 0, 0, 1]
    assert network.indptr.dtype == network.degree.dtype == np.int64
    assert network.indices.dtype == np.int32
    assert network.degree.tolist() == [2, 1, 1, 2]
    assert network.n_edges == 3
    assert network.labels is None


def test_counted_policy_puts_one_loop_per_node_into_the_rows():
    network = Network.from_edges([(0, 1), (1, 2)], self_loops="counted")
    assert network.indices.tolist() == [0, 1, 0, 1, 2, 1, 2]
    assert network.degree.tolist() == [2, 3, 2]
    assert network.n_edges == 2
    assert network.neighbours(1).tolist() == [0, 1, 2]


def test_changing_the_policy_and_back_changes_nothing():
    plain = ring(7)
    counted = plain.with_self_loops("counted")
    assert counted == ring(7, self_loops="counted")
    assert counted != plain
    assert counted.with_self_loops("none") == plain
    assert plain.with_self_loops("none") is plain


def test_a_network_cannot_be_changed():
    network = Network.from_networkx(nx.path_graph("abc"))
    for array in (network.indptr, network.indices, network.degree, network.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(FrozenInstanceError):
        network.name = "other"


def pickled(network):
    return pickle.loads(pickle.dumps(network))  # noqa: S301


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_copy_is_equal_and_read_only_too(duplicate):
    twin = duplicate(ring(5))
    assert twin == ring(5)
    assert hash(twin) == hash(ring(5))
    assert twin.name == "ring(5)"
    assert not twin.indices.flags.writeable


def test_dropped_loops_and_duplicates_are_counted_in_one_warning():
    with pytest.warns(DataWarning, match="dropped 1 self-loop, 2 duplicate edges;") as caught:
        network = Network.from_edges([(0, 1), (1, 0), (1, 1), (0, 1), (1, 2)])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert network == path(3)


def test_counted_policy_warns_of_loops_unless_every_node_has_exactly_one():
    edges = [(0, 1), (1, 2)]
    with pytest.warns(DataWarning, match="1 self-loop;"):
        Network.from_edges([*edges, (1, 1)], self_loops="counted")
    every = [(0, 0), (1, 1), (2, 2)]
    assert Network.from_edges(edges + every, self_loops="counted").degree.tolist() == [2, 3, 2]


def test_clean_input_of_every_kind_gives_no_warning_and_the_same_network():
    graph = nx.petersen_graph()
    expected = Network.from_edges(list(graph.edges))
    assert Network.from_networkx(graph) == expected
    assert Network.from_networkx(graph.to_directed()) == expected
    for kind in ("coo", "csr", "csc", "lil", "dok"):
        assert (
            Network.from_scipy(nx.to_scipy_sparse_array(graph, format=kind, weight=None))
            == expected
        )
    assert Network.from_edges(iter(graph.edges)) == expected
    assert Network.from_edges(np.array(graph.edges, dtype=np.uint16)) == expected


def test_isolated_nodes_are_kept():
    assert Network.from_edges([(0, 1)], n=4).degree.tolist() == [1, 1, 0, 0]
    assert Network.from_networkx(_with_isolated()).n == 3
    assert Network.from_scipy(sparse.coo_array(([1], ([0], [1])), shape=(3, 3))).n == 3


def _with_isolated():
    graph = nx.empty_graph(3)
    graph.add_edge(0, 1)
    return graph


@pytest.mark.parametrize(
    ("edges", "n", "message"),
    [
        ([], None, "at least one pair"),
        ([], 3, "at least one edge between distinct nodes, got none among 3"),
        ([(0, 0)], None, "at least 2 nodes, got 1"),
        ([(0, 1)], 1, r"nodes in \[0, 1\), got \(0, 1\) at edge 0"),
        ([(0, 1), (1, 5)], 5, r"got \(1, 5\) at edge 1; raise n"),
        ([(0, 1), (-1, 2)], None, r"got \(-1, 2\) at edge 1"),
        ([(0.5, 1)], None, "got float64 such as"),
        ([(True, False)], None, "got bool"),
        ([("a", "b")], None, "names: Network.from_networkx"),
        ([(0, 1, 2)], None, r"got shape \(1, 3\); keep the first two columns"),
        ([0, 1, 2], None, r"got shape \(3,\)"),
        ([(0, 1), (2,)], None, "integer array of shape"),
        (5, None, "integer array of shape"),
        ([(0, 2**70)], None, "got object"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), None, "does not fit"),
    ],
)
def test_bad_edges_are_refused_with_the_reason(edges, n, message):
    with pytest.raises(InvalidNetwork, match=message):
        Network.from_edges(edges, n)


def test_weights_of_edges_are_dropped_with_a_count():
    with pytest.warns(DataWarning, match="dropped 2 weights"):
        network = Network.from_edges([(0, 1, 2.5), (1, 2, 1), (2, 0, 0.5)])
    assert network == Network.from_edges([(0, 1), (1, 2), (2, 0)])
    with pytest.raises(InvalidNetwork, match="got float64"):
        Network.from_edges([(0.5, 1, 2.5)])


def test_bad_arguments_are_refused():
    with pytest.raises(
        InvalidParameter, match="self_loops must be one of 'none', 'counted', got 'some'"
    ):
        Network.from_edges([(0, 1)], self_loops="some")
    with pytest.raises(InvalidParameter, match=r"n must be an integer, got 2\.5"):
        Network.from_edges([(0, 1)], n=2.5)
    with pytest.raises(InvalidParameter, match=r"v must be an integer in \[0, 4\], got 5"):
        ring(5).neighbours(5)
    for policy in ("none", "counted"):
        with pytest.raises(TooLarge):
            Network.from_edges([(0, 2**40), (1, 1)], self_loops=policy)


def test_networkx_numbers_stay_whatever_their_order():
    graph = nx.Graph([(2, 0), (0, 1)])
    assert Network.from_networkx(graph).labels is None
    assert Network.from_networkx(graph).neighbours(0).tolist() == [1, 2]


def test_networkx_names_become_labels_in_graph_order():
    network = Network.from_networkx(nx.grid_2d_graph(2, 2))
    assert network.labels.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert Network.from_networkx(nx.Graph([(5, 9)])).labels.tolist() == [5, 9]
    assert nx.get_node_attributes(network.to_networkx(), "label")[2] == (1, 0)


def test_networkx_parallel_edges_loops_and_weights_are_dropped_and_counted():
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0), (2, 2)])
    graph.add_edge(1, 2, weight=3.0)
    with pytest.warns(DataWarning, match="dropped 1 self-loop, 1 duplicate edge, 1 weight;"):
        assert Network.from_networkx(graph) == path(3)


def test_what_is_not_a_graph_is_refused():
    with pytest.raises(InvalidNetwork, match="graph must be a networkx graph"):
        Network.from_networkx([(0, 1)])
    with pytest.raises(InvalidNetwork, match="at least 2 nodes, got 0"):
        Network.from_networkx(nx.Graph())


def test_scipy_weights_loops_and_zeros_are_told_apart():
    rows, columns, values = [0, 1, 0, 2, 1, 2], [1, 0, 2, 2, 2, 1], [0.5, 0.5, 0.0, 4.0, 1.0, 1.0]
    with pytest.warns(DataWarning, match="dropped 1 self-loop, 1 weight;"):
        network = Network.from_scipy(sparse.coo_array((values, (rows, columns)), shape=(3, 3)))
    assert network == path(3)


def test_scipy_repeated_entries_are_duplicates_and_mirrors_are_not():
    matrix = sparse.coo_array(([1, 1, 1, 1], ([0, 0, 1, 1], [1, 1, 0, 2])), shape=(3, 3))
    with pytest.warns(DataWarning, match="dropped 1 duplicate edge;"):
        assert Network.from_scipy(matrix) == path(3)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(3), "wrap it in scipy.sparse.csr_array"),
        (sparse.coo_array(([1], ([0], [1])), shape=(2, 3)), "must be square"),
        (sparse.coo_array(([np.nan], ([0], [1])), shape=(2, 2)), "got 1 that are NaN"),
        (sparse.coo_array(([1j], ([0], [1])), shape=(2, 2)), "got complex128"),
        (sparse.csr_array((2, 2)), "at least one edge"),
    ],
)
def test_bad_matrices_are_refused_with_the_reason(matrix, message):
    with pytest.raises(InvalidNetwork, match=message):
        Network.from_scipy(matrix)


def test_a_matrix_whose_indices_leave_its_shape_is_refused():
    matrix = sparse.csr_array(np.eye(3)[[1, 0, 2]])
    matrix.indices[0] = 1_000_000
    with pytest.raises(InvalidNetwork, match="not a valid csr matrix"):
        Network.from_scipy(matrix)


def test_a_disconnected_network_is_built_and_refused_only_on_demand():
    network = Network.from_edges([(0, 1), (3, 4), (4, 5)])
    assert network.components() == 3
    message = r"node 2 cannot .* \(3 components\); keep network.largest_component"
    with pytest.raises(NotConnected, match=message):
        network.require_connected()
    ring(5).require_connected()


def test_largest_component_keeps_original_ids_policy_and_structure():
    network = Network.from_edges([(0, 1), (3, 4), (4, 5)], self_loops="counted")
    piece = network.largest_component()
    assert piece == path(3, self_loops="counted")
    assert piece.labels.tolist() == [3, 4, 5]
    assert piece.largest_component() is piece
    named = Network.from_networkx(
        nx.Graph([("a", "b"), ("c", "d"), ("d", "e")])
    ).largest_component()
    assert named.labels.tolist() == ["c", "d", "e"]


def test_of_equal_components_the_one_with_the_smallest_node_is_kept():
    assert Network.from_edges([(1, 4), (0, 3), (2, 5)]).largest_component().labels.tolist() == [
        0,
        3,
    ]


def test_fingerprint_follows_structure_and_policy_but_not_the_name():
    same = Network.from_edges([(2, 1), (1, 0), (0, 2)], name="triangle")
    assert same.fingerprint() == ring(3).fingerprint() == complete(3).fingerprint()
    prints = {x.fingerprint() for x in (ring(3), ring(4), path(3), ring(3, self_loops="counted"))}
    assert len(prints) == 4
    assert ring(3) != "ring"


def test_to_networkx_shows_the_loops_of_the_policy():
    assert nx.utils.graphs_equal(
        nx.Graph(ring(5).to_networkx().edges), nx.Graph(nx.cycle_graph(5).edges)
    )
    assert nx.number_of_selfloops(ring(5, self_loops="counted").to_networkx()) == 5
    assert repr(ring(5)) == "Network('ring(5)', n=5, n_edges=5, self_loops='none')"


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 1, 2], [1, 5]),
        ([0, 1, 2], [1, -1]),
        ([0, 2, 1], [1, 0]),
        ([0, 1, 3], [1, 0]),
        ([1, 1, 2], [1, 0]),
    ],
)
def test_rows_that_are_none_are_refused_before_compiled_code_meets_them(indptr, indices):
    network = Network(np.array(indptr, np.int64), np.array(indices, np.int32))
    with pytest.raises(InvalidNetwork, match="from_edges"):  # what every binding asks first
        network.require_connected()
