"""Problems with an l1 penalty: the soft threshold, and the minimiser of f + l1 ‖x‖₁.

scipy is imported only where it is used, as in `levywalk.problem.linear`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Bools, Floats
from levywalk.errors import NoMinimiser
from levywalk.problem.fit import curvatures_of
from levywalk.problem.sparse_features import dense_features
from levywalk.remedy import python_or_command

if TYPE_CHECKING:
    from levywalk.problem.linear import GeneralizedLinear

_ITERATIONS = 5_000
_ROUNDS = 60  # Newton steps on the entries that are not 0
_CG, _CG_STEPS = 1e-12, 2_000  # accuracy and steps of conjugate gradients in a Newton step
_HALVINGS = 12
_SURE = 1e-3  # an entry is out if its gradient is below l1 by this share of it
_ACCEPTED = 1e-9  # violation of the conditions of optimality, relative to l1 and the gradient at 0
_LARGEST_CHECK = 1_024  # entries whose Hessian is factored to judge whether x* is unique
_NULL = 1e-10


def soft_threshold(x: Floats, cut: float) -> Floats:
    """Return x with every entry moved towards 0 by ``cut``, and those within it set to 0.

    It is argmin ‖u - x‖²/2 + cut ‖u‖₁ over u, the proximal step of the l1 norm.

    Examples
    --------
    >>> soft_threshold(np.array([3.0, -0.5, -2.0]), 1.0)
    array([ 2.,  0., -1.])
    """
    return x - np.clip(x, -cut, cut)  # NaN stays NaN


def l1_violation(problem: GeneralizedLinear, x: Floats) -> float:
    """Return by how much x misses the conditions of optimality; 0 at a minimiser of f + l1‖x‖₁.

    These are ∂_j f = -l1 sign(x_j) where x_j ≠ 0, and |∂_j f| ≤ l1 where x_j = 0.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [1.0]], [1.0, 3.0], l1=1.0)
    >>> l1_violation(problem, np.array([1.5])), l1_violation(problem, np.array([0.0]))
    (0.0, 3.0)
    """
    gradient = problem._gradient(x)
    moved = np.abs(gradient + problem.l1 * np.sign(x))
    still = np.maximum(np.abs(gradient) - problem.l1, 0.0)
    return float(np.where(x == 0.0, still, moved).max())


def minimise_with_l1(problem: GeneralizedLinear) -> tuple[Floats, bool]:
    """Return a minimiser of f + l1‖x‖₁ and whether it is unique, or raise `NoMinimiser`.

    L-BFGS-B finds it approximately, with x as a difference of two vectors that are not negative.
    Newton steps on the entries that are not 0 then reach rounding accuracy; the conditions of
    optimality are checked at the end.
    """
    start = _rough(problem)
    x = _polished(problem, start)
    if l1_violation(problem, x) > l1_violation(problem, start):
        x = start
    scale = max(problem.l1, float(np.abs(problem._gradient(np.zeros(problem.dim))).max()))
    left = l1_violation(problem, x)
    if not np.isfinite(x).all() or not left <= _ACCEPTED * scale:
        raise NoMinimiser(
            f"no minimiser of the {problem.kind} loss with l1 = {problem.l1:g} was found: the "
            f"conditions of optimality are missed by {left:.3g}; add a ridge, for example "
            f"{python_or_command('ridge=1e-3', '--ridge 0.001')}"
        )
    return x, _is_unique(problem, x)


def _rough(problem: GeneralizedLinear) -> Floats:
    """Return a minimiser up to the accuracy of L-BFGS-B, with exact zeros."""
    from scipy.optimize import minimize

    dim, l1 = problem.dim, problem.l1
    features, y, weights = problem.sorted_features, problem.sorted_targets, problem._weights

    def value(parts: Floats) -> tuple[float, Floats]:
        x = parts[:dim] - parts[dim:]
        losses = problem._losses(problem._predictions(features, x), y)
        gradient = problem._gradient(x)
        total = float(weights @ losses) + 0.5 * problem.ridge * float(x @ x)
        return total + l1 * float(parts.sum()), np.concatenate([gradient + l1, l1 - gradient])

    options = {"maxiter": _ITERATIONS, "maxfun": 10 * _ITERATIONS, "ftol": 0.0, "gtol": 1e-11}
    found: Any = minimize(
        value,
        np.zeros(2 * dim),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * dim),
        options=options,  # type: ignore[call-overload]
    )
    parts = np.asarray(found.x, dtype=np.float64)
    return np.asarray(parts[:dim] - parts[dim:])


def _polished(problem: GeneralizedLinear, x: Floats) -> Floats:
    """Return x after Newton steps on the entries that are not 0.

    An entry that a step would move across 0 is set to 0, and one at 0 whose gradient is above l1
    joins the others.
    """
    l1 = problem.l1
    gradient = problem._gradient(x)
    x = np.where(np.abs(gradient) < (1.0 - _SURE) * l1, 0.0, x)
    for _ in range(_ROUNDS):
        gradient = problem._gradient(x)
        signs = np.where(x != 0.0, np.sign(x), -np.sign(gradient))
        free = (x != 0.0) | (np.abs(gradient) > l1)
        if not free.any():
            break
        pull = (gradient + l1 * signs)[free]
        before = l1_violation(problem, x)
        change = _newton_step(problem, x, free, pull)
        for halving in range(_HALVINGS):
            trial = x.copy()
            trial[free] -= change * 0.5**halving
            trial = np.where(trial * signs > 0.0, trial, 0.0)
            if l1_violation(problem, trial) < before:
                break
        else:
            break
        x = trial
    return x


def _newton_step(problem: GeneralizedLinear, x: Floats, free: Bools, pull: Floats) -> Floats:
    """Return H⁻¹ pull on the free entries, by conjugate gradients, which need no matrix."""
    from scipy.sparse.linalg import LinearOperator, cg

    features, weights, loss = problem.sorted_features, problem._weights, problem.sample_loss
    y, z = problem.sorted_targets, problem._predictions(features, x)
    bends = np.maximum(curvatures_of(problem, z, y), 0.0) if loss.n_outputs == 1 else None

    def product(some: Floats) -> Floats:
        whole = np.zeros(problem.dim)
        whole[free] = some.ravel()
        along = problem._predictions(features, whole)
        if bends is not None:
            turned = features.T @ (weights * bends * along)
        else:
            turned = (features.T @ (weights[:, None] * loss.curvature_product(z, y, along))).ravel()
        return np.asarray(turned[free] + problem.ridge * whole[free])

    count = int(free.sum())
    operator: Any = LinearOperator((count, count), matvec=product, dtype=np.float64)
    change, _ = cg(operator, pull, rtol=_CG, maxiter=_CG_STEPS)
    return np.asarray(change, dtype=np.float64)


def _is_unique(problem: GeneralizedLinear, x: Floats) -> bool:
    """Return whether x is the only minimiser, as far as it can be judged.

    It is with a ridge, and if the Hessian is positive on the entries whose gradient has the size
    l1. Above `_LARGEST_CHECK` such entries it is taken to be, as it is for features that were drawn
    from a density (Tibshirani 2013).
    """
    gradient = problem._gradient(x)
    tied = np.flatnonzero(np.abs(gradient) >= problem.l1 * (1.0 - 1e-7))
    if problem.ridge > 0.0 or problem.sample_loss.n_outputs > 1 or len(tied) == 0:
        return True
    if len(tied) > _LARGEST_CHECK:
        return True
    a = dense_features(problem.sorted_features[:, tied])
    z = problem._predictions(problem.sorted_features, x)
    bends = np.maximum(curvatures_of(problem, z, problem.sorted_targets), 0.0)
    values = np.linalg.eigvalsh(a.T @ (a * (problem._weights * bends)[:, None]))
    return bool(values[0] > _NULL * max(values[-1], np.finfo(float).tiny))
