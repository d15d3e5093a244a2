"""Comparison: the traces of several methods, each at its own step size, and how they are ranked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.notebook import columns_html
from levywalk.remedy import python_or_command
from levywalk.trace.ranking import Criterion, Ranking
from levywalk.trace.statistics import OtherChoices, bootstrap_mean, mean_over_walks
from levywalk.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

ACCURACIES = (0.1, 0.03, 0.01)  # shares of the initial error that a table always has
_WIDER = (0.02, 0.05, 0.1, 0.2, 0.5)  # accuracies that are named where one was not reached
_SUMMARY = (
    "busiest_node",
    "busiest_name",
    "busiest_share",
    "busiest_target",
    "longest_dwell",
    "hops_per_step",
    "transfers_per_step",
    "seconds_per_step",
    "small_messages_per_step",
    "diverged",
    "loss_measured",
)


def _mean_at(trace: Trace, counted: AnyArray, step: float) -> float:
    """Return the mean over walks of what is counted until a checkpoint; infinity stays infinite."""
    if not math.isfinite(step):
        return math.inf
    return float(counted[:, int(np.searchsorted(trace.step, step))].mean())


@dataclass(frozen=True, slots=True)
class Trial:
    """One step size that was tried.

    Attributes
    ----------
    relative, step_size
        γL* (γ over the update's own default, if that is not 1/L*) and γ.
    steps_to
        The steps that it took to reach the accuracy, or infinity: of the mean over tuning walks.
    final_error
        The error at the end (or the loss or metric, if methods are ranked by that), the mean over
        tuning walks.
    steps_limit, error_limit
        Their upper confidence limits: what four of five bootstrap samples of the tuning walks do
        not exceed (``error_limit`` is that of the negative for a metric that should rise). The
        trial with the least ``steps_limit`` is taken; among equals, the one with the least
        ``error_limit``.
    share
        In which share of the bootstrap samples this step size is the best.
    """

    relative: float
    step_size: float
    steps_to: float
    final_error: float
    steps_limit: float
    error_limit: float
    share: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `levywalk.compare`: it can be saved, loaded, reported, drawn and shown in a
    notebook.

    Attributes
    ----------
    traces
        The reported run of each design.
    accuracy
        The accuracy that step sizes were tuned for; see ``rank_by``.
    step_size
        The step size of each design.
    sweep
        All step sizes that were tried for each design, in increasing order; empty if they were
        given.
    rank_by
        "distance2" or "excess_loss" (``accuracy`` is a share of the initial value), "loss" or a
        metric of the traces (``accuracy`` is a value of it, or None: ranked at the end alone), or
        the name of a function that was given as ``rank_by`` (at the end alone).
    final_metric
        If ``rank_by`` was a function: its value for the final model of each replica, by design.
    settings, command
        The content of the experiment file and the command that give the same result, if there are
        any.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw()}
    >>> network, problem = lw.complete(20), lw.homogeneous(20)
    >>> result = lw.compare(network, problem, designs, steps=50, replicas=2, step_size=0.01)
    >>> result
    Comparison(steps to 1 % of the initial error: UnifRW not reached)
    >>> result.step_size, result.sweep
    ({'UnifRW': 0.01}, {'UnifRW': ()})

    A comparison is saved into a folder, from which `levywalk report FOLDER` builds a page:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = result.save(folder)
    ...     again = lw.Comparison.load(folder)
    >>> [file.name for file in files], again.table().equals(result.table())
    (['UnifRW.nc', 'table.csv', 'result.json'], True)
    """

    traces: dict[str, Trace]
    accuracy: float | None
    step_size: dict[str, float]
    sweep: dict[str, tuple[Trial, ...]]
    rank_by: str = Criterion.DISTANCE2.value
    final_metric: dict[str, Floats] = field(default_factory=dict, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    command: str = ""

    @property
    def ranking(self) -> Ranking:
        """By which numbers the designs are ranked."""
        if not all(self.rank_by in trace.metrics for trace in self.traces.values()):
            return Ranking(self.rank_by, self.accuracy)
        told = next(iter(self.traces.values())).provenance["metrics"][self.rank_by]
        rises = bool(told["higher_is_better"])
        return Ranking(self.rank_by, self.accuracy, recorded=True, higher_is_better=rises)

    @property
    def steps_to(self) -> dict[str, float]:
        """By design, the first checkpoint after which the mean over walks stays at or below the
        accuracy; at or above it for a metric that rises.

        It is infinite if that was not reached. Without an accuracy the dict is empty.
        """
        if self.accuracy is None:
            return {}
        return {name: self.steps_interval(name)[0] for name in self.traces}

    @property
    def step_sizes_tuned(self) -> bool:
        """Whether step sizes were tuned, and not given."""
        return any(self.sweep.values())

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the comparison before it was complete."""
        return any(trace.provenance.get("interrupted") for trace in self.traces.values())

    @property
    def accuracies(self) -> list[float]:
        """All accuracies that the table has steps for, the tuned one first."""
        own = [] if self.accuracy is None else [self.accuracy]
        others = sorted({*ACCURACIES} - {*own}, reverse=True) if self.ranking.relative else []
        return own + others

    def values(self, name: str) -> Floats:
        """Return the numbers that a design is ranked by, of each (replica, checkpoint), such that
        smaller is better: of a metric that rises the negative.

        For a function that was given as ``rank_by``, and is known at the end alone, the shape is
        (replicas, 1).
        """
        if not self.ranking.has_curve:
            return self.final_metric[name][:, None]
        return self.ranking.values(self.traces[name])

    def final(self, name: str) -> float:
        """Return the number that a design is ranked by at the end: the mean over walks."""
        return float(self.ranking.oriented(mean_over_walks(self.values(name))[-1]))

    def final_interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % interval over walks of `final`; None if there is one walk."""
        found = bootstrap_mean(self.values(name)[:, -1])
        if found is None or not self.ranking.higher_is_better:
            return found
        return -found[1], -found[0]

    def steps_interval(
        self, name: str, accuracy: float | None = None
    ) -> tuple[float, float, float]:
        """Return the steps to an accuracy and the ends of their 95 % interval; not reached is
        infinite.

        The interval is over the reported walks. For the accuracy that step sizes were tuned for it
        is also over the tuning walks, which might have chosen another step size.
        """
        accuracy = self.accuracy if accuracy is None else accuracy
        if accuracy is None:
            raise InvalidParameter("this comparison has no accuracy; give one")
        row = self.rows[name]
        key = f"steps_to_{accuracy:g}"
        if key not in row:
            steps = self.ranking.steps_to(self.traces[name], accuracy)
            return (steps, *self.ranking.steps_to_interval(self.traces[name], accuracy))
        return row[key], row[f"{key}_low"], row[f"{key}_high"]

    def ranked(self) -> list[str]:
        """Return the designs, the best first: by the steps to the accuracy, then by the value at
        the end.
        """
        return sorted(self.traces, key=self.rank)

    def rank(self, name: str) -> tuple[float, float]:
        """Return what designs are sorted by: the steps to the accuracy, and the value at the end
        (its negative, if it should rise).
        """
        return self.steps_to.get(name, math.inf), self.ranking.oriented(self.final(name))

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the table by design, as plain numbers."""
        return {name: self._row(name) for name in self.traces}

    def _row(self, name: str) -> dict[str, Any]:
        trace, ranking = self.traces[name], self.ranking
        size, largest = self.step_size[name], trace.provenance["largest_weighted_smoothness"]
        row: dict[str, Any] = {
            "step_size": size,
            "relative_step_size": math.nan if largest is None else size * largest,
        }
        for accuracy in sorted(self.accuracies, reverse=True):
            others = self._other_choices(name) if accuracy == self.accuracy else None
            low, high = ranking.steps_to_interval(trace, accuracy, others)
            row |= {
                f"steps_to_{accuracy:g}": ranking.steps_to(trace, accuracy),
                f"steps_to_{accuracy:g}_low": low,
                f"steps_to_{accuracy:g}_high": high,
            }
            steps = row[f"steps_to_{accuracy:g}"]
            if trace.time is not None:
                row[f"time_to_{accuracy:g}"] = _mean_at(trace, trace.time, steps)
            if accuracy == self.accuracy:
                row[f"transfers_to_{accuracy:g}"] = _mean_at(trace, trace.transfers, steps)
                row[f"bytes_to_{accuracy:g}"] = _mean_at(trace, trace.bytes, steps)
        row[self.final_column] = self.final(name)
        if not ranking.relative:
            low, high = self.final_interval(name) or (math.nan, math.nan)
            row |= {f"{self.final_column}_low": low, f"{self.final_column}_high": high}
        summary = trace.summary()
        more = [metric for metric in trace.metrics if metric != self.rank_by]
        row |= {f"final_{metric}": summary[metric] for metric in more}
        return row | {key: summary[key] for key in _SUMMARY if key in summary}

    def _other_choices(self, name: str) -> OtherChoices | None:
        """Return what the steps would have been had tuning chosen otherwise, if there was tuning
        and the chosen step size reached the accuracy in it.
        """
        trials = self.sweep[name]
        taken = [trial.steps_to for trial in trials if trial.step_size == self.step_size[name]]
        shares = np.array([trial.share for trial in trials])
        if not taken or not 0.0 < taken[0] < math.inf or not shares.sum() > 0.0:
            return None
        factors = np.array([trial.steps_to for trial in trials]) / taken[0]
        return OtherChoices(factors, shares / shares.sum())

    @property
    def cautions(self) -> list[str]:
        """What tuning could not settle, as sentences; usually there are none.

        Examples
        --------
        >>> import levywalk as lw
        >>> designs = {"UnifRW": lw.unif_rw()}
        >>> network, problem = lw.complete(20), lw.homogeneous(20)
        >>> lw.compare(network, problem, designs, steps=2000, replicas=8, accuracy=0.3).cautions
        []
        """
        found = []
        for name, trials in self.sweep.items():
            if not trials:
                continue
            if self.accuracy is not None and not any(
                math.isfinite(trial.steps_limit) for trial in trials
            ):
                found.append(
                    f"{name}: no step size reached {self.ranking.goal} in four of five samples of "
                    f"the tuning walks, so the one with the {self.ranking.best} "
                    f"{self.ranking.quantity} at the end was taken; {self._more(name)}"
                )
            for trial, which in ((trials[0], "smallest"), (trials[-1], "largest")):
                if trial.step_size == self.step_size[name]:
                    found.append(
                        f"{name}: the best step size is the {which} that was tried (γL* = "
                        f"{trial.relative:.3g}), so a {which[:-3]}er one may be better; give "
                        f"{python_or_command('step_size', '--step-size')} a number"
                    )
        return found

    def _more(self, name: str) -> str:
        """Return what to give where a design has not reached the accuracy."""
        steps = 4 * max(int(trace.step[-1]) for trace in self.traces.values())
        assert self.accuracy is not None
        least = max(2.0 * self.final(name), 1.001 * self.accuracy)
        wider = [accuracy for accuracy in _WIDER if accuracy >= least]
        shares = wider if self.rank_by == Criterion.DISTANCE2 else []
        options = f"--steps {steps}" + (f" or --accuracy {shares[0]:g}" if shares else "")
        return python_or_command(
            "give more steps, more replicas or a larger accuracy",
            f"give {options} (with an experiment file --set run.steps={steps})",
        )

    @property
    def final_column(self) -> str:
        """The name of the table's column with the value at the end."""
        return "final_error" if self.rank_by == Criterion.DISTANCE2 else f"final_{self.rank_by}"

    def table(self) -> pd.DataFrame:
        """Return one row per design: step size, steps to the accuracies with 95 % intervals,
        visits, cost, and whether the loss was measured exactly or on a sample of the nodes.

        The column ``final_error`` has the error at the end; if designs are ranked by another
        number, it is called ``final_loss``, ``final_excess_loss`` or after the metric.
        """
        with needs("frames", "Comparison.table()", "pandas"):
            import pandas as pd

        rows = [dict(row) for row in self.rows.values()]
        return pd.DataFrame(rows, index=pd.Index(self.traces, name="design"))

    def save(self, folder: str | Path, *, traces: bool = True, table: bool = True) -> list[Path]:
        """Write traces, table.csv and result.json into a folder, which is created; return the
        files.

        `Comparison.load` reads the folder again, and `levywalk report FOLDER` builds a page from
        it. Both need the traces.
        """
        from levywalk.trace.comparison_files import save_comparison

        return save_comparison(self, folder, traces=traces, table=table)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read a comparison from a folder that `save`, `levywalk run`, `compare` or `demo` wrote.

        Examples
        --------
        >>> Comparison.load("nowhere")
        Traceback (most recent call last):
        levywalk.errors.MissingFile: nowhere is not a folder; ...
        """
        from levywalk.trace.comparison_files import load_comparison

        return load_comparison(folder)

    def document(self) -> dict[str, Any]:
        """Return all numbers as plain JSON; infinity is null.

        Examples
        --------
        >>> import levywalk as lw
        >>> designs = {"a": lw.unif_rw()}
        >>> result = lw.compare(
        ...     lw.ring(20), lw.homogeneous(20), designs, steps=9, replicas=2, step_size=0.01
        ... )
        >>> result.document()["designs"]["a"]["steps_to_0.01"] is None
        True
        """
        from levywalk.trace.comparison_files import document_of

        return document_of(self)

    def __repr__(self) -> str:
        heading, cells = self._shown()
        return f"Comparison({heading}: {', '.join(f'{name} {text}' for name, text in cells)})"

    def _repr_html_(self) -> str:
        from levywalk.trace.tables import comparison_text, title_text

        table = columns_html(*comparison_text(self), title_text(self))
        return table + "".join(f"<p>{escape(caution)}.</p>" for caution in self.cautions)

    def _shown(self) -> tuple[str, list[tuple[str, str]]]:
        if self.accuracy is None:
            heading = f"{self.ranking.quantity} at the end"
            return heading, [(name, f"{self.final(name):.4g}") for name in self.traces]
        steps = self.steps_to
        cells = [
            (name, f"{steps[name]:,.0f}" if math.isfinite(steps[name]) else "not reached")
            for name in self.traces
        ]
        return f"steps to {self.ranking.goal}", cells
