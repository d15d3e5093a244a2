"""A walk of your own: a uniform neighbour, but not the one that the model came from."""

import numpy as np

import levywalk as lw


class NonBacktracking(lw.Walk):
    """Leave by a uniform edge other than the one of arrival (Alon, Benjamini, Lubetzky, Sodin
    2007).
    """

    name = "non_backtracking_example"
    target = "degree"  # the walk's law: nodes are visited in proportion to their degree

    def decide(self, view, memory, words):
        others = [u for u in view.live if u != view.came_from] or list(view.live)
        return lw.Decision(others[words.index(len(others))] if others else view.node)

    def chain(self, network, problem):
        """The chain on directed edges: state e is an entry of network.indices."""
        from scipy import sparse

        source = np.repeat(np.arange(network.n), network.degree)
        rows, columns, values = [], [], []
        for e, (u, v) in enumerate(zip(source, network.indices, strict=True)):
            out = range(network.indptr[v], network.indptr[v + 1])
            ways = [f for f in out if network.indices[f] != u] or list(out)
            rows += [e] * len(ways)
            columns += ways
            values += [1.0 / len(ways)] * len(ways)
        return sparse.csr_array((values, (rows, columns)), shape=(len(source), len(source)))

    def compiled(self):
        from numba import njit

        from levywalk.compiled import HOP, split, word

        @njit
        def decide(
            node, came_from, hop, hops_left, score, neighbours, degrees, scores, token, kept, words
        ):
            count, back = len(neighbours), -1
            for i in range(count):
                if neighbours[i] == came_from:
                    back = i
            skip = back >= 0 and count > 1
            index, _ = split(word(words, HOP), np.uint64(count - 1 if skip else count))
            i = np.int64(index)
            if skip and i >= back:
                i += 1
            return neighbours[i], 0

        return decide


lw.register("design", NonBacktracking.name, NonBacktracking)
