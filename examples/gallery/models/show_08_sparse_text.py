"""
Sparse, text-like data
======================

Documents as counts of words: twenty thousand possible words, of which a document has thirty.
The features are a sparse matrix of scipy, and no node ever makes a dense row of it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import levywalk as lw

rng = np.random.default_rng(0)
documents, vocabulary, length = 400, 20_000, 30
popular = 1.0 / np.arange(1, vocabulary + 1)  # Zipf's law
words = rng.choice(vocabulary, size=(documents, length), p=popular / popular.sum())
rows = np.repeat(np.arange(documents), length)
features = sparse.csr_array(
    (np.full(rows.size, 1 / np.sqrt(length)), (rows, words.ravel())), shape=(documents, vocabulary)
)
features.sum_duplicates()
meaning = rng.normal(size=vocabulary) * (
    rng.random(vocabulary) < 0.1
)  # a tenth of the words matter
labels = (features @ meaning > 0).astype(int)

network = lw.watts_strogatz(documents, 4, 0.1, seed=1)
problem = lw.Logistic(features, labels, ridge=1e-2)

# %%
# The model has twenty thousand numbers; an update touches those of the words that occur.
# SGD with a constant step size stays at a distance from the optimum; SAGA, which remembers one
# number for each document, reaches it.

figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for update in (lw.sgd(), lw.saga()):
    trace = lw.run(network, problem, lw.unif_rw(), update=update, steps=40_000, step_size="theory")
    axes.loglog(
        trace.step[1:], (trace.distance2 / trace.distance2[:, :1])[0, 1:], label=update.name
    )
axes.set_xlabel("steps (updates)")
axes.set_ylabel("squared distance to the optimum, relative")
axes.set_title(f"{features.nnz:,} of {documents * vocabulary:,} features are not 0", loc="left")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
