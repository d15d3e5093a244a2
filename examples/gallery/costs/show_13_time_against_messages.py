"""
Time against messages
=====================

A walking model sends one message at a time; in gossip all nodes compute and send at once.
So the walk wins in messages and gossip can win in time: it depends on what your links cost.
"""

import matplotlib.pyplot as plt

import levywalk as lw

network = lw.watts_strogatz(100, 6, 0.2, seed=1)
problem = lw.heterogeneous(100, important=2, seed=1, snr=100)
costs = lw.Costs.home_broadband()

traces = {
    "walk: mhlj + sgd": lw.run(
        network, problem, lw.mhlj(), steps=20_000, step_size="theory", costs=costs
    ),
    "walk: oldest_neighbour + point_saga": lw.run(
        network, problem, lw.oldest_neighbour(), update=lw.point_saga(), steps=3_000,
        step_size="theory", costs=costs,
    ),
    "walk: depth_first_tour + newton_token": lw.run(
        network, problem, lw.depth_first_tour(), update=lw.newton_token(), steps=500,
        step_size="theory", costs=costs,
    ),
    "gossip: EXTRA": lw.gossip(network, problem, "extra", iterations=6_000, costs=costs),
    "gossip: accelerated": lw.gossip(network, problem, "accelerated", iterations=600, costs=costs),
}  # fmt: skip

# %%
# The same runs against two prices.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
for name, trace in traces.items():
    error = trace.distance2[0] / trace.distance2[0, 0]
    axes[0].loglog(trace.transfers[0, 1:], error[1:], label=name)
    axes[1].loglog(trace.time[0, 1:], error[1:], label=name)
axes[0].set_xlabel("transfers (messages that carry a model)")
axes[1].set_xlabel("seconds of home broadband")
axes[0].set_ylabel("squared distance to the optimum, relative")
axes[0].set_ylim(1e-10, 10)
axes[0].legend(frameon=False, fontsize=8)
for panel in axes:
    panel.grid(alpha=0.3)
