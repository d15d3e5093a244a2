"""Targets: the target law π of a walk, given by a score that each node can compute itself.

Scores matter only up to a common factor: π(v) = t_v / Σt. A node computes its own score from its
degree, its smoothness constant L_v and the published mean L̄; it never needs another node's data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.registry import registered


@runtime_checkable
class Target(Protocol):
    """Any object that scores nodes."""

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return one positive score per node, elementwise in ``degree`` and ``smoothness``."""


@registered("target", "uniform")
@dataclass(frozen=True, slots=True)
class Uniform:
    """π(v) = 1/n: the same probability for every node.

    Examples
    --------
    >>> Uniform().scores(np.array([2, 3]), np.array([1.0, 9.0]), 5.0)
    array([1., 1.])
    """

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return ones."""
        return np.ones(len(degree))


@registered("target", "importance")
@dataclass(frozen=True, slots=True)
class Importance:
    """π(v) = L_v / ΣL, Eq. [impdist].

    Examples
    --------
    >>> Importance().scores(np.array([2, 3]), np.array([1.0, 9.0]), 5.0)
    array([1., 9.])
    """

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return the smoothness constants."""
        return np.asarray(smoothness, dtype=np.float64)


@registered("target", "mixed")
@dataclass(frozen=True, slots=True)
class Mixed:
    """π(v) = λ/n + (1-λ) L_v / ΣL: ``mix`` = λ is the share of the uniform law.

    Examples
    --------
    >>> Mixed(0.5).scores(np.array([2, 3]), np.array([1.0, 9.0]), 5.0)
    array([3., 7.])
    """

    mix: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mix", checks.probability("mix", self.mix))

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return λL̄ + (1-λ)L_v."""
        return self.mix * mean_smoothness + (1.0 - self.mix) * np.asarray(
            smoothness, dtype=np.float64
        )


@registered("target", "degree")
@dataclass(frozen=True, slots=True)
class Degree:
    """π(v) = deg(v) / Σdeg: the stationary law of the simple random walk.

    Every proposal is accepted.

    Examples
    --------
    >>> Degree().scores(np.array([2, 3]), np.array([1.0, 9.0]), 5.0)
    array([2., 3.])
    """

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return the degrees."""
        return np.asarray(degree, dtype=np.float64)


@registered("target", "scores")
class Scores:
    """Your own law, given by one positive score per node: π(v) = score_v / Σ scores.

    Examples
    --------
    >>> Scores([1, 2, 1])
    Scores(3 nodes)
    """

    def __init__(self, values: npt.ArrayLike) -> None:
        try:
            clean = np.array(values, dtype=np.float64)
        except OverflowError:
            raise InvalidParameter(
                "target scores must be positive and finite, got an integer too large for a float"
            ) from None
        if clean.ndim != 1:
            raise InvalidParameter(
                f"target scores must be one number per node, got an array of shape {clean.shape}"
            )
        bad = np.flatnonzero(~(np.isfinite(clean) & (clean > 0)))
        if bad.size:
            v = int(bad[0])
            raise InvalidParameter(
                f"target scores must be positive and finite, got {float(clean[v])!r} for node {v}; "
                "a node with score 0 would never be visited: remove it from the network instead"
            )
        clean.setflags(write=False)
        self.values = clean

    def scores(self, degree: Ints, smoothness: Floats, mean_smoothness: float) -> Floats:
        """Return the given scores, if there is one per node."""
        if len(self.values) != len(degree):
            raise InvalidParameter(
                f"target has {len(self.values)} scores but the network has {len(degree)} nodes; "
                "give one per node"
            )
        return self.values

    def __repr__(self) -> str:
        return f"Scores({len(self.values)} nodes)"


def as_target(value: object) -> Target:
    """Read a target from a name, an object or one score per node.

    Examples
    --------
    >>> as_target("importance")
    Importance()
    """
    named: dict[str, Target] = {
        "uniform": Uniform(),
        "importance": Importance(),
        "degree": Degree(),
    }
    if isinstance(value, str):
        return named[checks.choice("target", value, named)]
    if isinstance(value, Target):
        return value
    try:
        return Scores(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(
            "target must be 'uniform', 'importance', 'degree', Mixed(mix) or one score per node, "
            f"got {value!r}"
        ) from None
