"""Problems of torch and JAX: losses and gradients against numpy, first models, scores, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import levywalk as lw
from tests.frameworks.models import (
    CLASSES,
    FIRST,
    FRAMEWORKS,
    NODE,
    N,
    X,
    Y,
    network,
    plain_loss,
    torch_network,
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_are_those_of_numpy_and_gradients_those_of_finite_differences(
    framework: str,
) -> None:
    problem = network(framework, dtype="float64")
    x = np.random.default_rng(1).normal(size=problem.dim)
    every = []
    for v in (0, 5):
        here = v == NODE
        arrays = problem.arrays.unpack(x)
        assert problem.local_loss(v, x) == pytest.approx(plain_loss(arrays, X[here], Y[here]))
        assert problem.local_loss(v, arrays) == problem.local_loss(v, x)
        steps = 1e-5 * np.eye(problem.dim)
        differences = [
            (
                plain_loss(problem.arrays.unpack(x + step), X[here], Y[here])
                - plain_loss(problem.arrays.unpack(x - step), X[here], Y[here])
            )
            / 2e-5
            for step in steps
        ]
        assert problem.local_gradient(v, x) == pytest.approx(np.array(differences), abs=1e-7)
        one = problem.local_gradient(v, x, samples=np.array([0]))
        assert one == pytest.approx(
            network(framework, dtype="float64", node=None).local_gradient(
                int(np.flatnonzero(here)[0]), x
            )
        )
    every = [plain_loss(arrays, X[v == NODE], Y[v == NODE]) for v in range(N)]
    assert problem.loss(x) == pytest.approx(np.mean(every))
    assert problem.mean_losses(x[None], np.array([1, 4])) == pytest.approx(
        [np.mean([every[1], every[4]])]
    )
    everywhere = problem.all_gradients(np.tile(x, (N, 1)))
    assert everywhere[5] == pytest.approx(problem.local_gradient(5, x))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_first_model_is_that_of_the_module_and_models_become_modules_again(
    framework: str,
) -> None:
    problem = network(framework)
    assert problem.dtype == np.float32
    named = problem.arrays.unpack(problem.x0)
    for name, array in FIRST.items():
        assert named[name] == pytest.approx(array.astype(np.float32))
    trace = lw.run(lw.ring(N), problem, lw.unif_rw(), steps=30, step_size=0.1, replicas=2)
    assert trace.provenance["framework"] == problem.framework
    assert trace.bytes[0, -1] == trace.transfers[0, -1] * 4 * problem.dim
    outputs = problem.predict(trace.model[1], X)
    assert outputs.shape == (len(X), CLASSES)
    if framework == "torch":
        import torch

        made = problem.module(trace.model[1])
        found = made(torch.from_numpy(X.astype(np.float32))).detach().numpy()
    else:
        tree = problem.params(trace.model[1])
        found = np.asarray(problem.outputs(tree, X.astype(np.float32)))
    assert outputs == pytest.approx(found, abs=1e-5)
    assert trace.named_models()["2.bias"].shape == (2, CLASSES)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_problem_of_one_node_has_the_same_first_model(framework: str) -> None:
    here = NODE == 3
    one = network(framework, features=X[here], targets=Y[here], node=np.zeros(here.sum(), int))
    every = network(framework)
    assert one.n == 1
    assert np.array_equal(one.x0, every.x0)
    assert one.local_loss(0, one.x0) == pytest.approx(every.local_loss(3, every.x0), rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_scores_are_given_estimated_or_not_asked_for(framework: str) -> None:
    problem = network(framework)
    lw.run(lw.ring(N), problem, lw.unif_rw(), steps=2, step_size=0.1)  # asks for none
    with pytest.raises(lw.InvalidParameter, match="smoothness='hessian'"):
        lw.run(lw.ring(N), problem, lw.weight_rw(), steps=2, step_size=0.1)
    with pytest.raises(lw.InvalidParameter, match="step_size='theory' needs the smoothness"):
        lw.run(lw.ring(N), problem, lw.unif_rw(), steps=2, step_size="theory")
    given = network(framework, smoothness=np.arange(1.0, N + 1))
    trace = lw.run(lw.ring(N), given, lw.weight_rw(), steps=2, step_size="theory")
    assert trace.target == pytest.approx(np.arange(1, N + 1) / np.sum(np.arange(1, N + 1)))
    slopes = network(framework, smoothness="gradient").smoothness
    assert slopes[4] == pytest.approx(np.linalg.norm(problem.local_gradient(4, problem.x0)))
    with pytest.raises(lw.InvalidData, match="smoothness must be one finite number above 0"):
        network(framework, smoothness=[1.0, -1.0])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_estimated_curvatures_are_the_largest_eigenvalues(framework: str) -> None:
    problem = network(framework, smoothness="hessian", dtype="float64")
    for v in (0, 5):
        steps = 1e-5 * np.eye(problem.dim)
        hessian = np.array(
            [
                problem.local_gradient(v, problem.x0 + step)
                - problem.local_gradient(v, problem.x0 - step)
                for step in steps
            ]
        )
        largest = np.abs(np.linalg.eigvalsh((hessian + hessian.T) / 4e-5)).max()
        assert problem.smoothness[v] == pytest.approx(largest, rel=0.1)
        assert problem.smoothness[v] <= largest * (1 + 1e-6)  # never more than it is


def test_torch_and_jax_are_the_same_problem() -> None:
    one, other = network("torch", dtype="float64"), network("jax", dtype="float64")
    order = [list(other.arrays.shapes).index(name) for name in one.arrays.shapes]
    x = one.arrays.unpack(np.random.default_rng(2).normal(size=one.dim))
    assert sorted(order) == list(range(len(order)))
    assert one.local_loss(7, x) == pytest.approx(other.local_loss(7, x))
    ours, theirs = one.local_gradient(7, x), other.local_gradient(7, x)
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"features": X[:-1]}, "targets must have one entry per sample"),
        ({"targets": np.array(["a"] * len(Y))}, "return_inverse=True"),
        ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64'"),
        ({"features": X * np.nan}, "features must be finite"),
        ({"smoothness": "guess"}, "smoothness must be one of 'hessian', 'gradient'"),
    ],
)
def test_wrong_arguments_are_named(framework: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(lw.LevywalkError, match=said):
        network(framework, **wrong)


def test_wrong_modules_are_named() -> None:
    torch_network()
    import torch

    with pytest.raises(lw.InvalidParameter, match=r"module must be a torch\.nn\.Module"):
        lw.torch_problem(abs, torch.nn.functional.mse_loss, X, Y)
    with pytest.warns(lw.DataWarning, match="Dropout, which is used as in evaluation"):
        lw.torch_problem(
            torch_network([torch.nn.Dropout(0.5)]), torch.nn.functional.cross_entropy, X, Y
        )
    problem = lw.torch_problem(
        torch_network(),
        lambda z, y: torch.nn.functional.cross_entropy(z, y, reduction="none"),
        X,
        Y,
    )
    with pytest.raises(lw.InvalidParameter, match="loss must return one number"):
        problem.local_gradient(0, problem.x0)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gossip_takes_the_same_problems(framework: str) -> None:
    problem = network(framework)
    trace = lw.gossip(lw.ring(N), problem, "dsgd", iterations=40, step_size=0.2)
    assert trace.loss[0, -1] < trace.loss[0, 0]
    with pytest.raises(lw.InvalidParameter, match="need the smoothness"):
        lw.gossip(lw.ring(N), problem, "dsgd", iterations=4)
