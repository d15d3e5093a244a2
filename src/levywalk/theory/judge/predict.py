r"""Predict the steps to an accuracy before anything runs.

Two ways lead to the steps. Where it is affordable, the exact curve of the mean squared error is
followed for each step size (`levywalk.theory.judge.error_curve`): for least squares as it is, for
logistic regression by a quadratic model. Otherwise the limit of small step sizes answers: the model
follows dx = -H(x - x̃) ds + √γ Σ^{1/2} dB in the time s = γt. Here ν is the stationary law of the
chain, x̃ the fixed point under ν, and H = E_ν[w∇²f]. Σ is the asymptotic covariance of the scaled
gradients h(v) = w(v)∇f_v(x̃) along the chain. After t updates

.. math:: E\|x^t - x^*\|^2 \approx \|\tilde x + e^{-H\gamma t}(x^0-\tilde x) - x^*\|^2
          + \gamma \operatorname{tr} C, \qquad HC + CH = \Sigma

The first term contains the speed and the bias of jumps, the second the cost of entrapment. Σ needs
one solution of Poisson's equation (I-P)g = h - E_ν h per design. The limit knows nothing of a walk
that is trapped before it has seen all of the data, so it is not trusted.

In both ways the step size is the best by the rule of a tuned comparison: the fewest steps to the
accuracy, among step sizes whose error falls to half the accuracy or below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_continuous_lyapunov
from scipy.optimize import brentq

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.notebook import table_html
from levywalk.problem import Problem
from levywalk.theory.chain.answer import EXACT, answer_text
from levywalk.theory.chain.blas_threads import one_blas_thread
from levywalk.theory.chain.poisson import PoissonSolution, solve_poisson
from levywalk.theory.chain.stationary import stationary
from levywalk.theory.chain.stochastic_complement import StochasticComplement
from levywalk.theory.chain.transition import (
    affordable_chain,
    chain_of_moves,
    levy_matrix,
    metropolis_hastings_matrix,
    require_design,
)
from levywalk.theory.judge.closed_form import has_curvature, is_quadratic_or_logistic
from levywalk.theory.judge.curvature import CLOSED_FORM, hessian_method, mean_hessian
from levywalk.theory.judge.error_curve import ErrorCurve
from levywalk.theory.judge.fewest_steps import MARGIN, Crossing, fewest_steps
from levywalk.theory.judge.floor import fixed_point
from levywalk.theory.judge.quadratic_model import (
    model_hessians,
    model_smoothness,
    reach,
    sample_curvatures,
)
from levywalk.theory.judge.setting import TheoremSetting, make_setting
from levywalk.theory.judge.trust import verdict_of_curve, verdict_of_limit, verdict_of_other_loss
from levywalk.walks import BoundWalk, Design, FixedDistance, JumpLaw

_GRID = np.logspace(-6, 0, 121)  # the values of γL* that are tried
ERROR_CURVE = "error curve"
SMALL_STEPS = "limit of small steps"
_UNKNOWNS = 30_000  # of the recursion of the error curve; more take minutes
_SMALLEST_LAW = 1e-12  # the recursion is scaled by the square root of the stationary law
_HOPELESS = 4.0  # no step size helps if the bias of the jumps is so many times the accuracy
_CURVE_ERROR = 0.01  # relative error of the steps between two points of the curve
_FALLBACK = 0.01  # γL* where no step size suffices
_ROUNDING = 1e-9  # relative error of the steps by rounding and by the search for the step size


@dataclass(frozen=True, repr=False)
class Prediction:
    """The predicted cost of a design.

    Attributes
    ----------
    steps
        Updates to the accuracy with the best step size; infinite if no step size brings the error
        to half the accuracy.
    step_size, relative_step_size
        The best step size γ, and γL*.
    bias2
        ‖x̃ - x*‖² divided by ‖x⁰ - x*‖²; no step size reduces it.
    noise
        tr C divided by ‖x⁰ - x*‖²; for small γ the relative noise floor is γ times this.
    transfers_per_step, hops_per_step
        The mean numbers of transfers and hops per step; exact under the stationary law of the
        chain.
    accuracy
        The relative error that is to be reached.
    curvature
        How ∇²f_v was computed: "closed form" (losses that state their second derivative) or
        "finite differences" of the problem's own gradients.
    method, error
        "exact", or "iterative" if Poisson's equation was solved so, and an estimate of the relative
        error of the steps from numerical causes.
    form
        How the steps were found: "error curve" (the exact recursion of the mean squared error) or
        "limit of small steps".
    trusted, reason
        Whether the steps can be relied upon, and why or why not; docs/theory.md says how often
        trusted forecasts were right.

    Examples
    --------
    >>> import levywalk as lw
    >>> found = lw.predict(lw.ring(30), lw.heterogeneous(30, important=1), lw.mhlj(), accuracy=0.1)
    >>> found.transfers < found.steps * found.hops_per_step
    True
    >>> found
    Prediction(... steps and ... transfers to 10 %, γL* = ..., bias² ..., trusted)
    """

    steps: float
    step_size: float
    relative_step_size: float
    bias2: float
    noise: float
    transfers_per_step: float
    hops_per_step: float
    accuracy: float
    curvature: str = CLOSED_FORM
    method: str = EXACT
    error: float = 0.0
    form: str = SMALL_STEPS
    trusted: bool = False
    reason: str = ""

    @property
    def answer(self) -> str:
        """How the steps were found, in words."""
        return answer_text(self.method, self.error)

    @property
    def verdict(self) -> str:
        """Whether the steps are trusted, with the reason, in words."""
        return f"{'trusted' if self.trusted else 'not trusted'}: {self.reason}"

    @property
    def transfers(self) -> float:
        """The number of messages between nodes to the accuracy."""
        return self.steps * self.transfers_per_step

    def __repr__(self) -> str:
        aim = f"{100 * self.accuracy:g} %"
        trust = "trusted" if self.trusted else self.verdict
        if not np.isfinite(self.steps):
            return f"Prediction(never reaches {aim}: bias² {self.bias2:.3g}, {trust})"
        return (
            f"Prediction({self.steps:,.0f} steps and {self.transfers:,.0f} transfers to {aim}, "
            f"γL* = {self.relative_step_size:.3g}, bias² {self.bias2:.3g}, {trust})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("steps", self.steps),
            ("transfers", self.transfers),
            ("best step size γ", self.step_size),
            ("γL*", self.relative_step_size),
            ("relative bias²", self.bias2),
            ("relative noise floor", self.step_size * self.noise),
            ("transfers per step", self.transfers_per_step),
            ("curvature", self.curvature),
            ("method", f"{self.form}, {self.answer}"),
            ("are the steps trusted?", self.verdict),
        ]
        return table_html(rows, f"Predicted cost to {100 * self.accuracy:g} % of the first error")


@one_blas_thread
def predict(
    network: Network, problem: Problem, design: Design, *, accuracy: float = 0.01
) -> Prediction:
    """Predict how many steps a design needs until the error falls to ``accuracy`` of its first
    value.

    The run starts at x⁰ = 0 and uses the best step size. The problem must state its optimum.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(60), lw.heterogeneous(60, important=1)
    >>> trapped = predict(network, problem, lw.weight_rw(), accuracy=0.1)
    >>> free = predict(network, problem, lw.iid_weighted(), accuracy=0.1)
    >>> trapped.steps > free.steps
    True
    """
    design = require_design(network, problem, design)
    P = affordable_chain(network, problem, design)
    return predict_for_chain(network, problem, design, P, stationary(P), accuracy=accuracy)


def predict_for_chain(
    network: Network,
    problem: Problem,
    design: Design,
    P: Any,
    law: Floats,
    *,
    accuracy: float = 0.01,
    follow: bool = True,
) -> Prediction:
    """Return `predict` where the chain and its law are already known.

    Without ``follow`` the limit of small steps answers, which is much faster.
    """
    accuracy = checks.real(
        "accuracy", accuracy, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
    )
    setting = make_setting(network, problem, design, "theory", chain=(P, law))
    bound, law = setting.bound, setting.law
    fixed, _ = fixed_point(setting)
    hessian = mean_hessian(problem, law * setting.weights, fixed)
    gradients = setting.weighted_gradients(fixed)
    gradients -= law @ gradients
    poisson = solve_poisson(setting.P, law, gradients)
    covariance = _covariance(law, gradients, poisson.values)
    noise = float(np.trace(solve_continuous_lyapunov(hessian, covariance)))
    first = float(setting.optimum @ setting.optimum)
    if first == 0.0:
        raise InvalidParameter(
            "problem.optimum is 0, where every run starts, so there is no error to reduce; give "
            "other data"
        )

    curvatures = _model_curvatures(setting, accuracy)
    goal = accuracy * first
    steps, gamma, error = _by_limit(setting, hessian, fixed, noise, poisson, curvatures, goal)
    form, method = SMALL_STEPS, poisson.method
    bias2 = float(((fixed - setting.optimum) ** 2).sum())
    curve = None
    if follow and curvatures is not None:
        curve = _by_curve(setting, curvatures, goal, gamma, bias2)
    if curve is not None:
        gamma, crossing = curve
        steps, error, form, method = crossing.steps, _CURVE_ERROR, ERROR_CURVE, EXACT
    hops, transfers = communication(bound, law)
    if not is_quadratic_or_logistic(problem):
        verdict = verdict_of_other_loss(curve is not None)
    elif curve is None:
        verdict = verdict_of_limit()
    else:
        verdict = verdict_of_curve(crossing, bias2 / first, accuracy, _bend(setting))
    return Prediction(
        steps=steps,
        step_size=gamma,
        relative_step_size=gamma * bound.largest,
        bias2=bias2 / first,
        noise=noise / first,
        transfers_per_step=transfers,
        hops_per_step=hops,
        accuracy=accuracy,
        curvature=hessian_method(problem),
        method=method,
        error=error,
        form=form,
        trusted=verdict.trusted,
        reason=verdict.reason,
    )


def _model_curvatures(setting: TheoremSetting, accuracy: float) -> Floats | None:
    """Return the curvature of each sample in the quadratic model, or None if there is no model."""
    if not has_curvature(setting.problem):
        return None
    return sample_curvatures(setting.problem, setting.optimum, reach(accuracy))


def _bend(setting: TheoremSetting) -> float:
    """Return how much larger the curvature of the slowest direction is at x⁰ = 0 than at x*."""
    mass = np.full(setting.problem.n, 1.0 / setting.problem.n)
    here = np.linalg.eigvalsh(mean_hessian(setting.problem, mass, setting.optimum))
    there = np.linalg.eigvalsh(mean_hessian(setting.problem, mass, np.zeros_like(setting.optimum)))
    return float(there[0] / here[0])


def _by_curve(
    setting: TheoremSetting, curvatures: Floats, goal: float, guess: float, bias2: float
) -> tuple[float, Crossing] | None:
    """Return the best step size and its crossing by the error curve, or None if it would take too
    long.
    """
    n, dim = setting.problem.n, setting.problem.dim
    if (
        not sparse.issparse(setting.P)
        or n * (dim + 1) * (dim + 2) // 2 > _UNKNOWNS
        or setting.law.min() < _SMALLEST_LAW
    ):
        return None
    if bias2 > _HOPELESS * goal:
        return guess, Crossing(np.inf, bias2)
    hessians = setting.weights[:, None, None] * model_hessians(setting.problem, curvatures)
    gradients = setting.weighted_gradients(setting.optimum)
    start = np.full(n, 1.0 / n)

    def curve_at(gamma: float) -> ErrorCurve:
        return ErrorCurve(
            setting.P, setting.law, hessians, gradients, gamma, -setting.optimum, start
        )

    largest = float(np.linalg.eigvalsh(hessians)[:, -1].max())
    return fewest_steps(curve_at, largest, goal, guess)


def _by_limit(
    setting: TheoremSetting,
    hessian: Floats,
    fixed: Floats,
    noise: float,
    poisson: PoissonSolution,
    curvatures: Floats | None,
    goal: float,
) -> tuple[float, float, float]:
    """Return the steps, the step size and the relative error in the limit of small steps."""
    largest = setting.bound.largest
    if curvatures is not None:  # for logistic regression the curvature is below L_v
        largest = float((setting.weights * model_smoothness(setting.problem, curvatures)).max())

    def fewest(level: float) -> tuple[float, float]:
        return _fewest_steps(hessian, fixed, setting.optimum, level, largest, goal)

    steps, gamma = fewest(noise)
    if poisson.method == EXACT:
        return steps, gamma, 0.0
    margin = _noise_error(setting.law, hessian, poisson)  # the steps never decrease with the noise
    return steps, gamma, _spread(fewest(noise - margin)[0], steps, fewest(noise + margin)[0])


def _noise_error(law: Floats, hessian: Floats, poisson: PoissonSolution) -> float:
    """Return how much the error of Poisson's equation can change tr C = ½ tr(H⁻¹Σ)."""
    rates, modes = np.linalg.eigh(hessian)
    whiten = modes / np.sqrt(np.maximum(rates, 1e-300))
    both = (poisson.forward, poisson.backward)
    sizes = [np.sqrt(law @ np.square(values @ whiten)) for values in both]
    return float(sizes[0] @ sizes[1])


