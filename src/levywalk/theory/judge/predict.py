r"""Predict the steps to an accuracy before anything runs, in the limit of small step sizes.

For small γ the model follows dx = -H(x - x̃) ds + √γ Σ^{1/2} dB in the time s = γt. Here ν is the
stationary law of the chain, x̃ the fixed point under ν, and H = E_ν[w∇²f]. Σ is the asymptotic
covariance of the scaled gradients h(v) = w(v)∇f_v(x̃) along the chain; it contains all effects of
the walk's correlation. After t updates

.. math:: E\|x^t - x^*\|^2 \approx \|\tilde x + e^{-H\gamma t}(x^0-\tilde x) - x^*\|^2
          + \gamma \operatorname{tr} C, \qquad HC + CH = \Sigma

The first term contains the speed and the bias of jumps, the second the cost of entrapment. Σ needs
one solution of Poisson's equation (I-P)g = h - E_ν h per design, so a whole grid of designs takes
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
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
from levywalk.theory.chain.transition import (
    affordable_chain,
    levy_matrix,
    metropolis_hastings_matrix,
    require_design,
)
from levywalk.theory.judge.curvature import CLOSED_FORM, hessian_method, mean_hessian
from levywalk.theory.judge.floor import fixed_point
from levywalk.theory.judge.setting import make_setting
from levywalk.walks import Bound, Design, FixedDistance, JumpLaw

_GRID = np.logspace(-6, 0, 121)  # the values of γL* that are tried
_ROUNDING = 1e-9  # relative error of the steps by rounding and by the search for the step size


@dataclass(frozen=True, repr=False)
class Prediction:
    """The predicted cost of a design, in the limit of small step sizes.

    Attributes
    ----------
    steps
        Updates to the accuracy with the best step size; infinite if the bias alone exceeds the
        accuracy.
    step_size, relative_step_size
        The best step size γ, and γL*.
    bias2
        ‖x̃ - x*‖² divided by ‖x⁰ - x*‖²; no step size reduces it.
    noise
        tr C divided by ‖x⁰ - x*‖²; the relative noise floor is γ times this.
    transfers_per_step, hops_per_step
        The mean numbers of transfers and hops per step; exact under the stationary law of the
        chain.
    accuracy
        The relative error that is to be reached.
    curvature
        How ∇²f_v was computed: "closed form" (least squares, logistic regression) or "finite
        differences" of the problem's own gradients.
    method, error
        How Poisson's equation was solved, "exact" or "iterative", and an estimate of the relative
        error of the steps that it causes.

    Examples
    --------
    >>> import levywalk as lw
    >>> found = lw.predict(lw.ring(30), lw.heterogeneous(30, important=1), lw.mhlj(), accuracy=0.1)
    >>> found.transfers < found.steps * found.hops_per_step
    True
    >>> found
    Prediction(... steps and ... transfers to 10 %, γL* = ..., bias² ...)
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

    @property
    def answer(self) -> str:
        """How the steps were found, in words."""
        return answer_text(self.method, self.error)

    @property
    def transfers(self) -> float:
        """The number of messages between nodes to the accuracy."""
        return self.steps * self.transfers_per_step

    def __repr__(self) -> str:
        aim = f"{100 * self.accuracy:g} %"
        if not np.isfinite(self.steps):
            return f"Prediction(never reaches {aim}: bias² {self.bias2:.3g})"
        return (
            f"Prediction({self.steps:,.0f} steps and {self.transfers:,.0f} transfers to {aim}, "
            f"γL* = {self.relative_step_size:.3g}, bias² {self.bias2:.3g})"
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
            ("method", self.answer),
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
) -> Prediction:
    """Return `predict` where the chain and its law are already known."""
    accuracy = checks.positive("accuracy", accuracy)
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

    def fewest(level: float) -> tuple[float, float]:
        goal = accuracy * first
        return _fewest_steps(hessian, fixed, setting.optimum, level, bound.largest, goal)

    steps, gamma = fewest(noise)
    error = 0.0
    if poisson.method != EXACT:  # the steps never decrease with the noise
        margin = _noise_error(law, hessian, poisson)
        error = _spread(fewest(noise - margin)[0], steps, fewest(noise + margin)[0])
    hops, transfers = communication(bound, law)
    bias2 = float(((fixed - setting.optimum) ** 2).sum())
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
        method=poisson.method,
        error=error,
    )


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


def communication(bound: Bound, law: Floats) -> tuple[float, float]:
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
    moved = 1.0 - float(law @ metropolis_hastings_matrix(network, bound.law).diagonal())
    if bound.jump is None:
        return 1.0, moved
    p_jump = float(bound.jump.p_jump_at(0, 1)[0])
    hop = levy_matrix(network, JumpLaw(1.0, FixedDistance(1)))
    loops = hop.diagonal()
    mass, passes = law, 0.0
    for longer in 1.0 - np.append(0.0, bound.jump.cumulative()[:-1]):  # P(d ≥ 1), P(d ≥ 2), …
        passes += float(longer * (1.0 - mass @ loops))
        mass = hop.T @ mass
    hops = 1.0 + p_jump * (bound.jump.mean_distance() - 1.0)
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
    best = (np.inf, float(_GRID[0] / largest))
    for gamma in _GRID / largest:
        room = goal - gamma * noise
        horizon = 60.0 / slowest
        if room <= 0 or distance2(horizon) > room:
            continue
        s = (
            0.0
            if distance2(0.0) <= room
            else brentq(lambda s, room=room: distance2(s) - room, 0.0, horizon)
        )
        best = min(best, (float(s / gamma), float(gamma)))
    return best
