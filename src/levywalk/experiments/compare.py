"""`compare`: several designs on one network and problem, each at the step size that suits it
best.

`compare` is long because each option is a parameter, and because all of them are checked before the
first walk.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.engine import check_run, check_sizes, run
from levywalk.engine.observer import check_callbacks
from levywalk.errors import CallbackError, DataWarning, Interrupted, InvalidParameter
from levywalk.experiments.ranking import ranking_for
from levywalk.experiments.state_files import StateFolder
from levywalk.experiments.tuning import best, tune_step_size
from levywalk.interruption import interruptible
from levywalk.network import Network, as_network
from levywalk.privacy import Privacy, as_privacy, check_scores, scored_problem
from levywalk.problem import Problem
from levywalk.problem.named import flat_model, flat_problem
from levywalk.remedy import python_or_command
from levywalk.trace import Costs, Trace, as_costs
from levywalk.trace.comparison import Comparison, Trial
from levywalk.trace.ranking import ACCURACY, Criterion, Ranking
from levywalk.updates import Update, as_update
from levywalk.walks import Walk

_Run = tuple[Trace, tuple[Trial, ...], float]  # the reported run, what tuning tried, the step size


@interruptible
def compare(
    network: Network,
    problem: Problem,
    designs: Mapping[str, Walk | tuple[Walk, Update]],
    *,
    steps: int,
    replicas: int,
    accuracy: float | None = ACCURACY,
    step_size: str | float | Mapping[str, float] = "tuned",
    seed: int = 0,
    record_every: int | npt.ArrayLike | None = None,
    record_walk: bool = False,
    start: str | int | npt.ArrayLike = "uniform",
    x0: npt.ArrayLike | None = None,
    threads: int | None = None,
    update: Update | str | None = None,
    measure_loss: str | int = "auto",
    rank_by: str | Callable[[Floats], float] | None = None,
    costs: Costs | str | None = None,
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    measure_metrics: str | int = "auto",
    callbacks: Sequence[Callable[[dict[str, Any]], object]] | None = None,
    privacy: Privacy | str | None = None,
    resume: str | Path | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run several designs, each at the step size that suits it best.

    With ``step_size="tuned"`` each design gets the step size with which the fewest steps to
    ``accuracy`` suffice in four of five bootstrap samples of the tuning walks; if none reaches it
    so often, the one with the least error at the end. The step sizes are on one log grid in γL*
    (with the design's own L* = max w(v)L_v), which is extended while the best lies at its edge and
    refined around the best, to sixteen a decade. Tuning uses as many replicas as the report, with
    random keys that the report never uses; the intervals of ``steps_to`` cover both. A
    `DataWarning` says if no step size reaches the accuracy, or if the best is still at an edge.

    Parameters
    ----------
    designs
        Names and designs, such as ``{"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()}``. A pair of a
        design and an update has an update of its own: ``{"…": (lw.mhlj(), lw.sgd(minibatch=8))}``.
    steps, replicas, seed, record_every, record_walk, start, x0, threads, update, measure_loss,
    progress
        As in `levywalk.run`, for each design.
    accuracy
        The relative error to tune for, a share of the initial one. With ``rank_by="loss"`` it is a
        value of the loss itself, and with a metric a value of that; if it is left out (or None)
        there, the mean at the end decides.
    step_size
        "tuned", "theory", one number for all designs, or one per design.
    rank_by
        By what designs and step sizes are ranked: "distance2", ‖x - x*‖² over its
        initial value; "excess_loss", f(x) - f(x*) over its initial value; "loss", f(x); the name of
        one of the ``metrics``; or a function from a model to a number, smaller is better, which is
        evaluated on the final models only. Default: "distance2" if the optimum of the problem is
        known, else "loss".
    costs
        As in `levywalk.run`: the traces then have an axis of time, and the table the time to each
        accuracy. Step sizes are tuned for steps.
    metrics, measure_metrics
        As in `levywalk.run`. With ``rank_by="accuracy", accuracy=0.9`` step sizes are tuned for the
        fewest steps to 90 % accuracy, and the table has these steps. A metric should rise if its
        attribute ``higher_is_better`` is true; if it has none, by its name (see
        docs/metrics.md).
    callbacks
        As in `levywalk.run`, called in the reported runs, not while step sizes are tuned.
    privacy
        As in `levywalk.run`, for each design. Step sizes that are tuned are functions of the data,
        which no ε counts: a `DataWarning` says so.
    resume
        A folder for the state of every tuning and run; it is created if it is missing. If the
        comparison is interrupted, make the same call again to resume: finished parts are read, not
        computed again. The state of another comparison is refused, as in `levywalk.run`.

    Raises
    ------
    Interrupted
        After Ctrl-C. ``partial`` is the comparison of the designs that have been run, the last one
        perhaps with a shortened trace; None if there is none yet.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw(), "i.i.d.": lw.iid_uniform()}
    >>> network, problem = lw.complete(50), lw.homogeneous(50)
    >>> result = lw.compare(network, problem, designs, steps=2000, replicas=8, accuracy=0.2)
    >>> sorted(result.steps_to) == sorted(designs)
    True
    """
    if not isinstance(designs, Mapping) or not designs:
        raise InvalidParameter(
            f"designs must be a non-empty dict of names and designs, got {designs!r}"
        )
    network, problem = as_network(network), flat_problem(problem)
    x0 = flat_model(problem, x0)
    steps, replicas = check_sizes(steps, replicas, record_every)
    seed = checks.seed(seed)
    # Everything is checked and all designs are bound before the first walk: a mistake should not
    # cost an hour.
    methods = {str(name): _method(str(name), value, update) for name, value in designs.items()}
    private = as_privacy(privacy)
    known = scored_problem(private, problem, seed)
    largest = {
        name: walk.phases[0].bind(network, known).largest for name, (walk, _) in methods.items()
    }
    default = {
        name: own.default_step_size(largest[name], known) for name, (_, own) in methods.items()
    }
    if private is not None:
        for walk, _ in methods.values():
            check_scores(private, walk, step_size)
    costs = as_costs(costs)
    if costs is not None:
        costs.factors(network.n)
        costs.link_factors(network.indptr, network.indices)
    given = None if _is_tuned(step_size) else _given_sizes(step_size, default)
    ranking = ranking_for(problem, rank_by, accuracy, x0, measure_loss, metrics)
    if ranking.name == Criterion.EXCESS_LOSS:
        measure_loss = "exact"
    options: dict[str, Any] = {
        "steps": steps,
        "replicas": replicas,
        "seed": seed,
        "record_every": record_every,
        "record_walk": record_walk,
        "start": start,
        "x0": x0,
        "threads": threads,
        "measure_loss": measure_loss,
        "metrics": metrics,
        "measure_metrics": measure_metrics,
        "privacy": private,
    }
    told = check_callbacks(callbacks)
    for design, own in methods.values():
        check_run(network, problem, design, update=own, **options)
    states = None if resume is None else StateFolder(resume)
    with warnings.catch_warnings():
        if not ranking.relative:
            # That distance2 is unknown is no surprise where designs are ranked by something else.
            warnings.filterwarnings("ignore", "problem has no optimum", DataWarning)
        runs = _run_all(
            network,
            problem,
            methods,
            ranking,
            given,
            default,
            states,
            costs,
            told,
            progress=progress,
            **options,
        )
    found = _comparison(runs, ranking)
    if private is not None and given is None:
        size = python_or_command("step_size=0.01", "--step-size 0.01")
        warnings.warn(
            "step sizes were tuned on the data, and the ε of privacy does not count that; if it "
            f"must be counted, give a number that does not depend on the data, such as {size}",
            DataWarning,
            stacklevel=3,
        )
    for caution in found.cautions:
        warnings.warn(caution, DataWarning, stacklevel=3)
    return found


