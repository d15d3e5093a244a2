"""Gossip against exact linear algebra: the matrix of each iteration, and its eigenvalues."""

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.gossip import METHODS, _prepared
from levywalk.engine.gossip_rules import metropolis_weights, second_eigenvalue, several_rounds

NETWORK = lw.watts_strogatz(8, 4, 0.3, seed=1)
PROBLEM = lw.homogeneous(8, dim=2, seed=3)


def test_weights_are_symmetric_and_keep_the_mean():
    for network in (NETWORK, lw.star(6), lw.ring(5, self_loops="counted")):
        weights = metropolis_weights(network).toarray()
        np.testing.assert_allclose(weights, weights.T)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert (weights >= 0).all()


@pytest.mark.parametrize("n", [8, 600])
def test_disagreement_shrinks_by_the_second_eigenvalue(n):
    network = lw.watts_strogatz(n, 4, 0.3, seed=1)
    weights = metropolis_weights(network)
    exact = np.sort(np.abs(np.linalg.eigvalsh(weights.toarray())))[-2]
    assert second_eigenvalue(weights) == pytest.approx(exact, rel=1e-6)
    x = np.random.default_rng(0).normal(size=(n, 1))
    x -= x.mean()
    for _ in range(2000):
        x = weights @ x
        x -= x.mean()  # rounding would bring it back
        x /= np.linalg.norm(x)
    rate = np.linalg.norm(weights @ x) / np.linalg.norm(x)
    assert rate == pytest.approx(exact, rel=1e-3)


def test_the_disagreement_of_gossip_follows_the_eigenvalues_of_its_weights():
    # f_v = (x - y_v)²: gossip multiplies each eigenvector of W by λ - 2γ, so disagreement nears its
    # limit as the second eigenvalue to the power of the iterations.
    network, gamma = lw.ring(9), 1e-3
    y = np.random.default_rng(3).normal(size=9)
    problem = lw.LeastSquares(np.ones((9, 1)), y)
    values, vectors = np.linalg.eigh(metropolis_weights(network).toarray())
    trace = lw.gossip(network, problem, "dsgd", iterations=60, step_size=gamma, record_every=1)
    parts = vectors.T @ y * 2 * gamma / (1 - values + 2 * gamma)
    for t in (1, 7, 30, 60):
        models = vectors @ (parts * (1 - (values - 2 * gamma) ** t))
        expected = np.abs(models - models.mean()).max()
        assert trace.provenance["disagreement"][t] == pytest.approx(expected, rel=1e-9)
    rest = vectors[:, :-1] @ parts[:-1]  # without the mean: the limit of all disagreement
    left = np.abs(rest).max() - np.array(trace.provenance["disagreement"])[[30, 60]]
    assert (left[1] / left[0]) ** (1 / 30) == pytest.approx(values[-2] - 2 * gamma, rel=1e-3)


def test_chebyshev_gossip_shrinks_faster_than_plain_gossip():
    network = lw.ring(30)
    problem = lw.homogeneous(30, dim=1, seed=1)
    made = _prepared("accelerated", network, problem, metropolis_weights(network), "theory")
    x = np.random.default_rng(0).normal(size=(30, 1))
    x -= x.mean()
    plain = x
    for _ in range(made.rounds):
        plain = made.weights @ plain
    fast = several_rounds(made, x)
    assert abs(fast.mean()) < 1e-12
    assert np.linalg.norm(fast) < 0.1 * np.linalg.norm(plain)


def iteration_matrix(method, gamma):
    """The linear part of an iteration on least squares, on the stacked state of all nodes."""
    n, dim = PROBLEM.n, PROBLEM.dim
    size = n * dim
    W = np.kron(metropolis_weights(NETWORK).toarray(), np.eye(dim))
    H = np.zeros((size, size))
    for v in range(n):
        a = PROBLEM.features[v]
        H[v * dim : (v + 1) * dim, v * dim : (v + 1) * dim] = 2 * np.outer(a, a)
    eye, zero = np.eye(size), np.zeros((size, size))
    if method == "dsgd":
        return W - gamma * H
    if method == "extra":
        return np.block([[eye + W - gamma * H, -(eye + W) / 2 + gamma * H], [eye, zero]])
    if method == "nids":
        half = (eye + W) / 2
        return np.block([[half @ (2 * eye - gamma * H), half @ (gamma * H - eye)], [eye, zero]])
    top = np.hstack([W, -gamma * W])
    return np.vstack([top, np.hstack([W @ H @ (W - eye), W - gamma * W @ H @ W])])


