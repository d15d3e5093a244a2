"""`inspect`: judge designs on a network and a problem before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.network import Network
from levywalk.notebook import columns_html, table_html, value_text
from levywalk.problem import Problem, known_optimum
from levywalk.progress import Bar
from levywalk.theory import (
    Assumptions,
    EntrapmentReport,
    Prediction,
    assumptions,
    spectral_gap,
    stationary_report,
    total_variation,
    transition,
)
from levywalk.theory.chain.blas_threads import one_blas_thread
from levywalk.theory.chain.transition import affordable_chain, require_design
from levywalk.theory.judge.entrapment import entrapment_of_chain
from levywalk.theory.judge.predict import predict_for_chain
from levywalk.walks import Design, mhlj, unif_rw, weight_rw

_PREDICTED_UP_TO = 200_000  # nodes; with more, a prediction takes minutes


@dataclass(frozen=True, repr=False)
class Judgement:
    """The judgement of one design.

    Attributes
    ----------
    entrapment
        Dwell, escape, conductance and spectral gaps.
    total_variation
        The total variation distance between the target and the stationary law of the chain, which
        jumps cause.
    law, target
        Both laws, one share per node with data.
    prediction
        The predicted cost. None if the network is too large, or if
        the problem has no optimum other than 0.
    """

    entrapment: EntrapmentReport
    total_variation: float
    law: Floats
    target: Floats
    prediction: Prediction | None

    @property
    def answers(self) -> dict[str, str]:
        """How each number was found: "exact", or "iterative" with an error estimate."""
        found = dict(self.entrapment.answers)
        if self.prediction is not None:
            found["predicted steps"] = self.prediction.answer
        return found

    def __repr__(self) -> str:
        steps = "unknown" if self.prediction is None else value_text(self.prediction.steps)
        return (
            f"Judgement({self.entrapment.design}: entrapment score {self.entrapment.score:.3g}, "
            f"right spectral gap {self.entrapment.spectral_gap.value:.3g}, predicted steps {steps})"
        )

    def _repr_html_(self) -> str:
        guess = self.prediction
        rows: list[tuple[str, object]] = [
            ("entrapment score", self.entrapment.score),
            ("right spectral gap", self.entrapment.spectral_gap.value),
            ("total variation distance from the target", self.total_variation),
            ("predicted steps", None if guess is None else guess.steps),
            ("are they trusted?", None if guess is None else guess.verdict),
            *((f"method, {name}", answer) for name, answer in self.answers.items()),
        ]
        return table_html(rows, self.entrapment.design)


@dataclass(frozen=True, repr=False)
class Inspection:
    """The result of `inspect`; `levywalk.report.inspection.plot_inspection` draws it.

    Attributes
    ----------
    network, smoothness
        The network and L_v of every node with data.
    accuracy
        The relative error of the predicted costs.
    judgements
        The judgements by the name of the design.
    assumptions
        The paper's assumptions for the last design.
    """

    network: Network
    smoothness: Floats
    accuracy: float
    judgements: dict[str, Judgement]
    assumptions: Assumptions

    def __repr__(self) -> str:
        scores = ", ".join(
            f"{name} {judgement.entrapment.score:.3g}"
            for name, judgement in self.judgements.items()
        )
        return f"Inspection({self.network.n} nodes, entrapment scores: {scores})"

    def _repr_html_(self) -> str:
        header = [
            "design",
            "entrapment score",
            "right spectral gap",
            "total variation distance from the target",
            "predicted steps",
            "trusted",
        ]
        keys = ("design", "score", "spectral_gap", "total_variation", "steps", "steps_trusted")
        rows = [[row[key] for key in keys] for row in self.rows()]
        caption = f"Before the run: {self.network.n} nodes, accuracy {100 * self.accuracy:g} %"
        return columns_html(header, rows, caption)

    @property
    def sentences(self) -> list[str]:
        """One sentence about entrapment per design."""
        return [judgement.entrapment.sentence for judgement in self.judgements.values()]

    @property
    def methods(self) -> list[str]:
        """One sentence per design about the methods that answered."""
        return [
            f"{name}: {_methods(judgement.answers)}." for name, judgement in self.judgements.items()
        ]

    @property
    def verdicts(self) -> list[str]:
        """One sentence per design about how far its predicted steps can be trusted."""
        return [
            f"{name}: {found.prediction.verdict}."
            for name, found in self.judgements.items()
            if found.prediction is not None
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of plain numbers per design."""
        out = []
        for name, found in self.judgements.items():
            trap, guess = found.entrapment, found.prediction
            worst = trap.worst
            out.append(
                {
                    "design": name,
                    "score": trap.score,
                    "nodes": list(worst.nodes),
                    "names": list(worst.names) or None,
                    "dwell": worst.dwell,
                    "iid_dwell": worst.iid_dwell,
                    "escape": worst.escape,
                    "escape_method": worst.escape_method,
                    "escape_error": worst.escape_error,
                    "iid_escape": worst.iid_escape,
                    "conductance": worst.conductance,
                    "target": worst.target,
                    "mass": worst.mass,
                    "spectral_gap": trap.spectral_gap.value,
                    "spectral_gap_trusted": trap.spectral_gap.trusted,
                    "spectral_gap_method": trap.spectral_gap.method,
                    "spectral_gap_error": trap.spectral_gap.relative_error,
                    "stationary_method": trap.law.method,
                    "stationary_error": trap.law.error,
                    "total_variation": found.total_variation,
                    "steps": None if guess is None else guess.steps,
                    "steps_method": None if guess is None else guess.method,
                    "steps_error": None if guess is None else guess.error,
                    "steps_trusted": None if guess is None else guess.trusted,
                    "steps_reason": None if guess is None else guess.reason,
                    "transfers": None if guess is None else guess.transfers,
                    "relative_step_size": None if guess is None else guess.relative_step_size,
                    "bias2": None if guess is None else guess.bias2,
                }
            )
        return out


