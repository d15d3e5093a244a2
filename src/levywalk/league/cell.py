"""One cell of the league: a pair on a network and a problem, tuned on some instances and measured
on others. This is the task that the store holds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.engine import run
from levywalk.engine.gossip import gossip
from levywalk.engine.run import run_step_sizes
from levywalk.errors import DivergedWarning
from levywalk.league.pairs import built_pair
from levywalk.league.scenes import network_of, problem_of
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks, settled_at
from levywalk.updates import Update
from levywalk.walks import Walk

COUNTS = ("steps", "transfers", "bytes", "small_messages")
_PER_DECADE = 60  # checkpoints: 4 % apart
_FIRST_LAPS = 4  # in which checkpoints are n/50 apart
_EDGE = 3  # how often the grid of step sizes is extended beyond its edge
_LONGER = 4.0  # a reported walk is this many times as long as the tuned one needed
_MARGIN = 0.5  # a step size must also reach this part of an accuracy in tuning, if any does

Cell = tuple[dict[str, AnyArray], dict[str, Any]]


def measure_cell(description: Mapping[str, Any]) -> Cell:
    """Tune a pair on the tuning instances and measure it on the others.

    Returns ``steps``, ``transfers``, ``bytes`` and ``small_messages``, each of (step sizes,
    instances, accuracies) and infinite where an accuracy was not reached; and as numbers the step
    sizes in units of the update's default and which of them tuning chose for each accuracy.
    ``first`` are the transfers after which each walk by itself first had an accuracy, (step sizes,
    instances, walks, accuracies), and ``chosen_first`` the step sizes that tuning chose for that:
    a softer measure, in which the prototype's table was made.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # tuning searches for the limit
        return Competition(description).result()


