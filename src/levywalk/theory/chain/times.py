"""How long a walk takes to mix, to reach a given node, and to reach a random node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter, TooLarge
from levywalk.notebook import table_html
from levywalk.theory.chain.sparse_factors import factorise, low_fill, possible_fill
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.chain.stationary import generator, solve
from levywalk.theory.chain.stochastic_matrix import as_chain, matrix_period

_EXACT_LIMIT = 1_000  # states: all powers P^(2^k) are kept, 8 n² bytes each
_KEMENY_LIMIT = 4_000
_HITTING_ERROR = 1e-8
_MOST_DOUBLINGS = 60
_MOST_ITERATIONS = 3_000


@dataclass(frozen=True, repr=False)
class MixingTime:
    """The number of steps until the walk is close to its stationary law, from the worst start.

    Attributes
    ----------
    lower, upper
        Bounds of the mixing time. They are equal if it is exact, and infinite if the chain is
        periodic. The upper bound is also infinite if no spectral gap can be trusted.
    epsilon
        The total variation distance that counts as close.
    method
        "powers" (exact), "period" or "gap" (bounds).
    exact
        Whether both bounds are the mixing time itself.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.complete(4), lw.homogeneous(4, dim=1), lw.iid_uniform())
    >>> lw.mixing_time(P)  # independent draws have mixed after one step
    MixingTime(1 step to within 0.25, exact)
    """

    lower: float
    upper: float
    epsilon: float
    method: str
    exact: bool

    def __repr__(self) -> str:
        if self.exact:
            unit = "step" if self.lower == 1.0 else "steps"
            return f"MixingTime({self.lower:g} {unit} to within {self.epsilon:g}, exact)"
        return (
            f"MixingTime(between {self.lower:.4g} and {self.upper:.4g} steps to within "
            f"{self.epsilon:g}, bounds)"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("at least", self.lower),
            ("at most", self.upper),
            ("exact", self.exact),
            ("total variation distance", self.epsilon),
            ("method", self.method),
        ]
        return table_html(rows, "Mixing time in steps")

    def __str__(self) -> str:
        if self.exact:
            return f"mixing time {self.lower:g} steps to within {self.epsilon:g} ({self.method})"
        return (
            f"mixing time between {self.lower:.4g} and {self.upper:.4g} steps to within "
            f"{self.epsilon:g} (bounds)"
        )


def mixing_time(P: Any, epsilon: float = 0.25, *, stationary: Any = None) -> MixingTime:
    r"""Return the first t with :math:`\max_v \|P^t(v,\cdot) - \pi\|_{TV} \le \epsilon`, or bounds
    of it.

    With up to 1,000 states the result is exact: P is squared repeatedly, then t is found by
    bisection. With more states the result is a pair of bounds from the spectrum,

    .. math:: (1/\gamma - 1)\ln(1/2\epsilon) \le t
              \le \lceil\ln(2\epsilon\sqrt{\pi_{min}}) / \ln\sigma_2\rceil

    where γ is the absolute gap and 1 - σ₂ the singular-value gap.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.mixing_time([[0.9, 0.1], [0.3, 0.7]]).lower
    3.0
    """
    epsilon = checks.real(
        "epsilon", epsilon, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
    )
    chain = as_chain(P)
    matrix = not isinstance(chain, LinearOperator)
    # each class of a chain of period d has mass 1/d, so the distance never falls below 1 - 1/d
    if matrix and epsilon < 1.0 - 1.0 / matrix_period(chain):
        return MixingTime(math.inf, math.inf, epsilon, "period", True)
    if matrix and chain.shape[0] <= _EXACT_LIMIT:
        steps = _exact(chain.toarray(), solve(chain).law, epsilon)
        return MixingTime(steps, steps, epsilon, "powers", math.isfinite(steps))
    return _bounds(chain, epsilon, stationary)


def _exact(P: Floats, law: Floats, epsilon: float) -> float:
    def close(power: Floats) -> bool:
        return float(np.abs(power - law).sum(axis=1).max()) / 2.0 <= epsilon

    if close(np.eye(len(law))):
        return 0.0
    powers = [P]
    while not close(powers[-1]):
        if len(powers) > _MOST_DOUBLINGS:
            return math.inf
        square = powers[-1] @ powers[-1]
        powers.append(
            square / square.sum(axis=1, keepdims=True)
        )  # many squarings add up rounding errors
    if len(powers) == 1:
        return 1.0
    steps, far = 2.0 ** (len(powers) - 2), powers[-2]  # the distance never grows with t
    for k in range(len(powers) - 3, -1, -1):
        further = far @ powers[k]
        if not close(further):
            steps, far = steps + 2.0**k, further
    return steps + 1.0


def _bounds(chain: Any, epsilon: float, law: Any) -> MixingTime:
    law = solve(chain).law if law is None else np.asarray(law)
    absolute = spectral_gap(chain, "absolute", stationary=law)
    singular = spectral_gap(chain, "singular", stationary=law)
    lower, upper = 0.0, math.inf
    if absolute.value > 0:  # an upper bound of the gap is enough here
        lower = max(0.0, (1.0 / absolute.value - 1.0) * math.log(1.0 / (2.0 * epsilon)))
    if singular.trusted and singular.value > 0:
        reach = 2.0 * epsilon * math.sqrt(float(law.min()))
        upper = (
            max(1.0, math.ceil(math.log(reach) / math.log1p(-singular.value)))
            if singular.value < 1
            else 1.0
        )
    return MixingTime(lower, upper, epsilon, "gap", False)


def kemeny_constant(P: Any) -> float:
    """Return Σ_u π(u) H(v,u), the mean number of steps to a node drawn from π; all starts v give
    the same.

    Here H(v,v) = 0. The convention that counts the return to v gives 1 more. The constant equals
    Σ 1/(1-λ) over all eigenvalues λ except the eigenvalue 1.

    Examples
    --------
    >>> import levywalk as lw
    >>> round(lw.kemeny_constant([[0.9, 0.1], [0.3, 0.7]]), 9)
    2.5
    """
    chain = as_chain(P)
    n = chain.shape[0]
    if n > _KEMENY_LIMIT:
        raise TooLarge(
            f"P has {n} states; the Kemeny constant needs a dense inverse, which is limited to "
            f"{_KEMENY_LIMIT} states"
        )
    if isinstance(chain, LinearOperator):
        chain = as_chain(sparse.csr_array(chain.matmat(np.eye(n))))
    law = solve(chain).law
    fundamental = scipy.linalg.inv(generator(chain).toarray() + law, overwrite_a=True)
    return float(np.trace(fundamental) - 1.0)


def hitting_times(P: Any, target: Any) -> Floats:
    """Return the mean number of steps from every state to ``target``, a node or several; 0 at the
    target.

    Each entry has at least eight correct digits. A residual of δ in the equations means a relative
    error of at most δ.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.ring(5), lw.homogeneous(5), lw.simple_rw())
    >>> lw.hitting_times(P, 0).round(9)
    array([0., 4., 6., 6., 4.])
    """
    chain = as_chain(P)
    n = chain.shape[0]
    if isinstance(chain, LinearOperator):
        raise TooLarge(
            f"P is an operator of {n} states, and hitting times need its entries; use form='matrix'"
        )
    nodes = np.atleast_1d(np.asarray(target))
    if (
        nodes.dtype.kind not in "iu"
        or not nodes.size
        or nodes.ndim != 1
        or nodes.min() < 0
        or nodes.max() >= n
    ):
        raise InvalidParameter(f"target must be nodes in [0, {n - 1}], got {target!r:.80}")
    keep = np.setdiff1d(np.arange(n), nodes)
    times = np.zeros(n)
    if not keep.size:
        return times
    system = sparse.csr_array(generator(chain)[keep][:, keep])
    times[keep] = _absorbed(system)
    return times


def _absorbed(system: sparse.csr_array) -> Floats:
    """Solve (I - Q)h = 1. The inverse has no negative entry, so a residual of δ bounds the relative
    error by δ.
    """
    ones = np.ones(system.shape[0])
    h = _eliminated(system, ones) if low_fill(system) else None
    if h is None:
        diagonal = system.diagonal()
        scale = LinearOperator(system.shape, matvec=lambda x: x / diagonal, dtype=np.float64)
        with np.errstate(all="ignore"):  # if the method breaks down, the residual shows it
            h, _ = bicgstab(system, ones, rtol=1e-12, atol=1e-10, maxiter=_MOST_ITERATIONS, M=scale)
        if not np.abs(ones - system @ h).max() <= _HITTING_ERROR and possible_fill(system):
            again = _eliminated(system, ones)
            h = h if again is None else again
    residual = float(np.abs(ones - system @ h).max())
    if not residual <= _HITTING_ERROR:
        raise TooLarge(
            f"the hitting times of {len(ones)} states cannot be computed: sparse factors would be "
            f"too large, and iterations stop at the residual {residual:.1e}; use a smaller network "
            "or a larger set of targets"
        )
    return np.asarray(h)


def _eliminated(system: sparse.csr_array, right: Floats) -> Floats | None:
    """Return the solution by sparse factors with one step of refinement, or None."""
    factor = factorise(system)
    if factor is None:
        return None
    h = factor.solve(right)
    return np.asarray(h + factor.solve(right - system @ h))
