"""What the theorems promise: [thmhlj] and [thmnojump] as printed and corrected, term by term, and their corollaries.

Both forms are derived, and the printed one refuted, in docs/theory.md. All figures are for a start at the chain's own
stationary law, as Assumption 4 asks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.judge.closed_form import states
from levywalk.theory.judge.moments import affordable, recur
from levywalk.theory.judge.setting import Setting, local_strong_convexity, make_setting, not_stated, start_model
from levywalk.walks import Design, TruncatedGeometric

FORMS = ("corrected", "printed", "both")
_MOST_STEPS = 1e300


@dataclass(frozen=True, slots=True)
class Constants:
    """What the bounds are made of.

    Attributes
    ----------
    L_mean, L_min, L_max
        L̄, the smallest and the largest L_v.
    L_star, w_max
        L* = max w(v)L_v and the largest w(v); for importance sampling L̄ and L̄/L_min.
    mu
        min_v μ_v, the paper's μ (Assumption 2 is about every f_v).
    mu_weighted
        μ_w = min_v w(v)μ_v, by which an update really contracts.
    mu_global
        The strong convexity of f, which the centralised comparison uses.
    sigma_star2, sigma_max2
        Mean and maximum over nodes of ‖∇f_v(x*)‖².
    drift2, variance
        ‖m‖² and V: with h_v = w(v)∇f_v(x*), m = E_ν h and V = E_ν‖h - m‖².
    total_variation
        ‖π - ν‖_TV between the target and the chain's own law.
    spectral_gap, gap_kind, gap_trusted
        η: the right gap of a reversible chain, the singular-value gap of another, and whether it can be trusted.
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


@dataclass(frozen=True, slots=True)
class Terms:
    """One form of a bound on E‖x^T - x*‖², term by term.

    Attributes
    ----------
    label
        The paper's label, or "corrected".
    transient, variance, bias, remainder
        What the first model leaves, what the noise leaves, what the jumps leave, and what the corrected form keeps of
        the auxiliary sequence's start (it vanishes with T; the paper drops it).
    """

    label: str
    transient: float
    variance: float
    bias: float
    remainder: float = 0.0

    @property
    def total(self) -> float:
        """The bound."""
        return self.transient + self.variance + self.bias + self.remainder


@dataclass(frozen=True, slots=True)
class Complexity:
    """How many steps, with which step size, a form asks for.

    Attributes
    ----------
    label
        The corollary.
    step_size, steps
        γ and T; infinity where the form promises nothing.
    error
        The E‖x^T - x*‖² that is promised then: the accuracy asked for plus what jumps leave.
    """

    label: str
    step_size: float
    steps: float
    error: float


@dataclass(frozen=True)
class Bounds:
    """The theorems on one network, problem and design.

    Attributes
    ----------
    step_size, steps
        γ and T.
    constants
        All that enters.
    forms
        By name. "corrected"; "printed": the theorem; "printed-proof": the last line of its proof, where the variance
        term has another constant; "printed-lemmas": with the constants that the proof drops and without the p_J² that
        it adds.
    complexity
        For ``accuracy``: the corollary of "printed" and of "corrected", and "centralised", Eq. [needellcomplex].
    hops_per_update, hops_bound
        1 + p_J(E[d] - 1), and the paper's bound 1 + p_J(1/p_d - 1) of it (None for other distance laws).
    exact
        The true E‖x^T - x*‖² from a stationary start, where it can be computed; else None.
    trusted
        Whether the spectral gap, and so the bounds, can be trusted.
    notes
        Why a form promises nothing here, in plain words.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 0.0, 2.0])
    >>> lw.bounds(lw.complete(3), problem, lw.weight_rw(), steps=100).trusted
    True
    """

    step_size: float
    steps: int
    constants: Constants
    forms: dict[str, Terms]
    complexity: dict[str, Complexity]
    hops_per_update: float
    hops_bound: float | None
    exact: float | None
    trusted: bool
    notes: tuple[str, ...]

    def ratio(self, form: str = "corrected") -> float | None:
        """Return the bound over the truth: 1 is sharp, below 1 is false; None when the truth is not known.

        Examples
        --------
        >>> import levywalk as lw
        >>> problem = lw.LeastSquares([[1.0], [2.0], [1.0]], [0.0, 1.0, 2.0])
        >>> lw.bounds(lw.ring(3), problem, lw.weight_rw(), steps=1000).ratio() > 1.0
        True
        """
        terms = self.forms[checks.choice("form", form, self.forms)]
        if self.exact is None:
            return None
        if self.exact == 0.0:
            return math.inf if terms.total > 0.0 else 1.0
        return terms.total / self.exact


