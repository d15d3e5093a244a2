"""Distribute a data set over nodes, from homogeneous to very heterogeneous.

`partition` is long because it describes every way of distributing the samples.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Bools, Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem.samples import clean_features, clean_targets
from levywalk.problem.sparse_features import is_sparse
from levywalk.remedy import python_or_command

_LABELS = 100  # integer targets with at most so many values are classes
_BINS = 10

HOW = ("iid", "label", "dirichlet", "size", "pathological")
_OPTIONS: dict[str, dict[str, type]] = {  # what can be said after a colon, by the kind
    "iid": {"min_size": int},
    "label": {"min_size": int},
    "dirichlet": {"alpha": float, "min_size": int},
    "size": {"alpha": float, "min_size": int},
    "pathological": {"classes": int, "min_size": int},
}


def partition(
    features: Any,
    targets: Any,
    n: int,
    how: str = "iid",
    seed: int = 0,
    *,
    alpha: float = 0.5,
    classes: int = 2,
    min_size: int = 1,
) -> Ints:
    """Return the node of each sample, for ``LeastSquares(features, targets, node=...)``.

    Every node gets at least ``min_size`` samples. docs/own-data.md has the names that Flower uses.

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
        deciles. Then each node with fewer than ``min_size`` samples, in order, gets random samples,
        each from the node that has the most at that moment. ``"size"``: each node gets ``min_size``
        samples, and the nodes of the other samples are drawn from proportions ~ Dirichlet(alpha, …,
        alpha); the samples are assigned at random, so the nodes differ only in size.
        ``"pathological"``: each node gets samples of ``classes`` classes only (classes as for
        "dirichlet"). The classes are dealt out in turn, in random order, to the nodes in random
        order, and the samples of a class are cut evenly between the nodes that have it (McMahan et
        al., 2017).

        Options may also be a part of the text: ``"dirichlet:alpha=0.1"``,
        ``"pathological:classes=3"``.
    seed
        The same seed gives the same nodes.
    alpha
        The concentration for "dirichlet" and "size": small is heterogeneous, large tends to "iid".
    classes
        The number of classes of each node for "pathological".
    min_size
        The least number of samples of a node.

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
    >>> partition(X, y, 2, how="label")
    array([0, 1, 0, 1, 0, 1])
    >>> np.bincount(partition(X, y, 3)).tolist()
    [2, 2, 2]
    >>> partition(X, [0, 0, 1, 1, 2, 2], 3, how="pathological:classes=1").tolist()
    [2, 2, 0, 0, 1, 1]
    """
    how, said = split_partition(how)
    alpha, classes = said.get("alpha", alpha), said.get("classes", classes)
    min_size = checks.integer("min_size", said.get("min_size", min_size), low=1)
    samples = features.shape[0] if is_sparse(features) else len(clean_features(features))
    if _are_names(targets):
        targets = np.unique(np.asarray(targets, dtype=np.str_), return_inverse=True)[1]
    clean = clean_targets(targets, samples)
    n = checks.integer("n", n, low=2)
    seed, alpha = checks.seed(seed), checks.positive("alpha", alpha)
    if samples < n * min_size and min_size > 1:
        raise InvalidData(
            f"{samples} samples cannot give each of n = {n} nodes min_size = {min_size}; use "
            f"a min_size of at most {samples // n}"
        )
    if samples < n:
        raise InvalidData(
            f"{samples} samples cannot give each of n = {n} nodes one; use "
            + python_or_command(f"n <= {samples}", f"a network of at most {samples} nodes")
        )
    rng = generator(seed, Domain.PARTITION)
    if how == "iid":
        return rng.permutation(_even(samples, n))
    if how == "label":
        return _by_label(rng, clean, n)
    if how == "dirichlet":
        return _by_dirichlet(rng, _classes(clean), n, alpha, min_size)
    if how == "pathological":
        return _pathological(rng, _classes(clean), n, classes, min_size)
    sizes = min_size + rng.multinomial(samples - n * min_size, _proportions(rng, n, alpha))
    return rng.permutation(np.repeat(np.arange(n), sizes))


def held_out_rows(samples: int, share: float, seed: int = 0, node: Any = None) -> Bools:
    """Return which samples are held out for a test: a random share of them.

    With ``node``, the node of each sample, every node keeps at least one sample.

    Examples
    --------
    >>> held_out_rows(10, 0.2).sum(), held_out_rows(3, 0.9, node=[0, 1, 1]).sum()
    (np.int64(2), np.int64(1))
    """
    share = checks.real(
        python_or_command("held_out", "--held-out"),
        share,
        "between 0 and 1, such as 0.2",
        low=0.0,
        high=1.0,
        low_open=True,
        high_open=True,
    )
    order = generator(seed, Domain.PARTITION, 1).permutation(samples)
    if node is not None:
        # The first sample of each node, in this order, stays.
        _, first = np.unique(np.asarray(node)[order], return_index=True)
        order = np.delete(order, first)
    found = np.zeros(samples, np.bool_)
    found[order[: max(1, round(share * samples))]] = True
    if found.all() or not found.any():
        raise InvalidData(
            f"{samples} samples cannot be divided into held-out ones and others; give more samples"
        )
    return found


def split_partition(text: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a partition and the options that follow a colon.

    Examples
    --------
    >>> split_partition("dirichlet:alpha=0.1,min_size=5")
    ('dirichlet', {'alpha': 0.1, 'min_size': 5})
    """
    name, colon, values = text.partition(":") if isinstance(text, str) else (text, "", "")
    how = checks.choice(python_or_command("how", "--partition"), name, HOW)
    found: dict[str, Any] = {}
    for piece in values.split(",") if colon else []:
        key, equals, value = (part.strip() for part in piece.partition("="))
        kind = _OPTIONS[how].get(key)
        try:
            if kind is None or not equals:
                raise ValueError
            found[key] = kind(value)
        except ValueError:
            takes = ", ".join(
                f"{option}={'0.5' if known is float else '2'}"
                for option, known in _OPTIONS[how].items()
            )
            raise InvalidParameter(
                f"partition {how!r} takes {takes} after a colon, got {piece!r}"
            ) from None
    return how, found


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


