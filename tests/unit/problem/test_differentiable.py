"""Problems of torch and JAX whose subclasses have a gradient or a loss of their own.

Neither framework is needed: a linear model in numpy takes the place of the module.
"""

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.torch_models import TorchProblem

NETWORK = lw.ring(6)
FEATURES = np.random.default_rng(1).normal(size=(12, 2))
GIVEN = {"steps": 30, "step_size": 0.05}


class Linear(TorchProblem):
    def __init__(self):
        arrays, node = {"w": np.ones(2)}, np.repeat(np.arange(6), 2)
        given = FEATURES, np.arange(12.0), node, "float64", "error", np.ones(6)
        DifferentiableProblem.__init__(self, arrays, *given)


def value_of(self, model, features, targets):
    return float(np.mean((features @ model - targets) ** 2))


def gradient_of(self, model, features, targets):
    return 2.0 * features.T @ (features @ model - targets) / len(targets)


def many_values(self, models, rows):
    return (models @ self.sorted_features[rows].T - self.sorted_targets[rows]) ** 2


def many_gradients(self, models, rows):
    each = zip(models, rows, strict=True)
    return np.array(
        [gradient_of(self, x, self.sorted_features[r], self.sorted_targets[r]) for x, r in each]
    )


@pytest.fixture(autouse=True)
def numpy_in_place_of_torch(monkeypatch):
    for function in (value_of, gradient_of, many_values, many_gradients):
        monkeypatch.setattr(TorchProblem, function.__name__, function)
    monkeypatch.setattr(TorchProblem, "why_one_at_a_time", lambda _: None)


class Clipped(Linear):
    def local_gradient(self, v, x, samples=None):
        return np.clip(super().local_gradient(v, x, samples), -0.1, 0.1)


class Doubled(Linear):
    def local_loss(self, v, x):
        return 2.0 * super().local_loss(v, x)


def test_a_gradient_of_ones_own_has_no_batches():
    with pytest.raises(InvalidParameter, match="Clipped has a local_gradient, or samples, of its"):
        lw.run(NETWORK, Clipped(), lw.unif_rw(), backend="batched", **GIVEN)
    with pytest.warns(DataWarning, match="Clipped has a local_gradient"):
        trace = lw.run(NETWORK, Clipped(), lw.unif_rw(), **GIVEN)
    assert trace.provenance["backend"] == "reference"
    assert np.abs(trace.model - 1.0).max() <= 30 * 0.05 * 0.1 + 1e-12


def test_a_problem_of_no_framework_has_no_batches():
    class Other(DifferentiableProblem):
        __init__ = Linear.__init__
        gradient_of = gradient_of
        value_of = value_of
        why_one_at_a_time = TorchProblem.why_one_at_a_time

    with pytest.raises(InvalidParameter, match=r"torch and JAX .* and Other is none"):
        lw.run(NETWORK, Other(), lw.unif_rw(), backend="batched", **GIVEN)


def test_the_losses_and_gradients_of_all_nodes_are_those_of_the_single_nodes():
    x = np.array([[0.5, -1.0]])
    for problem in (Linear(), Doubled()):
        expected = np.mean([problem.local_loss(v, x[0]) for v in range(6)])
        assert problem.mean_losses(x) == pytest.approx([expected])
    models = np.repeat(x, 6, axis=0)
    for problem in (Linear(), Clipped()):
        expected = [problem.local_gradient(v, x[0]) for v in range(6)]
        assert problem.all_gradients(models) == pytest.approx(np.array(expected))
