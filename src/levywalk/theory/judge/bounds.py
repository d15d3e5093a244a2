"""The bounds of the theorems: [thmhlj] and [thmnojump] as printed and corrected, and their
corollaries.

docs/theory.md derives both forms and shows that the printed one is false. All numbers are for a
first node that is drawn from the stationary law of the chain, as Assumption 4 requires.

`bounds` is long because its description says what each form of the theorems claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.contracts import keeps
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.problem import Problem
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.judge.bound_forms import BoundConstants, BoundTerms, corrected, printed
from levywalk.theory.judge.closed_form import states_constant
from levywalk.theory.judge.corollaries import Complexity, complexity
from levywalk.theory.judge.moments import affordable, recur
from levywalk.theory.judge.setting import (
    TheoremSetting,
    local_strong_convexity,
    make_setting,
    not_stated,
    start_model,
)
from levywalk.walks import Design, JumpLaw, TruncatedGeometric

FORMS = ("corrected", "printed", "both")


@dataclass(frozen=True, repr=False)
class Bounds:
    """The bounds of the theorems for one network, problem and design.

    Attributes
    ----------
    step_size, steps
        γ and T.
    constants
        The constants in the bounds.
    forms
        The forms by name. "corrected": the corrected bound. "printed": the theorem.
        "printed-proof": the last line of its proof, whose variance term has another constant.
        "printed-lemmas": with the constants that the proof drops, and without the factor p_J² that
        it adds.
    complexity
        If ``accuracy`` was given: the corollaries of "printed" and of "corrected", and
        "centralised", Eq. [needellcomplex].
    hops_per_update, hops_bound
        1 + p_J(E[d] - 1), and the paper's bound 1 + p_J(1/p_d - 1) of it (None for other distance
        laws).
    exact
        The true E‖x^T - x*‖² from a stationary start if it can be computed; else None.
    trusted
        Whether the spectral gap, and with it the bounds, can be trusted.
    notes
        Why a form gives no guarantee.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 0.0, 2.0])
    >>> lw.bounds(lw.complete(3), problem, lw.weight_rw(), steps=100)
    Bounds(after 100 steps: corrected ≤ ..., printed ≤ ..., exact ..., trusted)
    """

    step_size: float
    steps: int
    constants: BoundConstants
    forms: dict[str, BoundTerms]
    complexity: dict[str, Complexity]
    hops_per_update: float
    hops_bound: float | None
    exact: float | None
    trusted: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        parts = [
            f"{name} ≤ {self.forms[name].total:.4g}"
            for name in ("corrected", "printed")
            if name in self.forms
        ]
        parts.append("exact unknown" if self.exact is None else f"exact {self.exact:.4g}")
        parts.append("trusted" if self.trusted else "not trusted")
        return f"Bounds(after {self.steps:,} steps: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        header = ["form", "bound", "transient", "variance", "bias", "remainder"]
        rows: list[list[object]] = [
            [name, terms.total, terms.transient, terms.variance, terms.bias, terms.remainder]
            for name, terms in self.forms.items()
        ]
        rows.append(["exact", self.exact, "", "", "", ""])
        trust = "" if self.trusted else " (not trusted)"
        caption = (
            f"Bounds on E‖x - x*‖² after {self.steps:,} steps, γ = {self.step_size:.4g}{trust}"
        )
        return columns_html(header, rows, caption)

    def ratio(self, form: str = "corrected") -> float | None:
        """Return the bound divided by the exact error, or None if the exact error is not known.

        A ratio of 1 means that the bound is sharp. A ratio below 1 means that the bound is false.

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
    """Return the bounds of the theorems on E‖x^T - x*‖², term by term, as printed and corrected.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`. The design must have one chain and a constant p_jump.
    steps, step_size
        T and γ; γ is a number or "theory" (1/L*).
    form
        "corrected", "printed" or "both".
    x0
        The first model, zeros by default.
    accuracy
        If given, the corollaries are computed for ε = accuracy · ‖x⁰ - x*‖², as in
        `levywalk.compare`.

    Notes
    -----
    The printed theorems are false: they assume that an update contracts by 1 - γμ, while an update
    at v contracts by 1 - γw(v)μ_v; see docs/theory.md. The printed forms contain L̄ and L̄/L_min.
    For targets other than importance these are replaced by L* and max w(v), which they stand for. A
    problem with one sample per node in several dimensions has μ_v = 0. Then every form is infinite,
    and a note says so; a ridge makes the forms finite.

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
    if setting.bound.holders is not None:
        raise InvalidParameter(
            "bounds are not known for a network with nodes without data: the theorems count one "
            "move per update; use lw.error_floor or lw.predict"
        )
    steps = checks.integer("steps", steps, low=1)
    checks.choice("form", form, FORMS)
    first = start_model(problem, x0)
    if accuracy is not None:
        accuracy = checks.positive("accuracy", accuracy)
    constants = _constants(setting, first - setting.optimum)
    forms: dict[str, BoundTerms] = {}
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
        {}
        if accuracy is None
        else complexity(constants, accuracy, forms, jumps=design.jump is not None),
        1.0 + constants.p_jump * (mean_distance - 1.0),
        _hops_bound(design, constants.p_jump),
        exact,
        constants.gap_trusted,
        _notes(setting, constants, forms),
    )


def _constants(setting: TheoremSetting, error: Any) -> BoundConstants:
    smoothness = np.asarray(setting.problem.smoothness, dtype=np.float64)
    gradients = setting.weighted_gradients(setting.optimum)
    drift = setting.law @ gradients
    squares = np.square(gradients - drift).sum(axis=1)
    plain = np.square(gradients / setting.weights[:, None]).sum(axis=1)
    local = (
        local_strong_convexity(setting.problem)
        if states_constant(setting.problem, "smoothness")
        else None
    )
    globally = states_constant(setting.problem, "strong_convexity")
    kind = "right" if setting.is_reversible() else "singular"
    gap = spectral_gap(setting.P, kind=kind, stationary=setting.law)
    return BoundConstants(
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


def _hops_bound(design: Design, p_jump: float) -> float | None:
    if design.jump is None:
        return 1.0
    law = design.jump.distance
    drawn = keeps(design.jump, JumpLaw, "cumulative")
    if not drawn or not isinstance(law, TruncatedGeometric):
        return None
    if not keeps(law, TruncatedGeometric, "probabilities"):
        return None
    return 1.0 + p_jump * (1.0 / law.p_distance - 1.0)


def _notes(
    setting: TheoremSetting, c: BoundConstants, forms: dict[str, BoundTerms]
) -> tuple[str, ...]:
    notes = []
    if c.mu_weighted == 0.0:
        local = local_strong_convexity(setting.problem)
        unknown = [
            name
            for name in ("smoothness", "local_strong_convexity")
            if not states_constant(setting.problem, name)
        ]
        if unknown or local is None:
            reason = not_stated(setting.problem, (*unknown, "local_strong_convexity")[0])
            notes.append(
                f"every form is infinite: {reason}; give the problem an attribute of that name"
            )
        else:
            reason = f"{int((local == 0.0).sum())} of {len(local)} nodes have μ_v = 0"
            notes.append(
                f"every form is infinite: {reason} (Assumption 2 fails); give the problem a ridge "
                "above 0"
            )
    if setting.step_size * c.L_star > 1.0 + 1e-12:
        notes.append(
            f"every form is infinite: step_size {setting.step_size:.6g} exceeds 1/L* = "
            f"{1.0 / c.L_star:.6g}; "
            "step_size='theory' is the largest step size that the theorems allow"
        )
    if c.spectral_gap == 0.0:
        notes.append(f"every form is infinite: the chain's {c.gap_kind} spectral gap is 0")
    if not c.gap_trusted:
        notes.append(
            "the bounds cannot be trusted: only an upper bound of the spectral gap is known, "
            "so the bounds may be too small"
        )
    if "printed" in forms and not setting.design.reweight:
        notes.append(
            "the printed theorems assume the weights w(v) = 1/(nπ(v)), but this design does not "
            "reweight its updates"
        )
    return tuple(notes)