def _pathological(
    rng: np.random.Generator, label: Ints, n: int, per_node: Any, min_size: int
) -> Ints:
    """Deal the classes out to the nodes in turn, and cut the samples of each class evenly."""
    kinds = rng.permutation(np.unique(label))
    per_node = checks.integer("classes", per_node, low=1, high=len(kinds))
    if n * per_node < len(kinds):
        raise InvalidData(
            f"n = {n} nodes with classes = {per_node} each cannot hold the {len(kinds)} classes; "
            f"use classes={-(-len(kinds) // n)} or more nodes"
        )
    owners = rng.permutation(n).repeat(per_node)  # of each slot; a node's slots differ in class
    dealt = kinds[np.arange(n * per_node) % len(kinds)]
    node = np.empty(len(label), dtype=np.int64)
    for kind in kinds:
        members, mine = np.flatnonzero(label == kind), owners[dealt == kind]
        node[rng.permutation(members)] = mine[_even(len(members), len(mine))]
    sizes = np.bincount(node, minlength=n)
    if sizes.min() < min_size:
        v = int(sizes.argmin())
        raise InvalidData(
            f"node {v} would get {int(sizes[v])} samples of its classes, fewer than min_size = "
            f"{min_size}; use fewer nodes, or more classes per node than {per_node}"
        )
    return node


def _by_dirichlet(
    rng: np.random.Generator, label: Ints, n: int, alpha: float, min_size: int
) -> Ints:
    node = np.empty(len(label), dtype=np.int64)
    for k in np.unique(label):
        members = np.flatnonzero(label == k)
        counts = rng.multinomial(len(members), _proportions(rng, n, alpha))
        node[rng.permutation(members)] = np.repeat(np.arange(n), counts)
    return _fill(rng, node, n, min_size)


def _proportions(rng: np.random.Generator, n: int, alpha: float) -> Floats:
    proportions = rng.dirichlet(np.full(n, alpha))
    return np.asarray(proportions / proportions.sum())


def _fill(rng: np.random.Generator, node: Ints, n: int, min_size: int) -> Ints:
    """Give nodes with too few samples some of the nodes that have the most."""
    sizes = np.bincount(node, minlength=n)
    missing = np.repeat(np.arange(n), np.maximum(min_size - sizes, 0))
    shuffled = rng.permutation(len(node))
    by_node = shuffled[np.argsort(node[shuffled], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    largest = [(-int(size), v) for v, size in enumerate(sizes) if size > min_size]
    heapq.heapify(largest)
    for v in missing:
        size, donor = heapq.heappop(largest)
        node[by_node[starts[donor] - size - 1]] = v
        if size < -1 - min_size:  # a node keeps its last samples
            heapq.heappush(largest, (size + 1, donor))
    return node
