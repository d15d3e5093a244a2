"""When to switch: the stationarity detector that travels with the model (ruling on [switch])."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats


@dataclass(frozen=True, slots=True)
class Detector:
    """Switch when the averaged update has nearly vanished against the size of single updates.

    The token carries exponential averages over about ``window`` updates: m of the scaled gradients g = w∇f, s of
    ‖g‖², and their common mass c = 1 - β^t that corrects the start at zero; β = 1 - 1/window. While the model still
    travels, gradients agree and ‖m‖² is of the order of s; near the limit they cancel. The switch comes when ‖m/c‖² <
    threshold · s/c held for ``patience`` updates in a row. The average of correlated gradients never vanishes:
    ``threshold`` must exceed its noise level, about (1-β)/(1+β) · 2/η with η the chain's spectral gap.

    Examples
    --------
    >>> detector = Detector(threshold=0.05, window=10, patience=3)
    >>> state = DetectorState.new(dim=1)
    >>> signs = [1.0] * 10 + [-1.0, 1.0] * 40
    >>> [t for t, g in enumerate(signs) if detector.observe(state, np.array([g]))][0]
    24
    """

    threshold: float = 0.05
    window: float = 1000.0
    patience: int = 1000

    def __post_init__(self) -> None:
        clean = checks.real("threshold", self.threshold, "in (0, 1)", low=0.0, high=1.0, low_open=True, high_open=True)
        object.__setattr__(self, "threshold", clean)
        object.__setattr__(self, "window", checks.real("window", self.window, "of at least 1", low=1.0))
        object.__setattr__(self, "patience", checks.integer("patience", self.patience, low=1))

    @property
    def decay(self) -> float:
        """The factor β of the averages."""
        return 1.0 - 1.0 / self.window

    def observe(self, state: DetectorState, gradient: Floats) -> bool:
        """Take in one scaled gradient; return whether it is time to switch."""
        beta = self.decay
        fresh = 1.0 - beta
        state.mean = beta * state.mean + fresh * gradient
        state.power = beta * state.power + fresh * float(gradient @ gradient)
        state.mass = beta * state.mass + fresh
        # An infinite power is a model on its way out, not one that has settled.
        quiet = float(state.mean @ state.mean) < self.threshold * state.power * state.mass < math.inf
        state.streak = state.streak + 1 if quiet else 0
        return state.streak >= self.patience


@dataclass(slots=True)
class DetectorState:
    """The detector's part of the token: constant size, whatever the history."""

    mean: Floats
    power: float
    mass: float
    streak: int

    @classmethod
    def new(cls, dim: int) -> DetectorState:
        """Return the state before the first update."""
        return cls(np.zeros(dim), 0.0, 0.0, 0)
