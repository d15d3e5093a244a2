"""The record of walks without a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from levywalk.arrays import Floats, Ints, Ints32
from levywalk.errors import InvalidParameter
from levywalk.network.names import shown_node
from levywalk.notebook import table_html, value_text

_INDEPENDENT = 0.2  # batches whose neighbours correlate more than this are too short


class Correlation(NamedTuple):
    """How many steps of a walk are worth one independent draw, by means of batches; see
    `WalkRecord.correlation`.

    Attributes
    ----------
    time
        The integrated autocorrelation time τ: the mean of f over T steps has the variance τ
        Var(f)/T.
    low, high
        Its 95 % interval, from the χ² law of the batches' variance.
    mean, error
        The mean of f over all walks, and its standard error.
    trusted
        Whether the batches are long enough: whether neighbouring ones hardly correlate.
    """

    time: float
    low: float
    high: float
    mean: float
    error: float
    trusted: bool

    def _repr_html_(self) -> str:
        rows = [
            ("autocorrelation time τ", self.time),
            ("95 % interval", f"{value_text(self.low)} to {value_text(self.high)}"),
            ("mean of f", self.mean),
            ("its standard error", self.error),
            ("trusted", self.trusted),
        ]
        return table_html(rows, "Steps that are worth one independent draw")


@dataclass(frozen=True, eq=False)
class WalkRecord:
    """What happened in walks of several replicas without a model: `levywalk.walk`.

    Attributes
    ----------
    steps
        How many steps each walk made.
    visits
        Steps at each (replica, node), or None.
    walk
        The node of each (replica, step), or None.
    hops, transfers
        By replica: decisions and passes; messages between two distinct nodes.
    small_messages
        By replica: messages without a model, which are questions to neighbours and answers.
    stays, longest_dwell, longest_dwell_node
        By replica: stays at a node (one or more steps in a row), the longest of them and where; or
        None.
    first_visit
        The first step at each (replica, node), -1 if there was none; or None.
    batch_sums
        The sum, over each (replica, batch of consecutive steps), of the observable less its plain
        mean over the nodes (``observable_middle``), or None; ``batches`` are the lengths of the
        batches, complete ones alone.
    observable_variance
        The observable's variance over all steps of all walks, or None.
    final_node
        Where the walks are after the last move.
    target
        The law π that the walk aims at.
    provenance
        What ran: versions, seed, network, design, seconds.
    node_names
        The name of each node, or None if nodes have numbers alone.

    Examples
    --------
    >>> import levywalk as lw
    >>> walks = lw.walk(lw.ring(20), lw.unif_rw(), steps=1000, replicas=4)
    >>> walks
    WalkRecord(UnifRW: 4 replicas x 1000 steps)
    >>> walks.visits.sum(axis=1)
    array([1000, 1000, 1000, 1000])
    """

    steps: int
    visits: Ints | None
    walk: Ints32 | None
    hops: Ints
    transfers: Ints
    small_messages: Ints
    stays: Ints | None
    longest_dwell: Ints | None
    longest_dwell_node: Ints | None
    first_visit: Ints | None
    batches: Ints
    batch_sums: Floats | None
    observable_middle: float
    observable_variance: float | None
    final_node: Ints
    target: Floats
    provenance: dict[str, Any]
    node_names: tuple[str, ...] | None = None

    @property
    def replicas(self) -> int:
        """How many walks."""
        return len(self.final_node)

    def __repr__(self) -> str:
        replicas = "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"
        return f"WalkRecord({self.provenance['design']['name']}: {replicas} x {self.steps} steps)"

    def _repr_html_(self) -> str:
        found = self.summary()
        correlation = found.pop("correlation", None)
        if "busiest_node" in found:
            found["busiest_node"] = shown_node(found["busiest_node"], self.node_names)
            found.pop("busiest_name", None)
        rows = [(name.replace("_", " "), value) for name, value in found.items()]
        if correlation is not None:
            rows.append(("autocorrelation time", correlation["time"]))
        return table_html(rows, f"Walks of {found['design']} (means over replicas)")

    @property
    def mean_dwell(self) -> float:
        """Steps per stay, over all walks.

        Examples
        --------
        >>> import levywalk as lw
        >>> lw.walk(lw.ring(20), lw.simple_rw(), steps=1000).mean_dwell  # it never stays
        1.0
        """
        stays = int(_needed(self.stays, "record_dwell").sum())
        return self.steps * self.replicas / stays if stays else math.nan

    def share(self) -> Floats:
        """Return each node's share of all steps of all walks."""
        visits = _needed(self.visits, "record_visits").sum(axis=0)
        return np.asarray(visits / max(visits.sum(), 1))

    def hitting_times(self) -> Floats:
        """Return each node's first visit, mean over walks; infinite for nodes that some walk never
        visited.

        Examples
        --------
        >>> import levywalk as lw
        >>> walks = lw.walk(
        ...     lw.complete(5), lw.simple_rw(), steps=500, replicas=100, start=0, record_first=True
        ... )
        >>> bool(abs(walks.hitting_times()[1:] - 4).max() < 2)  # 4 in expectation
        True
        """
        first = _needed(self.first_visit, "record_first")
        return np.asarray(np.where(first < 0, np.inf, first).mean(axis=0))

    def correlation(self) -> Correlation:
        """Return the autocorrelation time of the observable that the walk was given.

        Examples
        --------
        >>> import levywalk as lw, numpy as np
        >>> slow = np.cos(2 * np.pi * np.arange(20) / 20)  # the slowest mode of the ring
        >>> walks = lw.walk(lw.ring(20), lw.simple_rw(), steps=50_000, replicas=8, observable=slow)
        >>> exact = float((1 + slow[1]) / (1 - slow[1]))  # of an eigenvector with this eigenvalue
        >>> found = walks.correlation()
        >>> found.low < exact < found.high, found.trusted
        (True, True)
        """
        from scipy.stats import chi2

        sums = _needed(self.batch_sums, "observable")
        assert self.observable_variance is not None
        if self.observable_variance == 0.0:
            raise InvalidParameter("observable must not be the same at all nodes that were visited")
        if sums.shape[1] < 2:
            raise InvalidParameter(
                f"correlation needs at least two batches, got {sums.shape[1]}; give more steps"
            )
        # Batches differ in length by at most one step; deviations are scaled to unit length.
        count = int(self.batches.sum()) * self.replicas
        mean = float(sums.sum() / count)
        deviations = (sums - mean * self.batches) / np.sqrt(self.batches)
        single = float((deviations**2).mean())
        neighbours = float((deviations[:, 1:] * deviations[:, :-1]).mean())
        # A batch of length b has the variance σ² (1 - c/b): what it shares with its neighbours is
        # missing. One of twice the length has single + neighbours, and from both the limit is
        # extrapolated, at a third of the freedom.
        variance = max(single + 2.0 * neighbours, 0.0)
        freedom = sums.size / 3
        time = variance / self.observable_variance
        return Correlation(
            time,
            time * freedom / float(chi2.ppf(0.975, freedom)),
            time * freedom / float(chi2.ppf(0.025, freedom)),
            mean + self.observable_middle,
            float(np.sqrt(variance / count)),
            bool(abs(neighbours) < _INDEPENDENT * single),
        )

    def summary(self) -> dict[str, Any]:
        """Return the walks in a few plain numbers.

        Examples
        --------
        >>> import levywalk as lw
        >>> lw.walk(lw.ring(20), lw.simple_rw(), steps=100).summary()["transfers_per_step"]
        1.0
        """
        steps = max(self.steps, 1)
        out: dict[str, Any] = {
            "design": self.provenance["design"]["name"],
            "steps": self.steps,
            "replicas": self.replicas,
            "hops_per_step": float(self.hops.mean() / steps),
            "transfers_per_step": float(self.transfers.mean() / steps),
        }
        if self.visits is not None:
            share = self.share()
            v = int(share.argmax())
            out |= {
                "nodes_visited": int((share > 0).sum()),
                "busiest_node": v,
                "busiest_share": float(share[v]),
                "busiest_target": float(self.target[v]),
                **({"busiest_name": self.node_names[v]} if self.node_names is not None else {}),
                "distance_to_target": float(np.abs(share - self.target).sum() / 2),
            }
        if self.longest_dwell is not None:
            out |= {"mean_dwell": self.mean_dwell, "longest_dwell": int(self.longest_dwell.max())}
        if self.batch_sums is not None:
            try:
                out["correlation"] = self.correlation()._asdict()
            except InvalidParameter:  # too short, or nothing varied
                out["correlation"] = None
        return out


def _needed(array: Any, name: str) -> Any:
    if array is None:
        raise InvalidParameter(f"this needs {name}: give it to lw.walk")
    return array