def bounds(
    network: Network,
    problem: Problem,
    design: Design,
    *,
    steps: int,
    step_size: float | str = "theory",
    form: str = "both",
    x0: Any = None,
    accuracy: float | None = None,
) -> Bounds:
    """Return what the theorems promise about E‖x^T - x*‖², term by term, as printed and corrected.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`; one design, constant p_jump.
    steps, step_size
        T and γ, a number or "theory" (1/L*).
    form
        "corrected", "printed" or "both".
    x0
        The first model, zeros by default.
    accuracy
        For the corollaries: ε as a share of the initial error ‖x⁰ - x*‖², as in `levywalk.compare`.

    Notes
    -----
    The printed theorems are false: they contract by 1 - γμ where an update at v contracts by 1 - γw(v)μ_v, see
    docs/theory.md. For targets other than importance, L̄ and L̄/L_min in the printed forms are read as L* and max w(v),
    which is what they are there. A problem with one sample per node in several dimensions has μ_v = 0: every form is
    infinite then, and a note says so; a ridge makes it finite.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0], [1.0], [1.0]], [0.0, 1.0, 2.0, 1.0])
    >>> result = lw.bounds(lw.ring(4), problem, lw.mhlj(), steps=1000, step_size=0.01, accuracy=0.1)
    >>> sorted(result.forms)
    ['corrected', 'printed', 'printed-lemmas', 'printed-proof']
    >>> result.exact < result.forms["corrected"].total
    True
    """
    setting = make_setting(network, problem, design, step_size)
    steps = checks.integer("steps", steps, low=1)
    checks.choice("form", form, FORMS)
    first = start_model(problem, x0)
    if accuracy is not None:
        accuracy = checks.positive("accuracy", accuracy)
    constants = _constants(setting, first - setting.optimum)
    forms: dict[str, Terms] = {}
    if form != "printed":
        forms["corrected"] = corrected(constants, setting.step_size, steps)
    if form != "corrected":
        forms |= printed(constants, setting.step_size, steps, jumps=design.jump is not None)
    exact = None
    if affordable(setting, steps):
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(recur(setting, np.array([steps]), first, setting.law).error2[0])
        exact = max(value, 0.0) if math.isfinite(value) else math.inf
    mean_distance = 1.0 if design.jump is None else design.jump.mean_distance()
    return Bounds(
        setting.step_size,
        steps,
        constants,
        forms,
        {} if accuracy is None else _complexity(constants, accuracy, forms, jumps=design.jump is not None),
        1.0 + constants.p_jump * (mean_distance - 1.0),
        _hops_bound(design, constants.p_jump),
        exact,
        constants.gap_trusted,
        _notes(setting, constants, forms),
    )


def corrected(c: Constants, gamma: float, steps: float) -> Terms:
    """Return 2qᵀe₀ + 2γL*V/(ημ_w²) + 2L*‖m‖²/μ_w³ + 2γ²qᵀ(2VT/η + T²‖m‖²), q = 1 - γμ_w; for γ ≤ 1/L* alone.

    Parameters
    ----------
    c, gamma, steps
        What enters, γ and T.
    """
    if gamma * c.L_star > 1.0 + 1e-12:
        return Terms("corrected", math.inf, math.inf, math.inf)
    decay = _decay(gamma * c.mu_weighted, steps)
    noise = _over(c.variance, c.spectral_gap)
    start = _times(steps, _times(2.0, noise)) + c.drift2 * steps**2
    return Terms(
        "corrected",
        2.0 * decay * c.initial2,
        _times(2.0 * gamma * c.L_star, _over(noise, c.mu_weighted**2)),
        2.0 * c.L_star * _over(c.drift2, c.mu_weighted**3),
        _times(2.0 * gamma**2 * decay, start),
    )


