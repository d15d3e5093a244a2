"""ε against the accuracy that can be expected, before a run: by simulation on the given data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.engine import run
from levywalk.errors import InvalidParameter
from levywalk.experiments.ranking import ranking_for
from levywalk.experiments.tuning import tuning_values
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.privacy import (
    Privacy,
    check_scores,
    fitted_update,
    gaussian_epsilon,
    scored_problem,
)
from levywalk.privacy.published_loss import (
    PUBLISHED,
    hop_distances,
    mean_by_distance,
    published_epsilon,
    published_pairwise_rho,
)
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.theory import transition
from levywalk.trace import Trace
from levywalk.trace.ranking import Ranking
from levywalk.updates import Update, as_update
from levywalk.walks import Walk

BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SHORT, PRIVATE_SHORT = 20_000, 2_000  # updates: fewer are done before a loop is compiled
MOST_NODES = 2_000  # for the published loss of all pairs
# Step sizes that are tried, as multiples of 1/L*; with clipped gradients larger ones can work, too.
TRIED = tuple(float(10.0 ** (k / 2)) for k in range(-8, 3))


@dataclass(frozen=True, repr=False)
class PrivacyCurve:
    """What can be expected of a design for several budgets.

    Attributes
    ----------
    rows
        One dict per budget: ``budget``, ``noise``, ``updates_at_cap``, ``epsilon_spent``,
        ``nodes_out_of_budget``, ``step_size``, ``value`` (the mean over the walks of what was
        reached), ``low`` and ``high`` (the least and largest of them). Against "neighbour" also
        ``between_nodes``: ε by the distance of two nodes, by the published formula
        (`levywalk.privacy.published_loss`, for planning alone) and for the first of the walks, and
        ε of the expected number of updates by composition; or ``because``, why not.
    without
        The same without privacy, with the keys ``step_size``, ``value``, ``low`` and ``high``.
    quantity, higher_is_better
        What the values are, and whether they should rise.
    privacy
        The settings that all budgets share, and the definition.
    """

    rows: list[dict[str, Any]]
    without: dict[str, Any]
    quantity: str
    higher_is_better: bool
    privacy: dict[str, Any]

    def __repr__(self) -> str:
        reached = ", ".join(f"{row['value']:.3g} at ε = {row['budget']:g}" for row in self.rows)
        return f"PrivacyCurve({self.quantity}: {reached}, {self.without['value']:.3g} without)"

    def _repr_html_(self) -> str:
        header = ["budget ε", "noise", "updates a node may make", "nodes that ran out", "ε spent"]
        header += ["step size", self.quantity, "least", "largest"]
        ends = ("step_size", "value", "low", "high")
        keys = ("budget", "noise", "updates_at_cap", "nodes_out_of_budget", "epsilon_spent", *ends)
        rows: list[list[object]] = [[row.get(key) for key in keys] for row in self.rows]
        rows.append(["none", 0.0, None, None, math.inf, *(self.without[key] for key in ends)])
        return columns_html(
            header, rows, f"What each ε costs ({self.privacy.get('definition', 'no definition')})"
        )

    def document(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "quantity": self.quantity,
            "higher_is_better": self.higher_is_better,
            "privacy": self.privacy,
            "without": self.without,
            "budgets": self.rows,
        }


def privacy_curve(
    network: Network,
    problem: Problem,
    design: Walk,
    *,
    clip: float,
    steps: int,
    budgets: Sequence[float] = BUDGETS,
    updates: int | None = None,
    update: Update | str | None = None,
    step_size: float | str = "tuned",
    replicas: int = 4,
    seed: int = 0,
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> PrivacyCurve:
    """Simulate a design for several budgets, each with the least noise that stays within it.

    Parameters
    ----------
    updates
        How many updates a node may make; by default twice the largest number that is expected.
    step_size
        A number, or "tuned": the best of eleven, on other walks than those that are reported.
    settings
        Further settings of `Privacy`: delta, adjacency, adversary, scores, ….

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(10), lw.homogeneous(10, dim=2)
    >>> found = privacy_curve(
    ...     network, problem, lw.unif_rw(), clip=5.0, steps=100, budgets=[1.0, 100.0],
    ...     step_size=0.02, replicas=2
    ... )
    >>> found.quantity, [row["updates_at_cap"] for row in found.rows]
    ('error', [20, 20])
    """
    made = as_update(update)
    known = scored_problem(Privacy(clip=clip, noise=1.0, **settings), problem, seed)
    bound = design.phases[0].bind(network, known)
    cap = updates or max(1, math.ceil(2.0 * steps * float(bound.law.max())))
    rank_by = None if not metrics else next(iter(metrics))
    ranking = ranking_for(problem, rank_by, None, metrics=metrics)
    rows: list[dict[str, Any]] = []
    first = Privacy.calibrated(clip=clip, budget=budgets[0], updates=cap, **settings)
    check_scores(first, design, step_size)
    fitted_update(first, made, problem)  # refuses what reveals more, before anything runs
    given = None if step_size == "tuned" else checks.positive("step_size", step_size)
    unit = made.default_step_size(bound.largest, problem)
    common: dict[str, Any] = {
        "steps": steps, "update": made, "seed": seed, "metrics": metrics, "record_every": steps,
    }  # fmt: skip
    with Bar("simulating", len(budgets) + 1, show=progress) as bar:
        for budget in (None, *budgets):
            privacy = None
            if budget is not None:
                privacy = Privacy.calibrated(clip=clip, budget=budget, updates=cap, **settings)
            short = SHORT if privacy is None else PRIVATE_SHORT
            size = given or _best_step_size(
                network, problem, design, ranking, unit, privacy=privacy, replicas=2, **common
            )
            trace = run(
                network, problem, design, step_size=size, privacy=privacy, replicas=replicas,
                measure_metrics=1, progress=False,
                backend="reference" if steps * replicas <= short else "auto", **common,
            )  # fmt: skip
            rows.append({"budget": budget, "step_size": size} | _reached(trace, ranking))
            if privacy is not None and privacy.adversary == "neighbour":
                rows[-1]["between_nodes"] = _between_nodes(network, problem, design, privacy, trace)
            bar.advance(1)
    shared = {key: v for key, v in first.record().items() if key not in ("noise", "budget")}
    return PrivacyCurve(
        rows[1:],
        rows[0],
        ranking.quantity,
        ranking.higher_is_better,
        shared | {"definition": first.definition},
    )


def _reached(trace: Trace, ranking: Ranking) -> dict[str, Any]:
    """Return what the walks reached, and what they spent if they were private."""
    values = ranking.oriented(ranking.values(trace)[:, -1])
    found = {
        "value": float(values.mean()),
        "low": float(values.min()),
        "high": float(values.max()),
    }
    said = trace.provenance.get("privacy", {})
    spent = ("noise", "updates_at_cap", "epsilon_spent", "nodes_out_of_budget")
    return found | {key: said[key] for key in spent if key in said}


def _between_nodes(
    network: Network, problem: Problem, design: Walk, privacy: Privacy, trace: Trace
) -> dict[str, Any]:
    """Return ε between two nodes by their distance: as published, and of the first walk."""
    said, steps = trace.provenance["privacy"], int(trace.step[-1])
    if "epsilon_by_distance" not in said:
        return {"because": said["because"]}
    counts = np.diff(problem.offsets)  # type: ignore[attr-defined]
    if privacy.adjacency == "sample" and counts.min() < counts.max():
        return {"because": "nodes with different numbers of samples have different noise"}
    if network.n > MOST_NODES:
        return {"because": f"{network.n} nodes are too many for a matrix of all pairs"}
    try:
        pairs = published_pairwise_rho(transition(network, problem, design), steps, privacy.noise)
    except InvalidParameter as error:
        return {"because": str(error)}
    rho = mean_by_distance(pairs, hop_distances(network))
    expected = math.sqrt(steps / network.n) / privacy.noise
    return {
        "published_rho": rho,
        "published_epsilon": [published_epsilon(r, privacy.noise, privacy.delta) for r in rho],
        "published_is": PUBLISHED,
        "epsilon_of_the_walk": said["epsilon_by_distance"],
        "composition_epsilon": gaussian_epsilon(expected, privacy.delta),
    }


def _best_step_size(
    network: Network,
    problem: Problem,
    design: Walk,
    ranking: Ranking,
    unit: float,
    **options: Any,
) -> float:
    """Return the best of the tried step sizes, judged by the end of two walks."""
    sizes = np.array(TRIED) * unit
    values = tuning_values(
        network, problem, design, sizes, ranking,
        start="uniform", x0=None, threads=None, progress=False, measure_metrics=1, **options,
    )  # fmt: skip
    return float(sizes[int(np.argmin(values[:, :, -1].mean(axis=1)))])
