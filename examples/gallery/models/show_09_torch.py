"""
A torch module that walks
=========================

Any ``torch.nn.Module`` can walk: here a small network with one hidden layer learns two moons,
of which every node has seen three points.
"""

# needs: torch, sklearn

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

import levywalk as lw

points, side = make_moons(300, noise=0.15, random_state=0)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
problem = lw.torch_problem(
    module,
    torch.nn.functional.cross_entropy,
    points.astype(np.float32),
    side,
    node=np.arange(300) % 100,
)

trace = lw.run(
    lw.watts_strogatz(100, 4, 0.1, seed=1), problem, lw.unif_rw(), steps=2_000, step_size=0.5
)
print(f"the loss falls from {trace.loss[0, 0]:.2f} to {trace.loss[0, -1]:.3f}")

# %%
# What the model has learned on its way.

grid = np.stack(np.meshgrid(np.linspace(-1.7, 2.7, 120), np.linspace(-1.2, 1.7, 90)), axis=-1)
with torch.no_grad():
    outputs = problem.module(trace.model[0])(torch.tensor(grid.reshape(-1, 2), dtype=torch.float32))
share = torch.softmax(outputs, dim=1)[:, 1].numpy().reshape(grid.shape[:2])

figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
axes.contourf(grid[..., 0], grid[..., 1], share, levels=20, cmap="RdBu", alpha=0.7)
axes.scatter(*points.T, c=side, cmap="RdBu", edgecolor="black", linewidth=0.5, s=22)
axes.set_axis_off()
