"""How good the forecasts of `levywalk.predict` are, against simulation.

Two sets of instances are written down here, before any forecast is judged: thresholds are fixed on
the set "design", and the set "judged" is used once, to report. They share no seed, no network and
no data. ``python -m benchmarks.predictions simulate design`` measures what a tuned comparison
finds, ``… predict design`` adds the forecasts, and ``… judge design`` prints the figures. Each can
be interrupted: what `predictions_design.json` contains already is not computed again.

The simulation, for each method: 64 walks from a uniform start and x⁰ = 0, step sizes γL* =
10^(k/4) from 0.001 to 10, then 10^(k/16) around the best. The best step size has the fewest steps
to the accuracy among those with a mean error over the last quarter of the run of at most half the
accuracy. Runs are made four times as long until that takes at most a quarter of the run, up to
65,536 steps (16,384 for logistic regression). The steps that count are those of 256 other walks at
that step size: the first checkpoint after which the mean over walks stays at or below the accuracy.

The figures, fixed beforehand: a forecast is within a factor of 2 if forecast/simulated is between
1/2 and 2; if the accuracy is not reached in the longest run, the forecast must be at least half of
that (or "never"). Kendall's τ (τ-b) compares the order of the methods of an instance by forecast
and by simulation, with everything beyond the longest run as one tie.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from levywalk.engine import run_step_sizes
from levywalk.trace.statistics import mean_over_walks, settled_at

FOLDER = Path(__file__).parent
GNUTELLA = FOLDER.parent / "tests" / "data" / "p2p-Gnutella08.edges.gz"
WALKS, REPORTED_WALKS = 64, 256
FIRST_STEPS = 2**12
COARSE = np.arange(-3.0, 1.01, 0.25)  # decimal exponents of γL*
FINE = np.arange(-3, 4) / 16.0
METHODS: dict[str, lw.Design] = {
    "SimpleRW": lw.simple_rw(reweight=True),
    "UnifRW": lw.unif_rw(),
    "WeightRW": lw.weight_rw(),
    "MixedRW": lw.mixed_rw(0.5),
    "MHLJ(0.1)": lw.mhlj(0.1),
    "MHLJ(0.9)": lw.mhlj(0.9),
    "i.i.d.": lw.iid_weighted(),
}
SNR = (10.0, 115.0, 33_000.0)
DIMS = (3, 5, 10)
ACCURACIES = (0.1, 0.01)


def gnutella(root: int, n: int) -> lw.Network:
    """Return the n nodes of the peer-to-peer network that are nearest to one of them."""
    whole = lw.read_network(GNUTELLA)
    near, queue = {root: 0}, deque([root])
    while queue and len(near) < n:
        v = queue.popleft()
        for u in whole.indices[whole.indptr[v] : whole.indptr[v + 1]].tolist():
            if u not in near and len(near) < n:
                near[u] = len(near)
                queue.append(u)
    edges = [
        (near[v], near[u])
        for v in near
        for u in whole.indices[whole.indptr[v] : whole.indptr[v + 1]].tolist()
        if u in near and v < u
    ]
    return lw.Network.from_edges(np.array(edges), n=n)


NETWORKS: dict[str, dict[str, Callable[[], lw.Network]]] = {
    "design": {
        "ring 60": lambda: lw.ring(60),
        "ring 150": lambda: lw.ring(150),
        "grid 10 x 10": lambda: lw.grid(10, 10),
        "WS 100": lambda: lw.watts_strogatz(100, 4, 0.1, seed=11),
        "WS 240": lambda: lw.watts_strogatz(240, 6, 0.3, seed=12),
        "ER 120": lambda: lw.erdos_renyi(120, 0.06, seed=13).largest_component(),
        "BA 140": lambda: lw.barabasi_albert(140, 2, seed=14),
        "barbell 20": lambda: lw.barbell(20, 10),
        "star 70": lambda: lw.star(70),
        "regular 160": lambda: lw.random_regular(160, 3, seed=15),
        "Gnutella 130": lambda: gnutella(100, 130),
    },
    "judged": {
        "ring 50": lambda: lw.ring(50),
        "ring 80": lambda: lw.ring(80),
        "ring 200": lambda: lw.ring(200),
        "path 64": lambda: lw.path(64),
        "grid 8 x 16": lambda: lw.grid(8, 16),
        "torus 12 x 15": lambda: lw.torus(12, 15),
        "WS 130": lambda: lw.watts_strogatz(130, 4, 0.05, seed=21),
        "WS 220": lambda: lw.watts_strogatz(220, 4, 0.2, seed=22),
        "WS 400": lambda: lw.watts_strogatz(400, 6, 0.1, seed=23),
        "ER 100": lambda: lw.erdos_renyi(100, 0.08, seed=24).largest_component(),
        "ER 300": lambda: lw.erdos_renyi(300, 0.03, seed=25).largest_component(),
        "BA 110": lambda: lw.barabasi_albert(110, 3, seed=26),
        "BA tree 180": lambda: lw.barabasi_albert(180, 1, seed=27),
        "barbell 25": lambda: lw.barbell(25, 6),
        "star 90": lambda: lw.star(90),
        "regular 200": lambda: lw.random_regular(200, 4, seed=28),
        "Gnutella 100": lambda: gnutella(900, 100),
        "Gnutella 250": lambda: gnutella(2_000, 250),
    },
}
FIRST_SEED = {"design": 1_000, "judged": 7_000}


@dataclass(frozen=True)
class Instance:
    """A network, data on it and an accuracy."""

    name: str
    network: Callable[[], lw.Network]
    data: str
    important: int
    snr: float
    dim: int
    accuracy: float
    seed: int

    @property
    def longest(self) -> int:
        """The steps of the longest run."""
        return 2**14 if self.data == "logistic" else 2**16

    def problem(self, n: int) -> Any:
        """Draw the data for n nodes."""
        if self.data == "one sample":
            return least_squares(n, self.dim, self.important, self.snr, self.seed)
        return several_samples(n, self)


def instances(which: str) -> list[Instance]:
    """Return the instances of a set: twelve per network."""
    found = []
    for place, (name, network) in enumerate(NETWORKS[which].items()):
        kinds = [("one sample", important, snr) for important in (0, 1, 3) for snr in SNR]
        kinds += [("several samples", 2, 115.0), ("logistic", 0, 1.0), ("logistic", 2, 4.0)]
        for number, (data, important, snr) in enumerate(kinds):
            found.append(
                Instance(
                    name=f"{name}, {data}, {important} important, snr {snr:g}",
                    network=network,
                    data=data,
                    important=important,
                    snr=snr,
                    dim=DIMS[(place + number // 3) % len(DIMS)],
                    accuracy=ACCURACIES[(place + number) % len(ACCURACIES)],
                    seed=FIRST_SEED[which] + 12 * place + number,
                )
            )
    return found


def least_squares(n: int, dim: int, important: int, snr: float, seed: int) -> lw.LeastSquares:
    """Draw the paper's data with ‖truth‖²/noise² = snr."""
    truth = lw.heterogeneous(n, dim, important=important, seed=seed).truth
    noise = float(np.sqrt(truth @ truth / snr))
    return lw.heterogeneous(n, dim, noise=noise, important=important, seed=seed)


