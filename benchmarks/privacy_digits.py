"""Accuracy against ε on digits, for docs/privacy.md: ``python benchmarks/privacy_digits.py``.

Softmax on scikit-learn's digits, spread evenly over the nodes, a fifth held out. Every pixel is
divided by 16 and every image by its norm, which needs no look at the data, so that one clip and
public scores suit all nodes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import levywalk as lw
from levywalk.experiments.privacy_curve import privacy_curve
from levywalk.report.figures.privacy import plot_privacy

NODES, STEPS, REPLICAS, SEED = 20, 2000, 4, 0
BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0)
CLIP = 0.5
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "privacy-digits.png"


def main() -> None:
    data = load_digits()
    features = data.data / 16.0
    features /= np.linalg.norm(features, axis=1)[:, None]
    order = np.random.default_rng(SEED).permutation(len(features))
    out, kept = order[: len(order) // 5], order[len(order) // 5 :]
    node = np.arange(len(kept)) % NODES
    problem = lw.Softmax(features[kept], data.target[kept], node=node, ridge=1e-4)
    network = lw.watts_strogatz(NODES, 4, 0.2, seed=SEED)
    metrics = {"accuracy": lw.metrics.accuracy(problem, features[out], data.target[out])}
    pairs = {
        "UnifRW + SGD": (lw.unif_rw(), lw.sgd()),
        "MHLJ + SGD, public scores": (lw.mhlj(), lw.sgd()),
        "oldest neighbour + SAGA": (lw.oldest_neighbour(), lw.saga()),
    }
    found = {}
    for name, (design, update) in pairs.items():
        began = time.process_time()
        curve = privacy_curve(
            network,
            problem,
            design,
            update=update,
            clip=CLIP,
            steps=STEPS,
            budgets=BUDGETS,
            replicas=REPLICAS,
            seed=SEED,
            metrics=metrics,
            scores="public",
            progress=False,
        )
        found[name] = curve.document()
        print(f"{name}: {time.process_time() - began:.0f} s of CPU time", file=sys.stderr)
        for row in [*curve.rows, curve.without]:
            print(name, json.dumps(row), flush=True)
    plot_privacy(found, path=FIGURE, title="digits over 20 nodes; dotted: without privacy")


if __name__ == "__main__":
    main()
