"""The same small network in torch and in JAX, on the same data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw

FRAMEWORKS = ("torch", "jax")
N, FEATURES, HIDDEN, CLASSES = 12, 4, 3, 3
RNG = np.random.default_rng(0)
COUNTS = RNG.integers(1, 4, N)
NODE = np.repeat(np.arange(N), COUNTS)
X = RNG.normal(size=(len(NODE), FEATURES))
Y = RNG.integers(0, CLASSES, len(NODE))
FIRST = {
    "0.weight": RNG.normal(size=(HIDDEN, FEATURES)),
    "0.bias": RNG.normal(size=HIDDEN),
    "2.weight": RNG.normal(size=(CLASSES, HIDDEN)),
    "2.bias": RNG.normal(size=CLASSES),
}


def torch_network(layers: Any = ()) -> Any:
    torch = pytest.importorskip("torch", reason="needs levywalk[torch]; `make frameworks` has it")
    torch.set_num_threads(1)
    module = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN),
        torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, CLASSES),
        *layers,
    )
    for name, parameter in module.named_parameters():
        parameter.data = torch.from_numpy(np.array(FIRST[name], np.float32))
    return module


def network(
    framework: str, node: Any = NODE, features: Any = X, targets: Any = Y, **how: Any
) -> Any:
    """Return a problem of the framework, or skip the test if it is not installed."""
    if framework == "torch":
        module = torch_network()
        import torch

        loss = torch.nn.functional.cross_entropy
        return lw.torch_problem(module, loss, features, targets, node, **how)
    jax = pytest.importorskip("jax", reason="needs levywalk[jax]; `make frameworks` has it")
    jnp = jax.numpy

    def apply(params: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ params["0"]["weight"].T + params["0"]["bias"])
        return hidden @ params["2"]["weight"].T + params["2"]["bias"]

    def loss_of(outputs: Any, labels: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None], axis=1)
        return -chosen.mean()

    params: dict[str, dict[str, Any]] = {"0": {}, "2": {}}
    for name, array in FIRST.items():
        layer, kind = name.split(".")
        params[layer][kind] = np.asarray(array, np.float32)
    return lw.jax_problem(apply, params, loss_of, features, targets, node, **how)


def plain_loss(arrays: Any, features: Any, labels: Any) -> float:
    """Return the loss of the network by numpy alone."""
    hidden = np.tanh(features @ arrays["0.weight"].T + arrays["0.bias"])
    z = hidden @ arrays["2.weight"].T + arrays["2.bias"]
    z = z - z.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]))
