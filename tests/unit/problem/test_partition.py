"""Partitions: every node gets samples, and each kind of heterogeneity is what its name says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem import LeastSquares, partition
from levywalk.problem.partition import held_out_rows
from tests.limits import examples

HOWS = ["iid", "label", "dirichlet", "size"]


def data(samples, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(samples, 2)), rng.integers(0, classes, samples).astype(float)


@examples(60)
@given(
    n=st.integers(2, 40),
    extra=st.integers(0, 60),
    how=st.sampled_from(HOWS),
    seed=st.integers(0, 9),
    alpha=st.sampled_from([1e-3, 0.5, 100.0]),
    continuous=st.booleans(),
)
def test_every_node_gets_a_sample_and_every_sample_a_node(n, extra, how, seed, alpha, continuous):
    features, targets = data(n + extra)
    targets = features[:, 0] if continuous else targets
    node = partition(features, targets, n, how, seed, alpha=alpha)
    assert node.dtype == np.int64
    assert node.shape == (n + extra,)
    assert np.bincount(node, minlength=n).min() >= 1
    assert node.max() == n - 1
    np.testing.assert_array_equal(node, partition(features, targets, n, how, seed, alpha=alpha))


@pytest.mark.parametrize("how", ["iid", "label"])
def test_iid_and_label_sizes_are_equal_to_within_one(how):
    sizes = np.bincount(partition(*data(103), 10, how))
    assert sorted(set(sizes.tolist())) == [10, 11]


def test_label_shards_are_contiguous_in_the_target():
    features, targets = data(100)
    node = partition(features, targets, 10, "label")
    highest = [targets[node == v].max() for v in range(9)]
    lowest = [targets[node == v].min() for v in range(1, 10)]
    assert (np.array(highest) <= np.array(lowest)).all()


def test_label_ties_are_broken_at_random():
    features, _ = data(40)
    nodes = [partition(features, np.zeros(40), 4, "label", seed) for seed in range(2)]
    assert (nodes[0] != nodes[1]).any()


def entropy_of_labels(node, targets):
    total = 0.0
    for v in np.unique(node):
        share = np.bincount(targets[node == v].astype(int)) / np.count_nonzero(node == v)
        total -= np.count_nonzero(node == v) * np.sum(share * np.log(np.maximum(share, 1e-300)))
    return total / len(node)


def test_dirichlet_goes_from_one_label_per_node_to_iid_as_alpha_grows():
    features, targets = data(20_000, classes=10)
    entropies = [
        entropy_of_labels(partition(features, targets, 10, "dirichlet", alpha=alpha), targets)
        for alpha in (0.01, 0.5, 1000.0)
    ]
    assert entropies[0] < entropies[1] < entropies[2]
    assert entropies[0] < 0.7
    assert entropies[2] > 0.99 * np.log(10)


def test_dirichlet_cuts_continuous_targets_into_deciles():
    features, _ = data(5000)
    node = partition(features, features[:, 0], 20, "dirichlet", alpha=1e-3)
    decile = np.minimum(np.argsort(np.argsort(features[:, 0])) // 500, 9).astype(float)
    assert entropy_of_labels(node, decile) < 0.8  # nearly every decile went to one node


def test_size_makes_sizes_uneven_and_content_alike():
    features, targets = data(20_000, classes=2)
    node = partition(features, targets, 20, "size", alpha=0.5)
    sizes = np.bincount(node)
    assert sizes.max() > 20 * sizes.min()
    large = sizes > 500
    means = np.array([targets[node == v].mean() for v in np.flatnonzero(large)])
    assert np.abs(means - targets.mean()).max() < 0.15
    even = np.bincount(partition(features, targets, 20, "size", alpha=1e6))
    assert even.max() < 1.2 * even.min()


def test_seeds_differ_and_the_result_is_a_problem():
    features, targets = data(60)
    assert (
        partition(features, targets, 6, seed=0) != partition(features, targets, 6, seed=1)
    ).any()
    assert LeastSquares(features, targets, node=partition(features, targets, 6)).n == 6


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((*data(5), 6), InvalidData, "5 samples cannot give each of n = 6 nodes one; use n <= 5"),
        ((*data(5), 1), InvalidParameter, "n must be an integer of at least 2"),
        (
            (*data(5), 2, "random"),
            InvalidParameter,
            "how must be one of 'iid', 'label', 'dirichlet', 'size'",
        ),
        ((data(5)[0], [1, 2], 2), InvalidData, "targets must have one entry per row"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        partition(*arguments)
    with pytest.raises(InvalidParameter, match="alpha must be a number above 0"):
        partition(*data(5), 2, alpha=0)


@examples(40)
@given(
    n=st.integers(2, 12),
    classes=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_pathological_nodes_have_few_classes_of_even_share(n, classes, seed):
    kinds = min(4, n * classes)
    targets = np.arange(40 * kinds) % kinds
    features = np.zeros((len(targets), 1))
    per_node = min(classes, kinds)
    node = partition(features, targets, n, "pathological", seed, classes=per_node)
    for v in range(n):
        assert len(np.unique(targets[node == v])) == per_node
    for kind in range(kinds):  # the nodes that have a class share its samples evenly
        sizes = np.bincount(node[targets == kind], minlength=n)
        assert np.ptp(sizes[sizes > 0]) <= 1
        owners = int((sizes > 0).sum())
        assert owners in (n * per_node // kinds, -(-n * per_node // kinds))
    text = partition(features, targets, n, f"pathological:classes={per_node}", seed)
    np.testing.assert_array_equal(text, node)


@pytest.mark.parametrize("how", HOWS)
def test_every_node_gets_min_size_samples(how):
    features, targets = data(200)
    for alpha in (0.01, 1.0):
        node = partition(features, targets, 20, how, alpha=alpha, min_size=7)
        assert np.bincount(node, minlength=20).min() >= 7
    small = partition(features, targets, 20, "dirichlet", alpha=0.01)
    assert np.bincount(small, minlength=20).min() < 7
    with pytest.raises(InvalidData, match="min_size of at most 10"):
        partition(features, targets, 20, how, min_size=11)


def test_impossible_pathological_partitions_are_refused():
    features, targets = data(60, classes=6)
    with pytest.raises(InvalidParameter, match=r"classes must be an integer in \[1, 6\], got 7"):
        partition(features, targets, 6, "pathological", classes=7)
    with pytest.raises(InvalidData, match="cannot hold the 6 classes; use classes=3"):
        partition(features, targets, 2, "pathological", classes=1)
    with pytest.raises(InvalidData, match="fewer than min_size = 1; use fewer nodes"):
        partition(np.zeros((12, 1)), [0] * 11 + [1], 12, "pathological", classes=1)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ("iid:alpha=2", "'iid' takes min_size=2 after a colon, got 'alpha=2'"),
        ("dirichlet:alpha", "takes alpha=0.5, min_size=2"),
        ("dirichlet:alpha=much", "got 'alpha=much'"),
        ("shards", "how must be one of"),
        (3, "how must be one of"),
    ],
)
def test_a_wrong_text_is_refused(how, match):
    features, targets = data(60)
    with pytest.raises(InvalidParameter, match=match):
        partition(features, targets, 6, how)


@examples(40)
@given(samples=st.integers(4, 60), share=st.floats(0.01, 0.9), seed=st.integers(0, 9))
def test_held_out_rows_are_a_share_and_every_node_keeps_one(samples, share, seed):
    node = np.arange(samples) % 3
    out = held_out_rows(samples, share, seed, node)
    assert 1 <= out.sum() <= max(1, round(share * samples))
    assert set(node[~out]) == {0, 1, 2}
    free = held_out_rows(samples, min(share, 0.5), seed)
    assert free.sum() == max(1, round(min(share, 0.5) * samples))
    np.testing.assert_array_equal(free, held_out_rows(samples, min(share, 0.5), seed))
