"""A league that ranks by a metric on held-out samples: what each pair spends until the mean over
its walks reaches a value of it, such as 90 % accuracy, and stays there.

Tuning and counting are those of `levywalk.compare`, one comparison per pair and instance. Results
have keys of their own, so that those of the league by errors stay valid.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import AnyArray, Floats
from levywalk.draws import Domain, generator
from levywalk.errors import DataWarning, DivergedWarning, InvalidParameter
from levywalk.experiments.compare import compare
from levywalk.json_values import finite
from levywalk.league.cell import COUNTS, marks_of
from levywalk.league.league import (
    COSTS,
    MEASURES,
    LeagueTask,
    can_compete,
    compute_tasks,
    median_interval,
    seconds_of,
    still_to_do,
    write_league,
)
from levywalk.league.pairs import built_pair
from levywalk.league.scenes import LeagueEffort, budget, network_of, problem_of
from levywalk.metrics import is_rising, named_metrics
from levywalk.problem import Logistic, Problem, heterogeneous
from levywalk.sweeps.workers import Failure
from levywalk.trace.costs import PROFILES, Costs

LABELS = "labels"  # the problem of metrics of classes
_CLASSES, _NUMBERS = ("accuracy", "log_loss"), ("mean_squared_error", "mean_absolute_error", "r2")
METRICS = (*_CLASSES, *_NUMBERS)
_HELD_OUT = 2_000  # samples, so that an accuracy of 0.9 is known to 0.7 %
_STREAM = 51  # of the held-out samples
_SIZES = 20  # step sizes that a comparison tries, about
_EVALUATION = 6e-5  # seconds that a metric takes, for estimates

Held = tuple[Floats, AnyArray]


def problems_of(metric: str, effort: LeagueEffort) -> tuple[str, ...]:
    """Return the problems of the league on which a metric is measured.

    Examples
    --------
    >>> from levywalk.league.scenes import FULL, QUICK
    >>> problems_of("accuracy", QUICK), problems_of("r2", FULL)
    (('labels',), ('snr10', 'snr1000'))
    """
    checks.choice("--metric", metric, METRICS)
    if metric in _CLASSES:
        return (LABELS,)
    return tuple(name for name in effort.problems if name.startswith("snr"))


def scene(name: str, n: int, seed: int) -> tuple[Problem, Held]:
    """Return an instance of a problem and its held-out samples, each of a node drawn at random.

    "labels" is logistic regression with a ridge of 0.01 on classes without noise, the signs of aᵀx
    at the drawn x; the others are those of the league.

    Examples
    --------
    >>> problem, (features, labels) = scene("labels", 100, 0)
    >>> problem.dim, features.shape, sorted(set(labels.tolist()))
    (10, (2000, 10), [0, 1])
    """
    classes = name == LABELS
    data: Any = heterogeneous(n, dim=10, important=2, seed=seed) if classes else None
    problem: Any = (
        Logistic(data.features, _signs(data.features @ data.truth), ridge=0.01)
        if classes
        else problem_of(name, n, seed)
    )
    rng = generator(seed, Domain.DATA, _STREAM)
    features = rng.standard_normal((_HELD_OUT, problem.dim))
    features[rng.random(_HELD_OUT) < 2.0 / n] *= 10.0  # of one of the two important nodes
    if classes:
        return problem, (features, _signs(features @ data.truth))
    residuals = problem.sorted_targets - problem.sorted_features @ problem.truth
    noise = float(np.sqrt(np.mean(np.square(residuals))))
    return problem, (features, features @ problem.truth + noise * rng.standard_normal(_HELD_OUT))


def _signs(values: Floats) -> AnyArray:
    return (values > 0.0).astype(np.int64)


def require_possible(
    networks: Mapping[str, Mapping[str, Any]], effort: LeagueEffort, metric: str, reach: float
) -> None:
    """Refuse, before any walk, a value that the minimiser of an instance does not have, or that the
    first model has already.
    """
    problems = problems_of(metric, effort)
    reach = checks.real("--reach", reach, "that is finite", low=-math.inf)
    for name, section in networks.items():
        for problem_name in problems:
            for seed in effort.seeds:
                problem: Any
                problem, held = scene(problem_name, network_of(section, seed).n, seed)
                judge: Callable[[Any], float] = named_metrics([metric], problem, *held)[metric]
                rises, first = is_rising(metric, judge), judge(np.zeros(problem.dim))
                best = judge(problem.optimum)
                where = f"on {name}, {problem_name}, instance {seed}"
                if best < reach if rises else best > reach:
                    raise InvalidParameter(
                        f"--reach {reach:g} cannot be reached {where}, where the {metric} of the "
                        f"minimiser itself is {best:.4g}; give --reach {_near(best, rises):g}"
                    )
                if first >= reach if rises else first <= reach:
                    raise InvalidParameter(
                        f"--reach {reach:g} cannot rank {where}, where the {metric} of the first "
                        f"model is {first:.4g} already; give a value between it and {best:.4g}"
                    )


def _near(best: float, rises: bool) -> float:
    """Return a value with two digits that is a little worse than the best."""
    worse = best - 0.02 * abs(best) if rises else best + 0.05 * abs(best)
    return float(f"{worse:.2g}") if not rises else float(np.floor(100 * worse) / 100)


def measure_by_metric(description: Mapping[str, Any]) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Compare a pair with itself on every instance: what it took to the value of the metric.

    Returns ``steps``, ``transfers``, ``bytes`` and ``small_messages`` of each instance, infinite
    where the value was not reached, ``final``, the metric's mean at the end, and ``factor``, the
    step size in units of the update's default.
    """
    metric, seeds = description["metric"], description["seeds"]
    found = {name: np.full(len(seeds), np.inf) for name in (*COUNTS, "final", "factor")}
    for j, seed in enumerate(seeds):
        network = network_of(description["network"], seed)
        problem, held = scene(description["problem"], network.n, seed)
        walk, update = built_pair(description["pair"])
        with warnings.catch_warnings():
            # Tuning searches for the limit, and that nothing was reached is a result here.
            warnings.simplefilter("ignore", DivergedWarning)
            warnings.simplefilter("ignore", DataWarning)
            result = compare(
                network,
                problem,
                {"pair": (walk, update)},
                steps=description["budget"],
                replicas=description["walks"],
                seed=seed,
                record_every=marks_of(description["budget"], network.n),
                metrics=named_metrics([metric], problem, *held),
                measure_metrics="all",
                measure_loss=min(16, network.n),
                rank_by=metric,
                accuracy=description["reach"],
                threads=1,
                progress=False,
            )
        trace, steps = result.traces["pair"], result.steps_to.get("pair", np.inf)
        found["final"][j] = result.final("pair")
        default = update.default_step_size(walk.phases[0].bind(network, problem).largest, problem)
        found["factor"][j] = result.step_size["pair"] / default
        if np.isfinite(steps):
            at = int(np.searchsorted(trace.step, steps))
            found["steps"][j] = steps
            for name in COUNTS[1:]:
                found[name][j] = getattr(trace, name)[:, at].mean()
    return found, {"n": description["n"]}


