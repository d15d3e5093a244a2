"""Other libraries that walk: what each can do, at its best on one thread, and a check that it is
really a walk.

They are dependencies of the benchmarks alone (the extra ``bench``), and each is optional: one that
is not installed has no figures. Building a peer's own graph is `Peer.prepare` and is not timed; its
walk is, from the call to its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module, metadata
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from benchmarks.timing import seconds
from levywalk.arrays import Floats, Ints
from levywalk.network import Network

SIMPLE = "simple random walk"
ANY = "any Markov chain"
_DEVIATIONS = 6.0  # of the mean rank of the chosen neighbour


class NotAWalk(Exception):
    """What a peer returned is not a walk on the network."""


@dataclass(frozen=True)
class Walks:
    """A peer on one network: call it with steps and walkers, and it returns the seconds of its
    walk.
    """

    network: Network
    walk: Callable[[int, Ints], Any]  # steps and the walkers' first nodes
    paths: Callable[[Any], Any] = field(
        default=np.asarray
    )  # what it returned as an array: a row for each walker

    def __call__(self, steps: int, walkers: int) -> float:
        """Return the seconds that so many steps of so many walkers take."""
        first = self._first(walkers)
        return seconds(lambda: self.walk(steps, first))

    def check(self, steps: int = 100, walkers: int = 100, *, may_stay: bool = False) -> None:
        """Raise `NotAWalk` unless every path has its length and goes along edges (or stays, where
        that is allowed).
        """
        paths = np.asarray(self.paths(self.walk(steps, self._first(walkers))))
        if paths.shape != (walkers, steps + 1):
            raise NotAWalk(f"{walkers} walks of {steps} steps came as {paths.shape}")
        here, there = paths[:, :-1].ravel().astype(np.int64), paths[:, 1:].ravel().astype(np.int64)
        if paths.min() < 0 or paths.max() >= self.network.n:
            raise NotAWalk("a walk leaves the network")
        place = _places(self.network, here, there)
        if not may_stay and (place < 0).any():
            raise NotAWalk(f"{int((place < 0).sum())} of {len(place)} moves are no edges")
        if ((place < 0) & (here != there)).any():
            raise NotAWalk("a move is neither an edge nor a stay")
        if not may_stay:  # then neighbours are alike, and the mean rank of the chosen one is known
            mean = float(np.mean((place + 0.5) / self.network.degree[here]))
            if abs(mean - 0.5) > _DEVIATIONS * np.sqrt(1 / 12 / len(place)):
                raise NotAWalk(
                    f"neighbours are not chosen alike: mean rank {mean:.3f} instead of 0.5"
                )

    def _first(self, walkers: int) -> Ints:
        return np.random.default_rng(0).integers(self.network.n, size=walkers)


class Peer(ABC):
    """A library that walks."""

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]  # as PyPI calls it
    licence: ClassVar[str]
    can: ClassVar[str]
    how: ClassVar[str]

    def shape(self, network: Network, total: int) -> tuple[int, int]:
        """Return the steps and the walkers that suit the peer best, ``total`` steps in all."""
        steps = 1000 if network.n == 1000 else 100
        return steps, max(total // steps, 1)

    def version(self) -> str:
        """Return the installed version, or nothing."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    @cached_property
    def library(self) -> Any:
        """The peer's own module."""
        return import_module(self.module)

    @abstractmethod
    def prepare(self, network: Network) -> Walks:
        """Return the simple random walk on a network in the peer's own form."""


class Igraph(Peer):
    """`Graph.random_walk`: one walk a call."""

    name, module, package, licence = "igraph", "igraph", "igraph", "GPL"
    can, how = (
        SIMPLE,
        "Graph.random_walk, one long walk: every call takes time in proportion to the nodes",
    )

    def shape(self, network: Network, total: int) -> tuple[int, int]:
        return total, 1

    def prepare(self, network: Network) -> Walks:
        graph = self.library.Graph(n=network.n, edges=_edges(network))

        def walk(steps: int, first: Ints) -> list[list[int]]:
            return [graph.random_walk(node, steps) for node in first.tolist()]

        return Walks(network, walk)


