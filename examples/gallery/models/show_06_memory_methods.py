"""
Methods that remember
=====================

With SGD and a constant step size the error stops at a floor.
Updates that remember what each node said last have no floor: the walk carries a mean, and every
node keeps one number for each of its samples.
"""

import matplotlib.pyplot as plt

import levywalk as lw

network = lw.watts_strogatz(200, 4, 0.1, seed=1)
problem = lw.heterogeneous(200, important=2, seed=1)
pairs = {
    "mhlj + sgd": (lw.mhlj(), lw.sgd(), 8_000),
    "unif_rw + saga": (lw.unif_rw(), lw.saga(), 60_000),
    "oldest_neighbour + point_saga": (lw.oldest_neighbour(), lw.point_saga(), 8_000),
    "depth_first_tour + newton_token": (lw.depth_first_tour(), lw.newton_token(), 1_000),
}

figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
for name, (walk, update, steps) in pairs.items():
    trace = lw.run(
        network, problem, walk, update=update, steps=steps, step_size="theory", replicas=4
    )
    error = trace.distance2.mean(axis=0) / trace.distance2[:, 0].mean()
    axes.loglog(trace.transfers.mean(axis=0)[1:], error[1:], label=name)
axes.set_ylim(1e-14, 10)
axes.set_xlabel("transfers (messages between nodes)")
axes.set_ylabel("squared distance to the optimum, relative")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
