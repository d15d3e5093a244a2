"""Compiled private runs: the noise is the reference's, and so are counters, models and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy.sparse import csr_array
from scipy.special import ndtri

import levywalk as lw
from levywalk.draws import Domain, Key
from levywalk.engine.kernels.normals import central, normals_at, room_for_normals, tail
from levywalk.privacy import SeededNoise
from levywalk.walks import ChangingJumps
from tests.property.test_kernel_equals_reference import EXACT

RNG = np.random.default_rng(6)
N = 9
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=1)
NODE = np.concatenate([np.arange(N), RNG.integers(0, N, 2 * N)])
FEATURES = RNG.normal(size=(len(NODE), 5)) * RNG.lognormal(0.0, 1.0, size=(len(NODE), 1))
LABELS = RNG.integers(0, 3, len(NODE))
SQUARES = lw.LeastSquares(FEATURES, RNG.normal(size=len(NODE)), NODE, ridge=0.2)
PUBLIC = lw.Privacy(clip=0.7, noise=2.0, scores="public")


def both(problem: Any = SQUARES, design: Any = None, privacy: Any = PUBLIC, **options: Any) -> Any:
    """Run on both backends, compare, and return the compiled trace."""
    given = {"steps": 150, "step_size": 0.05, "seed": 3, "replicas": 3, "record_every": 30}
    given |= {"record_walk": True, "record_memory": True} | options
    kernel, reference = (
        lw.run(NETWORK, problem, design or lw.unif_rw(), privacy=privacy, backend=backend, **given)
        for backend in ("kernel", "reference")
    )
    assert_private_twins(kernel, reference)
    return kernel


def assert_private_twins(kernel: lw.Trace, reference: lw.Trace) -> None:
    assert kernel.provenance["backend"] == "kernel"
    assert kernel.provenance["privacy"] == reference.provenance["privacy"]
    for name in EXACT:
        assert np.array_equal(getattr(kernel, name), getattr(reference, name)), name
    assert kernel.memory.keys() == reference.memory.keys()
    for name, kept in reference.memory.items():
        assert np.array_equal(kernel.memory[name], kept), name
    size = max(1.0, float(np.abs(reference.model).max()))
    assert np.abs(kernel.model - reference.model).max() <= 1e-9 * size
    for name in ("distance2", "loss"):
        a, b = getattr(kernel, name), getattr(reference, name)
        assert np.allclose(a, b, rtol=1e-8, atol=1e-9 * min(size, 1e100) ** 2), name


@njit
def _noise(found: Any, middle: Any, count: int, h: Any) -> None:
    normals_at(np.int64(found.ctypes.data), np.int64(middle.ctypes.data), count, h)


@njit
def _inverse(p: Any, found: Any) -> None:
    for i in range(len(p)):
        q = p[i] - 0.5
        found[i] = central(q) if abs(q) <= 0.425 else np.copysign(tail(0.5 - abs(q)), q)


def test_the_noise_is_that_of_the_reference() -> None:
    key = Key.of(5, Domain.PRIVACY)
    for step, count in ((0, 1), (7, 8), (8, 13), (2**40, 20_000)):
        found, middle = (np.empty(room_for_normals(count)) for _ in range(2))
        _noise(found, middle, count, np.uint64(key.step_hash(step)))
        assert found[:count] == pytest.approx(SeededNoise(key, step)(0, count), rel=5e-15, abs=0)


def test_the_inverse_of_the_normal_law_holds_to_the_ends_of_its_tails() -> None:
    # All probabilities are odd multiples of 2^-53: the smallest, those between, where the three
    # rational functions meet (0.075 and exp(-25)), and the largest.
    near = np.concatenate([1e-11 + 1e-13 * np.arange(200), 0.075 + 1e-9 * np.arange(-100, 100)])
    spread = np.concatenate([np.exp(np.linspace(np.log(2.0**-52), -0.7, 20_000)), near])
    low = (2.0 * np.floor(spread * 2.0**52) + 1.0) * 2.0**-53
    low = np.concatenate([(2.0 * np.arange(1000) + 1.0) * 2.0**-53, low])
    p = np.concatenate([low, 1.0 - low])
    found = np.empty(len(p))
    _inverse(p, found)
    assert p.min() == 2.0**-53
    assert p.max() == 1.0 - 2.0**-53
    assert found == pytest.approx(ndtri(p), rel=5e-15, abs=0)
    _inverse(np.array([0.5, 0.5 + 2.0**-53]), found)  # around 0, relative to the distance from 1/2
    assert found[:2] == pytest.approx([0.0, 2.0**-53 * np.sqrt(2.0 * np.pi)], rel=1e-15)


def test_one_output_with_counters_that_run_out() -> None:
    privacy = lw.Privacy.calibrated(clip=0.7, budget=1.0, updates=12)
    trace = both(privacy=privacy)
    assert trace.provenance["privacy"]["nodes_out_of_budget"] > 0
    assert (trace.memory["privacy.releases"] == np.minimum(trace.visits, 12)).all()
    assert (trace.visits > 12).any()
    assert (trace.visits < 12).any()


def test_bits_depend_neither_on_threads_nor_on_replicas_nor_on_pieces() -> None:
    given: dict[str, Any] = {
        "steps": 400, "step_size": 0.05, "privacy": PUBLIC, "backend": "kernel",
    }  # fmt: skip
    whole = lw.run(NETWORK, SQUARES, lw.unif_rw(), replicas=5, threads=1, **given)
    for replicas, more in ((5, {"threads": 2}), (2, {}), (5, {"record_every": 7})):
        part = lw.run(NETWORK, SQUARES, lw.unif_rw(), replicas=replicas, **given, **more)
        assert (part.model == whole.model[:replicas]).all()


def test_a_model_that_overflows_rests_as_in_the_reference() -> None:
    problem = lw.LeastSquares(FEATURES, np.zeros(len(NODE)), NODE, ridge=30.0)
    with pytest.warns(lw.DivergedWarning):
        trace = both(problem, step_size=0.9, steps=300)
    assert (trace.diverged_at >= 0).all()
    assert (trace.memory["privacy.releases"].sum(axis=1) == trace.diverged_at + 1).all()


@pytest.mark.more
@pytest.mark.parametrize(
    "design",
    [
        lw.mhlj(),
        lw.mhlj(schedule=lw.Decaying(0.5, 10)),
        lw.weight_rw(),
        lw.iid_weighted(),
        lw.mhda(),
        lw.oldest_neighbour(),
        lw.least_used_edge(),
        ChangingJumps("importance", [0, 60], [0.5, 0.1], [0.5, 0.3], [3, 4]),
    ],
    ids=lambda design: design.name,
)
@pytest.mark.parametrize("adjacency", ["sample", "node"])
def test_walks_and_adjacencies(design: lw.Walk, adjacency: str) -> None:
    privacy = lw.Privacy.calibrated(
        clip=0.7, budget=2.0, updates=14, scores="public", adjacency=adjacency
    )
    both(design=design, privacy=privacy, step_size=lw.Decaying(0.05, 40))


@pytest.mark.more
def test_released_scores_and_idle_nodes() -> None:
    released = lw.Privacy(
        clip=0.7, noise=3.0, scores="released", score_low=1.0, score_high=20.0, score_noise=2.0
    )
    both(design=lw.mhlj(), privacy=released)
    node = np.where(NODE == 4, 5, NODE)
    idle = lw.Logistic(FEATURES, LABELS > 0, node, ridge=0.1, idle="pass")
    trace = both(idle, design=lw.mhlj(), privacy=PUBLIC)
    assert (trace.visits[:, 4] == 0).all()


@pytest.mark.more
@pytest.mark.parametrize("adversary", ["neighbour", "final"])
def test_what_one_observer_learns_is_said_by_both(adversary: str) -> None:
    privacy = lw.Privacy(clip=0.7, noise=2.0, scores="public", adversary=adversary)
    trace = both(privacy=privacy, step_size=0.001, record_walk=False)
    assert "pairwise" in trace.provenance["privacy"]["accountant"]


@pytest.mark.more
@pytest.mark.parametrize("classes", [2, 3, 10, 13])
def test_softmax(classes: int) -> None:
    labels = RNG.integers(0, classes, len(NODE))
    labels[:classes] = np.arange(classes)
    problem = lw.Softmax(FEATURES, labels, NODE, ridge=0.1)
    privacy = lw.Privacy.calibrated(clip=0.3, budget=4.0, updates=15, scores="public")
    both(problem, design=lw.mhlj(), privacy=privacy)


@pytest.mark.more
def test_squares_of_several_outputs() -> None:
    targets = RNG.normal(size=(len(NODE), 6))
    problem = lw.GeneralizedLinear(FEATURES, targets, lw.losses.SquaredErrors(6), NODE, ridge=0.1)
    both(problem)


@pytest.mark.more
def test_a_run_with_several_outputs_resumes_to_the_bit(tmp_path: Any) -> None:
    def stop(seen: dict[str, Any]) -> None:
        if seen["step"] == 60:
            raise RuntimeError("enough")

    problem = lw.Softmax(FEATURES, LABELS, NODE, ridge=0.1)
    given: dict[str, Any] = {
        "steps": 150, "step_size": 0.05, "record_every": 30, "backend": "kernel", "replicas": 2,
        "privacy": lw.Privacy.calibrated(clip=0.3, budget=4.0, updates=10),
    }  # fmt: skip
    whole = lw.run(NETWORK, problem, lw.unif_rw(), **given)
    file = tmp_path / "state.npz"
    with pytest.raises(lw.CallbackError):
        lw.run(NETWORK, problem, lw.unif_rw(), callbacks=[stop], resume=file, **given)
    again = lw.run(NETWORK, problem, lw.unif_rw(), resume=file, **given)
    assert again.provenance["resumed_at"] == [60]
    assert (again.model == whole.model).all()
    assert again.provenance["privacy"] == whole.provenance["privacy"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"update": lw.saga()}, "the update saga, only for plain sgd"),
        ({"update": lw.sag()}, "the update sag, only for plain sgd"),
        ({"update": lw.adam()}, "the update adam, only for plain sgd"),
        ({"update": lw.sgd(minibatch=2)}, "minibatches"),
        ({"tokens": 2}, "several tokens"),
        ({"design": lw.switching(lw.mhlj(), lw.unif_rw())}, "switching walks"),
        ({"problem": lw.LeastSquares(csr_array(FEATURES), NODE * 1.0, NODE)}, "sparse features"),
        ({"problem": SQUARES.astype("float32")}, "models of float32"),
        ({"problem": lw.LeastSquares(FEATURES, NODE * 1.0, NODE, l1=0.1)}, "l1"),
        (
            {"problem": lw.GeneralizedLinear(FEATURES, NODE * 1.0, lw.losses.HuberLoss(), NODE)},
            "the loss huber, only for least squares, logistic and softmax",
        ),
    ],
    ids=lambda given: "" if isinstance(given, dict) else given,
)
@pytest.mark.filterwarnings("ignore::levywalk.DataWarning")
def test_what_has_no_kernel_is_named(changed: dict[str, Any], why: str) -> None:
    parts: dict[str, Any] = {"problem": SQUARES, "design": lw.unif_rw()} | changed
    given: dict[str, Any] = {"steps": 20, "step_size": 0.01, "privacy": PUBLIC}
    said = f"privacy (clipped gradients with noise) has no kernel for {why}"
    with pytest.raises(lw.InvalidParameter) as error:
        lw.run(NETWORK, **parts, backend="kernel", **given)
    assert said in str(error.value)
    trace = lw.run(NETWORK, **parts, **given)
    assert trace.provenance["backend"] == "reference"
    assert trace.provenance["privacy"]["backend"] == f"reference, because {said}"


def test_updates_that_reveal_more_are_refused_before_a_backend_is_chosen() -> None:
    for update in (lw.newton_token(), lw.point_saga(), lw.finito(), lw.walkman()):
        with pytest.raises(lw.InvalidParameter, match="is refused under privacy"):
            lw.run(
                NETWORK, SQUARES, lw.unif_rw(), steps=9, step_size=0.01, update=update,
                privacy=PUBLIC, backend="kernel",
            )  # fmt: skip
