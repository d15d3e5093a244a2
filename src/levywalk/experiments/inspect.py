"""`inspect`: judge walks on a network and a problem before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.network import Network
from levywalk.problem import Problem, optimum_of
from levywalk.progress import Bar
from levywalk.theory import (
    Assumptions,
    EntrapmentReport,
    Prediction,
    assumptions,
    entrapment,
    predict,
    stationary,
    total_variation,
    transition,
)
from levywalk.walks import Design, mhlj, unif_rw, weight_rw

_PREDICTED_UP_TO = 200_000  # nodes: above, a prediction takes minutes


@dataclass(frozen=True)
class Judgement:
    """One design, judged.

    Attributes
    ----------
    trap
        Dwell, escape, conductance and spectral gaps.
    shift
        Total variation between the target and the chain's own law: what jumps cost in bias.
    law, target
        Both laws, by node.
    prediction
        Steps to the accuracy in the small-step limit, or None where it is not affordable or has no meaning.
    """

    trap: EntrapmentReport
    shift: float
    law: Floats = field(repr=False)
    target: Floats = field(repr=False)
    prediction: Prediction | None


@dataclass(frozen=True)
class Inspection:
    """What `inspect` found; `levywalk.report.figures.inspection.plot_inspection` draws it."""

    network: Network = field(repr=False)
    smoothness: Floats = field(repr=False)
    accuracy: float
    judgements: dict[str, Judgement]
    assumptions: Assumptions

    @property
    def sentences(self) -> list[str]:
        """One plain sentence per design."""
        return [judgement.trap.sentence for judgement in self.judgements.values()]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of plain numbers per design."""
        out = []
        for name, found in self.judgements.items():
            trap, guess = found.trap, found.prediction
            worst = max(trap.regions, key=lambda region: region.dwell / region.iid_dwell)
            out.append(
                {
                    "design": name,
                    "score": trap.score,
                    "nodes": list(worst.nodes),
                    "dwell": worst.dwell,
                    "iid_dwell": worst.iid_dwell,
                    "escape": worst.escape,
                    "iid_escape": worst.iid_escape,
                    "conductance": worst.conductance,
                    "target": worst.target,
                    "mass": worst.mass,
                    "spectral_gap": trap.gap.value,
                    "spectral_gap_trusted": trap.gap.trusted,
                    "spectral_gap_method": trap.gap.method,
                    "total_variation": found.shift,
                    "steps": None if guess is None else guess.steps,
                    "transfers": None if guess is None else guess.transfers,
                    "relative_step_size": None if guess is None else guess.relative_step_size,
                    "bias2": None if guess is None else guess.bias2,
                }
            )
        return out


def inspect(
    network: Network,
    problem: Problem,
    designs: Mapping[str, Design] | None = None,
    *,
    accuracy: float = 0.01,
    progress: bool | None = None,
) -> Inspection:
    """Judge designs (UnifRW, WeightRW and MHLJ by default): entrapment, gaps, bias, predicted cost, assumptions.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.experiments.inspect import inspect
    >>> found = inspect(lw.ring(60), lw.heterogeneous(60, important=1))
    >>> found.judgements["WeightRW"].trap.score > found.judgements["MHLJ"].trap.score
    True
    """
    designs = designs or {design.name: design for design in (unif_rw(), weight_rw(), mhlj())}
    judged: dict[str, Judgement] = {}
    with Bar("judging", len(designs), show=progress) as bar:
        for name, design in designs.items():
            target = design.bind(network, problem).law
            law = stationary(transition(network, problem, design))
            judged[name] = Judgement(
                trap=entrapment(network, problem, design),
                shift=total_variation(target, law),
                law=law,
                target=target,
                prediction=_prediction(network, problem, design, accuracy),
            )
            bar.advance(1)
    last = list(designs.values())[-1]
    smoothness = np.asarray(problem.smoothness)
    return Inspection(network, smoothness, accuracy, judged, assumptions(network, problem, last))


def _prediction(network: Network, problem: Problem, design: Design, accuracy: float) -> Prediction | None:
    optimum = optimum_of(problem)
    if optimum is None or network.n > _PREDICTED_UP_TO or not optimum.any():
        return None
    return predict(network, problem, design, accuracy=accuracy)
