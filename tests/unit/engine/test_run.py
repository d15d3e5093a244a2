"""`run` keeps its contracts: shapes, sums, starts, checkpoints, reproducibility, and honest
refusals.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import levywalk as lw
from levywalk import room
from levywalk.engine import checkpoints_of
from levywalk.engine.kernels.loop_backend import LoopBlock
from levywalk.engine.standings import Standings

NETWORK = lw.watts_strogatz(20, 4, 0.3, seed=1)
PROBLEM = lw.heterogeneous(20, dim=3, important=2)
ARRAYS = (
    "step",
    "distance2",
    "excess_loss",
    "loss",
    "hops",
    "transfers",
    "bytes",
    "visits",
    "walk",
    "final_node",
    "model",
    "diverged_at",
    "switched_at",
)


def go(design=None, network=NETWORK, problem=PROBLEM, **options):
    arguments = {"steps": 100, "step_size": "theory", "record_walk": True, **options}
    return lw.run(network, problem, lw.mhlj() if design is None else design, **arguments)


def same_bits(a, b, rows=slice(None)):
    for name in ARRAYS:
        left, right = getattr(a, name), getattr(b, name)
        assert np.array_equal(left, right if name == "step" else right[rows]), name


class Bowls:
    """f_v = ½(x - v)²: a problem of one's own, with its optimum or without."""

    n, dim, smoothness = 20, 1, np.ones(20)

    def local_loss(self, v, x):
        return 0.5 * float((x[0] - v) ** 2)

    def local_gradient(self, v, x):
        return x - v


class SolvedBowls(Bowls):
    optimum = np.array([9.5])


def test_arrays_have_the_shapes_and_types_of_the_contract():
    trace = go(replicas=3, record_every=30)
    assert trace.step.tolist() == [0, 30, 60, 90, 100]
    for name in ("distance2", "excess_loss", "loss", "hops", "transfers", "bytes"):
        assert getattr(trace, name).shape == (3, 5)
    assert trace.visits.shape == (3, 20)
    assert trace.walk.shape == (3, 100)
    assert trace.model.shape == (3, 3)
    assert trace.final_node.shape == trace.diverged_at.shape == trace.switched_at.shape == (3,)
    assert trace.visits.dtype == trace.hops.dtype == trace.bytes.dtype == np.int64
    assert (trace.diverged_at == -1).all()
    assert (trace.switched_at == -1).all()


def test_visits_count_the_walk_and_sum_to_the_steps():
    trace = go(replicas=4)
    assert (trace.visits.sum(axis=1) == 100).all()
    assert trace.visits.tolist() == [
        np.bincount(walk, minlength=20).tolist() for walk in trace.walk
    ]


def test_the_walk_follows_edges_from_the_start_to_the_final_node():
    trace = go(lw.weight_rw(), replicas=4, start=[0, 3, 5, 5])
    assert trace.walk[:, 0].tolist() == [0, 3, 5, 5]
    graph = NETWORK.to_networkx()
    for walk, last in zip(trace.walk.tolist(), trace.final_node.tolist(), strict=True):
        assert all(
            a == b or graph.has_edge(a, b) for a, b in zip(walk, [*walk[1:], last], strict=True)
        )


def test_without_jumps_hops_count_decisions_and_transfers_count_moves():
    trace = go(lw.weight_rw(), replicas=2, record_every=1)
    ends = np.column_stack([trace.walk, trace.final_node])
    moved = np.cumsum(np.diff(ends, axis=1) != 0, axis=1)
    assert trace.hops.tolist() == [list(range(101))] * 2
    assert trace.transfers[:, 1:].tolist() == moved.tolist()
    assert (trace.transfers[:, 0] == 0).all()


@pytest.mark.parametrize(("policy", "least"), [("none", 3), ("counted", 0)])
def test_a_jump_of_distance_d_is_d_hops_and_a_counted_loop_is_no_transfer(policy, least):
    design = lw.Design(jump=lw.JumpLaw(1.0, lw.FixedDistance(3)))
    trace = go(design, lw.ring(20, self_loops=policy), record_every=1)
    assert trace.hops[0].tolist() == [3 * t for t in range(101)]
    per_step = np.diff(trace.transfers[0])
    assert per_step.min() >= least
    assert per_step.max() <= 3
    assert policy == "none" or per_step.min() < 3


