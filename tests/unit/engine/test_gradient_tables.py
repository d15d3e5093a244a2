"""SAG, SAGA and Point-SAGA in vector lanes: the reference's numbers, and the same bits however many
replicas there are.
"""

from __future__ import annotations

import importlib
from itertools import product

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.kernels import KernelBackend, walk_then_update
from levywalk.engine.kernels.walk_then_update import WalkThenUpdate, table_rule
from levywalk.engine.prepare import prepare
from levywalk.schedule import Decaying
from levywalk.updates import Saga
from tests.limits import mostly_soak

drive = importlib.import_module("levywalk.engine.drive")
resume = importlib.import_module("levywalk.engine.resume")

N, DIM = 12, 3
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=1)
EXACT = ("walk", "visits", "hops", "transfers", "small_messages", "final_node", "diverged_at")


def made(logistic=False, several=False, ridge=0.0, dim=DIM):
    generator = np.random.default_rng(5)
    node = np.repeat(np.arange(N), generator.integers(1, 5, N)) if several else np.arange(N)
    features = generator.normal(size=(len(node), dim))
    score = features @ generator.normal(size=dim) + generator.normal(size=len(node))
    if logistic:
        return lw.Logistic(features, (score > 0).astype(int), node=node, ridge=ridge)
    return lw.LeastSquares(features, score, node=node, ridge=ridge)


PROBLEMS = {
    "squares": made(),
    "squares, ridge": made(ridge=0.1),
    "squares, samples": made(several=True),
    "squares, samples, ridge": made(several=True, ridge=0.1),
    "logistic, ridge": made(logistic=True, ridge=0.1),
    "logistic, samples, ridge": made(logistic=True, several=True, ridge=0.1),
    "squares, dim 20, ridge": made(ridge=0.1, dim=20),
    "squares, dim 90, ridge": made(ridge=0.1, dim=90),
    "squares, dim 200, ridge": made(ridge=0.1, dim=200),
}
UPDATES = {"sag": lw.sag(), "saga": lw.saga(), "point_saga": lw.point_saga()}
# Which rule is used makes no difference to how long rows are added, so that each length has two.
LEFT_OUT = {
    ("squares, samples", "point_saga"),
    ("squares, samples, ridge", "point_saga"),
    ("logistic, samples, ridge", "point_saga"),
    ("squares, dim 20, ridge", "saga"),
    ("squares, dim 90, ridge", "sag"),
    ("squares, dim 200, ridge", "saga"),
}
CASES = [case for case in product(PROBLEMS, UPDATES) if case not in LEFT_OUT]
MORE = CASES[::4]  # every update, and most problems


def run(problem, update, replicas=6, backend="kernel", walk=None, steps=120, **options):
    return lw.run(
        NETWORK,
        problem,
        walk or lw.mhlj(p_jump=0.3),
        steps=steps,
        step_size=options.pop("step_size", "theory"),
        update=update,
        replicas=replicas,
        backend=backend,
        record_walk=True,
        record_memory=True,
        **options,
    )


def same(fast, plain):
    for name in EXACT:
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), err_msg=name)
    np.testing.assert_allclose(fast.model, plain.model, rtol=1e-9)
    if (plain.diverged_at < 0).all():
        for name, array in plain.memory.items():
            np.testing.assert_allclose(
                fast.memory[name], array, rtol=1e-9, atol=1e-11, err_msg=name
            )


def plan_of(problem, update, walk):
    keys = np.zeros((6, 2), np.uint64)
    return prepare(
        NETWORK, problem, walk, steps=5, step_size=0.1, keys=keys, start_keys=keys, start=0,
        x0=None, record_every=None, record_walk=False, record_visits=False, threads=1,
        backend="kernel", update=update,
    ).run_plan  # fmt: skip


@pytest.mark.more  # each case takes seconds to compile
@pytest.mark.parametrize(
    "case", mostly_soak(CASES, lambda case: case in MORE), ids=lambda case: "-".join(case)
)
def test_lanes_make_the_references_numbers_and_a_replica_has_the_same_bits_in_any_company(case):
    problem, update = PROBLEMS[case[0]], UPDATES[case[1]]
    assert isinstance(
        KernelBackend(plan_of(problem, update, lw.mhlj()), plain=False)._make, WalkThenUpdate
    )
    whole = run(problem, update, replicas=11)
    same(whole, run(problem, update, replicas=11, backend="reference"))
    for part in (
        run(problem, update, 1),
        run(problem, update, 6),
        run(problem, update, 11, threads=2),
    ):
        for name in (*EXACT, "model", "distance2"):
            first = getattr(whole, name)[: part.replicas]
            np.testing.assert_array_equal(getattr(part, name), first, err_msg=name)
        for name, array in part.memory.items():
            np.testing.assert_array_equal(array, whole.memory[name][: part.replicas], err_msg=name)


