"""Choose the jumps of MHLJ, or the mixture of MixedRW, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.problem import Problem
from levywalk.progress import Bar
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.chain.stationary import stationary
from levywalk.theory.chain.transition import affordable_chain
from levywalk.theory.judge.predict import Prediction, predict, predict_for_chain
from levywalk.walks import Design, mhlj, mixed_rw

if TYPE_CHECKING:
    import pandas as pd

P_JUMPS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
P_DISTANCES = (0.25, 0.5, 1.0)
MAX_HOPS = (1, 3, 10)
MIXES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)


@dataclass(frozen=True, repr=False)
class Candidate:
    """One design of the search, its parameters, its prediction and its cost."""

    design: Design
    parameters: dict[str, float]
    prediction: Prediction
    cost: float

    def __repr__(self) -> str:
        return f"Candidate({_parameters_text(self.parameters)}: {self.cost:,.0f} predicted)"


@dataclass(frozen=True, repr=False)
class Tuning:
    """The result of `tune`.

    Attributes
    ----------
    best
        The design with the smallest predicted cost.
    parameters, cost
        Its parameters, and its predicted cost to the accuracy.
    candidates
        All designs with a full prediction.
    curve
        The numbers of `table`, one dict per row.
    cost_unit
        "steps" or "transfers".
    prediction
        The prediction of the best design; it says whether it is ``trusted``, and why.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.heterogeneous(30, important=1)
    >>> lw.tune(lw.ring(30), problem, p_jumps=[0.0, 0.1], p_distances=[0.5], max_hops=[3])
    Tuning(p_jump = ..., p_distance = 0.5, max_hops = 3: ... steps, best of 2 designs, trusted)
    """

    best: Design
    parameters: dict[str, float]
    cost: float
    candidates: tuple[Candidate, ...]
    curve: tuple[dict[str, float], ...]
    prediction: Prediction
    cost_unit: str = "steps"

    @property
    def trusted(self) -> bool:
        """Whether the predicted cost of the best design can be relied upon."""
        return self.prediction.trusted

    @property
    def reason(self) -> str:
        """Why it can or cannot be relied upon."""
        return self.prediction.reason

    def __repr__(self) -> str:
        return (
            f"Tuning({_parameters_text(self.parameters)}: {self.cost:,.0f} {self.cost_unit}, "
            f"best of {_designs_text(len(self.candidates))}, "
            f"{'trusted' if self.trusted else self.prediction.verdict})"
        )

    def _repr_html_(self) -> str:
        caption = (
            f"Best of {_designs_text(len(self.candidates))}: {_parameters_text(self.parameters)}, "
            f"{self.cost:,.0f} {self.cost_unit} predicted, {self.prediction.verdict}"
        )
        return columns_html(
            list(self.curve[0]), [list(row.values()) for row in self.curve], caption
        )

    def table(self) -> pd.DataFrame:
        """Return spectral gap, bias and predicted cost against p_jump (or mix), with the best other
        parameters.
        """
        with needs("frames", "Tuning.table()", "pandas"):
            import pandas as pd

        return pd.DataFrame(list(self.curve))


def tune(
    network: Network,
    problem: Problem,
    *,
    cost: str = "steps",
    accuracy: float = 0.01,
    family: str = "mhlj",
    p_jumps: Iterable[float] = P_JUMPS,
    p_distances: Iterable[float] = P_DISTANCES,
    max_hops: Iterable[int] = MAX_HOPS,
    mixes: Iterable[float] = MIXES,
    progress: bool | None = None,
) -> Tuning:
    """Find the jump parameters of MHLJ, or the λ of MixedRW, with the smallest predicted cost.

    `levywalk.predict` gives the cost, with the best step size of each design. Nothing is simulated.
    The lengths of jumps (p_distance and max_hops) are chosen in the limit of small steps, which is
    fast; with these, each p_jump gets a full prediction.

    Parameters
    ----------
    network, problem
        As for `levywalk.run`. The problem must state its optimum.
    cost
        "steps" or "transfers" to the accuracy.
    accuracy
        The relative error to reach.
    family
        "mhlj" (searches p_jump, p_distance and max_hops) or "mixed" (searches λ).
    p_jumps, p_distances, max_hops, mixes
        The values to try.
    progress
        Whether to show a progress bar. Default: in a notebook, or if stderr is a terminal.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(40), lw.heterogeneous(40, dim=2, important=1)
    >>> tuning = lw.tune(network, problem, accuracy=0.1, p_distances=[0.5], max_hops=[3])
    >>> tuning.cost <= min(row["cost"] for row in tuning.curve)
    True
    """
    checks.choice("cost", cost, ("steps", "transfers"))
    checks.choice("family", family, ("mhlj", "mixed"))
    mixes, p_jumps = _values("mixes", mixes), _values("p_jumps", p_jumps)
    p_distances, max_hops = _values("p_distances", p_distances), _values("max_hops", max_hops)
    if family == "mixed":
        grid = [({"mix": mix}, mixed_rw(mix)) for mix in mixes]
    else:
        grid = [
            ({"p_jump": p, "p_distance": d, "max_hops": r}, mhlj(p, d, r))
            for p, (d, r) in product(p_jumps, _shapes(p_distances, max_hops))
        ]
    screened = _screened(network, problem, grid, accuracy, cost, progress)
    _, *rest = screened.parameters
    row = [one for one in grid if all(one[0][key] == screened.parameters[key] for key in rest)]
    judged: list[Candidate] = []
    with Bar("predicting costs", len(row), show=progress) as bar:
        for parameters, design in row:
            found = predict(network, problem, design, accuracy=accuracy)
            judged.append(_candidate(design, parameters, found, cost))
            bar.advance(1)
    winner = min(judged, key=lambda candidate: candidate.cost)
    return Tuning(
        best=winner.design,
        parameters=winner.parameters,
        cost=winner.cost,
        candidates=tuple(judged),
        curve=_curve(network, problem, judged, winner),
        prediction=winner.prediction,
        cost_unit=cost,
    )


def _values(name: str, values: Iterable[Any]) -> list[Any]:
    """Return the values to try, of which there must be one."""
    try:
        found = list(values)
    except TypeError:
        found = []
    if not found:
        raise InvalidParameter(
            f"{name} must be a list of at least one value, such as [0.1], got {values!r}"
        )
    return found


def _screened(
    network: Network,
    problem: Problem,
    grid: list[tuple[dict[str, float], Design]],
    accuracy: float,
    cost: str,
    progress: bool | None,
) -> Candidate:
    """Return the best of the grid in the limit of small steps, from which the shape of the jumps
    is taken.
    """
    judged = []
    with Bar("choosing the lengths of jumps", len(grid), show=progress) as bar:
        for parameters, design in grid:
            P = affordable_chain(network, problem, design)
            found = predict_for_chain(
                network, problem, design, P, stationary(P), accuracy=accuracy, follow=False
            )
            judged.append(_candidate(design, parameters, found, cost))
            bar.advance(1)
    return min(judged, key=lambda candidate: candidate.cost)


def _candidate(
    design: Design, parameters: dict[str, float], found: Prediction, cost: str
) -> Candidate:
    return Candidate(design, parameters, found, found.steps if cost == "steps" else found.transfers)


def _parameters_text(parameters: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in parameters.items())


def _designs_text(count: int) -> str:
    return "1 design" if count == 1 else f"{count} designs"


def _shapes(p_distances: Iterable[float], max_hops: Iterable[int]) -> list[tuple[float, int]]:
    """Return the distinct distance laws; if p_distance or max_hops is 1, every jump has one hop."""
    return sorted(
        {(1.0, 1) if d == 1.0 or r == 1 else (d, r) for d, r in product(p_distances, max_hops)}
    )


def _curve(
    network: Network, problem: Problem, judged: list[Candidate], winner: Candidate
) -> tuple[dict[str, float], ...]:
    """Return one row per value of the first parameter; the other parameters are those of the
    winner.
    """
    axis, *rest = winner.parameters
    rows = []
    for candidate in judged:
        if all(candidate.parameters[name] == winner.parameters[name] for name in rest):
            gap = spectral_gap(affordable_chain(network, problem, candidate.design))
            rows.append(
                {
                    axis: candidate.parameters[axis],
                    "spectral_gap": gap.value,
                    "bias2": candidate.prediction.bias2,
                    "noise": candidate.prediction.noise,
                    "step_size": candidate.prediction.step_size,
                    "steps": candidate.prediction.steps,
                    "transfers": candidate.prediction.transfers
                    if math.isfinite(candidate.prediction.steps)
                    else np.inf,
                    "cost": candidate.cost,
                    "trusted": candidate.prediction.trusted,
                }
            )
    return tuple(sorted(rows, key=lambda row: row[axis]))
