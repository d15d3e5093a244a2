"""One instance of an experiment as plain data, and what is measured on it: the task that is stored.

A description holds the sections of an experiment file (``network``, ``problem``, ``design``) and
how to walk. `measure` turns it into curves: the error's mean and median over the walks, at
checkpoints a few per cent apart, for every step size asked for. Step sizes are relative, γL*, so
that one number serves all instances of a family; with ``"of": "mean"`` they are γL̄, the same γ for
all methods.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.engine import run
from levywalk.errors import DivergedWarning, InvalidSpec, NotConnected
from levywalk.experiments.spec import check_experiment
from levywalk.experiments.tuning import tuning_values
from levywalk.network import Network
from levywalk.problem import LeastSquares, Problem
from levywalk.schedule import Dropping, Schedule
from levywalk.theory import (
    bounds,
    entrapment,
    error_floor,
    spectral_gap,
    stationary,
    total_variation,
    transition,
)
from levywalk.trace.ranking import Criterion, Ranking
from levywalk.trace.statistics import mean_over_walks
from levywalk.walks import Design, Walk

PER_DECADE = 100  # checkpoints: 2.3 % apart
_LONG = 20_000  # steps of the bounds
_SETTLED, _MANY = 4_000, 4_000  # steps and walks whose mean is compared with its limit
_MOST_REDRAWS = 100
_REDRAWN = (
    1_000_003  # distance of the seeds of redrawn networks, so that no other instance has them
)


def geometric_checkpoints(steps: int) -> Ints:
    """Return checkpoints that are a few per cent apart; the first ones are one step apart.

    Examples
    --------
    >>> geometric_checkpoints(1000)[[0, 1, 2, -2, -1]].tolist()
    [1, 2, 3, 977, 1000]
    """
    count = int(PER_DECADE * np.log10(max(steps, 2))) + 1
    return np.unique(np.append(np.round(np.geomspace(1, steps, count)).astype(np.int64), steps))


def build(description: Mapping[str, Any]) -> tuple[Network, Problem, Walk, int]:
    """Build network, problem and design; redraw a random network that is not connected, and count
    how often.

    Examples
    --------
    >>> sparse = {"family": "erdos_renyi", "n": 30, "p": 0.08, "seed": 0}
    >>> build(
    ...     {"network": sparse, "problem": {"data": "homogeneous"}, "design": {"kind": "unif_rw"}}
    ... )[3]
    8
    """
    section = dict(description["network"])
    for redraws in range(_MOST_REDRAWS):
        seed = {"seed": section["seed"] + redraws * _REDRAWN} if "seed" in section else {}
        content = {
            "network": section | seed,
            "problem": description["problem"],
            "designs": {"design": description["design"]},
            "run": {"steps": 1},
        }
        network, problem, designs = check_experiment(content).build(Path())
        try:
            network.require_connected()
        except NotConnected:
            if not seed:
                break
        else:
            walk = designs["design"]
            assert isinstance(walk, Walk)
            return network, problem, walk, redraws
    raise InvalidSpec(f"network {section!r} is not connected; give it more edges")


def measure(description: Mapping[str, Any]) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Run the walks of one instance; return their curves and a few numbers.

    ``distance`` and ``excess`` are the relative errors' means over walks, ``median`` the distance's
    median; of tuning walks the distance's mean alone. All are (step sizes, checkpoints); so are
    ``hops`` and ``transfers``.
    """
    network, problem, design, redraws = build(description)
    if "ask" in description:
        asked, seed = description["ask"], description["problem"].get("seed", 0)
        found = (
            _limit(network, problem, design, seed)
            if asked == "limit"  # the only answer that walks are run for
            else _ANSWERS[asked](network, problem, design)
        )
        return {}, found | {"redraws": redraws}
    bound = design.phases[0].bind(network, problem)
    common: dict[str, Any] = {
        "steps": description["steps"],
        "replicas": description["walks"],
        "seed": description["seed"],
        "record_every": geometric_checkpoints(description["steps"]),
        "start": description["start"],
        "x0": None,
        "threads": description.get("threads", 1),
        "update": None,
        "progress": False,
    }
    numbers = {
        "largest": bound.largest,
        "redraws": redraws,
        "important": len(getattr(problem, "important_nodes", ())),
    }
    scale = bound.largest
    if description.get("of") == "mean":
        scale = float(np.mean(problem.smoothness))
        numbers |= {
            "mean_smoothness": scale,
            "largest_smoothness": float(np.max(problem.smoothness)),
        }
    sizes = np.array(description["relative"], dtype=np.float64) / scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # counted as infinite
        if description.get("tuning", False):
            return _tuning_curves(network, problem, design, sizes, common), numbers
        return _curves(
            network, problem, design, sizes, common, numbers, description.get("drop_at")
        ), numbers


def _tuning_curves(
    network: Network, problem: Problem, design: Walk, sizes: Floats, common: dict[str, Any]
) -> dict[str, AnyArray]:
    by_distance = Ranking(Criterion.DISTANCE2, None)
    values = tuning_values(network, problem, design, sizes, by_distance, **common)
    means = np.array([mean_over_walks(of_size) for of_size in values])
    return {"step": np.append(0, common["record_every"]), "distance": means}


