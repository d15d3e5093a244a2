"""Digits cut by label: accuracy against transfers, for softmax regression, an MLP and a CNN.

``python -m benchmarks.digits`` writes docs/digits.md and its figure. What has been measured is kept
in benchmarks/digits_results.json, and only what is missing is computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import levywalk as lw
from levywalk.league import scenes

DOCS = Path(__file__).parents[1] / "docs"
NODES, REPLICAS, STEPS, POINTS, MINIBATCH = 100, 4, 20_000, 12, 4
SIZE, SAGA_SIZE, GOSSIP_SIZE = 0.1, 0.05, 0.1
ROUNDS = (3, 10, 30, 100)
MODELS = ("softmax", "MLP", "CNN")
METHODS = 6  # of a model on a network
PAGE = Path(__file__).with_name("digits_page.md").read_text(encoding="utf-8")
RESULTS = Path(__file__).with_name("digits_results.json")
RECOMMENDED = "recommended"


def data() -> tuple[Any, Any, Any, Any, Any]:
    """Return training and test images, and the node of each image: cut by label."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16.0).astype(np.float32), labels[order]
    node = lw.partition(images[:1400], labels[:1400], NODES, how="label", seed=0)
    return images[:1400], labels[:1400], node, images[1400:], labels[1400:]


def networks() -> dict[str, tuple[Any, Any]]:
    """Return the networks, and the nodes that hold the data of each part."""
    large = scenes.network_of({"family": "gnutella"}, 0)
    spread = np.sort(np.random.default_rng(1).choice(large.n, NODES, replace=False))
    return {
        "ring": (lw.ring(NODES), np.arange(NODES)),
        "Watts-Strogatz": (lw.watts_strogatz(NODES, 4, 0.1), np.arange(NODES)),
        "Gnutella": (large, spread),
    }


def problem_of(kind: str, images: Any, labels: Any, node: Any) -> tuple[Any, Callable[..., Any]]:
    """Return a problem, and the classes that a model predicts."""
    if kind == "softmax":
        linear = lw.Softmax(images, labels, node=node, ridge=1e-3, idle="pass")
        return linear, lambda x, given: linear.predict(x, given)
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(2)

    def weights(*shape: int) -> Any:
        return rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))

    params: dict[str, Any] = {"bias": np.zeros(10)}
    if kind == "MLP":
        params |= {"first": weights(64, 32), "shift": np.zeros(32), "last": weights(32, 10)}
    else:
        params |= {"filters": weights(3, 3, 1, 8).transpose(3, 2, 0, 1), "last": weights(288, 10)}

    def apply(params: Any, x: Any) -> Any:
        if "filters" in params:
            maps = jax.lax.conv_general_dilated(
                x.reshape(-1, 1, 8, 8), params["filters"], (1, 1), "VALID"
            )
            x = jnp.maximum(maps, 0.0).reshape(len(x), -1)
        else:
            x = jnp.tanh(x @ params["first"] + params["shift"])
        return x @ params["last"] + params["bias"]

    def loss(z: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], axis=1).mean()

    made = lw.jax_problem(
        apply, params, loss, images, labels, node, idle="pass", smoothness="hessian"
    )
    return made, lambda x, given: made.predict(x, given).argmax(axis=1)


def methods(network: Any, problem: Any) -> dict[str, tuple[Any, Any, float]]:
    """Return the walks, each with its update and step size."""
    best = lw.recommended(network, problem)
    drawn = lw.sgd(minibatch=MINIBATCH)
    return {
        "UnifRW": (lw.unif_rw(), drawn, SIZE),
        "WeightRW": (lw.weight_rw(), drawn, SIZE),
        "MHLJ": (lw.mhlj(), drawn, SIZE),
        "MHDA + SAGA": (lw.mhda(), lw.saga(), SAGA_SIZE),
        RECOMMENDED: (best.design, best.update, best.step_size),
    }


def walked(network: Any, problem: Any, predict: Any, method: Any, test: Any) -> dict[str, Any]:
    """Return accuracy and transfers along a walk, mean over replicas."""
    design, update, size = method
    features, labels = test
    trace = lw.run(
        network,
        problem,
        design,
        steps=STEPS,
        step_size=size,
        update=update,
        replicas=REPLICAS,
        record_every=np.unique(np.geomspace(100, STEPS, POINTS).astype(int)),
        record_walk=True,
        measure_loss=1,
        metrics={"accuracy": lambda model: float((predict(model, features) == labels).mean())},
        measure_metrics="all",
        threads=1,
        progress=False,
    )
    at = np.isin(trace.step, trace.metric_step)
    right = trace.metrics["accuracy"][:, at]
    sent = trace.transfers[:, at].mean(axis=0)
    curve = np.column_stack([sent, right.mean(axis=0), right.std(axis=0)])[1:]
    return {"curve": curve.tolist(), "dwell": int(trace.longest_dwell()[0].max())}


