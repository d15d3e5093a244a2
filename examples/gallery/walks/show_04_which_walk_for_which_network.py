"""
Which walk for which network
============================

How many messages does a walk need until it has seen every node?
No model is needed for this question: ``lw.walk`` moves alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import levywalk as lw

networks = {
    "ring": lw.ring(400),
    "grid": lw.grid(20, 20),
    "small world": lw.watts_strogatz(400, 4, 0.1, seed=1),
    "hubs": lw.barabasi_albert(400, 3, seed=1),
}
walks = {
    "simple_rw": lw.simple_rw(),
    "unif_rw": lw.unif_rw(),
    "non_backtracking": lw.non_backtracking(),
    "mhda": lw.mhda(),
    "least_used_edge": lw.least_used_edge(),
    "oldest_neighbour": lw.oldest_neighbour(),
    "depth_first_tour": lw.depth_first_tour(),
}

laps = np.full((len(walks), len(networks)), np.inf)
for row, design in enumerate(walks.values()):
    for column, network in enumerate(networks.values()):
        record = lw.walk(network, design, steps=100 * network.n, seed=1, record_first=True)
        first = record.first_visit[0]
        if (first >= 0).all():
            share = first.max() / record.steps  # of the walk, until the last node was seen
            laps[row, column] = share * record.transfers[0] / network.n

# %%
# Transfers per node until all nodes were seen; a dash means not within a hundred laps.
# A walk that remembers wins everywhere, and which one depends on the network.

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axes.imshow(np.log10(np.minimum(laps, 100)), cmap="YlGn_r", vmin=0, vmax=2, aspect="auto")
for (row, column), value in np.ndenumerate(laps):
    text = "–" if np.isinf(value) else f"{value:.1f}"
    axes.text(column, row, text, ha="center", va="center", color="white" if value < 3 else "black")
axes.set_xticks(range(len(networks)), networks)
axes.set_yticks(range(len(walks)), walks)
axes.set_title("transfers per node until every node was seen", loc="left", fontsize=11)

# %%
# For a whole pair of a walk and an update, ask ``lw.recommended``.

problem = lw.heterogeneous(400, important=2, seed=1)
print(lw.recommended(networks["grid"], problem, goal="transfers", accuracy=1e-3).why)