def _curves(
    network: Network,
    problem: Problem,
    design: Walk,
    sizes: Floats,
    common: dict[str, Any],
    numbers: dict[str, Any],
    drop_at: int | None,
) -> dict[str, AnyArray]:
    names = ("distance", "median", "excess", "hops", "transfers")
    rows: dict[str, list[Floats]] = {name: [] for name in names}
    step = np.append(0, common["record_every"])
    switched = []
    for size in sizes:
        step_size: float | Schedule = float(size)
        if (
            drop_at is not None
        ):  # to a step size that is stable for uniform sampling, as after a switch
            step_size = Dropping(
                float(size), drop_at, min(float(size), 1.0 / float(np.max(problem.smoothness)))
            )
        trace = run(network, problem, design, step_size=step_size, record_visits=False, **common)
        with np.errstate(over="ignore", invalid="ignore"):
            rows["distance"].append(trace.error.mean(axis=0))
            rows["median"].append(np.median(trace.error, axis=0))
            rows["excess"].append((trace.excess_loss / trace.excess_loss[:, :1]).mean(axis=0))
        rows["hops"].append(trace.hops.mean(axis=0))
        rows["transfers"].append(trace.transfers.mean(axis=0))
        when = np.where(trace.switched_at >= 0, trace.switched_at, common["steps"])
        switched.append(int(np.quantile(when, 0.5, method="inverted_cdf")))
    numbers["switched_at"] = (
        switched  # the median over walks; the last step if most have not switched
    )
    return {"step": step, **{name: np.array(values) for name, values in rows.items()}}


def _gaps(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return the spectral gaps of a design's chain, of every kind."""
    assert isinstance(design, Design)
    P = transition(network, problem, design)
    return {kind: spectral_gap(P, kind).value for kind in ("right", "absolute", "singular")}


def _right_gap(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return only the right spectral gap 1 - λ₂, which takes a third of the time of all kinds."""
    assert isinstance(design, Design)
    return {"right": spectral_gap(transition(network, problem, design), "right").value}


def _entrapment(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return how long the walk stays in its worst region, and how long i.i.d. sampling would."""
    assert isinstance(design, Design)
    regions = entrapment(network, problem, design).regions
    worst = max(regions, key=lambda region: region.dwell / region.iid_dwell)
    return {"dwell": worst.dwell, "iid_dwell": worst.iid_dwell}


def _occupation(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return what jumps leave of the weighted sampling, and the bias that they cause.

    ``kept``: the mass of the important nodes under the chain's own law over that under the target,
    NaN without important nodes. ``distance``: the total variation between both laws. ``bias``:
    ‖x̃ - x*‖²/‖x*‖² with x̃ the fixed point of small steps, where Σ π̃(v)w(v)∇f_v = 0.
    """
    assert isinstance(design, Design)
    assert isinstance(problem, LeastSquares)
    bound = design.bind(network, problem)
    own = stationary(transition(network, problem, design))
    important = np.asarray(getattr(problem, "important_nodes", ()), dtype=np.int64)
    kept = own[important].sum() / bound.law[important].sum() if len(important) else np.nan
    pull = np.sqrt(own * bound.weights)  # one sample per node
    point = np.linalg.lstsq(pull[:, None] * problem.features, pull * problem.targets)[0]
    apart = float(((point - problem.optimum) ** 2).sum() / (problem.optimum**2).sum())
    return {"kept": float(kept), "distance": total_variation(own, bound.law), "bias": apart}


def _limit(network: Network, problem: Problem, design: Walk, seed: int) -> dict[str, Any]:
    """Compare the mean of many long walks' models with the limit that theory gives, and with the
    optimum.

    The figures are squared distances in standard errors, over the dimension: about 1 if the mean is
    that point's.
    """
    assert isinstance(design, Design)
    assert isinstance(problem, LeastSquares)
    size = 0.3 / design.bind(network, problem).largest
    limit = error_floor(network, problem, design, step_size=size).limit_mean
    trace = run(
        network,
        problem,
        design,
        steps=_SETTLED,
        step_size=size,
        replicas=_MANY,
        seed=seed,
        start="stationary",
        record_every=_SETTLED,
        record_visits=False,
        threads=1,
        progress=False,
    )
    error = np.cov(trace.model.T).reshape(problem.dim, problem.dim) / _MANY
    assert limit is not None

    def apart(point: Floats) -> float:
        gap = trace.model.mean(axis=0) - point
        try:
            return float(gap @ np.linalg.solve(error, gap) / problem.dim)
        except np.linalg.LinAlgError:  # without noise all walks can end at the same point
            return math.inf if gap.any() else 0.0

    return {
        "to_limit": apart(limit),
        "to_optimum": apart(problem.optimum),
        "error": float(trace.error[:, -1].mean()),
    }


def _bounds(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return the exact error after many steps and the theorems' bounds of it, with a ridge that
    makes them apply.
    """
    assert isinstance(design, Design)
    assert isinstance(problem, LeastSquares)
    convex = LeastSquares(problem.features, problem.targets, ridge=1.0)
    size = 0.1 / design.bind(network, convex).largest
    found = bounds(network, convex, design, steps=_LONG, step_size=size)
    return {"exact": found.exact} | {name: form.total for name, form in found.forms.items()}


def _counterexample(network: Network, problem: Problem, design: Walk) -> dict[str, Any]:
    """Return the exact error and the printed bound where a trapped walk refutes it: no noise, one
    important node.
    """
    assert isinstance(design, Design)
    curvature = np.ones(network.n)
    curvature[0] = 1e4
    features = np.zeros((2 * network.n, 2))
    features[::2, 0], features[1::2, 1] = np.sqrt(curvature), 1.0
    bowls = LeastSquares(features, np.zeros(2 * network.n), node=np.repeat(np.arange(network.n), 2))
    found = bounds(
        network, bowls, design, steps=10_000, step_size=0.999 / curvature.mean(), x0=[0.0, 1.0]
    )
    return {"exact": found.exact} | {name: form.total for name, form in found.forms.items()}


_ANSWERS = {
    "gaps": _gaps,
    "right_gap": _right_gap,
    "entrapment": _entrapment,
    "occupation": _occupation,
    "bounds": _bounds,
    "counterexample": _counterexample,
}
