"""`compare`: several designs on one network and problem, each at the step size that suits it
best.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.engine import check_run, check_sizes, run
from levywalk.engine.metric_plan import check_metrics
from levywalk.engine.observer import check_callbacks
from levywalk.errors import CallbackError, DataWarning, Interrupted, InvalidParameter
from levywalk.experiments.state_files import StateFolder
from levywalk.experiments.tuning import best, tune_step_size
from levywalk.interruption import interruptible
from levywalk.metrics import is_rising
from levywalk.network import Network, as_network
from levywalk.privacy import Privacy, as_privacy, check_scores, scored_problem
from levywalk.problem import Problem, check_problem, first_model, optimum_of
from levywalk.problem.named import flat_model, flat_problem
from levywalk.remedy import typed
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
        What tells good designs and step sizes from bad ones: "distance2", ‖x - x*‖² over its
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
        size = typed("step_size=0.01", "--step-size 0.01")
        warnings.warn(
            "step sizes were tuned on the data, which the ε of privacy does not count; give a "
            f"number that is no function of the data, such as {size}, where it must",
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


def ranking_for(
    problem: Problem,
    rank_by: str | Callable[[Floats], float] | None,
    accuracy: float | None,
    x0: Any = None,
    measure_loss: str | int = "auto",
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
) -> Ranking:
    """Return what designs are ranked by; refuse, before any walk, what the problem cannot give.

    Examples
    --------
    >>> import levywalk as lw
    >>> ranking_for(lw.homogeneous(20), rank_by=None, accuracy=0.01).goal
    '1 % of the initial error'
    """
    check_problem(problem)
    known = check_metrics(metrics)
    given = (
        None if accuracy is ACCURACY else accuracy
    )  # the very default, which is a share, was left out
    if isinstance(rank_by, str) and rank_by not in list(Criterion):
        return _by_recorded_metric(rank_by, given, known)
    optimum = optimum_of(problem)
    if rank_by is None:
        rank_by = Criterion.LOSS if optimum is None else Criterion.DISTANCE2
        if optimum is None:
            warnings.warn(
                "the optimum of the problem is not known, so designs are ranked by the loss"
                + typed(
                    "; give rank_by='loss' to say so, or the problem an attribute `optimum`", ""
                ),
                DataWarning,
                stacklevel=4,
            )
    first = _first_models(problem, x0)
    if callable(rank_by):
        return _by_metric(rank_by, given, first)
    name = str(checks.choice("rank_by", rank_by, [criterion.value for criterion in Criterion]))
    if name == Criterion.LOSS:
        if given is not None:
            given = checks.real("accuracy", given, "that is finite", low=-math.inf)
        return Ranking(name, given)
    if optimum is None:
        raise InvalidParameter(
            f"rank_by = {name!r} needs a problem with a known optimum; give the problem an "
            f"attribute "
            "`optimum`, or rank_by='loss'"
        )
    if name == Criterion.EXCESS_LOSS:
        if measure_loss not in ("auto", "exact"):
            raise InvalidParameter(
                "rank_by = 'excess_loss' needs the exact loss; give measure_loss='exact', "
                f"got {measure_loss!r}"
            )
        start, least = _losses(problem, first), _losses(problem, [optimum])[0]
        if not all(math.isfinite(loss) and loss > least for loss in start):
            raise InvalidParameter(
                "rank_by = 'excess_loss' is undefined: x0 is an optimum or too far from it; "
                "give another x0"
            )
    with np.errstate(over="ignore"):
        distances = [float(np.sum((x - optimum) ** 2)) for x in first]
    if not all(0.0 < distance < math.inf for distance in distances):
        raise InvalidParameter(
            "the relative error is undefined: x0 is the optimum or too far from it; "
            + typed(
                "give another x0, or rank_by='loss'",
                "the walk begins at 0, so take another --target, or smaller numbers",
            )
        )
    return Ranking(name, checks.positive("accuracy", ACCURACY if accuracy is None else accuracy))


def _by_recorded_metric(
    name: str, accuracy: Any, metrics: Mapping[str, Callable[[Any], float]]
) -> Ranking:
    """Return the ranking by a metric; refuse one that no run evaluates."""
    if name not in metrics:
        known = ", ".join(repr(one) for one in [*(c.value for c in Criterion), *metrics])
        missing = typed(
            f"metrics={{{name!r}: …}}", f"--metrics {name} with a data file and --held-out 0.2"
        )
        raise InvalidParameter(
            f"rank_by must be one of {known}, got {name!r}; give {missing} to rank by a metric"
        )
    if accuracy is not None:
        accuracy = checks.real("accuracy", accuracy, "that is finite", low=-math.inf)
    rises = is_rising(name, metrics[name])
    return Ranking(name, accuracy, recorded=True, higher_is_better=rises)


def _by_metric(metric: Callable[[Floats], float], accuracy: Any, first: list[Floats]) -> Ranking:
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if getattr(metric, "higher_is_better", False):
        raise InvalidParameter(
            f"rank_by as a function must be one that is better when smaller, and {name} should "
            f"rise; give metrics={{{name!r}: …}} and rank_by={name!r}"
        )
    if accuracy is not None:
        raise InvalidParameter(
            f"accuracy must be left out where rank_by is a function, which is evaluated at the end "
            f"only; "
            f"got {accuracy!r}"
        )
    if name in list(Criterion):
        raise InvalidParameter(f"rank_by must be a function of another name than {name!r}")
    try:
        float(metric(first[0].copy()))
    except Exception as error:  # a user's function may raise anything
        raise InvalidParameter(
            f"rank_by must be a function from a model (an array of {len(first[0])} numbers) to a "
            f"number; "
            f"{name} raised {type(error).__name__} at x0: {error}"
        ) from error
    return Ranking(name, None, metric)


def _first_models(problem: Problem, x0: Any) -> list[Floats]:
    """Return the first models: zeros, one, or one per replica. `run` checks their shape and refuses
    wrong ones.
    """
    if x0 is None:
        return [first_model(problem)]
    try:
        models = np.atleast_2d(np.asarray(x0, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"x0 must be an array of {problem.dim} numbers, got {x0!r}"
        ) from None
    if models.ndim != 2 or models.shape[1] != problem.dim:
        raise InvalidParameter(
            f"x0 must have {problem.dim} numbers, or as many for each replica, "
            f"got an array of shape {np.shape(x0)}"
        )
    return list(models)


def _losses(problem: Problem, models: list[Floats]) -> list[float]:
    with np.errstate(over="ignore", invalid="ignore"):
        return [
            float(np.mean([problem.local_loss(v, x) for v in range(problem.n)])) for x in models
        ]
