"""
What jumps cost
===============

Jumps free the walk, and move it away from the law that it aims at.
Theory gives both sides exactly, so the best share of jumps can be read from a figure.
"""

import matplotlib.pyplot as plt
import numpy as np

import levywalk as lw

network = lw.ring(100)
problem = lw.heterogeneous(100, dim=3, important=1, seed=1)
shares = np.geomspace(0.003, 0.9, 12)

dwell, bias, away = [], [], []
for share in shares:
    design = lw.mhlj(p_jump=float(share))
    chain = lw.transition(network, problem, design)
    law = lw.stationary(chain)
    dwell.append(lw.entrapment(network, problem, design).regions[0].dwell)
    away.append(lw.total_variation(law, problem.smoothness / problem.smoothness.sum()))
    bias.append(lw.error_floor(network, problem, design, covariance=False).bias2)

# %%
# More jumps: shorter stays, but a walk that is further from its target, and a model that ends
# further from the optimum (not at every share: the bias falls a little before it rises again).

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for panel, values, title in zip(
    axes,
    (dwell, away, bias),
    ("updates in a row at the trap", "distance from the target law", "squared bias of the model"),
    strict=True,
):
    panel.loglog(shares, values, "o-", color="#009E73")
    panel.set_title(title, fontsize=11)
    panel.set_xlabel("share of jumps, p_jump")
    panel.grid(alpha=0.3)
