"""What a league has found: the cells that are there, and those that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levywalk.league.scenes import ACCURACIES
from levywalk.notebook import columns_html
from levywalk.sweeps.workers import Failure

if TYPE_CHECKING:
    from levywalk.league.league import LeagueCell


class LeagueResult(NamedTuple):
    """All cells of a league that could be computed, and those that failed.

    Attributes
    ----------
    cells
        What each pair took on each network and problem.
    failures
        The names of the cells that failed, and why.

    Examples
    --------
    >>> LeagueResult([], ())
    LeagueResult(0 cells, 0 failed)
    """

    cells: list[LeagueCell]
    failures: tuple[Failure, ...]

    def __repr__(self) -> str:
        return f"LeagueResult({len(self.cells)} cells, {len(self.failures)} failed)"

    def _repr_html_(self) -> str:
        header = ["network", "problem", "pair", *(f"to {100 * a:g} %" for a in ACCURACIES)]
        rows = [
            [cell.network, cell.problem, cell.pair.name]
            + [_median(cell, accuracy) for accuracy in ACCURACIES]
            for cell in self.cells
        ]
        failed = f"; failed: {', '.join(f.name for f in self.failures)}" if self.failures else ""
        return columns_html(
            header, rows, f"Transfers to a relative error, the median over instances{failed}"
        )


def _median(cell: LeagueCell, accuracy: float) -> float:
    """Return the median over instances; infinite if half of them do not reach the accuracy."""
    values = np.sort(cell.values("transfers", accuracy))
    return float(values[len(values) // 2])
