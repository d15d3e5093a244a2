"""A small neural network in numpy, as a model of your own on real nodes.

::

    levywalk fleet init --network ring:8 --model examples/own_model.py:build --data shards/ \
        --held-out 0.2 --design unif_rw --update adam:minibatch=16 --step-size 0.01 digits

A problem has ``n``, ``model_arrays`` (names and shapes), ``local_loss(v, x)`` and
``local_gradient(v, x)``; the rest is optional. Here the features are the 64 pixels of a digit.
"""

from __future__ import annotations

import numpy as np

PIXELS, HIDDEN, CLASSES = 64, 32, 10


class Network:
    """One hidden layer of tanh units and softmax, for the samples of each node."""

    model_arrays = {
        "hidden.weight": (PIXELS, HIDDEN),
        "hidden.bias": (HIDDEN,),
        "output.weight": (HIDDEN, CLASSES),
        "output.bias": (CLASSES,),
    }
    dtype = "float32"  # of the arrays, also on the wire and on disk
    has_smoothness = False  # so only walks that need no L_v, such as unif_rw, or with --scores

    def __init__(self, features, targets, node=None):
        features = np.asarray(features, np.float32) / 16.0
        labels = np.asarray(targets, np.int64)
        node = np.arange(len(labels)) if node is None else np.asarray(node)
        self.n = int(node.max()) + 1
        self.parts = [(features[node == v], labels[node == v]) for v in range(self.n)]
        draw = np.random.default_rng(0)  # the first model must not depend on a node's data
        self.x0 = {
            name: (
                draw.normal(0.0, shape[0] ** -0.5, shape) if len(shape) > 1 else np.zeros(shape)
            ).astype(np.float32)
            for name, shape in self.model_arrays.items()
        }

    def sample_count(self, v):
        """Return the number of node v's samples, so that minibatches can be drawn."""
        return len(self.parts[v][1])

    def local_loss(self, v, x):
        """Return the mean cross-entropy of node v's samples."""
        features, labels = self.parts[v]
        _, logits = forward(features, x)
        return float(np.mean(cross_entropy(logits, labels)))

    def local_gradient(self, v, x, samples=None):
        """Return its gradient, over all samples of the node or the given positions."""
        features, labels = self.parts[v]
        if samples is not None:
            features, labels = features[samples], labels[samples]
        hidden, logits = forward(features, x)
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error /= error.sum(axis=1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1.0
        error /= len(labels)
        back = (error @ x["output.weight"].T) * (1.0 - hidden**2)
        return {
            "hidden.weight": features.T @ back,
            "hidden.bias": back.sum(axis=0),
            "output.weight": hidden.T @ error,
            "output.bias": error.sum(axis=0),
        }


def forward(features, x):
    """Return the hidden units and the logits of each row."""
    hidden = np.tanh(features @ x["hidden.weight"] + x["hidden.bias"])
    return hidden, hidden @ x["output.weight"] + x["output.bias"]


def cross_entropy(logits, labels):
    """Return log Σ e^{z_k} - z_y of each row."""
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return total - logits[np.arange(len(labels)), labels]


def build(features, targets, node=None):
    """Return the problem; on a real node, that of the node's own samples alone."""
    return Network(features, targets, node)


def metrics(features, targets):
    """Return what a node measures on the samples that it has held out."""
    features = np.asarray(features, np.float32) / 16.0

    def accuracy(x):
        return float(np.mean(forward(features, x)[1].argmax(axis=1) == targets))

    return {"accuracy": accuracy}