def several_samples(n: int, instance: Instance) -> Any:
    """Draw one to five samples per node; the features of important nodes are five times as long.

    For logistic regression ``snr`` is ‖truth‖², and the ridge is 0.05.
    """
    rng = np.random.default_rng(instance.seed)
    node = np.repeat(np.arange(n), rng.integers(1, 6, n))
    features = rng.standard_normal((len(node), instance.dim))
    chosen = rng.choice(n, instance.important, replace=False)
    features[np.isin(node, chosen)] *= 5.0
    truth = rng.standard_normal(instance.dim)
    if instance.data == "several samples":
        noise = np.sqrt(truth @ truth / instance.snr) * rng.standard_normal(len(node))
        return lw.LeastSquares(features, features @ truth + noise, node=node, ridge=0.01)
    truth *= np.sqrt(instance.snr / (truth @ truth))
    labels = rng.random(len(node)) < 1.0 / (1.0 + np.exp(-features @ truth))
    return lw.Logistic(features, labels.astype(np.int64), node=node, ridge=0.05)


def simulate(instance: Instance) -> dict[str, Any]:
    """Measure the steps of each method at its best step size."""
    network = instance.network()
    problem = instance.problem(network.n)
    found = {}
    for name, design in METHODS.items():
        began = time.process_time()
        steps, relative = measured(network, problem, design, instance)
        seconds = round(time.process_time() - began, 2)
        found[name] = {"steps": steps, "relative": relative, "seconds": seconds}
    return found


