"""The stationarity detector, which travels with the model and says when to switch ([switch])."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.registry import registered

AUTO = "auto"
RELAXATIONS = 5.0  # the length of the averages, in dim/(γL̄) updates
SHARE = 0.1  # the threshold, in 1/dim
WHOLE = 1.0 - 1e-9  # part of a window that counts as a whole one: rounding must not decide


@registered("detector", "detector")
@dataclass(frozen=True, slots=True)
class Detector:
    """Switch when the averaged update is very small compared with the size of single updates.

    The token carries exponential averages over about ``window`` updates: m of the scaled gradients
    g = w∇f, s of ‖g‖², and their common mass c, which corrects the bias of starting the averages at
    zero. While the model still moves towards the optimum, gradients agree and ‖m‖²/s is of the
    order of 1/dim; near the optimum they cancel. The switch happens when ‖m/c‖² < threshold · s/c
    has held for ``patience`` updates in a row. With "auto" all three parameters follow from what
    every node of a run knows: the dimension, the step size γ and the mean L̄ of the smoothness
    constants.

    Parameters
    ----------
    threshold
        In (0, 1). "auto" is 0.1/dim: a tenth of the typical value for evenly spread features while
        the model still moves towards the optimum. Lower it to switch later. It must be above the
        noise of the averages, or the switch never happens; with the default window this noise is
        about 0.01/dim to 0.04/dim on all of the paper's networks, and with a shorter window it is
        larger.
    window
        In updates. "auto" is 5·dim/(γL̄), five relaxation times of a well-conditioned problem. With
        a shorter window, a model that a slowly mixing walk keeps in one region looks as if it were
        still moving towards the optimum; with a longer one, the averages contain old gradients for
        too long. The window is adapted to γ at every step, so schedules need no other value. If
        features are far from evenly spread, so that dim/L̄ is far below 1/μ, give 5/(γμ).
    patience
        In updates. "auto" is one window, so that the switch never happens before five relaxation
        times.

    Examples
    --------
    >>> Detector(window=50).bind(dim=10, mean_smoothness=20.0)
    BoundDetector(threshold=0.01, steady=0.02, rate=0.0, patience=0)
    """

    threshold: float | str = AUTO
    window: float | str = AUTO
    patience: int | str = AUTO

    def __post_init__(self) -> None:
        if self.threshold != AUTO:
            domain = "in (0, 1), or 'auto'"
            clean = checks.real(
                "threshold",
                self.threshold,
                domain,
                low=0.0,
                high=1.0,
                low_open=True,
                high_open=True,
            )
            object.__setattr__(self, "threshold", clean)
        if self.window != AUTO:
            object.__setattr__(
                self,
                "window",
                checks.real("window", self.window, "of at least 1, or 'auto'", low=1.0),
            )
        if self.patience != AUTO:
            object.__setattr__(self, "patience", checks.integer("patience", self.patience, low=1))

    def bind(self, dim: int, mean_smoothness: float) -> BoundDetector:
        """Bind the detector to a problem: replace "auto" by numbers."""
        steady, rate = 0.0, mean_smoothness / (RELAXATIONS * dim)
        if not isinstance(self.window, str):
            steady, rate = 1.0 / self.window, 0.0
        threshold = SHARE / dim if isinstance(self.threshold, str) else self.threshold
        return BoundDetector(
            threshold, steady, rate, 0 if isinstance(self.patience, str) else self.patience
        )


@dataclass(frozen=True, slots=True)
class BoundDetector:
    """A detector that is bound to a problem; its numbers are published constants of a run.

    Attributes
    ----------
    steady, rate
        The weight of a new gradient in the averages at step size γ is steady + rate·γ; one of the
        two is 0.
    patience
        In updates; 0 means one window.

    Examples
    --------
    >>> detector = BoundDetector(threshold=0.05, steady=0.1, rate=0.0, patience=3)
    >>> state = DetectorState.new(dim=1)
    >>> signs = [1.0] * 10 + [-1.0, 1.0] * 40
    >>> [
    ...     t
    ...     for t, g in enumerate(signs)
    ...     if detector.observe(state, np.array([g]), step_size=0.01)
    ... ][0]
    24
    """

    threshold: float
    steady: float
    rate: float
    patience: int

    def observe(self, state: DetectorState, gradient: Floats, step_size: float) -> bool:
        """Add one scaled gradient, used with this step size; return whether to switch now."""
        fresh = min(1.0, self.steady + self.rate * step_size)
        beta = 1.0 - fresh
        state.mean = beta * state.mean + fresh * gradient
        state.power = beta * state.power + fresh * float(gradient @ gradient)
        state.mass = beta * state.mass + fresh
        # An infinite power means that the model diverges, not that it is stationary.
        quiet = (
            float(state.mean @ state.mean) < self.threshold * state.power * state.mass < math.inf
        )
        state.streak = state.streak + 1 if quiet else 0
        return state.streak >= self.patience if self.patience else state.streak * fresh >= WHOLE


@dataclass(slots=True)
class DetectorState:
    """The detector's part of the token; its size does not grow with the number of updates."""

    mean: Floats
    power: float
    mass: float
    streak: int

    @classmethod
    def new(cls, dim: int) -> DetectorState:
        """Return the state before the first update."""
        return cls(np.zeros(dim), 0.0, 0.0, 0)