def printed(c: Constants, gamma: float, steps: int, *, jumps: bool) -> dict[str, Terms]:
    """Return [thmhlj] or, without jumps, [thmnojump]: the theorem, its proof's last line, and its lemmas' constants."""
    label = "thmhlj" if jumps else "thmnojump"
    names = ("printed", "printed-proof", "printed-lemmas")
    if gamma * c.L_star > 1.0 + 1e-12:
        return {name: Terms(label, math.inf, math.inf, math.inf) for name in names}
    transient = 2.0 * _decay(gamma * c.mu, steps) * c.initial2
    sigma2 = c.sigma_max2 if jumps else c.sigma_star2
    variance = gamma * c.L_star * _over(_over(sigma2, c.spectral_gap), c.mu**2)
    moved = c.L_star * c.w_max**2 * _over(c.total_variation**2 * c.sigma_max2, c.mu**3) if jumps else 0.0
    return {
        "printed": Terms(label, transient, variance * (1.0 if jumps else c.w_max), c.p_jump**2 * moved),
        "printed-proof": Terms(label, transient, variance * c.w_max, c.p_jump**2 * moved),
        "printed-lemmas": Terms(label, transient, 6.0 * variance * c.w_max, 12.0 * moved),
    }


def _constants(setting: Setting, error: Any) -> Constants:
    smoothness = np.asarray(setting.problem.smoothness, dtype=np.float64)
    gradients = setting.weighted_gradients(setting.optimum)
    drift = setting.law @ gradients
    squares = np.square(gradients - drift).sum(axis=1)
    plain = np.square(gradients / setting.weights[:, None]).sum(axis=1)
    local = local_strong_convexity(setting.problem) if states(setting.problem, "smoothness") else None
    globally = states(setting.problem, "strong_convexity")
    kind = "right" if setting.is_reversible() else "singular"
    gap = spectral_gap(setting.P, kind=kind, stationary=setting.law)
    return Constants(
        L_mean=float(smoothness.mean()),
        L_min=float(smoothness.min()),
        L_max=float(smoothness.max()),
        L_star=setting.bound.largest,
        w_max=float(setting.weights.max()),
        mu=0.0 if local is None else float(local.min()),
        mu_weighted=0.0 if local is None else float((setting.weights * local).min()),
        mu_global=float(getattr(setting.problem, "strong_convexity", 0.0)) if globally else 0.0,
        sigma_star2=float(plain.mean()),
        sigma_max2=float(plain.max()),
        drift2=float(drift @ drift),
        variance=float(setting.law @ squares),
        total_variation=0.5 * float(np.abs(setting.bound.law - setting.law).sum()),
        spectral_gap=max(float(gap.value), 0.0),
        gap_kind=kind,
        gap_trusted=bool(gap.trusted),
        p_jump=setting.p_jump,
        initial2=float(error @ error),
    )


def _complexity(c: Constants, accuracy: float, forms: dict[str, Terms], *, jumps: bool) -> dict[str, Complexity]:
    if c.initial2 == 0.0:
        raise InvalidParameter(
            f"accuracy {accuracy!r} is a share of the initial error, which is 0: x0 is the optimum; give another x0"
        )
    target = accuracy * c.initial2
    found = {}
    if "printed" in forms:
        found["printed"] = _printed_corollary(c, target, jumps=jumps)
    if "corrected" in forms:
        found["corrected"] = _corrected_corollary(c, target)
    found["centralised"] = _centralised(c, target)
    return found


def _printed_corollary(c: Constants, target: float, *, jumps: bool) -> Complexity:
    """[CompMHLJ] or [coro:ratenojump], as printed: σ*² and, with jumps, μ⁴ and no factor 2 in T."""
    noise = c.L_star * c.w_max * _over(c.sigma_star2, c.spectral_gap)
    gamma = min(1.0 / c.L_star, _over(target * c.mu**2, 2.0 * noise))
    logarithm = max(0.0, math.log(4.0 * c.initial2 / target)) * (1.0 if jumps else 2.0)
    steps = _times(logarithm, _over(noise, target * c.mu**3))
    moved = c.L_star * c.w_max**2 * c.p_jump**2 * c.total_variation**2 * c.sigma_max2
    label = "CompMHLJ" if jumps else "coro:ratenojump"
    return Complexity(label, gamma, _ceil(steps), target + (_over(moved, c.mu**4) if jumps else 0.0))