def gossiped(network: Any, problem: Any, predict: Any, test: Any) -> dict[str, Any]:
    """Return accuracy of the mean model and transfers of D-SGD."""
    features, labels = test
    trace = lw.gossip(
        network,
        problem,
        "dsgd",
        iterations=ROUNDS[-1],
        step_size=GOSSIP_SIZE,
        record_every=ROUNDS,
        metrics={"accuracy": lambda model: float((predict(model, features) == labels).mean())},
    )
    right = trace.metrics["accuracy"][0]
    curve = np.column_stack([trace.transfers[0], right, np.zeros(len(right))])[1:]
    return {"curve": curve.tolist(), "dwell": 0}


def measure(file: Path) -> dict[str, Any]:
    """Return all cells; what the file has is not computed again."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    images, labels, node, *test = data()
    warnings.simplefilter("ignore", lw.DataWarning)
    for kind in MODELS:
        for title, (network, holders) in networks().items():
            if sum(key.startswith(f"{kind} | {title} | ") for key in found) == METHODS:
                continue
            problem, predict = problem_of(kind, images, labels, holders[node])
            L = np.asarray(problem.smoothness)
            for name, method in methods(network, problem).items():
                key = f"{kind} | {title} | {name}"
                if key not in found:
                    found[key] = walked(network, problem, predict, method, test)
                    found[key]["importance"] = float(L.max() / L.mean())
                    found[key]["pair"] = f"{method[0].name} + {method[1].name}"
                    found[key]["step_size"] = method[2]
                    _write(file, found, key)
            key = f"{kind} | {title} | D-SGD gossip"
            if key not in found:
                found[key] = gossiped(network, problem, predict, test)
                _write(file, found, key)
    return found


def _write(file: Path, found: dict[str, Any], key: str) -> None:
    print(key, found[key]["curve"][-1], flush=True)
    file.write_text(json.dumps(found, indent=1) + "\n")


def table(found: dict[str, Any]) -> str:
    """Return the table: accuracy at the end, transfers to 90 %, and the longest stay."""
    lines = [
        "| model | network | method | accuracy at the end | transfers | transfers to 80 % | "
        "longest stay |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for key, cell in found.items():
        curve = cell["curve"]
        reached = [sent for sent, right, _ in curve if right >= 0.8]
        goal = f"{reached[0]:,.0f}" if reached else "not reached"
        stay = cell["dwell"] or "–"
        if key.endswith(RECOMMENDED):
            key += f": {cell['pair']}, γ = {cell['step_size']:.2g}"
        lines.append(
            f"| {key} | {100 * curve[-1][1]:.1f} % | {curve[-1][0]:,.0f} | {goal} | {stay} |"
        )
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw accuracy against transfers, one panel per model and network."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    titles = list(dict.fromkeys(key.split(" | ")[1] for key in found))
    kinds = list(dict.fromkeys(key.split(" | ")[0] for key in found))
    figure, axes = plt.subplots(
        len(kinds), len(titles), figsize=(3.6 * len(titles), 2.7 * len(kinds)), squeeze=False,
        sharey=True, layout="constrained",
    )  # fmt: skip
    for key, cell in found.items():
        kind, title, name = key.split(" | ")
        axis = axes[kinds.index(kind), titles.index(title)]
        curve = np.array(cell["curve"])
        if name == RECOMMENDED:
            name = f"{RECOMMENDED} ({cell['pair']})"
        axis.plot(curve[:, 0], 100 * curve[:, 1], marker=".", label=name)
        axis.set_xscale("log")
        axis.set_title(f"{kind}, {title}")
    for axis in axes[-1]:
        axis.set_xlabel("transfers")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy in %")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure what is missing, then write the figure and the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.digits", description=__doc__)
    parser.add_argument("--kept", type=Path, default=RESULTS)
    found = measure(parser.parse_args().kept)
    draw(found, DOCS / "figures" / "digits.png")
    (DOCS / "digits.md").write_text(PAGE + table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