def test_bytes_are_eight_per_number_of_the_token():
    plain = go()
    assert (plain.bytes == plain.transfers * 8 * 3).all()
    switching = go(lw.switching(lw.mhlj(), lw.unif_rw()))
    assert (
        switching.bytes == switching.transfers * (8 * 3 + 8 * (3 + 3))
    ).all()  # the average and three numbers


@pytest.mark.parametrize(
    ("steps", "every", "expected"),
    [
        (10, 1, list(range(11))),
        (10, 3, [0, 3, 6, 9, 10]),
        (10, 10, [0, 10]),
        (10, 99, [0, 10]),
        (1, None, [0, 1]),
        (3, None, [0, 1, 2, 3]),
    ],
)
def test_zero_and_the_last_step_are_always_checkpoints(steps, every, expected):
    assert checkpoints_of(steps, every).tolist() == expected


@pytest.mark.parametrize("steps", [201, 1000, 123_457, 10**9])
def test_by_default_half_of_the_checkpoints_are_even_and_half_grow_by_a_factor(steps):
    points = checkpoints_of(steps, None)
    assert (points[0], points[-1]) == (0, steps)
    assert 130 < len(points) <= 201
    gaps = np.diff(points)
    assert gaps.max() <= steps / 100 + 1  # late differences …
    assert (gaps <= np.maximum(1, points[:-1] * (steps**0.01 - 1) + 2)).all()  # … and early ones
    assert set(np.round(np.linspace(0, steps, 101)).astype(int)) <= set(points.tolist())


@pytest.mark.parametrize("steps", [1, 7, 200])
def test_a_short_run_is_measured_at_every_step(steps):
    assert checkpoints_of(steps, None).tolist() == list(range(steps + 1))


@pytest.mark.parametrize(
    "design",
    [lw.mhlj(), lw.iid_weighted(), lw.switching(lw.mhlj(), lw.unif_rw(), window=5, patience=2)],
)
@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_replica_i_has_the_same_bits_alone_and_among_many_on_any_number_of_threads(design, backend):
    many = go(design, replicas=8, threads=1, backend=backend)
    for replicas, threads in [(1, 1), (3, 2), (8, 5), (8, 1000)]:
        same_bits(
            go(design, replicas=replicas, threads=threads, backend=backend),
            many,
            slice(0, replicas),
        )


@pytest.mark.more
def test_a_logistic_problem_has_the_same_bits_for_any_replicas_and_threads():
    rng = np.random.default_rng(0)
    problem = lw.Logistic(
        rng.normal(size=(60, 33)), rng.integers(0, 2, 60), np.repeat(np.arange(20), 3), ridge=0.1
    )
    many = go(problem=problem, replicas=5, threads=1, update=lw.Sgd(2))
    same_bits(go(problem=problem, replicas=2, threads=2, update=lw.Sgd(2)), many, slice(0, 2))


def test_seeds_and_replicas_make_different_walks():
    a, b = go(lw.simple_rw(), replicas=4, seed=0), go(lw.simple_rw(), replicas=4, seed=1)
    walks = [tuple(walk) for walk in [*a.walk.tolist(), *b.walk.tolist()]]
    assert len(set(walks)) == 8
    same_bits(a, go(lw.simple_rw(), replicas=4, seed=0))


def test_recording_less_changes_nothing_else():
    full, lean = go(replicas=2), go(replicas=2, record_walk=False, record_visits=False)
    assert lean.walk is None
    assert lean.visits is None
    assert np.array_equal(full.model, lean.model)
    assert np.array_equal(full.final_node, lean.final_node)


