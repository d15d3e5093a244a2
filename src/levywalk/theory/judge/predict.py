r"""Steps to an accuracy, predicted before anything runs: random-walk SGD in its small-step limit.

For small γ the model follows dx = -H(x - x̃) ds + √γ Σ^{1/2} dB in the time s = γt, where x̃ is the fixed point under
the chain's own law ν, H = E_ν[w∇²f] and Σ the chain's asymptotic covariance of the scaled gradients h(v) =
w(v)∇f_v(x̃): all of the walk's correlation is in Σ. So after t updates

.. math:: E\|x^t - x^*\|^2 \approx \|\tilde x + e^{-H\gamma t}(x^0-\tilde x) - x^*\|^2 + \gamma \operatorname{tr} C,
          \qquad HC + CH = \Sigma

The first term holds the speed and the bias of jumps, the second what entrapment costs. Σ comes from one sparse solve
per design (Poisson's equation (I-P)g = h - E_ν h), so a whole grid of designs is judged in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import solve_continuous_lyapunov
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, gmres, splu

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.theory.chain.sparse_factors import low_fill
from levywalk.theory.chain.transition import levy_matrix, metropolis_hastings_matrix
from levywalk.theory.judge.curvature import CLOSED_FORM, hessian_method, mean_hessian
from levywalk.theory.judge.floor import fixed_point
from levywalk.theory.judge.setting import make_setting
from levywalk.walks import Bound, Design, FixedDistance, JumpLaw

_GRID = np.logspace(-6, 0, 121)  # of γL*
_FACTORED = 2_000  # nodes: above, only networks whose factors stay thin are factorised
_RESIDUAL = 1e-8  # relative, of Poisson's equation


@dataclass(frozen=True)
class Prediction:
    """What a design will need, in the small-step limit.

    Attributes
    ----------
    steps
        Updates to the accuracy at the best step size; infinite if the bias alone exceeds it.
    step_size, relative_step_size
        That step size γ, and γL*.
    bias2
        ‖x̃ - x*‖² over ‖x⁰ - x*‖²: what no step size removes.
    noise
        tr C: the noise floor is γ·tr C, relative to ‖x⁰ - x*‖².
    transfers_per_step, hops_per_step
        Exact, under the chain's own law.
    curvature
        How ∇²f_v was computed: "closed form" (least squares, logistic regression) or "finite differences" of the
        problem's own gradients.

    Examples
    --------
    >>> import levywalk as lw
    >>> found = lw.predict(lw.ring(30), lw.heterogeneous(30, important=1), lw.mhlj(), accuracy=0.1)
    >>> found.transfers < found.steps * found.hops_per_step
    True
    """

    steps: float
    step_size: float
    relative_step_size: float
    bias2: float
    noise: float
    transfers_per_step: float
    hops_per_step: float
    curvature: str = CLOSED_FORM

    @property
    def transfers(self) -> float:
        """Messages between nodes to the accuracy."""
        return self.steps * self.transfers_per_step


def predict(network: Network, problem: Problem, design: Design, *, accuracy: float = 0.01) -> Prediction:
    """Predict the steps that a tuned design needs to bring the error from x⁰ = 0 to ``accuracy`` of its initial value.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(60), lw.heterogeneous(60, important=1)
    >>> trapped = predict(network, problem, lw.weight_rw(), accuracy=0.1)
    >>> free = predict(network, problem, lw.iid_weighted(), accuracy=0.1)
    >>> trapped.steps > free.steps
    True
    """
    accuracy = checks.positive("accuracy", accuracy)
    setting = make_setting(network, problem, design, "theory")
    bound, law = setting.bound, setting.law
    fixed, _ = fixed_point(setting)
    hessian = mean_hessian(problem, law * setting.weights, fixed)
    covariance = asymptotic_covariance(setting.P, law, setting.weighted_gradients(fixed))
    noise = float(np.trace(solve_continuous_lyapunov(hessian, covariance)))
    first = float(setting.optimum @ setting.optimum)
    if first == 0.0:
        raise InvalidParameter("problem has its optimum at 0, where every run starts: there is no error to reduce")
    steps, gamma = _fewest_steps(hessian, fixed, setting.optimum, noise, bound.largest, accuracy * first)
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
        curvature=hessian_method(problem),
    )


def asymptotic_covariance(P: sparse.csr_array, law: Floats, values: Floats) -> Floats:
    """Return lim T · Cov(mean of values along a stationary walk of T steps): Σₖ Cov(h₀, hₖ) over all lags.

    Examples
    --------
    >>> flip = sparse.csr_array(np.array([[0.9, 0.1], [0.1, 0.9]]))  # autocorrelation 0.8^k: 1 + 2·0.8/0.2 = 9
    >>> asymptotic_covariance(flip, np.array([0.5, 0.5]), np.array([[1.0], [-1.0]]))
    array([[9.]])
    """
    n = P.shape[0]
    centred = values - law @ values
    solution = _factored(P, centred) if n <= _FACTORED or low_fill(P) else _iterated(P, law, centred)
    solution = solution - law @ solution
    weighted = law[:, None] * centred
    cross = weighted.T @ solution
    return np.asarray(cross + cross.T - weighted.T @ centred)


def _factored(P: sparse.csr_array, centred: Floats) -> Floats:
    """Solve (I - P)g = h with the last node's g set to 0: the rest of I - P is regular, and constants do not matter."""
    n = len(centred)
    reduced = sparse.csc_array(sparse.eye_array(n - 1) - P[: n - 1, : n - 1])
    head = splu(reduced).solve(np.ascontiguousarray(centred[: n - 1]))
    return np.vstack([head, np.zeros((1, centred.shape[1]))])


def _iterated(P: sparse.csr_array, law: Floats, centred: Floats) -> Floats:
    """Solve (I - P + 1νᵀ)g = h by columns: where factors would fill in, the chain mixes and iterations are few."""
    n = len(centred)
    system = LinearOperator((n, n), matvec=lambda x: x - P @ x + law @ x, dtype=np.float64)
    out = np.empty_like(centred)
    for j, right in enumerate(centred.T):
        out[:, j], _ = gmres(system, right, rtol=_RESIDUAL / 10.0, restart=100, maxiter=40)
        residual = np.linalg.norm(system @ out[:, j] - right) / max(float(np.linalg.norm(right)), 1e-300)
        if not residual <= _RESIDUAL:
            raise InvalidParameter(
                f"network's cost could not be predicted: Poisson's equation has residual {residual:.1e}; "
                "the walk mixes too slowly on so many nodes: predict for a smaller network of the family"
            )
    return out


def communication(bound: Bound, law: Floats) -> tuple[float, float]:
    """Return the exact hops and transfers per step of a bound design, when nodes are visited by ``law``.

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
    """Return the fewest steps to ‖·‖² ≤ goal over a grid of step sizes up to 1/L*, and the step size."""
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
        s = 0.0 if distance2(0.0) <= room else brentq(lambda s, room=room: distance2(s) - room, 0.0, horizon)
        best = min(best, (float(s / gamma), float(gamma)))
    return best
