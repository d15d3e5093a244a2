"""
A JAX function that walks
=========================

A function of parameters and features is enough; the parameters are a tree of arrays.
Eight walks are computed together in one compiled loop.
"""

# needs: jax

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import levywalk as lw

rng = np.random.default_rng(0)
place = np.sort(rng.uniform(-3, 3, size=120)).astype(np.float32)
height = (np.sin(2 * place) + 0.1 * rng.normal(size=120)).astype(np.float32)


def wave(params, x):
    """Return a sum of sixteen soft steps."""
    return jnp.tanh(x * params["slope"] + params["shift"]) @ params["height"]


start = {
    "slope": jnp.asarray(rng.normal(size=16) * 2, jnp.float32),
    "shift": jnp.asarray(rng.normal(size=16) * 2, jnp.float32),
    "height": jnp.zeros(16, jnp.float32),
}
problem = lw.jax_problem(
    wave, start, lambda outputs, targets: ((outputs - targets) ** 2).mean(), place[:, None], height
)

trace = lw.run(
    lw.ring(120), problem, lw.non_backtracking(), steps=8_000, step_size=0.03, replicas=8
)

# %%
# The eight models, and the points that the nodes of the ring have, one each.

figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
axes.plot(place, height, ".", color="#888888", label="one point for each node")
fine = np.linspace(-3, 3, 200, dtype=np.float32)[:, None]
curves = np.stack([problem.predict(model, fine) for model in trace.model], axis=1)
lines = axes.plot(fine[:, 0], curves, color="#0072B2", alpha=0.6)
lines[0].set_label("the eight models")
axes.set_xlabel("place")
axes.set_ylabel("height")
axes.legend(frameon=False)
