"""The section on sparse features: logistic regression with rcv1's density, beside a loop as one
would write it by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np

import levywalk as lw
from benchmarks.cases import Case
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import NS, Contender, Row, interleave, seconds
from levywalk.arrays import Floats
from levywalk.engine.run_state import RunPlan

FEATURES, NONZEROS, SAMPLES, NODES = 47_236, 75, 20_000, 5_000
SPARSE, BY_HAND = "sparse kernel, sgd", "hand-written numba loop, sgd"
_RIDGE = 1e-4


def sparse(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """Nanoseconds per update of sparse logistic regression: SGD, l1, SAG and SAGA."""
    problem = rcv1_like()
    network, steps = lw.watts_strogatz(NODES, 4, 0.1, seed=0), max(scale.steps // 32, 20_000)
    case = Case(network, problem, steps, update=lw.sgd(minibatch=1))
    with_l1 = rcv1_like(l1=1e-5)
    contenders: dict[str, Contender] = {
        BY_HAND: by_hand(case.job.run_plan, steps),
        SPARSE: case.kernel(),
        "sparse kernel, sgd with l1": Case(
            network, with_l1, steps, update=lw.sgd(minibatch=1)
        ).kernel(),
        "sparse kernel, sag": Case(network, problem, steps, update=lw.sag(1)).kernel(),
        "sparse kernel, saga": Case(network, problem, steps, update=lw.saga(1)).kernel(),
        "sparse kernel, saga with l1": Case(network, with_l1, steps, update=lw.saga(1)).kernel(),
    }
    title = f"ws({NODES}), logistic, {FEATURES} features, {NONZEROS} nonzeros a sample, one replica"
    yield from interleave("sparse", title, contenders, scale.repetitions, unit=NS, baseline=BY_HAND)


def rcv1_like(l1: float = 0.0, seed: int = 0) -> Any:
    """Return logistic regression on data of the shape of rcv1: few features are frequent, most are
    rare, and every sample has norm 1.
    """
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    columns = (FEATURES * rng.random((SAMPLES, NONZEROS)) ** 3).astype(np.int64)
    values = rng.exponential(size=columns.shape)
    starts = NONZEROS * np.arange(SAMPLES + 1)
    features: Any = csr_array((values.ravel(), columns.ravel(), starts), shape=(SAMPLES, FEATURES))
    features = features.multiply(1.0 / np.sqrt(features.multiply(features).sum(axis=1))[:, None])
    labels = rng.permutation(np.arange(SAMPLES) % 2)
    node = np.arange(SAMPLES) % NODES
    return lw.Logistic(features.tocsr(), labels, node, ridge=_RIDGE, l1=l1)


def by_hand(plan: RunPlan, steps: int) -> Contender:
    """Return SGD along a walk in a plain compiled loop with numba's own random numbers, which keeps
    the model as a number times a vector.
    """
    network, problem, (phase,) = plan.network, plan.problem, plan.phases
    features: Any = problem.sorted_features  # type: ignore[attr-defined]
    given = (
        network.indptr, network.indices, features.indptr.astype(np.int64), features.indices,
        features.data, problem.sorted_targets, problem.offsets,  # type: ignore[attr-defined]
        phase.bound.weights, phase.bound.ratio, float(phase.step_sizes(0, 1)[0]), _RIDGE,
        float(phase.jump_probabilities(0, 1)[0]), phase.distances(),
    )  # fmt: skip
    _compiled(*given, np.zeros(problem.dim), 10)
    return lambda: seconds(lambda: _walk(given, problem.dim, steps)) / steps * 1e9


def _walk(given: tuple[Any, ...], dim: int, steps: int) -> Floats:
    x = np.zeros(dim)
    _compiled(*given, x, steps)
    return x


def _loop(
    indptr: Any, indices: Any, rows: Any, columns: Any, values: Any, targets: Any, offsets: Any,
    weights: Any, ratio: Any, step_size: float, ridge: float, p_jump: float, distances: Any,
    x: Any, steps: int,
) -> None:  # fmt: skip
    np.random.seed(0)  # noqa: NPY002 - inside compiled code, numba's own generator
    v, scale = 0, 1.0
    for _ in range(steps):
        i = np.random.randint(offsets[v], offsets[v + 1])  # noqa: NPY002
        z = 0.0
        for k in range(rows[i], rows[i + 1]):
            z += values[k] * x[columns[k]]
        gain = step_size * weights[v]
        slope = gain * (1.0 / (1.0 + np.exp(-scale * z)) - targets[i])
        scale *= 1.0 - gain * ridge
        by = slope / scale
        for k in range(rows[i], rows[i + 1]):
            x[columns[k]] -= by * values[k]
        if np.random.random() < p_jump:  # noqa: NPY002
            draw = np.random.random()  # noqa: NPY002
            distance = 1 + np.searchsorted(distances, draw, side="right")
            for _ in range(distance):
                v = indices[np.random.randint(indptr[v], indptr[v + 1])]  # noqa: NPY002
        else:
            u = indices[np.random.randint(indptr[v], indptr[v + 1])]  # noqa: NPY002
            if np.random.random() * ratio[v] < ratio[u]:  # noqa: NPY002
                v = u
    for j in range(len(x)):
        x[j] *= scale


_compiled = numba.njit(_loop, fastmath=True)
