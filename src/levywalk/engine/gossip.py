"""`gossip`: every node keeps a model, and all of them talk to all their neighbours at once.

This is what people would take instead of a walking model. The same problems, traces and counts of
messages make the two comparable.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.engine.prepare import checkpoints_of
from levywalk.errors import DivergedWarning, InvalidParameter
from levywalk.network import Network
from levywalk.problem import (
    GeneralizedLinear,
    Problem,
    first_model,
    known_smoothness,
    optimum_of,
)
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.named import flat_model
from levywalk.trace import Costs, Trace, as_costs
from levywalk.version import __version__
from levywalk.walks import check_fit, nodes_with_data

METHODS = ("dsgd", "extra", "tracking", "accelerated")
_MOST_ROUNDS = 10_000


class Gossip(NamedTuple):
    """What a method needs: weights, gradients, and the constants of its step sizes."""

    weights: Any  # the matrix W of Metropolis weights
    gradients: Callable[[Floats], Floats]  # of all nodes, each at its own model
    step_size: float
    strong_convexity: float
    rounds: int  # of communication in an iteration
    damping: float  # of Chebyshev gossip


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
) -> Trace:
    """Run decentralised gradient descent with gossip, the alternative to a walking model.

    In each iteration every node computes the gradient of its own loss and exchanges vectors with
    all its neighbours, with Metropolis weights. A node without data (``idle="pass"``) has no
    gradient: it mixes what its neighbours send, and takes no time to compute.

    Parameters
    ----------
    method
        "dsgd": X ← WX - γ∇F(X) (Nedić, Ozdaglar 2009); it keeps an error that is proportional to γ.
        "extra": EXTRA (Shi, Ling, Wu, Yin 2015). "tracking": gradient tracking (Nedić, Olshevsky,
        Shi 2017), which sends two vectors in a message. "accelerated": Nesterov's momentum with
        gradient tracking and Chebyshev gossip (Ye, Luo, Zhou, Zhang 2020: Mudag), several rounds of
        communication in an iteration; unlike MSDA and OPAPC it needs only f to be strongly convex,
        and not every f_v.
    iterations
        The number of iterations.
    step_size
        γ, or "theory": 1/(2L) with L = max L_v for the first three methods, and 1/L of f for the
        accelerated one.
    record_every, x0
        As in `levywalk.run`; all nodes begin with the same model.
    costs
        As in `levywalk.run`. In an iteration a node computes its gradient, then in each round of
        communication it sends to all its neighbours at once and waits for all of theirs. The time
        of a checkpoint is that of the last node.

    Returns
    -------
    Trace
        One replica. ``step`` counts iterations, ``transfers`` messages that carry a model (2 x
        edges in each round of communication), ``bytes`` what they carry. The error is that of the
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
    check_fit(network, problem)
    count = checks.integer("iterations", iterations, low=1)
    marks = checkpoints_of(count, record_every)
    models = _first_models(x0, problem, network.n)
    weights = metropolis_weights(network)
    made = _prepared(method, network, problem, weights, step_size)
    spent = as_costs(costs)
    began = time.perf_counter()
    errors, disagreement, last, diverged_at = _iterate(
        _RULES[method](made, models), marks, problem, models
    )
    transfers = (marks * (2 * network.n_edges * made.rounds))[None]
    vectors = 2 if method == "tracking" else 1
    if diverged_at >= 0:
        warnings.warn(
            f"the gossip diverged at iteration {diverged_at}; give a smaller step_size",
            DivergedWarning,
            stacklevel=2,
        )
    provenance = {
        "levywalk": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": "gossip",
        "seed": 0,
        "steps": count,
        "replicas": 1,
        "network": {
            "name": network.name,
            "n": network.n,
            "edges": network.n_edges,
            "self_loops": network.self_loops,
            "fingerprint": network.fingerprint(),
        },
        "problem": {"kind": type(problem).__name__, "dim": problem.dim},
        "design": {"name": f"gossip ({method})", "local": True, "recipe": None},
        "update": method,
        "step_size": [repr(made.step_size)],
        "rounds": made.rounds,
        "disagreement": [float(value) for value in disagreement],
        "interrupted": False,
        **({} if spent is None else {"costs": spent.told(network.n)}),
        "seconds": time.perf_counter() - began,
    }
    return Trace(
        step=marks,
        distance2=errors[None, 0],
        excess_loss=errors[None, 1],
        loss=errors[None, 2],
        hops=transfers.copy(),
        transfers=transfers,
        bytes=transfers * (8 * problem.dim * vectors),
        small_messages=np.zeros_like(transfers),
        visits=None,
        walk=None,
        final_node=np.full(1, -1),
        model=last[None],
        diverged_at=np.array([diverged_at]),
        switched_at=np.full(1, -1),
        target=np.full(network.n, 1.0 / network.n),
        optimum=optimum_of(problem),
        provenance=provenance,
        time=None
        if spent is None
        else gossip_time(
            network,
            spent,
            made.rounds,
            8 * problem.dim * vectors,
            marks,
            nodes_with_data(network, problem),
        )[None],
        node_names=network.given_names,
    )