class Competition:
    """The runs of one cell."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.description = description
        self.accuracies = [float(value) for value in description["accuracies"]]
        self.is_gossip = description["pair"]["walk"] == "gossip"
        self.budget = int(description["budget"])
        self.nodes = int(description["n"])
        self.marks = marks_of(self.budget, self.nodes)
        self.instances: dict[int, tuple[Network, Problem]] = {}

    def result(self) -> Cell:
        """Return what the store holds."""
        tunable = self.is_gossip or built_pair(self.description["pair"])[1].tunable
        chosen, tuned_steps = [1.0] * len(self.accuracies), [math.inf] * len(self.accuracies)
        chosen_first, first_steps = list(chosen), list(tuned_steps)
        tried: dict[float, Floats] = {}
        if tunable:
            tried = self.tuning_scores()
            chosen, tuned_steps = self.chosen(tried)
            chosen_first, first_steps = chosen, tuned_steps
            if self.description["first"]:
                chosen_first, first_steps = self.chosen(tried, first=True)
        also = [float(value) for value in self.description.get("also", ())] if tunable else []
        factors = sorted({*chosen, *chosen_first, *also})
        seeds = self.description["seeds"]
        found = {name: np.full((len(factors), len(seeds), len(self.accuracies)), np.inf)
                 for name in COUNTS}  # fmt: skip
        walks = 1 if self.is_gossip else int(self.description["walks"])
        found["first"] = np.full((len(factors), len(seeds), walks, len(self.accuracies)), np.inf)
        rounds = 1
        needs = [
            *zip(chosen, tuned_steps, strict=True),
            *zip(chosen_first, first_steps, strict=True),
        ]
        for i, factor in enumerate(factors):
            needed = [steps for chosen_factor, steps in needs if chosen_factor == factor]
            steps = self.budget
            cut = factor not in also and not self.description["whole"]
            if needed and cut and all(map(math.isfinite, needed)):
                steps = min(steps, int(_LONGER * max(needed)) + 100)
            for j, seed in enumerate(seeds):
                trace = self.reported(seed, factor, steps)
                rounds = int(trace.provenance.get("rounds", 1))
                for name, values in reached(trace, self.accuracies).items():
                    found[name][i, j] = values
                found["first"][i, j] = first_transfers(trace, self.accuracies)
        network, problem = self.instance(seeds[0])
        return found, {
            "n": network.n,
            "edges": network.n_edges,
            "dim": problem.dim,
            "rounds": rounds,
            "factors": factors,
            "chosen": [factors.index(factor) for factor in chosen],
            "chosen_first": [factors.index(factor) for factor in chosen_first],
            "tried": {f"{factor:.6g}": values.tolist() for factor, values in sorted(tried.items())},
        }

    def instance(self, seed: int) -> tuple[Network, Problem]:
        """Return the network and the problem of an instance."""
        if seed not in self.instances:
            network = network_of(self.description["network"], seed)
            self.instances[seed] = network, problem_of(self.description["problem"], network.n, seed)
        return self.instances[seed]

    def tuning_scores(self) -> dict[float, Floats]:
        """Return, by step size, the steps to each accuracy, the error at the end, the steps after
        which half of the walks have had each accuracy, and the steps to a part of each accuracy:
        the worst over the tuning instances.

        The grid is extended while its best is at an edge, and then refined around the best.
        """
        exponents = [float(value) for value in self.description["exponents"]]
        tried = self.tries(exponents)
        for _ in range(_EDGE):
            edge = {3.0 ** min(exponents): -1.0, 3.0 ** max(exponents): 1.0}
            more = {
                math.log(factor, 3.0) + edge[factor]
                for factor in set(self.chosen(tried)[0])
                if factor in edge
            }
            if not more:
                break
            exponents += sorted(more)
            tried |= self.tries(sorted(more))
        width = 0.5
        for _ in range(int(self.description["refinements"])):
            best = {math.log(factor, 3.0) for factor in self.chosen(tried)[0][-2:]}
            near = {round(e + s, 6) for e in best for s in (-width, width)}
            tried |= self.tries(sorted(near))
            width /= 2.0
        return tried

    def tries(self, exponents: Sequence[float]) -> dict[float, Floats]:
        """Return what `tuned` returns, for some exponents."""
        factors = [3.0**exponent for exponent in exponents]
        rows = np.zeros((len(factors), 3 * len(self.accuracies) + 1))
        for seed in self.description["tuning_seeds"]:
            for i, errors in enumerate(self.tuning_errors(seed, factors)):
                curve = mean_over_walks(errors)
                steps, beyond = (
                    [settled_at(self.marks, curve[None], part * a)[0] for a in self.accuracies]
                    for part in (1.0, _MARGIN)
                )
                first = [_median(first_marks(self.marks, errors, a)) for a in self.accuracies]
                rows[i] = np.maximum(rows[i], [*steps, curve[-1], *first, *beyond])
        return dict(zip(factors, rows, strict=True))

    def tuning_errors(self, seed: int, factors: Sequence[float]) -> list[Floats]:
        """Return the errors of the tuning walks of one instance, by step size."""
        network, problem = self.instance(seed)
        if self.is_gossip:
            return [self.gossiped(seed, factor, self.budget).error for factor in factors]
        walk, update, default = self.parts(network, problem)
        trace = run_step_sizes(
            network,
            problem,
            walk,
            default * np.array(factors),
            steps=self.budget,
            replicas=int(self.description["walks"]),
            seed=seed,
            record_every=self.marks,
            start="uniform",
            x0=None,
            threads=1,
            update=update,
            progress=False,
        )
        walks = int(self.description["walks"])
        return [trace.error[i * walks : (i + 1) * walks] for i in range(len(factors))]

    def chosen(
        self, tried: Mapping[float, Floats], first: bool = False
    ) -> tuple[list[float], list[float]]:
        """Return the best step size for each accuracy and the steps that it took in tuning.

        One with which the mean just stays at the accuracy here may not do so on another instance,
        so those that go on to a part of it come first; not for the first time that a walk has an
        accuracy, which needs no margin. If none reaches it, the one with the least error at the end
        is taken.
        """
        factors, count = list(tried), len(self.accuracies)
        best, steps = [], []
        for k in range(count):
            column, beyond = count + 1 + k if first else k, 2 * count + 1 + k
            factor = min(
                factors,
                key=lambda f: (
                    not first and math.isinf(tried[f][beyond]),
                    tried[f][column],
                    tried[f][count],
                ),
            )
            best.append(factor)
            steps.append(float(tried[factor][column]))
        return best, steps

    def parts(self, network: Network, problem: Problem) -> tuple[Walk, Update, float]:
        """Return the walk, the update and its default step size on an instance."""
        walk, update = built_pair(self.description["pair"])
        largest = walk.phases[0].bind(network, problem).largest
        return walk, update, update.default_step_size(largest, problem)

    def reported(self, seed: int, factor: float, steps: int) -> Trace:
        """Return the trace of a reported instance."""
        if self.is_gossip:
            return self.gossiped(seed, factor, steps)
        network, problem = self.instance(seed)
        walk, update, default = self.parts(network, problem)
        return run(
            network,
            problem,
            walk,
            steps=steps,
            step_size=factor * default,
            replicas=int(self.description["walks"]),
            seed=seed,
            record_every=marks_of(steps, self.nodes),
            record_visits=False,
            threads=1,
            update=update,
            measure_loss=min(16, problem.n),
            progress=False,
        )

    def gossiped(self, seed: int, factor: float, iterations: int) -> Trace:
        """Return the trace of gossip on an instance."""
        network, problem = self.instance(seed)
        method = self.description["pair"]["update"]
        size = factor * gossip_step_size(method, problem)
        return gossip(
            network,
            problem,
            method,
            iterations=iterations,
            step_size=size,
            record_every=marks_of(iterations, self.nodes),
        )


def gossip_step_size(method: str, problem: Problem) -> float:
    """Return the default step size of a gossip method, from which tuning begins.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [1.0]], [1.0, 0.0])
    >>> gossip_step_size("extra", problem), round(gossip_step_size("accelerated", problem), 9)
    (0.25, 0.5)
    """
    smoothness = np.asarray(problem.smoothness, dtype=np.float64)
    if method != "accelerated":
        return 1.0 / (2.0 * float(smoothness.max()))
    hessian = getattr(problem, "hessian", None)
    own = smoothness.mean() if hessian is None else np.linalg.eigvalsh(hessian)[-1]
    return 1.0 / float(own)


def marks_of(steps: int, n: int) -> Ints:
    """Return checkpoints that are a few per cent apart, and n/50 apart during the first laps, where
    a method may be done at the very end of one; 0 and the last are among them.

    Examples
    --------
    >>> marks_of(10_000, 1000)[[0, 1, 2, -2, -1]].tolist()
    [0, 1, 2, 9624, 10000]
    >>> 1980 in marks_of(10_000, 1000), 2000 in marks_of(10_000, 1000)
    (True, True)
    """
    count = int(_PER_DECADE * math.log10(max(steps, 2))) + 1
    marks = np.round(np.geomspace(1, steps, count)).astype(np.int64)
    first = np.arange(0, min(steps, _FIRST_LAPS * n), max(1, n // 50), dtype=np.int64)
    return np.unique(np.concatenate([[0], marks, first, [steps]]))


def reached(trace: Trace, accuracies: Sequence[float]) -> dict[str, list[float]]:
    """Return the steps after which the mean over walks stays at each accuracy, and what was spent
    until then: the mean over walks; infinite if it was not reached.
    """
    mean = mean_over_walks(trace.error)
    found: dict[str, list[float]] = {name: [] for name in COUNTS}
    for accuracy in accuracies:
        step = float(settled_at(trace.step, mean[None], accuracy)[0])
        if not math.isfinite(step):
            for values in found.values():
                values.append(math.inf)
            continue
        at = int(np.searchsorted(trace.step, step))
        found["steps"].append(step)
        for name in COUNTS[1:]:
            found[name].append(float(getattr(trace, name)[:, at].mean()))
    return found


def first_marks(marks: Ints, errors: Floats, accuracy: float) -> Floats:
    """Return, for each walk, the first checkpoint at or below the accuracy; else infinity.

    Examples
    --------
    >>> first_marks(np.array([0, 10, 20]), np.array([[1.0, 0.1, 0.3], [1.0, 1.0, 1.0]]), 0.2)
    array([10., inf])
    """
    below = errors <= accuracy
    at = np.where(below.any(axis=1), below.argmax(axis=1), len(marks))
    return np.asarray(np.append(marks.astype(np.float64), np.inf)[at])


def first_transfers(trace: Trace, accuracies: Sequence[float]) -> Floats:
    """Return the transfers of each (walk, accuracy) until its error is first at the accuracy."""
    found = np.full((trace.replicas, len(accuracies)), np.inf)
    for k, accuracy in enumerate(accuracies):
        steps = first_marks(trace.step, trace.error, accuracy)
        for r in np.flatnonzero(np.isfinite(steps)).tolist():
            found[r, k] = trace.transfers[r, np.searchsorted(trace.step, steps[r])]
    return found


def _median(values: Floats) -> float:
    """Return an upper median, since there is nothing between a number and infinity."""
    return float(np.sort(values)[len(values) // 2])
