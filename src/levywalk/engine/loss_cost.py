"""What measuring f costs beside the walk: a rule that gives the same answer on every machine.

The loss at the checkpoints may cost a tenth of the walk's own time. A clock would make the answer
depend on the machine, and a count of samples is wrong, because a sample costs more or less than an
update by its loss and its dimension. So times were measured once, and are constants here. They are
nanoseconds on one core of an AMD EPYC with AVX2, with all data in the cache; only their ratios
count. The cheapest updates are assumed: many replicas side by side, and plain SGD.
Larger networks, single chains and other updates take longer, so measuring is a smaller share.

============================  ===================================  =================================
loss                          an update                            evaluating f, at one checkpoint
============================  ===================================  =================================
squared error, by Hessian                                          50 + dim + 0.1 dim²
squared error, by samples     6 + samples (1 + 0.25 dim)           2500 + samples (4 + 0.2 dim)
logistic loss                 6 + samples (4 + 0.25 dim)           20 + samples (10 + 0.17 dim)
other losses                  40 + samples (6 + 0.25 dim)          2500 + samples (30 + 0.2 dim)
============================  ===================================  =================================

The samples are those that an update reads (of a minibatch, say), and those on which f is measured.
At least 16 nodes are measured, and networks of up to 64 nodes exactly. Models are measured eight
side by side since these times were taken, which is two to five times faster by Hessian and up to
four times for the logistic loss; the constants remain, because curves of sampled losses depend on
them.

What is left is the fixed cost of a checkpoint: 30 to 40 ns for each replica to leave its loop, and
what f costs with the fewest nodes. It is below a tenth of a run whose walks have 20,000 steps or
more, and of shorter ones too in dimension 10 or with updates and walks that remember. Many replicas
of a short walk have a checkpoint every few steps, and spend more: 14 % at 64 replicas of 12,500
steps of least squares in dimension 50, and 14 to 26 % at 64 replicas of 1,600 steps.
``record_every`` takes fewer checkpoints.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from levywalk.problem import (
    GeneralizedLinear,
    Problem,
    follows_its_loss,
    is_logistic,
    is_quadratic,
    is_sparse,
    is_squared,
)
from levywalk.problem.sparse_fit import MOST_DENSE
from levywalk.room import LARGEST_ARRAY
from levywalk.updates import Update

SHARE = 10  # f at all checkpoints costs at most this part of the walk …
LEAST_NODES = 16  # … but always uses at least this number of nodes …
FEW_NODES = 64  # … and all nodes if there are at most so many
_WIDEST = math.isqrt(LARGEST_ARRAY // 8)  # features of a Hessian that may be made
_PLAIN = 2e4  # of an update in plain Python
_PER_FEATURE = 0.25  # of a sample that an update reads


class _Cost(NamedTuple):
    step: float  # of an update, without its samples
    slope: float  # of a sample that an update reads, without its features
    model: float  # of a model at a checkpoint, without samples
    value: float  # of a sample on which f is measured, without its features
    feature: float  # of a feature of such a sample


_SQUARED = _Cost(6.0, 1.0, 2500.0, 4.0, 0.2)
_LOGISTIC = _Cost(6.0, 4.0, 20.0, 10.0, 0.17)
_OTHER = _Cost(40.0, 6.0, 2500.0, 30.0, 0.2)


def affordable_nodes(problem: Problem, update: Update, steps: int, checkpoints: int) -> int:
    """Return on how many nodes f can be measured at an acceptable cost.

    It is n if f can be measured exactly.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Logistic([[1.0], [-1.0]] * 500, [1, 1] * 500, ridge=0.1)
    >>> affordable_nodes(problem, lw.Sgd(), steps=400_000, checkpoints=200)
    199
    """
    budget = steps / (SHARE * checkpoints)  # of one checkpoint, in updates
    if not (isinstance(problem, GeneralizedLinear) and follows_its_loss(problem)):
        # Plain Python: evaluating a node's loss costs no more than an update there.
        return _clipped(budget, problem.n)
    cost, dim = _cost(problem), problem.dim
    width = _width(problem)
    counts = np.diff(problem.offsets)
    budget *= update_cost(problem, update)
    each = float(counts.mean()) * (cost.value + cost.feature * width)
    by_hessian = is_quadratic(problem) and has_small_hessian(problem)
    if by_hessian and hessian_cost(dim) <= max(budget, cost.model + LEAST_NODES * each):
        return problem.n
    return _clipped((budget - cost.model) / each, problem.n)


def has_small_hessian(problem: Problem) -> bool:
    """Return whether excess losses of a quadratic problem may be computed by its Hessian, dim x dim
    numbers, which sparse data may have no room for, nor data with very many features.
    """
    sparse = is_sparse(getattr(problem, "sorted_features", None))
    return problem.dim <= (MOST_DENSE if sparse else _WIDEST)


def update_cost(problem: Problem, update: Update) -> float:
    """Return the least that an update can cost, in nanoseconds."""
    if not (isinstance(problem, GeneralizedLinear) and follows_its_loss(problem)):
        return _PLAIN
    cost, counts = _cost(problem), np.diff(problem.offsets)
    most = getattr(update, "minibatch", None) or int(counts.max())
    read = float(np.minimum(counts, most).mean())
    return float(cost.step + read * (cost.slope + _PER_FEATURE * _width(problem)))


def _width(problem: GeneralizedLinear) -> float:
    """Return how many features of a sample are read: those that are stored."""
    features = problem.sorted_features
    return float(features.nnz / problem.n_samples if is_sparse(features) else problem.dim)


def hessian_cost(dim: int) -> float:
    """Return what f of least squares costs with the Hessian, whatever the number of samples."""
    return 50.0 + dim + 0.1 * dim * dim


def _cost(problem: GeneralizedLinear) -> _Cost:
    if is_logistic(problem):
        return _LOGISTIC
    return _SQUARED if is_squared(problem) else _OTHER


def _clipped(count: float, n: int) -> int:
    return n if n <= FEW_NODES else min(max(LEAST_NODES, int(count)), n)