WALKS = {
    "unif_rw": lw.unif_rw(),
    "weight_rw": lw.weight_rw(),
    "iid_weighted": lw.iid_weighted(),
    "mhda": lw.mhda(target="importance"),
    "least_used_edge": lw.least_used_edge(),
    "oldest_neighbour": lw.oldest_neighbour(),
    "depth_first_tour": lw.depth_first_tour(),
}


OWN_LOOPS = ("iid_weighted", "mhda")  # each is compiled, for seconds


@pytest.mark.more
@pytest.mark.parametrize(
    "name",
    mostly_soak(WALKS, lambda name: name not in OWN_LOOPS),
)
def test_every_walk_can_be_made_before_the_updates(name, monkeypatch):
    monkeypatch.setattr(walk_then_update, "_LONGEST", 50)  # so that pieces end between marks
    monkeypatch.setattr(walk_then_update, "_LEAST", 50)
    problem = PROBLEMS["squares"]
    made_here = KernelBackend(plan_of(problem, lw.saga(), WALKS[name]), plain=False)
    assert isinstance(made_here._make, WalkThenUpdate)
    options = {"walk": WALKS[name], "record_every": 13, "step_size": Decaying(0.05, timescale=50)}
    fast = run(problem, lw.saga(), **options)
    plain = run(problem, lw.saga(), backend="reference", **options)
    same(fast, plain)
    np.testing.assert_allclose(fast.distance2, plain.distance2, rtol=1e-8)


@pytest.mark.more
def test_a_model_that_overflows_rests_at_its_last_finite_value():
    problem = PROBLEMS["squares"]
    with pytest.warns(lw.errors.DivergedWarning):
        fast = run(problem, lw.saga(), steps=800, step_size=3.0)
    with pytest.warns(lw.errors.DivergedWarning):
        plain = run(problem, lw.saga(), steps=800, step_size=3.0, backend="reference")
    assert (plain.diverged_at >= 0).all()
    same(fast, plain)
    np.testing.assert_array_equal(np.isinf(fast.distance2), np.isinf(plain.distance2))
    huge = np.array([1e300, 0.0, 0.0])  # near the limit from the start, and it comes back
    fast = run(problem, lw.point_saga(), x0=huge)
    np.testing.assert_allclose(
        fast.model, run(problem, lw.point_saga(), x0=huge, backend="reference").model, rtol=1e-9
    )


@pytest.mark.more
def test_a_run_with_a_table_can_be_resumed(tmp_path):
    problem, file, saved = PROBLEMS["squares"], tmp_path / "run.npz", []
    save = resume.StateFile.save

    def stopping(self, *arguments):
        save(self, *arguments)
        saved.append(arguments)
        if len(saved) == 3:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drive, "_PIECE", 40)
        patch.setattr(resume, "SAVE_EVERY", 0.0)
        patch.setattr(resume, "_SAVING_SHARE", 0)
        patch.setattr(resume.StateFile, "save", stopping)
        with pytest.raises(KeyboardInterrupt):
            run(problem, lw.saga(), steps=300, resume=file, threads=1)
    resumed = run(problem, lw.saga(), steps=300, resume=file)
    assert 0 < resumed.provenance["resumed_at"][0] < 300
    whole = run(problem, lw.saga(), steps=300)
    for name in ("walk", "model", "distance2"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    for name, array in whole.memory.items():
        np.testing.assert_array_equal(resumed.memory[name], array)


def test_only_the_updates_themselves_take_this_way():
    class Own(Saga):
        def direction(self, model, memory, local, weight, words):
            return super().direction(model, memory, local, weight, words) * 0.5

    one, several = PROBLEMS["squares"], PROBLEMS["squares, samples"]
    assert table_rule(lw.saga(), several) is not None
    for update, problem in (
        (Own(), one),
        (lw.saga(minibatch=2), several),
        (lw.point_saga(), several),
        (lw.sgd(), one),
        (lw.averaged(lw.saga()), one),
    ):
        assert table_rule(update, problem) is None
