"""Updates of many replicas in JAX: one compiled loop over steps, all replicas at once.

The number of steps is a value and not a shape, so that one compilation serves stretches of every
length, with the same bits however a walk is cut into stretches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.engine.batched.rules import BatchRule
from levywalk.engine.batched.stretch import Models, Stretch
from levywalk.problem.jax_models import JaxProblem


class JaxAdvance:
    """Advances the models of a problem by one rule; ``weighted`` if batches differ in size."""

    def __init__(self, problem: JaxProblem, rule: BatchRule, weighted: bool) -> None:
        self.problem, self.rule, self.weighted = problem, rule, weighted
        key = ("advance", weighted, *rule.key)
        if key not in problem.compiled:
            import jax

            problem.compiled[key] = jax.jit(self._advance)
        self._compiled = problem.compiled[key]

    def __call__(self, models: Models, stretch: Stretch) -> Models:
        """Return the models after the steps of a stretch."""
        problem = self.problem
        with problem.types():
            found = self._compiled(*models, *stretch, problem.features, problem.targets)
            model, token, kept = found
            return Models(
                np.asarray(model),
                {name: np.asarray(array) for name, array in token.items()},
                np.asarray(kept),
            )

    def _advance(
        self,
        model: Any,
        token: dict[str, Any],
        stored: Any,
        count: Any,
        rows: Any,
        weights: Any,
        sizes: Any,
        features: Any,
        targets: Any,
    ) -> tuple[Any, dict[str, Any], Any]:
        import jax
        import jax.numpy as jnp

        problem, rule = self.problem, self.rule
        leaves, unflatten = jax.tree_util.tree_leaves, problem.tree
        one = problem.weighted_loss if self.weighted else problem.batch_loss
        gradient_of = jax.vmap(jax.grad(one))
        structure = jax.tree_util.tree_structure(unflatten(model))

        def spread(values: Any, like: Any) -> Any:
            return values.astype(like.dtype).reshape((-1, *(1,) * (like.ndim - 1)))

        def body(t: Any, carried: Any) -> Any:
            xs, memory, number, kept = carried
            index = rows[t]
            batch: tuple[Any, ...] = (features[index], targets[index])
            if self.weighted:
                present = (index >= 0).astype(model.dtype)
                index = jnp.maximum(index, 0)
                share = present / present.sum(axis=1, keepdims=True)
                batch = (features[index], targets[index], share)
            tree = jax.tree_util.tree_unflatten(structure, xs)
            gradients = leaves(gradient_of(tree, *batch))
            number = None if number is None else number + 1
            for i, (x, gradient) in enumerate(zip(xs, gradients, strict=True)):
                moved = rule.move(
                    jnp,
                    gradient,
                    spread(weights[t], x),
                    {name: memory[name][i] for name in rule.like},
                    kept[i] if rule.keeps_gradient else None,
                    None if number is None else spread(number, x),
                )
                xs = [*xs[:i], x - spread(sizes[t], x) * moved.direction, *xs[i + 1 :]]
                for name in rule.like:
                    some = memory[name]
                    memory = memory | {name: [*some[:i], moved.token[name], *some[i + 1 :]]}
                if rule.keeps_gradient:
                    kept = [*kept[:i], moved.kept, *kept[i + 1 :]]
            return xs, memory, number, kept

        first = (
            leaves(unflatten(model)),
            {name: leaves(unflatten(token[name])) for name in rule.like},
            token[rule.number] if rule.number else None,
            leaves(unflatten(stored)) if rule.keeps_gradient else [],
        )
        xs, memory, number, kept = jax.lax.fori_loop(0, count, body, first)
        carried = {name: problem.flat(memory[name], 1) for name in rule.like}
        if rule.number:
            carried[rule.number] = number
        return (
            problem.flat(xs, 1),
            carried,
            problem.flat(kept, 1) if rule.keeps_gradient else stored,
        )
