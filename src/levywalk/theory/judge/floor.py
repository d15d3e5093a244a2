"""Where random-walk SGD with a constant step size ends, and how far that is from the optimum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.notebook import table_html
from levywalk.problem import LeastSquares, Problem
from levywalk.problem.sparse_features import dense_features
from levywalk.theory.chain.block_recursion import BlockRecursion
from levywalk.theory.judge.closed_form import is_quadratic
from levywalk.theory.judge.curvature import mean_minimiser
from levywalk.theory.judge.moments import contractions, require_least_squares, squared
from levywalk.theory.judge.setting import TheoremSetting, make_setting
from levywalk.walks import Design

_MEAN_UNKNOWNS = 20_000_000
_SECOND_UNKNOWNS = 20_000  # unknowns that take seconds; a hundred times as many take minutes
_SECOND_MOST = 2_000_000
_SECOND_DIM = 24  # the coarse system of the second moment has dim⁴ entries
_BLOCK = 1 << 21  # entries of the Hessians that are in memory at once


@dataclass(frozen=True, repr=False)
class ErrorFloor:
    """Where the model ends in the long run. All distances are squared, and measured from the
    optimum x*.

    Attributes
    ----------
    step_size
        γ.
    fixed_point
        x̃ with E_ν[w(v)∇f_v(x̃)] = 0 under the stationary law ν of the chain: the limit for γ → 0.
    limit_mean
        lim E x^t for this γ; None unless the problem is least squares.
    limit_covariance
        lim Cov x^t; None unless the problem is least squares and small.
    bias2
        ‖x̃ - x*‖², the bias of jumps, which a smaller γ does not reduce.
    mean_bias2
        ‖lim E x^t - x*‖², or None.
    floor
        lim E‖x^t - x*‖² = mean_bias2 + trace of the covariance, or None.
    initial2
        ‖x*‖², the error of the model 0; relative numbers are relative to it.
    residual
        The largest relative residual of the systems that were solved.
    notes
        Why a number is missing.
    method
        How the fixed point was found: "factorisation" (least squares), "newton" (logistic
        regression) or "newton, finite differences" (any other problem).

    Examples
    --------
    >>> import levywalk as lw
    >>> floor = lw.error_floor(lw.ring(30), lw.homogeneous(30, dim=2), lw.unif_rw())
    >>> floor.bias2 < 1e-20  # without jumps the fixed point is the optimum
    True
    >>> floor
    ErrorFloor(relative floor ..., relative bias² ..., γ = ...)
    """

    step_size: float
    fixed_point: Floats
    limit_mean: Floats | None
    limit_covariance: Floats | None
    bias2: float
    mean_bias2: float | None
    floor: float | None
    initial2: float
    residual: float
    notes: tuple[str, ...] = ()
    method: str = "factorisation"

    def __repr__(self) -> str:
        floor = "unknown" if self.relative_floor is None else f"{self.relative_floor:.3g}"
        return (
            f"ErrorFloor(relative floor {floor}, relative bias² {self.relative_bias2:.3g}, "
            f"γ = {self.step_size:.4g})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("floor, relative to ‖x*‖²", self.relative_floor),
            ("bias² of the limit mean, relative", self.relative_mean_bias2),
            ("bias² of the fixed point, relative", self.relative_bias2),
            ("step size γ", self.step_size),
            ("method", self.method),
            *(("note", note) for note in self.notes),
        ]
        return table_html(rows, "Error floor")

    @property
    def relative_bias2(self) -> float:
        """``bias2`` divided by the error of the model 0."""
        return self._relative(self.bias2)

    @property
    def relative_mean_bias2(self) -> float | None:
        """``mean_bias2`` divided by the error of the model 0."""
        return None if self.mean_bias2 is None else self._relative(self.mean_bias2)

    @property
    def relative_floor(self) -> float | None:
        """``floor`` divided by the error of the model 0."""
        return None if self.floor is None else self._relative(self.floor)

    def _relative(self, value: float) -> float:
        return (
            value / self.initial2 if self.initial2 > 0.0 else float("inf") if value > 0.0 else 0.0
        )


def error_floor(
    network: Network,
    problem: Problem,
    design: Design,
    *,
    step_size: float | str = "theory",
    covariance: bool | None = None,
) -> ErrorFloor:
    r"""Return where the model ends with a constant step size, and how far that is from the optimum.

    .. math:: m_u = \sum_v P(v,u) [(I - \gamma w_v H_v) m_v + \gamma w_v b_v \nu_v],
              \quad E x_\infty = \sum_u m_u

    The paper calls x̃, the zero of E_ν[w∇f], the limit. For a constant γ the mean of the model
    differs from x̃, because the model depends on the nodes that it came from. This bias grows with
    γ and vanishes for γ → 0.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`. The problem must state its optimum. The design must have one chain
        and a constant p_jump.
    step_size
        γ: a number or "theory" (1/max w(v)L_v).
    covariance
        Whether to compute the limit covariance, which has n·dim² unknowns. Default: if it takes
        seconds.

    Raises
    ------
    InvalidParameter
        There is no limit, because step_size is too large: the recursion of the mean or of the
        second moment has a spectral radius of 1 or more.
    InvalidData
        The optimum is not unique.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(50), lw.heterogeneous(50, dim=3, important=1)
    >>> jumps = lw.error_floor(network, problem, lw.mhlj())
    >>> plain = lw.error_floor(network, problem, lw.weight_rw())
    >>> jumps.bias2 > 1e-4, plain.bias2 < 1e-20  # only jumps move the fixed point
    (True, True)
    >>> quiet = lw.heterogeneous(50, dim=3, important=1, noise=0.0)
    >>> lw.error_floor(network, quiet, lw.mhlj()).floor < 1e-20  # without noise there is no bias
    True
    """
    setting = make_setting(network, problem, design, step_size)
    centre, method = fixed_point(setting)
    offset = centre - setting.optimum
    result = ErrorFloor(
        step_size=setting.step_size,
        fixed_point=centre,
        limit_mean=None,
        limit_covariance=None,
        bias2=float(offset @ offset),
        mean_bias2=None,
        floor=None,
        initial2=float(setting.optimum @ setting.optimum),
        residual=0.0,
        method=method,
    )
    if not is_quadratic(problem):
        note = (
            "limit_mean, limit_covariance and floor are None: they are known for least squares "
            f"only, and the problem is of type {type(problem).__name__}"
        )
        return replace(result, notes=(note,))
    most = _SECOND_UNKNOWNS if covariance is None else _SECOND_MOST if covariance else 0
    return _with_limits(result, setting, most)


def _with_limits(result: ErrorFloor, setting: TheoremSetting, most: int) -> ErrorFloor:
    """Return the result with limit mean and covariance; the latter with ``most`` unknowns."""
    problem, centre = require_least_squares(setting.problem), result.fixed_point
    mean, spread, residual, notes = _limits(setting, problem, centre, most)
    if mean is None:
        return replace(result, residual=residual, notes=notes)
    away = mean - setting.optimum
    mean_bias2 = float(away @ away)
    return replace(
        result,
        limit_mean=mean,
        limit_covariance=spread,
        mean_bias2=mean_bias2,
        floor=None if spread is None else mean_bias2 + float(np.trace(spread)),
        residual=residual,
        notes=notes,
    )


def fixed_point(setting: TheoremSetting) -> tuple[Floats, str]:
    """Minimise Σ_v ν_v w(v) f_v, whose gradient is E_ν[w∇f]; also return the method."""
    return mean_minimiser(setting.problem, setting.law * setting.weights, setting.optimum)


def _limits(
    setting: TheoremSetting, problem: LeastSquares, centre: Floats, most: int
) -> tuple[Floats | None, Floats | None, float, tuple[str, ...]]:
    """Solve for the mean and the second moment of x - x̃; this keeps the digits of a small bias."""
    n, dim = problem.n, problem.dim
    if n * dim > _MEAN_UNKNOWNS:
        return (
            None,
            None,
            0.0,
            (f"limit_mean is None: {n * dim} unknowns are more than {_MEAN_UNKNOWNS}",),
        )
    push = setting.step_size * setting.weighted_gradients(
        centre
    )  # γw(v)∇f_v(x̃); its mean under ν is 0
    mean_system = _mean_system(setting, problem)
    _require_contraction(setting, mean_system, "mean")
    found = mean_system.solve(-np.asarray(setting.P.T @ (setting.law[:, None] * push)))
    if found is None:
        return (
            None,
            None,
            0.0,
            ("limit_mean is None: the iterative solution did not reach a residual of 1e-9",),
        )
    first, residual, _ = found
    shift = first.sum(axis=0)
    if dim > _SECOND_DIM or n * dim * dim > most:
        note = (
            f"limit_covariance and floor are None: {n} nodes x {dim}² entries are more than "
            f"{most} unknowns"
        )
        return centre + shift, None, residual, (note,)
    system = _second_system(setting, problem)
    _require_contraction(setting, system, "second moment")
    moved = np.einsum("vij,vj->vi", contractions(setting, problem), first)
    cross = np.einsum("vi,vj->vij", moved, push)
    inflow = (
        setting.law[:, None, None] * np.einsum("vi,vj->vij", push, push)
        - cross
        - cross.transpose(0, 2, 1)
    )
    found = system.solve(np.asarray(setting.P.T @ inflow.reshape(n, dim * dim)))
    if found is None:
        note = (
            "limit_covariance and floor are None: the iterative solution did not reach a residual "
            "of 1e-9"
        )
        return centre + shift, None, residual, (note,)
    second, second_residual, _ = found
    covariance = second.sum(axis=0).reshape(dim, dim) - np.outer(shift, shift)
    return centre + shift, 0.5 * (covariance + covariance.T), max(residual, second_residual), ()


def _mean_system(setting: TheoremSetting, problem: LeastSquares) -> BlockRecursion:
    scale = setting.step_size * setting.weights
    a = dense_features(problem.sorted_features)
    offsets, counts = problem.offsets, np.diff(problem.offsets)

    def local(z: Floats) -> Floats:
        """Return z_v - γw(v)H_v z_v without forming H_v."""
        slopes = 2.0 * np.einsum("si,si->s", a, np.repeat(z, counts, axis=0))
        pulls = a * slopes[:, None]
        if problem.n_samples != problem.n:
            pulls = np.add.reduceat(pulls, offsets[:-1], axis=0) / counts[:, None]
        return np.asarray(z - scale[:, None] * (pulls + problem.ridge * z))

    share = setting.law * scale
    weights = np.repeat(share / counts, counts)
    coarse = 2.0 * (a.T * weights) @ a + problem.ridge * float(share.sum()) * np.eye(problem.dim)
    return BlockRecursion(
        setting.P,
        setting.law,
        problem.dim,
        local,
        lambda: contractions(setting, problem),
        _average_contraction(setting, problem),
        coarse,
    )


def _second_system(setting: TheoremSetting, problem: LeastSquares) -> BlockRecursion:
    n, dim = problem.n, problem.dim
    contraction = contractions(setting, problem)

    def local(z: Floats) -> Floats:
        return np.asarray(contraction @ z.reshape(n, dim, dim) @ contraction).reshape(n, dim * dim)

    coarse = np.eye(dim * dim)
    rows = max(1, _BLOCK // dim**4)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        coarse -= np.einsum("v,vij->ij", setting.law[part], squared(contraction[part]))
    shift = np.clip(2.0 * _average_contraction(setting, problem), 1e-12, 1.0)
    return BlockRecursion(
        setting.P, setting.law, dim * dim, local, lambda: squared(contraction), shift, coarse
    )


def _average_contraction(setting: TheoremSetting, problem: LeastSquares) -> Floats:
    """Return γw(v) tr(H_v)/dim, within (0, 1]."""
    a = dense_features(problem.sorted_features)
    squares = np.einsum("si,si->s", a, a)
    traces = 2.0 * np.add.reduceat(squares, problem.offsets[:-1]) / np.diff(problem.offsets)
    return np.asarray(
        np.clip(
            setting.step_size * setting.weights * (traces / problem.dim + problem.ridge), 1e-12, 1.0
        )
    )


def _require_contraction(setting: TheoremSetting, system: BlockRecursion, what: str) -> None:
    # Below 2/L* no update increases the error, and every error that some sample sees decreases.
    limit = 2.0 / setting.bound.largest
    if setting.step_size < limit * (1.0 - 1e-9):
        return
    radius = system.radius()
    if radius is not None and radius < 1.0:
        return
    found = (
        "could not be shown to be below 1" if radius is None else f"is {radius:.6g}, not below 1"
    )
    raise InvalidParameter(
        f"step_size {setting.step_size:.6g} has no limit: the spectral radius of the {what}'s "
        f"recursion {found}; "
        f"use a step_size below {limit:.6g}, or 'theory' = {1.0 / setting.bound.largest:.6g}"
    )
