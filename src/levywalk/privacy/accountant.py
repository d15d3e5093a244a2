"""The accountant: what several releases with Gaussian noise cost together.

A release is a vector plus Gaussian noise. If it changes by at most Δ between two neighbouring data
sets and the noise has the standard deviation σ, it is μ-GDP with μ = Δ/σ, and also ρ-zCDP with
ρ = μ²/2. Several releases, each of which may depend on those before, add up: μ² = Σ μ_i², and this
is exact (Dong, Roth, Su 2022, "Gaussian differential privacy", Corollary 3.3). So the loss of plain
composition has a closed form and needs no numerical accountant; tests compare it with one.

Losses that are known as ρ alone (`levywalk.privacy.pairwise`) are converted by the formula of
Canonne, Kamath and Steinke (2020, "The discrete Gaussian for differential privacy", Proposition
12), which is an upper bound.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr

_UP = 1.0 + 1e-12  # a root is rounded up, never down
_HUGE = 1e4  # beyond, the closed form is a difference of equal numbers, and ε is of no use anyway


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the least δ for which a μ-GDP release is (ε, δ)-DP (Balle and Wang 2018, Theorem 8).

    Examples
    --------
    >>> round(gaussian_delta(1.0, 0.0), 6)  # the total variation distance, 2Φ(1/2) - 1
    0.382925
    """
    if mu == 0.0:
        return 0.0
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0))
    return max(0.0, float(ndtr(-epsilon / mu + mu / 2.0)) - math.exp(min(second, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least ε for which a μ-GDP release is (ε, δ)-DP.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))  # by ρ-zCDP
    if mu > _HUGE:
        return most
    found = brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, most, xtol=1e-13, rtol=1e-13)
    return float(found) * _UP


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which a μ-GDP release is (ε, δ)-DP.

    Examples
    --------
    >>> round(gaussian_mu(gaussian_epsilon(1.0, 1e-5), 1e-5), 9)
    1.0
    """
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2.0
    low = 1.0
    while gaussian_delta(low, epsilon) > delta:
        low /= 2.0
    found = brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, low, high, xtol=1e-14)
    return float(found) / _UP


def zcdp_epsilon(rho: float, delta: float, largest_order: float = math.inf) -> float:
    """Return an ε for which every ρ-zCDP mechanism is (ε, δ)-DP.

    If Rényi divergences are known up to an order alone, no larger one is used.

    Examples
    --------
    >>> round(zcdp_epsilon(0.5, 1e-5), 3)  # a Gaussian release with μ = 1 needs 4.377
    4.728
    """
    if rho == 0.0:
        return 0.0

    def bound(depth: float) -> float:
        order = 1.0 + math.exp(depth)  # of the Rényi divergence
        rest = math.log(1.0 / (order * delta)) / (order - 1.0) + math.log1p(-1.0 / order)
        return order * rho + rest

    high = min(24.0, math.log(largest_order - 1.0)) if largest_order < math.inf else 24.0
    found = minimize_scalar(bound, bounds=(-12.0, high), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun)) * _UP
