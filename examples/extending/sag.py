"""An update of your own with memory at the nodes: SAG along a walk (Schmidt et al. 2017; Even
2023).
"""

import levywalk as lw


class Sag(lw.Update):
    """Each node keeps its last gradient, and the token carries their sum."""

    name = "sag_example"
    node_memory = {"gradient": lw.Like("model")}
    token_memory = {"sum": lw.Like("model")}

    def direction(self, model, memory, local, weight, words):
        gradient = local.gradient(model)
        memory.token["sum"] += gradient - memory.node["gradient"]
        memory.node["gradient"] = gradient
        return memory.token["sum"] / local.n

    def compiled(self):
        from numba import njit

        @njit
        def apply(model, gradient, token, kept, weight, step_size, n):
            (total,), (mine,) = token, kept
            for j in range(len(model)):
                total[j] += gradient[j] - mine[j]
                mine[j] = gradient[j]
                model[j] -= step_size * (total[j] / n)

        return apply


lw.register("update", Sag.name, Sag)
