"""The setting of the theorems: a chain with its stationary law, weights, a constant step size and
the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem, optimum_of
from levywalk.schedule import Constant, is_schedule
from levywalk.theory.chain.stationary import stationary
from levywalk.theory.chain.stochastic_matrix import as_chain, reversible
from levywalk.theory.chain.transition import require_design, transition
from levywalk.theory.judge.closed_form import is_quadratic_or_logistic, states_constant
from levywalk.theory.judge.curvature import gradient_scale, local_gradients, refuse_l1
from levywalk.updates import as_step_size
from levywalk.walks import BoundWalk, Design

_STATIONARY = 1e-3  # the mean gradient at a stated optimum, relative to the gradients of the nodes


@dataclass(frozen=True)
class TheoremSetting:
    """A walk with a constant step size, as the theorems describe it.

    Attributes
    ----------
    problem, design
        What the walk is bound to, and its design.
    bound
        The target π, the weights w(v) and L* = max w(v)L_v.
    P, law
        The chain and its stationary law ν, which differs from the target if there are jumps.
    p_jump
        p_J; 0 without jumps.
    step_size
        γ.
    optimum
        x*.
    """

    problem: Problem
    design: Design
    bound: BoundWalk
    P: Any
    law: Floats
    p_jump: float
    step_size: float
    optimum: Floats

    @property
    def weights(self) -> Floats:
        """The weights w(v)."""
        return self.bound.weights

    def weighted_gradients(self, x: Floats) -> Floats:
        """Return h_v = w(v)∇f_v(x) as rows."""
        return self.weights[:, None] * local_gradients(self.problem, x)

    def is_reversible(self) -> bool:
        """Return whether ν(v)P(v,u) = ν(u)P(u,v) holds, up to a small relative error."""
        if self.p_jump == 0.0:
            return True  # Metropolis-Hastings and i.i.d. sampling are always reversible
        return reversible(as_chain(self.P), self.law)


def make_setting(
    network: Network,
    problem: Problem,
    design: Design,
    step_size: Any,
    *,
    chain: tuple[Any, Floats] | None = None,
) -> TheoremSetting:
    """Bind a design to a network and a problem; refuse what the theorems do not cover.

    ``chain`` is the chain and its stationary law, if they are already known.
    """
    design = require_design(network, problem, design)
    bound = design.bind(network, problem)
    gamma = as_step_size(step_size, 1.0 / bound.largest)
    if not isinstance(gamma, Constant) or gamma.value <= 0.0:
        raise InvalidParameter(
            f"step_size must be one number above 0 or 'theory', got {step_size!r}: "
            "the theory needs constant steps"
        )
    p_jump = _constant_p_jump(design)
    P = transition(network, problem, design) if chain is None else chain[0]
    # Without jumps the stationary law is the target, which is known exactly.
    law = bound.law
    if p_jump > 0.0:
        law = np.asarray(stationary(P) if chain is None else chain[1], dtype=np.float64)
    optimum = checked_optimum(problem)
    if optimum is None:
        raise InvalidParameter(
            f"problem (of type {type(problem).__name__}) has no optimum, from which errors are "
            "measured; give it an attribute optimum"
        )
    return TheoremSetting(problem, design, bound, P, law, p_jump, float(gamma.value), optimum)


def checked_optimum(problem: Problem) -> Floats | None:
    """Return x*, or None if the problem does not state it; refuse an x* where the mean gradient is
    not 0.

    Least squares and logistic regression compute x* themselves. Any other problem states it. A
    subclass that overrides a gradient may have inherited the optimum of another loss.
    """
    refuse_l1(problem)
    optimum = optimum_of(problem)
    if optimum is None or is_quadratic_or_logistic(problem):
        return optimum
    mass = np.full(problem.n, 1.0 / problem.n)
    size = float(np.linalg.norm(mass @ local_gradients(problem, optimum)))
    if not size <= _STATIONARY * gradient_scale(problem, mass, optimum):
        raise InvalidParameter(
            f"problem.optimum (of type {type(problem).__name__}) is not the minimiser of the "
            "problem: the mean of its "
            f"local gradients there has the norm {size:.3g}, not 0; a class that overrides "
            "local_gradient needs an optimum of its own (None if it is not known)"
        )
    return optimum


def local_strong_convexity(problem: Problem) -> Floats | None:
    """Return μ_v of every node, or None when the problem does not state it for its own gradient."""
    values = getattr(problem, "local_strong_convexity", None)
    if values is None or not states_constant(problem, "local_strong_convexity"):
        return None
    return np.asarray(values, dtype=np.float64)


def not_stated(problem: Problem, name: str) -> str:
    """Return one plain sentence about a constant that the problem does not state for its own
    gradient.
    """
    kind = type(problem).__name__
    if hasattr(problem, name):
        return (
            f"{kind} overrides the gradient and inherits {name}, which describes another gradient"
        )
    return f"{kind} does not state its {name}"


def start_model(problem: Problem, x0: Any) -> Floats:
    """Return the first model: zeros by default."""
    if x0 is None:
        return np.zeros(problem.dim)
    try:
        clean = np.asarray(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"x0 must be an array of {problem.dim} numbers, got {x0!r}"
        ) from None
    if clean.shape != (problem.dim,) or not np.isfinite(clean).all():
        raise InvalidParameter(
            f"x0 must be {problem.dim} finite numbers, got an array of shape {clean.shape}"
        )
    return clean


def _constant_p_jump(design: Design) -> float:
    if design.jump is None:
        return 0.0
    p_jump = design.jump.p_jump
    if is_schedule(p_jump) and not isinstance(p_jump, Constant):
        raise InvalidParameter(
            f"design must have a constant p_jump, got the schedule {p_jump!r}: its chain changes "
            "with the step; use mhlj(p_jump=…) with the p_jump of one step"
        )
    return float(design.jump.p_jump_at(0, 1)[0])
