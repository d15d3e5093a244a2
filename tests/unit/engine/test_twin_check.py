"""A compiled twin that does something else than the plain method is refused before the run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.standings import Standings

NETWORK, PROBLEM = lw.ring(8), lw.homogeneous(8, dim=2, seed=1)


def twin(*given):
    """Stand for a compiled function; the kernels of this test never call it."""


class Update(lw.Update):
    name = "own"

    def direction(self, model, memory, local, weight, words):
        return local.gradient(model)

    def compiled(self):
        return twin


class Stay(lw.Walk):
    name = "stay"

    def decide(self, view, memory, words):
        return lw.Decision(view.node)

    def compiled(self):
        return twin


def kernels_that(change):
    """Return a class of kernels that do what the reference does, and then change what is seen."""

    class Kernels:
        def __init__(self, plan):
            self.plan = plan

        def block(self, state, replicas):
            rows = slice(replicas.start, replicas.stop)
            plan = replace(self.plan, keys=self.plan.keys[rows], scale=self.plan.scale[rows])
            here = state.rows(rows)
            advance = ReferenceBackend(plan, here).advance

            def through(start, marks):
                seen = Standings.by_steps(here, start, marks, advance)
                change(seen)
                return seen

            return SimpleNamespace(through=through)

    return Kernels


def run(**given):
    walk = given.pop("walk", lw.unif_rw())
    given = {"steps": 30, "step_size": 0.01, "backend": "kernel", "replicas": 2} | given
    return lw.run(NETWORK, PROBLEM, walk, **given)


def test_a_twin_that_agrees_runs(monkeypatch):
    monkeypatch.setattr("levywalk.engine.kernels.KernelBackend", kernels_that(lambda seen: None))
    for given in ({"update": Update()}, {"walk": Stay()}, {"update": lw.averaged(Update())}):
        own = run(**given)
        np.testing.assert_array_equal(own.model, run(**given, tokens=1).model)


def test_another_model_is_refused_with_both_models(monkeypatch):
    def change(seen):
        seen.model[:, 2:] *= 1.0 + 1e-4

    monkeypatch.setattr("levywalk.engine.kernels.KernelBackend", kernels_that(change))
    with pytest.raises(lw.InvalidParameter, match=r"update own and loss .* after step 2 the model"):
        run(update=Update())
    run()  # twins of the package are compared in its own tests


@pytest.mark.parametrize("count", ["node", "hops", "small_messages"])
def test_another_walk_is_refused_with_the_step(monkeypatch, count):
    def change(seen):
        getattr(seen, count)[:, 3] += 1

    monkeypatch.setattr("levywalk.engine.kernels.KernelBackend", kernels_that(change))
    with pytest.raises(lw.InvalidParameter, match=r"Walk\.compiled of stay disagrees .* step 3"):
        run(walk=Stay())


def test_a_twin_must_be_a_compiled_function():
    for found in (3, lambda *given: None):
        wrong = type("Wrong", (Stay,), {"compiled": lambda self, found=found: found})()
        with pytest.raises(lw.InvalidParameter, match=r"compiled of Wrong must return a function"):
            run(walk=wrong)


@pytest.mark.more  # compiles a loop of its own
def test_a_compiled_decision_for_another_node_is_refused():
    from numba import njit

    @njit
    def decide(node, came_from, hop, left, score, neighbours, degrees, scores, token, kept, words):
        return neighbours[0], 0

    wrong = type("Wrong", (Stay,), {"compiled": lambda self: decide})()
    with pytest.raises(lw.InvalidParameter, match=r"Walk\.compiled of stay disagrees with decide"):
        run(walk=wrong)


@pytest.mark.parametrize("left", [1, -1])
def test_a_compiled_move_that_never_ends_is_refused(left):
    from numba import njit

    @njit
    def decide(node, came_from, hop, hops, score, neighbours, degrees, scores, token, kept, words):
        return node, left

    wrong = type("Wrong", (Stay,), {"compiled": lambda self: decide})()
    said = rf"Walk\.compiled of stay must make at most max_hops = 1 hops .* got {left} left after 1"
    with pytest.raises(lw.InvalidParameter, match=said):
        run(walk=wrong)
