"""The batched backend against the reference: the same walk, the same samples, the same models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from tests.frameworks.models import FIRST, FRAMEWORKS, NODE, N, X, Y, network

UPDATES = {
    "sgd": lw.sgd(),
    "sgd of two": lw.sgd(minibatch=2),
    "heavy ball": lw.heavy_ball(0.8),
    "adam": lw.adam(minibatch=1),
    "sag": lw.sag(),
    "saga": lw.saga(minibatch=2),
}
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def both(problem: Any, design: Any = None, **how: Any) -> tuple[lw.Trace, lw.Trace]:
    """Return the run of the backend that is chosen, and that of the reference."""
    given: dict[str, Any] = {
        "steps": 25,
        "step_size": 0.1,
        "replicas": 3,
        "record_walk": True,
        "record_memory": True,
        **how,
    }
    design = lw.unif_rw() if design is None else design
    found = lw.run(lw.ring(N), problem, design, **given)
    judge = lw.run(lw.ring(N), problem, design, backend="reference", **given)
    assert found.provenance["backend"] == "batched"
    return found, judge


def check_same(found: lw.Trace, judge: lw.Trace, tolerance: float) -> None:
    for name in ("walk", "visits", "hops", "transfers", "small_messages", "diverged_at"):
        assert np.array_equal(getattr(found, name), getattr(judge, name)), name
    scale = np.abs(judge.model).max()
    assert np.abs(found.model - judge.model).max() <= tolerance * scale
    assert found.loss == pytest.approx(judge.loss, rel=10 * tolerance)
    assert found.memory is not None
    assert judge.memory is not None
    for name, array in judge.memory.items():
        size = max(float(np.abs(array).max()), 1.0)
        assert np.abs(found.memory[name] - array).max() <= tolerance * size, name


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_update_is_that_of_the_reference(framework: str, update: str) -> None:
    problem = network(framework)
    check_same(*both(problem, update=UPDATES[update]), TOLERANCE["float32"])


@pytest.mark.parametrize("update", ["sgd of two", "adam", "saga"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_in_float64_to_nine_digits(framework: str, update: str) -> None:
    problem = network(framework, dtype="float64")
    check_same(*both(problem, update=UPDATES[update]), TOLERANCE["float64"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_update_from_equal_models(framework: str) -> None:
    problem = network(framework)
    x0 = np.random.default_rng(3).normal(size=(3, problem.dim))
    check_same(*both(problem, steps=1, x0=x0), TOLERANCE["float32"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weighted_and_remembering_walks_schedules_and_idle_nodes(framework: str) -> None:
    scores = np.arange(1.0, N + 1)
    problem = network(framework, smoothness=scores)
    check_same(*both(problem, lw.mhlj(0.3), step_size=lw.Decaying(0.2, timescale=5)), 1e-5)
    check_same(*both(problem, lw.mhda(), tokens=1), 1e-5)
    some = NODE < N - 3
    sparse = network(framework, features=X[some], targets=Y[some], node=NODE[some] + 2, idle="pass")
    assert sparse.holders is not None
    check_same(*both(sparse), 1e-5)


def line(framework: str) -> Any:
    """Return f_v(w) = w² for one number w: a step of 50 multiplies it by -99."""
    ones, zeros = np.ones((N, 1)), np.zeros((N, 1))
    if framework == "torch":
        torch = pytest.importorskip("torch", reason="needs levywalk[torch]")
        return lw.torch_problem(
            torch.nn.Linear(1, 1, bias=False), torch.nn.functional.mse_loss, ones, zeros
        )
    pytest.importorskip("jax", reason="needs levywalk[jax]; `make frameworks` has it")
    return lw.jax_problem(
        lambda params, x: x @ params["w"],
        {"w": np.ones((1, 1))},
        lambda outputs, targets: ((outputs - targets) ** 2).mean(),
        ones,
        zeros,
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_replica_that_overflows_keeps_its_last_finite_model(framework: str) -> None:
    x0 = np.array([[0.0], [1.0], [0.0]])
    with pytest.warns(lw.DivergedWarning, match="1 of 3 replicas diverged, the first at step 19"):
        found, judge = both(line(framework), x0=x0, step_size=50.0, steps=30)
    assert found.diverged_at.tolist() == judge.diverged_at.tolist() == [-1, 19, -1]  # 99^20 > 3e38
    assert found.model == pytest.approx(judge.model, rel=1e-4)
    assert found.model[1, 0] == pytest.approx(-(99.0**19), rel=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_bits_do_not_depend_on_checkpoints_and_a_finished_run_is_read_again(
    framework: str, tmp_path: Path
) -> None:
    problem = network(framework)
    given: dict[str, Any] = {
        "steps": 40,
        "step_size": 0.1,
        "replicas": 3,
        "update": lw.heavy_ball(),
    }
    whole = lw.run(lw.ring(N), problem, lw.unif_rw(), record_every=40, **given)
    cut = lw.run(lw.ring(N), problem, lw.unif_rw(), record_every=[1, 2, 7, 30], **given)
    assert np.array_equal(whole.model, cut.model)
    for _ in range(2):
        kept = lw.run(
            lw.ring(N), problem, lw.unif_rw(), record_every=40, resume=tmp_path / "a.npz", **given
        )
        assert np.array_equal(whole.model, kept.model)
    other = network(framework, targets=Y[::-1].copy())
    with pytest.raises(lw.ResumeError, match="different problem"):
        lw.run(lw.ring(N), other, lw.unif_rw(), record_every=40, resume=tmp_path / "a.npz", **given)


def test_a_module_that_cannot_be_batched_runs_one_at_a_time() -> None:
    torch = pytest.importorskip("torch", reason="needs levywalk[torch]; `make frameworks` has it")

    class Branching(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 3))

        def forward(self, x: Any) -> Any:
            return (
                x @ self.weight if float((x @ self.weight).sum().detach()) > 0 else -x @ self.weight
            )

    problem = lw.torch_problem(Branching(), torch.nn.functional.cross_entropy, X, Y, NODE)
    with pytest.warns(lw.DataWarning, match="one model at a time.*vmap cannot batch the module"):
        trace = lw.run(lw.ring(N), problem, lw.unif_rw(), steps=4, step_size=0.1, replicas=2)
    assert trace.provenance["backend"] == "reference"
    with pytest.raises(lw.InvalidParameter, match="backend must be 'reference' or 'auto' here"):
        lw.run(lw.ring(N), problem, lw.unif_rw(), steps=4, step_size=0.1, backend="batched")


def test_what_has_no_batches_says_why() -> None:
    problem = network("torch", smoothness=np.ones(N))
    with pytest.raises(lw.InvalidParameter, match="it supports sgd, heavy_ball, adam"):
        lw.run(
            lw.ring(N), problem, lw.unif_rw(), steps=4, step_size=0.1, backend="batched",
            update=lw.averaged(lw.sgd()),
        )  # fmt: skip
    with pytest.raises(lw.InvalidParameter, match="'batched', 'reference' or 'auto' here"):
        lw.run(lw.ring(N), problem, lw.unif_rw(), steps=4, step_size=0.1, backend="kernel")
    with pytest.raises(lw.InvalidParameter, match="backend is for problems of torch and JAX"):
        lw.run(
            lw.ring(N), lw.homogeneous(N), lw.unif_rw(), steps=4, step_size=0.1, backend="batched"
        )


def test_models_are_files_that_safetensors_reads(tmp_path: Path) -> None:
    problem = network("torch")
    named = problem.named(problem.x0)
    file = lw.save_model(tmp_path / "m.safetensors", named)
    loaded = lw.load_model(file)
    module = problem.module(loaded)
    for name, parameter in module.named_parameters():
        assert parameter.detach().numpy() == pytest.approx(FIRST[name].astype(np.float32))