def measured(
    network: lw.Network, problem: Any, design: lw.Design, instance: Instance
) -> tuple[float | None, float | None]:
    """Return the steps of the mean over walks at the best step size, and γL*; None if the accuracy
    is not reached.
    """
    largest = design.bind(network, problem).largest
    accuracy, seed = instance.accuracy, instance.seed

    def trial(exponents: Any, steps: int, seed: int, walks: int) -> tuple[Any, Any]:
        step = checkpoints(steps)
        trace = run_step_sizes(
            network,
            problem,
            design,
            10.0**exponents / largest,
            steps=steps,
            replicas=walks,
            seed=seed,
            record_every=step,
            start="uniform",
            x0=None,
            threads=1,
            update=None,
            progress=False,
        )
        errors = trace.distance2.reshape(len(exponents), walks, -1)
        curves = np.array([mean_over_walks(one) / one[0, 0] for one in errors])
        floor = curves[:, step >= 0.75 * steps].mean(axis=1)
        return settled_at(step, curves, accuracy), floor

    def best(exponents: Any, steps: int) -> tuple[float, float]:
        times, floor = trial(exponents, steps, seed, WALKS)
        times = np.where(floor <= 0.5 * accuracy, times, np.inf)
        return float(times.min()), float(exponents[times.argmin()])

    steps = FIRST_STEPS
    while True:
        fewest, exponent = best(COARSE, steps)
        if fewest <= steps / 4 or steps >= instance.longest:
            break
        steps = min(4 * steps, instance.longest)
    if not np.isfinite(fewest):
        return None, None
    fewest, exponent = best(exponent + FINE, steps)
    if not np.isfinite(fewest):
        return None, None
    reported = float(trial(np.array([exponent]), steps, seed + 500_000, REPORTED_WALKS)[0][0])
    return (reported if np.isfinite(reported) else None), 10.0**exponent


def checkpoints(steps: int) -> Any:
    """Return checkpoints 3 % apart, and even ones, 0 and the last among them."""
    fine = np.round(1.03 ** np.arange(0.0, np.log(steps) / np.log(1.03)))
    return np.unique(np.concatenate([[0], fine, np.linspace(0, steps, 101)]).astype(np.int64))


def forecast(instance: Instance) -> dict[str, Any]:
    """Return the forecast of each method."""
    network = instance.network()
    problem = instance.problem(network.n)
    found = {}
    for name, design in METHODS.items():
        began = time.process_time()
        guess = lw.predict(network, problem, design, accuracy=instance.accuracy)
        found[name] = {
            "steps": guess.steps if np.isfinite(guess.steps) else None,
            "relative": guess.relative_step_size,
            "trusted": getattr(guess, "trusted", None),
            "reason": getattr(guess, "reason", ""),
            "seconds": round(time.process_time() - began, 2),
        }
    return found


