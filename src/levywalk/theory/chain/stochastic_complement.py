"""The chain at the nodes with data only: how a walk moves from one update to the next.

Nodes without data (idle nodes) pass the model on. With D the nodes with data and I the idle ones,
the model moves from update to update by the stochastic complement

    P_DD + P_DI (1 - P_II)⁻¹ P_ID        (Meyer 1989, SIAM Review 31)

whose stationary law is that of P, conditioned on D. Idle nodes that do not reach each other are
eliminated apart from each other. The diagonal of 1 - P_II is summed from the other entries of its
row and not subtracted from 1, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter, TooLarge
from levywalk.remedy import python_or_command

_MOST_ENTRIES = 20_000_000  # that idle nodes add to the matrix; each takes 12 bytes
_DENSE = 2_000  # idle nodes that are solved densely
_MOST_TOGETHER = 100_000  # idle nodes that reach each other


def simulate() -> str:
    """Return what to do where theory has no answer."""
    return python_or_command(
        "simulate with lw.run or lw.walk", "measure it with `levywalk compare` instead"
    )


class StochasticComplement:
    """The moves from one node with data to the next, of a chain on all nodes of a network.

    Examples
    --------
    >>> P = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])  # a path of three nodes
    >>> holders = np.array([0, 2])  # the one between has no data
    >>> found = StochasticComplement(sparse.csr_array(P), holders)
    >>> found.matrix().toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> found.visits(np.array([0.5, 0.5]))
    array([0.5, 1. , 0.5])
    """

    def __init__(self, P: sparse.csr_array, holders: Ints) -> None:
        n = P.shape[0]
        idle = np.ones(n, dtype=bool)
        idle[holders] = False
        self.n, self.holders, self.idle = n, holders, np.flatnonzero(idle)
        mine, others = P[holders], P[self.idle]
        self.direct, self.enter = mine[:, holders], sparse.csr_array(mine[:, self.idle])
        self.back, self.within = sparse.csr_array(others[:, holders]), others[:, self.idle]
        self._check()
        moves = sparse.csr_array(self.within - sparse.diags_array(self.within.diagonal()))
        moves.eliminate_zeros()
        self._moves = moves
        self.leave = np.asarray(moves.sum(axis=1) + self.back.sum(axis=1), dtype=np.float64)
        count, label = csgraph.connected_components(moves, directed=True, connection="weak")
        order = np.argsort(label, kind="stable")
        self._groups = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])

    def _check(self) -> None:
        """Refuse idle nodes from which the model never comes back."""
        k, moves = len(self.idle), self.within.tocoo()
        last = np.flatnonzero(np.asarray(self.back.sum(axis=1)).ravel() > 0.0)
        # Moves backwards, from a further state that stands for all nodes with data.
        rows = np.concatenate([moves.col, np.full(len(last), k)])
        columns = np.concatenate([moves.row, last])
        backwards = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(k + 1, k + 1))
        returning = csgraph.breadth_first_order(backwards, k, return_predecessors=False)
        entered = np.flatnonzero(np.asarray(self.enter.sum(axis=0)).ravel() > 0.0)
        stuck = np.setdiff1d(entered, returning)
        if stuck.size:
            v = int(self.idle[stuck[0]])
            raise InvalidParameter(
                f"design never returns from node {v}, which has no data, to a node with data; "
                "use a design that reaches every node"
            )

    def _large(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield groups of several idle nodes that are entered: nodes, nodes before, nodes after."""
        columns = sparse.csc_array(self.enter)
        for group in self._groups:
            if len(group) == 1:
                continue
            before = np.unique(columns[:, group].indices).astype(np.int64)
            if before.size:
                after = np.unique(self.back[group].indices).astype(np.int64)
                yield group.astype(np.int64), before, after

    @property
    def _single(self) -> Ints:
        """Idle nodes without an idle neighbour that can be left."""
        found = [group[0] for group in self._groups if len(group) == 1]
        nodes = np.array(found, dtype=np.int64)
        return nodes[self.leave[nodes] > 0.0]

    def _solve(self, group: Ints, right: Floats, transposed: bool = False) -> Floats:
        """Solve with 1 - P_II of a group, or with its transpose."""
        if len(group) > _MOST_TOGETHER:
            raise TooLarge(
                f"{len(group)} nodes without data lie next to each other, which is too many for "
                f"theory; {simulate()}"
            )
        system = sparse.diags_array(self.leave[group]) - self._moves[group][:, group]
        if transposed:
            system = system.T
        if len(group) <= _DENSE:
            return np.asarray(np.linalg.solve(system.toarray(), right))
        return np.asarray(splu(sparse.csc_array(system)).solve(np.ascontiguousarray(right)))

    def matrix(self) -> sparse.csr_array:
        """Return the probabilities to move from one node with data to the next, in their order."""
        single = self._single
        through = self.enter[:, single] @ sparse.diags_array(1.0 / self.leave[single])
        total = sparse.csr_array(self.direct + through @ self.back[single])
        large = list(self._large())
        entries = total.nnz + sum(len(before) * len(after) for _, before, after in large)
        if entries > _MOST_ENTRIES:
            raise TooLarge(
                f"the chain between {len(self.holders)} nodes with data would have {entries:.1e} "
                f"entries, because large parts of the network have no data; {simulate()}"
            )
        m = len(self.holders)
        for group, before, after in large:
            ends = self._solve(group, self.back[group][:, after].toarray())
            block = self.enter[before][:, group] @ ends
            rows, columns = np.repeat(before, len(after)), np.tile(after, len(before))
            total = total + sparse.csr_array(
                (np.maximum(np.asarray(block), 0.0).ravel(), (rows, columns)), shape=(m, m)
            )
        found = sparse.csr_array(total)
        sums = np.asarray(found.sum(axis=1), dtype=np.float64)
        if not np.allclose(sums, 1.0, rtol=0.0, atol=1e-9):
            raise TooLarge(
                "the chain between the nodes with data could not be computed accurately: its rows "
                f"miss 1 by up to {float(np.abs(sums - 1.0).max()):.1e}; {simulate()}"
            )
        return sparse.csr_array(sparse.diags_array(1.0 / sums) @ found)

    def visits(self, law: Floats) -> Floats:
        """Return how often each node of the network decides per update, on average.

        ``law`` is the law of the updates over the nodes with data, whose entries it keeps.
        """
        found = np.zeros(self.n)
        found[self.holders] = law
        inflow = np.asarray(law @ self.enter, dtype=np.float64)
        single = self._single
        found[self.idle[single]] = inflow[single] / self.leave[single]
        for group, _, _ in self._large():
            found[self.idle[group]] = self._solve(group, inflow[group], transposed=True)
        return found