def _run_all(
    network: Network,
    problem: Problem,
    methods: Mapping[str, tuple[Walk, Update]],
    ranking: Ranking,
    sizes: Mapping[str, float] | None,
    units: Mapping[str, float],
    states: StateFolder | None,
    costs: Costs | None,
    callbacks: Sequence[Callable[[dict[str, Any]], object]],
    *,
    record_walk: bool,
    measure_loss: str | int,
    metrics: Mapping[str, Callable[[Any], float]] | None,
    **options: Any,
) -> dict[str, _Run]:
    """Tune each design, unless its step size is given, and run it.

    Ctrl-C raises `Interrupted` with the comparison of what has been run, and an exception in a
    metric or a callback `CallbackError`.
    """
    runs: dict[str, _Run] = {}
    for name, (design, update) in methods.items():
        trials: tuple[Trial, ...] = ()
        size = math.nan
        try:
            if sizes is None and update.tunable:
                trials = tune_step_size(
                    network,
                    problem,
                    design,
                    units[name],
                    ranking,
                    states,
                    update=update,
                    measure_loss=measure_loss,
                    metrics={ranking.name: (metrics or {})[ranking.name]}
                    if ranking.recorded
                    else None,
                    **options,
                )
            size = best(trials).step_size if trials else (sizes or units)[name]
            trace = run(
                network,
                problem,
                design,
                step_size=size,
                record_walk=record_walk,
                update=update,
                measure_loss=measure_loss,
                costs=costs,
                metrics=metrics,
                callbacks=callbacks,
                resume=states.file(name, "run") if states else None,
                **options,
            )
            runs[name] = trace, trials, size
        except Interrupted as interrupted:
            if interrupted.partial is not None:
                runs[name] = interrupted.partial, trials, size
            raise Interrupted(_comparison(runs, ranking) if runs else None) from None
        except CallbackError as failed:
            if failed.partial is not None:
                runs[name] = failed.partial, trials, size
            failed.partial = _comparison(runs, ranking) if runs else None
            raise
    return runs