def within_2(simulated: float | None, predicted: float | None, longest: int) -> bool:
    """Return whether a forecast is within a factor of 2."""
    if simulated is None:
        return predicted is None or predicted >= 0.5 * longest
    return predicted is not None and 0.5 <= predicted / simulated <= 2.0


def kendall(pairs: list[tuple[float | None, float | None]], longest: int) -> float:
    """Return Kendall's τ-b of simulated and predicted steps; all beyond the longest run tie."""
    from scipy.stats import kendalltau

    columns = [
        [np.inf if x is None or x > longest else x for x in one] for one in zip(*pairs, strict=True)
    ]
    ranks = [np.searchsorted(np.unique(column), column) for column in columns]
    return float(kendalltau(*ranks).statistic)


def judge(which: str, records: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a set; τ of trusted forecasts is over the trusted methods of an
    instance, if there are at least four.
    """
    every, trusted, taus, trusted_taus, full = [], [], [], [], 0
    for instance in instances(which):
        record, longest = records[instance.name], instance.longest
        simulated, predicted = record["simulated"], record["predicted"]
        steps = {name: (simulated[name]["steps"], predicted[name]["steps"]) for name in METHODS}
        good = [name for name in METHODS if predicted[name]["trusted"]]
        every += [within_2(*steps[name], longest) for name in METHODS]
        trusted += [within_2(*steps[name], longest) for name in good]
        taus.append(kendall(list(steps.values()), longest))
        full += len(good) == len(METHODS)
        if len(good) >= 4:
            trusted_taus.append(kendall([steps[name] for name in good], longest))
    return {
        "instances": len(taus),
        "forecasts": len(every),
        "within a factor of 2, all": float(np.mean(every)),
        "Kendall's τ, all: median": float(np.nanmedian(taus)),
        "Kendall's τ, all: least": float(np.nanmin(taus)),
        "share of forecasts that are trusted": len(trusted) / len(every),
        "share of instances with all methods trusted": full / len(taus),
        "within a factor of 2, trusted": float(np.mean(trusted)) if trusted else None,
        "Kendall's τ, trusted: median": float(np.nanmedian(trusted_taus)) if trusted_taus else None,
        "Kendall's τ, trusted: least": float(np.nanmin(trusted_taus)) if trusted_taus else None,
        "Kendall's τ, trusted: instances": len(trusted_taus),
    }


def _path(which: str) -> Path:
    return FOLDER / f"predictions_{which}.json"


def _read(which: str) -> dict[str, Any]:
    path = _path(which)
    return json.loads(path.read_text()) if path.exists() else {}


def _work(which: str, key: str, work: Callable[[Instance], Any], processes: int) -> Iterator[str]:
    """Compute what is missing, in several processes; write after every instance."""
    records, whole = _read(which), instances(which)
    for instance in whole:
        records.setdefault(instance.name, {"accuracy": instance.accuracy})
    missing = [place for place, one in enumerate(whole) if key not in records[one.name]]
    with Pool(processes) as pool:
        for place, found in pool.imap_unordered(partial(_one, which, work), missing):
            records[whole[place].name][key] = found
            lines = (
                f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v, ensure_ascii=False)}"
                for k, v in records.items()
            )
            _path(which).write_text("{\n" + ",\n".join(lines) + "\n}\n")
            yield whole[place].name


def _one(which: str, work: Callable[[Instance], Any], place: int) -> tuple[int, Any]:
    return place, work(instances(which)[place])


def main() -> None:
    """Do one part of the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("simulate", "predict", "judge"))
    parser.add_argument("set", choices=tuple(NETWORKS))
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.part == "judge":
        for name, value in judge(options.set, _read(options.set)).items():
            print(
                f"{name}: {value if isinstance(value, int) or value is None else round(value, 3)}"
            )
        return
    key, work = ("simulated", simulate) if options.part == "simulate" else ("predicted", forecast)
    for name in _work(options.set, key, work, options.processes):
        print(name, flush=True)


if __name__ == "__main__":
    main()
