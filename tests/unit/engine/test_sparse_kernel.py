"""The kernels for sparse features: the walk and the models of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import levywalk as lw
from levywalk.engine.kernels.sparse_rows import _across_zero
from tests.limits import mostly_more, mostly_soak, quick

RNG = np.random.default_rng(31)
N, DIM = 20, 15


def problem_of(
    kind: str, samples: int = 1, ridge: float = 0.0, l1: float = 0.0, **more: Any
) -> Any:
    rng = np.random.default_rng(samples)
    rows = N * samples
    a = np.where(rng.random((rows, DIM)) < 0.25, rng.normal(size=(rows, DIM)), 0.0)
    a[:, 1] += 0.2
    node = rng.permutation(np.arange(rows) % N)
    y = a @ np.linspace(-1, 2, DIM) + rng.normal(size=rows)
    a = sp.csr_array(a)
    if kind == "squares":
        return lw.LeastSquares(a, y, node, ridge, l1=l1, **more)
    if kind == "logistic":
        return lw.Logistic(a, y > 0, node, ridge, l1=l1, **more)
    return lw.Huber(a, y, node, ridge, l1=l1, **more)


NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=2)
UPDATES = {
    "sgd": lw.sgd(), "sgd of 2": lw.sgd(minibatch=2), "sag": lw.sag(), "sag of 2": lw.sag(2),
    "saga": lw.saga(), "saga of 2": lw.saga(2),
}  # fmt: skip


def ran(problem: Any, update: Any, backend: str, **more: Any) -> Any:
    given: dict[str, Any] = {"steps": 300, "step_size": 0.05, "replicas": 2, "seed": 6} | more
    walk, network = given.pop("walk", lw.mhlj(p_jump=0.2)), given.pop("network", NETWORK)
    return lw.run(
        network, problem, walk, update=update, backend=backend, record_walk=True, threads=1, **given
    )


def same(problem: Any, update: Any, **more: Any) -> Any:
    kernel, plain = (ran(problem, update, backend, **more) for backend in ("kernel", "reference"))
    assert (kernel.walk == plain.walk).all()
    assert kernel.model == pytest.approx(plain.model, rel=1e-9, abs=1e-10)
    assert kernel.distance2 == pytest.approx(plain.distance2, rel=1e-9, abs=1e-12)
    assert kernel.loss == pytest.approx(plain.loss, rel=1e-9)
    assert (kernel.diverged_at == plain.diverged_at).all()
    assert (kernel.transfers == plain.transfers).all()
    return kernel


PENALTIES = {"none": (1e-3, 0.0), "ridge": (0.1, 0.0), "l1": (0.0, 0.1), "both": (0.1, 0.1)}
CASES = [(update, samples, name) for update in UPDATES for samples in (1, 4) for name in PENALTIES]
QUICK = [("sgd", 4, "ridge")]  # the others are compiled, for seconds


# Of the others, a third of each update's cases is left to `make test-more`.
SOAK = [case for number, case in enumerate(CASES) if (number + number // 8) % 3]


@pytest.mark.parametrize(
    "case", mostly_more(CASES, lambda case: case in QUICK, lambda case: case in SOAK)
)
def test_models_are_those_of_the_reference(case: tuple[str, int, str]) -> None:
    update, samples, name = case
    for kind in ("logistic", "squares", "huber")[: 1 if samples == 1 or quick() else 3]:
        same(problem_of(kind, samples, *PENALTIES[name]), UPDATES[update])


@pytest.mark.more
def test_l1_zeros_and_the_minimiser() -> None:
    problem = problem_of("logistic", 4, 0.01, 0.08)
    trace = lw.run(
        NETWORK, problem, lw.unif_rw(), steps=60_000, step_size=0.1, update=lw.saga(),
        record_every=[7],
    )  # fmt: skip
    assert trace.provenance["backend"] == "kernel"
    assert trace.model[0] == pytest.approx(problem.optimum, abs=1e-8)
    assert ((trace.model[0] == 0.0) == (problem.optimum == 0.0)).all()
    assert 0 < (problem.optimum == 0.0).sum() < DIM


FACTORS = [(update, l1) for update in ("sgd", "sag", "saga") for l1 in (0.0, 0.05)]


@pytest.mark.more
@pytest.mark.parametrize("case", mostly_soak(FACTORS, lambda case: case[1] > 0))
def test_factors_of_the_ridge_that_are_large_small_or_zero(case: tuple[str, float]) -> None:
    update, l1 = case
    for ridge, gamma in ((3.0, 0.3), (10.0, 0.1), (2.5, 0.7), (30.0, 0.1)):
        with _Quiet():
            same(problem_of("logistic", 1, ridge, l1), UPDATES[update], step_size=gamma)


class _Quiet:
    def __enter__(self) -> None:
        import warnings

        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *given: Any) -> None:
        self.caught.__exit__(*given)


DIVERGING = [
    (update, l1, samples)
    for update in ("sgd", "sgd of 2", "sag", "saga")
    for l1 in (0.0, 0.05)
    for samples in (1, 4)
]


@pytest.mark.parametrize(
    "case",
    mostly_more(
        DIVERGING, lambda case: case == ("sgd", 0.0, 4), lambda case: DIVERGING.index(case) % 3
    ),
)
def test_runs_diverge_at_the_same_step(case: tuple[str, float, int]) -> None:
    update, l1, samples = case
    with _Quiet():
        found = same(
            problem_of("squares", samples, 0.01, l1), UPDATES[update], step_size=20.0, steps=3000
        )
    assert (found.diverged_at > 0).all()


@pytest.mark.more
def test_schedules_own_walks_idle_nodes_and_pieces() -> None:
    problem = problem_of("logistic", 4, 0.05, 0.02)
    for update in (lw.sgd(minibatch=2), lw.saga()):
        same(problem, update, step_size=lw.Decaying(0.1, timescale=100))
        same(problem, update, walk=lw.mhda())
        same(problem, update, record_every=[3, 4, 5, 299], x0=RNG.normal(size=DIM))
    holders = problem_of("logistic", 4, 0.05, 0.02, idle="pass")
    same(holders, lw.saga(), network=lw.watts_strogatz(N + 7, 4, 0.3, seed=2))
    whole, once = (ran(problem, lw.saga(), "kernel", steps=70_000, record_every=every)
                   for every in (None, 70_000))  # fmt: skip
    assert whole.model == pytest.approx(once.model, rel=1e-9)


@pytest.mark.more
def test_what_has_no_kernel_says_so_and_runs_in_the_reference() -> None:
    problem = problem_of("logistic", 4, 0.05)
    for update in (lw.adam(), lw.heavy_ball(), lw.point_saga(), lw.finito(), lw.averaged(),
                   lw.newton_token(), lw.walkman()):  # fmt: skip
        with pytest.raises(lw.InvalidParameter, match="no kernel for sparse features"):
            ran(problem, update, "kernel")
        dense = lw.Logistic(problem.features.toarray(), problem.targets, problem.node, 0.05)
        one, other = (ran(p, update, "reference", steps=60) for p in (problem, dense))
        assert one.model == pytest.approx(other.model, abs=1e-9)
    with pytest.raises(lw.InvalidParameter, match="switching walks"):
        ran(problem, lw.sgd(), "kernel", walk=lw.switching(lw.mhlj(), lw.unif_rw()))


def test_many_steps_at_once_are_the_steps_one_by_one() -> None:
    for trial in range(300):
        rng = np.random.default_rng(trial)
        count = int(rng.integers(1, 40))
        gains = rng.uniform(0.0, 0.3, count)
        factors = 1.0 - gains * rng.choice([0.0, 0.5])
        products, sums = np.ones(count + 1), np.zeros(count + 1)
        for k in range(count):
            products[k + 1] = products[k] * factors[k]
            sums[k + 1] = sums[k] * factors[k] + gains[k]
        start, d, l1 = rng.normal() * rng.integers(0, 2), rng.normal() * rng.integers(0, 3), 0.5
        m = int(rng.integers(0, count))
        x = start
        for k in range(m, count):
            y = factors[k] * x - gains[k] * d
            x = np.sign(y) * max(abs(y) - gains[k] * l1, 0.0)
        found = _across_zero(start, d, l1, m, count, factors, gains, products, sums)
        assert found == pytest.approx(x, abs=1e-13)


OTHERS = {
    "heavy ball": lw.heavy_ball(), "adam": lw.adam(), "point saga": lw.point_saga(),
    "finito": lw.finito(), "walkman": lw.walkman(), "averaged": lw.averaged(lw.sgd()),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_updates_without_a_kernel_say_so_and_are_those_on_dense_features(name: str) -> None:
    sparse = problem_of("logistic", 2, 0.1)
    dense = lw.Logistic(sparse.features.toarray(), sparse.targets, sparse.node, 0.1)
    given: dict[str, Any] = {"steps": 60, "step_size": 0.05, "seed": 6}
    with pytest.warns(lw.DataWarning, match="sparse features run in plain Python.*no kernel for"):
        found = lw.run(NETWORK, sparse, lw.mhlj(), update=OTHERS[name], **given)
    assert found.provenance["backend"] == "reference"
    judge = lw.run(NETWORK, dense, lw.mhlj(), update=OTHERS[name], backend="reference", **given)
    assert found.model == pytest.approx(judge.model, rel=1e-9, abs=1e-11)
    assert found.loss == pytest.approx(judge.loss, rel=1e-9)


def densely(problem: Any) -> Any:
    """Return the same problem on dense features."""
    a = (problem.features.toarray(), problem.targets)
    if isinstance(problem, lw.Huber):
        return lw.Huber(*a, problem.node, problem.ridge)
    return type(problem)(*a, problem.node, problem.ridge)


@pytest.mark.parametrize("kind", ["squares", "logistic", "huber"])
def test_the_newton_token_on_sparse_features_is_that_on_dense_ones(kind: str) -> None:
    sparse = problem_of(kind, 2, 0.1)
    with pytest.warns(lw.DataWarning, match="newton_token has no kernel for sparse features"):
        found = ran(sparse, lw.newton_token(), "auto", steps=80, replicas=1)
    judge = ran(densely(sparse), lw.newton_token(), "reference", steps=80, replicas=1)
    assert (found.walk == judge.walk).all()
    assert found.model == pytest.approx(judge.model, rel=1e-9, abs=1e-9)
    assert found.bytes[0, -1] > 8 * found.transfers[0, -1] * DIM  # its sums travel, and are dense
    assert (found.distance2[:, -1] < 0.1 * found.distance2[:, 0]).all()


def test_a_newton_token_of_many_features_is_refused_with_a_remedy() -> None:
    wide = sp.random_array((N, 600), density=0.01, rng=np.random.default_rng(1), format="csr")
    problem = lw.LeastSquares(wide, np.ones(N), ridge=0.1)
    with pytest.raises(lw.InvalidParameter, match=r"at most 512, got 600; use lw\.point_saga\(\)"):
        ran(problem, lw.newton_token(), "auto")
    with pytest.raises(lw.InvalidParameter, match="newton_token"):
        ran(several("softmax"), lw.newton_token(), "auto")


@pytest.mark.parametrize("update", [lw.sgd(minibatch=2), lw.saga()], ids=["sgd", "saga"])
def test_a_switching_walk_on_sparse_features_is_that_on_dense_ones(update: Any) -> None:
    sparse = problem_of("squares", 2, 0.1)
    how: dict[str, Any] = {"steps": 200, "replicas": 1}
    how["walk"] = lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.9, window=30, patience=60)
    with pytest.warns(lw.DataWarning, match="switching walks have no kernel"):
        found = ran(sparse, update, "auto", **how)
    judge = ran(densely(sparse), update, "reference", **how)
    assert (found.switched_at > 40).all()
    assert (found.switched_at == judge.switched_at).all()
    assert (found.walk == judge.walk).all()
    assert found.model == pytest.approx(judge.model, rel=1e-9, abs=1e-9)


def several(kind: str, samples: int = 2, ridge: float = 0.05, **more: Any) -> Any:
    """Return a problem with five outputs on sparse features."""
    rng = np.random.default_rng(samples)
    rows = N * samples
    a = np.where(rng.random((rows, DIM)) < 0.25, rng.normal(size=(rows, DIM)), 0.0)
    a[:, 1] += 0.2
    node = rng.permutation(np.arange(rows) % N)
    z = a @ rng.normal(size=(DIM, 5)) + rng.normal(size=(rows, 5))
    a = sp.csr_array(a)
    if kind == "softmax":
        return lw.Softmax(a, z.argmax(axis=1), node, ridge, classes=range(5), **more)
    return lw.LeastSquares(a, z, node, ridge, **more)


OUTPUT_CASES = [
    (kind, update, samples)
    for kind in ("softmax", "squares")
    for update in UPDATES
    for samples in (1, 4)
]
MORE_OUTPUTS = OUTPUT_CASES[::6]


@pytest.mark.more
@pytest.mark.parametrize("case", mostly_soak(OUTPUT_CASES, lambda case: case in MORE_OUTPUTS))
def test_several_outputs_are_those_of_the_reference(case: tuple[str, str, int]) -> None:
    kind, update, samples = case
    same(several(kind, samples), UPDATES[update])
    same(several(kind, samples, 0.01), UPDATES[update], step_size=lw.Decaying(0.1, timescale=99))


@pytest.mark.more
@pytest.mark.parametrize("update", mostly_soak(["sgd", "sag", "saga"], lambda one: one == "saga"))
def test_several_outputs_large_ridges_overflow_and_pieces(update: str) -> None:
    rule = UPDATES[update]
    with _Quiet():
        for ridge, gamma in ((3.0, 0.3), (10.0, 0.1), (30.0, 0.1)):
            same(several("softmax", 1, ridge), rule, step_size=gamma)
        found = same(several("squares", 1, 0.01), rule, step_size=20.0, steps=3000)
    assert (found.diverged_at > 0).all()
    problem = several("softmax", 4)
    whole, once = (
        ran(problem, rule, "kernel", steps=20_000, record_every=every) for every in (None, 20_000)
    )
    assert whole.model == pytest.approx(once.model, rel=1e-9)
    holders = several("softmax", 2, idle="pass")
    same(holders, rule, network=lw.watts_strogatz(N + 7, 4, 0.3, seed=2))


@pytest.mark.more
def test_several_outputs_find_the_minimiser_and_are_those_on_dense_features() -> None:
    sparse = several("softmax", 4, 0.1)
    dense = lw.Softmax(sparse.features.toarray(), sparse.targets, sparse.node, 0.1)
    given: dict[str, Any] = {"steps": 20_000, "step_size": 0.05, "update": lw.saga()}
    found, judge = (lw.run(NETWORK, one, lw.unif_rw(), **given) for one in (sparse, dense))
    assert found.provenance["backend"] == judge.provenance["backend"] == "kernel"
    assert found.model == pytest.approx(judge.model, abs=1e-9)
    assert found.model[0] == pytest.approx(dense.optimum, abs=1e-7)


def test_l1_with_several_outputs_says_that_it_runs_in_python() -> None:
    problem = several("softmax", 2, l1=0.05)
    with pytest.warns(lw.DataWarning, match="plain Python.*l1 has no kernel for losses with"):
        trace = lw.run(NETWORK, problem, lw.unif_rw(), steps=30, step_size=0.1)
    assert trace.provenance["backend"] == "reference"
