"""
Softmax over a peer-to-peer network
===================================

The hosts of Gnutella in August 2002 (Leskovec, Kleinberg, Faloutsos 2007; SNAP) learn to read
digits together. 1,797 pictures are shared out; hosts without a picture just pass the model on.
"""

# needs: sklearn

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import levywalk as lw

file = Path(lw.__file__).parent / "league" / "p2p-Gnutella08.edges.gz"
network = lw.read_network(file, largest_component=True)
pictures, digits = load_digits(return_X_y=True)
pictures = np.column_stack([pictures / 16.0, np.ones(len(pictures))])

rng = np.random.default_rng(0)
hosts = rng.choice(network.n, size=len(pictures), replace=False)
learn = np.arange(len(pictures)) % 5 > 0  # the rest is for the test
problem = lw.Softmax(pictures[learn], digits[learn], node=hosts[learn], ridge=1e-3, idle="pass")

# %%
# One model walks; every node with a picture makes one step of SAGA.

marks = np.unique(np.geomspace(1, 60_000, 25).astype(int))
right = []
for steps in marks:
    trace = lw.run(
        network, problem, lw.unif_rw(), update=lw.saga(), steps=int(steps), step_size="theory",
        seed=1, measure_loss=16,
    )  # fmt: skip
    model = trace.model[0].reshape(pictures.shape[1], -1)
    right.append(np.mean((pictures[~learn] @ model).argmax(axis=1) == digits[~learn]))

figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
axes.semilogx(marks, right, "o-", color="#0072B2")
axes.axhline(0.1, color="#999999", linestyle=":", label="by chance")
axes.set_xlabel("updates")
axes.set_ylabel("share of test pictures that are read right")
axes.set_title(f"{network.n:,} hosts, {learn.sum():,} of them with a picture", loc="left")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
