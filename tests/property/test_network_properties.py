from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levywalk.errors import DataWarning
from levywalk.network import Network

POLICIES = st.sampled_from(["none", "counted"])


@st.composite
def edge_lists(draw):
    """Edge lists with loops and repetitions, but at least one edge between distinct nodes."""
    n = draw(st.integers(2, 12))
    node = st.integers(0, n - 1)
    first = draw(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]))
    return n, [first, *draw(st.lists(st.tuples(node, node), max_size=30))]


def build(n, edges, policy="none"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Network.from_edges(edges, n, policy)


@given(edge_lists(), POLICIES)
def test_rows_are_symmetric_sorted_and_obey_the_policy(case, policy):
    n, edges = case
    network = build(n, edges, policy)
    rows = np.repeat(np.arange(n), network.degree)
    found = set(zip(rows.tolist(), network.indices.tolist(), strict=True))
    expected = {(u, v) for u, v in edges if u != v} | {(v, u) for u, v in edges if u != v}
    if policy == "counted":
        expected |= {(v, v) for v in range(n)}
    assert found == expected
    assert (np.diff(rows * n + network.indices) > 0).all()
    loops = n if policy == "counted" else 0
    assert network.degree.sum() == network.indices.size == 2 * network.n_edges + loops
    for v in range(n):
        assert network.neighbours(v).tolist() == sorted(u for w, u in expected if w == v)


@given(edge_lists())
def test_the_warning_counts_exactly_what_was_dropped(case):
    n, edges = case
    loops = sum(u == v for u, v in edges)
    repeated = len(edges) - loops - len({frozenset(e) for e in edges if e[0] != e[1]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Network.from_edges(edges, n)
    assert len(caught) == (loops + repeated > 0)
    text = str(caught[0].message) if caught else ""
    assert (f" {loops} self-loop" in text) == (loops > 0)
    assert (f" {repeated} duplicate" in text) == (repeated > 0)


@given(edge_lists(), POLICIES, st.randoms(use_true_random=False))
def test_order_and_direction_of_edges_do_not_matter(case, policy, random):
    n, edges = case
    network = build(n, edges, policy)
    turned = [(v, u) if random.random() < 0.5 else (u, v) for u, v in edges]
    random.shuffle(turned)
    assert build(n, turned, policy) == network
    assert build(n, turned, policy).fingerprint() == network.fingerprint()


@given(edge_lists(), POLICIES)
def test_networkx_and_scipy_give_the_network_back_without_warning(case, policy):
    network = build(*case, policy)
    graph = network.to_networkx()
    matrix = nx.to_scipy_sparse_array(graph, nodelist=range(network.n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Network.from_networkx(graph, policy) == network
        assert Network.from_scipy(matrix, policy) == network


@given(edge_lists(), POLICIES)
def test_largest_component_is_that_of_networkx_and_idempotent(case, policy):
    network = build(*case, policy)
    pieces = list(nx.connected_components(network.to_networkx()))
    largest = network.largest_component()
    kept = range(network.n) if largest.labels is None else largest.labels.tolist()
    assert network.components() == len(pieces)
    assert set(kept) in pieces
    assert largest.n == max(map(len, pieces))
    assert largest.largest_component() is largest
    largest.require_connected()
    for new, old in enumerate(kept):
        assert [kept[u] for u in largest.neighbours(new)] == network.neighbours(old).tolist()


@given(edge_lists())
def test_policies_turn_into_each_other(case):
    plain, counted = build(*case), build(*case, "counted")
    assert plain.with_self_loops("counted") == counted
    assert counted.with_self_loops("none") == plain
    assert (counted.degree - plain.degree == 1).all()
    assert counted.n_edges == plain.n_edges
    with pytest.raises(ValueError, match="self_loops must be one of"):
        plain.with_self_loops("sometimes")
