"""What walks share that avoid nodes by their counts of visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.memory import Number
from levywalk.walks.target import as_target
from levywalk.walks.walk import Walk


@dataclass(frozen=True)
class CountsVisits(Walk):
    """A walk whose nodes count their visits, ask neighbours for theirs, and weigh them by α."""

    alpha: float = 0.0
    target: Any = "uniform"
    node_memory = {"visits": Number(np.int64)}  # noqa: RUF012
    asks_neighbours = ("visits",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", checks.real("alpha", self.alpha, "at least 0", low=0.0))
        object.__setattr__(self, "target", as_target(self.target))
