"""Walkers side by side: the same numbers however many there are, and exact where 32 bits do not
settle a decision.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, Domain, Key, unit
from levywalk.engine.kernels import tables
from levywalk.engine.kernels.walkers import FAR, MIDDLE
from tests.limits import mostly_more, mostly_soak, quick

QUICK = ("one sample",)  # each case takes ten seconds to compile
EXACT = ("walk", "visits", "hops", "transfers", "final_node", "model", "distance2", "diverged_at")


def many_samples(n, dim, rng):
    node = np.repeat(np.arange(n), rng.integers(1, 5, n))
    return rng.normal(size=(len(node), dim)), rng.normal(size=len(node)), node


def problems():
    rng = np.random.default_rng(0)
    features, targets, node = many_samples(12, 5, rng)
    # Each length of a record is compiled on its own: these are those of other tests.
    short = many_samples(12, 3, rng)
    return {
        "one sample": lw.LeastSquares(rng.normal(size=(12, 10)), rng.normal(size=12)),
        "one sample, ridge": lw.LeastSquares(
            rng.normal(size=(12, 3)), rng.normal(size=12), ridge=0.3
        ),
        "logistic": lw.Logistic(rng.normal(size=(12, 3)), [0, 1] * 6, ridge=0.1),
        "many samples": lw.LeastSquares(*short),
        "many samples, logistic": lw.Logistic(features, (targets > 0).astype(int), node, ridge=0.1),
        "long records": lw.LeastSquares(rng.normal(size=(12, 90)), rng.normal(size=12), ridge=0.1),
        "records too long for groups": lw.LeastSquares(
            rng.normal(size=(12, 300)), rng.normal(size=12), ridge=0.1
        ),
    }


@pytest.mark.parametrize(
    "case",
    mostly_more(
        [*((name, None) for name in problems()), ("many samples", 2)],
        lambda case: case[0] in QUICK,
        lambda case: case[0] not in ("many samples", "logistic"),
    ),
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def test_a_replica_has_the_same_bits_in_a_group_and_alone(case):
    problem, update = problems()[case[0]], lw.Sgd(case[1])
    arguments = {
        "steps": 150,
        "step_size": "theory",
        "record_walk": True,
        "update": update,
        "record_every": 40,
    }

    def run(replicas, threads=1):
        return lw.run(
            lw.ring(12), problem, lw.mhlj(), replicas=replicas, threads=threads, **arguments
        )

    whole = run(19)
    for part in (run(1), run(5), run(8), run(16), run(19, threads=2)):
        for field in EXACT:
            assert np.array_equal(getattr(part, field), getattr(whole, field)[: part.replicas]), (
                field
            )


@pytest.mark.parametrize("replicas", [1, 8])
def test_a_decision_that_32_bits_do_not_settle_is_made_by_the_ratios(replicas):
    # On two nodes the word's upper 53 bits are the acceptance uniform U; scores (1, U ± a little)
    # are a close call.
    network, problem = lw.path(2), lw.homogeneous(2, dim=1)
    decided = set()
    for replica in range(replicas):
        word = Key.of(0, Domain.WALK, replica).word(0, HOP)
        for shift in (-(2.0**-36), -(2.0**-52), 0.0, 2.0**-52, 2.0**-36):
            score = unit(word) * (1.0 + shift)
            design = lw.Design(target=lw.Scores([1.0, score]))
            arguments = {"steps": 1, "step_size": 0.01, "replicas": replicas, "start": 0}
            kernel, reference = (
                lw.run(network, problem, design, backend=name, **arguments)
                for name in ("kernel", "reference")
            )
            assert np.array_equal(kernel.final_node, reference.final_node), (replica, shift)
            assert reference.final_node[replica] == int(unit(word) < score)
            decided.add((shift, int(reference.final_node[replica])))
    assert {(-(2.0**-36), 0), (0.0, 0), (2.0**-36, 1)} <= decided


@pytest.mark.more
@pytest.mark.parametrize(
    "design",
    mostly_soak(
        [lw.mhlj(), lw.iid_weighted(), lw.unif_rw()],
        lambda design: design.name != "i.i.d. weighted",
    ),
    ids=lambda design: design.name,
)
def test_tables_beyond_the_cache_give_the_same_walks(design):
    network, problem = lw.watts_strogatz(20_000, 4, 0.1), lw.heterogeneous(20_000)
    _, reach = tables.pack(network, design.bind(network, problem), problem, None)
    assert reach == FAR
    arguments = {
        "steps": 40,
        "step_size": "theory",
        "replicas": 8 if quick() else 9,
        "record_walk": True,
    }
    kernel, reference = (
        lw.run(network, problem, design, backend=name, **arguments)
        for name in ("kernel", "reference")
    )
    for field in ("walk", "hops", "transfers", "final_node"):
        assert np.array_equal(getattr(kernel, field), getattr(reference, field)), field
    assert np.allclose(kernel.model, reference.model, rtol=1e-9, atol=1e-12)


@pytest.mark.more  # the test above is the quick one of tables that are far away
@pytest.mark.parametrize("replicas", mostly_soak([1, 9], lambda replicas: replicas == 1))
def test_edges_in_a_slow_cache_give_the_same_walks(replicas, monkeypatch):
    # A single walker then looks up both proposals that may be next, and decides by the ratios.
    monkeypatch.setattr(tables, "_NEAR_EDGES", 0)
    network = lw.erdos_renyi(30, 0.3)
    scores = 10.0 ** np.random.default_rng(2).uniform(-1, 1, 30)
    design = lw.Design(target=lw.Scores(scores), jump=lw.JumpLaw(0.3, lw.PowerLaw(1.0, 9)))
    problem = lw.heterogeneous(30)
    _, reach = tables.pack(network, design.bind(network, problem), problem, None)
    assert reach == MIDDLE
    arguments = {"steps": 3000, "replicas": replicas, "record_visits": True, "record_walk": True}
    kernel, reference = (
        lw.run(network, problem, design, step_size="theory", backend=name, **arguments)
        for name in ("kernel", "reference")
    )
    alone = lw.walk(network, design, problem=problem, **arguments)
    for field in ("walk", "hops", "transfers", "final_node", "visits"):
        assert np.array_equal(getattr(kernel, field), getattr(reference, field)), field
    for field in ("walk", "final_node", "visits"):
        assert np.array_equal(getattr(alone, field), getattr(reference, field)), field
    for field in ("hops", "transfers"):
        assert np.array_equal(getattr(alone, field), getattr(reference, field)[:, -1]), field
    assert np.allclose(kernel.model, reference.model, rtol=1e-9, atol=1e-12)
    monkeypatch.undo()
    near = lw.run(network, problem, design, step_size="theory", backend="kernel", **arguments)
    assert np.array_equal(kernel.model, near.model)


@pytest.mark.more  # two more loops: groups of walkers, with and without a model
@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("p_jump", [0.4, lw.Decaying(0.9, 30)], ids=("constant", "falling"))
def test_hops_that_wait_for_memory_are_made_before_anybody_looks(record, p_jump, monkeypatch):
    # In groups beyond the cache, the hops of a jump are made while other groups take their turns.
    network, problem = lw.erdos_renyi(40, 0.2), lw.heterogeneous(40)
    design = lw.Design(jump=lw.JumpLaw(p_jump, lw.PowerLaw(0.5, 9)))
    records = {"record_visits": record, "record_walk": record}
    arguments = {"step_size": "theory", "record_every": 7, "backend": "kernel", **records}

    def walks(replicas):
        run = lw.run(network, problem, design, steps=101, replicas=replicas, **arguments)
        alone = lw.walk(
            network, design, problem=problem, steps=101, replicas=replicas, record_dwell=record,
            **records,
        )  # fmt: skip
        return run, alone

    near = walks(77)  # more than one batch of groups, a group and single walkers
    monkeypatch.setattr(tables, "_NEAR", 0)
    for replicas in (8, 24, 77):  # one group, which waits for itself; a few; several batches
        for found, expected in zip(walks(replicas), near, strict=True):
            assert np.array_equal(found.final_node, expected.final_node[:replicas])
            assert np.array_equal(found.hops, expected.hops[:replicas])
            assert np.array_equal(found.transfers, expected.transfers[:replicas])
            if record:
                assert np.array_equal(found.walk, expected.walk[:replicas])
                assert np.array_equal(found.visits, expected.visits[:replicas])
        assert np.array_equal(walks(replicas)[0].model, near[0].model[:replicas])
    assert near[0].hops.max() > 2 * 101  # many jumps were long


def test_thresholds_of_edges_are_the_acceptance_probabilities():
    rng = np.random.default_rng(1)
    network = lw.erdos_renyi(40, 0.3)
    scores = 10.0 ** rng.uniform(-150, 150, 40)
    bound = lw.Design(target=lw.Scores(scores)).bind(network, lw.homogeneous(40, dim=1))
    packed, _ = tables.pack(network, bound, None, None)
    assert np.array_equal(packed.edges & np.uint64(2**32 - 1), network.indices)
    assert np.array_equal(packed.places >> np.uint64(32), network.indptr[:-1])
    assert np.array_equal(packed.places & np.uint64(2**32 - 1), network.degree)
    ratio = bound.ratio
    v = np.repeat(np.arange(40), network.degree)
    exact = np.minimum(ratio[network.indices].astype(np.longdouble) / ratio[v], 1.0) * 2.0**32
    assert (np.abs((packed.edges >> np.uint64(32)).astype(np.longdouble) - exact) <= 1.0).all()


def test_scores_too_small_for_a_ratio_are_walked_as_by_the_oracle():
    network, problem = lw.star(5), lw.homogeneous(5, dim=1)
    design = lw.Design(target=lw.Scores([5e-324, 5e-324, 1.0, 1e-300, 5e-324]), reweight=False)
    arguments = {
        "steps": 200,
        "step_size": 0.01,
        "replicas": 8 if quick() else 9,
        "record_walk": True,
    }
    kernel, reference = (
        lw.run(network, problem, design, backend=name, **arguments)
        for name in ("kernel", "reference")
    )
    assert np.array_equal(kernel.walk, reference.walk)


@pytest.mark.parametrize(
    "name",
    mostly_more(
        ["one sample", "many samples", "long records", "records too long for groups"],
        lambda name: name in QUICK,
    ),
)
def test_a_model_that_overflows_leaves_the_others_alone(name):
    # More replicas than take turns, so that healthy ones come into the places of those that have
    # overflowed.
    problem = problems()[name]
    x0 = np.zeros((70, problem.dim))
    x0[[0, 9, 33]] = 1.7e308
    arguments = {"steps": 60, "step_size": "theory", "replicas": 70, "x0": x0, "record_every": 20}
    with pytest.warns(lw.DivergedWarning):
        one, two, reference = (
            lw.run(lw.ring(12), problem, lw.mhlj(), **arguments, **options)
            for options in ({"threads": 1}, {"threads": 2}, {"backend": "reference"})
        )
    assert np.flatnonzero(reference.diverged_at >= 0).tolist() == [0, 9, 33]
    for trace in (one, two):
        assert np.array_equal(trace.diverged_at >= 0, reference.diverged_at >= 0)
    assert np.array_equal(one.model, two.model)
    healthy = reference.diverged_at < 0
    assert np.allclose(one.model[healthy], reference.model[healthy], rtol=1e-9, atol=1e-12)


def test_a_subclass_with_its_own_gradient_is_not_compiled_away():
    class Clipped(lw.LeastSquares):
        def local_gradient(self, v, x):
            return np.clip(super().local_gradient(v, x), -1e-3, 1e-3)

    rng = np.random.default_rng(0)
    problem = Clipped(rng.normal(size=(6, 2)), rng.normal(size=6))
    arguments = {"steps": 20, "step_size": 0.1, "replicas": 2}
    auto, reference = (
        lw.run(lw.ring(6), problem, lw.unif_rw(), backend=name, **arguments)
        for name in ("auto", "reference")
    )
    assert auto.provenance["backend"] == "reference"
    assert np.array_equal(auto.model, reference.model)
    with pytest.raises(lw.InvalidParameter, match="their own local_loss"):
        lw.run(lw.ring(6), problem, lw.unif_rw(), backend="kernel", **arguments)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        *[(1.0, 0.3), (3.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 1e-12)],
        *[(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.7e308, 1e-300), (1e-300, 1.7e308)],
        *[(5e-324, 5e-324), (1e-320, 5e-324)],
    ],
)
def test_a_threshold_separates_what_is_always_accepted_from_what_never_is(mine, theirs):
    with np.errstate(all="ignore"):
        share = np.divide(theirs, mine)
    scaled = 0.0 if np.isnan(share) else min(float(share) * 2.0**32, 2.0**32 - 1)
    found = int(tables._threshold(np.uint64(scaled), mine, theirs))

    def accepted(fraction):
        return unit(fraction) * mine < theirs

    assert found == 0 or accepted(((found - 1) << 32) | 0xFFFFFFFF)
    assert found == 2**32 - 1 or not accepted((found << 32) | 0xFFFFFFFF)
