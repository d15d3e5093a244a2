"""The average of the models of another update, which is less noisy than the last one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from levywalk.arrays import Floats
from levywalk.contracts import APART_UPDATE, keeps, shortcut
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Like, Memory, Number, Slots, parts
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.updates.sgd import Sgd
from levywalk.updates.update import LocalData, Update

INNER = "inner_"
_PLAIN = Sgd()
RECENT = 3.0  # η of polynomial-decay averaging: the average forgets its beginning


@registered("update", "averaged")
@dataclass(frozen=True)
class Averaged(Update):
    """The average of the models of another update; see `averaged`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.averaged(lw.sgd()).name
    'averaged sgd'
    """

    update: Update = _PLAIN

    def __post_init__(self) -> None:
        if not isinstance(self.update, Update):
            raise InvalidParameter(
                f"update must be an Update such as lw.sgd(), got {self.update!r}"
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the update that is averaged."""
        return f"averaged {self.update.name}"

    @property
    def local(self) -> bool:  # type: ignore[override]
        """Whether the update that is averaged can run in a fleet."""
        return self.update.local

    @property
    def tunable(self) -> bool:  # type: ignore[override]
        """Whether the step size of the update that is averaged is worth tuning."""
        return self.update.tunable

    @property
    def minibatch(self) -> int | None:
        """The minibatch of the update that is averaged."""
        return getattr(self.update, "minibatch", None)

    @property
    def token_memory(self) -> Mapping[str, Kind]:  # type: ignore[override]
        """The model that is not averaged, the number of updates, and the update's own memory."""
        own: dict[str, Kind] = {"raw": Like("model"), "count": Number(np.int64)}
        return own | {INNER + name: kind for name, kind in self.update.token_memory.items()}

    @property
    def node_memory(self) -> Mapping[str, Kind]:  # type: ignore[override]
        """The update's own memory."""
        return {INNER + name: kind for name, kind in self.update.node_memory.items()}

    def fitted(self, problem: Problem) -> Self:
        """Return the average of the update as it is used for the problem."""
        made = copy.copy(self)
        object.__setattr__(made, "update", self.update.fitted(problem))
        return made

    def check(self, problem: Problem) -> None:
        """Refuse what the update refuses."""
        self.update.check(problem)

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return the default of the update."""
        return self.update.default_step_size(largest, problem)

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Move the model that travels beside the average, and renew the average."""
        token = memory.token
        raw = model if token["count"] == 0 else token["raw"].copy()
        inner = Memory(Slots(parts(token.arrays, INNER)), Slots(parts(memory.node.arrays, INNER)))
        token["raw"] = self.update.apply(raw, inner, local, weight, step_size, words)
        token["count"] += 1
        share = (RECENT + 1.0) / (token["count"] + RECENT)
        moved: Floats = model + share * (token["raw"] - model)
        return moved

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`, made of the update's own one."""
        from numba import njit

        from levywalk.compiled import gradient_of, plain_step

        made_by = shortcut(self.update, "compiled_linear", *APART_UPDATE)
        linear = None if made_by is None else made_by()
        other: Any = None
        if keeps(self.update, Sgd, "gradient", "direction", "apply"):
            other = plain_step
        elif (made_by := shortcut(self.update, "compiled", *APART_UPDATE)) is not None:
            other = made_by()
        if linear is None and other is None:
            return None
        by_samples, recent = linear is not None, RECENT
        inner: Any = linear if by_samples else other

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            raw, count = token[0], token[1]
            if count[0] == 0:
                raw[:] = model
            if by_samples:
                inner(
                    raw, features, targets, smoothness, loss, ridge, drawn, token[2:], kept,
                    weight, step_size, n,
                )  # fmt: skip
            else:
                gradient = gradient_of(raw, features, targets, loss, ridge, drawn)
                inner(raw, gradient, token[2:], kept, weight, step_size, n)
            count[0] += 1
            share = (recent + 1.0) / (count[0] + recent)
            for j in range(len(model)):
                model[j] += share * (raw[j] - model[j])

        return apply


def averaged(update: Update | None = None) -> Averaged:
    """Average the models of another update along the walk.

    The model that is measured and published is the average; the one that is updated travels beside
    it. Recent models count more (polynomial-decay averaging with η = 3, Shamir and Zhang 2013), so
    that the average forgets the beginning.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(20), lw.homogeneous(20, dim=2)
    >>> def end(update):
    ...     trace = lw.run(
    ...         network, problem, lw.mhda(), steps=3000, step_size=0.05, update=update
    ...     )
    ...     return float(trace.distance2[0, -1])
    >>> end(lw.averaged(lw.sgd())) < end(lw.sgd())
    True
    """
    return Averaged(Sgd() if update is None else update)
