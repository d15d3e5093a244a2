"""Problems with fewer samples than dimensions, and with many dimensions: the optimum against plain
linear algebra, and without a matrix of dim x dim.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import levywalk as lw
from levywalk.problem import factor


def _data(samples: int, dim: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((samples, dim)) * rng.uniform(0.1, 10, dim), rng.standard_normal(
        samples
    )


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("rank", [4, 9])
def test_the_least_squares_optimum_is_that_of_the_pseudo_inverse(ridge, rank):
    features, targets = _data(9, 30)
    features[rank:] = features[: 9 - rank] * 2.0  # repeated rows: a lower rank
    problem = lw.LeastSquares(features, targets, ridge=ridge)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)
        found = problem.optimum
    root = np.sqrt(1 / 9)
    hessian = 2 * features.T @ features * root**2 + ridge * np.eye(30)
    expected = np.linalg.pinv(hessian, rcond=1e-11) @ (2 * features.T @ targets * root**2)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert problem.strong_convexity == ridge


def test_a_span_of_few_rows_is_the_span_of_the_samples():
    features, targets = _data(5, 20)
    basis = factor.row_space(factor.triangle(features, targets, np.ones(5)))
    assert basis.shape == (20, 5)
    assert basis.T @ basis == pytest.approx(np.eye(5), abs=1e-12)
    assert basis @ (basis.T @ features.T) == pytest.approx(features.T, abs=1e-9)


@pytest.mark.parametrize("loss", [lw.losses.logistic(), lw.losses.least_squares()])
def test_optima_of_wide_problems_have_no_gradient(loss):
    features, targets = _data(12, 40)
    labels = (targets > 0).astype(float)
    problem = lw.GeneralizedLinear(features, labels, loss, ridge=0.1)
    gradient = problem.local_gradients(problem.optimum).mean(axis=0)
    assert np.linalg.norm(gradient) < 1e-9 * np.abs(features).max() * 12


def test_wide_logistic_regression_agrees_with_the_same_data_turned_into_the_span():
    features, targets = _data(12, 40)
    labels = (targets > 0).astype(float)
    problem = lw.Logistic(features, labels, ridge=0.05)
    assert np.linalg.norm(problem.local_gradients(problem.optimum).mean(axis=0)) < 1e-9
    basis = np.linalg.qr(features.T)[0]
    small = lw.Logistic(features @ basis, labels, ridge=0.05)
    assert problem.optimum == pytest.approx(basis @ small.optimum, abs=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_many_dimensions_agree_with_the_decomposition_that_few_use(ridge, monkeypatch):
    features, targets = _data(90, 60)
    monkeypatch.setattr(factor, "_LARGE", 10)
    fast = lw.LeastSquares(features, targets, ridge=ridge)
    found, mu = fast.optimum, fast.strong_convexity
    monkeypatch.setattr(factor, "_LARGE", 10**9)
    slow = lw.LeastSquares(features, targets, ridge=ridge)
    assert found == pytest.approx(slow.optimum, rel=1e-9, abs=1e-12)
    assert mu == pytest.approx(slow.strong_convexity, rel=1e-9)


def test_nothing_of_dim_by_dim_is_made_for_few_samples():
    """20 samples of 60,000 features: a square matrix would take 27 GiB."""
    features, targets = _data(20, 60_000)
    problem = lw.LeastSquares(features, targets, ridge=1e-3)
    gradient = problem.local_gradients(problem.optimum).mean(axis=0)
    assert np.linalg.norm(gradient) < 1e-8 * np.linalg.norm(
        problem.local_gradients(np.zeros(problem.dim)).mean(axis=0)
    )
    labels = (targets > 0).astype(float)
    logistic = lw.Logistic(features, labels, ridge=1e-3)
    assert np.linalg.norm(logistic.local_gradients(logistic.optimum).mean(axis=0)) < 1e-8
