"""Every compiled kernel is the oracle: the same walks exactly, the same models to 1e-9 relative."""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from tests.limits import examples, quick, soak

STEPS = 60
DIMS = (3, 61)  # a record of one line; of more lines than are unrolled
EXACT = (
    "step",
    "visits",
    "walk",
    "hops",
    "transfers",
    "bytes",
    "final_node",
    "switched_at",
    "diverged_at",
)


@st.composite
def networks(draw):
    policy = draw(st.sampled_from(["none", "counted"]))
    kind = draw(st.sampled_from(["tree", "star", "complete", "path", "ring", "tree"]))
    n = draw(st.integers(3, 9))
    if kind != "tree":
        return getattr(lw, kind)(n, self_loops=policy)
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, n)}
    extra = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    edges |= draw(st.sets(extra, max_size=5))
    return lw.Network.from_edges(sorted(edges), n=n, self_loops=policy)


@st.composite
def problems(draw, n):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.sampled_from([5] if quick() else DIMS))  # five: compiled for other tests as well
    one, squares = draw(st.booleans()), draw(st.booleans())
    if not quick() and not soak():
        dim = DIMS[one]  # half of the kernels
    if quick():
        # two of four kernels: each takes five seconds to compile, for each number of walkers
        squares = one
    counts = np.ones(n, int) if one else rng.integers(1, 6, size=n)
    node = rng.permutation(np.repeat(np.arange(n), counts))
    features = rng.normal(size=(len(node), dim)) * rng.lognormal(0, 1, size=n)[node, None]
    if squares:
        targets = rng.normal(size=len(node))
        ridges = [0.0] if quick() else [0.0, 0.1, 2.0]
        return lw.LeastSquares(features, targets, node, ridge=draw(st.sampled_from(ridges)))
    labels = rng.integers(0, 2, size=len(node))
    labels[:2] = 0, 1
    return lw.Logistic(features, labels, node, ridge=draw(st.sampled_from([0.1, 2.0])))


PROBABILITIES = st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0)
SCHEDULES = st.sampled_from(
    [lw.Decaying(0.8, timescale=7), lw.Dropping(0.9, at=20, then=0.2), lw.Constant(0.3)]
)
DISTANCES = st.sampled_from(
    [
        lw.TruncatedGeometric(0.5, 3),
        lw.TruncatedGeometric(1.0, 4),
        lw.FixedDistance(1),
        lw.FixedDistance(4),
        lw.PowerLaw(1.5, 9),
        lw.PowerLaw(0.0, 2),
    ]
)


@st.composite
def walks(draw, n):
    """A design that walks: the paper's, or a free composition."""
    scores = st.lists(st.floats(0.01, 100.0), min_size=n, max_size=n)
    target = draw(
        st.sampled_from(["uniform", "importance", "degree"])
        | st.builds(lw.Mixed, PROBABILITIES)
        | st.builds(lw.Scores, scores)
    )
    jump = draw(st.none() | st.builds(lw.JumpLaw, PROBABILITIES | SCHEDULES, DISTANCES))
    free = lw.Design(target=target, jump=jump, reweight=draw(st.booleans()))
    named = [
        lw.simple_rw(),
        lw.simple_rw(reweight=True),
        lw.unif_rw(),
        lw.weight_rw(),
        lw.mixed_rw(0.3),
        lw.mhlj(),
        lw.mhlj(schedule=lw.Decaying(0.5, 10)),
    ]
    return draw(st.sampled_from([*named, free, free, free, free]))


@st.composite
def designs(draw, n):
    kind = draw(st.sampled_from(["walk", "walk", "iid", "switching"]))
    if kind == "walk":
        return draw(walks(n))
    if kind == "iid":
        scores = lw.Scores(draw(st.lists(st.floats(0.01, 100.0), min_size=n, max_size=n)))
        return draw(
            st.sampled_from(
                [lw.iid_uniform(), lw.iid_weighted(), lw.Design(target=scores, moves="iid")]
            )
        )
    second = draw(st.sampled_from(["auto", "theory", 0.001]))
    return lw.switching(
        draw(walks(n)),
        draw(walks(n)),
        threshold=draw(st.floats(0.1, 0.9)),
        window=draw(st.sampled_from(["auto", 1.0, 2.0, 5.0, 20.0])),
        patience=draw(st.just("auto") | st.integers(1, 5)),
        step_size=second,
    )


@st.composite
def runs(draw):
    network = draw(networks())
    problem = draw(problems(network.n))
    design = draw(designs(network.n))
    replicas = draw(
        st.sampled_from([1, 3, 8, 11])
    )  # alone, one by one, a group, a group and some more
    first = design.first if isinstance(design, lw.Switching) else design
    stable = 0.2 / first.bind(network, problem).largest
    size = draw(
        st.sampled_from(
            [stable, lw.Decaying(stable, 15), lw.Dropping(stable, at=31, then=stable / 3)]
        )
    )
    node = st.integers(0, network.n - 1)
    arguments = {
        "steps": STEPS,
        "step_size": size,
        "replicas": replicas,
        "seed": draw(st.integers(0, 2**64)),
        "record_walk": True,
        "record_every": draw(st.sampled_from([None, 1, 7, 25, 1000])),
        "start": draw(
            st.sampled_from(["uniform", "target", "stationary"])
            | node
            | st.lists(node, min_size=replicas, max_size=replicas)
        ),
        "x0": draw(
            st.sampled_from(
                [None, np.linspace(-1, 1, problem.dim), np.ones((replicas, problem.dim))]
            )
        ),
        "update": lw.Sgd(draw(st.none() | st.integers(1, 4))),
        "threads": draw(st.sampled_from([1, 2])),
    }
    return network, problem, design, arguments