def _comparison(runs: Mapping[str, _Run], ranking: Ranking) -> Comparison:
    traces = {name: trace for name, (trace, _, _) in runs.items()}
    final = (
        {} if ranking.metric is None else {n: ranking.final_values(t) for n, t in traces.items()}
    )
    return Comparison(
        traces,
        ranking.accuracy,
        {name: size for name, (_, _, size) in runs.items()},
        {name: trials for name, (_, trials, _) in runs.items()},
        ranking.name,
        final,
    )


def _method(name: str, value: Any, update: Update | str | None) -> tuple[Walk, Update]:
    """Return a design, under the name that the caller gives it, and its update."""
    walk, own = value if isinstance(value, tuple) and len(value) == 2 else (value, update)
    if not isinstance(walk, Walk):
        raise InvalidParameter(
            "designs must hold designs such as lw.mhlj(), or pairs of a design and an update, got "
            f"{value!r}"
        )
    return walk.called(name), as_update(own)


def _is_tuned(step_size: Any) -> bool:
    return isinstance(step_size, str) and step_size == "tuned"


def _given_sizes(step_size: Any, default: Mapping[str, float]) -> dict[str, float]:
    """Return the step size of each design, as the caller gave them; "theory" is the update's own
    default.
    """
    if isinstance(step_size, Mapping):
        unknown = ", ".join(sorted(map(repr, set(step_size) - set(default))))
        if unknown:
            raise InvalidParameter(
                f"step_size must name designs, of {', '.join(default)}; got {unknown}"
            )
        for name in default:
            if name not in step_size:
                raise InvalidParameter(
                    f"step_size must give a number for each design, got none for {name!r}"
                )
        return {
            name: checks.positive(f"step_size of {name!r}", step_size[name]) for name in default
        }
    if isinstance(step_size, str):
        checks.choice("step_size", step_size, ("tuned", "theory"))
        return dict(default)
    size = checks.positive("step_size", step_size)
    return dict.fromkeys(default, size)
