"""The corollaries of the bounds: the step size and the number of steps for an accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from levywalk.errors import InvalidParameter
from levywalk.theory.judge.bound_forms import BoundConstants, BoundTerms, corrected, over, times

_MOST_STEPS = 1e300


@dataclass(frozen=True, slots=True)
class Complexity:
    """The step size and the number of steps that a form of the bound needs for an accuracy.

    Attributes
    ----------
    label
        The corollary.
    step_size, steps
        γ and T; T is infinite if the form gives no guarantee.
    error
        The bound on E‖x^T - x*‖² after these steps: the accuracy plus the bias of jumps.
    """

    label: str
    step_size: float
    steps: float
    error: float


def complexity(
    c: BoundConstants, accuracy: float, forms: dict[str, BoundTerms], *, jumps: bool
) -> dict[str, Complexity]:
    """Return what each form, and the centralised method, needs for ``accuracy`` times the first
    error.
    """
    if c.initial2 == 0.0:
        raise InvalidParameter(
            f"accuracy {accuracy!r} is relative to the initial error, which is 0 because x0 is the "
            "optimum; give another x0"
        )
    target = accuracy * c.initial2
    found = {}
    if "printed" in forms:
        found["printed"] = _printed_corollary(c, target, jumps=jumps)
    if "corrected" in forms:
        found["corrected"] = _corrected_corollary(c, target)
    found["centralised"] = _centralised(c, target)
    return found


def _printed_corollary(c: BoundConstants, target: float, *, jumps: bool) -> Complexity:
    """[CompMHLJ] or [coro:ratenojump], as printed: with σ*², and with jumps μ⁴ and no factor 2 in
    T.
    """
    noise = c.L_star * c.w_max * over(c.sigma_star2, c.spectral_gap)
    gamma = min(1.0 / c.L_star, over(target * c.mu**2, 2.0 * noise))
    logarithm = max(0.0, math.log(4.0 * c.initial2 / target)) * (1.0 if jumps else 2.0)
    steps = times(logarithm, over(noise, target * c.mu**3))
    moved = c.L_star * c.w_max**2 * c.p_jump**2 * c.total_variation**2 * c.sigma_max2
    label = "CompMHLJ" if jumps else "coro:ratenojump"
    return Complexity(label, gamma, _ceil(steps), target + (over(moved, c.mu**4) if jumps else 0.0))


def _corrected_corollary(c: BoundConstants, target: float) -> Complexity:
    """Choose γ such that the variance takes half of the accuracy, then T such that the rest
    suffices.

    See docs/theory.md.
    """
    if c.mu_weighted == 0.0 or c.spectral_gap == 0.0:
        return Complexity("corrected", 0.0, math.inf, math.inf)
    gamma = min(
        1.0 / c.L_star,
        over(target * c.spectral_gap * c.mu_weighted**2, 4.0 * c.L_star * c.variance),
    )
    if gamma * c.mu_weighted == 0.0:
        return Complexity("corrected", gamma, math.inf, math.inf)

    def enough(steps: float) -> bool:
        terms = corrected(c, gamma, steps)
        return terms.transient + terms.remainder <= 0.5 * target

    # T²qᵀ decreases from T = 2/(γμ_w) on, so every T after the first that suffices does so too.
    low = high = math.ceil(2.0 / (gamma * c.mu_weighted))
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1 and not enough(low):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    steps = low if enough(low) else high
    return Complexity("corrected", gamma, float(steps), target + corrected(c, gamma, steps).bias)


def _centralised(c: BoundConstants, target: float) -> Complexity:
    """Eq. [needellcomplex]: a server draws nodes by weight; μ is that of f, L̄ and L_min those of
    the data.
    """
    mu = c.mu_global
    noise = c.L_mean / c.L_min * over(c.sigma_star2, mu**2 * target)
    steps = times(2.0 * max(0.0, math.log(2.0 * c.initial2 / target)), over(c.L_mean, mu) + noise)
    gamma = mu * target / (2.0 * c.L_mean * (mu * target + c.sigma_star2 / c.L_min))
    return Complexity("needellcomplex", gamma, _ceil(steps), target)


def _ceil(steps: float) -> float:
    return float(math.ceil(steps)) if steps < _MOST_STEPS else math.inf
