"""`Recommendation`: a walk, an update and a step size, and why."""

from __future__ import annotations

from dataclasses import dataclass

from levywalk.notebook import table_html
from levywalk.updates import Update
from levywalk.walks import Walk


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """A walk, an update and a step size for `levywalk.run`, and why.

    Attributes
    ----------
    design, update, step_size
        What to give to `run`.
    why
        The reasons, in a few sentences.
    estimate
        What it took in the trial or, without one, is estimated to take, in units of the goal. Not a
        number under privacy, where nobody knows beforehand which error is reached.
    others
        The estimates of the other pairs, the best first; none under privacy.
    walk
        The name of the design on the command line.

    Examples
    --------
    >>> import levywalk as lw
    >>> best = lw.recommended(lw.ring(50), lw.heterogeneous(50, important=1), goal="bytes")
    >>> best.pair, best.estimate <= min(best.others.values())
    ('oldest_neighbour+newton_token', True)
    """

    design: Walk
    update: Update
    step_size: float
    why: str
    estimate: float
    others: dict[str, float]
    walk: str

    @property
    def pair(self) -> str:
        """The pair as the command line writes it."""
        return f"{self.walk}+{self.update.name}"

    def __repr__(self) -> str:
        return (
            f"Recommendation({self.pair}, step_size={self.step_size:.3g}, "
            f"estimate={self.estimate:.3g})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("design", self.walk),
            ("update", self.update.name),
            ("step size", self.step_size),
            ("why", self.why),
        ]
        return table_html(rows, "Recommendation")
