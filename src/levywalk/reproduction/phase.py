"""The phase diagram: which method needs the fewest steps, over the ratio of signal to noise and the
importance ratio σ²_H/σ²_L of two important nodes.

Decided beforehand: eight instances a cell, exactly two important nodes; each method runs at
eighteen step sizes γL* (four a decade, 0.00056 to 10), and the step size for an instance is the one
with which the fewest steps suffice on four of five of the *other* seven (so nothing is judged where
it was tuned; λ of MixedRW is chosen in the same way, together with the step size). The three
largest were added after a first run, in which UnifRW had taken the largest of fifteen, 1.78, in
more than four of five cases. The winner of a cell has the least median; it is decided if it is
faster than every other method on all eight instances, which is the 95 % interval of a median of
eight ratios (two methods that are level look decided in one cell of 128). Other cells are
undecided, and where no method reaches the accuracy on most instances the cell is empty. How often
the chosen step size is the first or the last of the eighteen is counted, because more of them might
have helped there.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.experiments.tuning import MOST, relative_sizes, tuning_values
from levywalk.network import Network
from levywalk.problem import heterogeneous
from levywalk.reproduction.measurement import build, geometric_checkpoints
from levywalk.trace.ranking import Criterion, Ranking
from levywalk.trace.statistics import mean_over_walks, settled_at

ACCURACIES = (0.1, 0.01)
SNRS = tuple(round(10.0 ** (6 * k / 7), 3) for k in range(8))  # 1 to 10⁶
RATIOS = tuple(round(10.0 ** (4 * k / 5), 3) for k in range(6))  # 1 to 10⁴
SEEDS = range(71_000, 71_008)  # nobody had run them
IMPORTANT = 2
WALKS = 16
SIZES = tuple(relative_sizes(range(-52, 17, 4)))
MIXES = (0.1, 0.3, 0.6, 0.9)
MIXED = "MixedRW (best λ)"
DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "UnifRW": {"kind": "unif_rw"},
    "WeightRW": {"kind": "weight_rw"},
    "MHLJ(0.1)": {"kind": "mhlj"},
    "MHLJ(0.9)": {"kind": "mhlj", "p_jump": 0.9},
    **{f"MixedRW({mix:g})": {"kind": "mixed_rw", "mix": mix} for mix in MIXES},
}
METHODS = (*list(DESIGNS)[:4], MIXED)
FILE = "p2p-Gnutella08"


@dataclass(frozen=True)
class PhaseGraph:
    """A network of the diagram: its section, whether it is drawn again for each instance, and the
    length of its walks.
    """

    title: str
    network: Mapping[str, Any]
    seeded: bool
    steps: int


GRAPHS: Mapping[str, PhaseGraph] = {
    "ring": PhaseGraph("Ring(1000)", {"family": "ring", "n": 1000}, False, 100_000),
    "grid": PhaseGraph("grid 25 x 40", {"family": "grid", "rows": 25, "cols": 40}, False, 40_000),
    "ws": PhaseGraph(
        "WS(1000, 4, 0.1)",
        {"family": "watts_strogatz", "n": 1000, "k": 4, "p": 0.1},
        True,
        40_000,
    ),
    "er": PhaseGraph("ER(1000, 0.1)", {"family": "erdos_renyi", "n": 1000, "p": 0.1}, True, 40_000),
    "gnutella": PhaseGraph(
        "p2p-Gnutella08 (6,299 nodes)", {"file": FILE, "part": "largest component"}, False, 100_000
    ),
}


def descriptions(graph: str, seeds: Sequence[int] = SEEDS) -> list[dict[str, Any]]:
    """Return all cells of a graph as plain data, one per instance.

    Examples
    --------
    >>> len(descriptions("ring")), descriptions("ring")[0]["problem"]["snr"]
    (384, 1.0)
    """
    known = GRAPHS[graph]
    return [
        {
            "network": dict(known.network) | ({"seed": seed} if known.seeded else {}),
            "problem": {
                "data": "heterogeneous",
                "important": IMPORTANT,
                "sigma2_high": ratio,
                "snr": snr,
                "seed": seed,
            },
            "steps": known.steps,
            "walks": WALKS,
            "relative": list(SIZES),
            "seed": seed,
        }
        for snr in SNRS
        for ratio in RATIOS
        for seed in seeds
    ]


def measure_phase(
    description: Mapping[str, Any], folder: str = "."
) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Run one instance of a cell: steps to each accuracy, of each design, at each step size.

    ``steps`` is (designs, step sizes, accuracies), infinite where the accuracy is not reached;
    ``error`` is the error at the end. ``spread`` is max L_v over median L_v.

    Parameters
    ----------
    folder
        Where the files of real networks are; they change no result, because a network is named by
        its content.
    """
    section, data = dict(description["network"]), dict(description["problem"])
    checkpoints = geometric_checkpoints(description["steps"])
    step = np.append(0, checkpoints)
    network = _from_file(Path(folder) / f"{FILE}.edges.gz") if "file" in section else None
    found, ends, spread = [], [], math.nan
    for design in DESIGNS.values():
        if network is None:
            graph, problem, walk, _ = build(
                {"network": section, "problem": data, "design": dict(design)}
            )
        else:
            own = {key: value for key, value in data.items() if key != "data"}
            small = {"network": {"family": "ring", "n": 5}, "problem": {"data": "homogeneous"}}
            walk = build(small | {"design": dict(design)})[2]
            graph, problem = network, heterogeneous(network.n, **own)
        bound = walk.bind(graph, problem)
        spread = float(np.max(problem.smoothness) / np.median(problem.smoothness))
        values = tuning_values(
            graph,
            problem,
            walk,
            np.array(description["relative"]) / bound.largest,
            Ranking(Criterion.DISTANCE2, None),
            steps=description["steps"],
            replicas=description["walks"],
            seed=description["seed"],
            record_every=checkpoints,
            start="uniform",
            x0=None,
            threads=1,
            update=None,
            progress=False,
        )
        means = np.array([mean_over_walks(of_size) for of_size in values])
        found.append([settled_at(step, means, accuracy) for accuracy in ACCURACIES])
        ends.append(means[:, -1])
    steps = np.moveaxis(np.array(found), 1, 2)
    return {"steps": steps, "error": np.array(ends)}, {"spread": spread}


