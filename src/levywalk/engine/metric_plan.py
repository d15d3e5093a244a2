"""Which metrics a run evaluates, and at which checkpoints.

A metric is a user's function, and may cost far more than the steps between two checkpoints. Its
values at all checkpoints together may cost a tenth of the walk. As for the loss
(`levywalk.engine.loss_cost`), a clock would make the choice of checkpoints depend on the machine,
so the costs are constants: 20 µs for a call, 0.3 ns for each product of a metric that says its
``work``, and 100 µs for any other function. At least 40 checkpoints are evaluated however short the
walk is, because a curve of fewer points could not say when an accuracy was reached; all replicas
are evaluated at the same checkpoints, and step 0 and the last step are always among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.engine.loss_cost import SHARE, update_cost
from levywalk.errors import CallbackError, InvalidParameter
from levywalk.metrics import is_rising
from levywalk.problem import Problem
from levywalk.problem.named import model_form
from levywalk.updates import Update

LEAST_CHECKPOINTS = 40
_CALL = 2e4  # nanoseconds
_PRODUCT = 0.3  # … of a product of a held-out feature and an entry of the model
_UNKNOWN = 1e5  # … of a user's function
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ .@%-]{0,63}")
# What a trace, a table or a figure already calls by this name.
_TAKEN = frozenset(
    (
        "bytes",
        "checkpoint",
        "design",
        "distance2",
        "diverged",
        "diverged_at",
        "error",
        "excess_loss",
        "final_node",
        "hops",
        "loss",
        "memory",
        "metrics",
        "model",
        "node",
        "optimum",
        "replica",
        "replicas",
        "seconds",
        "small_messages",
        "step",
        "steps",
        "switched_at",
        "target",
        "time",
        "transfers",
        "visits",
        "walk",
    )
)


@dataclass(frozen=True)
class MetricPlan:
    """The metrics of a run.

    Attributes
    ----------
    functions
        Each metric by its name.
    columns
        The checkpoints at which they are evaluated, as positions among all checkpoints.
    problem
        The problem, which says which form a model has.
    """

    functions: Mapping[str, Callable[[Any], float]]
    columns: Ints
    problem: Problem

    def values(self, models: Floats, active: Any, step: int) -> Floats:
        """Return the metrics of each model, (models, metrics); NaN for a model that overflowed.

        The functions are called one after the other, in the thread that called `run`.
        """
        found = np.full((len(models), len(self.functions)), np.nan)
        for r in np.flatnonzero(active):
            for i, (name, function) in enumerate(self.functions.items()):
                try:
                    found[r, i] = float(function(model_form(self.problem, models[r])))
                except Exception as error:  # a user's function may raise anything
                    raise CallbackError(
                        f"metric {name!r} raised {type(error).__name__} at step {step}, replica "
                        f"{r}: {error}; what was done is in `.partial`"
                    ) from error
        return found

    def record(self) -> dict[str, dict[str, Any]]:
        """Return names and directions as plain data, for provenance."""
        return {
            name: {"higher_is_better": is_rising(name, function)}
            for name, function in self.functions.items()
        }

    def identity(self) -> dict[str, Any]:
        """Return what distinguishes two plans, as far as functions can be distinguished."""
        return {
            name: str(function.fingerprint()) if hasattr(function, "fingerprint") else "a function"
            for name, function in self.functions.items()
        } | {"checkpoints": self.columns.tolist()}


def metric_plan(
    metrics: Any,
    measure_metrics: Any,
    problem: Problem,
    update: Update,
    x0: Floats,
    steps: int,
    checkpoints: Ints,
) -> MetricPlan | None:
    """Return which metrics are evaluated where; None without any.

    Each is called once with the first model, so that a mistake in it does not cost a run.
    """
    functions = check_metrics(metrics)
    if not functions:
        return None
    first = np.array(x0 if x0.ndim == 1 else x0[0], dtype=np.float64)
    for name, function in functions.items():
        _try_out(name, function, problem, first)
    if isinstance(measure_metrics, str):
        checks.choice("measure_metrics", measure_metrics, ("auto", "all"))
        count = len(checkpoints)
        if measure_metrics == "auto":
            count = affordable_checkpoints(functions, problem, update, steps)
    else:
        count = checks.integer("measure_metrics", measure_metrics, low=1)
    return MetricPlan(functions, columns_of(checkpoints, count), problem)


def columns_of(checkpoints: Ints, count: int) -> Ints:
    """Return at most ``count`` of the checkpoints, as positions: half of them even and half
    logarithmic in the step; the first and the last always, unless it is the last alone.

    Examples
    --------
    >>> columns_of(np.arange(0, 1001, 10), 10)
    array([  0,   1,   2,   7,  25,  26,  50,  75, 100])
    >>> columns_of(np.arange(5), 1), columns_of(np.arange(5), 9)
    (array([4]), array([0, 1, 2, 3, 4]))
    """
    last = len(checkpoints) - 1
    if count == 1:
        return np.array([last])
    if count > last:
        return np.arange(last + 1)
    even, growing = count - count // 2, count // 2
    steps = float(checkpoints[-1])
    wanted = np.append(np.linspace(0.0, steps, even), steps ** (np.arange(growing) / growing))
    return np.unique(np.append(np.searchsorted(checkpoints, np.rint(wanted)), last))


def check_metrics(metrics: Any) -> dict[str, Callable[[Any], float]]:
    """Return metrics by name; refuse what is none, and names that mean something else.

    Examples
    --------
    >>> check_metrics({"loss": abs})
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: metrics must not be called 'loss', which a trace already has;
        use another name, such as 'my_loss'
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise InvalidParameter(
            "metrics must be a dict of names and functions, such as "
            f"{{'accuracy': lw.metrics.accuracy(problem, X_test, y_test)}}, got {metrics!r:.80}"
        )
    for name, function in metrics.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidParameter(
                "metrics must have names of letters, digits and _ . @ % - that begin with a "
                f"letter, got {name!r:.80}"
            )
        if name in _TAKEN:
            raise InvalidParameter(
                f"metrics must not be called {name!r}, which a trace already has; use another "
                f"name, such as 'my_{name}'"
            )
        if not callable(function):
            raise InvalidParameter(
                f"metric {name!r} must be a function from a model to a number, got {function!r:.80}"
            )
        is_rising(name, function)
    return dict(metrics)


