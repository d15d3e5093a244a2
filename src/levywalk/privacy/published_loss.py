"""The published closed formula for what one node learns of another from a random walk.

Cyffers, Bellet and Upadhyay (2024, "Differentially private decentralized learning with random
walks", ICML) count the updates of node u one by one. If v first sees the model k updates after one
of them, that update's own noise included, k equal noises hide it, and its Rényi loss is α/(2σ²k)
(Feldman, Mironov, Talwar, Thakurta 2018), where σ is the noise as a multiple of the sensitivity:
`Privacy.noise`. Nobody knows k before the walk is made, so the losses are averaged over walks. Weak
convexity of the Rényi divergence (Feldman et al., Lemma 25) permits that at the price of a factor
1 + c for orders with α(α - 1) ≤ 2cσ²; c = 1 gives α/(σ²k). A walk with the symmetric transition
matrix W is at u in T/n of T steps and at v after k more steps with the probability (Wᵏ)_uv, so

    ε_uv(α) = (αT/(σ²n)) Σ_{k ≤ T} (Wᵏ)_uv / k ≈ αT ln T/(σ²n²) + (αT/(σ²n)) L_uv,

    L = Σ_{λ < 1} -ln(1 - λ) φ φᵀ, over the eigenvalues λ and eigenvectors φ of W:

minus the logarithm of I - W without the constant eigenvector, which has the term ln T/n instead.

It is an expectation, for planning: a walk that was made can lose more. And it counts each update by
itself, while several updates of u that v sees together are one larger shift, whose loss is more
than the sum (`levywalk.privacy.pairwise`, which is computed for the walk that was made, counts
that). So no budget and no ε that levywalk claims uses it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.privacy.accountant import zcdp_epsilon

PUBLISHED = (
    "the published expectation over walks (Cyffers, Bellet and Upadhyay 2024), in which each "
    "update is counted by itself: for planning; no budget and no claim uses it"
)
_EXACT = 1e-9  # rounding that a transition matrix may have
_SHARE = 0.01  # of ln T/n, that the delays beyond T may add up to


def published_pairwise_rho(transition: Any, steps: int, noise: float) -> Floats:
    """Return ε_uv(α)/α of the published formula for each pair of nodes, before a walk is made.

    It is an expectation over walks that counts each update by itself, for planning alone; see
    `levywalk.privacy.published_loss` for its assumptions: a walk without jumps, whose chain is
    symmetric, from a uniform start; one token; plain SGD on linear models with one output, each
    sample clipped, the same noise at every node and γ ≤ 2/L.

    Parameters
    ----------
    transition
        W, such as `levywalk.transition` returns it.
    steps
        T. The delays beyond T must count for little, otherwise the number is refused.
    noise
        σ, that of `levywalk.Privacy`.

    Returns
    -------
    array
        (n, n), symmetric; the diagonal means nothing. One update that is seen at once has
        1/(2 noise²) in the same unit, and here twice that, for the mean over walks.

    Examples
    --------
    >>> uniform = np.full((4, 4), 0.25)  # every node is next with the same probability: L is 0
    >>> rho = published_pairwise_rho(uniform, steps=1000, noise=5.0)
    >>> float(rho[0, 1].round(4)), round(1000 * math.log(1000) / (5.0**2 * 4**2), 4)
    (17.2694, 17.2694)
    """
    steps = checks.integer("steps", steps, low=2)
    noise = checks.positive("noise", noise)
    values, vectors = _spectrum(transition)
    n = len(values)
    needed = _steps_needed(values, n)
    if steps < needed:
        raise InvalidParameter(
            f"steps must be at least {needed} here, got {steps}: the formula sums over all delays, "
            "and in a shorter walk those that do not occur are a part that counts"
        )
    found: Floats = steps / (noise**2 * n) * (math.log(steps) / n + _logarithm(values, vectors))
    return found


def sum_over_delays(transition: Any) -> Floats:
    """Return L, the sum over all delays k of (Wᵏ - 1/n)/k, in closed form.

    Examples
    --------
    >>> sum_over_delays(np.full((3, 3), 1 / 3)).round(12) + 0.0
    array([[0., 0., 0.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    return _logarithm(*_spectrum(transition))


def published_epsilon(rho: float, noise: float, delta: float) -> float:
    """Return ε at δ of a published loss, from the Rényi orders for which its averaging holds.

    Examples
    --------
    >>> round(published_epsilon(0.02, noise=5.0, delta=1e-5), 2)  # 0.79 if all orders counted
    1.45
    """
    order = 0.5 + math.sqrt(0.25 + 2.0 * noise**2)  # α(α - 1) = 2σ²
    return zcdp_epsilon(max(rho, 0.0), delta, largest_order=order)


def hop_distances(network: Network) -> Ints:
    """Return the number of hops between each pair of nodes.

    Examples
    --------
    >>> import levywalk as lw
    >>> hop_distances(lw.ring(5))[0]
    array([0, 1, 2, 2, 1])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    ones = np.ones(len(network.indices))
    matrix = csr_array((ones, network.indices, network.indptr), shape=(network.n, network.n))
    found: Ints = shortest_path(matrix, unweighted=True).astype(np.int64)
    return found


def mean_by_distance(values: Floats, distance: Ints) -> list[float]:
    """Return the mean over pairs of nodes at each distance: 1, 2, ….

    Examples
    --------
    >>> mean_by_distance(np.array([[0.0, 1.0], [3.0, 0.0]]), np.array([[0, 1], [1, 0]]))
    [2.0]
    """
    return [float(values[distance == d].mean()) for d in range(1, int(distance.max()) + 1)]


def _spectrum(transition: Any) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of W; that of the constant vector is 0 in place of 1, so
    that it adds nothing to a sum of powers.
    """
    full = transition.toarray() if hasattr(transition, "toarray") else transition
    matrix = np.asarray(full, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InvalidParameter(
            f"transition must be a matrix of at least two nodes, got {matrix.shape}"
        )
    if np.abs(matrix - matrix.T).max() > _EXACT or np.abs(matrix.sum(axis=1) - 1.0).max() > _EXACT:
        raise InvalidParameter(
            "transition must be symmetric with rows that add up to 1, which that of a walk with a "
            "uniform target and without jumps is, such as lw.unif_rw()"
        )
    n = len(matrix)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0 - 1.0 / n)
    if values.max() > 1.0 - _EXACT:
        raise InvalidParameter("transition must be that of a connected network")
    return values, vectors


def _logarithm(values: Floats, vectors: Floats) -> Floats:
    found: Floats = (vectors * -np.log1p(-values)) @ vectors.T
    return found


def _steps_needed(values: Floats, n: int) -> int:
    """Return the least number of steps beyond which delays count for little."""
    size, rest = np.abs(values), np.where(values > 0.0, 1.0 - values, 1.0)

    def enough(steps: int) -> bool:
        tail = np.max(size ** (steps + 1.0) / ((steps + 1.0) * rest))
        return bool(tail <= _SHARE * math.log(steps) / n)

    high = 2
    while not enough(high):
        high *= 2
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
