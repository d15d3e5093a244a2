"""
What a neighbour learns, and what noise hides
=============================================

A node keeps its samples and sends updates of the model.
But one update of least squares is a multiple of the sample itself: whoever sends the model to a
node and gets it back can look at what the node has.
Here the node has one picture.
With :class:`levywalk.Privacy` the node clips what it sends and adds noise to it.
"""

# needs: sklearn

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import levywalk as lw

digits = load_digits()
picture = digits.images[13].ravel() / np.linalg.norm(digits.images[13])
secret, answer = picture, 1.0

# %%
# Node 0 sends the model ``sent`` to node 1, which has the picture, and gets it back after one
# update. The difference of the two, divided by the step size, is the gradient.

problem = lw.LeastSquares(
    np.vstack([np.eye(64), secret]), np.append(np.zeros(64), answer), node=[0] * 64 + [1]
)
sent = np.zeros(64)


def attacked(privacy: lw.Privacy | None) -> np.ndarray:
    """Return the picture that node 0 sees."""
    trace = lw.run(
        lw.path(2),
        problem,
        lw.unif_rw(),
        steps=1,
        start=1,
        x0=sent,
        step_size=0.1,
        privacy=privacy,
        backend="reference",
    )
    gradient = (sent - trace.model[0]) / 0.1
    return -gradient / np.linalg.norm(gradient)


plain = attacked(None)
print(f"error without privacy: {np.linalg.norm(plain - secret):.1e}")

# %%
# With noise the picture is soon gone, long before ε is small. ε is that of this one update; a
# budget bounds that of all.

seen = {"the node's picture": secret, "without privacy": plain}
for noise in (0.01, 0.03, 0.1, 1.0):
    privacy = lw.Privacy(clip=2.0, noise=noise, scores="public")
    seen[f"noise {noise:g}\nε = {privacy.epsilon(1):,.0f}"] = attacked(privacy)

figure, plots = plt.subplots(1, len(seen), figsize=(11, 2.4), layout="constrained")
for axes, (name, found) in zip(plots, seen.items(), strict=True):
    axes.imshow(found.reshape(8, 8), cmap="gray_r")
    axes.set_title(name, fontsize=10)
    axes.set_axis_off()
