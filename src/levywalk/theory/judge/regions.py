"""The regions of an entrapment report: how long the model stays there, in theory and in a run."""

from __future__ import annotations

from dataclasses import dataclass

from levywalk.notebook import columns_html
from levywalk.theory.chain.answer import EXACT, answer_text

HEADER = (
    "region",
    "steps per visit",
    "with i.i.d. draws",
    "steps to escape",
    "share under π",
    "share under the chain",
)


def cells(region: Region) -> list[object]:
    """Return one row of a table."""
    return [
        region.place,
        region.dwell,
        region.iid_dwell,
        region.escape,
        region.target,
        region.mass,
    ]


def steps_text(value: float) -> str:
    """Return a number of steps in words.

    Examples
    --------
    >>> steps_text(1.0), steps_text(2.5)
    ('1 step', '2.5 steps')
    """
    return f"{value:.3g} step{'' if f'{value:.3g}' == '1' else 's'}"


@dataclass(frozen=True)
class ObservedRegion:
    """A region in a recorded run.

    Attributes
    ----------
    n_stays, dwell, longest
        The number of complete stays, their mean length and the longest length.
    share
        The share of the updates that were done in the region.
    effective_size
        The number of independent draws that would estimate the region's share as well as this run.
    n_updates
        The number of updates of the run.
    """

    n_stays: int
    dwell: float
    longest: int
    share: float
    effective_size: float
    n_updates: int


@dataclass(frozen=True, repr=False)
class Region:
    """An important node, or a group of neighbouring important nodes, and how long the model stays
    there.

    Attributes
    ----------
    nodes
        The nodes of the region.
    target, mass
        The share of the region under the target π and under the stationary law ν of the chain.
    dwell, iid_dwell
        The expected number of consecutive steps per visit, and the same with independent draws from
        ν.
    escape, iid_escape
        The expected number of steps from the region until the model is more than ``radius`` hops
        away, and the same with independent draws.
    conductance
        The flow out of the region divided by the smaller of ν(S) and 1 - ν(S).
    observed
        The same in a recorded run, or None.
    escape_method, escape_error
        How the steps to escape were found, "exact" or "iterative", and a bound of their relative
        error.
    names
        The names of the nodes, if the network has names.
    """

    nodes: tuple[int, ...]
    target: float
    mass: float
    dwell: float
    iid_dwell: float
    escape: float
    iid_escape: float
    conductance: float
    observed: ObservedRegion | None = None
    escape_method: str = EXACT
    escape_error: float = 0.0
    names: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """How many times longer a visit lasts than with independent draws."""
        return self.dwell / self.iid_dwell

    @property
    def escape_answer(self) -> str:
        """How the steps to escape were found, in words."""
        return answer_text(self.escape_method, self.escape_error)

    @property
    def place(self) -> str:
        """The nodes of the region in words."""
        first = str(self.nodes[0])
        if self.names and self.names[0] != first:
            first += f" ({self.names[0]!r})"
        return (
            f"node {first}"
            if len(self.nodes) == 1
            else f"the {len(self.nodes)} nodes around {first}"
        )

    def __repr__(self) -> str:
        return (
            f"Region({self.place}: {steps_text(self.dwell)} per visit, "
            f"{steps_text(self.iid_dwell)} with i.i.d. draws, mass {self.mass:.3g})"
        )

    def _repr_html_(self) -> str:
        return columns_html(HEADER, [cells(self)], "Region")
