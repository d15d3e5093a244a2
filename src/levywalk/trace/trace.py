"""Trace: the record of a run, as arrays with their provenance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk import checks
from levywalk.arrays import AnyArray, Floats, Ints, Ints32
from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.network.names import shown_node
from levywalk.notebook import table_html
from levywalk.problem.named import ModelArrays
from levywalk.trace.statistics import bootstrap_mean, bootstrap_steps, mean_over_walks, settled_at

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of a run of several replicas.

    Attributes
    ----------
    step
        The checkpoints, in updates done: 0, …, steps.
    distance2, excess_loss, loss
        ‖x - x*‖², f(x) - f(x*) and f(x) of each (replica, checkpoint). ``sampled_loss`` says
        whether f is the mean over a sample of the nodes; f(x) - f(x*) can then be a little below 0.
    hops, transfers, bytes
        Until each (replica, checkpoint): decisions and passes (a stay is one, a jump of distance d
        is d), messages between two distinct nodes, and what these messages carry: the model and the
        token's memory.
    small_messages
        Until each (replica, checkpoint): messages without a model, which are questions to
        neighbours and answers.
    metrics
        The metrics of each (replica, checkpoint), by name; NaN at checkpoints where they were not
        evaluated, and for models that overflowed. Empty if the run had none.
    metric_step
        The checkpoints at which metrics were evaluated.
    time
        Seconds until each (replica, checkpoint), if the run was given ``costs``; else None.
    visits
        Updates done at each (replica, node), or None.
    walk
        The node of each (replica, update), or None.
    final_node, model
        The node that holds the model after the last move, and the model, by replica.
    diverged_at
        The step whose update overflowed, by replica; -1 if none did.
    switched_at
        The step after whose update a switching design switched, by replica; -1 if it did not.
    memory
        What tokens and nodes remember at the end, by name, one row per replica; None unless it was
        asked for.
    target
        The law π that the walk aimed at.
    optimum
        x*, or None for a problem that does not know it.
    provenance
        What ran: versions, seed, network, problem, design, step size, seconds.
    node_names
        The name of each node, as the network's file or graph has it; None if nodes have numbers
        alone.

    Examples
    --------
    >>> import levywalk as lw
    >>> trace = lw.run(
    ...     lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=100, step_size=0.01, replicas=2
    ... )
    >>> trace
    Trace(MHLJ: 2 replicas x 100 steps)
    >>> trace.visits.sum(axis=1)
    array([100, 100])
    """

    step: Ints
    distance2: Floats
    excess_loss: Floats
    loss: Floats
    hops: Ints
    transfers: Ints
    bytes: Ints
    visits: Ints | None
    walk: Ints32 | None
    final_node: Ints
    model: Floats
    diverged_at: Ints
    switched_at: Ints
    target: Floats
    optimum: Floats | None
    provenance: dict[str, Any]
    small_messages: Ints
    memory: dict[str, AnyArray] | None = None
    time: Floats | None = None
    node_names: tuple[str, ...] | None = None
    metrics: dict[str, Floats] = field(default_factory=dict)
    metric_step: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def replicas(self) -> int:
        """The number of walks."""
        return len(self.model)

    @property
    def name(self) -> str:
        """The design's name."""
        return str(self.provenance["design"]["name"])

    @property
    def error(self) -> Floats:
        """distance2 over its initial value, (replicas, checkpoints)."""
        first = self.distance2[:, :1]
        if not ((first > 0) & np.isfinite(first)).all():
            raise InvalidParameter(
                "the relative error is undefined: x0 is the optimum or too far from it, or the "
                "optimum is unknown; "
                "give another x0, or read distance2 and loss"
            )
        with np.errstate(over="ignore"):
            return np.asarray(self.distance2 / first)

    @property
    def sampled_loss(self) -> str:
        """The sample of nodes on which f was measured, such as "149 of 1000 nodes"; empty if it was
        exact.

        Examples
        --------
        >>> import levywalk as lw
        >>> given = {"steps": 50, "step_size": 0.01, "measure_loss": 8}
        >>> lw.run(lw.ring(40), lw.homogeneous(40, dim=2), lw.unif_rw(), **given).sampled_loss
        '8 of 40 nodes'
        """
        how = self.provenance.get("loss", {"kind": "exact"})
        return "" if how["kind"] == "exact" else f"{how['nodes']} of {how['of']} nodes"

    def named_models(self) -> dict[str, Floats]:
        """Return the final models as named arrays, one per replica.

        Examples
        --------
        >>> import levywalk as lw
        >>> trace = lw.run(lw.ring(5), lw.homogeneous(5, dim=2), lw.mhlj(), steps=9, step_size=0.1)
        >>> list(trace.named_models())  # a problem without named arrays has one vector
        ['model']
        """
        shapes = self.provenance.get("problem", {}).get("arrays")
        return {"model": self.model} if shapes is None else ModelArrays(shapes).unpack(self.model)

    def final_metrics(self) -> dict[str, Floats]:
        """Return each metric where it was evaluated last, one number per replica.

        Examples
        --------
        >>> import levywalk as lw
        >>> test = {"mse": lw.metrics.mean_squared_error([[1.0, 0.0]], [1.0])}
        >>> parts = lw.ring(5), lw.homogeneous(5, dim=2), lw.mhlj()
        >>> lw.run(*parts, steps=9, step_size=0.1, metrics=test).final_metrics()["mse"].shape
        (1,)
        """
        if not len(self.metric_step):
            return {}
        last = int(np.searchsorted(self.step, self.metric_step[-1]))
        return {name: values[:, last] for name, values in self.metrics.items()}

    def steps_to(self, accuracy: float) -> float:
        """Return the first checkpoint after which the error's mean over walks stays at or below
        ``accuracy``; else infinity.

        Examples
        --------
        >>> import levywalk as lw
        >>> trace = lw.run(
        ...     lw.complete(20),
        ...     lw.homogeneous(20),
        ...     lw.unif_rw(),
        ...     steps=400,
        ...     step_size=0.01,
        ...     replicas=8,
        ... )
        >>> trace.steps_to(2.0)  # the error starts at 1
        0.0
        """
        accuracy = checks.positive("accuracy", accuracy)
        return float(settled_at(self.step, mean_over_walks(self.error)[None], accuracy)[0])

    def steps_to_interval(
        self, accuracy: float, level: float = 0.95, seed: int = 0
    ) -> tuple[float, float]:
        """Return the interval of `steps_to` if the walks are drawn again (bootstrap); its ends can
        be infinite.
        """
        accuracy = checks.positive("accuracy", accuracy)
        return bootstrap_steps(self.step, self.error, accuracy, level, seed)

    def longest_dwell(self) -> tuple[Ints, Ints]:
        """Return, by replica, the most consecutive updates at one node, and that node; needs
        ``record_walk=True``.
        """
        length, node = self._longest_dwell
        return length.copy(), node.copy()

    @cached_property
    def _longest_dwell(self) -> tuple[Ints, Ints]:
        if self.walk is None:
            raise InvalidParameter("dwell needs the walk: run with record_walk=True")
        length, node = np.zeros(self.replicas, np.int64), np.zeros(self.replicas, np.int64)
        for r, walk in enumerate(self.walk):
            if not len(walk):  # interrupted before the first update
                node[r] = self.final_node[r]
                continue
            begins = np.append(0, np.flatnonzero(np.diff(walk)) + 1)
            runs = np.diff(np.append(begins, len(walk)))
            best = int(runs.argmax())
            length[r], node[r] = runs[best], walk[begins[best]]
        return length, node

    def busiest(self) -> tuple[int, float, float]:
        """Return the node with the most updates, its share of them, and its share under the
        target.
        """
        if self.visits is None:
            raise InvalidParameter("shares of visits need record_visits=True")
        total = self.visits.sum(axis=0)
        v = int(total.argmax())
        return v, float(total[v] / max(total.sum(), 1)), float(self.target[v])

    def shown(self, v: int) -> str:
        """Return how tables and pages call node ``v``: its number, and its name if it has one.

        Examples
        --------
        >>> import networkx as nx
        >>> import levywalk as lw
        >>> towns = nx.cycle_graph(["Oslo", "Bergen", "Moss"])
        >>> lw.run(towns, lw.homogeneous(3, dim=2), lw.mhlj(), steps=9, step_size=0.01).shown(1)
        "1 ('Bergen')"
        """
        return shown_node(v, self.node_names)

    def summary(self) -> dict[str, Any]:
        """Return the run in a few plain numbers, with 95 % intervals over walks.

        Examples
        --------
        >>> import levywalk as lw
        >>> trace = lw.run(
        ...     lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=400, step_size=0.01, replicas=8
        ... )
        >>> sorted(trace.summary())[:3]
        ['busiest_node', 'busiest_share', 'busiest_target']
        """
        steps = int(self.step[-1])
        last = self.distance2[:, -1]
        out: dict[str, Any] = {
            "design": self.name,
            "steps": steps,
            "replicas": self.replicas,
            "distance2": float(mean_over_walks(last[:, None])[0]),
            "distance2_interval": bootstrap_mean(last),
            "distance2_median": float(np.median(last)),
            "excess_loss": float(mean_over_walks(self.excess_loss[:, -1:])[0]),
            "loss": float(mean_over_walks(self.loss[:, -1:])[0]),
            "loss_measured": f"sampled: {self.sampled_loss}" if self.sampled_loss else "exact",
            "hops_per_step": float(self.hops[:, -1].mean() / max(steps, 1)),
            "transfers_per_step": float(self.transfers[:, -1].mean() / max(steps, 1)),
            "small_messages_per_step": float(self.small_messages[:, -1].mean() / max(steps, 1)),
            "bytes_per_step": float(self.bytes[:, -1].mean() / max(steps, 1)),
            "diverged": int((self.diverged_at >= 0).sum()),
            "switched": int((self.switched_at >= 0).sum()),
        }
        if self.time is not None:
            out["seconds_per_step"] = float(self.time[:, -1].mean() / max(steps, 1))
        for name, values in self.final_metrics().items():
            out |= {name: float(values.mean()), f"{name}_interval": bootstrap_mean(values)}
        if self.visits is not None:
            node, share, aimed = self.busiest()
            out |= {"busiest_node": node, "busiest_share": share, "busiest_target": aimed}
            if self.node_names is not None:
                out["busiest_name"] = self.node_names[node]
        if self.walk is not None:
            out["longest_dwell"] = int(self.longest_dwell()[0].max())
        return out

    def to_xarray(self) -> xr.Dataset:
        """Return a labelled dataset (dimensions replica, checkpoint, node, update, coordinate).

        Examples
        --------
        >>> import levywalk as lw
        >>> trace = lw.run(lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=100, step_size=0.01)
        >>> trace.to_xarray().sizes["node"]
        20
        """
        from levywalk.trace.files import to_xarray

        return to_xarray(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per (replica, checkpoint).

        Examples
        --------
        >>> import levywalk as lw
        >>> trace = lw.run(
        ...     lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=100, step_size=0.01, replicas=2
        ... )
        >>> len(trace.to_dataframe())
        202
        """
        with needs("frames", "Trace.to_dataframe()", "pandas"):
            import pandas as pd

        count, points = self.distance2.shape
        return pd.DataFrame(
            {
                "replica": np.repeat(np.arange(count), points),
                "step": np.tile(self.step, count),
                **{
                    name: getattr(self, name).ravel()
                    for name in ("distance2", "excess_loss", "loss", "hops", "transfers", "bytes")
                },
                **({} if self.time is None else {"time": self.time.ravel()}),
                **{name: values.ravel() for name, values in self.metrics.items()},
            }
        )

    def save(self, path: str | Path) -> Path:
        """Write the trace as netCDF (HDF5), readable by `load_trace`, xarray and most languages."""
        from levywalk.trace.files import save_trace

        return save_trace(self, path)

    def __repr__(self) -> str:
        diverged = int((self.diverged_at >= 0).sum())
        tail = f", {diverged} diverged" if diverged else ""
        replicas = "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"
        return f"Trace({self.name}: {replicas} x {int(self.step[-1])} steps{tail})"

    def _repr_html_(self) -> str:
        shown = {
            "steps": f"{int(self.step[-1]):,}",
            "replicas": self.replicas,
            "nodes": f"{len(self.target):,}",
            "‖x - x*‖² at the end": f"{mean_over_walks(self.distance2)[-1]:.4g}",
            "f(x) at the end": f"{mean_over_walks(self.loss)[-1]:.4g}",
            "hops per step": f"{self.hops[:, -1].mean() / max(int(self.step[-1]), 1):.3g}",
            "transfers per step": (
                f"{self.transfers[:, -1].mean() / max(int(self.step[-1]), 1):.3g}"
            ),
            "diverged": int((self.diverged_at >= 0).sum()),
        }
        for name, values in self.final_metrics().items():
            shown[f"{name} at the end"] = f"{values.mean():.4g}"
        if self.visits is not None:
            node, share, aimed = self.busiest()
            shown["busiest node"] = (
                f"{self.shown(node)}: {100 * share:.2f} % of the updates, "
                f"{100 * aimed:.2f} % under the target"
            )
        return table_html(list(shown.items()), f"Trace of {self.name} (means over replicas)")
