"""The samples of the updates along a walk, drawn as an update draws them."""

from __future__ import annotations

import numpy as np

from levywalk.engine.kernels.compiling import kernel
from levywalk.engine.kernels.words import MINIBATCH, divide, slot_word, step_hash


@kernel()
def sample_rows(keys, start, nodes, offsets, minibatch, rows):  # type: ignore[no-untyped-def]
    """Write the samples of each update to ``rows[t, r]``, and -1 behind those of a smaller node.

    ``nodes[t, r]`` is the problem's number of the node of replica r at step start + t, and its
    samples are ``offsets[v]`` to ``offsets[v + 1] - 1``. A node with more than ``minibatch`` (above
    0) samples draws so many, with replacement.
    """
    for t in range(nodes.shape[0]):
        for r in range(nodes.shape[1]):
            v = nodes[t, r]
            first, count = offsets[v], offsets[v + 1] - offsets[v]
            if 0 < minibatch < count:
                h = step_hash(keys[r, 0], keys[r, 1], np.uint64(start + t))
                for b in range(minibatch):
                    word = slot_word(h, MINIBATCH + np.uint64(b))
                    rows[t, r, b] = first + np.int64(divide(word, np.uint64(count))[0])
                used = minibatch
            else:
                used = count
                for b in range(count):
                    rows[t, r, b] = first + b
            for b in range(used, rows.shape[2]):
                rows[t, r, b] = -1
