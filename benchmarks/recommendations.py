"""Judge `lw.recommended` on ten networks that its rules were not made on.

For each network, problem, goal and accuracy, with and without the Newton token: what the
recommended pair takes with the recommended step size, over what the best of the league's contenders
takes with its step size tuned on another instance. The goal is at most 1.5. Beside it, what the
first-order pair takes that the rules name without a trial.

    python benchmarks/recommendations.py --out FOLDER [--networks cliques] [--write] [--check]

Results are stored in FOLDER, so an interrupted run resumes. ``--write`` renews
benchmarks/recommendations.json, ``--check`` exits with code 1 if a goal is not met.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw
from levywalk.json_values import finite
from levywalk.league.cell import marks_of, reached
from levywalk.league.league import LeagueCell, run_league
from levywalk.league.pairs import CONTENDER_NAMES, pairs_named
from levywalk.league.scenes import FULL, OTHER_NETWORKS, network_of, problem_of
from levywalk.trace.costs import PROFILES

MOST = 1.5
MOST_FIRST_ORDER, MOST_NEWTON_TOUR = 16.0, 2.0  # transfers to 1e-6 in units of n, untuned
GOALS, ACCURACIES, PROBLEMS = (
    ("transfers", "bytes", "time", "steps"),
    (1e-3, 1e-6),
    ("snr10", "logistic"),
)
SEEDS, WALKS = (3000, 3001), 4
EFFORT = dataclasses.replace(
    FULL,
    name="recommendations",
    networks=OTHER_NETWORKS,
    problems=PROBLEMS,
    pairs=pairs_named(CONTENDER_NAMES),
    seeds=SEEDS,
    tuning_seeds=(4000,),
    walks=WALKS,
    exponents=(-1.0, 0.0, 1.0, 2.0),
)
FIRST, TOUR = "first order, in n", "Newton token with the tour, in n"
RESULT = Path(__file__).with_name("recommendations.json")


def taken(
    found: lw.Recommendation, network: lw.Network, problem: lw.Problem, seed: int
) -> dict[str, Any]:
    """Return what a recommendation takes to each accuracy, by goal."""
    steps = 60 * network.n
    trace = lw.run(
        network, problem, found.design, update=found.update, step_size=found.step_size,
        steps=steps, replicas=WALKS, seed=seed, record_every=marks_of(steps, network.n),
        record_visits=False, threads=1, measure_loss=16, progress=False,
    )  # fmt: skip
    counts = {name: np.array(values) for name, values in reached(trace, ACCURACIES).items()}
    costs = PROFILES["home-broadband"]
    counts["time"] = costs.seconds(
        counts["steps"], counts["transfers"], counts["small_messages"], counts["bytes"]
    )
    return counts


def judge(name: str, cells: list[LeagueCell]) -> list[dict[str, Any]]:
    """Return one row per problem, goal, accuracy and allowance of a network."""
    rows = []
    for problem in PROBLEMS:
        here = [c for c in cells if (c.network, c.problem) == (name, problem)]
        runs: dict[tuple[str, float, int], dict[str, Any]] = {}
        for allow in (None, "first-order"):
            rivals = [c for c in here if allow is None or not c.pair.newton]
            for goal in GOALS:
                for k, accuracy in enumerate(ACCURACIES):
                    values, best = [], []
                    for j, seed in enumerate(SEEDS):
                        network = network_of(OTHER_NETWORKS[name], seed)
                        data = problem_of(problem, network.n, seed)
                        found = lw.recommended(
                            network, data, goal=goal, accuracy=accuracy, allow=allow
                        )
                        key = (found.pair, found.step_size, seed)
                        if key not in runs:
                            runs[key] = taken(found, network, data, seed)
                        values.append(float(runs[key][goal][k]))
                        best.append([float(c.values(goal, accuracy)[j]) for c in rivals])
                    least = np.mean(best, axis=0)
                    winner = int(np.argmin(least))
                    mine = float(np.mean(values))
                    rows.append(
                        {
                            "network": name,
                            "problem": problem,
                            "goal": goal,
                            "accuracy": accuracy,
                            "allow": allow or "everything",
                            "recommended": found.pair,
                            "taken": mine,
                            "best": rivals[winner].pair.name,
                            "least": float(least[winner]),
                            "ratio": mine / float(least[winner])
                            if math.isfinite(least[winner])
                            else math.nan,
                            "n": network.n,
                        }
                    )
    return rows


def without_trial(name: str) -> float:
    """Return the transfers to 1e-6 in units of n of the first-order pair that the rules name."""
    laps = []
    for seed in SEEDS:
        network = network_of(OTHER_NETWORKS[name], seed)
        data = problem_of("snr10", network.n, seed)
        found = lw.recommended(network, data, allow="first-order", trial=False)
        laps.append(taken(found, network, data, seed)["transfers"][1] / network.n)
    return float(np.mean(laps))


def main() -> None:
    """Run the contenders, judge, print what is not within the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(OTHER_NETWORKS))
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    names = given.networks.split(",")
    rows: list[dict[str, Any]] = []
    untuned: list[dict[str, Any]] = []
    for name in names:
        cells, failures = run_league(
            {name: OTHER_NETWORKS[name]}, EFFORT, given.out, workers=given.workers, progress=False
        )
        if failures:
            raise SystemExit(f"{failures[0].name}: {failures[0].why}")
        rows += judge(name, cells)
        tour = next(c for c in cells if c.problem == "snr10" and c.pair.newton
                    and c.pair.walk == "depth_first_tour")  # fmt: skip
        untuned.append(
            {
                "network": name,
                FIRST: without_trial(name),
                TOUR: float(np.mean(tour.values("transfers", 1e-6)) / tour.numbers["n"]),
            }
        )
        judged = [r for r in rows if r["network"] == name]
        good = sum(r["ratio"] <= MOST for r in judged)
        print(f"{name}: {good} of {len(judged)} within {MOST}; untuned {untuned[-1]}", flush=True)
        for r in judged:
            if not r["ratio"] <= MOST:
                print(f"   {r['ratio']:.2f} {r['problem']} {r['goal']} {r['accuracy']:g} "
                      f"{r['allow']}: {r['recommended']} {r['taken']:.3g}, best {r['best']} "
                      f"{r['least']:.3g}", flush=True)  # fmt: skip
    ratios = np.array([r["ratio"] for r in rows])
    met = int((ratios <= MOST).sum())
    print(f"{met} of {len(rows)} within {MOST}; median {np.nanmedian(ratios):.2f}, "
          f"largest {np.nanmax(ratios):.2f}")  # fmt: skip
    if given.write:
        document = finite({"limit": MOST, "within": met, "of": len(rows), "rows": rows,
                           "untuned": untuned})  # fmt: skip
        RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    late = [
        u for u in untuned if not (u[FIRST] <= MOST_FIRST_ORDER and u[TOUR] <= MOST_NEWTON_TOUR)
    ]
    for row in late:
        print(f"without tuning, more than {MOST_FIRST_ORDER:g} n or {MOST_NEWTON_TOUR:g} n: {row}")
    if given.check and (late or met < len(rows)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
