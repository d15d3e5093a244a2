"""The minimiser of a logistic loss, or a proof that there is none.

Labels are converted to signs t = 1 - 2y. The loss of a sample is then log(1 + e^{t aᵀx}) and its
slope is t·expit(t aᵀx); both are computed without cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.optimize import linprog
from scipy.special import expit

from levywalk.arrays import Floats
from levywalk.errors import InvalidData, NoMinimiser
from levywalk.problem.factor import row_space, triangle
from levywalk.problem.samples import row_blocks
from levywalk.problem.spectra import column_squares, row_squares
from levywalk.remedy import python_or_command

_TOLERANCE = 1e-12  # of the gradient, in units of each feature's root mean square
_ITERATIONS = (
    200  # on separable data a step divides the gradient by e; other data need about 12 steps
)
_SUSPICIOUS = 1e-4  # smallest relative curvature; iterates that diverge end far below it
_SERIES = 1e-2  # below this distance a series is used, since the closed form cancels
_FEASIBLE = 1e-9  # margin (of a unit row) that counts as not negative
_SEPARATED = 1e-6  # margin (of a unit row) that counts as positive
_ALL_ROWS = 1_000_000  # up to so many entries the linear program contains all samples


@dataclass(frozen=True)
class _Objective:
    features: Floats
    signs: Floats
    weights: Floats
    ridge: float

    def value(self, x: Floats) -> float:
        total = 0.5 * self.ridge * float(x @ x)
        for rows in row_blocks(*self.features.shape):
            losses = np.logaddexp(0.0, self.signs[rows] * (self.features[rows] @ x))
            total += float(self.weights[rows] @ losses)
        return total

    def derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        gradient, hessian = self.ridge * x, self.ridge * np.eye(len(x))
        for rows in row_blocks(*self.features.shape):
            block, signs, weights = self.features[rows], self.signs[rows], self.weights[rows]
            margins = signs * (block @ x)
            rising = expit(margins)
            gradient = gradient + (weights * signs * rising) @ block
            hessian = hessian + block.T @ (block * (weights * rising * expit(-margins))[:, None])
        return gradient, hessian


def minimise(
    features: Floats, labels: Floats, weights: Floats, ridge: float
) -> tuple[Floats, bool]:
    """Return the minimiser of smallest norm and whether it is unique.

    Parameters
    ----------
    features, labels, weights
        One row, one label in {0, 1} and one weight per sample.
    ridge
        The strength of the regularisation: (ridge/2)‖x‖² is added to the loss.

    Raises
    ------
    NoMinimiser
        If the ridge is 0 and a direction separates the labels (weakly): the loss decreases along it
        without end.

    Examples
    --------
    >>> x, unique = minimise(np.ones((3, 1)), np.array([1.0, 1.0, 0.0]), np.full(3, 1 / 3), 0.0)
    >>> float(x[0].round(12)) == round(float(np.log(2)), 12), unique
    (True, True)
    """
    signs = 1.0 - 2.0 * labels
    factor = triangle(features, labels, weights)
    wide = len(factor) < features.shape[1]
    # With a ridge the minimiser is a combination of the samples too; this pays if they are few.
    basis = row_space(factor) if ridge == 0.0 or wide else None
    if basis is None:
        return _minimise_in_full_rank(_Objective(features, signs, weights, ridge), factor), True
    # Directions that are orthogonal to all samples are removed: only the ridge changes along them.
    reduced = _Objective(features @ basis, signs, weights, ridge)
    reduced_factor = triangle(reduced.features, labels, weights)
    return basis @ _minimise_in_full_rank(reduced, reduced_factor), ridge > 0.0


def _minimise_in_full_rank(objective: _Objective, factor: Floats) -> Floats:
    x, converged = _newton(objective)
    suspicious = objective.ridge == 0.0 and (
        not converged or _flattest(objective, factor, x) < _SUSPICIOUS
    )
    if suspicious and separating_direction(objective.features, objective.signs) is not None:
        same = " (all labels are equal)" if (objective.signs == objective.signs[0]).all() else ""
        raise NoMinimiser(
            f"the logistic loss has no minimiser: a direction separates the labels{same}, and the "
            "loss falls "
            "along it for ever; add a ridge, for example "
            f"{python_or_command('ridge=1e-3', '--ridge 0.001')}"
        )
    if not converged:
        raise InvalidData(
            "Newton's method did not reach the minimiser: features are too badly scaled for "
            "float64; "
            "standardise them or add a ridge"
        )
    return x


def _newton(objective: _Objective) -> tuple[Floats, bool]:
    squares = column_squares(objective.features, objective.weights)
    unit = 1.0 / np.sqrt(squares)
    x = np.zeros(objective.features.shape[1])
    value, last = objective.value(x), False
    for _ in range(_ITERATIONS):
        gradient, hessian = objective.derivatives(x)
        size = 1.0 + float(np.max(np.abs(objective.ridge * x * unit)))
        error = float(np.max(np.abs(gradient * unit))) / size
        if last:
            return x, error <= _TOLERANCE
        last = error <= _TOLERANCE  # one more step is cheap and reaches rounding accuracy
        step = _newton_step(hessian, gradient)
        fall = -float(gradient @ step)
        length = 1.0
        while not last and length > 1e-10:
            trial = objective.value(x + length * step)
            if trial <= value - 1e-4 * length * fall + 1e-14 * abs(value):
                break
            length *= 0.5
        x = x + length * step
        value = objective.value(x)
    return x, False


def _newton_step(hessian: Floats, gradient: Floats) -> Floats:
    diagonal = np.diag(hessian)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    matrix = hessian * np.outer(scale, scale)
    damping = 0.0
    while True:
        try:
            factor = cho_factor(matrix + damping * np.eye(len(gradient)))
        except LinAlgError:
            damping = max(100.0 * damping, 1e-14)
            continue
        step: Floats = -scale * cho_solve(factor, scale * gradient)
        return step


def _flattest(objective: _Objective, factor: Floats, x: Floats) -> float:
    """Return the smallest curvature at x over all directions, relative to that of the data."""
    dim = len(x)
    if len(factor) < dim:
        return 0.0
    root = factor[:dim, :dim]
    half = solve_triangular(root, objective.derivatives(x)[1], trans="T")
    ratio = solve_triangular(root, half.T, trans="T")
    return float(np.linalg.eigvalsh(0.5 * (ratio + ratio.T))[0])


def separating_direction(features: Floats, signs: Floats) -> Floats | None:
    """Return u with t aᵀu <= 0 for all samples and < 0 for at least one, or None if none exists.

    The linear program contains all samples if they are few. Otherwise it starts with some of them,
    and adds the samples that violate the condition for the direction found, until there are none.
    Therefore every result is a certificate for the whole data set.

    Examples
    --------
    >>> separating_direction(np.array([[1.0], [2.0]]), np.array([-1.0, -1.0]))
    array([1.])
    >>> separating_direction(np.array([[1.0], [2.0]]), np.array([-1.0, 1.0])) is None
    True
    """
    samples, dim = features.shape
    column = np.sqrt(column_squares(features, np.ones(samples)))
    squares = np.concatenate(
        [row_squares(features[rows] / column) for rows in row_blocks(samples, dim)]
    )
    turn = -signs / np.sqrt(np.where(squares > 0.0, squares, 1.0))
    total = (turn @ features) / column
    step = 1 if features.size <= _ALL_ROWS else -(-samples // (50 * dim + 1000))
    chosen = np.arange(0, samples, step)
    while True:
        rows = features[chosen] / column * turn[chosen, None]
        u = _steepest(rows, total)
        margins = turn * (features @ (u / column))
        if float(margins.max()) <= _SEPARATED:
            return None
        wrong = np.setdiff1d(np.flatnonzero(margins < -_FEASIBLE), chosen)
        if len(wrong) == 0:
            direction: Floats = u / column / np.max(np.abs(u / column))
            return direction
        worst = wrong[np.argsort(margins[wrong])[: 10 * dim + 1000]]
        chosen = np.union1d(chosen, worst)


def _steepest(rows: Floats, total: Floats) -> Floats:
    """Maximise totalᵀu over rows @ u >= 0 within a box; return 0 if only 0 is feasible."""
    scale = float(np.max(np.abs(total)))
    if scale == 0.0:
        return np.zeros(len(total))
    answer = linprog(
        -total / scale,
        A_ub=-rows,
        b_ub=np.zeros(len(rows)),
        bounds=(-1.0, 1.0),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None or float(total @ answer.x) <= 0.0:
        return np.zeros(len(total))
    return np.asarray(answer.x, dtype=np.float64)


def divergence(shift: Floats, z_star: Floats) -> Floats:
    """Return the Bregman divergence of log(1 + e^z) from z_star to z_star + shift.

    It is computed without cancellation.

    At a minimiser the mean of these divergences is the excess loss, because the linear terms cancel
    exactly.

    Examples
    --------
    >>> divergence(np.array([0.0, 1e-6]), np.zeros(2))
    array([0.00e+00, 1.25e-13])
    """
    # The divergence is symmetric in z -> -z; for p <= 1/2 the formulas below have no cancellation.
    side = np.where(z_star > 0.0, -1.0, 1.0)
    p = expit(-np.abs(z_star))
    d = side * shift
    q = p * (1.0 - p)
    near = np.abs(d) < _SERIES
    e = np.where(near, d, 0.0)
    terms = 1 / 2 + e * (
        (1 - 2 * p) / 6
        + e
        * (
            (1 - 6 * q) / 24
            + e * ((1 - 2 * p) * (1 - 12 * q) / 120 + e * (1 - 30 * q + 120 * q**2) / 720)
        )
    )
    closed = (
        np.where(
            d < 1.0,
            np.log1p(p * np.expm1(np.minimum(d, 1.0))),
            np.logaddexp(np.log1p(-p), np.maximum(d, 1.0) - np.logaddexp(0.0, np.abs(z_star))),
        )
        - p * d
    )
    return np.where(near, q * e * e * terms, closed)
