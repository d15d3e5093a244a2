"""What methods are ranked by: the curves of a trace that say how good its models are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.trace.statistics import OtherChoices, bootstrap_steps, mean_over_walks, settled_at
from levywalk.trace.trace import Trace

ACCURACY = 0.01  # the default, as a share of the initial error


class Criterion(StrEnum):
    """The measures that every trace has and methods can be ranked by; each is better when
    smaller.
    """

    DISTANCE2 = "distance2"  # ‖x - x*‖², relative to its initial value
    EXCESS_LOSS = "excess_loss"  # f(x) - f(x*), relative to its initial value
    LOSS = "loss"  # f(x)


@dataclass(frozen=True)
class Ranking:
    """By which numbers methods are ranked.

    Attributes
    ----------
    name
        A `Criterion`, or the name of a metric.
    accuracy
        The level to reach: for "distance2" and "excess_loss" a share of the initial value, for
        "loss" and metrics a value of them. None if methods are ranked by the value at the end
        alone.
    metric
        A function from a model to a number, smaller is better, that is evaluated on the final
        models only. None for a criterion, for a recorded metric, and for values that were read from
        a file.
    recorded
        Whether it is a metric that traces have at checkpoints.
    higher_is_better
        Whether a metric should rise; criteria should fall.

    Examples
    --------
    >>> Ranking("distance2", 0.01).goal
    '1 % of the initial error'
    >>> Ranking("loss", 0.5).goal, Ranking("loss", None).quantity
    ('a loss of 0.5', 'loss')
    >>> Ranking("accuracy", 0.9, recorded=True, higher_is_better=True).goal
    'accuracy 0.9'
    """

    name: str
    accuracy: float | None
    metric: Callable[[Any], float] | None = None
    recorded: bool = False
    higher_is_better: bool = False

    @property
    def has_curve(self) -> bool:
        """Whether a trace has the number at checkpoints, and not at the end alone."""
        return self.recorded or self.name in list(Criterion)

    @property
    def best(self) -> str:
        """What the best value is called: the least, or the highest."""
        return "highest" if self.higher_is_better else "least"

    def oriented(self, value: Any) -> Any:
        """Return a value, or an array of them, such that smaller is better; and back again."""
        return -value if self.higher_is_better else value

    @property
    def relative(self) -> bool:
        """Whether the number is a share of its initial value, to be shown in per cent."""
        return self.name in (Criterion.DISTANCE2, Criterion.EXCESS_LOSS)

    @property
    def quantity(self) -> str:
        """What the number is called."""
        if self.name == Criterion.DISTANCE2:
            return "error"
        return "excess loss" if self.name == Criterion.EXCESS_LOSS else self.name

    @property
    def goal(self) -> str:
        """The accuracy in words."""
        if self.accuracy is None:
            raise InvalidParameter(
                "there is no accuracy to reach: methods are ranked at the end alone"
            )
        if self.relative:
            return f"{100 * self.accuracy:.3g} % of the initial {self.quantity}"
        if self.name == Criterion.LOSS:
            return f"a {self.quantity} of {self.accuracy:g}"
        return f"{self.quantity} {self.accuracy:g}"

    def values(self, trace: Trace) -> Floats:
        """Return the numbers of each (replica, checkpoint), such that smaller is better: of a
        rising metric the negative. A metric at the end only has the shape (replicas, 1).

        Between two evaluations a recorded metric keeps its last value, so an accuracy is reached at
        a checkpoint where it was evaluated. A model that overflowed is infinitely bad.
        """
        if self.name == Criterion.DISTANCE2:
            return trace.error
        if self.name == Criterion.EXCESS_LOSS:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(trace.excess_loss / trace.excess_loss[:, :1])
        if self.name == Criterion.LOSS:
            return trace.loss
        if self.recorded:
            evaluated = np.isin(trace.step, trace.metric_step)
            last = np.maximum.accumulate(np.where(evaluated, np.arange(len(trace.step)), -1))
            found = self.oriented(trace.metrics[self.name])[:, np.maximum(last, 0)]
            return np.where(np.isnan(found) | (last < 0), np.inf, found)
        return self.final_values(trace)[:, None]

    def final_values(self, trace: Trace) -> Floats:
        """Return the metric of each replica's final model; infinite where it diverged or is not a
        number.
        """
        if self.metric is None:
            raise InvalidParameter(f"the function that computes {self.name!r} is not known here")
        found = np.array([float(self.metric(model)) for model in trace.model])
        return np.where(np.isnan(found) | (trace.diverged_at >= 0), np.inf, found)

    def steps_to(self, trace: Trace, accuracy: float | None = None) -> float:
        """Return the first checkpoint after which the mean over walks stays at the accuracy; else
        infinity.
        """
        accuracy = self.accuracy if accuracy is None else accuracy
        if accuracy is None:
            return np.inf
        mean = mean_over_walks(self.values(trace))
        return float(settled_at(trace.step, mean[None], self.oriented(accuracy))[0])

    def steps_to_interval(
        self, trace: Trace, accuracy: float, others: OtherChoices | None = None
    ) -> tuple[float, float]:
        """Return the 95 % interval of `steps_to` when the walks are drawn again (bootstrap), and
        with ``others`` the tuning walks too.
        """
        level = self.oriented(accuracy)
        return bootstrap_steps(trace.step, self.values(trace), level, 0.95, 0, others)
