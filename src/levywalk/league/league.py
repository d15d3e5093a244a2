"""`run_league`: compare all pairs, and write which pair is best where."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.draws import Domain, generator
from levywalk.json_values import finite
from levywalk.league.cell import measure_cell
from levywalk.league.league_result import LeagueResult
from levywalk.league.pairs import CONTENDER_NAMES, Pair
from levywalk.league.scenes import (
    ACCURACIES,
    LeagueEffort,
    budget,
    network_of,
    uses_fewer_trials,
)
from levywalk.sweeps.jobs import keys_of, run_all
from levywalk.sweeps.store import ResultStore
from levywalk.sweeps.workers import Failure, JobsFailed
from levywalk.trace.costs import PROFILES, Costs

STORE = "results"
MEASURES = ("transfers", "bytes", "steps", "time")
COSTS = PROFILES["home-broadband"]  # of the column time; the document has all profiles
_TABLE_NETWORKS = ("ring", "grid", "ws", "er")  # the prototype's table has these, at SNR 10
_RESAMPLES = 1000
# Seconds on one core (AMD EPYC), for estimates: of a cell's beginning, of a step of one walk by the
# update, of looking at a neighbour, and of an iteration of gossip and a further round by nodes
# and messages. Rounds of accelerated gossip follow from the spectral gap.
_START, _UPDATE, _LOOK = 0.5, 1.2e-7, {"oldest_neighbour": 1.3e-9, "srrw": 2.4e-8}
_SLOW_UPDATES = {"newton_token": 9e-7, "adam": 3e-7, "walkman": 3e-7, "finito": 2.5e-7}
_ITERATION, _ROUND = (1e-7, 7e-9), (3e-8, 6.5e-9)
_ROUNDS = {"ring": 2600, "grid": 270, "watts_strogatz": 60, "erdos_renyi": 12, "gnutella": 124}


@dataclass(frozen=True, eq=False)
class LeagueCell:
    """What one pair took on one network and problem.

    Attributes
    ----------
    counts
        "steps", "transfers", "bytes", "small_messages": (step sizes, instances, accuracies), and
        "first": (step sizes, instances, walks, accuracies).
    numbers
        n, edges, the step sizes and which of them tuning chose.
    """

    network: str
    problem: str
    pair: Pair
    counts: Mapping[str, AnyArray]
    numbers: Mapping[str, Any]

    def values(self, measure: str, accuracy: float, costs: Costs = COSTS) -> Floats:
        """Return what each reported instance took, at the tuned step size."""
        k = ACCURACIES.index(accuracy)
        return self.at_factor(measure, k, self.numbers["chosen"][k], costs)

    def at_factor(self, measure: str, k: int, i: int, costs: Costs = COSTS) -> Floats:
        """Return what each instance took to the k-th accuracy at the i-th step size."""
        if measure != "time":
            return np.asarray(self.counts[measure][i, :, k])
        steps, transfers, small, sent = (
            self.counts[name][i, :, k] for name in ("steps", "transfers", "small_messages", "bytes")
        )
        if not self.pair.gossip:
            return costs.seconds(steps, transfers, small, sent)
        # All nodes work and all links carry a message at once.
        with np.errstate(invalid="ignore"):
            size = np.where(np.isfinite(sent) & (transfers > 0), sent / transfers, 0.0)
        rounds = self.numbers["rounds"]
        return np.asarray(
            steps * (costs.compute + rounds * (costs.latency + size / costs.bandwidth))
        )

    def summary(
        self, measure: str, accuracy: float, costs: Costs = COSTS
    ) -> tuple[float, float, float]:
        """Return the median over instances and its 95 % interval (bootstrap)."""
        return median_interval(self.values(measure, accuracy, costs))

    def first_hits(self, accuracy: float) -> float:
        """Return the median over all walks of the transfers until a walk first had the accuracy."""
        k = ACCURACIES.index(accuracy)
        values = np.sort(self.counts["first"][self.numbers["chosen_first"][k], :, :, k].ravel())
        return float(values[len(values) // 2])

    def untuned(self, measure: str, accuracy: float, factor: float) -> float:
        """Return the median over instances at a multiple of the default step size."""
        k = ACCURACIES.index(accuracy)
        factors = self.numbers["factors"]
        if factor not in factors:
            return math.nan
        return median_interval(self.at_factor(measure, k, factors.index(factor)))[0]


def median_interval(values: Floats) -> tuple[float, float, float]:
    """Return the median of some instances and its 95 % bootstrap interval; ends can be infinite.

    Examples
    --------
    >>> median_interval(np.array([1.0, 2.0, np.inf]))[0]
    2.0
    """
    ordered = np.sort(values)
    middle = float(ordered[len(ordered) // 2])
    rng = generator(0, Domain.BOOTSTRAP, 2)
    draws = np.sort(rng.choice(values, (_RESAMPLES, len(values))), axis=1)[:, len(values) // 2]
    low, high = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    return middle, min(float(low), middle), max(float(high), middle)


def description_of(
    network: str, section: Mapping[str, Any], problem: str, pair: Pair, effort: LeagueEffort, n: int
) -> dict[str, Any]:
    """Return the task of one cell: everything that decides its numbers."""
    few = uses_fewer_trials(pair, network, problem)
    accelerated = pair.update == "accelerated"
    return {
        "network": dict(section),
        "problem": problem,
        "n": n,
        "pair": pair.plain(),
        "budget": budget(pair, network, n, problem, effort),
        "accuracies": list(ACCURACIES),
        "seeds": list(effort.seeds[:3] if few or pair.gossip or n > 2000 else effort.seeds),
        "tuning_seeds": list(
            effort.tuning_seeds[:1] if few or pair.gossip else effort.tuning_seeds
        ),
        "walks": effort.walks,
        "exponents": [-1.0, 0.0] if accelerated else list(effort.exponents),
        "refinements": 0 if few or accelerated else effort.refinements,
        "also": [1.0, 3.0] if pair.update == "point_saga" else [],
        "first": problem == "snr10" and network in _TABLE_NETWORKS,
        "whole": few,  # one tuning instance does not say how long the others take
    }


def can_compete(pair: Pair, section: Mapping[str, Any]) -> bool:
    """Return whether a pair can run on a network at all."""
    return pair.walk != "lifted_ring" or section.get("family") == "ring"


class LeagueTask(NamedTuple):
    """One cell that is to be measured."""

    network: str
    problem: str
    pair: Pair
    description: dict[str, Any]
    seconds: float  # that it takes on one core, roughly

    @property
    def name(self) -> str:
        """What progress and errors call it."""
        return f"{self.pair.name} on {self.network}, {self.problem}"


Computed = tuple[LeagueTask, Mapping[str, AnyArray], Mapping[str, Any]]


def tasks_for(networks: Mapping[str, Mapping[str, Any]], effort: LeagueEffort) -> list[LeagueTask]:
    """Return all cells of a league."""
    tasks = []
    for problem in effort.problems:
        for name, section in networks.items():
            network = network_of(section, effort.seeds[0])
            for pair in effort.pairs:
                if can_compete(pair, section):
                    told = description_of(name, section, problem, pair, effort, network.n)
                    seconds = seconds_of(told, network.n_edges)
                    tasks.append(LeagueTask(name, problem, pair, told, seconds))
    return tasks


def seconds_of(description: Mapping[str, Any], edges: int) -> float:
    """Return about how many seconds a cell takes on one core: tuning with all step sizes on all
    tuning instances, and reports with two of them.
    """
    pair, n, walks = description["pair"], description["n"], description["walks"]
    runs = 2 * len(description["seeds"])
    if pair["walk"] == "gossip" or pair["update"] not in ("finito", "newton_token"):
        sizes = len(description["exponents"]) + 3 * description["refinements"]
        runs += sizes * len(description["tuning_seeds"])
    if pair["walk"] == "gossip":
        walks = 1
        per_step = _ITERATION[0] * n + _ITERATION[1] * 2 * edges
        if pair["update"] == "accelerated":
            rounds = _ROUNDS.get(description["network"]["family"], 100)
            per_step += rounds * (_ROUND[0] * n + _ROUND[1] * 2 * edges)
    else:
        per_step = _SLOW_UPDATES.get(pair["update"], _UPDATE)
        per_step += _LOOK.get(pair["walk"], 0.0) * 2 * edges / n
    return float(_START + per_step * description["budget"] * runs * walks)


def run_league(
    networks: Mapping[str, Mapping[str, Any]],
    effort: LeagueEffort,
    folder: Path,
    *,
    workers: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> LeagueResult:
    """Compute all cells that the folder's store lacks; return all of them, and those that failed.

    Parameters
    ----------
    networks
        Names and sections of the networks.
    workers, scheduler, progress
        As in `levywalk.sweeps.jobs.run_all`.
    """
    results, failures = compute_tasks(
        tasks_for(networks, effort),
        measure_cell,
        folder,
        workers=workers,
        scheduler=scheduler,
        progress=progress,
    )
    cells = [
        LeagueCell(task.network, task.problem, task.pair, arrays, numbers)
        for task, arrays, numbers in results
    ]
    return LeagueResult(cells, failures)


def compute_tasks(
    tasks: Sequence[LeagueTask],
    work: Callable[..., Any],
    folder: Path,
    *,
    workers: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> tuple[list[Computed], tuple[Failure, ...]]:
    """Compute all tasks that the folder's store lacks; return all that are there, and failures."""
    # The pairs that can win come first, so that an interrupted league is of use; then the longest,
    # so that no core waits for the others at the end.
    order = sorted(tasks, key=lambda t: (t.pair.name not in CONTENDER_NAMES, -t.seconds))
    store = ResultStore(folder / STORE)
    failures: tuple[Failure, ...] = ()
    try:
        run_all(
            [task.description for task in order],
            work,
            store,
            workers=workers,
            scheduler=scheduler,
            progress=progress,
            names=[task.name for task in order],
        )
    except JobsFailed as error:  # a page without some of them is better than none
        failures = error.failures
    found: list[Computed] = []
    keys = keys_of([task.description for task in tasks], work)
    for task, key in zip(tasks, keys, strict=True):
        result = store.load(key)
        if result is not None:
            found.append((task, result.arrays, result.numbers))
    return found, failures