@pytest.mark.parametrize("start", ["uniform", "target", "stationary"])
def test_starts_are_drawn_from_the_law_that_is_named(start):
    network, problem, design = (
        lw.star(5),
        lw.heterogeneous(5, dim=2, sigma2_high=5.0, important=1),
        lw.mhlj(p_jump=0.5),
    )
    law = {
        "uniform": np.full(5, 0.2),
        "target": problem.smoothness / problem.smoothness.sum(),
        "stationary": lw.stationary(lw.transition(network, problem, design)),
    }
    nodes = go(design, network, problem, steps=1, replicas=4000, start=start).walk[:, 0]
    counts = np.bincount(nodes, minlength=5)

    def fits(expected):  # each count is binomial; five of them, two tails
        binomial = stats.binom(4000, expected)
        return bool(((binomial.ppf(1e-9) <= counts) & (counts <= binomial.isf(1e-9))).all())

    assert fits(law[start])
    assert not any(fits(other) for name, other in law.items() if name != start)


def test_without_jumps_the_stationary_start_is_the_targets():
    a, b = (go(lw.weight_rw(), replicas=50, start=start) for start in ("target", "stationary"))
    assert np.array_equal(a.walk, b.walk)


def test_the_first_model_is_zero_or_what_is_given():
    def first(x0):
        return go(replicas=2, x0=x0).distance2[:, 0]

    optimum = PROBLEM.optimum
    assert first(None) == pytest.approx(optimum @ optimum)
    assert first([1.0, 2.0, 3.0]) == pytest.approx(((optimum - [1, 2, 3]) ** 2).sum())
    rows = np.array([[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]])
    assert first(rows) == pytest.approx(((optimum - rows) ** 2).sum(axis=1))
    assert np.array_equal(rows, [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]])


def test_the_first_model_of_several_outputs_may_be_a_matrix():
    rng = np.random.default_rng(0)
    problem = lw.Softmax(
        rng.normal(size=(40, 4)), np.arange(40) % 3, node=np.arange(40) % 20, ridge=0.1
    )
    matrix = rng.normal(size=(4, 3))

    def model(x0, **options):
        return go(lw.unif_rw(), problem=problem, backend="reference", x0=x0, **options).model

    assert np.array_equal(model(matrix), model(matrix.ravel()))
    pair = np.stack([matrix, -matrix])
    assert np.array_equal(model(pair, replicas=2), model(pair.reshape(2, 12), replicas=2))
    with pytest.raises(lw.InvalidParameter, match=r"\(12,\) or \(1, 12\) or \(4, 3\)"):
        model(matrix.T)


@pytest.mark.parametrize(
    "design", [lw.unif_rw(), lw.weight_rw(), lw.mixed_rw(0.5), lw.simple_rw(), lw.simple_rw(True)]
)
def test_theorys_step_size_is_one_over_the_largest_weighted_smoothness(design):
    L, degree = PROBLEM.smoothness, NETWORK.degree
    weights = {
        "UnifRW": np.ones(20),
        "WeightRW": L.mean() / L,
        "MixedRW(0.5)": L.mean() / (0.5 * L.mean() + 0.5 * L),
        "SimpleRW": np.ones(20),
        "SimpleRW (reweighted)": degree.mean() / degree,
    }[design.name]
    size = 1.0 / (weights * L).max()
    assert go(design).model == pytest.approx(go(design, step_size=size).model, rel=1e-12)
    assert go(design).provenance["largest_weighted_smoothness"] == pytest.approx(1 / size)