def _from_file(path: Path) -> Network:
    """Read a list of edges and return its largest component."""
    with gzip.open(path, "rt") as file:
        edges = np.loadtxt(file, dtype=np.int64, comments="#")
    return Network.from_edges(edges[:, :2]).largest_component()


@dataclass(frozen=True)
class PhaseCell:
    """What one cell says: the winner, whether that is decided, and the median steps by method."""

    winner: str | None
    decided: bool
    steps: Mapping[str, float]
    runner_up: str | None
    ratio: float  # of the winner's steps to the runner-up's, the median over instances

    def as_json(self) -> dict[str, Any]:
        """Return the cell as plain JSON; not reached is null."""
        return {
            "winner": self.winner,
            "decided": self.decided,
            "runner_up": self.runner_up,
            "ratio": self.ratio if math.isfinite(self.ratio) else None,
            "steps": {
                name: value if math.isfinite(value) else None for name, value in self.steps.items()
            },
        }


def judge_cell(steps: Floats, errors: Floats) -> PhaseCell:
    """Judge one cell at one accuracy.

    Parameters
    ----------
    steps
        (instances, designs, step sizes), infinite where the accuracy is not reached.
    errors
        Array of the same shape: the errors at the end. They choose the step sizes if none suffices.

    Examples
    --------
    >>> steps = np.full((8, 8, 2), 1000.0)
    >>> steps[:, 3] = [[300.0, 200.0]] * 8
    >>> found = judge_cell(steps, np.zeros((8, 8, 2)))
    >>> found.winner, found.decided, found.steps["MHLJ(0.9)"]
    ('MHLJ(0.9)', True, 200.0)
    """
    own = {name: tuned_steps(steps, errors, rows) for name, rows in _ROWS.items()}
    medians = {name: _lower_median(values) for name, values in own.items()}
    order = sorted(medians, key=lambda name: medians[name])
    winner, second = order[0], order[1]
    if not math.isfinite(medians[winner]):
        return PhaseCell(None, False, medians, None, math.nan)
    decided = all((own[winner] < own[name]).all() for name in order[1:])
    with np.errstate(invalid="ignore"):
        ratios = own[winner] / own[second]
    known = ratios[~np.isnan(ratios)]
    return PhaseCell(winner, decided, medians, second, _lower_median(known))


_ROWS = {name: [i] for i, name in enumerate(METHODS[:4])} | {MIXED: list(range(4, 4 + len(MIXES)))}


def _lower_median(values: Floats) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else math.nan


def tuned_steps(steps: Floats, errors: Floats, rows: Sequence[int]) -> Floats:
    """Return the steps of each instance at the design and step size that the other instances
    choose.
    """
    own = steps[:, rows].reshape(len(steps), -1)
    return np.asarray(own[np.arange(len(own)), chosen(steps, errors, rows)])


def chosen(steps: Floats, errors: Floats, rows: Sequence[int]) -> Ints:
    """Return what the other instances choose for each instance: the place in (rows, step sizes),
    counted along the step sizes first.
    """
    instances = len(steps)
    own = steps[:, rows].reshape(instances, -1)
    ends = errors[:, rows].reshape(instances, -1)
    found = np.empty(instances, dtype=np.int64)
    for i in range(instances):
        rest = np.arange(instances) != i
        fewest, error = (
            np.quantile(values[rest], MOST, axis=0, method="inverted_cdf") for values in (own, ends)
        )
        found[i] = np.where(fewest == fewest.min(), error, np.inf).argmin()
    return found


def at_edge(steps: Floats, errors: Floats, name: str) -> int | None:
    """Return on how many instances the first or the last step size is chosen for a method, or None
    if it does not reach the accuracy on most instances. Then more step sizes might have helped.

    Examples
    --------
    >>> steps = np.full((8, 8, 3), 1000.0)
    >>> steps[:, 0] = [[300.0, 200.0, 100.0]] * 8
    >>> at_edge(steps, np.zeros((8, 8, 3)), "UnifRW")
    8
    """
    if not math.isfinite(_lower_median(tuned_steps(steps, errors, _ROWS[name]))):
        return None
    sizes = steps.shape[2]
    size = chosen(steps, errors, _ROWS[name]) % sizes
    return int(((size == 0) | (size == sizes - 1)).sum())
