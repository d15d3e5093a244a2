"""What SAG, SAGA and Point-SAGA share: each node keeps its last gradient, the token their sum."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Like, Memory, PerSample
from levywalk.problem import Problem, has_samples
from levywalk.updates.linear import drawn_samples, outputs_of
from levywalk.updates.update import LocalData, Update

SLOPES: dict[str, Kind] = {"slopes": PerSample()}
GRADIENT: dict[str, Kind] = {"gradient": Like("model")}


class GradientTable(Update):
    """An update that remembers every node's last gradient.

    The token carries the sum over the nodes, a sum and not a mean. For a linear model a node keeps
    one slope per sample and output, and the gradients are those of the loss without the ridge,
    which is added exactly; for any other model it keeps the whole gradient.
    """

    token_memory: Mapping[str, Kind] = {"sum": Like("model")}
    minibatch: int | None = None
    linear: bool = False
    outputs: int = 1

    @property
    def node_memory(self) -> Mapping[str, Kind]:  # type: ignore[override]
        """One slope per sample and output for a linear model, otherwise a gradient."""
        if self.linear and self.outputs > 1:
            return {"slopes": PerSample(size=self.outputs)}
        return SLOPES if self.linear else GRADIENT

    def fitted(self, problem: Problem) -> Self:
        """Return the update with the memory that suits the problem."""
        made = copy.copy(self)
        outputs = outputs_of(problem)
        object.__setattr__(made, "linear", outputs > 0)
        object.__setattr__(made, "outputs", max(outputs, 1))
        return made

    def check(self, problem: Problem) -> None:
        """Refuse minibatches for a problem that has no samples to draw from."""
        if self.minibatch is not None and not has_samples(problem):
            raise InvalidParameter(
                f"minibatch must be None for a {type(problem).__name__}, which has no samples to "
                "draw from"
            )

    def refresh(self, model: Floats, memory: Memory, local: LocalData, words: Words) -> Floats:
        """Store the node's gradient at the model; return how it differs from the stored one.

        With a minibatch, only the drawn samples are renewed, and the difference is estimated from
        them.
        """
        samples = drawn_samples(self.minibatch, local, words)
        if not self.linear:
            gradient = local.gradient(model, samples)
            change: Floats = gradient - memory.node["gradient"]
            memory.token["sum"] += change
            memory.node["gradient"] = gradient
            return change
        features, _ = local.samples
        kept = memory.node["slopes"]
        slopes = local.slopes(model, samples)
        if self.outputs > 1:
            return self._refresh_several(memory, local, samples, features, slopes)
        if samples is None:
            change = (slopes - kept) @ features / len(kept)
            memory.token["sum"] += change
            kept[:] = slopes
            return change
        old = kept[samples]
        change = (slopes - old) @ features[samples] / len(samples)
        renewed: Ints = np.unique(samples, return_index=True)[1]
        memory.token["sum"] += (
            (slopes - old)[renewed] @ features[samples[renewed]] / local.n_samples
        )
        kept[samples] = slopes
        return change

    def _refresh_several(
        self,
        memory: Memory,
        local: LocalData,
        samples: Ints | None,
        features: Floats,
        slopes: Floats,
    ) -> Floats:
        """Make the same step for slopes with one column per output."""
        kept = memory.node["slopes"]
        drawn = np.arange(len(kept)) if samples is None else samples
        moved = slopes - kept[drawn]
        once: Ints = np.unique(drawn, return_index=True)[1]
        renewed = features[drawn[once]].T @ moved[once] / local.n_samples
        memory.token["sum"] += renewed.ravel()
        kept[drawn] = slopes
        change: Floats = (features[drawn].T @ moved / len(drawn)).ravel()
        return change

    def ridge(self, local: LocalData) -> float:
        """Return the ridge that is not part of the stored gradients."""
        return local.ridge if self.linear else 0.0


@dataclass(frozen=True)
class DrawingTable(GradientTable):
    """An update that remembers every node's last gradient, and can draw minibatches."""

    minibatch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "minibatch", checked_minibatch(self.minibatch))


def checked_minibatch(minibatch: int | None) -> int | None:
    """Return the minibatch, or refuse it."""
    if minibatch is None:
        return None
    return checks.integer("minibatch", minibatch, low=1, high=2**31 - 1)
