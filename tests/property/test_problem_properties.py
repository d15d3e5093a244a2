"""Invariants of every least-squares and logistic problem, over random data, nodes and ridges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levywalk.problem import GeneralizedLinear, LeastSquares, Logistic
from tests.limits import examples

SETTINGS = examples(80)


@st.composite
def problems(
    draw, kinds=("least_squares", "logistic"), ridges=(0.0, 1e-3, 1.0)
) -> GeneralizedLinear:
    """Draw a problem with a unique minimiser, on few or many nodes,
    with samples of unequal scale.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, n = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    samples = n + draw(st.integers(4 * dim, 60))
    features = rng.normal(size=(samples, dim)) * 10.0 ** rng.uniform(-1, 1, size=(samples, 1))
    node = rng.permutation(np.concatenate([np.arange(n), rng.integers(0, n, samples - n)]))
    node = None if draw(st.booleans()) else node
    ridge = draw(st.sampled_from(ridges))
    if draw(st.sampled_from(kinds)) == "least_squares":
        return LeastSquares(
            features, features @ rng.normal(size=dim) + rng.normal(size=samples), node, ridge
        )
    # Random labels of few samples may be separable: there always is a ridge here.
    return Logistic(features, rng.random(samples) < 0.5, node, max(ridge, 1e-3))


def points(problem: GeneralizedLinear, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, problem.dim))


def numerical_gradient(f, x):
    """Central differences of fourth order: the error is far below the tolerance for smooth
    losses.
    """
    gradient = np.empty(len(x))
    for i in range(len(x)):
        h = 2.0**-10 * max(1.0, abs(x[i]))
        e = h * np.eye(len(x))[i]
        gradient[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h)
    return gradient


@SETTINGS
@given(problems())
def test_local_gradients_equal_numerical_differentiation(problem):
    x = points(problem, 1)[0] / np.sqrt(problem.smoothness.max())
    for v in range(problem.n):
        numeric = numerical_gradient(lambda z, v=v: problem.local_loss(v, z), x)
        scale = problem.smoothness[v] + np.abs(numeric).max()
        np.testing.assert_allclose(
            problem.local_gradient(v, x), numeric, rtol=1e-6, atol=1e-7 * scale
        )


@SETTINGS
@given(problems())
def test_vectorised_gradients_and_loss_equal_the_local_ones(problem):
    x = points(problem, 1)[0]
    local = np.array([problem.local_gradient(v, x) for v in range(problem.n)])
    scale = np.abs(local).max()
    np.testing.assert_allclose(problem.local_gradients(x), local, rtol=1e-10, atol=1e-12 * scale)
    mean = np.mean([problem.local_loss(v, x) for v in range(problem.n)])
    assert problem.loss(x) == pytest.approx(mean, rel=1e-12)


@SETTINGS
@given(problems())
def test_smoothness_bounds_gradient_differences(problem):
    x, y = points(problem, 2)
    for v in range(problem.n):
        difference = np.linalg.norm(problem.local_gradient(v, x) - problem.local_gradient(v, y))
        assert difference <= problem.smoothness[v] * np.linalg.norm(x - y) * (1 + 1e-9)


@SETTINGS
@given(problems())
def test_smoothness_is_attained_along_the_top_eigenvector(problem):
    # For the logistic loss the curvature is largest at the origin, so a tiny step from there
    # attains it.
    for v in range(problem.n):
        a = problem.sorted_features[problem.offsets[v] : problem.offsets[v + 1]]
        top = np.linalg.svd(a, full_matrices=False)[2][0]
        step = 1e-3 * top / np.abs(a @ top).max()
        change = problem.local_gradient(v, step) - problem.local_gradient(v, -step)
        ratio = np.linalg.norm(change) / (2e-3 / np.abs(a @ top).max())
        assert ratio == pytest.approx(problem.smoothness[v], rel=1e-5)


@SETTINGS
@given(problems())
def test_mean_of_local_gradients_vanishes_at_the_optimum(problem):
    gradients = problem.local_gradients(problem.optimum)
    scale = np.abs(gradients).max() + problem.smoothness.max() * np.abs(problem.optimum).max()
    assert np.abs(gradients.mean(axis=0)).max() <= 1e-11 * scale


