"""The errors of the models at a checkpoint: ‖x - x*‖², f(x) - f(x*) and f(x).

‖x - x*‖² is always exact. For least squares f is computed with the Hessian, at a cost that does not
depend on the number of samples. Any other f needs a pass over the data, which at 200 checkpoints
can be far more work than the walk itself. Where it would be (`levywalk.engine.loss_cost`), f is
estimated by the mean over some of the nodes, which are drawn once, uniformly without replacement.
This estimate is unbiased, uses the same nodes for all replicas and checkpoints, and is never mixed
with exact values in one trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.engine.loss_cost import affordable_nodes, has_small_hessian
from levywalk.engine.standings import Standings
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.problem import (
    GeneralizedLinear,
    LeastSquares,
    Problem,
    follows_its_loss,
    is_logistic,
    is_quadratic,
    is_sparse,
    known_optimum,
    minimises,
)
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.samples import read_only
from levywalk.problem.sparse_features import read_only_features
from levywalk.updates import Update

_VALUES = 1 << 18  # losses of samples that are computed together


def loss_nodes(
    measure_loss: Any, problem: Problem, update: Update, steps: int, checkpoints: int, seed: int
) -> Ints | None:
    """Return the nodes on which f is measured, or None for all.

    ``measure_loss`` is "auto", "exact" or the number of nodes.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.updates import Sgd
    >>> problem = lw.Logistic([[1.0], [-1.0]] * 500, [1, 1] * 500, ridge=0.1)
    >>> len(loss_nodes("auto", problem, Sgd(), steps=400_000, checkpoints=200, seed=0))
    199
    >>> loss_nodes("exact", problem, Sgd(), steps=400_000, checkpoints=200, seed=0) is None
    True
    """
    if isinstance(measure_loss, str):
        if measure_loss not in ("auto", "exact"):
            raise InvalidParameter(
                f"measure_loss must be 'auto', 'exact' or a number of nodes, got {measure_loss!r}"
            )
        if measure_loss == "exact":
            return None
        count = affordable_nodes(problem, update, steps, checkpoints)
    else:
        count = checks.integer("measure_loss", measure_loss, low=1)
    if count >= problem.n:
        return None
    return np.sort(generator(seed, Domain.LOSS).choice(problem.n, count, replace=False))


class Measure:
    """Measures one problem's models; a diverged replica's errors are infinite.

    f is the mean over ``nodes``, or over all nodes if it is None. With ``only_distance`` only ‖x -
    x*‖² is measured.
    """

    def __init__(
        self, problem: Problem, nodes: Ints | None = None, only_distance: bool = False
    ) -> None:
        self.problem = problem
        self.nodes = nodes
        self.only_distance = only_distance
        self.optimum = known_optimum(problem)
        sparse = is_sparse(getattr(problem, "sorted_features", None))
        self._own, self._logistic = follows_its_loss(problem), is_logistic(problem) and not sparse
        if self._own:
            assert isinstance(problem, GeneralizedLinear)
            self._samples = _samples_of(problem, nodes)
        self._quadratic = (
            is_quadratic(problem)
            and nodes is None
            and self.optimum is not None
            and has_small_hessian(problem)
            and minimises(problem)
        )
        self.least = np.nan
        if self.optimum is not None and not only_distance:
            self.least = float(self._losses(np.array([self.optimum]))[0])
        if self.optimum is None and not isinstance(problem, DifferentiableProblem):
            inherited = getattr(problem, "optimum", None) is not None
            of_its_own = " for the losses that its class overrides" if inherited else ""
            warnings.warn(
                f"problem has no optimum{of_its_own}, so distance2 and excess_loss are NaN; give "
                "it an attribute `optimum`, or read the trace's loss",
                DataWarning,
                stacklevel=4,
            )

    def describe(self) -> dict[str, Any]:
        """Return how f was measured, for provenance."""
        count = self.problem.n if self.nodes is None else len(self.nodes)
        return {
            "kind": "exact" if self.nodes is None else "sampled",
            "nodes": count,
            "of": self.problem.n,
        }

    def __call__(self, seen: Standings, errors: Floats, column: int) -> None:
        """Write distance2, excess_loss and loss of every replica and mark to ``errors[:, :,
        column:]``.
        """
        replicas, marks, dim = seen.model.shape
        if self._quadratic and not self.only_distance:
            assert isinstance(self.problem, LeastSquares)
            given = (seen.model, seen.active, self.optimum, self.problem.hessian, self.least)
            _compiled("quadratic_excess")(*given, errors, column)
            return
        here = slice(column, column + marks)
        if self.optimum is not None:
            _compiled("distances2")(seen.model, seen.active, self.optimum, errors, column)
        else:
            errors[:, 0, here] = np.where(seen.active, np.nan, np.inf)
        if not self.only_distance:
            loss = self._losses(seen.model.reshape(-1, dim)).reshape(replicas, marks)
            infinite = ~seen.active if self.optimum is None else ~(seen.active & np.isfinite(loss))
            errors[:, 1, here] = np.where(infinite, np.inf, loss - self.least)
            errors[:, 2, here] = np.where(infinite, np.inf, loss)

    def _losses(self, models: Floats) -> Floats:
        """Return f of each model; it is NaN or infinite if it overflows."""
        problem = self.problem
        if self._logistic:
            assert isinstance(problem, GeneralizedLinear)
            losses = np.empty(len(models))
            _compiled("logistic_loss")(models, *self._samples, problem.ridge, losses)
            return losses + problem.l1 * np.abs(models).sum(axis=1) if problem.l1 else losses
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(problem, GeneralizedLinear) and self._own:
                together = max(1, _VALUES // len(self._samples[1]))
                blocks = [models[i : i + together] for i in range(0, len(models), together)]
                return np.concatenate([_glm_losses(problem, self._samples, x) for x in blocks])
            if isinstance(problem, DifferentiableProblem):
                return problem.mean_losses(models, self.nodes)
            nodes = range(problem.n) if self.nodes is None else self.nodes.tolist()
            return np.array([np.mean([problem.local_loss(v, x) for v in nodes]) for x in models])


def _glm_losses(
    problem: GeneralizedLinear, samples: tuple[Floats, Floats, Ints], models: Floats
) -> Floats:
    """Return the mean of f_v over the samples' nodes, for each model."""
    features, targets, offsets = samples
    values = problem.sample_losses(features, targets, models)
    means = np.add.reduceat(values, offsets[:-1], axis=1) / np.diff(offsets)
    found: Floats = means.mean(axis=1) + 0.5 * problem.ridge * np.square(models).sum(axis=1)
    if problem.l1:
        found = found + problem.l1 * np.abs(models).sum(axis=1)
    return np.where(np.isfinite(found), found, np.inf)


def _compiled(name: str) -> Callable[..., None]:
    """Return a function of `levywalk.engine.kernels.measure`, or its plain twin without numba."""
    try:
        from levywalk.engine import kernels as found
    except ImportError:
        from levywalk.engine import plain_measure as found  # type: ignore[no-redef]
    function: Callable[..., None] = getattr(found, name)
    return function


def _samples_of(problem: GeneralizedLinear, nodes: Ints | None) -> tuple[Floats, Floats, Ints]:
    """Return features, targets and offsets of the nodes' samples.

    If all nodes have the same number of samples, they are merged into one, because the mean is the
    same.
    """
    features, targets, counts = (
        problem.sorted_features,
        problem.sorted_targets,
        np.diff(problem.offsets),
    )
    if nodes is not None:
        chosen = np.zeros(problem.n, np.bool_)
        chosen[nodes] = True
        rows = np.repeat(chosen, counts)
        features, targets, counts = (
            read_only_features(features[rows]),
            read_only(targets[rows]),
            counts[nodes],
        )
    if (counts == counts[0]).all():
        counts = counts.sum(keepdims=True)
    return features, targets, np.append(0, np.cumsum(counts))