def left_of(
    networks: Mapping[str, Mapping[str, Any]], effort: LeagueEffort, folder: Path
) -> tuple[int, int, float]:
    """Return how many results a league has, how many of them are stored, and about how many seconds
    the others take on one core.

    Examples
    --------
    >>> from levywalk.league.scenes import QUICK
    >>> count, stored, seconds = left_of(QUICK.networks, QUICK, Path("no such folder"))
    >>> count, stored, seconds > 0
    (20, 0, True)
    """
    return still_to_do(tasks_for(networks, effort), measure_cell, folder)


def still_to_do(
    tasks: Sequence[LeagueTask], work: Callable[..., Any], folder: Path
) -> tuple[int, int, float]:
    """Return how many tasks there are, how many of them are stored, and about how many seconds the
    others take on one core.
    """
    keys = keys_of([task.description for task in tasks], work)
    store = ResultStore(folder / STORE)
    left = [task for task, key in zip(tasks, keys, strict=True) if not store.has(key)]
    return len(tasks), len(tasks) - len(left), sum(task.seconds for task in left)


def best_of(
    cells: Sequence[LeagueCell], measure: str, accuracy: float
) -> tuple[LeagueCell, float] | None:
    """Return the cell with the least median, or None if none reached the accuracy."""
    found = [(cell.summary(measure, accuracy)[0], i) for i, cell in enumerate(cells)]
    value, i = min(found, default=(math.inf, -1))
    return (cells[i], value) if math.isfinite(value) else None