@SETTINGS
@given(problems())
def test_no_point_has_less_loss_than_the_optimum(problem):
    best = problem.loss(problem.optimum)
    for u in points(problem, 5):
        x = problem.optimum + u / np.sqrt(problem.smoothness.mean())
        assert problem.loss(x) >= best * (1 - 1e-12)
        excess = problem.loss(x) - best
        assert problem.excess_loss(x) == pytest.approx(excess, rel=1e-7, abs=1e-11 * (1 + best))


@SETTINGS
@given(problems())
def test_strong_convexity_inequality_holds_globally_and_locally(problem):
    x, y = points(problem, 2)
    gap2 = float(np.sum((x - y) ** 2))
    tolerance = 1e-9 * (
        1 + problem.smoothness.max() * gap2 + abs(problem.loss(x)) + abs(problem.loss(y))
    )
    gradient = problem.local_gradients(x).mean(axis=0)
    below = problem.loss(x) + gradient @ (y - x) + 0.5 * problem.strong_convexity * gap2
    assert problem.loss(y) >= below - tolerance
    for v in range(problem.n):
        mu = problem.local_strong_convexity[v]
        below = problem.local_loss(v, x) + problem.local_gradient(v, x) @ (y - x) + 0.5 * mu * gap2
        assert problem.local_loss(v, y) >= below - tolerance * problem.n
        assert mu <= problem.smoothness[v] * (1 + 1e-12)


@SETTINGS
@given(problems(kinds=("least_squares",)))
def test_least_squares_strong_convexity_is_attained(problem):
    values, vectors = np.linalg.eigh(problem.hessian)
    assert problem.strong_convexity == pytest.approx(values[0], rel=1e-7)
    x = problem.optimum + vectors[:, 0]
    assert problem.excess_loss(x) == pytest.approx(0.5 * problem.strong_convexity, rel=1e-6)


@SETTINGS
@given(problems(), st.integers(0, 2**32 - 1))
def test_the_order_of_samples_changes_nothing(problem, seed):
    order = np.random.default_rng(seed).permutation(problem.n_samples)
    arrays = (array[order] for array in (problem.features, problem.targets, problem.node))
    shuffled = type(problem)(*arrays, problem.ridge)
    np.testing.assert_allclose(shuffled.smoothness, problem.smoothness, rtol=1e-12)
    np.testing.assert_allclose(
        shuffled.optimum, problem.optimum, rtol=1e-8, atol=1e-10 * np.abs(problem.optimum).max()
    )
    assert shuffled.sigma_star2 == pytest.approx(problem.sigma_star2, rel=1e-7, abs=1e-20)
    x = points(problem, 1)[0]
    assert shuffled.loss(x) == pytest.approx(problem.loss(x), rel=1e-12)
    np.testing.assert_allclose(
        shuffled.local_gradients(x),
        problem.local_gradients(x),
        rtol=1e-9,
        atol=1e-11 * np.abs(problem.local_gradients(x)).max(),
    )


@SETTINGS
@given(problems())
def test_a_minibatch_of_all_samples_is_the_local_gradient_and_single_ones_average_to_it(problem):
    x = points(problem, 1)[0]
    for v in range(problem.n):
        everything = np.arange(problem.sample_count(v))
        whole = problem.local_gradient(v, x)
        scale = 1e-11 * (1 + np.abs(problem.local_gradients(x)).max())
        np.testing.assert_allclose(
            problem.local_gradient(v, x, everything), whole, rtol=1e-12, atol=scale
        )
        twice = np.concatenate([everything, everything[::-1]])
        np.testing.assert_allclose(
            problem.local_gradient(v, x, twice), whole, rtol=1e-9, atol=scale
        )
        singles = np.mean([problem.local_gradient(v, x, [j]) for j in everything], axis=0)
        np.testing.assert_allclose(singles, whole, rtol=1e-9, atol=scale)
