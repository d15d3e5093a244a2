"""Accuracy against ε on digits, for docs/privacy.md: ``python -m benchmarks.privacy_digits``.

Softmax on scikit-learn's digits, spread evenly over the nodes, a fifth held out. Every image is
divided by its norm, which needs no look at other images, so that one clip and public scores suit
all nodes. Each step size is the best of a few, on a walk that is not reported.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import levywalk as lw
from levywalk.report.figures.privacy import plot_privacy

NODES, STEPS, REPLICAS, SEED, OTHER_SEED = 20, 1000, 3, 0, 1000
BUDGETS = (None, 1.0, 2.0, 4.0, 8.0, 16.0)
CLIP = 0.5
SIZES = (0.03, 0.1, 0.3, 1.0, 3.0)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "privacy-digits.png"


class Digits(lw.Softmax):
    """Nothing here needs the optimum, which takes a minute."""

    optimum = None  # type: ignore[assignment]


def main() -> None:
    warnings.simplefilter("ignore", lw.DataWarning)
    data = load_digits()
    features = data.data / np.linalg.norm(data.data, axis=1)[:, None]
    order = np.random.default_rng(SEED).permutation(len(features))
    out, kept = order[: len(order) // 5], order[len(order) // 5 :]
    node = np.arange(len(kept)) % NODES
    problem = Digits(features[kept], data.target[kept], node=node, ridge=1e-4)
    network = lw.watts_strogatz(NODES, 4, 0.2, seed=SEED)
    accuracy = lw.metrics.accuracy(problem, features[out], data.target[out])
    pairs = {
        "UnifRW + SGD": (lw.unif_rw(), lw.sgd()),
        "MHLJ + SGD, public scores": (lw.mhlj(), lw.sgd()),
        "oldest neighbour + SAGA": (lw.oldest_neighbour(), lw.saga()),
    }
    found: dict[str, Any] = {}
    for name, (design, update) in pairs.items():
        law = design.bind(network, problem).law
        cap = math.ceil(2.0 * STEPS * float(law.max()))
        rows = []
        for budget in BUDGETS:
            privacy = None
            if budget is not None:
                privacy = lw.Privacy.calibrated(
                    clip=CLIP, budget=budget, updates=cap, scores="public"
                )

            def reached(size: float, replicas: int, seed: int) -> tuple[list[float], lw.Trace]:
                trace = lw.run(
                    network,
                    problem,
                    design,  # noqa: B023
                    update=update,  # noqa: B023
                    privacy=privacy,  # noqa: B023
                    steps=STEPS,
                    step_size=size,
                    replicas=replicas,
                    seed=seed,
                    record_every=STEPS,
                    measure_loss=1,
                )
                models = trace.model.reshape(replicas, -1, 10)
                return [float(accuracy(model)) for model in models], trace

            best = max(SIZES, key=lambda size: reached(size, 1, OTHER_SEED)[0][0])
            values, trace = reached(best, REPLICAS, SEED)
            row: dict[str, Any] = {
                "budget": budget,
                "step_size": best,
                "value": float(np.mean(values)),
                "low": min(values),
                "high": max(values),
            }
            if privacy is not None:
                row |= {"noise": privacy.noise}
                row |= {
                    key: trace.provenance["privacy"][key]
                    for key in ("updates_at_cap", "epsilon_spent", "nodes_out_of_budget")
                }
            rows.append(row)
            print(name, json.dumps(row), flush=True)
        found[name] = {
            "quantity": "accuracy",
            "higher_is_better": True,
            "privacy": {"delta": 1e-5},
            "without": rows[0],
            "budgets": rows[1:],
        }
    plot_privacy(found, path=FIGURE, title=f"digits over {NODES} nodes; dotted: without privacy")


if __name__ == "__main__":
    main()
