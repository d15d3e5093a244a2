"""The phase diagram as a document, and the place of a user's own problem in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.network import Network
from levywalk.problem import LeastSquares, Problem
from levywalk.reproduction.phase import (
    ACCURACIES,
    GRAPHS,
    METHODS,
    RATIOS,
    SEEDS,
    SNRS,
    at_edge,
    judge_cell,
)

DIAGRAM = Path(__file__).with_name("phase_diagram.json")
_LARGEST = 50_000_000  # numbers of a dense fit
_IMPORTANT = 10.0  # a sample with so many times the median ‖a‖² is an important one
_FEWEST = 3.0  # samples per feature, below which residuals say little about the noise


def document(results: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the diagram as plain data: for each graph and accuracy, a row of cells per ratio of
    signal to noise.

    Parameters
    ----------
    results
        For each graph, the stored results in the order of `phase.descriptions`.
    """
    graphs: dict[str, Any] = {}
    for name, found in results.items():
        shape = (len(SNRS), len(RATIOS), len(SEEDS))
        steps = np.array([result.arrays["steps"] for result in found])
        errors = np.array([result.arrays["error"] for result in found])
        steps = steps.reshape(*shape, *steps.shape[1:])
        errors = errors.reshape(*shape, *errors.shape[1:])
        spread = np.array([result.numbers["spread"] for result in found]).reshape(shape)
        graphs[name] = {
            "title": GRAPHS[name].title,
            "spread": [float(np.median(spread[:, j])) for j in range(len(RATIOS))],
            "at_edge": {
                method: _share_at_edge(
                    [
                        at_edge(steps[i, j, ..., a], errors[i, j], method)
                        for i in range(len(SNRS))
                        for j in range(len(RATIOS))
                        for a in range(len(ACCURACIES))
                    ]
                )
                for method in METHODS
            },
            "cells": {
                f"{accuracy:g}": [
                    [
                        judge_cell(steps[i, j, ..., a], errors[i, j]).as_json()
                        for j in range(len(RATIOS))
                    ]
                    for i in range(len(SNRS))
                ]
                for a, accuracy in enumerate(ACCURACIES)
            },
        }
    return {
        "snr": list(SNRS),
        "ratio": list(RATIOS),
        "accuracies": list(ACCURACIES),
        "instances": [SEEDS[0], SEEDS[-1]],
        "methods": list(METHODS),
        "graphs": graphs,
    }


def _share_at_edge(counts: Sequence[int | None]) -> float:
    """Return the share of instances at an end of the grid of step sizes, of the cells that count.

    Examples
    --------
    >>> _share_at_edge([None, 0, 4])
    0.25
    """
    known = [count for count in counts if count is not None]
    return sum(known) / (len(SEEDS) * len(known)) if known else 0.0


@dataclass(frozen=True)
class PhasePlace:
    """Where a user's problem lies: its ratio of signal to noise, its importance ratio, and what won
    there, by graph of the diagram and accuracy.
    """

    snr: float
    spread: float
    lines: tuple[str, ...]


def signal_to_noise(problem: Problem) -> tuple[float, float] | str:
    """Estimate ‖truth‖²/noise² at unit feature variance, and max L_v over median L_v, from a least
    squares problem; or say why that cannot be done.

    The noise is the residual sum of squares over the degrees of freedom, samples minus the rank of
    the features. The signal is the mean of (aᵀx̂)² over the ordinary samples, whose ‖a‖² is at most
    ten times the median, so that neither the units of the features nor a few important samples
    count; with features of unit variance it is ‖x̂‖². The part of it that is noise is taken away.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.heterogeneous(2000, important=2, snr=100.0, seed=1)
    >>> snr, spread = signal_to_noise(problem)
    >>> 80.0 < snr < 125.0, 80.0 < spread < 250.0
    (True, True)
    >>> signal_to_noise(lw.Logistic([[1.0], [2.0], [3.0]], [0, 1, 0], ridge=0.1))
    'it is not a least squares problem'
    """
    if not isinstance(problem, LeastSquares):
        return "it is not a least squares problem"
    features: Any = problem.features
    if features.shape[0] * features.shape[1] > _LARGEST:
        return f"its {features.shape[0]} x {features.shape[1]} features are too many to fit here"
    if not isinstance(features, np.ndarray):  # sparse
        features = np.asarray(features.toarray())
    targets = np.asarray(problem.targets, dtype=np.float64)
    samples, dim = features.shape
    if samples < _FEWEST * dim:
        return (
            f"{samples} samples for {dim} features are too few to estimate the noise; "
            f"{math.ceil(_FEWEST * dim)} are needed"
        )
    fit, _, rank, _ = np.linalg.lstsq(features, targets)
    if rank < dim:
        return f"its {dim} features are not independent (rank {rank})"
    noise2 = float(((targets - features @ fit) ** 2).sum() / (samples - rank))
    if noise2 <= 1e-24 * float((targets**2).mean()):
        return math.inf, _spread(problem)
    size = (features**2).sum(axis=1)
    ordinary = features[size <= _IMPORTANT * np.median(size[size > 0.0])]
    # x̂ has the covariance noise2 (AᵀA)⁻¹.
    own_noise = noise2 * np.trace(np.linalg.solve(features.T @ features, ordinary.T @ ordinary))
    signal = max(float(((ordinary @ fit) ** 2).sum()) - float(own_noise), 0.0) / len(ordinary)
    return signal / noise2, _spread(problem)


