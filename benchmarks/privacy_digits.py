"""Accuracy against ε on digits, for docs/privacy.md: ``python -m benchmarks.privacy_digits``.

Softmax on scikit-learn's digits, spread evenly over the nodes, a fifth held out. Every image is
divided by its norm, which needs no look at other images, so that one clip and public scores suit
all nodes. An instance has its own held-out images, parts of the nodes, network and walk. Step sizes
are chosen on three instances, and others are reported. The recommended pair is that of the first
instance that step sizes are chosen on.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student
from sklearn.datasets import load_digits

import levywalk as lw
from levywalk.report.figures.privacy import plot_privacy

NODES, STEPS = 20, 1000
REPORTED, TUNED_ON = range(20, 30), range(1000, 1003)  # seeds of the instances
BUDGETS = (None, 1.0, 2.0, 4.0, 8.0, 16.0)
CLIP = 0.5
SIZES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "privacy-digits.png"


class Digits(lw.Softmax):
    """Nothing here needs the optimum, which takes a minute."""

    optimum = None  # type: ignore[assignment]


class Instance(NamedTuple):
    """A network with digits at its nodes, and others to judge models by."""

    seed: int
    network: lw.Network
    problem: lw.Softmax
    accuracy: Any

    @classmethod
    def of(cls, seed: int) -> Instance:
        data = load_digits()
        features = data.data / np.linalg.norm(data.data, axis=1)[:, None]
        order = np.random.default_rng(seed).permutation(len(features))
        out, kept = order[: len(order) // 5], order[len(order) // 5 :]
        node = np.arange(len(kept)) % NODES
        problem = Digits(features[kept], data.target[kept], node=node, ridge=1e-4)
        network = lw.watts_strogatz(NODES, 4, 0.2, seed=seed)
        accuracy = lw.metrics.accuracy(problem, features[out], data.target[out])
        return cls(seed, network, problem, accuracy)

    def reached(
        self, design: lw.Walk, update: lw.Update, privacy: lw.Privacy | None, size: float
    ) -> tuple[float, lw.Trace]:
        """Return the accuracy on held-out images at the end of a walk, and the walk."""
        trace = lw.run(
            self.network,
            self.problem,
            design,
            update=update,
            privacy=privacy,
            steps=STEPS,
            step_size=size,
            seed=self.seed,
            record_every=STEPS,
            record_visits=True,
            measure_loss=1,
        )
        return float(self.accuracy(trace.model[0].reshape(-1, 10))), trace


def recommended(instance: Instance) -> lw.Recommendation:
    """Return the pair that the library recommends under privacy with public scores."""
    privacy = lw.Privacy(clip=CLIP, noise=1.0, scores="public")
    return lw.recommended(instance.network, instance.problem, privacy=privacy)


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval, by Student's t."""
    mean, count = float(np.mean(values)), len(values)
    half = float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return mean, mean - half, mean + half


def main() -> None:
    warnings.simplefilter("ignore", lw.DataWarning)
    tuned_on = [Instance.of(seed) for seed in TUNED_ON]
    reported = [Instance.of(seed) for seed in REPORTED]
    best = recommended(tuned_on[0])
    print(best.pair, best.why, flush=True)
    pairs = {
        "UnifRW + SGD": (lw.unif_rw(), lw.sgd()),
        "MHLJ + SGD, public scores": (lw.mhlj(), lw.sgd()),
        f"{best.walk.upper()} + {best.update.name.upper()}, recommended": (
            best.design,
            best.update,
        ),
        "oldest neighbour + SAGA": (lw.oldest_neighbour(), lw.saga()),
    }
    found: dict[str, Any] = {}
    for name, (design, update) in pairs.items():
        # a fifth more than the updates of the node that is visited most
        seen = [one.reached(design, update, None, SIZES[0])[1].visits for one in tuned_on]
        cap = math.ceil(1.2 * max(int(visits.max()) for visits in seen if visits is not None))
        rows = []
        for budget in BUDGETS:
            privacy = None
            if budget is not None:
                privacy = lw.Privacy.calibrated(
                    clip=CLIP, budget=budget, updates=cap, scores="public"
                )
            means = {
                size: np.mean([one.reached(design, update, privacy, size)[0] for one in tuned_on])
                for size in SIZES
            }
            size = max(means, key=lambda size: float(means[size]))
            values = [one.reached(design, update, privacy, size)[0] for one in reported]
            value, low, high = interval(values)
            row: dict[str, Any] = {"budget": budget, "step_size": size}
            row |= {"value": value, "low": low, "high": high, "values": values}
            if privacy is not None:
                row |= {"noise": privacy.noise, "updates_at_cap": cap}
            rows.append(row)
            print(name, json.dumps(row), flush=True)
        found[name] = {
            "quantity": "accuracy",
            "higher_is_better": True,
            "privacy": {"delta": 1e-5},
            "without": rows[0],
            "budgets": rows[1:],
        }
    title = f"digits over {NODES} nodes, mean and 95 % interval of {len(REPORTED)} instances"
    plot_privacy(found, path=FIGURE, title=f"{title}; dotted: without privacy")


if __name__ == "__main__":
    main()
