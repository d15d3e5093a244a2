"""The methods of gossip: each yields the models of all nodes after every iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from levywalk.arrays import Floats
from levywalk.network import Network


class Gossip(NamedTuple):
    """What a method needs: weights, gradients, and the constants of its step sizes."""

    weights: Any  # the matrix W of Metropolis weights
    gradients: Callable[[Floats], Floats]  # of all nodes, each at its own model
    step_size: float
    strong_convexity: float
    rounds: int  # of communication in an iteration
    damping: float  # of Chebyshev gossip
    dtype: np.dtype[Any] = np.dtype(np.float64)  # of the numbers in a message

    def mixed(self, vectors: Floats) -> Floats:
        """Return what the nodes have after a round in which every node sends its vector."""
        return np.asarray(self.weights @ vectors.astype(self.dtype, copy=False))


def metropolis_weights(network: Network) -> Any:
    """Return W: W_uv = 1/(1 + max(d_u, d_v)) for neighbours, and rows that sum to one.

    Examples
    --------
    >>> import levywalk as lw
    >>> metropolis_weights(lw.path(3)).toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    source = np.repeat(np.arange(network.n), network.degree)
    target = network.indices.astype(np.int64)
    others = source != target
    source, target = source[others], target[others]
    degree = np.bincount(source, minlength=network.n)
    values = 1.0 / (1.0 + np.maximum(degree[source], degree[target]))
    stay = 1.0 - np.bincount(source, values, minlength=network.n)
    nodes = np.arange(network.n)
    return sparse.csr_array(
        (
            np.concatenate([values, stay]),
            (np.concatenate([source, nodes]), np.concatenate([target, nodes])),
        ),
        shape=(network.n, network.n),
    )


def second_eigenvalue(weights: Any) -> float:
    """Return the second largest absolute value of an eigenvalue of W.

    Examples
    --------
    >>> import levywalk as lw
    >>> round(second_eigenvalue(metropolis_weights(lw.complete(5))), 9)
    0.0
    """
    n = weights.shape[0]
    if n <= 500:
        values = np.linalg.eigvalsh(weights.toarray())
        return float(max(abs(values[0]), abs(values[-2])))
    ones = np.ones(n) / n

    def without_mean(x: Floats) -> Floats:
        return np.asarray(weights @ x - ones * x.sum())

    operator = sparse.linalg.LinearOperator((n, n), matvec=without_mean, dtype=np.float64)
    found = sparse.linalg.eigsh(operator, k=1, which="LM", return_eigenvectors=False, tol=1e-9)
    return float(min(abs(found[0]), 1.0))


def _dsgd(made: Gossip, models: Floats) -> Iterator[Floats]:
    while True:
        models = made.mixed(models) - made.step_size * made.gradients(models)
        yield models


def _extra(made: Gossip, models: Floats) -> Iterator[Floats]:
    gradients = made.gradients(models)
    before, models = models, made.mixed(models) - made.step_size * gradients
    yield models
    mixed_before = made.mixed(before)
    while True:
        mixed, fresh = made.mixed(models), made.gradients(models)
        following = models + mixed - 0.5 * (before + mixed_before)
        following -= made.step_size * (fresh - gradients)
        before, mixed_before, gradients, models = models, mixed, fresh, following
        yield models


def _tracking(made: Gossip, models: Floats) -> Iterator[Floats]:
    gradients = made.gradients(models)
    tracked = gradients
    while True:
        models = made.mixed(models) - made.step_size * tracked
        fresh = made.gradients(models)
        tracked = made.mixed(tracked) + fresh - gradients
        gradients = fresh
        yield models


def _accelerated(made: Gossip, models: Floats) -> Iterator[Floats]:
    share = np.sqrt(made.strong_convexity * made.step_size)
    momentum = (1.0 - share) / (1.0 + share)
    gradients = made.gradients(models)
    before = ahead = models
    tracked = models - made.step_size * gradients  # what is mixed: a model after its own step
    while True:
        models = several_rounds(made, tracked)
        following = models + momentum * (models - before)
        fresh = made.gradients(following)
        tracked = following + (models - ahead) - made.step_size * (fresh - gradients)
        before, ahead, gradients = models, following, fresh
        yield models


def several_rounds(made: Gossip, models: Floats) -> Floats:
    """Return the models after several rounds of gossip with Chebyshev's acceleration."""
    before, now = models, models
    for _ in range(made.rounds):
        before, now = now, (1.0 + made.damping) * made.mixed(now) - made.damping * before
    return np.asarray(now)


RULES: dict[str, Callable[[Gossip, Floats], Iterator[Floats]]] = {
    "dsgd": _dsgd,
    "extra": _extra,
    "tracking": _tracking,
    "accelerated": _accelerated,
}