def _try_out(name: str, function: Callable[[Any], float], problem: Problem, x: Floats) -> None:
    model = model_form(problem, x)
    try:
        float(function(model))
    except Exception as error:  # a user's function may raise anything
        shape = (
            f"a dict of the arrays {', '.join(model)}"
            if isinstance(model, dict)
            else f"an array of shape {model.shape}"
        )
        raise InvalidParameter(
            f"metric {name!r} must be a function from a model ({shape}) to a number; it raised "
            f"{type(error).__name__} at x0: {error}"
        ) from error


def affordable_checkpoints(
    functions: Mapping[str, Callable[[Any], float]], problem: Problem, update: Update, steps: int
) -> int:
    """Return at how many checkpoints the metrics cost at most a tenth of the walk, or 40.

    Examples
    --------
    >>> import levywalk as lw
    >>> affordable_checkpoints({"norm": abs}, lw.homogeneous(50), lw.sgd(), steps=100_000_000)
    950
    """
    columns = problem.dim
    cost = 0.0
    for function in functions.values():
        work = getattr(function, "work", None)
        wide = getattr(getattr(function, "features", None), "shape", (0, columns))[1]
        cost += _UNKNOWN if work is None else _CALL + _PRODUCT * work * columns / max(wide, 1)
    return max(LEAST_CHECKPOINTS, int(steps * update_cost(problem, update) / (SHARE * cost)))
