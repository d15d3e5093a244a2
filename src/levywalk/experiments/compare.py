"""`compare`: several designs on one network and problem, each at a step size of its own, fairly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.engine import check_sizes, checkpoints_of, run, run_step_sizes
from levywalk.errors import InvalidParameter
from levywalk.experiments.state_files import StateFolder
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.trace import Trace
from levywalk.trace.statistics import mean_over_walks, settled_at
from levywalk.updates import Sgd
from levywalk.walks import AnyDesign, Switching

if TYPE_CHECKING:
    import pandas as pd

ACCURACIES = (0.1, 0.03, 0.01)
PER_DECADE = 4
# γL* from 0.01 to 10^¼; for every design, L* = max w(v)L_v its own.
GRID = tuple(range(-2 * PER_DECADE, 2))
_MOST_EXTENSIONS = 3 * PER_DECADE


@dataclass(frozen=True, slots=True)
class Trial:
    """One step size that was tried: γL*, γ, the steps it took to the accuracy (or infinity), the error at the end."""

    relative: float
    step_size: float
    steps_to: float
    final_error: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    traces
        The reported run of each design.
    accuracy
        The relative error that step sizes were tuned for.
    step_size
        The step size of each design.
    sweep
        Every step size that was tried for each design, in increasing order; empty where it was given.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw()}
    >>> result = lw.compare(lw.complete(20), lw.homogeneous(20), designs, steps=50, replicas=2, step_size=0.01)
    >>> result.step_size, result.sweep
    ({'UnifRW': 0.01}, {'UnifRW': ()})
    """

    traces: dict[str, Trace]
    accuracy: float
    step_size: dict[str, float]
    sweep: dict[str, tuple[Trial, ...]]

    @property
    def steps_to(self) -> dict[str, float]:
        """By design, the first checkpoint after which the mean over walks stays at the accuracy, or infinity."""
        return {name: trace.steps_to(self.accuracy) for name, trace in self.traces.items()}

    def table(self) -> pd.DataFrame:
        """Return one row per design: step size, steps to several accuracies with 95 % intervals, visits, cost."""
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        import pandas as pd

        accuracies = sorted({*ACCURACIES, self.accuracy}, reverse=True)
        rows = [_row(trace, self.step_size[name], accuracies) for name, trace in self.traces.items()]
        return pd.DataFrame(rows, index=pd.Index(self.traces, name="design"))

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {steps:g}" for name, steps in self.steps_to.items())
        return f"Comparison(steps to {self.accuracy:g}: {found})"


def _row(trace: Trace, step_size: float, accuracies: list[float]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "step_size": step_size,
        "relative_step_size": step_size * trace.provenance["largest_weighted_smoothness"],
    }
    for accuracy in accuracies:
        low, high = trace.steps_to_interval(accuracy)
        row |= {
            f"steps_to_{accuracy:g}": trace.steps_to(accuracy),
            f"steps_to_{accuracy:g}_low": low,
            f"steps_to_{accuracy:g}_high": high,
        }
    summary = trace.summary()
    row["final_error"] = float(mean_over_walks(trace.error)[-1])
    wanted = (
        "busiest_node",
        "busiest_share",
        "busiest_target",
        "longest_dwell",
        "hops_per_step",
        "transfers_per_step",
        "diverged",
    )
    return row | {key: summary[key] for key in wanted if key in summary}


