"""The section on models of torch and JAX: softmax, an MLP and a CNN, beside plain loops.

ring(1000), one sample per node of 64 features and 10 classes, 64 replicas of plain SGD. The plain
torch loop is what anybody would write: one model, one optimiser, one sample after the other, and no
walk. numpy has a loop of that kind for softmax and the MLP.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import levywalk as lw
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Contender, Row, interleave, seconds

NODES, REPLICAS, FEATURES, HIDDEN, CLASSES, CHANNELS = 1000, 64, 64, 32, 10, 8
KINDS = ("softmax", f"MLP {FEATURES}-{HIDDEN}-{CLASSES}", f"CNN, {CHANNELS} filters of 3 x 3")
SIZE = 0.01


def models(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Nanoseconds per update of one replica; the baseline is the plain torch loop."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((NODES, FEATURES)).astype(np.float32)
    labels = rng.integers(0, CLASSES, NODES)
    repetitions = max(scale.repetitions // 3, 2)
    for kind in KINDS:
        contenders: dict[str, Contender] = {}
        if kind == "softmax":
            contenders["kernel"] = _walk(lw.Softmax(features, labels), 100_000)
        for framework, make in (("jax", _jax), ("torch", _torch)):
            if importlib.util.find_spec(framework) is None:
                note = f"{framework} is not installed: pip install -c constraints.txt {framework}"
                missing = (NS, None, None, None, None, "", 0, note)
                yield Row("models", kind, f"{framework}, batched", *missing)
                continue
            contenders |= make(kind, features, labels)
        if kind != KINDS[2]:
            contenders["numpy loop"] = _numpy(kind, features, labels)
        baseline = "torch loop" if "torch loop" in contenders else ""
        yield from interleave("models", kind, contenders, repetitions, unit=NS, baseline=baseline)


def _walk(problem: Any, updates: int, backend: str = "auto") -> Contender:
    """Return a run with one checkpoint: its nanoseconds per update."""
    replicas = 1 if backend == "reference" else REPLICAS
    steps = max(updates // replicas, 16)
    return lambda: (
        1e9
        / (steps * replicas)
        * seconds(
            lambda: lw.run(
                lw.ring(NODES),
                problem,
                lw.unif_rw(),
                steps=steps,
                step_size=SIZE,
                replicas=replicas,
                record_every=steps,
                record_visits=False,
                measure_loss=1,
                threads=1,
                backend=backend,
                progress=False,
            )
        )
    )


def _jax(kind: str, features: Any, labels: Any) -> dict[str, Contender]:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    shapes = _shapes(kind)
    params = {name: 0.1 * rng.standard_normal(shape) for name, shape in shapes.items()}

    def apply(params: Any, x: Any) -> Any:
        if "filters" in params:
            images = x.reshape(-1, 1, 8, 8)
            x = jax.lax.conv_general_dilated(images, params["filters"], (1, 1), "VALID")
            x = jnp.tanh(x).reshape(len(x), -1)
        if "first" in params:
            x = jnp.tanh(x @ params["first"] + params["shift"])
        return x @ params["last"] + params["bias"]

    def loss(z: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], axis=1).mean()

    problem = lw.jax_problem(apply, params, loss, features, labels)
    return {"jax, batched": _walk(problem, 1 << (18 if kind != KINDS[2] else 15))}


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    if kind == KINDS[0]:
        return {"last": (FEATURES, CLASSES), "bias": (CLASSES,)}
    if kind == KINDS[1]:
        hidden: dict[str, tuple[int, ...]] = {"first": (FEATURES, HIDDEN), "shift": (HIDDEN,)}
        return hidden | {"last": (HIDDEN, CLASSES), "bias": (CLASSES,)}
    return {"filters": (CHANNELS, 1, 3, 3), "last": (CHANNELS * 36, CLASSES), "bias": (CLASSES,)}


def _torch(kind: str, features: Any, labels: Any) -> dict[str, Contender]:
    import torch

    nn = torch.nn
    torch.set_num_threads(1)
    layers: dict[str, Callable[[], list[Any]]] = {
        KINDS[0]: lambda: [nn.Linear(FEATURES, CLASSES)],
        KINDS[1]: lambda: [nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)],
        KINDS[2]: lambda: [
            nn.Unflatten(-1, (1, 8, 8)),
            nn.Conv2d(1, CHANNELS, 3),
            nn.Tanh(),
            nn.Flatten(-3),
            nn.Linear(CHANNELS * 36, CLASSES),
        ],
    }
    module = nn.Sequential(*layers[kind]())
    problem = lw.torch_problem(module, nn.functional.cross_entropy, features, labels)
    optimiser = torch.optim.SGD(module.parameters(), lr=SIZE)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    count = 300

    def loop() -> None:
        for i in range(count):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x[i : i + 1]), y[i : i + 1]).backward()
            optimiser.step()

    return {
        "torch, batched": _walk(problem, 1 << 13),
        "torch, one model at a time": _walk(problem, 200, backend="reference"),
        "torch loop": lambda: 1e9 / count * seconds(loop),
    }


def _numpy(kind: str, features: Any, labels: Any) -> Contender:
    rng, count = np.random.default_rng(1), 2000
    first = 0.1 * rng.standard_normal((FEATURES, HIDDEN)).astype(np.float32)
    width = HIDDEN if kind == KINDS[1] else FEATURES
    last = 0.1 * rng.standard_normal((width, CLASSES)).astype(np.float32)

    def loop() -> None:
        for i in range(count):
            row = i % NODES
            a = np.tanh(features[row] @ first) if width == HIDDEN else features[row]
            z = a @ last
            slope = np.exp(z - z.max())
            slope /= slope.sum()
            slope[labels[row]] -= 1.0
            if width == HIDDEN:
                back = (last @ slope) * (1.0 - a * a)
                first[...] -= np.float32(SIZE) * np.outer(features[row], back)
            last[...] -= np.float32(SIZE) * np.outer(a, slope)

    return lambda: 1e9 / count * seconds(loop)