class Networkit(Peer):
    """NetworKit has no walk of its own outside its embeddings;
    a hop to a random neighbour it has.
    """

    name, module, package, licence = "NetworKit", "networkit", "networkit", "MIT"
    can, how = SIMPLE, "graphtools.randomNeighbor, one call a step: it offers no whole walk"

    def shape(self, network: Network, total: int) -> tuple[int, int]:
        return super().shape(network, total // 10)  # Python takes a hundred nanoseconds a step

    def prepare(self, network: Network) -> Walks:
        self.library.setNumberOfThreads(1)
        edges = _edges(network)
        columns = np.ascontiguousarray(edges.T)
        graph = self.library.GraphFromCoo((columns[0], columns[1]), n=network.n)
        hop = self.library.graphtools.randomNeighbor

        def walk(steps: int, first: Ints) -> list[list[int]]:
            paths = []
            for node in first.tolist():
                path = [node]
                for _ in range(steps):
                    node = hop(graph, node)
                    path.append(node)
                paths.append(path)
            return paths

        return Walks(network, walk)


class QuantEcon(Peer):
    """`MarkovChain.simulate`, from a sparse transition matrix."""

    name, module, package, licence = "QuantEcon", "quantecon", "quantecon", "MIT"
    can, how = ANY, "MarkovChain.simulate of a sparse matrix, all walkers in one call (numba)"

    def prepare(self, network: Network) -> Walks:
        return self.prepare_chain(
            network, sparse.csr_matrix((_uniform(network), network.indices, network.indptr))
        )

    def prepare_chain(self, network: Network, transition: Any) -> Walks:
        """Return the walk by a transition matrix of one's own."""
        chain = self.library.MarkovChain(sparse.csr_matrix(transition))

        def walk(steps: int, first: Ints) -> Any:
            return chain.simulate(steps + 1, init=first, random_state=0)

        walk(1, np.zeros(2, np.int64))  # compile
        return Walks(network, walk)


class GraphWalker(Peer):
    """The compiled loop of ``walker.random_walks``, which itself takes networkx graphs alone and
    prepares them anew.
    """

    name, module, package, licence = "graph-walker", "walker.walks", "graph-walker", "MIT"
    can, how = SIMPLE, "its compiled loop on cumulated rows, all walkers in one call (numba)"

    def prepare(self, network: Network) -> Walks:
        import_module("numba").set_num_threads(1)
        cumulated = _cumulated(network).astype(np.float32)
        indptr, indices = network.indptr.astype(np.int32), network.indices.astype(np.int32)

        def walk(steps: int, first: Ints) -> Any:
            # It starts walker i at node i modulo a number, which is meant to be that of all nodes.
            nodes = min(len(first), network.n)
            return self.library._random_walks(
                indptr, cumulated, indices, nodes, len(first) // nodes, steps + 1
            )

        walk(1, np.zeros(2, np.int64))  # compile
        return Walks(network, walk)


PEERS: tuple[Peer, ...] = (Igraph(), Networkit(), QuantEcon(), GraphWalker())


def _edges(network: Network) -> Ints:
    """Return every edge once, as pairs."""
    source = np.repeat(np.arange(network.n), network.degree)
    once = source < network.indices
    return np.column_stack((source[once], network.indices[once].astype(np.int64)))


def _uniform(network: Network) -> Floats:
    return np.repeat(1.0 / network.degree, network.degree)


def _cumulated(network: Network) -> Floats:
    """Return each row's cumulated probabilities, up to 1."""
    rank = np.arange(len(network.indices)) - np.repeat(network.indptr[:-1], network.degree)
    return (rank + 1) * _uniform(network)


def _places(network: Network, here: Ints, there: Ints) -> Ints:
    """Return where ``there`` stands among the neighbours of ``here``, -1 if it does not."""
    degree = network.degree[here]
    low, high = np.zeros(len(here), np.int64), degree.copy()
    while (low < high).any():
        middle = (low + high) // 2
        found = network.indices[network.indptr[here] + np.minimum(middle, degree - 1)]
        right = (low < high) & (found < there)
        low, high = np.where(right, middle + 1, low), np.where((low < high) & ~right, middle, high)
    place = np.minimum(low, degree - 1)
    return np.where(network.indices[network.indptr[here] + place] == there, place, -1)
