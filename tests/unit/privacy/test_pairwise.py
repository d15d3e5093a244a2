"""The pairwise loss: the hull against quadratic programming, and the bound against exact losses of
linear Gaussian systems.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import levywalk as lw
from levywalk.privacy import zcdp_epsilon
from levywalk.privacy.pairwise import hull_cost, pairwise_rho

RNG = np.random.default_rng(8)


def by_programming(times, shifts, variances, end):
    """min Σ a_i²/σ_i² subject to Σ_{i≤j} a_i ≤ shifts made until j, with equality at the end."""
    made = np.zeros(end)
    made[times] = shifts
    made = np.cumsum(made)

    def rest(a):
        return made - np.cumsum(a)

    found = minimize(
        lambda a: np.sum(a**2 / variances),
        np.full(end, made[-1] / end) * 0,
        jac=lambda a: 2 * a / variances,
        constraints=[
            {"type": "ineq", "fun": lambda a: rest(a)[:-1]},
            {"type": "eq", "fun": lambda a: rest(a)[-1]},
        ],
        bounds=[(0, None)] * end,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return found.fun


def test_the_hull_is_the_least_cost():
    for _ in range(15):
        end = int(RNG.integers(2, 12))
        times = np.sort(RNG.choice(end, size=RNG.integers(1, end + 1), replace=False))
        shifts, variances = RNG.uniform(0.2, 2.0, len(times)), RNG.uniform(0.3, 2.0, end)
        clock = np.concatenate([[0.0], np.cumsum(variances)])
        made = list(zip(clock[times], shifts, strict=True))
        assert hull_cost(made, clock[end]) == pytest.approx(
            by_programming(times, shifts, variances, end), rel=1e-5
        )


def exact_rho(walk, updates, shift, variance, factors, observer, u):
    """½ δᵀ Σ⁻¹ δ of what the observer sees of x ← c_t x + shift + noise, in one dimension.

    The observer knows its own noise, so that it counts for nothing.
    """
    steps = len(walk)
    mean, loads, seen = 0.0, np.zeros(steps), []
    for t in range(steps):
        if walk[t] == observer:
            seen.append((mean, loads.copy()))
        mean, loads = factors[t] * mean, factors[t] * loads
        if updates[t]:
            mean += shift[t] * (walk[t] == u)
            loads[t] = 0.0 if walk[t] == observer else np.sqrt(variance[t])
    if observer < 0:
        seen.append((mean, loads.copy()))
    seen = [(m, load) for m, load in seen if np.any(load)]
    if not seen:
        return 0.0
    delta = np.array([m for m, _ in seen])
    matrix = np.array([load for _, load in seen])
    return 0.5 * delta @ np.linalg.lstsq(matrix @ matrix.T, delta, rcond=None)[0]


@pytest.mark.parametrize("observer", [0, 2, -1])
def test_no_linear_system_loses_more_than_the_bound(observer):
    tight = 0
    for trial in range(60):
        n, steps = 4, 25
        walk = RNG.integers(0, n, steps)
        updates = RNG.random(steps) < 0.85
        shift, variance = RNG.uniform(0.5, 1.5, steps), RNG.uniform(0.5, 2.0, steps)
        factors = np.ones(steps) if trial % 2 else RNG.uniform(-1.0, 1.0, steps)
        bound = pairwise_rho(walk, updates, shift, variance, observer, n)
        for u in range(n):
            if u == observer:
                assert bound[u] == 0.0
                continue
            exact = exact_rho(walk, updates, shift, variance, factors, observer, u)
            assert exact <= bound[u] * (1 + 1e-9) + 1e-12
            tight += exact > 0.8 * bound[u] > 0
    assert tight > 3  # the bound is not far off


def test_a_sum_over_updates_one_by_one_would_be_too_small():
    """Two updates that are seen together add up to one shift of twice the size."""
    walk, ones = np.array([0, 0, 1, 1, 1, 1, 1, 1, 2]), np.ones(9)
    found = pairwise_rho(walk, ones > 0, ones, ones, observer=2, n=3)[0]
    assert found == pytest.approx(0.5 * 4 / 8)
    assert found > 0.5 * (1 / 8 + 1 / 7)
    assert exact_rho(walk, ones > 0, ones, ones, ones, 2, 0) == pytest.approx(found)


def private_run(privacy, **options):
    network = lw.ring(8)
    problem = lw.homogeneous(8, dim=2, seed=1)
    given = {"design": lw.unif_rw(), "steps": 200, "step_size": 0.01} | options
    given |= {"backend": "reference"}
    return lw.run(network, problem, seed=3, privacy=privacy, **given)


def test_the_loss_between_nodes_falls_with_their_distance_and_is_below_composition():
    base = {"clip": 1.0, "noise": 5.0, "scores": "public"}
    alone = private_run(lw.Privacy(**base, adversary="neighbour")).provenance["privacy"]
    every = private_run(lw.Privacy(**base)).provenance["privacy"]
    final = private_run(lw.Privacy(**base, adversary="final")).provenance["privacy"]
    assert "pairwise" in alone["accountant"]
    falls = alone["epsilon_by_distance"]
    assert len(falls) == 4
    assert falls[0] > falls[1] > falls[3]
    assert final["epsilon_spent"] < alone["epsilon_spent"] <= every["epsilon_spent"]
    assert alone["epsilon_at_cap"] == every["epsilon_at_cap"]


def test_the_record_is_the_loss_of_the_walk():
    privacy = lw.Privacy(clip=1.0, noise=5.0, scores="public", adversary="final")
    trace = private_run(privacy)
    shift = np.full(200, 0.01 * 2.0)
    rho = pairwise_rho(trace.walk[0], shift > 0, shift, (5.0 * shift) ** 2, -1, 8)
    expected = [zcdp_epsilon(value, 1e-5) for value in rho]
    assert trace.provenance["privacy"]["epsilon_spent_by_node"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"design": lw.mhlj()}, "without jumps"),
        ({"design": lw.iid_uniform()}, "without jumps"),
        ({"update": lw.saga()}, "not plain SGD"),
        ({"update": lw.sgd(minibatch=1)}, "not plain SGD"),
        ({"tokens": 2}, "several tokens"),
        ({"step_size": 10.0}, "γL must be at most 2"),
    ],
)
def test_where_an_assumption_does_not_hold_it_is_composition_and_says_why(changed, why):
    privacy = lw.Privacy(clip=1.0, noise=5.0, scores="public", adversary="neighbour")
    said = private_run(privacy, **changed).provenance["privacy"]
    assert said["accountant"] == "composition"
    assert why in said["because"]


def test_the_bound_needs_a_declared_smoothness():
    said = private_run(lw.Privacy(clip=1.0, noise=5.0, adversary="final")).provenance["privacy"]
    assert "declare L_v by scores='public'" in said["because"]
