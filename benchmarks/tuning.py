"""How far the reported steps are from the tuned ones, with the tuner and with the rule before it.

    python -m benchmarks.tuning [--json FILE]      (about ten minutes)

Fixed before the first run: 40 instances (ring, grid, Watts-Strogatz and Erdős–Rényi networks in
turn, 100 to 1000 nodes, heterogeneous data with one to three important nodes, seeds 0 to 39), each
at three noise levels, ‖truth‖²/noise² = 10, 115 and 33,000; UnifRW, WeightRW and MHLJ; 16 walks of
20,000 steps; 3 % of the initial error. A case *exceeds* if the reported steps are more than 1.25
times the tuned ones, both of the mean over walks; not reached exceeds too. Cases whose tuning walks
do not reach the accuracy at the step size that is taken are left out and counted.

- *before*: the step size, four a decade, whose mean over tuning walks settles first;
- *after*: the step size of `compare`;
- *again*: the step size of `compare`, reported twice with other walks: by how much two reports
  differ whose step size neither has chosen. No tuner can be better than this.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from levywalk.reproduction.measurement import geometric_checkpoints

SNRS = (10.0, 115.0, 33_000.0)
INSTANCES = range(40)
STEPS, WALKS, ACCURACY = 20_000, 16, 0.03
DESIGNS = {"UnifRW": lw.unif_rw(), "WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()}
HOW: dict[str, Any] = {
    "steps": STEPS,
    "replicas": WALKS,
    "record_every": geometric_checkpoints(STEPS),
    "progress": False,
}
RULES = ("before", "after", "again")


def network_of(seed: int) -> lw.Network:
    """Return the network of an instance: the family by turns, 100 to 1000 nodes."""
    n = 100 + 100 * (seed // 4)
    if seed % 4 == 0:
        return lw.ring(n)
    if seed % 4 == 1:
        return lw.grid(10, n // 10)
    if seed % 4 == 2:
        return lw.watts_strogatz(n, 4, 0.1, seed=seed).largest_component()
    return lw.erdos_renyi(n, 10.0 / n, seed=seed).largest_component()


def problem_of(n: int, seed: int, snr: float) -> lw.LeastSquares:
    """Return the data of an instance at a noise level."""
    how: dict[str, Any] = {"important": 1 + seed % 3, "seed": seed}
    truth = lw.heterogeneous(n, **how).truth
    return lw.heterogeneous(n, noise=float(np.linalg.norm(truth)) / math.sqrt(snr), **how)


def pairs_of(seed: int, snr: float) -> list[dict[str, Any]]:
    """Return, for each design and rule, the tuned and the reported steps of an instance."""
    network = network_of(seed)
    problem = problem_of(network.n, seed, snr)
    found = lw.compare(network, problem, DESIGNS, accuracy=ACCURACY, seed=seed, **HOW)
    pairs = []
    for name, design in DESIGNS.items():

        def reported(size: float, other: int = 0, design: lw.Walk = design) -> float:
            trace = lw.run(
                network, problem, design, step_size=size, seed=seed + other, update=None, **HOW
            )
            return trace.steps_to(ACCURACY)

        taken = next(t for t in found.sweep[name] if t.step_size == found.step_size[name])
        coarse = [t for t in found.sweep[name] if _on_coarse_grid(t.relative)]
        lucky = min(coarse, key=lambda t: (t.steps_to, t.final_error))
        _, low, high = found.steps_interval(name)
        after = found.steps_to[name]
        again = reported(taken.step_size, 1_000_003)
        steps = {
            "before": (lucky.steps_to, reported(lucky.step_size)),
            "after": (taken.steps_to, after),
            "again": (after, again),
        }
        pairs += [
            {"snr": snr, "seed": seed, "design": name, "rule": rule, "tuned": a, "reported": b}
            | ({"low": low, "high": high} if rule == "after" else {})
            for rule, (a, b) in steps.items()
        ]
    return pairs


def _on_coarse_grid(relative: float) -> bool:
    quarter = 4.0 * math.log10(relative)
    return abs(quarter - round(quarter)) < 1e-6


def exceeding(pairs: list[dict[str, Any]], factor: float) -> tuple[int, int]:
    """Return how many reported steps exceed the tuned ones by a factor, and of how many."""
    known = [pair for pair in pairs if math.isfinite(pair["tuned"])]
    return sum(pair["reported"] > factor * pair["tuned"] for pair in known), len(known)


def table(pairs: list[dict[str, Any]]) -> list[str]:
    """Return the result as a Markdown table."""
    lines = ["| noise (SNR) | rule | reported > 1.25 · tuned | > 2 · tuned | > 5 · tuned | cases |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for snr in (*SNRS, None):
        for rule in RULES:
            of = [p for p in pairs if p["rule"] == rule and snr in (None, p["snr"])]
            cells = [exceeding(of, factor) for factor in (1.25, 2.0, 5.0)]
            shares = " | ".join(f"{100 * many / total:.1f} %" for many, total in cells)
            level = "all" if snr is None else f"{snr:,.0f}"
            lines.append(f"| {level} | {rule} | {shares} | {cells[0][1]} of {len(of)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all pairs to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore", lw.DataWarning)
    pairs = [pair for seed in INSTANCES for snr in SNRS for pair in pairs_of(seed, snr)]
    if given.json is not None:
        given.json.write_text(json.dumps(pairs, indent=0) + "\n", encoding="utf-8")
    print("\n".join(table(pairs)))


if __name__ == "__main__":
    main()
