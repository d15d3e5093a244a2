from __future__ import annotations

import numpy as np

from levywalk.network.edge_sets import suitable


def test_being_stuck_is_judged_as_networkx_judges_it():
    # nodes 2 and 3 could still be joined, but networkx's loop compares with the smallest node only
    edges = np.array([1 << 32 | 2, 1 << 32 | 3])
    assert not suitable(edges, [1, 2, 3])
    assert not suitable(edges, [1])
    assert suitable(edges, [2, 3])
    assert suitable(edges, [1, 2, 4])