def document_of(
    cells: Sequence[LeagueCell],
    effort: LeagueEffort,
    goals: Sequence[Mapping[str, Any]],
    command: str,
    seconds: float,
    *,
    stored: int = 0,
    failures: Sequence[Failure] = (),
    costs: Costs = COSTS,
) -> dict[str, Any]:
    """Return the whole league as plain JSON.

    ``seconds`` is the time of this run, in which ``stored`` results were there already.
    """
    rows = []
    for cell in cells:
        row: dict[str, Any] = {
            "network": cell.network,
            "problem": cell.problem,
            "pair": cell.pair.name,
            "server": cell.pair.server,
            "n": cell.numbers["n"],
            "instances": int(cell.counts["steps"].shape[1]),
            "step_sizes": {
                f"{a:g}": cell.numbers["factors"][cell.numbers["chosen"][k]]
                for k, a in enumerate(ACCURACIES)
            },
        }
        for measure in MEASURES:
            row[measure] = {f"{a:g}": list(cell.summary(measure, a, costs)) for a in ACCURACIES}
        row["time_by_profile"] = {
            profile: {f"{a:g}": median_interval(cell.values("time", a, PROFILES[profile]))[0]
                      for a in ACCURACIES}
            for profile in PROFILES
        }  # fmt: skip
        if cell.pair.update == "point_saga":
            row["untuned_transfers"] = {
                f"{factor:g}": {f"{a:g}": cell.untuned("transfers", a, factor) for a in ACCURACIES}
                for factor in (1.0, 3.0)
            }
        rows.append(row)
    return dict(
        finite(
            {
                "command": command,
                "effort": effort.name,
                "seconds": seconds,
                "stored": stored,
                "accuracies": list(ACCURACIES),
                "profile": costs.name,
                "pairs": [
                    {"name": pair.name, "reason": pair.reason, "server": pair.server}
                    for pair in effort.pairs
                ],
                "cells": rows,
                "goals": list(goals),
                "failures": [{"name": f.name, "why": f.why} for f in failures],
            }
        )
    )


def league(
    networks: Mapping[str, Mapping[str, Any]],
    effort: LeagueEffort,
    folder: Path,
    *,
    command: str = "levywalk league",
    workers: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    costs: Costs = COSTS,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the league, judge its goals, and write league.json, league.md and league.html.

    ``costs`` are those of the column time.
    """
    from levywalk.league.goals import judged_goals

    began = time.perf_counter()
    stored = left_of(networks, effort, folder)[1]
    cells, failures = run_league(
        networks, effort, folder, workers=workers, scheduler=scheduler, progress=progress
    )
    document = document_of(
        cells,
        effort,
        judged_goals(cells, effort),
        command,
        time.perf_counter() - began,
        stored=stored,
        failures=failures,
        costs=costs,
    )
    return document, write_league(document, folder)


def write_league(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write a league's document as league.html, league.md and league.json; return the files."""
    from levywalk.league.text import markdown
    from levywalk.report.page.league import league_page

    files = [folder / name for name in ("league.html", "league.md", "league.json")]
    files[0].write_text(league_page(document), encoding="utf-8")
    files[1].write_text(markdown(document), encoding="utf-8")
    files[2].write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return files
