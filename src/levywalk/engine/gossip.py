"""`gossip`: every node keeps a model, and exchanges it with all neighbours in every round.

This is the usual alternative to a walking model. Both use the same problems, traces and counts of
messages, so they can be compared.

`gossip` is long because each option is a parameter with a description of its own.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.engine.gossip_rules import RULES, Gossip, metropolis_weights, second_eigenvalue
from levywalk.engine.metric_plan import MetricPlan, metric_plan
from levywalk.engine.prepare import checkpoints_of
from levywalk.errors import CallbackError, DivergedWarning, InvalidParameter
from levywalk.network import Network
from levywalk.problem import (
    GeneralizedLinear,
    Problem,
    first_model,
    has_l1,
    is_sparse,
    known_optimum,
    known_smoothness,
    model_type,
)
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.named import flat_model, flat_problem
from levywalk.remedy import python_or_command
from levywalk.room import require_room
from levywalk.schedule import Constant
from levywalk.trace import Costs, Trace, as_costs
from levywalk.trace.provenance import part_record
from levywalk.updates import sgd
from levywalk.version import __version__
from levywalk.walks import check_fit, nodes_with_data

METHODS = ("dsgd", "extra", "nids", "tracking", "accelerated")
_MOST_ROUNDS = 10_000


def gossip(
    network: Network,
    problem: Problem,
    method: str = "extra",
    *,
    iterations: int,
    step_size: float | str = "theory",
    record_every: Any = None,
    x0: Any = None,
    costs: Costs | str | None = None,
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    measure_metrics: str | int = "auto",
) -> Trace:
    """Run decentralised gradient descent with gossip, the alternative to a walking model.

    In each iteration every node computes the gradient of its own loss and exchanges vectors with
    all its neighbours, with Metropolis weights. A node without data (``idle="pass"``) has no
    gradient: it mixes what its neighbours send, and takes no time to compute.

    Parameters
    ----------
    method
        "dsgd": X ← WX - γ∇F(X) (Nedić, Ozdaglar 2009); it keeps an error that is proportional to γ.
        "extra": EXTRA (Shi, Ling, Wu, Yin 2015). "nids": the same correction, mixed after the step
        and not before it, so that steps below 2/L are stable on every network (Li, Shi, Yan 2019).
        "tracking": gradient tracking, mixed after the step (Xu, Zhu, Soh, Xie 2015), which sends
        two vectors in a message. "accelerated": Nesterov's momentum with
        gradient tracking and Chebyshev gossip (Ye, Luo, Zhou, Zhang 2020: Mudag), several rounds of
        communication in an iteration; unlike MSDA and OPAPC it needs only f to be strongly convex,
        and not every f_v.
    iterations
        The number of iterations.
    step_size
        γ, or "theory": 1/L of f for the accelerated method, and 1/(2L) with L = max L_v for the
        others.
    record_every, x0
        As in `levywalk.run`; all nodes begin with the same model.
    metrics, measure_metrics
        As in `levywalk.run`, of the mean model; "auto" takes an iteration for n updates.
    costs
        As in `levywalk.run`. In an iteration a node computes its gradient, then in each round of
        communication it sends to all its neighbours at once and waits for all of theirs. The time
        of a checkpoint is that of the last node.

    Returns
    -------
    Trace
        One replica. ``step`` counts iterations, ``transfers`` messages that carry a model (2 x
        edges in each round of communication), ``bytes`` what they carry: numbers of the model's
        type, to which they are rounded when they are sent. The error is that of the
        mean model; ``trace.provenance["disagreement"]`` has the largest distance of a node's model
        from it at each checkpoint.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(10), lw.homogeneous(10, dim=2, seed=1)
    >>> trace = lw.gossip(network, problem, "extra", iterations=3000)
    >>> bool(trace.distance2[0, -1] < 1e-12), int(trace.transfers[0, -1])
    (True, 60000)
    """
    checks.choice("method", method, METHODS)
    problem = flat_problem(problem)
    check_fit(network, problem)
    count = checks.integer("iterations", iterations, low=1)
    if has_l1(problem):
        l1: float = problem.l1  # type: ignore[attr-defined]
        raise InvalidParameter(
            f"problem must have no l1 penalty, got l1 = {l1:g}: "
            f"gossip has no step for it; use {python_or_command('lw.run', 'a walk')}, or a ridge"
        )
    marks = checkpoints_of(count, record_every)
    models = _first_models(x0, problem, network.n)
    made = _prepared(method, network, problem, metropolis_weights(network), step_size)
    spent = as_costs(costs)
    plan = metric_plan(
        metrics, measure_metrics, problem, sgd(), models[0], count * problem.n, marks
    )
    began = time.perf_counter()
    record = _GossipRecord.before(marks, plan)
    failed = _iterate(RULES[method](made, models), record, problem, models)
    if record.diverged_at >= 0:
        warnings.warn(
            f"the gossip diverged at iteration {record.diverged_at}; give a smaller step_size",
            DivergedWarning,
            stacklevel=2,
        )
    told = {
        "update": {"text": method, "recipe": None},
        "step_size": [part_record("schedule", Constant(made.step_size))],
        "rounds": made.rounds,
        **({} if plan is None else {"metrics": plan.record()}),
        "interrupted": failed is not None,
        **({} if spent is None else {"costs": spent.record(network.n)}),
        "seconds": time.perf_counter() - began,
    }
    vectors = 2 if method == "tracking" else 1
    trace = _trace(network, problem, count, made, record, vectors, spent, told)
    if failed is not None:
        failed.partial = trace
        raise failed
    return trace


@dataclass
class _GossipRecord:
    """What is recorded at the checkpoints."""

    marks: Ints
    metric_plan: MetricPlan | None
    errors: Floats  # (3, checkpoints): distance2, excess loss and loss of the mean model
    metrics: Floats  # (metrics, checkpoints); NaN where they are not evaluated
    disagreement: Floats
    last: Floats  # the mean model
    diverged_at: int = -1

    @classmethod
    def before(cls, marks: Ints, plan: MetricPlan | None) -> _GossipRecord:
        """Return the record before the first iteration."""
        count = 0 if plan is None else len(plan.functions)
        return cls(
            marks,
            plan,
            np.full((3, len(marks)), np.inf),
            np.full((count, len(marks)), np.nan),
            np.full(len(marks), np.inf),
            np.empty(0),
        )

    def until(self, count: int) -> None:
        """Keep only the first checkpoints."""
        self.marks, self.errors = self.marks[:count], self.errors[:, :count]
        self.metrics, self.disagreement = self.metrics[:, :count], self.disagreement[:count]

    def trace_fields(self) -> dict[str, Any]:
        """Return the metrics, and where they were evaluated, as a trace holds them."""
        if self.metric_plan is None:
            return {}
        columns = self.metric_plan.columns
        return {
            "metrics": {
                name: self.metrics[None, i] for i, name in enumerate(self.metric_plan.functions)
            },
            "metric_step": self.marks[columns[columns < len(self.marks)]],
        }


def _trace(
    network: Network,
    problem: Problem,
    iterations: int,
    made: Gossip,
    record: _GossipRecord,
    vectors: int,
    costs: Costs | None,
    told: dict[str, Any],
) -> Trace:
    """Return the trace; a message carries one vector or two."""
    message = vectors * made.dtype.itemsize * problem.dim
    loss = getattr(problem, "sample_loss", None)
    transfers = (record.marks * (2 * network.n_edges * made.rounds))[None]
    provenance = {
        "levywalk": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": "gossip",
        "seed": 0,
        "steps": iterations,
        "replicas": 1,
        "network": {
            "name": network.name,
            "n": network.n,
            "edges": network.n_edges,
            "self_loops": network.self_loops,
            "fingerprint": network.fingerprint(),
        },
        "problem": {
            "kind": type(getattr(problem, "named", problem)).__name__,
            "dim": problem.dim,
            "loss": None if loss is None else part_record("loss", loss),
        },
        "design": {"name": f"gossip ({told['update']['text']})", "local": True, "recipe": None},
        "disagreement": [float(value) for value in record.disagreement],
        **told,
    }
    seconds = None
    if costs is not None:
        holders = nodes_with_data(network, problem)
        seconds = gossip_time(network, costs, made.rounds, message, record.marks, holders)[None]
    return Trace(
        step=record.marks,
        distance2=record.errors[None, 0],
        excess_loss=record.errors[None, 1],
        loss=record.errors[None, 2],
        hops=transfers.copy(),
        transfers=transfers,
        bytes=transfers * message,
        small_messages=np.zeros_like(transfers),
        visits=None,
        walk=None,
        final_node=np.full(1, -1),
        model=record.last[None],
        diverged_at=np.array([record.diverged_at]),
        switched_at=np.full(1, -1),
        target=np.full(network.n, 1.0 / network.n),
        optimum=known_optimum(problem),
        provenance=provenance,
        time=seconds,
        node_names=network.given_names,
        **record.trace_fields(),
    )


def gossip_time(
    network: Network,
    costs: Costs,
    rounds: int,
    size: int,
    marks: Ints,
    holders: Ints | None = None,
) -> Floats:
    """Return the seconds until every node has done the marked numbers of iterations.

    A message has ``size`` bytes. If all nodes and links are alike, all iterations take the same
    time; otherwise the nodes are followed one iteration at a time, since a slow node delays its
    neighbours, these delay theirs, and so on. Only the ``holders`` of data compute (None: all).

    Examples
    --------
    >>> import levywalk as lw
    >>> costs = lw.Costs(compute=1.0, latency=0.5, bandwidth=16.0, per_node=[1.0, 1.0, 4.0])
    >>> gossip_time(lw.path(3), costs, 1, 8, np.array([0, 1, 2]))
    array([0., 5., 9.])
    """
    message = costs.message(size)
    factors = costs.factors(network.n)
    if holders is not None:
        computing = np.zeros(network.n)
        computing[holders] = 1.0 if factors is None else factors[holders]
        factors = computing
    on_links = costs.link_factors(network.indptr, network.indices)
    if factors is None and on_links is None:
        return np.asarray(marks * (costs.compute + rounds * message), dtype=np.float64)
    factors = np.ones(network.n) if factors is None else factors
    sent = message if on_links is None else message * on_links
    first = network.indptr[:-1].astype(np.int64)
    own, ready, done = costs.compute * factors, np.zeros(network.n), 0
    found = np.zeros(len(marks))
    for i, mark in enumerate(marks.tolist()):
        for _ in range(mark - done):
            ready = ready + own
            for _ in range(rounds):
                heard = np.maximum.reduceat(ready[network.indices] + sent, first)
                ready = np.maximum(ready, heard)
        done = mark
        found[i] = ready.max()
    return found


def _prepared(
    method: str, network: Network, problem: Problem, weights: Any, step_size: float | str
) -> Gossip:
    smoothness = known_smoothness(problem)
    if smoothness is None:
        if method == "accelerated" or isinstance(step_size, str):
            raise InvalidParameter(
                "step_size='theory' and method='accelerated' need the smoothness L_v, which this "
                "problem does not know; give a number such as 0.1, or the problem "
                "smoothness='hessian'"
            )
        smoothness = np.ones(problem.n)
    largest = float(smoothness.max())
    # What all nodes minimise together is the mean of their losses, and an idle node's is 0.
    share = problem.n / network.n
    strong = share * float(getattr(problem, "strong_convexity", 0.0) or 0.0)
    rounds, damping = 1, 0.0
    size = 1.0 / (2.0 * largest)
    if method == "accelerated":
        if not strong > 0.0:
            raise InvalidParameter(
                "method 'accelerated' needs a strongly convex f: give the problem a ridge above 0, "
                "or use method='extra'"
            )
        own = share * _smoothness_of_mean(problem, smoothness)
        size = 1.0 / own
        second = second_eigenvalue(weights)
        root = float(np.sqrt(max(1.0 - second**2, 0.0)))
        damping = (1.0 - root) / (1.0 + root)
        # Enough rounds to shrink the disagreement by √(μ/L) times a constant of the local losses.
        depth = np.log(10.0 * largest / own * np.sqrt(own / strong))
        rounds = int(np.clip(np.ceil(depth / np.sqrt(max(1.0 - second, 1e-12))), 1, _MOST_ROUNDS))
    if isinstance(step_size, str):
        checks.choice("step_size", step_size, ("theory",))
    else:
        size = checks.positive("step_size", step_size)
    gradients = _of_all_nodes(_gradients_of(problem), nodes_with_data(network, problem))
    return Gossip(weights, gradients, size, strong, rounds, damping, model_type(problem))


def _of_all_nodes(
    gradients: Callable[[Floats], Floats], holders: Ints | None
) -> Callable[[Floats], Floats]:
    """Return the gradients of all nodes of the network: 0 where there is no data."""
    if holders is None:
        return gradients

    def with_zeros(models: Floats) -> Floats:
        found = np.zeros_like(models)
        found[holders] = gradients(models[holders])
        return found

    return with_zeros


def _smoothness_of_mean(problem: Problem, smoothness: Floats) -> float:
    """Return L of f: for least squares from its Hessian, otherwise the mean of L_v as a bound."""
    from levywalk.problem import is_quadratic

    if is_quadratic(problem):
        return float(np.linalg.eigvalsh(problem.hessian)[-1])  # type: ignore[attr-defined]
    return float(smoothness.mean())


def _gradients_of(problem: Problem) -> Callable[[Floats], Floats]:
    """Return the function from the models of the nodes with data to their gradients."""
    from levywalk.problem import follows_its_loss

    if (
        isinstance(problem, GeneralizedLinear)
        and follows_its_loss(problem)
        and problem.sample_loss.n_outputs == 1
        and not is_sparse(problem.sorted_features)
    ):
        features, targets, loss = (
            problem.sorted_features,
            problem.sorted_targets,
            problem.sample_loss,
        )
        counts = np.diff(problem.offsets)
        owner = np.repeat(np.arange(problem.n), counts)
        single = problem.n_samples == problem.n

        def linear(models: Floats) -> Floats:
            mine = models if single else models[owner]
            slopes = loss.slope(np.einsum("ij,ij->i", features, mine), targets)
            rows = features * slopes[:, None]
            if not single:
                rows = np.add.reduceat(rows, problem.offsets[:-1], axis=0) / counts[:, None]
            return np.asarray(rows + problem.ridge * models)

        return linear

    if isinstance(problem, DifferentiableProblem):
        return problem.all_gradients

    def plain(models: Floats) -> Floats:
        return np.array([problem.local_gradient(v, models[v]) for v in range(problem.n)])

    return plain


def _iterate(
    rule: Iterator[Floats], record: _GossipRecord, problem: Problem, models: Floats
) -> CallbackError | None:
    """Go through all checkpoints and record the measurements of the mean model.

    Returns the error if a metric fails; the record then ends at its checkpoint.
    """
    optimum, plan = known_optimum(problem), record.metric_plan
    least = np.nan if optimum is None else _loss(problem, optimum)
    record.last, k = models.mean(axis=0), 0
    with np.errstate(over="ignore", invalid="ignore"):
        for i, mark in enumerate(record.marks.tolist()):
            while k < mark:
                models = next(rule)
                k += 1
            mean = models.mean(axis=0)
            if not np.isfinite(models).all():
                record.diverged_at = k
                return None
            record.last = mean
            loss = _loss(problem, mean)
            distance2 = np.nan if optimum is None else float(np.sum((mean - optimum) ** 2))
            record.errors[:, i] = distance2, loss - least, loss
            record.disagreement[i] = np.sqrt(((models - mean) ** 2).sum(axis=1).max())
            if plan is not None and i in plan.columns:
                try:
                    record.metrics[:, i] = plan.values(mean[None], np.ones(1, np.bool_), mark)[0]
                except CallbackError as error:
                    record.until(i + 1)
                    return error
    return None


def _loss(problem: Problem, x: Floats) -> float:
    from levywalk.problem import follows_its_loss

    if isinstance(problem, DifferentiableProblem) or (
        isinstance(problem, GeneralizedLinear) and follows_its_loss(problem)
    ):
        return problem.loss(x)
    return float(np.mean([problem.local_loss(v, x) for v in range(problem.n)]))


def _first_models(x0: Any, problem: Problem, n: int) -> Floats:
    x0 = flat_model(problem, x0)
    first = first_model(problem) if x0 is None else np.asarray(x0, dtype=np.float64)
    if first.shape != (problem.dim,) or not np.isfinite(first).all():
        raise InvalidParameter(f"x0 must be {problem.dim} finite numbers, got {x0!r:.80}")
    require_room("the models of all nodes", (n, problem.dim), 8, "use a walk, which has one model")
    return np.tile(first, (n, 1))
