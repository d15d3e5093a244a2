"""With a shared key a fleet without faults is the reference backend, to the bit: walk, model,
errors, counts.
"""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.errors import DivergedWarning
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.trace import Trace
from levywalk.updates import Sgd
from levywalk.walks import Walk
from tests.limits import examples

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
)
ENDS = ("final_node", "model", "diverged_at", "switched_at", "target", "optimum")

DESIGNS = {
    "unif_rw": lw.unif_rw(),
    "weight_rw": lw.weight_rw(),
    "mhlj": lw.mhlj(),
    "far jumps": lw.mhlj(0.5, 0.2, 6),
    "mixed_rw": lw.mixed_rw(0.3),
    "simple_rw": lw.simple_rw(),
    "simple_rw, weighted": lw.simple_rw(reweight=True),
    "jumps that fade": lw.mhlj(schedule=lw.Decaying(0.5, 20.0)),
    "always a jump": lw.mhlj(1.0, 0.5, 3),
    "switching": lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.9, window=5, patience=3),
    "switching, own step": lw.switching(
        lw.weight_rw(), lw.mixed_rw(0.5), threshold=0.9, window=3, patience=2, step_size=0.001
    ),
}


@st.composite
def networks(draw: st.DrawFn) -> lw.Network:
    n = draw(st.integers(2, 9))
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, n)}
    extra = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    edges |= draw(st.sets(extra, max_size=6))
    return lw.Network.from_edges(
        sorted(edges), n=n, self_loops=draw(st.sampled_from(["none", "counted"]))
    )


def problem_of(kind: str, n: int, seed: int) -> lw.Problem:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((6 * n, 3)) * rng.uniform(0.2, 3.0, (6 * n, 1))
    node = np.concatenate([np.arange(n), rng.integers(0, n, 5 * n)])
    if kind == "logistic":
        return lw.Logistic(rows, rng.choice([-1.0, 1.0], 6 * n), node=node, ridge=0.1)
    return lw.LeastSquares(rows, rng.standard_normal(6 * n), node=node)


def both(
    network: lw.Network,
    problem: lw.Problem,
    design: Walk,
    terms: HandOffTerms | None = None,
    **how: object,
) -> tuple[Trace, Trace]:
    fleet = Fleet.of(network, problem, design, terms=terms, **how)
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        reference = lw.run(network, problem, design, backend="reference", record_walk=True, **how)
    return merge(virtual.logs, fleet), reference


def assert_same(found: Trace, expected: Trace) -> None:
    for name in (*ARRAYS, *ENDS):
        here, there = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        assert here.dtype == there.dtype, name
        assert np.array_equal(here, there, equal_nan=True), name


@examples(60)
@given(
    network=networks(),
    kind=st.sampled_from(["least squares", "logistic"]),
    minibatch=st.sampled_from([None, 2]),
    design=st.sampled_from(sorted(DESIGNS)),
    step_size=st.sampled_from(["theory", 0.003, lw.Decaying(0.01, 50.0)]),
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 120),
    every=st.integers(1, 40),
    start=st.sampled_from(["uniform", "target", 0]),
    renew_after=st.sampled_from([1, 3, 100]),
)
@example(lw.ring(5), "least squares", None, "mhlj", 50.0, 1, 120, 7, 0, 100)  # diverges
def test_a_fleet_without_faults_is_the_reference_backend_to_the_bit(
    network, kind, minibatch, design, step_size, seed, steps, every, start, renew_after
):
    found, expected = both(
        network,
        problem_of(kind, network.n, seed),
        DESIGNS[design],
        HandOffTerms(run=b"test", renew_after=renew_after),
        steps=steps,
        step_size=step_size,
        seed=seed,
        record_every=every,
        start=start,
        update=Sgd(minibatch),
    )
    assert_same(found, expected)
    assert found.provenance["fleet"]["lost_updates"] == 0


def test_the_examples_reach_what_they_should():
    problem, network = problem_of("least squares", 6, 0), lw.ring(6)
    found, _ = both(
        network, problem, DESIGNS["switching"], steps=120, step_size=0.003, record_every=10
    )
    assert 0 < found.switched_at[0] < 119
    found, _ = both(network, problem, lw.mhlj(), steps=120, step_size=50.0, record_every=10)
    assert found.diverged_at[0] >= 0


def test_a_problem_of_the_users_own_replays_too():
    class Quadratics:
        n, dim, smoothness, optimum = 6, 2, np.arange(1.0, 7.0), np.zeros(2)

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * (v + 1) * float(x @ x)

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return (v + 1.0) * x

    found, expected = both(
        lw.ring(6),
        Quadratics(),
        lw.mhlj(),
        steps=80,
        step_size="theory",
        record_every=10,
        x0=[1.0, -2.0],
    )
    assert_same(found, expected)


def test_the_same_analysis_and_plots():
    found, expected = both(
        lw.ring(30),
        lw.heterogeneous(30, important=1),
        lw.mhlj(),
        steps=500,
        step_size="theory",
        record_every=5,
    )
    assert found.summary() == expected.summary()
    assert found.steps_to(0.5) == expected.steps_to(0.5)
    assert len(lw.plot(found)) == len(lw.plot(expected))
    assert set(expected.provenance) - set(found.provenance) <= {"resumed_at", "seconds"}
    for name in (
        "network",
        "problem",
        "design",
        "step_size",
        "update",
        "largest_weighted_smoothness",
        "loss",
    ):
        assert found.provenance[name] == expected.provenance[name]


def test_a_trace_of_a_fleet_can_be_saved_and_loaded(tmp_path):
    found, _ = both(
        lw.ring(12), lw.homogeneous(12), lw.mhlj(), steps=50, step_size="theory", record_every=5
    )
    assert_same(lw.load_trace(found.save(tmp_path / "fleet.nc")), found)


def test_nodes_with_keys_of_their_own_walk_another_way():
    how = {"steps": 300, "step_size": "theory", "record_every": 10}
    shared = Fleet.of(lw.ring(12), lw.homogeneous(12), lw.mhlj(), **how)
    own = Fleet.of(lw.ring(12), lw.homogeneous(12), lw.mhlj(), shared_key=False, **how)
    walks = []
    for fleet in (shared, own):
        virtual = VirtualFleet(fleet)
        assert virtual.run()
        walks.append(merge(virtual.logs, fleet).walk)
    assert not np.array_equal(*walks)