def _spread(problem: Problem) -> float:
    smoothness = np.asarray(problem.smoothness, dtype=np.float64)
    return float(smoothness.max() / np.median(smoothness))


def place(network: Network, problem: Problem, diagram: Mapping[str, Any]) -> PhasePlace | str:
    """Return where a problem lies in the diagram, or why it cannot be placed."""
    found = signal_to_noise(problem)
    if isinstance(found, str):
        return found
    snr, spread = found
    lines = []
    for graph in _nearest(network, diagram):
        known = diagram["graphs"][graph]
        i = _index(diagram["snr"], snr)
        j = _index(known["spread"], spread)
        won = []
        for accuracy in diagram["accuracies"]:
            cell = known["cells"][f"{accuracy:g}"][i][j]
            if cell["winner"] is None:
                text = "no method reached it"
            elif cell["decided"]:
                text = f"{cell['winner']} won"
            else:
                text = f"{cell['winner']} and {cell['runner_up']} were about equally fast"
            won.append(f"to {100 * accuracy:g} % {text}")
        lines.append(f"on {known['title']} {', '.join(won)}")
    return PhasePlace(snr, spread, tuple(lines))


def _index(values: Sequence[float], value: float) -> int:
    """Return the nearest of some positive numbers, by their ratio."""
    if value <= 0.0:
        return 0
    if math.isinf(value):
        return len(values) - 1
    return int(np.argmin(np.abs(np.log(np.asarray(values) / value))))


def _nearest(network: Network, diagram: Mapping[str, Any]) -> list[str]:
    """Return the graphs of the diagram with the nearest mean degree, at most two of them."""
    degrees = {"ring": 2.0, "grid": 3.9, "ws": 4.0, "er": 100.0, "gnutella": 6.6}
    known = [name for name in diagram["graphs"] if name in degrees]
    mean = float(np.mean(network.degree))
    return sorted(known, key=lambda name: abs(math.log(degrees[name] / mean)))[:2]


def read_diagram() -> dict[str, Any] | None:
    """Return the diagram that the package holds, or None if it was not computed."""
    if not DIAGRAM.exists():
        return None
    found: dict[str, Any] = json.loads(DIAGRAM.read_text(encoding="utf-8"))
    return found


def place_sentence(network: Network, problem: Problem) -> str:
    """Return one sentence about the place of a problem in the phase diagram, or why it has none.

    Examples
    --------
    >>> import levywalk as lw
    >>> place_sentence(lw.ring(3), lw.Logistic([[1.0], [2.0], [3.0]], [0, 1, 0], ridge=0.1))
    'Phase diagram: not placed in it, because it is not a least squares problem.'
    """
    found = signal_to_noise(problem)
    if isinstance(found, str):
        return f"Phase diagram: not placed in it, because {found}."
    snr, spread = found
    numbers = (
        f"signal to noise {'infinite' if math.isinf(snr) else f'about {snr:,.3g}'}, "
        f"max L_v/median L_v {spread:,.3g}"
    )
    diagram = read_diagram()
    if diagram is None:
        return f"Phase diagram: {numbers}; the diagram itself is not in this installation."
    placed = place(network, problem, diagram)
    assert isinstance(placed, PhasePlace)
    return f"Phase diagram: {numbers}; there, {'; '.join(placed.lines)}."
