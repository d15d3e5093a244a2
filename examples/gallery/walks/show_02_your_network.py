"""
Your network
============

Will a walk get trapped on a network of yours, and where?
Here the network is Zachary's karate club, which networkx has; a file of yours is read with
``lw.read_network("my.edges")``.
"""

# needs: networkx

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import levywalk as lw

graph = nx.karate_club_graph()
network = lw.as_network(nx.Graph(graph.edges))  # without the weights of its edges
rng = np.random.default_rng(0)
features = rng.normal(size=(network.n, 3))
features[11] *= 12.0  # a member with one friend, and with large numbers
problem = lw.LeastSquares(features, features @ [1.0, -1.0, 0.5])

# %%
# One call tells how long the model would stay at which node.

report = lw.entrapment(network, problem, lw.weight_rw())
report

# %%
# The colour of a node is the mean number of updates in a row there, from the chain's own diagonal.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
place = nx.spring_layout(graph, seed=4)
for panel, design in zip(axes, (lw.weight_rw(), lw.mhlj()), strict=True):
    stay = lw.transition(network, problem, design).diagonal()
    dwell = 1.0 / (1.0 - stay)
    nx.draw_networkx_edges(graph, place, ax=panel, edge_color="#bbbbbb")
    drawn = nx.draw_networkx_nodes(
        graph, place, ax=panel, node_color=np.log10(dwell), cmap="viridis", vmin=0, vmax=3,
        node_size=90,
    )  # fmt: skip
    panel.set_title(f"{design.name}: at most {dwell.max():.0f} updates in a row")
    panel.set_axis_off()
bar = figure.colorbar(drawn, ax=axes, ticks=[0, 1, 2, 3], shrink=0.8)
bar.set_ticklabels(["1", "10", "100", "1000"])
bar.set_label("updates in a row")
