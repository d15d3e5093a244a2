"""`recommended`: which walk and update to take on a network, by a trial on the problem itself, or
by the rules that the league taught.

The rules were made on ring, grid, WS and ER with 1,000 nodes, least squares and logistic
regression; `benchmarks/recommendations.py` judges recommendations on ten other networks.

`recommended` is long because each option is a parameter with a description of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.league.pilot import Pilot, pilot
from levywalk.league.private_choice import private_choice
from levywalk.league.recommendation import Recommendation
from levywalk.league.trial import LAPS, can_be_tried, try_pair
from levywalk.league.trial import WALKS as TRIAL_WALKS
from levywalk.network import Network, as_network
from levywalk.problem import Problem, check_problem, is_quadratic
from levywalk.remedy import python_or_command
from levywalk.trace.costs import PROFILES
from levywalk.updates import Update
from levywalk.updates.linear import is_linear
from levywalk.updates.newton_token import MOST_DIM, newton_token
from levywalk.updates.point_saga import point_saga
from levywalk.updates.saga import saga
from levywalk.walks import Walk, check_fit
from levywalk.walks.depth_first_tour import depth_first_tour
from levywalk.walks.least_used_edge import least_used_edge
from levywalk.walks.mhda import mhda
from levywalk.walks.oldest_neighbour import oldest_neighbour

if TYPE_CHECKING:
    from levywalk.privacy import Privacy

GOALS = ("transfers", "bytes", "time", "steps")
FIRST_ORDER = "first-order"
_PROFILE = "home-broadband"

WALKS: dict[str, Callable[[], Walk]] = {
    "depth_first_tour": depth_first_tour,
    "oldest_neighbour": oldest_neighbour,
    "least_used_edge": least_used_edge,
    "mhda": mhda,
}
UPDATES: dict[str, Callable[[], Update]] = {
    "newton_token": newton_token,
    "point_saga": point_saga,
    "saga": saga,
}

# Point-SAGA: the step size in units of its default, and the transfers in units of n to 1e-3 and to
# 1e-6, at the worst of ring, grid, WS and ER, for least squares and for other losses. Larger steps
# are unstable along walks that visit the nodes in the same order again and again.
_POINT_SAGA = {
    "oldest_neighbour": ((3.0, 3.3, 8.4), (2.0, 4.2, 7.8)),
    "least_used_edge": ((2.0, 4.6, 9.5), (1.4, 4.4, 12.9)),
    "mhda": ((3.0, 8.0, 20.0), (1.4, 8.0, 21.0)),
    "depth_first_tour": ((1.4, 4.9, 11.5), (0.7, 6.2, 15.0)),
}
# The same along a walk whose laps are all alike, as around a ring: this share of moves repeats. If
# it also goes to and fro, so that it covers no sooner than in 1.2 n steps, it is like a tour.
_SAME_LAPS, _TO_AND_FRO, _ALIKE = 0.7, 1.2, ((3.0, 3.3, 7.8), (1.4, 4.2, 9.8))
_COVERS = (0.6, 1.5)  # a walk that covers slowly takes at least so many cover times …
_RARE = (1.0, 2.5)  # … and at least so many times the mean gap between visits of rare nodes
_SAGA_SLOWER = 2.5  # SAGA takes about this many times as long as Point-SAGA
_SEEN = 0.5  # the share of nodes that least squares needs to 1e-3 with the Newton token
_SEEN_OTHERS = 0.95  # the same for other losses
_KAPPA = (2.2, 48.0)  # κ/n of the problems that the numbers above were measured on


@dataclass(frozen=True)
class _Candidate:
    """A pair with its costs, estimated or as a trial found them."""

    walk: str
    update: str
    factor: float
    steps: float
    transfers: float
    small_messages: float
    token: int  # bytes
    was_tried: bool = False

    @property
    def name(self) -> str:
        return f"{self.walk} + {self.update}"

    def cost(self, goal: str) -> float:
        if goal in ("transfers", "steps"):
            return self.transfers if goal == "transfers" else self.steps
        sent = self.transfers * self.token
        if goal == "bytes":
            return sent
        if not math.isfinite(self.transfers):
            return math.inf
        costs = PROFILES[_PROFILE]
        return (
            costs.compute * self.transfers
            + costs.latency * (self.transfers + self.small_messages)
            + sent / costs.bandwidth
        )


def recommended(
    network: Network,
    problem: Problem,
    *,
    goal: str = "transfers",
    accuracy: float = 1e-6,
    allow: Collection[str] | str | None = None,
    seed: int = 0,
    trial: bool = True,
    privacy: Privacy | None = None,
) -> Recommendation:
    """Recommend a walk, an update and a step size for a network and a problem.

    With 100 nodes or more, each candidate pair makes a trial on the problem itself: four walks of
    forty laps with five step sizes each, which takes some seconds; the best one is taken. (Samples
    times dimension must be at most 300,000, and there must be an optimum to measure the error by.)

    Elsewhere, and if no pair reaches the accuracy in its trial, a short walk without a model
    shows how soon all nodes are seen and how many questions are asked. With that and with
    what the league measured, the cost of each pair is estimated.

    Parameters
    ----------
    network, problem
        As for `levywalk.run`.
    goal
        What should be small: "transfers" (messages that carry the model), "bytes", "time" (with
        the costs of home broadband, where small messages count), or "steps" (updates).
    accuracy
        The relative error ‖x - x*‖²/‖x⁰ - x*‖² to reach.
    allow
        Names of walks and updates that may be used; "first-order" is every update but the Newton
        token. If no walk (or no update) is named, all are allowed. None: everything.
    trial
        Whether to try the pairs on the problem; without it, or where that would take long, the
        rules of the league estimate what they take.
    seed
        Seed of the trials and of the walks without a model.
    privacy
        The privacy of the run. The answer is then SGD along the walk that visits the nodes most
        evenly, which needs the least noise; ``goal``, ``accuracy`` and ``trial`` do not matter,
        since noise decides what is reached. The step size needs the largest L_v, so L_v must be
        public or released.

    Returns
    -------
    Recommendation
        With ``design``, ``update``, ``step_size``, all ready for `levywalk.run`, and ``why``.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.grid(10, 10), lw.heterogeneous(100, important=1)
    >>> best = lw.recommended(network, problem)
    >>> best.pair
    'oldest_neighbour+newton_token'
    >>> trace = lw.run(
    ...     network, problem, best.design, update=best.update, step_size=best.step_size, steps=300
    ... )
    >>> bool(trace.error[0, -1] < 1e-6)
    True
    >>> lw.recommended(network, problem, allow="first-order").update.name
    'point_saga'
    """
    checks.choice("goal", goal, GOALS)
    accuracy = checks.real(
        "accuracy", accuracy, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True
    )
    network = as_network(network)
    check_problem(problem)
    check_fit(network, problem)
    names = [] if allow is None else [allow] if isinstance(allow, str) else list(allow)
    if privacy is not None:
        return private_choice(network, _with_public_scores(privacy, problem, seed), names, seed)
    walks, updates = _allowed(names, problem)
    pilots = {name: pilot(network, WALKS[name](), seed) for name in walks}
    found = [
        _estimated(name, update, pilots[name], problem, accuracy)
        for name in walks
        for update in updates
    ]
    if trial and can_be_tried(problem):
        found = [_tried(one, network, problem, accuracy, seed) for one in found]
    # A pair that did not reach the accuracy in its trial comes last, however short its estimate.
    ranked = sorted(found, key=lambda one: (not one.was_tried, one.cost(goal)))
    best = ranked[0]
    update = UPDATES[best.update]()
    design = WALKS[best.walk]()
    largest = design.phases[0].bind(network, problem).largest
    why = _why(best, ranked, goal, accuracy, network, problem, pilots[best.walk])
    return Recommendation(
        design,
        update,
        best.factor * update.default_step_size(largest, problem),
        why,
        best.cost(goal),
        {candidate.name: candidate.cost(goal) for candidate in ranked[1:]},
        best.walk,
    )


def _with_public_scores(privacy: Privacy, problem: Problem, seed: int) -> Problem:
    """Return the problem with the scores that may be used; refuse to use private ones."""
    from levywalk.privacy.bound import check_scores, scored_problem  # they need scipy

    check_scores(privacy, oldest_neighbour(), "theory")
    return scored_problem(privacy, problem, seed)


def _allowed(names: list[str], problem: Problem) -> tuple[list[str], list[str]]:
    """Return the walks and updates that may be used and fit the problem."""
    fitting = ["saga"]
    if is_linear(problem):
        fitting = ["point_saga"]
        if problem.dim <= MOST_DIM:
            fitting.insert(0, "newton_token")
    unknown = [name for name in names if name not in {*WALKS, *UPDATES, FIRST_ORDER}]
    if unknown:
        raise InvalidParameter(
            f"allow must name {FIRST_ORDER!r}, walks ({', '.join(WALKS)}) or updates "
            f"({', '.join(UPDATES)}), got {unknown[0]!r}"
        )
    walks = [name for name in WALKS if name in names] or list(WALKS)
    wanted = [name for name in UPDATES if name in names]
    if "saga" in wanted and "saga" not in fitting:
        fitting.append("saga")
    updates = [name for name in fitting if not wanted or name in wanted]
    if FIRST_ORDER in names:
        updates = [name for name in updates if name != "newton_token"]
    if not updates:
        raise InvalidParameter(
            f"allow must name an update that fits a {type(problem).__name__} of dim "
            f"{problem.dim}, got {', '.join(names)}; allow {', '.join(fitting)}"
        )
    return walks, updates


def _estimated(
    walk: str, update: str, seen: Pilot, problem: Problem, accuracy: float
) -> _Candidate:
    """Return a pair with what it is estimated to take."""
    n, dim, quadratic = problem.n, problem.dim, is_quadratic(problem)
    if update == "newton_token":
        transfers, factor = _newton_transfers(seen, quadratic, accuracy), 1.0
        token = 8 * (dim + dim * (dim + 1) // 2 + dim + 1)
    else:
        kind = 0 if quadratic else 1
        size, loose, tight = _POINT_SAGA[walk][kind]
        if walk != "depth_first_tour" and seen.repeats >= _SAME_LAPS:
            swings = seen.cover >= _TO_AND_FRO * n
            size, loose, tight = (_POINT_SAGA["depth_first_tour"] if swings else _ALIKE)[kind]
        worse = (1.0 + math.sqrt(_condition_number(problem) / n)) / (1.0 + math.sqrt(_KAPPA[kind]))
        transfers = max(
            n * math.sqrt(worse) * _between(loose, tight, accuracy),
            seen.cover * _between(*_COVERS, accuracy),
            seen.rare_gap * _between(*_RARE, accuracy),
        )
        factor, token = size, 16 * dim
        if update == "saga":
            transfers, factor = _SAGA_SLOWER * transfers, 1.0
    small, token = seen.small_messages(transfers), token + seen.token_bytes
    return _Candidate(walk, update, factor, transfers, transfers, small, token)


def _tried(
    guess: _Candidate, network: Network, problem: Problem, accuracy: float, seed: int
) -> _Candidate:
    """Return a pair with what it takes in a trial; if that is too short for it, with an estimate
    that is at least as long.
    """
    walk, update = WALKS[guess.walk](), UPDATES[guess.update]()
    found = try_pair(network, problem, walk, update, accuracy, seed)
    if found is None:
        longer = max(1.0, LAPS * network.n / guess.transfers)
        return replace(
            guess,
            steps=longer * guess.steps,
            transfers=longer * guess.transfers,
            small_messages=longer * guess.small_messages,
        )
    return replace(
        guess,
        factor=found.factor,
        steps=found.steps,
        transfers=found.transfers,
        small_messages=found.small_messages,
        was_tried=True,
    )


def _newton_transfers(seen: Pilot, quadratic: bool, accuracy: float) -> float:
    """Return the transfers of the Newton token: least squares is solved when all nodes are seen,
    other losses need another lap.
    """
    if accuracy >= 1e-3:
        return seen.until(_SEEN if quadratic else _SEEN_OTHERS)
    return seen.cover + (0.0 if quadratic else seen.rare_gap)


def _between(loose: float, tight: float, accuracy: float) -> float:
    """Return what is on the line through (1e-3, loose) and (1e-6, tight), in digits.

    Examples
    --------
    >>> _between(3.0, 9.0, 1e-3), _between(3.0, 9.0, 1e-6), _between(3.0, 9.0, 0.5)
    (3.0, 9.0, 0.5)
    """
    digits = -math.log10(accuracy)
    return max(loose + (tight - loose) * (digits - 3.0) / 3.0, loose / 6.0)


def _condition_number(problem: Problem) -> float:
    """Return κ = max L_v / μ, at most a number that keeps estimates finite."""
    strong = float(getattr(problem, "strong_convexity", 0.0) or 0.0)
    largest = float(np.max(np.asarray(problem.smoothness)))
    return min(largest / strong if strong > 0.0 else math.inf, 100.0 * problem.n)


def _why(
    best: _Candidate,
    ranked: list[_Candidate],
    goal: str,
    accuracy: float,
    network: Network,
    problem: Problem,
    seen: Pilot,
) -> str:
    unit = {"transfers": "transfers", "steps": "steps", "bytes": "bytes", "time": "seconds"}[goal]
    took = f"took {best.cost(goal):,.3g} {unit} to {accuracy:g} in a trial of {TRIAL_WALKS} walks"
    guess = f"is estimated to take {best.cost(goal):,.3g} {unit} to {accuracy:g}"
    lines = [
        f"{best.name} {took if best.was_tried else guess}, the least of {len(ranked)} pairs"
        + (f" (next: {ranked[1].name}, {ranked[1].cost(goal):,.3g})." if ranked[1:] else ".")
    ]
    if math.isfinite(seen.cover):
        lines.append(
            f"In a pilot the walk had seen all {network.n:,} nodes after {seen.cover:,.0f} steps."
        )
    else:
        lines.append(
            f"In a pilot of {seen.steps:,} steps no walk saw all {network.n:,} nodes, so the "
            "estimate is rough."
        )
    if best.update == "newton_token":
        lines.append(
            "The Newton token carries second derivatives: "
            + (
                "for least squares it is exact once all nodes were seen."
                if is_quadratic(problem)
                else "for this loss it needs one or two laps more, and there is no proof that it "
                f"converges. If it does not, {_without_newton(ranked)}."
            )
        )
    elif best.update == "point_saga":
        lines.append(
            f"The step size is {best.factor:g} times Defazio's, whose theorem asks for independent "
            "draws and strongly convex f_v and so does not hold here; "
            + (
                "it was the best of five in the trial."
                if best.was_tried
                else "the league measured that walks allow more for least squares, and less for "
                "other losses and along a tour."
            )
        )
    if goal == "time":
        lines.append(
            "Time is that of home broadband. Gossip works at all nodes at once and can be faster "
            "where a network has many edges: compare lw.gossip."
        )
    return " ".join(lines)


def _without_newton(ranked: list[_Candidate]) -> str:
    """Return what to take if the Newton token stalls."""
    others = [f"{one.walk}+{one.update}" for one in ranked if one.update != "newton_token"]
    allowed = f"allow={FIRST_ORDER!r}"
    return python_or_command(allowed, f"use {others[0]}") if others else allowed
