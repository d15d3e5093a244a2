"""An update of your own with memory in the token: heavy-ball momentum (Polyak 1964)."""

import levywalk as lw


class HeavyBall(lw.Update):
    """Move along a running sum of gradients, which travels with the model."""

    name = "heavy_ball_example"
    token_memory = {"velocity": lw.Like("model")}

    def __init__(self, beta: float = 0.9) -> None:
        self.beta = beta

    def direction(self, model, memory, local, weight, words):
        velocity = memory.token["velocity"]
        velocity *= self.beta
        velocity += weight * local.gradient(model)
        return velocity.copy()

    def compiled(self):
        from numba import njit

        beta = self.beta

        @njit
        def apply(model, gradient, token, kept, weight, step_size, n):
            (velocity,) = token
            for j in range(len(model)):
                velocity[j] = beta * velocity[j] + weight * gradient[j]
                model[j] -= step_size * velocity[j]

        return apply


lw.register("update", HeavyBall.name, HeavyBall)
