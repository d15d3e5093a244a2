"""Distribute a data set over nodes, from homogeneous to very heterogeneous."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidData
from levywalk.problem.samples import clean_features, clean_targets
from levywalk.problem.sparse_features import is_sparse
from levywalk.remedy import typed

_LABELS = 100  # integer targets with at most so many values are classes
_BINS = 10

HOW = ("iid", "label", "dirichlet", "size")


def partition(
    features: Any, targets: Any, n: int, how: str = "iid", seed: int = 0, *, alpha: float = 0.5
) -> Ints:
    """Return the node of each sample, for ``LeastSquares(features, targets, node=...)``.

    Every node gets at least one sample.

    Parameters
    ----------
    features, targets
        The data set; only the number of rows of ``features`` is used. Targets may be names of
        classes.
    n
        The number of nodes, at most the number of samples.
    how
        ``"iid"``: the samples are assigned at random, and the sizes of two nodes differ by at most
        one. ``"label"``: the samples sorted by target (ties in random order) are cut into n
        contiguous parts, whose sizes differ by at most one; this is the most heterogeneous choice.
        ``"dirichlet"``: for every class, proportions over the nodes are drawn from Dirichlet(alpha,
        …, alpha), and the node of each sample of the class is drawn from these proportions. Targets
        that are not whole numbers or have more than 100 values are cut into ten classes by their
        deciles. Then each empty node, in order, gets one random sample of the node that has the
        most samples at that moment. ``"size"``: each node gets one sample, and the nodes of the
        other samples are drawn from proportions ~ Dirichlet(alpha, …, alpha); the samples are
        assigned at random, so the nodes differ only in size.
    seed
        The same seed gives the same nodes.
    alpha
        The concentration for "dirichlet" and "size": small is heterogeneous, large tends to "iid".

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
    >>> partition(X, y, 2, how="label")
    array([0, 1, 0, 1, 0, 1])
    >>> np.bincount(partition(X, y, 3)).tolist()
    [2, 2, 2]
    """
    samples = features.shape[0] if is_sparse(features) else len(clean_features(features))
    if _are_names(targets):
        targets = np.unique(np.asarray(targets, dtype=np.str_), return_inverse=True)[1]
    clean = clean_targets(targets, samples)
    n = checks.integer("n", n, low=2)
    how, seed, alpha = (
        checks.choice("how", how, HOW),
        checks.seed(seed),
        checks.positive("alpha", alpha),
    )
    if samples < n:
        raise InvalidData(
            f"{samples} samples cannot give each of n = {n} nodes one; use "
            f"{typed('n <=', 'a network of at most')} {samples}{typed('', ' nodes')}"
        )
    rng = generator(seed, Domain.PARTITION)
    if how == "iid":
        return rng.permutation(_even(samples, n))
    if how == "label":
        return _by_label(rng, clean, n)
    if how == "dirichlet":
        return _by_dirichlet(rng, _classes(clean), n, alpha)
    sizes = 1 + rng.multinomial(samples - n, _proportions(rng, n, alpha))
    return rng.permutation(np.repeat(np.arange(n), sizes))


def _are_names(targets: Any) -> bool:
    try:
        return len(targets) > 0 and all(isinstance(one, str) for one in targets)
    except TypeError:  # a single number
        return False


def _even(samples: int, n: int) -> Ints:
    return np.arange(samples, dtype=np.int64) * n // samples


def _by_label(rng: np.random.Generator, targets: Floats, n: int) -> Ints:
    order = np.lexsort((rng.random(len(targets)), targets))
    node = np.empty(len(targets), dtype=np.int64)
    node[order] = _even(len(targets), n)
    return node


def _classes(targets: Floats) -> Ints:
    values, label = np.unique(targets, return_inverse=True)
    if len(values) <= _LABELS and (values == np.round(values)).all():
        return label.astype(np.int64)
    edges = np.quantile(targets, np.arange(1, _BINS) / _BINS)
    return np.searchsorted(edges, targets, side="right").astype(np.int64)


def _by_dirichlet(rng: np.random.Generator, label: Ints, n: int, alpha: float) -> Ints:
    node = np.empty(len(label), dtype=np.int64)
    for k in np.unique(label):
        members = np.flatnonzero(label == k)
        counts = rng.multinomial(len(members), _proportions(rng, n, alpha))
        node[rng.permutation(members)] = np.repeat(np.arange(n), counts)
    return _fill_empty(rng, node, n)


def _proportions(rng: np.random.Generator, n: int, alpha: float) -> Floats:
    proportions = rng.dirichlet(np.full(n, alpha))
    return np.asarray(proportions / proportions.sum())


def _fill_empty(rng: np.random.Generator, node: Ints, n: int) -> Ints:
    sizes = np.bincount(node, minlength=n)
    empty = np.flatnonzero(sizes == 0)
    shuffled = rng.permutation(len(node))
    by_node = shuffled[np.argsort(node[shuffled], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    largest = [(-int(size), v) for v, size in enumerate(sizes) if size > 1]
    heapq.heapify(largest)
    for v in empty:
        size, donor = heapq.heappop(largest)
        node[by_node[starts[donor] - size - 1]] = v
        if size < -2:  # a node keeps its last sample
            heapq.heappush(largest, (size + 1, donor))
    return node