@pytest.mark.parametrize("method", ["dsgd", "extra", "nids", "tracking"])
def test_the_error_shrinks_by_the_spectral_radius_of_the_iteration(method):
    gamma = 0.5 / PROBLEM.smoothness.max()
    values = np.abs(np.linalg.eigvals(iteration_matrix(method, gamma)))
    radius = values[values < 1 - 1e-7].max()
    steps = [400, 800]
    trace = lw.gossip(
        NETWORK, PROBLEM, method, iterations=4000, step_size=gamma, record_every=[*steps, 4000]
    )
    limit = trace.model[0] if method == "dsgd" else PROBLEM.optimum
    errors = []
    for k in steps:
        found = lw.gossip(NETWORK, PROBLEM, method, iterations=k, step_size=gamma, record_every=k)
        errors.append(np.linalg.norm(found.model[0] - limit))
    rate = (errors[1] / errors[0]) ** (1 / (steps[1] - steps[0]))
    assert rate == pytest.approx(radius, rel=2e-3)


@pytest.mark.more
def test_the_exact_methods_reach_the_optimum_and_dsgd_does_not():
    ends = {}
    for method in METHODS:
        trace = lw.gossip(NETWORK, PROBLEM, method, iterations=6000)
        ends[method] = trace.distance2[0, -1] / trace.distance2[0, 0]
        rounds = trace.provenance["rounds"]
        assert trace.transfers[0, -1] == 6000 * 2 * NETWORK.n_edges * rounds
        vectors = 2 if method == "tracking" else 1
        assert (trace.bytes == trace.transfers * 8 * PROBLEM.dim * vectors).all()
        if method != "dsgd":
            assert trace.provenance["disagreement"][-1] < 1e-6
    assert ends["dsgd"] > 1e-6
    assert max(ends[method] for method in METHODS if method != "dsgd") < 1e-12


@pytest.mark.parametrize(("method", "times", "stable"), [
    ("extra", 1.9, False), ("nids", 1.9, True), ("nids", 2.1, False),
])  # fmt: skip
def test_mixing_after_the_step_allows_steps_up_to_two_over_l(method, times, stable):
    # Li, Shi, Yan 2019: below 2/L on every network. The path's Metropolis weights have an
    # eigenvalue near -1/3, for which EXTRA asks for less.
    network, problem = lw.path(9), lw.LeastSquares(np.ones((9, 1)), np.arange(9.0))
    size = times / problem.smoothness.max()
    if stable:
        trace = lw.gossip(network, problem, method, iterations=4000, step_size=size)
        assert trace.distance2[0, -1] < 1e-18 * trace.distance2[0, 0]
        assert trace.provenance["disagreement"][-1] < 1e-9
    else:
        with pytest.warns(lw.DivergedWarning):
            lw.gossip(network, problem, method, iterations=20_000, step_size=size)


def test_acceleration_needs_fewer_iterations():
    problem = lw.LeastSquares(
        np.diag([1.0, 0.15]).repeat(4, axis=0), np.arange(8.0)
    )  # an f that is badly conditioned

    def iterations(method):
        trace = lw.gossip(NETWORK, problem, method, iterations=3000, record_every=5)
        return trace.step[np.argmax(trace.distance2[0] < 1e-8 * trace.distance2[0, 0])]

    assert 0 < iterations("accelerated") < 0.5 * iterations("extra")


def test_many_samples_and_other_losses():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(32, 2))
    problem = lw.Logistic(
        features, (features[:, 0] > 0).astype(int), node=np.arange(32) % 8, ridge=0.1
    )
    trace = lw.gossip(NETWORK, problem, "extra", iterations=2000)
    assert trace.distance2[0, -1] < 1e-12


def test_wrong_arguments_are_named():
    with pytest.raises(lw.InvalidParameter, match="method"):
        lw.gossip(NETWORK, PROBLEM, "rumour", iterations=5)
    flat = lw.LeastSquares(np.ones((8, 2)), np.ones(8))
    with pytest.raises(lw.InvalidParameter, match="strongly convex"):
        lw.gossip(NETWORK, flat, "accelerated", iterations=5)
    with pytest.warns(lw.DivergedWarning, match="smaller step_size"):
        trace = lw.gossip(NETWORK, PROBLEM, "dsgd", iterations=4000, step_size=10.0)
    assert trace.diverged_at[0] > 0
    assert np.isinf(trace.distance2[0, -1])