def _spread(low: float, middle: float, high: float) -> float:
    """Return the relative distance of the ends of an interval from its middle, plus rounding."""
    if not np.isfinite(middle):
        return 0.0 if not np.isfinite(low) else np.inf
    return max(middle - low, high - middle) / max(middle, 1.0) + _ROUNDING


def asymptotic_covariance(P: Any, law: Floats, values: Floats) -> Floats:
    """Return Σₖ Cov(h₀, hₖ) over all lags k, for ``values`` h along a stationary walk.

    It is the limit of T · Cov(mean of the values over T steps).

    Examples
    --------
    >>> from scipy import sparse
    >>> flip = sparse.csr_array(np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> values = np.array([[1.0], [-1.0]])  # autocorrelation 0.8^k: 1 + 2·0.8/0.2 = 9
    >>> asymptotic_covariance(flip, np.array([0.5, 0.5]), values)
    array([[9.]])
    """
    centred = values - law @ values
    return _covariance(law, centred, solve_poisson(P, law, centred).values)


def _covariance(law: Floats, centred: Floats, solution: Floats) -> Floats:
    weighted = law[:, None] * centred
    cross = weighted.T @ solution
    return np.asarray(cross + cross.T - weighted.T @ centred)


def communication(bound: BoundWalk, law: Floats) -> tuple[float, float]:
    """Return the exact mean hops and transfers per step of a bound design with nodes visited by
    ``law``.

    Examples
    --------
    >>> import levywalk as lw
    >>> bound = lw.mhlj().bind(lw.ring(5), lw.homogeneous(5, dim=1))
    >>> hops, transfers = communication(bound, np.full(5, 0.2))
    >>> round(hops, 6)
    1.057143
    """
    if bound.moves == "iid":
        return 1.0, float(1.0 - bound.law @ bound.law)
    network = bound.network
    moves = 1.0  # decisions per step: one at a node with data, the others at nodes without
    if bound.holders is not None:
        law = StochasticComplement(chain_of_moves(bound), bound.holders).visits(law)
        moves = float(law.sum())
    moved = moves - float(law @ metropolis_hastings_matrix(network, bound.walk_law).diagonal())
    if bound.jump is None:
        return moves, moved
    p_jump = float(bound.jump.p_jump_at(0, 1)[0])
    hop = levy_matrix(network, JumpLaw(1.0, FixedDistance(1)))
    loops = hop.diagonal()
    mass, passes = law, 0.0
    for longer in 1.0 - np.append(0.0, bound.jump.cumulative()[:-1]):  # P(d ≥ 1), P(d ≥ 2), …
        passes += float(longer * (moves - mass @ loops))
        mass = hop.T @ mass
    hops = moves * (1.0 + p_jump * (bound.jump.mean_distance() - 1.0))
    return hops, (1.0 - p_jump) * moved + p_jump * passes


def _fewest_steps(
    hessian: Floats, fixed: Floats, optimum: Floats, noise: float, largest: float, goal: float
) -> tuple[float, float]:
    """Return the fewest steps to a squared error of ``goal``, over step sizes up to 1/L*, and the
    step size.
    """
    rates, modes = np.linalg.eigh(hessian)
    start, bias = modes.T @ -fixed, modes.T @ (fixed - optimum)

    def distance2(s: float) -> float:
        return float(((bias + np.exp(-rates * s) * start) ** 2).sum())

    slowest = max(float(rates.min()), 1e-300)
    best = (np.inf, _FALLBACK / largest)
    for gamma in _GRID / largest:
        room = goal - gamma * noise
        horizon = 60.0 / slowest
        if room <= 0 or distance2(horizon) + gamma * noise > MARGIN * goal:
            continue
        s = (
            0.0
            if distance2(0.0) <= room
            else brentq(lambda s, room=room: distance2(s) - room, 0.0, horizon)
        )
        best = min(best, (float(s / gamma), float(gamma)))
    return best
