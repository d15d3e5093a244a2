"""
Trapped and freed
=================

A model walks over a ring of 200 nodes, two of which matter a hundred times as much as the others.
The walk of Metropolis and Hastings prefers these two and gets trapped at them; jumps free it.
"""

import matplotlib.pyplot as plt

import levywalk as lw

network = lw.ring(200)
problem = lw.heterogeneous(200, important=2, seed=1)
designs = {"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj(p_jump=0.1)}

# %%
# Where is the model, step by step?
# Both walks begin at the same node.

figure, axes = plt.subplots(2, 1, figsize=(9, 5.2), sharex=True, sharey=True, layout="constrained")
for panel, (name, design), colour in zip(
    axes, designs.items(), ("#D55E00", "#009E73"), strict=True
):
    walk = lw.walk(network, design, problem=problem, steps=4_000, seed=3, start=0, record_walk=True)
    panel.plot(walk.walk[0], ".", markersize=2, color=colour)
    panel.set_title(
        f"{name}: its longest stay is {walk.longest_dwell[0]} steps, at node "
        f"{walk.longest_dwell_node[0]}",
        loc="left",
    )
    panel.set_ylabel("node")
axes[-1].set_xlabel("step")

# %%
# Theory says the same before anything runs: the expected number of updates in a row at the worst
# node, beside that of independent draws.

for design in designs.values():
    print(lw.entrapment(network, problem, design).sentence)