def both(network, problem, design, arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)  # a minimiser of smallest norm serves here
        warnings.simplefilter("ignore", lw.DivergedWarning)
        return tuple(
            lw.run(network, problem, design, backend=name, **arguments)
            for name in ("kernel", "reference")
        )


def nearest_tie(network, problem, design, trace, size, x0):
    """The least relative distance of the detector to its threshold, before the reference's switch;
    by plain numpy.
    """
    bound, detector = (
        design.first.bind(network, problem),
        design.detector.bind(problem.dim, problem.smoothness.mean()),
    )
    sizes, least = size.values(0, STEPS) if hasattr(size, "values") else [size] * STEPS, np.inf
    for r in range(trace.replicas):
        x = (
            np.zeros(problem.dim)
            if x0 is None
            else np.broadcast_to(x0, trace.model.shape)[r].copy()
        )
        m, s, c = np.zeros(problem.dim), 0.0, 0.0
        for t in range(STEPS):
            g = bound.weights[trace.walk[r, t]] * problem.local_gradient(int(trace.walk[r, t]), x)
            x -= sizes[t] * g
            beta = 1.0 - min(1.0, detector.steady + detector.rate * sizes[t])
            m, s, c = (
                beta * m + (1 - beta) * g,
                beta * s + (1 - beta) * (g @ g),
                beta * c + (1 - beta),
            )
            least = min(
                least,
                abs(m @ m - detector.threshold * s * c) / max(detector.threshold * s * c, 1e-300),
            )
            if t == trace.switched_at[r]:
                break
    return least


def assert_twins(kernel, reference, problem):
    for name in EXACT:
        assert np.array_equal(getattr(kernel, name), getattr(reference, name)), name
    size = max(1.0, float(np.abs(reference.model).max()))
    assert np.abs(kernel.model - reference.model).max() <= 1e-9 * size
    for name in ("distance2", "excess_loss", "loss"):
        a, b = getattr(kernel, name), getattr(reference, name)
        scale = max(1.0, float(np.abs(reference.loss).max()), size**2)
        assert np.allclose(a, b, rtol=1e-8, atol=1e-9 * scale), name
    # the measures, recomputed from the final model
    final = reference.model[:, None, :] - reference.optimum
    assert np.allclose(
        reference.distance2[:, -1], (final[:, 0] ** 2).sum(axis=1), rtol=1e-9, atol=1e-12
    )
    assert np.allclose(
        reference.loss[:, -1], [problem.loss(x) for x in reference.model], rtol=1e-9, atol=1e-12
    )


@pytest.mark.more  # tests/unit/engine/test_run.py and those below have some kernels, each compiled
@examples(100, derandomize=True)
@given(case=runs())
def test_kernel_and_reference_make_the_same_walk_and_the_same_models(case):
    network, problem, design, arguments = case
    kernel, reference = both(network, problem, design, arguments)
    if not np.array_equal(kernel.switched_at, reference.switched_at):
        # Only rounding at a near-tie of the detector may separate them; a minibatch cannot be
        # recomputed from the walk.
        assert isinstance(design, lw.Switching)
        if arguments["update"].minibatch is None:
            size, x0 = arguments["step_size"], arguments["x0"]
            assert nearest_tie(network, problem, design, reference, size, x0) < 1e-9
        return
    assert_twins(kernel, reference, problem)


@st.composite
def runs_with_idle_nodes(draw):
    """A network of which some nodes have no data."""
    network = draw(networks())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    held = draw(st.integers(2, network.n))
    holders = np.sort(rng.choice(network.n, held, replace=False))
    node = np.concatenate([holders, rng.choice(holders, draw(st.integers(0, 4)))])
    features = rng.normal(size=(len(node), 5)) * rng.lognormal(0, 1, size=network.n)[node, None]
    ridge, logistic = draw(st.sampled_from([0.1, 1.0])), draw(st.booleans())
    if logistic:
        labels = rng.integers(0, 2, size=len(node))
        problem = lw.Logistic(features, labels, node, ridge, idle="pass")
    else:
        targets = rng.normal(size=len(node))
        problem = lw.LeastSquares(features, targets, node, ridge, idle="pass")
    design = draw(designs(network.n))
    first = design.first if isinstance(design, lw.Switching) else design
    arguments = {
        "steps": STEPS,
        "step_size": 0.2 / first.bind(network, problem).largest,
        "replicas": draw(st.sampled_from([1, 3])),
        "seed": draw(st.integers(0, 2**64)),
        "record_walk": True,
        "record_every": draw(st.sampled_from([None, 7])),
        "start": draw(
            st.sampled_from(["uniform", "target", "stationary"]) | st.sampled_from(holders.tolist())
        ),
        "update": lw.Sgd(draw(st.none() | st.integers(1, 2))),
    }
    return network, problem, design, arguments, holders


