"""The Newton token: the sum of all nodes' quadratic models travels, and each visit minimises it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Array, Kind, Like, Memory, Number, PerSample
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.remedy import python_or_command
from levywalk.updates.linear import require_linear
from levywalk.updates.update import LocalData, Update

MOST_DIM = 512
FULL = 1e-11  # a pivot below this share of the largest diagonal entry counts as no rank
LIFT = 1e-6  # δ: the share of the mean diagonal that is added while the rank is not full
# A sample's curvature is trusted unless it is this many times as large on average since the last
# visit; predictions that have moved less than this share of themselves say nothing about that.
TRUST, MOVED = 2.0, 1e-6


@registered("update", "newton_token")
@dataclass(frozen=True)
class NewtonToken(Update):
    """Incremental Newton; see `newton_token`.

    Examples
    --------
    >>> NewtonToken()
    NewtonToken()
    """

    name = "newton_token"
    tunable = False
    dim: int = field(default=1, init=False, repr=False, compare=False)
    node_memory = {  # noqa: RUF012
        "curvature": PerSample(),  # h: φ'' at the last visit, or more where it was not trusted
        "offset": PerSample(),  # h z - φ' at the last visit
        "prediction": PerSample(),  # z at the last visit
        "seen": Number(np.int64),
    }

    @property
    def token_memory(self) -> Mapping[str, Kind]:  # type: ignore[override]
        """Σ H_v without ridge, packed by rows of the lower triangle, Σ (H_v φ_v - ∇f_v(φ_v)), and
        how many nodes are in the sums.
        """
        return {
            "hessian": Array(self.dim * (self.dim + 1) // 2),
            "vector": Like("model"),
            "nodes": Number(np.int64),
        }

    def fitted(self, problem: Problem) -> Self:
        """Return the update for models of the problem's dimension."""
        made = copy.copy(self)
        object.__setattr__(made, "dim", problem.dim)
        return made

    def check(self, problem: Problem) -> None:
        """Refuse problems without second derivatives, and large ones."""
        require_linear(self.name, problem)
        if problem.dim > MOST_DIM:
            raise InvalidParameter(
                f"newton_token carries dim(dim+3)/2 numbers and solves a system at each visit, so "
                f"dim must be at most {MOST_DIM}, got {problem.dim}; use "
                + python_or_command("lw.point_saga()", "point_saga")
            )

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Replace the node's quadratic model, and move to the minimum of the sum."""
        features, targets = local.samples
        token, node = memory.token, memory.node
        z = features @ model
        slopes, bends, last = local.loss_slopes(z), local.loss_curvatures(z), node["prediction"]
        far = np.abs(z - last) > MOVED * (1.0 + np.abs(z))
        mean = (slopes - local.loss_slopes(last)) / np.where(far, z - last, 1.0)
        bends = np.where(far & (mean > TRUST * bends), mean, bends)
        offsets = bends * z - slopes
        rows, columns = np.tril_indices(len(model))
        change = (features.T * (bends - node["curvature"])) @ features / len(targets)
        token["hessian"] += change[rows, columns]
        token["vector"] += (offsets - node["offset"]) @ features / len(targets)
        node["curvature"], node["offset"], node["prediction"] = bends, offsets, z
        token["nodes"] += node["seen"] == 0
        node["seen"] = 1
        matrix = np.zeros((len(model), len(model)))
        matrix[rows, columns] = token["hessian"]
        matrix += np.tril(matrix, -1).T
        matrix[np.diag_indices(len(model))] += token["nodes"] * local.ridge
        return model + step_size * (solve(matrix, token["vector"]) - model)

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return 1: the whole step to the minimum."""
        return 1.0

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        from levywalk.compiled import curvature_of, slope_of, solve_positive

        full, lift, trust, moved = FULL, LIFT, TRUST, MOVED

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            (hessian, vector, seen), (curvature, offset, last, known) = token, kept
            count, dim = features.shape
            for i in range(count):
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * model[j]
                slope, bend = slope_of(loss, z, targets[i]), curvature_of(loss, z, targets[i])
                if abs(z - last[i]) > moved * (1.0 + abs(z)):
                    mean = (slope - slope_of(loss, last[i], targets[i])) / (z - last[i])
                    if mean > trust * bend:
                        bend = mean
                shift = bend * z - slope
                more, step = (bend - curvature[i]) / count, (shift - offset[i]) / count
                curvature[i], offset[i], last[i] = bend, shift, z
                place = 0
                for j in range(dim):
                    vector[j] += step * features[i, j]
                    if more != 0.0:
                        for k in range(j + 1):
                            hessian[place + k] += more * features[i, j] * features[i, k]
                    place += j + 1
            if known[0] == 0:
                known[0] = 1
                seen[0] += 1
            factor = np.empty((dim, dim))
            found = np.empty(dim)
            largest, trace, place = 0.0, 0.0, 0
            for j in range(dim):
                entry = hessian[place + j] + seen[0] * ridge
                largest = max(largest, entry)
                trace += entry
                place += j + 1
            if not largest > 0.0:
                return
            for lifted in (0.0, lift * trace / dim):
                place = 0
                for j in range(dim):
                    for k in range(j + 1):
                        factor[j, k] = hessian[place + k]
                    factor[j, j] += seen[0] * ridge + lifted
                    found[j] = vector[j]
                    place += j + 1
                if solve_positive(factor, found, full * largest):
                    for j in range(dim):
                        model[j] += step_size * (found[j] - model[j])
                    return

        return apply


def solve(matrix: Floats, vector: Floats) -> Floats:
    """Return the solution of a system with a positive matrix; δI is added if its rank is not full.

    Examples
    --------
    >>> solve(np.diag([2.0, 0.0]), np.array([4.0, 0.0])).round(4)
    array([2., 0.])
    """
    dim = len(vector)
    largest, trace = float(matrix.diagonal().max()), float(matrix.diagonal().sum())
    for lifted in (0.0, LIFT * trace / dim):
        shifted = matrix + lifted * np.eye(dim)
        try:
            factor = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            continue
        if (factor.diagonal() ** 2 > FULL * largest).all():
            return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, vector)))
    return np.zeros(dim)


def newton_token() -> NewtonToken:
    """Incremental Newton along a walk (Gürbüzbalaban, Ozdaglar, Parrilo 2015).

    Each node has a quadratic model of its loss, around the model of its last visit. The token
    carries the sum of these, dim(dim+3)/2 numbers and a count, and a visited node renews its own
    part and moves the model to the minimum of the sum. For least squares this is exact after one
    visit of every node: it is the aggregation of the normal equations along a walk, which a tree
    could do with 2(n-1) messages. ``step_size`` is the share of the way to the minimum, 1 by
    default; there is nothing to tune. While the sum has no full rank, δI is added to it.

    Notes
    -----
    Whole steps need a safeguard for other losses: where a loss is flat on both sides of a bend, a
    far prediction has no curvature, the next step is longer still, and the model never comes back.
    So a node compares φ''(z) with the mean curvature (φ'(z) - φ'(z'))/(z - z') since the prediction
    z' of its last visit, and takes the mean if that is more than twice as large. Before the first
    visit z' is 0, for which the mean makes a bound of the logistic loss (Jaakkola and Jordan 2000).
    For least squares both are the same, and close to the optimum it is Newton's method. There is no
    proof of convergence. Of 60 logistic runs (30 instances with 100 nodes, two of them with 100
    times the variance, visited in random and in equal laps) 11 did not reach 1e-6 in 8 laps without
    the safeguard, some of them alternating without end, and 3 with it, which took up to 15.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(20), lw.homogeneous(20, dim=3, seed=1)
    >>> trace = lw.run(
    ...     network, problem, lw.mhda(), steps=20, step_size="theory", update=lw.newton_token()
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-18)
    True
    """
    return NewtonToken()