def compare(
    network: Network,
    problem: Problem,
    designs: Mapping[str, AnyDesign],
    *,
    steps: int,
    replicas: int,
    accuracy: float = 0.01,
    step_size: str | float | Mapping[str, float] = "tuned",
    seed: int = 0,
    record_every: int | npt.ArrayLike | None = None,
    record_walk: bool = False,
    start: str | int | npt.ArrayLike = "uniform",
    x0: npt.ArrayLike | None = None,
    threads: int | None = None,
    update: Sgd | None = None,
    loss: str | int = "auto",
    resume: str | Path | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run several designs, each at the step size that serves it best.

    With ``step_size="tuned"`` each design gets the step size, on one log grid in γL* (L* = max w(v)L_v, its own),
    that reaches ``accuracy`` in the fewest steps; if none does, the one with the least error at the end. The grid is
    extended while the winner lies at its edge. Tuning uses as many replicas as the report, with keys that the report
    never reuses.

    Parameters
    ----------
    designs
        Names and designs, such as ``{"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()}``.
    steps, replicas, seed, record_every, record_walk, start, x0, threads, update, loss, progress
        As in `levywalk.run`, for each design.
    accuracy
        The relative error ‖x - x*‖²/‖x⁰ - x*‖² to tune for.
    step_size
        "tuned", "theory", one number for all, or one per design.
    resume
        A folder for the state of every tuning and run, made when missing. Called again with the same arguments after
        an interruption, the comparison goes on where it stopped: what is finished is read, not walked again. State of
        anything else is refused, as in `levywalk.run`.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw(), "i.i.d.": lw.iid_uniform()}
    >>> result = lw.compare(lw.complete(50), lw.homogeneous(50), designs, steps=2000, replicas=8, accuracy=0.2)
    >>> sorted(result.steps_to) == sorted(designs)
    True
    """
    accuracy = checks.positive("accuracy", accuracy)
    if not isinstance(designs, Mapping) or not designs:
        raise InvalidParameter(f"designs must be a non-empty dict of names and designs, got {designs!r}")
    designs = {str(name): design for name, design in designs.items()}
    if isinstance(step_size, Mapping) and set(step_size) - set(designs):
        unknown = ", ".join(sorted(map(repr, set(step_size) - set(designs))))
        raise InvalidParameter(f"step_size must name designs, of {', '.join(designs)}; got {unknown}")
    steps, replicas = check_sizes(steps, replicas, record_every)
    seed = checks.seed(seed)
    tuned = isinstance(step_size, str) and step_size == "tuned"
    # All designs are bound, and all given sizes read, before the first walk: an error should not cost an hour.
    largest = {name: _largest(design, network, problem) for name, design in designs.items()}
    designs = {name: replace(design, name=str(name)) for name, design in designs.items()}  # as the caller calls them
    given = {} if tuned else {name: _given_size(step_size, name, largest[name]) for name in designs}
    shared: dict[str, Any] = {
        "steps": steps,
        "replicas": replicas,
        "seed": seed,
        "record_every": record_every,
        "start": start,
        "x0": x0,
        "threads": threads,
        "update": update,
        "progress": progress,
    }
    kept = None if resume is None else StateFolder(resume)
    traces: dict[str, Trace] = {}
    sizes: dict[str, float] = {}
    sweep: dict[str, tuple[Trial, ...]] = {}
    for name, design in designs.items():
        sweep[name] = tune_step_size(network, problem, design, largest[name], accuracy, kept, **shared) if tuned else ()
        sizes[name] = best(sweep[name]).step_size if tuned else given[name]
        traces[name] = run(
            network,
            problem,
            design,
            step_size=sizes[name],
            record_walk=record_walk,
            measure_loss=loss,
            resume=kept.file(name, "run") if kept else None,
            **shared,
        )
        if traces[name].provenance["interrupted"]:
            break
    return Comparison(traces, accuracy, {name: sizes[name] for name in traces}, {name: sweep[name] for name in traces})


def _largest(design: AnyDesign, network: Network, problem: Problem) -> float:
    first = design.first if isinstance(design, Switching) else design
    if not hasattr(first, "bind"):
        raise InvalidParameter(f"designs must hold designs such as lw.mhlj(), got {design!r}")
    return first.bind(network, problem).largest


def _given_size(step_size: Any, name: str, largest: float) -> float:
    if isinstance(step_size, Mapping):
        if name not in step_size:
            raise InvalidParameter(f"step_size must give a number for each design, got none for {name!r}")
        return checks.positive(f"step_size of {name!r}", step_size[name])
    if isinstance(step_size, str):
        checks.choice("step_size", step_size, ("tuned", "theory"))
        return 1.0 / largest
    return checks.positive("step_size", step_size)


def best(trials: tuple[Trial, ...]) -> Trial:
    """Return the trial with the fewest steps, or the least final error among equals.

    Examples
    --------
    >>> best((Trial(0.1, 1.0, 500.0, 0.02), Trial(0.2, 2.0, 300.0, 0.04))).step_size
    2.0
    """
    return min(trials, key=lambda trial: (trial.steps_to, trial.final_error))


def tune_step_size(
    network: Network,
    problem: Problem,
    design: AnyDesign,
    largest: float,
    accuracy: float,
    kept: StateFolder | None = None,
    *,
    steps: int,
    record_every: Any,
    **options: Any,
) -> tuple[Trial, ...]:
    """Return every step size tried, in increasing order: the grid, extended while its winner is at an edge."""
    step = checkpoints_of(steps, record_every)

    def try_out(exponents: list[int]) -> list[Trial]:
        relative = np.array([10.0 ** (k / PER_DECADE) for k in exponents])
        errors = run_step_sizes(
            network,
            problem,
            design,
            relative / largest,
            steps=steps,
            record_every=record_every,
            resume=kept.file(design.name, f"tuning{exponents[0]:+d}") if kept else None,
            **options,
        )
        return [_trial(step, errors[i], float(relative[i]), largest, accuracy) for i in range(len(exponents))]

    trials = try_out(list(GRID))
    low, high = GRID[0], GRID[-1]
    for _ in range(_MOST_EXTENSIONS):
        winner = best(tuple(trials))
        if winner is trials[0] and math.isfinite(winner.final_error):
            low -= 1
            trials = try_out([low]) + trials
        elif winner is trials[-1] and math.isfinite(winner.final_error):
            high += 1
            trials = trials + try_out([high])
        else:
            break
    return tuple(trials)


def _trial(step: npt.NDArray[np.int64], errors: Floats, relative: float, largest: float, accuracy: float) -> Trial:
    mean = mean_over_walks(errors)
    return Trial(relative, relative / largest, float(settled_at(step, mean[None], accuracy)[0]), float(mean[-1]))