def metropolis_weights(network: Network) -> Any:
    """Return W: W_uv = 1/(1 + max(d_u, d_v)) for neighbours, and rows that sum to one.

    Examples
    --------
    >>> import levywalk as lw
    >>> metropolis_weights(lw.path(3)).toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    source = np.repeat(np.arange(network.n), network.degree)
    target = network.indices.astype(np.int64)
    others = source != target
    source, target = source[others], target[others]
    degree = np.bincount(source, minlength=network.n)
    values = 1.0 / (1.0 + np.maximum(degree[source], degree[target]))
    stay = 1.0 - np.bincount(source, values, minlength=network.n)
    nodes = np.arange(network.n)
    return sparse.csr_array(
        (
            np.concatenate([values, stay]),
            (np.concatenate([source, nodes]), np.concatenate([target, nodes])),
        ),
        shape=(network.n, network.n),
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


def second_eigenvalue(weights: Any) -> float:
    """Return the second largest absolute value of an eigenvalue of W.

    Examples
    --------
    >>> import levywalk as lw
    >>> round(second_eigenvalue(metropolis_weights(lw.complete(5))), 9)
    0.0
    """
    n = weights.shape[0]
    if n <= 500:
        values = np.linalg.eigvalsh(weights.toarray())
        return float(max(abs(values[0]), abs(values[-2])))
    ones = np.ones(n) / n

    def without_mean(x: Floats) -> Floats:
        return np.asarray(weights @ x - ones * x.sum())

    operator = sparse.linalg.LinearOperator((n, n), matvec=without_mean, dtype=np.float64)
    found = sparse.linalg.eigsh(operator, k=1, which="LM", return_eigenvectors=False, tol=1e-9)
    return float(min(abs(found[0]), 1.0))


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
    return Gossip(weights, gradients, size, strong, rounds, damping)


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


# ---- the methods: each yields the models of all nodes after every iteration ----------------------


def _dsgd(made: Gossip, models: Floats) -> Iterator[Floats]:
    while True:
        models = made.weights @ models - made.step_size * made.gradients(models)
        yield models


def _extra(made: Gossip, models: Floats) -> Iterator[Floats]:
    gradients = made.gradients(models)
    before, models = models, made.weights @ models - made.step_size * gradients
    yield models
    mixed_before = made.weights @ before
    while True:
        mixed, fresh = made.weights @ models, made.gradients(models)
        following = models + mixed - 0.5 * (before + mixed_before)
        following -= made.step_size * (fresh - gradients)
        before, mixed_before, gradients, models = models, mixed, fresh, following
        yield models


def _tracking(made: Gossip, models: Floats) -> Iterator[Floats]:
    gradients = made.gradients(models)
    tracked = gradients
    while True:
        models = made.weights @ models - made.step_size * tracked
        fresh = made.gradients(models)
        tracked = made.weights @ tracked + fresh - gradients
        gradients = fresh
        yield models


def _accelerated(made: Gossip, models: Floats) -> Iterator[Floats]:
    share = np.sqrt(made.strong_convexity * made.step_size)
    momentum = (1.0 - share) / (1.0 + share)
    gradients = made.gradients(models)
    before = ahead = models
    tracked = models - made.step_size * gradients  # what is mixed: a model after its own step
    while True:
        models = _mixed(made, tracked)
        following = models + momentum * (models - before)
        fresh = made.gradients(following)
        tracked = following + (models - ahead) - made.step_size * (fresh - gradients)
        before, ahead, gradients = models, following, fresh
        yield models


def _mixed(made: Gossip, models: Floats) -> Floats:
    """Return the models after several rounds of gossip with Chebyshev's acceleration."""
    before, now = models, models
    for _ in range(made.rounds):
        before, now = now, (1.0 + made.damping) * (made.weights @ now) - made.damping * before
    return np.asarray(now)


_RULES: dict[str, Callable[[Gossip, Floats], Iterator[Floats]]] = {
    "dsgd": _dsgd,
    "extra": _extra,
    "tracking": _tracking,
    "accelerated": _accelerated,
}


def _iterate(
    rule: Iterator[Floats], marks: Ints, problem: Problem, models: Floats
) -> tuple[Floats, Floats, Floats, int]:
    """Return the errors of the mean model at the marks, the disagreement, and the last mean."""
    optimum = optimum_of(problem)
    errors, disagreement = np.full((3, len(marks)), np.inf), np.full(len(marks), np.inf)
    least = np.nan if optimum is None else _loss(problem, optimum)
    last, k = models.mean(axis=0), 0
    with np.errstate(over="ignore", invalid="ignore"):
        for i, mark in enumerate(marks.tolist()):
            while k < mark:
                models = next(rule)
                k += 1
            mean = models.mean(axis=0)
            if not np.isfinite(models).all():
                return errors, disagreement, last, k
            last = mean
            loss = _loss(problem, mean)
            distance2 = np.nan if optimum is None else float(np.sum((mean - optimum) ** 2))
            errors[:, i] = distance2, loss - least, loss
            disagreement[i] = np.sqrt(((models - mean) ** 2).sum(axis=1).max())
    return errors, disagreement, last, -1


def _loss(problem: Problem, x: Floats) -> float:
    if isinstance(problem, (GeneralizedLinear, DifferentiableProblem)):
        return problem.loss(x)
    return float(np.mean([problem.local_loss(v, x) for v in range(problem.n)]))


def _first_models(x0: Any, problem: Problem, n: int) -> Floats:
    x0 = flat_model(problem, x0)
    first = first_model(problem) if x0 is None else np.asarray(x0, dtype=np.float64)
    if first.shape != (problem.dim,) or not np.isfinite(first).all():
        raise InvalidParameter(f"x0 must be {problem.dim} finite numbers, got {x0!r:.80}")
    return np.tile(first, (n, 1))