def _methods(answers: Mapping[str, str]) -> str:
    """Return the methods in words; one word if they are all the same."""
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    return "; ".join(f"{name} {answer}" for name, answer in answers.items())


@one_blas_thread
def inspect(
    network: Network,
    problem: Problem,
    designs: Mapping[str, Design] | None = None,
    *,
    accuracy: float = 0.01,
    progress: bool | None = None,
) -> Inspection:
    """Judge designs by entrapment, spectral gap, bias, predicted cost and the paper's assumptions.

    Parameters
    ----------
    network, problem
        As for `levywalk.run`.
    designs
        The designs by name. Default: UnifRW, WeightRW and MHLJ.
    accuracy
        The relative error of the predicted costs.
    progress
        Whether to show a progress bar. Default: in a notebook, or if stderr is a terminal.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.experiments.inspect import inspect
    >>> found = inspect(lw.ring(24), lw.heterogeneous(24, dim=3, important=1))
    >>> trapped, free = found.judgements["WeightRW"], found.judgements["MHLJ"]
    >>> trapped.entrapment.score > free.entrapment.score
    True
    """
    designs = designs or {design.name: design for design in (unif_rw(), weight_rw(), mhlj())}
    judged: dict[str, Judgement] = {}
    uniform_spectral_gap = spectral_gap(transition(network, problem, unif_rw()))
    with Bar("judging designs", len(designs), show=progress) as bar:
        for name, given in designs.items():
            design = require_design(network, problem, given)
            target = design.bind(network, problem).law
            P = affordable_chain(network, problem, design)
            found = stationary_report(P)
            judged[name] = Judgement(
                entrapment=entrapment_of_chain(
                    network, problem, design, P, found, uniform_spectral_gap=uniform_spectral_gap
                ),
                total_variation=total_variation(target, found.law),
                law=found.law,
                target=target,
                prediction=_prediction(network, problem, design, P, found.law, accuracy),
            )
            bar.advance(1)
    last = list(designs.values())[-1]
    smoothness = np.asarray(problem.smoothness)
    return Inspection(network, smoothness, accuracy, judged, assumptions(network, problem, last))


def _prediction(
    network: Network, problem: Problem, design: Design, P: Any, law: Floats, accuracy: float
) -> Prediction | None:
    optimum = known_optimum(problem)
    if optimum is None or network.n > _PREDICTED_UP_TO or not optimum.any():
        return None
    return predict_for_chain(network, problem, design, P, law, accuracy=accuracy)