def metric_tasks(
    networks: Mapping[str, Mapping[str, Any]], effort: LeagueEffort, metric: str, reach: float
) -> list[LeagueTask]:
    """Return all cells; gossip is left out, because `levywalk.compare` does not tune it."""
    tasks = []
    for problem in problems_of(metric, effort):
        for name, section in networks.items():
            network = network_of(section, effort.seeds[0])
            for pair in effort.pairs:
                if pair.gossip or not can_compete(pair, section):
                    continue
                told: dict[str, Any] = {
                    "network": dict(section),
                    "problem": problem,
                    "n": network.n,
                    "pair": pair.plain(),
                    "budget": budget(pair, name, network.n, problem, effort),
                    "metric": metric,
                    "reach": float(reach),
                    "seeds": list(effort.seeds),
                    "walks": effort.walks,
                }
                tried = {"tuning_seeds": told["seeds"], "exponents": range(_SIZES)}
                seconds = seconds_of(told | tried | {"refinements": 0}, network.n_edges)
                looked = len(marks_of(told["budget"], network.n)) * effort.walks * _SIZES
                seconds += _EVALUATION * looked * len(effort.seeds)
                tasks.append(LeagueTask(name, problem, pair, told, seconds))
    return tasks


def left_by_metric(tasks: list[LeagueTask], folder: Path) -> tuple[int, int, float]:
    """Return how many results there are, how many are stored, and the seconds of the others."""
    return still_to_do(tasks, measure_by_metric, folder)


def metric_league(
    tasks: list[LeagueTask],
    effort: LeagueEffort,
    folder: Path,
    *,
    command: str = "levywalk league",
    workers: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    costs: Costs = COSTS,
) -> tuple[dict[str, Any], list[Path]]:
    """Run a league by a metric, and write league.json, league.md and league.html."""
    began, stored = time.perf_counter(), left_by_metric(tasks, folder)[1]
    results, failures = compute_tasks(
        tasks, measure_by_metric, folder, workers=workers, scheduler=scheduler, progress=progress
    )
    rows = [_row(task, arrays, costs) for task, arrays, _ in results]
    document = _document(tasks, rows, effort, failures, costs)
    document |= {"command": command, "seconds": time.perf_counter() - began, "stored": stored}
    return document, write_league(document, folder)


def _row(task: LeagueTask, arrays: Mapping[str, AnyArray], costs: Costs) -> dict[str, Any]:
    key = f"{task.description['reach']:g}"

    def seconds(of: Costs) -> Floats:
        return of.seconds(*(arrays[n] for n in ("steps", "transfers", "small_messages", "bytes")))

    values = {name: arrays[name] for name in MEASURES if name != "time"} | {"time": seconds(costs)}
    return {
        "network": task.network,
        "problem": task.problem,
        "pair": task.pair.name,
        "server": task.pair.server,
        "n": task.description["n"],
        "instances": len(arrays["steps"]),
        "step_sizes": {key: float(np.median(arrays["factor"]))},
        "final": float(np.median(arrays["final"])),
        **{name: {key: list(median_interval(values[name]))} for name in MEASURES},
        "time_by_profile": {
            profile: {key: median_interval(seconds(one))[0]} for profile, one in PROFILES.items()
        },
    }


def _document(
    tasks: list[LeagueTask],
    rows: list[dict[str, Any]],
    effort: LeagueEffort,
    failures: tuple[Failure, ...],
    costs: Costs,
) -> dict[str, Any]:
    told, pairs = tasks[0].description, {task.pair.name: task.pair for task in tasks}
    return dict(
        finite(
            {
                "effort": effort.name,
                "metric": told["metric"],
                "accuracies": [told["reach"]],
                "profile": costs.name,
                "pairs": [
                    {"name": pair.name, "reason": pair.reason, "server": pair.server}
                    for pair in pairs.values()
                ],
                "cells": rows,
                "goals": [],
                "failures": [{"name": f.name, "why": f.why} for f in failures],
            }
        )
    )
