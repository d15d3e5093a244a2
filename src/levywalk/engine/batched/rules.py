"""The updates that frameworks compute for many replicas, each written once for torch and JAX.

A rule works on one array of the model at a time: its entries [r, …] belong to replica r, and
numbers of replicas have as many axes, so that they can be multiplied. ``xp`` is the library of the
arrays (`jax.numpy` or `torch`). Every rule is the same arithmetic as the update's own ``direction``
in `levywalk.updates`, which the reference backend calls.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from levywalk.contracts import keeps
from levywalk.updates import Adam, HeavyBall, Sag, Saga, Sgd, Update

_METHODS = ("gradient", "direction", "apply")
_TABLES = ("direction", "apply", "refresh", "ridge", "node_memory", "token_memory")


class RuleResult(NamedTuple):
    """What a rule returns: the direction, what the token carries, and what the node keeps."""

    direction: Any
    token: dict[str, Any]
    kept: Any


class BatchRule:
    """Plain SGD, and what the other rules have in common.

    Attributes
    ----------
    like
        The entries of the token's memory that are like the model.
    number
        The entry of the token's memory that is one number, or None.
    keeps_gradient
        Whether a node keeps its last gradient.
    """

    like: tuple[str, ...] = ()
    number: str | None = None
    keeps_gradient = False

    def __init__(self, update: Update, n: int) -> None:
        self.update, self.n = update, n

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes the code of two rules."""
        return type(self).__name__, repr(self.update), self.n

    def move(
        self, xp: Any, gradient: Any, weight: Any, token: dict[str, Any], kept: Any, count: Any
    ) -> RuleResult:
        """Return the direction of an array's step, and the array's new memory.

        ``count`` is the number of the token after this update, if the rule has one.
        """
        return RuleResult(weight * gradient, token, kept)


class HeavyBallRule(BatchRule):
    """SGD with momentum."""

    like = ("velocity",)

    def move(
        self, xp: Any, gradient: Any, weight: Any, token: dict[str, Any], kept: Any, count: Any
    ) -> RuleResult:
        """Return the new velocity as the direction."""
        beta = self.update.beta  # type: ignore[attr-defined]
        velocity = beta * token["velocity"] + weight * gradient
        return RuleResult(velocity, {"velocity": velocity}, kept)


class AdamRule(BatchRule):
    """Adam."""

    like = ("mean", "square")
    number = "count"

    def move(
        self, xp: Any, gradient: Any, weight: Any, token: dict[str, Any], kept: Any, count: Any
    ) -> RuleResult:
        """Return the mean of gradients over the root of the mean of their squares."""
        update: Any = self.update
        g = weight * gradient
        mean = update.beta1 * token["mean"] + (1.0 - update.beta1) * g
        square = update.beta2 * token["square"] + (1.0 - update.beta2) * g * g
        one, two = (
            _one_minus_power(xp, update.beta1, count),
            _one_minus_power(xp, update.beta2, count),
        )
        direction = (mean / one) / (xp.sqrt(square / two) + update.epsilon)
        return RuleResult(direction, {"mean": mean, "square": square}, kept)


def _one_minus_power(xp: Any, beta: float, count: Any) -> Any:
    """Return 1 - βᶜ; in float32 a plain difference would lose digits where β is near 1."""
    return -xp.expm1(count * (math.log(beta) if beta > 0.0 else -math.inf))


class SagRule(BatchRule):
    """SAG: along the mean of all nodes' last gradients."""

    like = ("sum",)
    keeps_gradient = True

    def move(
        self, xp: Any, gradient: Any, weight: Any, token: dict[str, Any], kept: Any, count: Any
    ) -> RuleResult:
        """Return the mean of the stored gradients, the node's own one renewed."""
        total = token["sum"] + (gradient - kept)
        return RuleResult(total / self.n, {"sum": total}, gradient)


class SagaRule(SagRule):
    """SAGA: the node's change of gradient, weighted, and the mean of those stored before."""

    def move(
        self, xp: Any, gradient: Any, weight: Any, token: dict[str, Any], kept: Any, count: Any
    ) -> RuleResult:
        """Return w(v)(g - g_v) + ḡ."""
        change = gradient - kept
        direction = weight * change + token["sum"] / self.n
        return RuleResult(direction, {"sum": token["sum"] + change}, gradient)


_RULES: tuple[tuple[type[Update], tuple[str, ...], type[BatchRule]], ...] = (
    (Sgd, _METHODS, BatchRule),
    (HeavyBall, _METHODS, HeavyBallRule),
    (Adam, _METHODS, AdamRule),
    (Sag, _TABLES, SagRule),
    (Saga, _TABLES, SagaRule),
)
NAMES = tuple(kind.name for kind, _, _ in _RULES)


def batch_rule(update: Update, n: int) -> BatchRule | None:
    """Return the rule of an update, or None if there is none or a subclass overrides a method.

    Examples
    --------
    >>> import levywalk as lw
    >>> type(batch_rule(lw.saga(), 10)).__name__, batch_rule(lw.walkman(), 10)
    ('SagaRule', None)
    """
    for kind, methods, rule in _RULES:
        if keeps(update, kind, *methods):
            return rule(update, n)
    return None