def test_metrics_are_those_of_the_mean_model(tmp_path):
    rows = np.random.default_rng(4).normal(size=(9, 2))
    wanted = {"mse": lw.metrics.mean_squared_error(rows, rows[:, 0]), "first": lambda x: x[0]}
    given = {"iterations": 60, "step_size": 0.05, "record_every": 20}
    trace = lw.gossip(NETWORK, PROBLEM, "extra", metrics=wanted, **given)
    for k, step in enumerate(trace.step.tolist()[1:], 1):
        alone = lw.gossip(NETWORK, PROBLEM, "extra", iterations=step, step_size=0.05)
        x = alone.model[0]
        assert trace.metrics["first"][0, k] == x[0]
        assert trace.metrics["mse"][0, k] == pytest.approx(np.mean((rows @ x - rows[:, 0]) ** 2))
    assert trace.metric_step.tolist() == [0, 20, 40, 60]
    assert trace.final_metrics()["first"] == trace.model[0, 0]
    again = lw.load_trace(trace.save(tmp_path / "gossip.h5"))
    assert np.array_equal(again.metrics["mse"], trace.metrics["mse"])
    last = lw.gossip(NETWORK, PROBLEM, "extra", metrics=wanted, measure_metrics=1, **given)
    assert np.isnan(last.metrics["mse"][0]).tolist() == [True, True, True, False]
    assert last.metric_step.tolist() == [60]


def test_a_metric_that_fails_ends_the_gossip_and_leaves_what_was_done():
    calls = []

    def fragile(x):
        calls.append(x)
        if len(calls) > 3:  # one of them is the trial before the first iteration
            raise OSError("no")
        return 1.0

    given = {"iterations": 30, "record_every": 10}
    with pytest.raises(lw.CallbackError, match="metric 'own' raised OSError at step 20") as failed:
        lw.gossip(NETWORK, PROBLEM, metrics={"own": fragile}, **given)
    partial = failed.value.partial
    assert partial.step.tolist() == [0, 10, 20]
    assert partial.provenance["interrupted"]
    assert partial.metrics["own"][0].tolist()[:2] == [1.0, 1.0]
    with pytest.raises(lw.InvalidParameter, match="metrics must not be called 'loss'"):
        lw.gossip(NETWORK, PROBLEM, metrics={"loss": fragile}, **given)


def test_a_model_of_named_arrays_is_measured_under_its_names():
    class Bowls:
        n, smoothness, model_arrays = 8, np.ones(8), {"a": (2,), "b": ()}

        def local_loss(self, v, x):
            return 0.5 * float((x["a"] ** 2).sum() + (x["b"] - v) ** 2)

        def local_gradient(self, v, x):
            return {"a": x["a"], "b": x["b"] - v}

    trace = lw.gossip(
        NETWORK, Bowls(), "extra", iterations=400, metrics={"b": lambda x: float(x["b"])}
    )
    assert trace.metrics["b"][0, -1] == pytest.approx(3.5)


@pytest.mark.parametrize("method", METHODS)
def test_models_of_float32_are_rounded_when_they_are_sent(method):
    single = PROBLEM.astype("float32")
    one, other = (lw.gossip(NETWORK, p, method, iterations=200) for p in (single, PROBLEM))
    assert (2 * one.bytes == other.bytes).all()
    assert one.model == pytest.approx(other.model, rel=1e-4)
    assert (one.model != other.model).any()
    if method == "dsgd":  # the oracle: two lines of numpy
        weights, size = metropolis_weights(NETWORK).toarray(), 0.5 / PROBLEM.smoothness.max()
        x = np.zeros((8, PROBLEM.dim))
        for _ in range(200):
            slopes = 2 * (np.sum(PROBLEM.features * x, axis=1) - PROBLEM.targets)
            x = weights @ x.astype(np.float32) - size * slopes[:, None] * PROBLEM.features
        assert one.model[0] == pytest.approx(x.mean(axis=0), rel=1e-6)
