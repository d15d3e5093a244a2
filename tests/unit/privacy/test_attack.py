"""What a neighbour learns: all of a sample without noise, and no more than the bound with noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import norm

import levywalk as lw

STEP = 0.05
RNG = np.random.default_rng(11)
START = RNG.normal(size=6)
# The model comes to node 1 and goes back to node 0, once.
ONE_RETURN: dict[str, Any] = {"steps": 1, "start": 1, "x0": START, "step_size": STEP}


class OneSample(lw.LeastSquares):
    """Two samples do not span six dimensions, on whose optimum nothing here depends."""

    optimum = np.zeros(6)


def returned(a: np.ndarray, y: float, replicas: int = 1, privacy: lw.Privacy | None = None):
    """The model that A = node 0 gets back from v = node 1, to which it has sent START."""
    problem = OneSample([np.ones(6), a], [0.0, y])
    trace = lw.run(
        lw.path(2),
        problem,
        lw.unif_rw(),
        **ONE_RETURN,
        replicas=replicas,
        privacy=privacy,
        backend="reference",
    )
    assert (trace.final_node == 0).all()
    return trace.model, float(problem.smoothness[1])


def reconstructed(model: np.ndarray, smoothness: float) -> np.ndarray:
    """The sample (a, y) of least squares, up to its sign: 2(aᵀx - y)a is known, and ‖a‖ from L."""
    gradient = (START - model) / STEP
    size = math.sqrt(smoothness / 2.0)
    a = size * gradient / np.linalg.norm(gradient)
    return np.append(a, a @ START - np.linalg.norm(gradient) / (2.0 * size))


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The distance of samples that no loss can tell from their negatives."""
    return min(np.linalg.norm(one - other), np.linalg.norm(one + other))


def test_without_noise_one_return_and_the_published_score_reveal_the_whole_sample():
    for _ in range(5):
        sample = RNG.normal(size=7)
        model, smoothness = returned(sample[:6], sample[6])
        error = distance(reconstructed(model[0], smoothness), sample)
        assert error / np.linalg.norm(sample) < 1e-11


def test_with_noise_no_reconstruction_is_better_than_the_bound():
    """Le Cam's two points: for every attack, the mean of its errors at two neighbouring samples is
    at least half their distance times 1 - TV, and TV ≤ 2Φ(μ/2) - 1 for μ-GDP.
    """
    a, b = np.eye(6)[0] * 2.0, np.eye(6)[1] * 2.0  # of the same published L
    samples = [np.append(a, a @ START - 4.0), np.append(b, b @ START + 4.0)]
    privacy = lw.Privacy(clip=1.0, noise=2.0, scores="public")
    bound = 0.5 * distance(*samples) * (2.0 - 2.0 * norm.cdf(privacy.mu(1) / 2.0))
    assert bound > 0.25 * distance(*samples)
    by_formula, by_likelihood = [], []
    gradients = [(START - returned(s[:6], s[6])[0][0]) / STEP for s in samples]
    clipped = [g / max(1.0, np.linalg.norm(g)) for g in gradients]
    for sample in samples:
        models, smoothness = returned(sample[:6], sample[6], 1500, privacy)
        for model in models:
            by_formula.append(distance(reconstructed(model, smoothness), sample))
            seen = (START - model) / STEP
            nearest = int(np.argmin([np.linalg.norm(seen - g) for g in clipped]))
            by_likelihood.append(distance(samples[nearest], sample))
    spread = distance(*samples) / math.sqrt(3000)  # at most, of the second mean
    assert np.mean(by_formula) > bound
    assert np.mean(by_likelihood) > bound - 5 * spread
    assert np.mean(by_likelihood) < 1.5 * bound  # the best attack on these two is near the bound


def test_with_hardly_any_noise_the_attack_succeeds_again():
    sample = RNG.normal(size=7)
    model, smoothness = returned(
        sample[:6], sample[6], privacy=lw.Privacy(clip=1e6, noise=1e-15, scores="public")
    )
    assert distance(reconstructed(model[0], smoothness), sample) < 1e-6