@pytest.mark.parametrize(
    "size", [0.004, lw.Decaying(0.004, timescale=20), lw.Dropping(0.004, at=50, then=0.0)]
)
@pytest.mark.parametrize("design", [lw.mhlj(), lw.iid_weighted(), lw.simple_rw()])
def test_the_model_can_be_recomputed_from_the_walk(design, size):
    trace = go(design, replicas=2, step_size=size, x0=[1.0, -1.0, 2.0], record_every=1)
    law = (
        NETWORK.degree / NETWORK.degree.sum()
        if design.name == "SimpleRW"
        else PROBLEM.smoothness / PROBLEM.smoothness.sum()
    )
    weight = np.ones(20) if design.name == "SimpleRW" else 1.0 / (20 * law)
    sizes = size.values(0, 100) if hasattr(size, "values") else np.full(100, size)
    for r in range(2):
        x = np.array([1.0, -1.0, 2.0])
        for t, v in enumerate(trace.walk[r]):
            assert trace.distance2[r, t] == pytest.approx(
                ((x - PROBLEM.optimum) ** 2).sum(), rel=1e-9
            )
            a, y = PROBLEM.features[v], PROBLEM.targets[v]
            x = x - sizes[t] * weight[v] * 2.0 * (a @ x - y) * a
        assert trace.model[r] == pytest.approx(x, rel=1e-9)
        assert trace.loss[r, -1] == pytest.approx(PROBLEM.loss(x), rel=1e-9)
        assert trace.excess_loss[r, -1] == pytest.approx(
            PROBLEM.loss(x) - PROBLEM.loss(PROBLEM.optimum), rel=1e-7
        )


@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_a_diverging_run_is_reported_and_holds_no_nan(backend):
    design = lw.unif_rw()
    size = 60.0 / design.bind(NETWORK, PROBLEM).largest
    with pytest.warns(lw.DivergedWarning, match=r"3 of 3 replicas diverged.*smaller step_size"):
        trace = go(
            design, steps=3000, step_size=size, replicas=3, backend=backend, record_every=100
        )
    assert (trace.diverged_at > 0).all()
    assert (trace.visits.sum(axis=1) == 3000).all()
    assert np.array_equal(trace.walk, go(design, steps=3000, replicas=3).walk)
    for values in (trace.distance2, trace.excess_loss, trace.loss):
        assert not np.isnan(values).any()
        after = trace.step[None] > trace.diverged_at[:, None]
        assert np.isposinf(values[after]).all()
    assert np.isfinite(trace.model).all()
    assert trace.steps_to(0.5) == np.inf
    assert trace.summary()["diverged"] == 3
    assert trace.summary()["distance2"] == np.inf


@pytest.mark.parametrize("design", [lw.mhda(), lw.switching(lw.weight_rw(), lw.unif_rw())])
@pytest.mark.parametrize("step_size", [0.1, 3.0])
def test_the_plain_loop_walks_through_all_marks_as_from_mark_to_mark(design, step_size):
    # One call for many marks, since entering the loop takes as long as thousands of updates; with
    # the large step size some models overflow between two marks.
    entered, traces = [], []
    options = {"steps": 300, "step_size": step_size, "replicas": 3, "backend": "kernel"}
    for by_marks in (False, True):
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", lw.DivergedWarning)
            original = LoopBlock.through

            def through(block, start, marks, by_marks=by_marks, original=original):
                entered.append(by_marks)
                if not by_marks:
                    return original(block, start, marks)
                ends = marks.tolist()
                seen = [
                    original(block, one, np.array([other]))
                    for one, other in zip([start, *ends], ends, strict=False)
                ]
                return Standings(
                    *(np.concatenate(arrays, axis=1) for arrays in zip(*seen, strict=True))
                )

            patch.setattr(LoopBlock, "through", through)
            traces.append(go(design, record_every=7, **options))
    same_bits(*traces)
    assert entered.count(False) < 10 < len(traces[0].step)
    assert ((traces[0].diverged_at >= 0).any()) == (step_size == 3.0)


def test_one_diverged_replica_leaves_the_others_alone():
    x0 = np.zeros((2, 3))
    x0[0] = 1e308
    with pytest.warns(lw.DivergedWarning, match="1 of 2"):
        trace = go(replicas=2, x0=x0, step_size=0.9)
    alone = go(replicas=2, step_size=0.9, x0=np.zeros(3)) if trace.diverged_at[1] < 0 else None
    assert trace.diverged_at[0] >= 0
    assert alone is not None
    assert np.array_equal(alone.model[1], trace.model[1])


