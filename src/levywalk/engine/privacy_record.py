"""What provenance says about the privacy of a run: ε at the cap, ε spent, and how it was found."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine.backends import is_plain_sgd, without_kernel
from levywalk.engine.prepare import Job
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.network import Network
from levywalk.privacy import RELEASES, Privacy, zcdp_epsilon
from levywalk.privacy.pairwise import pairwise_rho
from levywalk.privacy.privacy import SIMULATED
from levywalk.privacy.private_data import sensitivity
from levywalk.privacy.published_loss import hop_distances
from levywalk.problem import GeneralizedLinear, follows_its_loss, has_l1, is_single
from levywalk.walks import is_plain_design

MOST_LISTED = 10_000  # nodes whose ε is listed one by one
MOST_PAIRS = 5_000_000  # (observer, step) pairs for which the pairwise loss is computed


def needs_the_walk(privacy: Privacy | None, tokens: int) -> bool:
    """Return whether the loss against the chosen adversary is computed from the recorded walk."""
    return privacy is not None and privacy.adversary != "colluding" and tokens == 1


def privacy_record(job: Job, state: RunState, done: int) -> dict[str, Any]:
    """Return settings, definition, ε at the cap and ε spent as plain data.

    With several replicas, each node reports its largest ε.
    """
    plan = job.run_plan
    bound = plan.method.privacy
    assert bound is not None
    privacy, cap = bound.privacy, bound.whole_cap
    made = state.node_memory[RELEASES].reshape(plan.replicas, plan.tokens, -1).sum(axis=1)
    record: dict[str, Any] = privacy.record() | {
        "definition": privacy.definition,
        "updates_at_cap": cap,
        "epsilon_at_cap": privacy.epsilon(cap),
        "updates_made": int(made.sum(axis=1).min()),
        "nodes_out_of_budget": int((made >= cap).sum(axis=1).max()),
        "simulated": SIMULATED,
    }
    lacking = without_kernel(plan)
    if lacking is not None:
        record["backend"] = f"reference, because {lacking}"
    if plan.detector is not None:
        # When the walk switches depends on the model, so the number of visits may tell something.
        epsilon = np.full(made.shape[1], record["epsilon_at_cap"])
        record |= {
            "accountant": "composition at the cap",
            "because": "when the walk switches depends on the model, so the realised number of "
            "updates must not be used",
        }
        return record | _spent(epsilon)
    epsilon = _by_count(privacy, made.max(axis=0))
    record |= {"accountant": "composition"}
    if privacy.adversary == "colluding":
        return record | _spent(epsilon)
    why = without_pairwise(plan, done)
    if why is None and (state.diverged_at >= 0).any():
        why = "a model has overflowed"
    if why is not None:
        return record | {"because": f"no pairwise loss: {why}"} | _spent(epsilon)
    record |= {
        "accountant": "pairwise, for the walk that was made (Feldman et al. 2018; Cyffers et al. "
        "2024)"
    }
    walks = state.walk[:, :done].astype(np.int64)
    pairs = np.stack([_pairs(plan, walk, bound.cap) for walk in walks])
    loss = np.array([[_epsilon(float(rho), privacy.delta) for rho in row] for row in pairs.max(1)])
    record |= _by_distance(plan.network, pairs[0], privacy)
    return record | _spent(np.minimum(epsilon, loss.max(axis=0)))


def _spent(epsilon: Floats) -> dict[str, Any]:
    """Return ε of each node and of the fleet: a sample is at one node, so the largest counts."""
    found: dict[str, Any] = {
        "epsilon_spent": float(epsilon.max()),
        "epsilon_spent_mean": float(epsilon.mean()),
    }
    if len(epsilon) <= MOST_LISTED:
        found["epsilon_spent_by_node"] = [float(f"{value:.6g}") for value in epsilon]
    return found


def _by_count(privacy: Privacy, counts: Ints) -> Floats:
    """Return ε of each node by plain composition of its updates."""
    values, which = np.unique(counts, return_inverse=True)
    found: Floats = np.array([privacy.epsilon(int(count)) for count in values])[which]
    return found


def without_pairwise(plan: RunPlan, steps: int) -> str | None:
    """Return why the loss between pairs of nodes is not bounded for a run, or None if it is."""
    problem, method = plan.problem, plan.method
    assert method.privacy is not None
    if plan.tokens > 1:
        return "there are several tokens"
    walk, jump = method.phases[0].walk, plan.phases[0].bound.jump
    if not is_plain_design(walk) or plan.phases[0].bound.moves != "walk" or jump is not None:
        return f"the walk {walk.name} is none of Metropolis-Hastings steps without jumps"
    if plan.phases[0].bound.idle is not None:
        return "nodes without data see the model as well"
    if not is_plain_sgd(plan.update) or getattr(plan.update, "minibatch", None) is not None:
        return f"the update {plan.update!r} is not plain SGD on all samples of a node"
    if not isinstance(problem, GeneralizedLinear) or not follows_its_loss(problem):
        return "the problem is no linear model, whose clipped gradients are those of convex losses"
    loss = problem.sample_loss
    if loss.n_outputs != 1 or not type(loss).__module__.startswith("levywalk."):
        return f"clipped gradients of the loss {loss.name} may be those of no convex function"
    if has_l1(problem) or is_single(problem):
        return "the model is rounded or shrunk after an update"
    if method.privacy.privacy.scores != "public":
        return "it needs γ ≤ 2/L for all data that are possible; declare L_v by scores='public'"
    largest = float(_step_sizes(plan, steps).max()) * plan.phases[0].bound.largest
    if largest > 2.0:
        return f"γL must be at most 2, and is {largest:.3g}; use a smaller step size"
    if plan.network.n * steps * plan.replicas > MOST_PAIRS:
        return f"{plan.network.n} observers of {steps} steps take too long"
    return None


def _step_sizes(plan: RunPlan, steps: int) -> Floats:
    """Return γ of each step."""
    sizes: Floats = np.broadcast_to(plan.phases[0].step_sizes(0, steps), (steps,)) * plan.scale[0]
    return sizes


def _pairs(plan: RunPlan, walk: Ints, cap: int) -> Floats:
    """Return ρ of each (observer, node): the observers are all nodes, or the one at the end."""
    bound = plan.method.privacy
    assert bound is not None
    privacy = bound.privacy
    steps, n = len(walk), plan.network.n
    seen = np.zeros(n, np.int64)
    updates = np.zeros(steps, np.bool_)
    for t, v in enumerate(walk.tolist()):  # a node whose budget is spent makes no update
        seen[v] += 1
        updates[t] = seen[v] <= cap
    counts = np.diff(plan.problem.offsets)  # type: ignore[attr-defined]
    change = np.array([sensitivity(privacy, int(count)) for count in counts])
    shift = _step_sizes(plan, steps) * change[walk]
    variance = (privacy.noise * shift) ** 2
    observers = [-1] if privacy.adversary == "final" else range(n)
    return np.stack([pairwise_rho(walk, updates, shift, variance, v, n) for v in observers])


def _by_distance(network: Network, pairs: Floats, privacy: Privacy) -> dict[str, Any]:
    """Return the mean ε of pairs of nodes by their distance, of the first replica."""
    if privacy.adversary == "final":
        return {}
    distance = hop_distances(network)
    found = []
    for d in range(1, int(distance.max()) + 1):
        losses = [_epsilon(float(rho), privacy.delta) for rho in pairs[distance == d]]
        found.append(float(f"{np.mean(losses):.6g}"))
    return {"epsilon_by_distance": found}


def _epsilon(rho: float, delta: float) -> float:
    """Return ε of ρ, which is rounded up to five digits, so that few conversions are needed."""
    return _of_rounded(float(f"{rho:.5g}") * (1.0 + 1e-4), delta)


@lru_cache(maxsize=1 << 16)
def _of_rounded(rho: float, delta: float) -> float:
    return zcdp_epsilon(rho, delta)
