"""What a checkpoint measures: distances always exact, losses exact where cheap, else on a labelled
sample of nodes.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.kernels.measure import distances2, quadratic_excess
from levywalk.engine.measure import loss_nodes

RNG = np.random.default_rng(0)
N = 600
FEATURES = RNG.normal(size=(N, 4))
LABELS = (RNG.random(N) < 0.5).astype(float)
LOGISTIC = lw.Logistic(FEATURES, LABELS, ridge=0.05)
UNEVEN = lw.Logistic(
    FEATURES, LABELS, ridge=0.05, node=np.append(np.arange(300), RNG.integers(0, 300, N - 300))
)
SQUARES = lw.LeastSquares(FEATURES, LABELS, ridge=0.05)


def go(problem=LOGISTIC, **options):
    # All backends measure with the same code, and this one needs no kernel for each problem.
    arguments = {"steps": 2000, "step_size": 0.05, "replicas": 3, "backend": "reference", **options}
    return lw.run(lw.ring(problem.n), problem, lw.unif_rw(), **arguments)


def nodes_of(problem, seed=0, measure_loss="auto", steps=2000, checkpoints=201, update=None):
    return loss_nodes(measure_loss, problem, update or lw.Sgd(), steps, checkpoints, seed)


@pytest.mark.parametrize(
    "problem", [LOGISTIC, UNEVEN, SQUARES], ids=["logistic", "uneven", "squares"]
)
@pytest.mark.parametrize("loss", ["exact", 40])
def test_the_measured_loss_is_the_mean_over_the_nodes_that_it_names(problem, loss):
    trace = go(problem, measure_loss=loss, steps=300)
    nodes = range(problem.n) if loss == "exact" else nodes_of(problem, measure_loss=loss)
    for x, value, excess in zip(
        trace.model, trace.loss[:, -1], trace.excess_loss[:, -1], strict=True
    ):
        mean, least = (
            np.mean([problem.local_loss(v, y) for v in nodes]) for y in (x, problem.optimum)
        )
        assert value == pytest.approx(mean, rel=1e-11)
        assert excess == pytest.approx(mean - least, rel=1e-7, abs=1e-11)


def test_distances_do_not_depend_on_how_the_loss_is_measured():
    sampled, exact = go(measure_loss=10), go(measure_loss="exact")
    assert np.array_equal(sampled.distance2, exact.distance2)
    assert np.array_equal(sampled.model, exact.model)
    assert not np.array_equal(sampled.loss, exact.loss)


def far_off(problem, nodes, models):
    """Whether the mean over the nodes leaves Bernstein's interval, which holds for sampling without
    replacement too.
    """
    k, alarm = len(nodes), np.log(2 * len(models) / 1e-9)
    wrong = False
    for x in models:
        local = np.array([problem.local_loss(v, x) for v in range(problem.n)])
        width = np.sqrt(2 * local.var() * alarm / k) + 2 * np.abs(
            local - local.mean()
        ).max() * alarm / (3 * k)
        wrong |= abs(local[nodes].mean() - local.mean()) > width
    return bool(wrong)


@pytest.mark.more
def test_the_sampled_loss_is_near_the_exact_one_and_a_sample_of_the_first_nodes_is_not():
    rng, n = np.random.default_rng(1), 6000
    scale = np.where(np.arange(n) < n // 2, 0.05, 3.0)[:, None]
    problem = lw.Logistic(scale * rng.normal(size=(n, 4)), rng.random(n) < 0.5, ridge=0.05)
    models = rng.normal(size=(4, 4))
    assert not far_off(problem, nodes_of(problem, measure_loss=n // 2), models)
    assert far_off(problem, np.arange(n // 2), models)


def test_the_sample_is_uniform_over_seeds():
    seeds, k = 400, 60
    times = np.bincount(
        np.concatenate([nodes_of(LOGISTIC, seed, k) for seed in range(seeds)]), minlength=N
    )
    expected = seeds * k / N
    # A binomial count of mean 40: beyond 7 standard deviations once in 10^9 for any of the nodes.
    assert np.abs(times - expected).max() < 7 * np.sqrt(expected)
    assert times.sum() == seeds * k


@pytest.mark.more
def test_the_sample_belongs_to_the_seed_and_not_to_replicas_or_backend():
    one, many = go(replicas=1), go(replicas=4, threads=2)
    assert one.sampled_loss == "16 of 600 nodes"
    assert np.array_equal(one.loss[0], many.loss[0])
    assert not np.array_equal(nodes_of(LOGISTIC, 0), nodes_of(LOGISTIC, 1))
    kernel, reference = (
        go(replicas=1, steps=150, backend=name) for name in ("kernel", "reference")
    )
    assert np.allclose(kernel.loss, reference.loss, rtol=1e-9)


def own(dim=4, n=N):
    class Quartic(lw.Loss):
        name, curvature_max = "quartic", 3.0

        def value(self, z, y):
            return np.log(np.cosh(z - y))

        def slope(self, z, y):
            return np.tanh(z - y)

    return lw.GeneralizedLinear(RNG.normal(size=(n, dim)), RNG.normal(size=n), Quartic(), ridge=0.1)


@pytest.mark.parametrize(
    ("problem", "steps", "update", "count"),
    [
        (LOGISTIC, 1, None, 16),  # never fewer
        (LOGISTIC, 400_000, None, 203),  # 199 updates of 6 + 4 + 4/4, at 10 + 4 · 0.17 each
        (LOGISTIC, 2_000_000, None, None),  # all 600 are a tenth of the walk: exact
        (UNEVEN, 400_000, None, 148),  # two samples a node: 6 + 2 · 5, at 2 · 10.68
        (SQUARES, 1, None, None),  # with the Hessian, which costs less than 16 nodes
    ],
)
def test_the_rule_counts_what_losses_and_updates_cost(problem, steps, update, count):
    nodes = nodes_of(problem, steps=steps, update=update)
    assert (None if nodes is None else len(nodes)) == count


def test_a_hessian_of_many_dimensions_is_used_only_for_long_walks():
    problem = lw.LeastSquares(RNG.normal(size=(N, 400)), LABELS, ridge=0.05)
    assert len(nodes_of(problem, steps=100_000)) < N
    assert nodes_of(problem, steps=10**6) is None


def test_small_minibatches_buy_fewer_nodes():
    heavy = lw.Logistic(
        np.tile(FEATURES, (10, 1)), np.tile(LABELS, 10), ridge=0.1, node=np.tile(np.arange(N), 10)
    )
    everything = len(nodes_of(heavy, steps=600_000))
    assert len(nodes_of(heavy, steps=600_000, update=lw.Sgd(minibatch=5))) < 0.6 * everything
    assert len(nodes_of(heavy, steps=600_000, update=lw.Sgd(minibatch=50))) == everything


@pytest.mark.parametrize("measure_loss", ["exact", 40])
def test_a_loss_of_ones_own_is_measured_as_it_is_defined(measure_loss):
    problem = own()
    trace = go(problem, measure_loss=measure_loss, steps=50, backend="reference")
    nodes = range(N) if measure_loss == "exact" else nodes_of(problem, measure_loss=measure_loss)
    for x, value in zip(trace.model, trace.loss[:, -1], strict=True):
        mean = np.mean([problem.local_loss(v, x) for v in nodes])
        assert value == pytest.approx(mean, rel=1e-11)
    alone = go(problem, measure_loss=measure_loss, steps=50, backend="reference", replicas=1)
    assert np.array_equal(alone.loss[0], trace.loss[0])


def test_a_few_nodes_are_always_measured_exactly():
    problem = lw.Logistic(FEATURES[:64], LABELS[:64], ridge=0.1)
    assert go(problem, steps=5).provenance["loss"] == {"kind": "exact", "nodes": 64, "of": 64}
    assert go(problem, steps=5, measure_loss=64).provenance["loss"]["kind"] == "exact"


@pytest.mark.more
def test_a_sampled_loss_is_labelled_everywhere(tmp_path):
    trace = go(measure_loss=30)
    assert trace.provenance["loss"] == {"kind": "sampled", "nodes": 30, "of": 600}
    assert trace.summary()["loss_measured"] == "sampled: 30 of 600 nodes"
    again = lw.load_trace(trace.save(tmp_path / "trace.nc"))
    assert again.sampled_loss == "30 of 600 nodes"
    for y in ("loss", "excess_loss"):
        label = lw.plot(again, x="steps", y=y).get_ylabel()
        assert label.startswith("sampled f(x)")
        assert "30 of 600 nodes" in label
    assert "sampled" not in lw.plot(again, x="steps", y="distance2").get_ylabel()
    exact = go(measure_loss="exact")
    assert exact.summary()["loss_measured"] == "exact"
    assert "sampled" not in lw.plot(exact, x="steps", y="loss").get_ylabel()


def test_problems_of_ones_own_are_sampled_too():
    class Bowls:
        n, dim, smoothness = 500, 1, np.ones(500)
        optimum = np.array([249.5])

        def local_loss(self, v, x):
            return 0.5 * float((x[0] - v) ** 2)

        def local_gradient(self, v, x):
            return x - v

    problem = Bowls()
    trace = go(problem, steps=20, replicas=1)
    nodes = nodes_of(problem, steps=20, checkpoints=21)
    assert trace.sampled_loss == "16 of 500 nodes"
    assert trace.loss[0, 0] == pytest.approx(np.mean([0.5 * v * v for v in nodes]))


@pytest.mark.parametrize("bad", ["sampled", 0, -3, 2.5, True, None])
def test_a_bad_loss_is_named(bad):
    with pytest.raises(lw.InvalidParameter, match="loss must be"):
        go(measure_loss=bad, steps=5)


def test_far_out_errors_are_infinite_not_unknown():
    x0 = np.full((2, 4), 1e200)
    x0[0] = 0.0
    for problem in (SQUARES, LOGISTIC):
        trace = lw.run(
            lw.ring(N),
            problem,
            lw.unif_rw(),
            steps=1,
            step_size=1e-12,
            replicas=2,
            x0=x0,
            measure_loss="exact",
            backend="reference",
        )
        for values in (trace.distance2, trace.excess_loss, trace.loss):
            assert np.isfinite(values[0]).all()
            assert not np.isnan(values[1]).any()
        assert np.isinf(trace.distance2[1]).all()


@pytest.mark.parametrize("dim", [3, 10, 17])
def test_errors_have_the_same_bits_wherever_the_arrays_lie(dim):
    # A compiler that may reorder sums chooses the order by the distances between the arrays: such
    # code gave three different results in dimension 10.
    rng = np.random.default_rng(dim)
    values, optimum = rng.normal(size=(1, 4, dim)), rng.normal(size=dim)
    root = rng.normal(size=(dim, dim))
    given = {"models": values, "optimum": optimum, "hessian": root @ root.T}
    given |= {"errors": np.zeros((1, 3, 4))}
    active, found = np.ones((1, 4), np.bool_), set()
    for _ in range(500):
        room, at, placed = np.empty(sum(a.size for a in given.values()) + 30), 0, {}
        for name in rng.permutation(list(given)):
            at += int(rng.integers(0, 6))
            array = given[name]
            placed[name] = room[at : at + array.size].reshape(array.shape)
            placed[name][...] = array
            at += array.size
        quadratic_excess(active=active, least=1.5, column=0, **placed)
        found.add(placed["errors"].tobytes())
    assert len(found) == 1
    distance, excess, loss = placed["errors"][0]
    gaps = values[0] - optimum
    np.testing.assert_allclose(distance, np.square(gaps).sum(axis=1), rtol=1e-13)
    exact = 0.5 * np.einsum("mi,ij,mj->m", gaps, given["hessian"], gaps)
    np.testing.assert_allclose(excess, exact, rtol=1e-12)
    np.testing.assert_allclose(loss, exact + 1.5, rtol=1e-12)
    alone = np.zeros((1, 3, 4))
    distances2(values, active, optimum, alone, 0)
    assert alone[0, 0].tobytes() == distance.tobytes()


def test_the_errors_of_more_features_than_a_hessian_may_have(monkeypatch):
    """Whose matrix of dim x dim numbers would take more memory than machines have."""
    features = np.random.default_rng(1).normal(size=(6, 30))
    problem = lw.LeastSquares(features, np.arange(6.0), ridge=0.1)
    given = {"steps": 20, "step_size": 0.001, "backend": "reference"}
    expected = lw.run(lw.ring(6), problem, lw.unif_rw(), **given).excess_loss
    monkeypatch.setattr("levywalk.engine.loss_cost._WIDEST", 29)
    wide = lw.LeastSquares(features, np.arange(6.0), ridge=0.1)
    found = lw.run(lw.ring(6), wide, lw.unif_rw(), **given).excess_loss
    assert "hessian" not in vars(wide)
    assert found == pytest.approx(expected)