def test_a_model_that_rests_after_a_gradient_broke_has_an_infinite_error_all_the_same():
    class Broken(SolvedBowls):
        def local_gradient(self, v, x):
            return np.full(1, np.inf) if v == 3 else x - v

    with pytest.warns(lw.DivergedWarning):
        trace = go(lw.iid_uniform(), problem=Broken(), steps=400, step_size=0.1, record_every=1)
    at = int(trace.diverged_at[0])
    assert trace.walk[0, at] == 3
    assert 3 not in trace.walk[0, :at]
    assert np.isfinite(trace.model).all()
    for values in (trace.distance2[0], trace.excess_loss[0], trace.loss[0]):
        assert np.isfinite(values[: at + 1]).all()
        assert np.isposinf(values[at + 1 :]).all()


def test_a_problem_of_ones_own_runs_on_the_reference_with_its_optimum():
    trace = go(lw.unif_rw(), problem=SolvedBowls(), step_size=0.1)
    assert trace.provenance["backend"] == "reference"
    x = 0.0
    for v in trace.walk[0]:
        x -= 0.1 * (x - v)
    assert trace.model[0, 0] == pytest.approx(x, rel=1e-12)
    assert trace.distance2[0, -1] == pytest.approx((x - 9.5) ** 2)
    assert trace.loss[0, -1] == pytest.approx(np.mean([0.5 * (x - v) ** 2 for v in range(20)]))


def test_a_problem_without_optimum_says_so_and_still_has_a_loss():
    with pytest.warns(lw.DataWarning, match="no optimum"):
        trace = go(lw.unif_rw(), problem=Bowls(), step_size=0.1, replicas=2)
    assert np.isnan(trace.distance2).all()
    assert np.isnan(trace.excess_loss).all()
    assert np.isfinite(trace.loss).all()
    assert trace.optimum is None
    assert trace.summary()["distance2_interval"] is None
    with pytest.raises(lw.InvalidParameter, match="optimum"):
        trace.steps_to(0.1)


def test_sizes_that_do_not_fit_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(room, "LARGEST_ARRAY", 50_000)
    for options, match in [
        ({"replicas": 400, "record_every": 100}, "visits of shape 400 x 20.*record_visits=False"),
        ({"steps": 20_000, "record_every": 20_000}, "walk of shape 1 x 20000.*record_walk=False"),
        ({"replicas": 11, "record_every": 1, "record_walk": False}, "checkpoints.*record_every"),
    ]:
        with pytest.raises(lw.TooLarge, match=match):
            go(**options)
    with pytest.raises(lw.TooLarge, match=r"4.8 GiB.*ask for less"):
        room.require_room("visits", (64, 10_000_000), 8, "ask for less")
    room.require_room("visits", (2, 10), 8, "ask for less")


@pytest.mark.parametrize("options", [{"steps": 10**13, "record_every": 1}, {"replicas": 10**12}])
def test_impossible_sizes_are_refused_before_anything_is_allocated(options):
    with pytest.raises(lw.TooLarge):
        go(**options)


class Values:
    """A schedule that gives whatever it is told to."""

    def __init__(self, give):
        self.values = give


BAD = {
    "steps": [0, -1, 1.5, "many", True, 2**70, None],
    "replicas": [0, -3, 2.0, None],
    "seed": [-1, 0.5, None, "x"],
    "step_size": [
        0,
        -0.1,
        float("nan"),
        float("inf"),
        "theorem",
        None,
        True,
        np.array([0.1, 0.2]),
        {"a": 0.1},
        Values(lambda a, b: np.full(b - a, np.nan)),
        Values(lambda a, b: np.full(b - a + 1, 0.1)),
        Values(lambda a, b: np.full(b - a, -0.1)),
        Values(lambda a, b: "text"),
    ],
    "record_every": [0, -5, 2.5, "x", [], [-1, 5], [5, 101], [0.5, 2.0], [[1, 2]], ["a"]],
    "start": ["somewhere", -1, 20, 1.5, [0, 1], [[0]], None, True, [[1], [2, 3]]],
    "x0": [[0.0], "zero", [np.nan, 0, 0], [np.inf, 0, 0], np.zeros((2, 3)), np.zeros((1, 3, 1))],
    "threads": [0, -1, 1.5],
    "backend": ["gpu", None, 3],
    "update": ["no such update", 5],
}


