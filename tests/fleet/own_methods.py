"""Walks and updates of a user's own, in a file that is loaded by `levywalk.registry.load_file`,
also in node processes.

The classes are found by their names in the registry: imported as a module, they would be others
than the loaded ones.
"""

from __future__ import annotations

import numpy as np

import levywalk as lw


class HeavyBall(lw.Update):
    """Polyak's momentum, which travels with the model."""

    name = "test_heavy_ball"
    token_memory = {"velocity": lw.Like("model"), "updates": lw.Number(np.int64)}

    def __init__(self, beta=0.5):
        self.beta = beta

    def direction(self, model, memory, local, weight, words):
        memory.token["velocity"] = self.beta * memory.token["velocity"] + weight * local.gradient(
            model
        )
        memory.token["updates"] += 1
        return memory.token["velocity"]


class Sag(lw.Update):
    """Stochastic average gradient with a walking sum: each node keeps its last gradient."""

    name = "test_sag"
    node_memory = {"gradient": lw.Like("model")}
    token_memory = {"sum": lw.Like("model")}

    def apply(self, model, memory, local, weight, step_size, words):
        gradient = local.gradient(model)
        memory.token["sum"] += gradient - memory.node["gradient"]
        memory.node["gradient"] = gradient
        return model - step_size * memory.token["sum"] / local.n


class LeastUsedEdge(lw.Walk):
    """Leave by the edge that this node has used least often."""

    name = "test_least_used_edge"
    node_memory = {"uses": lw.PerEdge(np.int64)}

    def decide(self, view, memory, words):
        best = int(np.argmin(memory.node["uses"]))
        memory.node["uses"][best] += 1
        return lw.Decision(view.neighbours[best])


class LongestAgo(lw.Walk):
    """Ask the neighbours when they were visited, and go to the one whose visit is longest ago."""

    name = "test_longest_ago"
    node_memory = {"last": lw.Number(np.int64, initial=-1)}
    asks_neighbours = ("last",)

    def decide(self, view, memory, words):
        memory.node["last"] = view.step
        others = [
            (last, u)
            for last, u in zip(view.answers["last"], view.neighbours, strict=True)
            if u != view.node
        ]
        return lw.Decision(min(others)[1])


class NonBacktracking(lw.Walk):
    """Do not go back to where the model came from, and count in the token how often that was
    avoided.
    """

    name = "test_non_backtracking"
    token_memory = {"avoided": lw.Number(np.int64), "path": lw.Array((2, 3), np.float32)}

    def decide(self, view, memory, words):
        onward = [u for u in view.neighbours if u != view.came_from]
        memory.token["avoided"] += len(onward) < view.degree
        memory.token["path"][1, 2] = view.node
        choices = onward or list(view.neighbours)
        return lw.Decision(choices[words.index(len(choices))])


# Only where a test or a command loads this file: pytest imports it too, to look for doctests.
if __name__.startswith("levywalk_loaded"):
    lw.register("update", HeavyBall.name, HeavyBall)
    lw.register("update", Sag.name, Sag)
    lw.register("design", LeastUsedEdge.name, LeastUsedEdge)
    lw.register("design", LongestAgo.name, LongestAgo)
    lw.register("design", NonBacktracking.name, NonBacktracking)
