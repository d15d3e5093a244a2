"""What one node, or whoever sees the final model, learns from a walk of which it sees only a part.

Between an update of node u and the moment at which an observer sees the model, other nodes add
noise of their own. For maps that bring no two models further apart (gradient steps of convex smooth
functions with γL ≤ 2) this noise hides the update as well: privacy amplification by iteration
(Feldman, Mironov, Talwar, Thakurta 2018), which Cyffers, Bellet and Upadhyay (2024, "Differentially
private decentralized learning with random walks") use between pairs of nodes, so that the loss
falls with their distance.

Here the loss is computed for the walk that was made, whose whole path the observer may know: the
path is independent of the data. With updates of u at times s_1 < s_2 < … since the observer last
saw the model, each of which moves it by at most γΔ between neighbouring data, the theorem of
Feldman et al. allows any division of these shifts over the noise that follows them; the best one is
the lower convex hull of the points (clock at s_j, j - 1) and (clock when it is seen, m), where the
clock is the variance of the noise so far. Several updates between two views add up to one larger
shift, and the hull counts that; a sum over the updates, each by itself, would not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from levywalk.arrays import Bools, Floats, Ints


def pairwise_rho(
    walk: Ints,
    updates: Sequence[bool] | Bools,
    shift: Floats,
    variance: Floats,
    observer: int,
    n: int,
) -> Floats:
    """Return ρ (zCDP) of each node's data against one observer, for a walk that was made.

    Parameters
    ----------
    walk
        The node of each step.
    updates
        Whether the node updated the model in that step; otherwise it passed it on as it was.
    shift
        By how much an update of that step can move the model: γΔ.
    variance
        The variance of each entry of the noise that the update of that step added to the model.
    observer
        A node, which sees the model whenever it comes there, or -1: whoever sees the model after
        the last step alone.
    n
        The number of nodes.

    Examples
    --------
    Node 0 updates, then node 1, and node 2 sees the result: half of the loss without node 1.

    >>> ones = np.ones(3)
    >>> pairwise_rho(np.array([0, 1, 2]), [True] * 3, ones, ones, observer=2, n=3)
    array([0.25, 0.5 , 0.  ])
    """
    clock = np.concatenate([[0.0], np.cumsum(np.where(updates, variance, 0.0))])
    found = np.zeros(n)
    waiting: dict[int, list[tuple[float, float]]] = {}
    for t, v in enumerate(walk.tolist()):
        if v == observer:
            _add_costs(found, waiting, clock[t])
        elif updates[t]:
            waiting.setdefault(v, []).append((clock[t], shift[t]))
    if observer < 0:
        _add_costs(found, waiting, clock[len(walk)])
    return found


def _add_costs(found: Floats, waiting: dict[int, list[tuple[float, float]]], now: float) -> None:
    """Add what the updates since the last view cost, now that the model is seen."""
    for v, made in waiting.items():
        found[v] += 0.5 * hull_cost(made, now)
    waiting.clear()


def hull_cost(made: Sequence[tuple[float, float]], now: float) -> float:
    """Return the least Σ a_i²/σ_i² over all divisions of shifts over the noise that follows them.

    ``made`` has the clock before each update and the shift that it can make.

    Examples
    --------
    >>> hull_cost([(0.0, 1.0)], 4.0), hull_cost([(0.0, 1.0), (1.0, 1.0)], 4.0)
    (0.25, 1.0)
    """
    points: list[tuple[float, float]] = []
    height = 0.0
    for clock, shift in made:
        _turn(points, clock, height)
        height += shift
    _turn(points, now, height)
    cost = 0.0
    for (x, y), (right, up) in itertools.pairwise(points):
        cost += (up - y) ** 2 / (right - x)
    return cost


def _turn(points: list[tuple[float, float]], x: float, y: float) -> None:
    """Add a point to a lower convex hull, and drop those that are above it now."""
    while len(points) > 1:
        (x0, y0), (x1, y1) = points[-2:]
        if (y1 - y0) * (x - x1) < (y - y1) * (x1 - x0):
            break
        points.pop()
    points.append((x, y))
