"""Where each node of a network is drawn.

A ring and a grid are drawn as themselves. Any other network starts from two eigenvectors of its
normalised adjacency and, if it is small enough, goes through a short force layout.
"""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse as sp

from levywalk.arrays import Floats, Ints
from levywalk.network import Network

DENSITY = 5_000  # with more nodes than this, a picture shows densities and not nodes
_FORCES_UP_TO = 2_500  # nodes; the force layout takes n² operations a round
_WORK = 6e7  # pairs of nodes in all rounds together
_ROUNDS = 300
_POWER_STEPS = 400


def places(network: Network) -> Floats:
    """Return the position (x, y) of each node, in [0, 1].

    Examples
    --------
    >>> import levywalk as lw
    >>> places(lw.grid(2, 3)).tolist()[:4]
    [[0.0, 0.25], [0.5, 0.25], [1.0, 0.25], [0.0, 0.75]]
    """
    own = re.match(r"(ring|grid)\((\d+)(?:, ?(\d+))?", network.name)
    if own and own[1] == "ring" and int(own[2]) == network.n:
        angle = 2.0 * np.pi * np.arange(network.n) / network.n - 0.5 * np.pi
        return np.stack([0.5 + 0.5 * np.cos(angle), 0.5 + 0.5 * np.sin(angle)], axis=1)
    if own and own[3] and int(own[2]) * int(own[3]) == network.n:
        columns = int(own[3])
        row, column = np.divmod(np.arange(network.n), columns)
        return fitted(np.stack([column, row], axis=1).astype(np.float64))
    found = spectral(network)
    return fitted(relaxed(network, found) if network.n <= _FORCES_UP_TO else spread(found))


def spectral(network: Network) -> Floats:
    """Return two slow eigenvectors of D^-½ A D^-½, by a power iteration that is always the same."""
    n = network.n
    if n < 3:
        return np.stack([np.arange(n), np.zeros(n)], axis=1).astype(np.float64)
    root = 1.0 / np.sqrt(network.degree.astype(np.float64))
    adjacency = sp.csr_matrix((np.ones(len(network.indices)), network.indices, network.indptr))
    lazy = 0.5 * (sp.eye(n) + sp.diags(root) @ adjacency @ sp.diags(root))
    first = 1.0 / root / np.linalg.norm(1.0 / root)
    wave = np.arange(n)
    basis = np.stack([np.cos(2.4 * wave), np.sin(1.7 * wave + 0.3)], axis=1)
    for _ in range(_POWER_STEPS if n <= 100_000 else _POWER_STEPS // 8):
        basis = lazy @ basis
        basis -= np.outer(first, first @ basis)
        basis, _ = np.linalg.qr(basis)
    return np.asarray(basis * root[:, None])


def spread(positions: Floats) -> Floats:
    """Return positions by rank in each direction, so that a large network fills its picture."""
    order = np.argsort(np.argsort(positions, axis=0, kind="stable"), axis=0, kind="stable")
    half = positions / np.maximum(np.abs(positions).max(axis=0), 1e-300)
    return np.asarray(0.5 * half + order / max(len(positions) - 1, 1))


def relaxed(network: Network, start: Floats) -> Floats:
    """Return positions after a short force layout (Fruchterman and Reingold, 1991)."""
    n = network.n
    here = spread(start)
    ideal = 1.0 / np.sqrt(n)
    rows = np.repeat(np.arange(n), np.diff(network.indptr))
    rounds = int(max(10, min(_ROUNDS, _WORK // n**2)))
    for k in range(rounds):
        push = np.zeros((n, 2))
        x, y = here.T.astype(np.float32)
        for low in range(0, n, 256):
            part = slice(low, low + 256)
            dx, dy = x[part, None] - x, y[part, None] - y
            by = np.float32(ideal**2) / np.maximum(dx * dx + dy * dy, np.float32(1e-9))
            push[part, 0], push[part, 1] = (dx * by).sum(axis=1), (dy * by).sum(axis=1)
        along = here[network.indices] - here[rows]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / ideal)[:, None]
        for axis in (0, 1):
            push[:, axis] += np.bincount(rows, pull[:, axis], minlength=n)
        length = np.maximum(np.sqrt((push**2).sum(axis=1)), 1e-12)
        most = 0.12 * (1.0 - k / rounds) ** 1.5 + 1e-4
        here = here + push * (np.minimum(length, most) / length)[:, None]
    return here


def fitted(positions: Floats) -> Floats:
    """Return positions scaled into the unit square, with their proportions."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    size = max(float((high - low).max()), 1e-300)
    return np.asarray((positions - (low + high) / 2.0) / size + 0.5)


def edges(network: Network, most: int = 20_000) -> Ints:
    """Return the edges (u, v) with u < v; of more than ``most`` an even selection."""
    rows = np.repeat(np.arange(network.n), np.diff(network.indptr))
    upper = rows < network.indices
    found = np.stack([rows[upper], network.indices[upper]], axis=1).astype(np.int64)
    return found[:: -(-len(found) // most)] if len(found) > most else found


class Density:
    """A picture of squares: how often the nodes of each were visited, against their target."""

    SIDE = 80

    def __init__(self, positions: Floats) -> None:
        cell = np.minimum((positions * self.SIDE).astype(np.int64), self.SIDE - 1)
        self.square = cell[:, 1] * self.SIDE + cell[:, 0]
        self.count = np.bincount(self.square, minlength=self.SIDE**2)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of the nodes' numbers in each square.

        Examples
        --------
        >>> float(Density(np.array([[0.0, 0.0], [1.0, 1.0]])).sums(np.array([1.0, 2.0])).max())
        2.0
        """
        return np.bincount(self.square, values, minlength=self.SIDE**2).astype(np.float64)