def _corrected_corollary(c: Constants, target: float) -> Complexity:
    """Half of the accuracy for the variance fixes γ, half for what decays fixes T; see docs/theory.md."""
    if c.mu_weighted == 0.0 or c.spectral_gap == 0.0:
        return Complexity("corrected", 0.0, math.inf, math.inf)
    gamma = min(1.0 / c.L_star, _over(target * c.spectral_gap * c.mu_weighted**2, 4.0 * c.L_star * c.variance))
    if gamma * c.mu_weighted == 0.0:
        return Complexity("corrected", gamma, math.inf, math.inf)

    def enough(steps: float) -> bool:
        terms = corrected(c, gamma, steps)
        return terms.transient + terms.remainder <= 0.5 * target

    # From 2/(γμ_w) on, T²qᵀ only falls, so that the first T that is enough stays enough.
    low = high = math.ceil(2.0 / (gamma * c.mu_weighted))
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1 and not enough(low):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    steps = low if enough(low) else high
    return Complexity("corrected", gamma, float(steps), target + corrected(c, gamma, steps).bias)


def _centralised(c: Constants, target: float) -> Complexity:
    """Eq. [needellcomplex]: weighted i.i.d. sampling by a server, with f's own μ; L̄ and L_min of the data."""
    mu = c.mu_global
    noise = c.L_mean / c.L_min * _over(c.sigma_star2, mu**2 * target)
    steps = _times(2.0 * max(0.0, math.log(2.0 * c.initial2 / target)), _over(c.L_mean, mu) + noise)
    gamma = mu * target / (2.0 * c.L_mean * (mu * target + c.sigma_star2 / c.L_min))
    return Complexity("needellcomplex", gamma, _ceil(steps), target)


def _hops_bound(design: Design, p_jump: float) -> float | None:
    if design.jump is None:
        return 1.0
    law = design.jump.distance
    return 1.0 + p_jump * (1.0 / law.p_distance - 1.0) if isinstance(law, TruncatedGeometric) else None


def _notes(setting: Setting, c: Constants, forms: dict[str, Terms]) -> tuple[str, ...]:
    notes = []
    if c.mu_weighted == 0.0:
        local = local_strong_convexity(setting.problem)
        unknown = [name for name in ("smoothness", "local_strong_convexity") if not states(setting.problem, name)]
        if unknown or local is None:
            reason = not_stated(setting.problem, (*unknown, "local_strong_convexity")[0])
            notes.append(f"every form is infinite: {reason}; give the problem an attribute of that name")
        else:
            reason = f"{int((local == 0.0).sum())} of {len(local)} nodes have μ_v = 0"
            notes.append(f"every form is infinite: {reason} (Assumption 2 fails); give the problem a ridge above 0")
    if setting.step_size * c.L_star > 1.0 + 1e-12:
        notes.append(
            f"every form is infinite: step_size {setting.step_size:.6g} exceeds 1/L* = {1.0 / c.L_star:.6g}; "
            "step_size='theory' is the largest that the theorems cover"
        )
    if c.spectral_gap == 0.0:
        notes.append(f"every form is infinite: the chain's {c.gap_kind} spectral gap is 0")
    if not c.gap_trusted:
        notes.append(
            "the bounds cannot be trusted: the spectral gap is only known to be at most the value used, "
            "so they may be too small"
        )
    if "printed" in forms and not setting.design.reweight:
        notes.append("the printed theorems assume weights w(v) = 1/(nπ(v)); this design does not reweight its updates")
    return tuple(notes)


def _decay(rate: float, steps: float) -> float:
    """Return (1 - rate)^steps."""
    return 0.0 if rate >= 1.0 else math.exp(steps * math.log1p(-rate))


def _over(value: float, divisor: float) -> float:
    """Return value / divisor, infinite for a divisor of 0 unless nothing is divided."""
    if value == 0.0:
        return 0.0
    return value / divisor if divisor > 0.0 else math.inf


def _times(a: float, b: float) -> float:
    """Return a · b with 0 · ∞ = 0: what is absent stays absent."""
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _ceil(steps: float) -> float:
    return float(math.ceil(steps)) if steps < _MOST_STEPS else math.inf
