"""What a comparison ranks designs by, checked before the first walk."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.engine.metric_plan import check_metrics
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.metrics import is_rising
from levywalk.problem import Problem, check_problem, first_model, known_optimum
from levywalk.remedy import python_or_command
from levywalk.trace.ranking import ACCURACY, Criterion, Ranking


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
    optimum = known_optimum(problem)
    if rank_by is None:
        rank_by = Criterion.LOSS if optimum is None else Criterion.DISTANCE2
        if optimum is None:
            warnings.warn(
                "the optimum of the problem is not known, so designs are ranked by the loss"
                + python_or_command(
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
            + python_or_command(
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
        missing = python_or_command(
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
            f"rank_by as a function must be better when it is smaller, but {name} is better when "
            f"it is higher; give metrics={{{name!r}: …}} and rank_by={name!r}"
        )
    if accuracy is not None:
        raise InvalidParameter(
            f"accuracy must be left out where rank_by is a function, which is evaluated at the end "
            f"only; "
            f"got {accuracy!r}"
        )
    if name in list(Criterion):
        raise InvalidParameter(
            f"rank_by must not be a function with the name of a measure, got {name!r}; rename it"
        )
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
