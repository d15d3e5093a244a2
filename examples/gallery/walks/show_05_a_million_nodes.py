"""
A million nodes
===============

The walk needs memory for the network alone, and a few nanoseconds a step.
Here eight models walk over a grid of a thousand times a thousand nodes.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import levywalk as lw

side, steps = 1000, 2_000_000
network = lw.grid(side, side)
lw.walk(network, lw.unif_rw(), steps=10, replicas=8)  # compiles, the first time

began = time.perf_counter()
record = lw.walk(network, lw.unif_rw(), steps=steps, replicas=8, start=network.n // 2 + side // 2)
seconds = time.perf_counter() - began
print(f"{network.n:,} nodes; {8 * steps:,} steps in {seconds:.1f} s")

# %%
# Where they have been.
# A walk on a grid diffuses: after t steps it is about √t nodes away, which is here more than the
# side of the grid, so the eight have been nearly everywhere; no one has seen the black places.

visits = record.visits.sum(axis=0).reshape(side, side)
figure, axes = plt.subplots(figsize=(6, 5.2), layout="constrained")
shown = axes.imshow(np.log10(1 + visits), cmap="magma", interpolation="antialiased")
axes.set_title(f"{np.mean(visits > 0):.0%} of the nodes were visited", loc="left")
axes.set_axis_off()
figure.colorbar(shown, label="log₁₀(1 + visits)", shrink=0.8)
