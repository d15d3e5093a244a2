"""The bounds as formulas, term by term: [thmhlj] and [thmnojump] as printed, and the corrected
form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from levywalk.notebook import table_html


@dataclass(frozen=True, slots=True, repr=False)
class BoundConstants:
    """The constants in the bounds.

    Attributes
    ----------
    L_mean, L_min, L_max
        L̄, the smallest and the largest L_v.
    L_star, w_max
        L* = max w(v)L_v and the largest w(v); for importance sampling these are L̄ and L̄/L_min.
    mu
        min_v μ_v, the paper's μ (Assumption 2 is about every f_v).
    mu_weighted
        μ_w = min_v w(v)μ_v, the rate by which an update is sure to contract.
    mu_global
        The strong convexity of f, which the centralised method uses.
    sigma_star2, sigma_max2
        The mean and the maximum over nodes of ‖∇f_v(x*)‖².
    drift2, variance
        ‖m‖² and V: with h_v = w(v)∇f_v(x*), m = E_ν h and V = E_ν‖h - m‖².
    total_variation
        ‖π - ν‖_TV between the target and the stationary law of the chain.
    spectral_gap, gap_kind, gap_trusted
        η, its kind (the right gap of a reversible chain, else the singular-value gap), and whether
        it can be trusted.
    p_jump, initial2
        p_J and ‖x⁰ - x*‖².
    """

    L_mean: float
    L_min: float
    L_max: float
    L_star: float
    w_max: float
    mu: float
    mu_weighted: float
    mu_global: float
    sigma_star2: float
    sigma_max2: float
    drift2: float
    variance: float
    total_variation: float
    spectral_gap: float
    gap_kind: str
    gap_trusted: bool
    p_jump: float
    initial2: float

    def __repr__(self) -> str:
        return (
            f"BoundConstants(η = {self.spectral_gap:.4g}, L* = {self.L_star:.4g}, "
            f"μ_w = {self.mu_weighted:.4g}, V = {self.variance:.4g})"
        )

    def _repr_html_(self) -> str:
        rows = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return table_html(rows, "Constants in the bounds")


@dataclass(frozen=True, slots=True)
class BoundTerms:
    """One form of a bound on E‖x^T - x*‖², term by term.

    Attributes
    ----------
    label
        The paper's label, or "corrected".
    transient, variance, bias
        The contributions of the first model, of the noise and of the jumps.
    remainder
        The contribution of the start of the auxiliary sequence. It vanishes with T. The paper drops
        it.
    """

    label: str
    transient: float
    variance: float
    bias: float
    remainder: float = 0.0

    @property
    def total(self) -> float:
        """The bound, the sum of the terms."""
        return self.transient + self.variance + self.bias + self.remainder


def corrected(c: BoundConstants, gamma: float, steps: float) -> BoundTerms:
    """Return the corrected bound 2qᵀe₀ + 2γL*V/(ημ_w²) + 2L*‖m‖²/μ_w³ + 2γ²qᵀ(2VT/η + T²‖m‖²).

    Here q = 1 - γμ_w. The bound holds for γ ≤ 1/L* and is infinite otherwise.

    Parameters
    ----------
    c, gamma, steps
        The constants, γ and T.
    """
    if gamma * c.L_star > 1.0 + 1e-12:
        return BoundTerms("corrected", math.inf, math.inf, math.inf)
    decay = decay_factor(gamma * c.mu_weighted, steps)
    noise = over(c.variance, c.spectral_gap)
    start = times(steps, times(2.0, noise)) + c.drift2 * steps**2
    return BoundTerms(
        "corrected",
        2.0 * decay * c.initial2,
        times(2.0 * gamma * c.L_star, over(noise, c.mu_weighted**2)),
        2.0 * c.L_star * over(c.drift2, c.mu_weighted**3),
        times(2.0 * gamma**2 * decay, start),
    )


def printed(c: BoundConstants, gamma: float, steps: int, *, jumps: bool) -> dict[str, BoundTerms]:
    """Return [thmhlj] or, without jumps, [thmnojump] in three versions.

    "printed" is the theorem, "printed-proof" the last line of its proof, and "printed-lemmas" has
    the constants of its lemmas.
    """
    label = "thmhlj" if jumps else "thmnojump"
    names = ("printed", "printed-proof", "printed-lemmas")
    if gamma * c.L_star > 1.0 + 1e-12:
        return {name: BoundTerms(label, math.inf, math.inf, math.inf) for name in names}
    transient = 2.0 * decay_factor(gamma * c.mu, steps) * c.initial2
    sigma2 = c.sigma_max2 if jumps else c.sigma_star2
    variance = gamma * c.L_star * over(over(sigma2, c.spectral_gap), c.mu**2)
    moved = (
        c.L_star * c.w_max**2 * over(c.total_variation**2 * c.sigma_max2, c.mu**3) if jumps else 0.0
    )
    return {
        "printed": BoundTerms(
            label, transient, variance * (1.0 if jumps else c.w_max), c.p_jump**2 * moved
        ),
        "printed-proof": BoundTerms(label, transient, variance * c.w_max, c.p_jump**2 * moved),
        "printed-lemmas": BoundTerms(label, transient, 6.0 * variance * c.w_max, 12.0 * moved),
    }


def decay_factor(rate: float, steps: float) -> float:
    """Return (1 - rate)^steps."""
    return 0.0 if rate >= 1.0 else math.exp(steps * math.log1p(-rate))


def over(value: float, divisor: float) -> float:
    """Return value / divisor; 0 if the value is 0, and infinity if only the divisor is 0."""
    if value == 0.0:
        return 0.0
    return value / divisor if divisor > 0.0 else math.inf


def times(a: float, b: float) -> float:
    """Return a · b with 0 · ∞ = 0."""
    return 0.0 if a == 0.0 or b == 0.0 else a * b
