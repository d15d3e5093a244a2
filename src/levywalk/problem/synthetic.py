"""The paper's data (section "Simulation Settings"): one sample per node, y = Aᵀx + ε."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidParameter
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.samples import read_only
from levywalk.registry import registered
from levywalk.room import require_bytes

# Separate random streams: with the same seed both distributions share x, ε and the directions of A,
# and differ only in the scale of A.
_TRUTH, _FEATURES, _NOISE, _IMPORTANT = range(4)


class SyntheticLeastSquares(LeastSquares):
    """A least-squares problem that stores the parameters from which it was drawn.

    Parameters
    ----------
    features, targets
        As for `LeastSquares`, one sample per node.
    truth
        The x that generated the targets. It differs from the optimum because of the noise.
    important_nodes
        The nodes whose features have the large variance, sorted.

    Examples
    --------
    >>> problem = SyntheticLeastSquares(
    ...     [[1.0], [2.0]], [1.0, 2.0], truth=[1.0], important_nodes=[1]
    ... )
    >>> problem.truth, problem.important_nodes
    (array([1.]), array([1]))
    """

    def __init__(
        self, features: Any, targets: Any, *, truth: Any, important_nodes: Any = ()
    ) -> None:
        super().__init__(features, targets)
        self.truth: Floats = read_only(np.asarray(truth, dtype=np.float64))
        self.important_nodes: Ints = read_only(np.asarray(important_nodes, dtype=np.int64))


@registered("data")
def homogeneous(
    n: int,
    dim: int = 10,
    sigma2: float = 1.0,
    noise: float | None = None,
    seed: int = 0,
    *,
    snr: float | None = None,
) -> SyntheticLeastSquares:
    """Draw the paper's homogeneous data: A_v ~ N(0, σ² I), x ~ N(0, I), y_v = A_vᵀx + ε_v.

    Parameters
    ----------
    n
        The number of nodes, one sample each.
    dim
        The number of features.
    sigma2
        The variance σ² of every feature.
    noise
        The standard deviation of ε; None is the paper's value 1.
    seed
        Same seed, same data.
    snr
        ‖x‖²/noise² of the drawn instance, instead of ``noise``; ``inf`` is no noise at all. Truth
        and noise enter relative errors only through this ratio and the direction of x
        (docs/paper.md).

    Returns
    -------
    LeastSquares
        It has the attribute ``truth``, the x that generated the targets.

    Examples
    --------
    >>> problem = homogeneous(1000)
    >>> problem.n, problem.dim, bool(np.linalg.norm(problem.optimum - problem.truth) < 0.3)
    (1000, 10, True)
    """
    n, dim = _sizes(n, dim)
    sigma2, seed = checks.positive("sigma2", sigma2), checks.seed(seed)
    return _draw(n, dim, sigma2, _noise(noise, snr, seed, dim), seed)


@registered("data")
def heterogeneous(
    n: int,
    dim: int = 10,
    sigma2_low: float = 1.0,
    sigma2_high: float = 100.0,
    p_high: float = 0.002,
    noise: float | None = None,
    important: int | None = None,
    seed: int = 0,
    *,
    snr: float | None = None,
) -> SyntheticLeastSquares:
    """Draw the paper's heterogeneous data: a few important nodes have features of large variance.

    Every node is important with probability ``p_high``, independently; A_v ~ N(0, σ²_H I) at
    important nodes and N(0, σ²_L I) elsewhere. The rest is as in `homogeneous`.

    Parameters
    ----------
    n, dim, noise, seed, snr
        As in `homogeneous`.
    sigma2_low, sigma2_high
        The variances σ²_L and σ²_H of the features.
    p_high
        The probability of an important node; unused when ``important`` is given.
    important
        The exact number of important nodes, instead of ``p_high``; they are placed uniformly at
        random.

    Returns
    -------
    LeastSquares
        It has the attributes ``truth`` and ``important_nodes`` (sorted).

    Examples
    --------
    >>> problem = heterogeneous(1000, important=2, seed=1)
    >>> (
    ...     problem.important_nodes.shape,
    ...     bool(problem.smoothness.max() > 20 * problem.smoothness.mean()),
    ... )
    ((2,), True)
    """
    n, dim = _sizes(n, dim)
    low, high = (
        checks.positive("sigma2_low", sigma2_low),
        checks.positive("sigma2_high", sigma2_high),
    )
    p_high, seed = checks.probability("p_high", p_high), checks.seed(seed)
    deviation = _noise(noise, snr, seed, dim)
    rng = generator(seed, Domain.DATA, _IMPORTANT)
    if important is None:
        chosen = np.flatnonzero(rng.random(n) < p_high)
    else:
        count = checks.integer("important", important, low=0, high=n)
        chosen = np.sort(rng.choice(n, count, replace=False))
    return _draw(n, dim, low, deviation, seed, chosen, high)


def _sizes(n: Any, dim: Any) -> tuple[int, int]:
    """Return the numbers of nodes and features; refuse data that would not fit into memory."""
    n, dim = checks.integer("n", n, low=2), checks.integer("dim", dim, low=1)
    size = 8 * (2 * n * dim + 8 * n + 4 * dim)
    require_bytes(f"data of n = {n} and dim = {dim}", size, "draw fewer nodes or features")
    return n, dim


def _noise(noise: Any, snr: Any, seed: int, dim: int) -> float:
    """Return the standard deviation of ε, which ``snr`` fixes for the drawn truth."""
    if snr is None:
        value = 1.0 if noise is None else noise
        return checks.real("noise", value, "at least 0 (a standard deviation)", low=0.0)
    if noise is not None:
        raise InvalidParameter(
            f"snr = {snr!r} and noise = {noise!r} both fix the noise; give one of them"
        )
    if isinstance(snr, float) and math.isinf(snr) and snr > 0.0:
        return 0.0
    ratio = checks.real("snr", snr, "above 0, or inf for no noise", low=0.0, low_open=True)
    return float(np.linalg.norm(_truth(seed, dim)) / math.sqrt(ratio))


def _truth(seed: int, dim: int) -> Floats:
    return generator(seed, Domain.DATA, _TRUTH).standard_normal(dim)


def _draw(
    n: int,
    dim: int,
    sigma2: float,
    noise: float,
    seed: int,
    important: Ints | None = None,
    sigma2_high: float = 1.0,
) -> SyntheticLeastSquares:
    truth = _truth(seed, dim)
    features = generator(seed, Domain.DATA, _FEATURES).standard_normal((n, dim))
    targets = generator(seed, Domain.DATA, _NOISE).standard_normal(n)
    chosen = np.empty(0, dtype=np.int64) if important is None else important
    rest = features[chosen] * np.sqrt(sigma2_high)
    if sigma2 != 1.0:
        features *= np.sqrt(sigma2)
    features[chosen] = rest
    targets *= noise
    targets += features @ truth
    return SyntheticLeastSquares(features, targets, truth=truth, important_nodes=chosen)
