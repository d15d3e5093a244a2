"""Updates of many replicas in torch: step by step, all replicas at once by ``torch.func.vmap``.

Most of the time of a step of small models would be spent in the layers of ``vmap`` and ``grad``, so
what they do is traced once into a plain list of operations (``make_fx``), which is then called. A
module that cannot be traced is called through the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.engine.batched.rules import BatchRule
from levywalk.engine.batched.stretch import Models, Stretch
from levywalk.problem.torch_models import TorchProblem

_CLOSE = 1e-5  # of the largest entry: traced gradients against those that are not


class TorchAdvance:
    """Advances the models of a problem by one rule; ``weighted`` if batches differ in size."""

    def __init__(self, problem: TorchProblem, rule: BatchRule, weighted: bool) -> None:
        import torch

        self.torch, self.problem, self.rule, self.weighted = torch, problem, rule, weighted
        func = torch.func
        self.plain = func.vmap(func.grad(problem.weighted_loss if weighted else problem.batch_loss))

    def __call__(self, models: Models, stretch: Stretch) -> Models:
        """Return the models after the steps of a stretch."""
        torch, problem, rule = self.torch, self.problem, self.rule
        xs = problem.tree(torch.from_numpy(np.array(models.model)))
        memory = {
            name: problem.tree(torch.from_numpy(np.array(models.token[name]))) for name in rule.like
        }
        number = torch.from_numpy(np.array(models.token[rule.number])) if rule.number else None
        kept = problem.tree(torch.from_numpy(models.kept)) if rule.keeps_gradient else {}
        rows, weights, sizes = (torch.from_numpy(array) for array in stretch[1:])
        with torch.no_grad():
            for t in range(stretch.count):
                batch = self._batch(rows[t].to(torch.int64))
                gradients = self._gradients(xs, batch)
                number = None if number is None else number + 1
                following: dict[str, Any] = {}
                carried: dict[str, dict[str, Any]] = {name: {} for name in rule.like}
                for key, x in xs.items():
                    moved = rule.move(
                        torch,
                        gradients[key],
                        _spread(weights[t], x),
                        {name: memory[name][key] for name in rule.like},
                        kept.get(key),
                        None if number is None else _spread(number, x),
                    )
                    following[key] = x - _spread(sizes[t], x) * moved.direction
                    for name in rule.like:
                        carried[name][key] = moved.token[name]
                    if rule.keeps_gradient:
                        kept[key] = moved.kept
                xs, memory = following, carried
        token = {name: problem.flat(memory[name], 1).numpy() for name in rule.like}
        if rule.number:
            assert number is not None
            token[rule.number] = number.numpy()
        stored = problem.flat(kept, 1).numpy() if rule.keeps_gradient else models.kept
        return Models(problem.flat(xs, 1).numpy(), token, stored)

    def _batch(self, index: Any) -> tuple[Any, ...]:
        features, targets = self.problem.features, self.problem.targets
        if not self.weighted:
            return features[index], targets[index]
        present = (index >= 0).to(getattr(self.torch, self.problem.dtype.name))
        share = present / present.sum(dim=1, keepdim=True)
        index = index.clamp(min=0)
        return features[index], targets[index], share

    def _gradients(self, xs: dict[str, Any], batch: tuple[Any, ...]) -> dict[str, Any]:
        names = list(xs)
        given = [*xs.values(), *batch]
        key = ("traced", self.weighted, tuple(tuple(array.shape) for array in given))
        if key not in self.problem.compiled:
            self.problem.compiled[key] = self._traced(names, given)
        found = self.problem.compiled[key](*given)
        return dict(zip(names, found, strict=True))

    def _traced(self, names: list[str], given: list[Any]) -> Callable[..., list[Any]]:
        """Return the gradients as a plain list of operations, if tracing finds the same ones."""

        def layered(*arrays: Any) -> list[Any]:
            found = self.plain(dict(zip(names, arrays, strict=False)), *arrays[len(names) :])
            return [found[name] for name in names]

        expected = layered(*given)
        try:
            from torch.fx.experimental.proxy_tensor import make_fx

            traced: Callable[..., list[Any]] = make_fx(layered)(*given)
            # Other models and samples: what was traced must not depend on those it was traced with.
            other = [2.0 * array for array in given[: len(names)]]
            other += [array.flip(0) for array in given[len(names) :]]
            pairs = [*zip(traced(*given), expected, strict=True)]
            pairs += [*zip(traced(*other), layered(*other), strict=True)]
        except Exception:  # a module may do anything
            return layered
        same = all(
            float((ours - theirs).abs().max()) <= _CLOSE * max(float(theirs.abs().max()), 1e-6)
            for ours, theirs in pairs
        )
        return traced if same else layered


def _spread(values: Any, like: Any) -> Any:
    return values.to(like.dtype).reshape((-1, *(1,) * (like.ndim - 1)))
