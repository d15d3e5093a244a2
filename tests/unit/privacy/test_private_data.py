"""Clipping against plain loops, the sensitivity against random neighbours, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.privacy import SystemNoise
from levywalk.privacy.private_data import PrivateData, clipped_gradient, sensitivity
from levywalk.updates import LocalData

RNG = np.random.default_rng(5)
NODES = [0, 0, 0, 1, 1, 1, 1, 1]


class Bowls:
    """A problem of a user's own, not made of samples."""

    n, dim, smoothness = 2, 3, np.ones(2)

    def local_loss(self, v, x):
        return 0.5 * float(np.sum((x - 5 * v) ** 2))

    def local_gradient(self, v, x):
        return x - 5.0 * v


def problems():
    features, targets = RNG.normal(size=(8, 3)), RNG.normal(size=8)
    labels = [0, 1, 2, 0, 1, 2, 1, 0]
    return {
        "least squares": lw.LeastSquares(features, targets, node=NODES, ridge=0.7),
        "logistic": lw.Logistic(features, (targets > 0).astype(int), node=NODES, ridge=0.1),
        "softmax": lw.Softmax(features, labels, node=NODES, ridge=0.1),
    }


@pytest.mark.parametrize("name", list(problems()))
@pytest.mark.parametrize("clip", [0.05, 1.0, 1e9])
def test_each_sample_is_clipped_after_the_weight(name, clip):
    problem, weight = problems()[name], 1.7
    x = RNG.normal(size=problem.dim)
    for v in range(2):
        parts = []
        for i in range(problem.sample_count(v)):
            whole = problem.local_gradient(v, x, samples=np.array([i])) - problem.ridge * x
            part = weight * whole
            parts.append(part * min(1.0, clip / np.linalg.norm(part)))
        found, count = clipped_gradient(LocalData(problem, v, 2), x, weight, clip)
        assert found == pytest.approx(np.mean(parts, axis=0), rel=1e-12, abs=1e-14)
        assert count == problem.sample_count(v)


def test_a_problem_that_is_not_made_of_samples_is_clipped_as_a_whole():
    found, count = clipped_gradient(LocalData(Bowls(), 1, 2), np.zeros(3), 2.0, 1.0)
    assert count == 1
    assert np.linalg.norm(found) == pytest.approx(1.0)


@pytest.mark.parametrize("adjacency", ["sample", "node"])
@pytest.mark.parametrize("minibatch", [None, [0, 1, 1, 4]])
def test_no_neighbouring_data_change_a_release_by_more_than_the_sensitivity(adjacency, minibatch):
    privacy = lw.Privacy(clip=0.8, noise=1.0, adjacency=adjacency)
    samples = None if minibatch is None else np.array(minibatch)
    largest = 0.0
    for _ in range(300):
        features, targets = RNG.normal(size=(6, 2)) * 3, RNG.normal(size=6) * 9
        other, others = features.copy(), targets.copy()
        rows = [1] if adjacency == "sample" else list(range(5))
        scale = 10.0 ** RNG.integers(-2, 3)
        other[rows] = -features[rows] if RNG.random() < 0.5 else RNG.normal(size=(len(rows), 2))
        others[rows] = RNG.normal(size=len(rows)) * scale
        x, found = RNG.normal(size=2), []
        for a, y in ((features, targets), (other, others)):
            problem = lw.LeastSquares(a, y, node=[0, 0, 0, 0, 0, 1])
            found.append(clipped_gradient(LocalData(problem, 0, 2), x, 1.3, 0.8, samples))
        most = sensitivity(privacy, found[0][1])
        change = np.linalg.norm(found[0][0] - found[1][0])
        assert change <= most * (1 + 1e-12)
        largest = max(largest, change / most)
    assert largest > (0.9 if minibatch is None and adjacency == "sample" else 0.3)


def test_the_noise_has_the_stated_deviation_and_the_ridge_has_none():
    problem = lw.LeastSquares([[2.0], [1.0], [0.0], [1.0]], [0.0] * 4, node=[0, 0, 0, 1], ridge=1.0)
    privacy, x = lw.Privacy(clip=3.0, noise=2.0), np.array([5.0])
    drawn = []
    for _ in range(4000):
        seen = PrivateData(LocalData(problem, 0, 2), privacy, 2.0, SystemNoise(), 1)
        drawn.append(2.0 * seen.gradient(x)[0])
    # w(v) times: (3 + 3 + 0)/3 of the samples after the clip, and 5 of the ridge.
    assert np.mean(drawn) == pytest.approx(2.0 + 2.0 * 5.0, abs=5 * 4.0 / np.sqrt(4000))
    assert np.std(drawn) == pytest.approx(2.0 * 2 * 3.0 / 3, rel=0.1)


@pytest.mark.parametrize(
    "asked",
    [
        lambda data: data.loss(np.zeros(3)),
        lambda data: data.slopes(np.zeros(3)),
        lambda data: data.loss_slopes(np.zeros(3)),
        lambda data: data.loss_curvatures(np.zeros(3)),
        lambda data: data.samples,
        lambda data: data.smoothness,
        lambda data: data.problem.local_loss(0, np.zeros(3)),
        lambda data: data.problem.node_samples(0),
        lambda data: data.problem.local_gradient(1, np.zeros(3)),
    ],
)
def test_an_update_can_ask_for_noisy_gradients_alone(asked):
    local = LocalData(problems()["least squares"], 0, 2)
    data = PrivateData(local, lw.Privacy(clip=1.0, noise=1.0), 1.0, SystemNoise(), 5)
    with pytest.raises(lw.InvalidParameter, match="only noisy gradients"):
        asked(data)
    assert data.releases == 0


def test_public_smoothness_can_be_asked():
    local = LocalData(problems()["least squares"], 0, 2)
    privacy = lw.Privacy(clip=1.0, noise=1.0, scores="public")
    data = PrivateData(local, privacy, 1.0, SystemNoise(), 5)
    assert data.smoothness == local.smoothness