@pytest.mark.more  # tests/unit/engine/test_idle_nodes.py has the kernel against a walk by hand
@examples(100, derandomize=True)
@given(case=runs_with_idle_nodes())
def test_kernel_and_reference_agree_on_networks_with_idle_nodes(case):
    network, problem, design, arguments, holders = case
    kernel, reference = both(network, problem, design, arguments)
    if np.array_equal(kernel.switched_at, reference.switched_at):  # no near-tie of the detector
        assert_twins(kernel, reference, problem)
    for trace in (kernel, reference):
        assert np.isin(trace.walk, holders).all()
        assert np.isin(trace.final_node, holders).all()
        assert (trace.visits.sum(axis=1) == STEPS).all()


@pytest.mark.more
@pytest.mark.parametrize("update", ["sag", "saga", "point_saga", "finito", "newton_token"])
def test_methods_that_remember_agree_on_networks_with_idle_nodes(update):
    rng = np.random.default_rng(1)
    network, node = lw.grid(3, 4), np.array([0, 2, 2, 3, 5, 7, 7, 11])
    problem = lw.LeastSquares(
        rng.normal(size=(8, 5)), rng.normal(size=8), node, ridge=0.1, idle="pass"
    )
    arguments = {
        "steps": 120,
        "step_size": "theory",
        "replicas": 3,
        "record_walk": True,
        "update": update,
    }
    for design in (lw.mhlj(), lw.mhda(), lw.oldest_neighbour()):
        kernel, reference = both(network, problem, design, arguments)
        assert_twins(kernel, reference, problem)


@pytest.mark.parametrize(
    "every", [1, 200]
)  # in one piece, what is constant is not read again after the switch
@pytest.mark.parametrize("size", [0.02, lw.Decaying(0.02, 50)])
def test_switching_is_reached_by_both_backends_and_not_only_skipped(every, size):
    network, problem = lw.complete(6), lw.homogeneous(6, dim=3)
    design = lw.switching(
        lw.mhlj(0.5), lw.weight_rw(), threshold=0.6, window=3, patience=2, step_size=0.01
    )
    arguments = {
        "steps": 200,
        "step_size": size,
        "replicas": 6,
        "record_walk": True,
        "record_every": every,
    }
    kernel, reference = both(network, problem, design, arguments)
    assert (reference.switched_at >= 0).all()
    assert len(set(reference.switched_at.tolist())) > 1
    assert_twins(kernel, reference, problem)


@pytest.mark.parametrize("every", [1, 13, None])
def test_kernel_walks_do_not_depend_on_where_pieces_end(every, monkeypatch):
    network, problem = lw.star(6), lw.homogeneous(6, dim=3)
    design = lw.switching(
        lw.mhlj(schedule=lw.Decaying(0.9, 9)), lw.unif_rw(), threshold=0.5, window=4, patience=3
    )
    arguments = {
        "steps": 300,
        "step_size": lw.Decaying(0.01, 50),
        "replicas": 3,
        "record_walk": True,
    }
    whole = lw.run(network, problem, design, record_every=300, **arguments)
    monkeypatch.setattr(import_module("levywalk.engine.drive"), "_PIECE", 7)
    pieces = lw.run(network, problem, design, record_every=every, **arguments)
    for name in ("walk", "final_node", "switched_at", "visits", "model"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name)), name


@pytest.mark.more
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("many", [False, True])
def test_backends_agree_on_divergence(dim, many):
    # The oracle forms the gradient before it is scaled, the kernel scales first: overflow may come
    # some steps apart.
    rng = np.random.default_rng(dim)
    node = np.repeat(np.arange(8), 1 + many)
    problem = lw.LeastSquares(
        rng.normal(size=(len(node), dim)), rng.normal(size=len(node)), node, ridge=0.5
    )
    network, design = lw.ring(8), lw.mhlj()
    size = 4.0 / design.bind(network, problem).largest
    arguments = {
        "steps": 6000,
        "step_size": size,
        "replicas": 2,
        "record_walk": True,
        "record_every": 1500,
    }
    kernel, reference = both(network, problem, design, arguments)
    assert (reference.diverged_at >= 0).all()
    assert (
        np.abs(kernel.diverged_at - reference.diverged_at).max()
        <= 0.02 * reference.diverged_at.min() + 2
    )
    for name in ("walk", "visits", "hops", "transfers", "final_node"):
        assert np.array_equal(getattr(kernel, name), getattr(reference, name)), name
    for trace in (kernel, reference):
        assert np.isfinite(trace.model).all()
        assert np.isposinf(trace.distance2[:, -1]).all()
        assert (trace.visits.sum(axis=1) == 6000).all()