@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_listed_checkpoints_are_those_of_a_run_that_measures_always(backend):
    always = go(replicas=3, record_every=1, backend=backend)
    listed = go(replicas=3, record_every=[7, 3, 50, 3], backend=backend)
    assert listed.step.tolist() == [0, 3, 7, 50, 100]
    for name in ("distance2", "excess_loss", "loss", "hops", "transfers"):
        assert np.array_equal(getattr(listed, name), getattr(always, name)[:, listed.step]), name


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_argument_is_named(name, value):
    with pytest.raises(lw.LevywalkError, match=name) as caught:
        go(**{name: value})
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("design", "network", "problem", "match"),
    [
        ("mhlj", NETWORK, PROBLEM, "design must be a Walk"),
        (lw.mhlj(), "ring", PROBLEM, "network must be a levywalk Network"),
        (lw.mhlj(), lw.ring(19), PROBLEM, "19 nodes but problem has 20"),
        (lw.mhlj(), NETWORK, "data", "problem .* lacks n, dim"),
        (
            lw.mhlj(),
            lw.Network.from_edges([(2 * i, 2 * i + 1) for i in range(10)]),
            PROBLEM,
            r"largest_component\(\)",
        ),
        (lw.Design(target=[1.0, 2.0]), NETWORK, PROBLEM, "2 scores but the network has 20 nodes"),
    ],
)
def test_what_cannot_be_bound_is_refused(design, network, problem, match):
    with pytest.raises(lw.LevywalkError, match=match):
        go(design, network, problem)


def test_kernels_and_minibatches_are_refused_for_a_problem_of_ones_own():
    with pytest.raises(lw.InvalidParameter, match="backend must be 'reference'"):
        go(problem=SolvedBowls(), backend="kernel")
    with pytest.raises(lw.InvalidParameter, match="minibatch must be None"):
        go(problem=SolvedBowls(), update=lw.Sgd(2))


def test_a_problem_without_a_minimiser_says_so():
    problem = lw.Logistic(
        np.linspace(-1, 1, 20)[:, None], (np.linspace(-1, 1, 20) > 0).astype(float)
    )
    with pytest.raises(lw.NoMinimiser):
        go(problem=problem)


def test_replicas_lie_apart_in_memory() -> None:
    """Side by side, two threads would write into one cache line."""
    import numpy as np

    from levywalk.engine.prepare import prepare
    from levywalk.engine.run_state import RunState

    network, problem = lw.ring(10), lw.homogeneous(10, dim=3)
    keys = np.zeros((4, 2), np.uint64)
    options = {
        "record_every": None,
        "record_walk": False,
        "record_visits": True,
        "threads": None,
        "backend": "auto",
    }
    job = prepare(
        network,
        problem,
        lw.mhlj(),
        steps=5,
        step_size=0.1,
        keys=keys,
        start_keys=keys,
        start=0,
        x0=None,
        update=None,
        **options,
    )
    assert RunState.new(job.run_plan, job.start, job.x0).model.flags.c_contiguous
    assert job.threads == 1  # twenty updates are not worth a second thread


@pytest.mark.parametrize("share", [0.5, 4.0])  # of 1/L* of the second phase
def test_the_second_phase_takes_the_first_ones_step_size_up_to_its_own_limit(share):
    network, problem = lw.ring(12), lw.heterogeneous(12, dim=3, important=1)
    limit = 1.0 / lw.unif_rw().bind(network, problem).largest
    options = {"steps": 200, "step_size": share * limit, "replicas": 4, "record_every": 10}
    detector = {"threshold": 0.9, "window": 3, "patience": 2}
    auto = lw.run(network, problem, lw.switching(lw.mhlj(), lw.unif_rw(), **detector), **options)
    second = min(share, 1.0) * limit
    given = lw.run(
        network,
        problem,
        lw.switching(lw.mhlj(), lw.unif_rw(), step_size=second, **detector),
        **options,
    )
    assert (auto.switched_at >= 0).all()
    assert np.array_equal(auto.model, given.model)
    assert np.array_equal(auto.distance2, given.distance2)
