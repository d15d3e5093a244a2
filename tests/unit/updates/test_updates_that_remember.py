"""Updates that remember, each against a plain implementation that is written anew here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.draws import MINIBATCH, Domain, Key, split
from levywalk.league.scenes import problem_of
from tests.limits import examples, mostly_more

N, DIM = 20, 3
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=1)


def made(loss, samples, ridge):
    generator = np.random.default_rng(5)
    count = N * samples
    features = generator.normal(size=(count, DIM))
    node = np.arange(count) % N
    score = features @ [1.0, -2.0, 0.5] + generator.normal(size=count)
    if loss == "squares":
        return lw.LeastSquares(features, score, node=node, ridge=ridge)
    return lw.Logistic(features, (score > 0).astype(int), node=node, ridge=ridge)


CASES = {
    "squares": made("squares", 1, 0.0),
    "squares, samples, ridge": made("squares", 4, 0.1),
    "logistic, ridge": made("logistic", 1, 0.1),
    "logistic, samples, ridge": made("logistic", 4, 0.1),
}


def trace_of(problem, update, step_size, steps=300, backend="reference", walk=None):
    return lw.run(
        NETWORK,
        problem,
        walk or lw.mhlj(p_jump=0.3),
        steps=steps,
        step_size=step_size,
        update=update,
        backend=backend,
        record_walk=True,
        record_memory=True,
        seed=4,
    )


def gradient(problem, v, x, rows=None):
    """∇f_v by its definition, over all samples or some of them."""
    mine = np.flatnonzero(problem.node == v)
    mine = mine if rows is None else mine[rows]
    a, y = problem.features[mine], problem.targets[mine]
    z = a @ x
    slope = 2 * (z - y) if isinstance(problem, lw.LeastSquares) else 1 / (1 + np.exp(-z)) - y
    return a.T @ slope / len(mine) + problem.ridge * x


def batches(problem, v, t, size):
    """The minibatch of step t at node v."""
    count = problem.sample_count(v)
    key = Key.of(4, Domain.WALK)
    return (
        None
        if count <= size
        else [split(key.word(t, MINIBATCH + j), count)[0] for j in range(size)]
    )


cases = pytest.mark.parametrize("problem", CASES.values(), ids=list(CASES))


@cases
def test_sag_moves_along_the_mean_of_the_last_gradients(problem):
    gamma = 0.05
    trace = trace_of(problem, lw.sag(), gamma)
    x, table = np.zeros(DIM), np.zeros((N, DIM))
    for v in trace.walk[0]:
        table[v] = gradient(problem, v, x) - problem.ridge * x
        x = x - gamma * (table.mean(axis=0) + problem.ridge * x)
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-9)
    np.testing.assert_allclose(trace.memory["update.sum"][0], table.sum(axis=0), rtol=1e-9)


@cases
def test_saga_is_weighted_and_unbiased(problem):
    gamma, weights = 0.01, problem.smoothness.mean() / problem.smoothness
    trace = trace_of(problem, lw.saga(), gamma)
    x, table = np.zeros(DIM), np.zeros((N, DIM))
    for v in trace.walk[0]:
        fresh = gradient(problem, v, x) - problem.ridge * x
        mean = table.mean(axis=0) + problem.ridge * x
        x, table[v] = x - gamma * (weights[v] * (fresh - table[v]) + mean), fresh
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-9)


@pytest.mark.parametrize("update", [lw.sag, lw.saga], ids=["sag", "saga"])
def test_a_minibatch_renews_only_what_it_draws(update):
    problem, gamma = CASES["squares, samples, ridge"], 0.01
    trace = trace_of(problem, update(minibatch=2), gamma)
    weights = problem.smoothness.mean() / problem.smoothness
    x, slopes = np.zeros(DIM), np.zeros(problem.n_samples)
    order = [np.flatnonzero(problem.node == v) for v in range(N)]

    def mean():
        return sum((slopes[o] @ problem.features[o]) / len(o) for o in order) / N

    for t, v in enumerate(trace.walk[0]):
        rows = order[v][batches(problem, v, t, 2)]
        a, y = problem.features[rows], problem.targets[rows]
        fresh, before = 2 * (a @ x - y), mean()
        difference = a.T @ (fresh - slopes[rows]) / 2
        slopes[rows] = fresh
        ridge = problem.ridge * x
        if update is lw.sag:
            x = x - gamma * (mean() + ridge)
        else:
            x = x - gamma * (weights[v] * difference + before + ridge)
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-9)


@cases
def test_point_saga_takes_the_proximal_point(problem):
    from scipy.optimize import minimize

    gamma = 0.3
    trace = trace_of(problem, lw.point_saga(), gamma, steps=60)
    x, table = np.zeros(DIM), np.zeros((N, DIM))
    for v in trace.walk[0]:
        point = x + gamma * (table[v] - table.mean(axis=0))
        found = minimize(
            lambda u, v=v, point=point: (
                problem.local_loss(v, u) + (u - point) @ (u - point) / (2 * gamma)
            ),
            point,
            jac=lambda u, v=v, point=point: gradient(problem, v, u) + (u - point) / gamma,
            method="BFGS",
            options={"gtol": 1e-11},
        ).x
        x, table[v] = found, gradient(problem, v, found) - problem.ridge * found
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-5, atol=1e-7)


@cases
def test_the_newton_token_minimises_the_sum_of_quadratic_models(problem):
    trace = trace_of(problem, lw.newton_token(), "theory", steps=200)
    x, hessians, vectors, seen = np.zeros(DIM), np.zeros((N, DIM, DIM)), np.zeros((N, DIM)), set()
    last = np.zeros(len(problem.node))  # each sample's prediction at its last visit
    for v in trace.walk[0]:
        mine = np.flatnonzero(problem.node == v)
        a = problem.features[mine]
        z = a @ x
        bend = np.full(len(z), 2.0)
        if isinstance(problem, lw.Logistic):
            bend = np.exp(-z) / (1 + np.exp(-z)) ** 2
            for i, (now, then) in enumerate(zip(z, last[mine], strict=True)):
                if abs(now - then) > 1e-6 * (1 + abs(now)):
                    mean = (1 / (1 + np.exp(-now)) - 1 / (1 + np.exp(-then))) / (now - then)
                    bend[i] = mean if mean > 2 * bend[i] else bend[i]
        last[mine] = z
        hessians[v] = (a.T * bend) @ a / len(mine)
        vectors[v] = hessians[v] @ x - (gradient(problem, v, x) - problem.ridge * x)
        seen.add(v)
        matrix = hessians.sum(axis=0) + len(seen) * problem.ridge * np.eye(DIM)
        if np.linalg.matrix_rank(matrix) < DIM:
            matrix += 1e-6 * np.trace(matrix) / DIM * np.eye(DIM)
        x = np.linalg.solve(matrix, vectors.sum(axis=0))
    assert len(seen) == N
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-8)


def test_after_one_cover_the_newton_token_is_ordinary_least_squares():
    problem = CASES["squares"]
    trace = trace_of(problem, lw.newton_token(), "theory", steps=2 * N, walk=lw.depth_first_tour())
    solution = np.linalg.lstsq(problem.features, problem.targets, rcond=None)[0]
    np.testing.assert_allclose(trace.model[0], solution, rtol=1e-9)


@pytest.mark.more  # compiles a loop of its own
@pytest.mark.parametrize("seed", range(3000, 3006))
def test_the_newton_token_finds_the_optimum_of_logistic_losses(seed):
    """With curvatures as they are, all walks on the instance of seed 3000 stay above 1e-3."""
    n = 400
    problem = problem_of("logistic", n, seed)
    for walk in (lw.oldest_neighbour(), lw.depth_first_tour()):
        trace = lw.run(lw.erdos_renyi(n, 0.05, seed=1), problem, walk, update=lw.newton_token(),
                       steps=8 * n, step_size="theory", replicas=4)  # fmt: skip
        assert trace.error[:, -1].max() < 1e-6


def test_one_walk_of_the_newton_token_finds_the_optimum_of_logistic_losses():
    n = 100
    trace = lw.run(lw.erdos_renyi(n, 0.1, seed=1), problem_of("logistic", n, 3000),
                   lw.oldest_neighbour(), update=lw.newton_token(), steps=8 * n,
                   step_size="theory", backend="reference")  # fmt: skip
    assert trace.error[0, -1] < 1e-6


def test_the_newton_token_takes_the_curvature_of_least_squares_as_it_is():
    """Rounding of predictions that hardly move must not look like curvature."""
    problem = lw.LeastSquares(CASES["squares"].features, CASES["squares"].targets + 1e8)
    memory = trace_of(problem, lw.newton_token(), "theory", steps=20 * N).memory
    assert (memory["update.curvature"] == 2.0).all()


@cases
@pytest.mark.parametrize("form", mostly_more(["gradient", "prox"], lambda form: form == "gradient"))
def test_walkman_is_admm_with_one_active_node(problem, form):
    gamma = 0.1
    trace = trace_of(problem, lw.walkman(form), gamma, steps=60)
    x, y, z = np.zeros(DIM), np.zeros((N, DIM)), np.zeros((N, DIM))
    for v in trace.walk[0]:
        if form == "gradient":
            y_new = x + gamma * z[v] - gamma * gradient(problem, v, y[v])
        else:
            y_new = x + gamma * z[v]
            for _ in range(400):  # a slow but sure inner solve
                y_new = y_new - 0.02 * (
                    gradient(problem, v, y_new) + (y_new - x - gamma * z[v]) / gamma
                )
        z[v] = z[v] + (x - y_new) / gamma
        y[v] = y_new
        x = (y - gamma * z).mean(axis=0)
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-6, atol=1e-9)


@cases
def test_finito_moves_from_the_mean_of_the_points(problem):
    trace = trace_of(problem, lw.finito(), "theory", steps=12 * N)
    x, points, table, seen = np.zeros(DIM), np.zeros((N, DIM)), np.zeros((N, DIM)), set()
    alpha, limit, visits, last, steps = 1.0, np.inf, 0, None, []
    for v in trace.walk[0]:
        points[v], table[v] = x, gradient(problem, v, x)
        seen.add(v)
        some = sorted(seen)
        share = problem.smoothness[some] / problem.smoothness[some].sum()
        mean, slope = share @ points[some], table[some].sum(0) / problem.smoothness[some].sum()
        visits += 1
        size = np.linalg.norm(slope)
        if visits == N or (last and size > 2.0 * last[2]):
            if last and size >= last[2]:
                alpha = limit = max(1.0, alpha / 2)
            elif last:
                limit *= 1.1
                moved = mean - last[0]
                curvature = moved @ (slope - last[1])
                wanted = moved @ moved / curvature if curvature > 0 else np.inf
                alpha = max(1.0, min(wanted, 2.0 * alpha, limit))
            last, visits = (mean, slope, size), 0
            steps.append(alpha)
        x = mean - alpha * slope
    assert max(steps) > 1.0  # the step has been changed
    np.testing.assert_allclose(trace.model[0], x, rtol=1e-8)


def finito_on(network, walk, **options):
    problem = lw.heterogeneous(200, important=2, seed=3)  # two nodes of 100 times the variance
    trace = lw.run(network, problem, walk, steps=40 * 200, step_size="theory", update=lw.finito(),
                   **options)  # fmt: skip
    assert (trace.distance2[:, -1] < 1e-6 * trace.distance2[:, 0]).all()


@pytest.mark.more  # compiles a loop of its own
@pytest.mark.parametrize("network", [lw.ring(200), lw.erdos_renyi(200, 0.1, seed=1)], ids=repr)
@pytest.mark.parametrize("walk", [lw.oldest_neighbour(), lw.depth_first_tour()], ids=repr)
def test_finito_needs_no_step_size(network, walk):
    finito_on(network, walk, replicas=4)


@pytest.mark.more
def test_one_walk_of_finito_needs_no_step_size():
    finito_on(lw.erdos_renyi(200, 0.1, seed=1), lw.oldest_neighbour(), backend="reference")


def test_steps_of_finito_that_make_things_worse_are_given_up():
    from levywalk.updates.finito import next_step

    step, limit = 1.0, 0.0
    for now in (0.9, 0.8, 0.7, 5.0, 4.0, 3.0):  # the fourth lap makes things worse
        step, limit = next_step(step, limit, moved2=50.0, bent=1.0, now=now, last=1.0)
        if now == 0.7:
            assert step == 8.0
    assert step == limit == 1.0
    step, limit = next_step(step, limit, moved2=50.0, bent=1.0, now=0.5, last=1.0)
    assert step == limit == 1.1


def test_momentum_adam_and_averages_by_hand():
    problem, gamma = CASES["squares"], 0.02
    weights = problem.smoothness.mean() / problem.smoothness
    runs = {
        "heavy": trace_of(problem, lw.heavy_ball(0.8), gamma),
        "adam": trace_of(problem, lw.adam(), gamma),
        "mean": trace_of(problem, lw.averaged(lw.sgd()), gamma),
    }
    nodes = runs["heavy"].walk[0]
    x, u = np.zeros(DIM), np.zeros(DIM)
    y, m, s = np.zeros(DIM), np.zeros(DIM), np.zeros(DIM)
    raw, mean = np.zeros(DIM), np.zeros(DIM)
    for t, v in enumerate(nodes, start=1):
        u = 0.8 * u + weights[v] * gradient(problem, v, x)
        x = x - gamma * u
        g = weights[v] * gradient(problem, v, y)
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g**2
        y = y - gamma * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
        raw = raw - gamma * weights[v] * gradient(problem, v, raw)
        mean = mean + 4.0 / (t + 3.0) * (raw - mean)
    for name, expected in (("heavy", x), ("adam", y), ("mean", mean)):
        np.testing.assert_allclose(runs[name].model[0], expected, rtol=1e-9)


TABLES = [lw.sag(), lw.saga(), lw.saga(minibatch=2), lw.point_saga()]


@examples(20)
@given(
    steps=st.integers(1, 150),
    update=st.sampled_from(TABLES),
    case=st.sampled_from(["squares, samples, ridge", "logistic, samples, ridge"]),
)
def test_the_mean_that_travels_is_the_mean_of_what_is_stored(steps, update, case):
    trace = trace_of(CASES[case], update, 0.01, steps=steps)
    check_sum(CASES[case], trace, each=4)


@pytest.mark.more
@examples(40)
@given(steps=st.integers(1, 5_000), update=st.sampled_from([lw.saga(), lw.point_saga()]))
def test_the_compiled_mean_that_travels_is_the_mean_of_what_is_stored(steps, update):
    trace = trace_of(CASES["squares"], update, 0.01, steps=steps, backend="kernel")
    check_sum(CASES["squares"], trace, each=1)


def check_sum(problem, trace, each):
    stored = (trace.memory["update.slopes"][0] / each) @ problem.sorted_features
    np.testing.assert_allclose(trace.memory["update.sum"][0], stored, rtol=1e-9, atol=1e-12)


@pytest.mark.more
def test_saga_removes_the_floor_of_jumps():
    problem = CASES["squares"]
    walk = lw.mhlj(p_jump=0.5)
    floor = trace_of(problem, lw.sgd(), 0.01, steps=20_000, walk=walk, backend="auto")
    free = trace_of(problem, lw.saga(), 0.01, steps=20_000, walk=walk, backend="auto")
    assert floor.distance2[0, -1] > 1e-6 > 1e-12 > free.distance2[0, -1]


def test_a_model_that_is_not_linear_keeps_whole_gradients():
    class Quadratic:
        n, dim = N, 2
        smoothness = np.linspace(1.0, 2.0, N)
        optimum = np.zeros(2)

        def local_loss(self, v, x):
            return 0.5 * self.smoothness[v] * float(x @ x)

        def local_gradient(self, v, x):
            return self.smoothness[v] * x

    trace = lw.run(
        NETWORK, Quadratic(), lw.unif_rw(), steps=2000, step_size=0.05, x0=[1.0, -1.0],
        update=lw.saga(), record_memory=True,
    )  # fmt: skip
    assert trace.memory["update.gradient"].shape == (1, 2 * N)
    assert trace.distance2[0, -1] < 1e-12
    for update in (lw.point_saga(), lw.newton_token(), lw.finito(), lw.walkman("prox")):
        with pytest.raises(lw.InvalidParameter, match=update.name.split("(")[0]):
            lw.run(NETWORK, Quadratic(), lw.unif_rw(), steps=2, step_size=0.1, update=update)


def test_large_models_are_refused_where_a_matrix_would_travel():
    problem = lw.LeastSquares(np.ones((4, 600)), np.ones(4))
    with pytest.raises(lw.InvalidParameter, match="at most 512"):
        lw.run(lw.ring(4), problem, lw.mhda(), steps=2, step_size=1.0, update=lw.newton_token())


UPDATES = {
    "sag": lw.sag(),
    "sag, minibatch": lw.sag(minibatch=2),
    "saga": lw.saga(),
    "saga, minibatch": lw.saga(minibatch=2),
    "point_saga": lw.point_saga(),
    "newton_token": lw.newton_token(),
    "finito": lw.finito(),
    "walkman": lw.walkman(),
    "walkman, prox": lw.walkman("prox"),
    "heavy_ball": lw.heavy_ball(),
    "adam": lw.adam(minibatch=2),
    "averaged sgd": lw.averaged(lw.sgd()),
    "averaged saga": lw.averaged(lw.saga(minibatch=2)),
    "averaged adam": lw.averaged(lw.adam()),
}


# Every update with least squares, and two of them with every problem.
PAIRS = [(case, name) for case in CASES for name in UPDATES]


@pytest.mark.parametrize(
    "pair",
    mostly_more(
        PAIRS,
        lambda pair: pair == ("squares", "saga"),
        lambda pair: pair[0] != "squares" and pair[1] not in ("saga", "point_saga"),
    ),
    ids="-".join,
)
def test_the_compiled_update_is_the_plain_one(pair):
    problem, update = CASES[pair[0]], UPDATES[pair[1]]
    options = {"steps": 500, "step_size": "theory", "walk": lw.unif_rw()}
    plain = trace_of(problem, update, options["step_size"], 500, "reference", lw.unif_rw())
    fast = trace_of(problem, update, options["step_size"], 500, "kernel", lw.unif_rw())
    np.testing.assert_array_equal(fast.walk, plain.walk)
    np.testing.assert_allclose(fast.model, plain.model, rtol=1e-9)


@pytest.mark.more
def test_the_compiled_update_takes_a_users_loss():
    class PseudoHuber(lw.Loss):
        name = "pseudo_huber_of_a_test"
        curvature_max = 1.0

        def value(self, z, y):
            return np.sqrt(1.0 + (z - y) ** 2) - 1.0

        def slope(self, z, y):
            return (z - y) / np.sqrt(1.0 + (z - y) ** 2)

        def compiled(self):
            from numba import njit

            @njit
            def slope(z, y):
                return (z - y) / np.sqrt(1.0 + (z - y) ** 2)

            return slope

    base = CASES["squares, samples, ridge"]
    problem = lw.GeneralizedLinear(
        base.features, base.targets, PseudoHuber(), node=base.node, ridge=0.1
    )
    for name, update in UPDATES.items():
        plain = trace_of(problem, update, "theory", 300, "reference", lw.unif_rw())
        fast = trace_of(problem, update, "theory", 300, "kernel", lw.unif_rw())
        np.testing.assert_allclose(fast.model, plain.model, rtol=1e-8, err_msg=name)
