"""Bind a walk and an update to a network and a problem.

The kernels, the reference backend and the fleet all start from the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem, is_single, known_smoothness, model_type
from levywalk.schedule import Constant, Schedule, is_schedule, schedule_values
from levywalk.step import Method, PublishedPhase, Site
from levywalk.updates import LocalData, Update, as_step_size, as_update, check_update
from levywalk.walks import BoundWalk, Detector, Walk

if TYPE_CHECKING:
    from levywalk.privacy import BoundPrivacy


@dataclass(frozen=True)
class BoundPhase:
    """One phase of a walk, bound to a network, with its step size; a switching walk has two."""

    bound: BoundWalk
    published: PublishedPhase

    @property
    def step_size(self) -> Schedule:
        """γ as a schedule."""
        return self.published.step_size

    def step_sizes(self, start: int, stop: int) -> Floats:
        """Return γ of the steps; a constant is returned as one number."""
        if isinstance(self.step_size, Constant):
            return np.array([self.step_size.value])
        return schedule_values("step_size", self.step_size, start, stop)

    def jump_probabilities(self, start: int, stop: int) -> Floats:
        """Return p_jump of the steps: empty without a jump law, one number if it is constant."""
        jump = self.bound.jump
        if jump is None:
            return np.empty(0)
        if not is_schedule(jump.p_jump):
            return np.array([jump.p_jump])
        return jump.p_jump_at(start, stop)

    def distances(self) -> Floats:
        """Return the cumulative law of the jump distance; it is empty without jumps."""
        return np.empty(0) if self.bound.jump is None else self.bound.jump.cumulative()


def bind_phases(
    network: Network, problem: Problem, walk: Any, update: Update, step_size: float | str | Schedule
) -> tuple[BoundPhase, ...]:
    """Bind every phase of a walk, each with its step size."""
    if not isinstance(walk, Walk):
        raise InvalidParameter(f"design must be a Walk such as lw.mhlj(), got {walk!r}")
    bounds = [part.bind(network, problem) for part in walk.phases]
    first = as_step_size(step_size, _theory(step_size, update, bounds[0], problem))
    phases = [BoundPhase(bounds[0], PublishedPhase(bounds[0].walk, bounds[0].mean_score, first))]
    for then in bounds[1:]:
        second = getattr(walk, "step_size", "auto")
        if second == "auto":
            published = PublishedPhase(then.walk, then.mean_score, first, most=1.0 / then.largest)
        else:
            size = as_step_size(second, _theory(second, update, then, problem))
            published = PublishedPhase(then.walk, then.mean_score, size, scaled=False)
        phases.append(BoundPhase(then, published))
    return tuple(phases)


def _theory(step_size: Any, update: Update, bound: BoundWalk, problem: Problem) -> float:
    """Return the value of "theory"; a problem without smoothness constants has none."""
    if known_smoothness(problem) is not None:
        return update.default_step_size(bound.largest, problem)
    if isinstance(step_size, str) and step_size == "theory":
        raise InvalidParameter(
            "step_size='theory' needs the smoothness L_v, which this problem does not know; "
            "give a number such as 0.1, or the problem smoothness='hessian'"
        )
    return math.nan


def method_of(
    phases: tuple[BoundPhase, ...],
    update: Update,
    detector: Detector | None,
    problem: Problem,
    privacy: BoundPrivacy | None = None,
) -> Method:
    """Return the published constants of bound phases and an update."""
    bound = (
        None if detector is None else detector.bind(problem.dim, float(np.mean(problem.smoothness)))
    )
    published = tuple(phase.published for phase in phases)
    return Method(
        published,
        update,
        bound,
        problem.dim,
        problem.n,
        model_type(problem).itemsize,
        is_single(problem),
        privacy,
    )


class Sites:
    """The nodes of a simulation as `Site` objects; each is built at its first visit."""

    def __init__(self, method: Method, problem: Problem, bounds: list[BoundWalk]) -> None:
        self.method, self.problem, self.bounds = method, problem, bounds
        self._made: dict[int, Site] = {}

    def __call__(self, v: int) -> Site:
        """Return the site of a node."""
        site = self._made.get(v)
        if site is None:
            scores = [float(bound.scores[v]) for bound in self.bounds]
            views = [bound.view(v) for bound in self.bounds]
            index = self.bounds[0].position(v)
            local = None if index < 0 else LocalData(self.problem, index, self.problem.n)
            site = Site(self.method, v, local, scores, views)
            self._made[v] = site
        return site


def bind(
    network: Network,
    problem: Problem,
    walk: Walk,
    update: Any = None,
    *,
    step_size: float | str | Schedule,
) -> tuple[Method, Sites]:
    """Return the published method and the nodes of a simulation.

    Examples
    --------
    >>> import levywalk as lw
    >>> method, sites = bind(lw.ring(5), lw.homogeneous(5), lw.mhlj(), step_size="theory")
    >>> method.max_hops, sites(3).node
    (3, 3)
    """
    update = as_update(update).fitted(problem)
    check_update(update, problem)
    phases = bind_phases(network, problem, walk, update, step_size)
    method = method_of(phases, update, walk.detector, problem)
    return method, Sites(method, problem, [phase.bound for phase in phases])


def sample_counts(problem: Problem, bound: BoundWalk) -> Ints:
    """Return the number of samples of each node of the network, 0 for an idle one.

    A problem that is not made of samples has 1 at each node with data.
    """
    offsets = getattr(problem, "offsets", None)
    return bound.spread(np.ones(problem.n, np.int64) if offsets is None else np.diff(offsets))
