"""A trial of a pair on the problem itself: what it takes to an accuracy, and with which step size.

Rules that were made on some networks can be wrong on others (on a random tree least-used edge took
2.5 times as long as they said); a trial of some laps is short where the data are at hand.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from levywalk.engine.run import run_step_sizes
from levywalk.errors import DivergedWarning
from levywalk.league.cell import marks_of
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.trace.statistics import mean_over_walks, settled_at
from levywalk.updates import Update
from levywalk.walks import Walk

LAPS, WALKS = 40, 4
FACTORS = (0.7, 1.4, 2.8, 5.6, 11.2)  # step sizes in units of the update's default
FEWEST_NODES = 100  # below that every pair is quick, and compiling takes longer than any run
MOST_WORK = 3e5  # nodes times samples per node times dimension: some seconds for all pairs


@dataclass(frozen=True)
class PairTrial:
    """What a pair took in a trial, with the best of its step sizes.

    Attributes
    ----------
    factor
        The step size in units of the update's default.
    steps, transfers, small_messages
        Until the mean error stays at or below the accuracy.
    """

    factor: float
    steps: float
    transfers: float
    small_messages: float


def can_be_tried(problem: Problem) -> bool:
    """Return whether a trial on this problem is short, and there is an optimum to measure it by.

    Examples
    --------
    >>> import levywalk as lw
    >>> can_be_tried(lw.homogeneous(200)), can_be_tried(lw.homogeneous(20))
    (True, False)
    """
    samples = float(getattr(problem, "n_samples", math.inf))
    if problem.n < FEWEST_NODES or samples * problem.dim > MOST_WORK:
        return False  # without looking for the optimum, which may take long
    return getattr(problem, "optimum", None) is not None


def try_pair(
    network: Network, problem: Problem, walk: Walk, update: Update, accuracy: float, seed: int
) -> PairTrial | None:
    """Run a pair for some laps with each step size; None if no step size reaches the accuracy.

    A step size is taken only if twice as much also reaches it, if there is such a one.

    Examples
    --------
    >>> import levywalk as lw
    >>> walk, update = lw.oldest_neighbour(), lw.newton_token()
    >>> found = try_pair(lw.ring(100), lw.homogeneous(100), walk, update, 1e-18, seed=0)
    >>> 98 <= found.transfers <= 100
    True
    """
    largest = walk.phases[0].bind(network, problem).largest
    default = update.default_step_size(largest, problem)
    factors = FACTORS if update.tunable else (1.0,)
    steps = LAPS * network.n
    marks = marks_of(steps, network.n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # large step sizes may
        trace = run_step_sizes(
            network,
            problem,
            walk,
            default * np.array(factors),
            steps=steps,
            replicas=WALKS,
            seed=seed,
            record_every=marks,
            start="uniform",
            x0=None,
            threads=1,
            update=update,
            progress=False,
        )
    found: list[PairTrial | None] = []
    for i, factor in enumerate(factors):
        own = slice(i * WALKS, (i + 1) * WALKS)
        curve = mean_over_walks(trace.error[own])
        at = float(settled_at(marks, curve[None], accuracy)[0])
        if math.isinf(at):
            found.append(None)
            continue
        mark = int(np.searchsorted(marks, at))
        sent, small = (a[own, mark].mean() for a in (trace.transfers, trace.small_messages))
        found.append(PairTrial(factor, at, float(sent), float(small)))
    return _safest(found) if update.tunable else found[0]


def _safest(found: list[PairTrial | None]) -> PairTrial | None:
    """Return the quickest of those for which twice the step size reaches the accuracy as well; what
    is at the limit in these walks is beyond it in others. If there is none, the least step size.
    """
    safe = [one for one, next_one in pairwise(found) if one is not None and next_one is not None]
    reached = [one for one in found if one is not None]
    if safe:
        return min(safe, key=lambda one: one.steps)
    return min(reached, key=lambda one: one.factor) if reached else None
