"""A shortcut holds only for an object that replaces none of the methods that it stands for."""

import functools

import numpy as np
import pytest

import levywalk as lw
from levywalk.contracts import shortcut
from levywalk.engine.backends import (
    compiled_update,
    compiled_walk,
    linear_update,
    samples_update,
    sparse_rule,
)
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.problem import follows_its_loss
from levywalk.problem.losses import compiled_curvature, compiled_slope
from levywalk.registry import names
from levywalk.walks import PrintedJumps

NETWORK, PROBLEM = lw.ring(12), lw.homogeneous(12, dim=3, seed=1)
DATA = PROBLEM.features, PROBLEM.targets
HeavyBall, Adam, Saga, Sag = (type(make()) for make in (lw.heavy_ball, lw.adam, lw.saga, lw.sag))
Mhda, Oldest = type(lw.mhda()), type(lw.oldest_neighbour())


class ClippedBall(HeavyBall):
    def gradient(self, problem, v, x, word):
        return np.clip(super().gradient(problem, v, x, word), -0.1, 0.1)


class ClippedAdam(Adam):
    def gradient(self, problem, v, x, word):
        return np.clip(super().gradient(problem, v, x, word), -0.1, 0.1)


class ShortBall(HeavyBall):
    def direction(self, model, memory, local, weight, words):
        return 0.5 * super().direction(model, memory, local, weight, words)


class HalfSaga(Saga):
    def refresh(self, model, memory, local, words):
        return 0.5 * super().refresh(model, memory, local, words)


class WithoutRidge(Sag):
    def ridge(self, local):
        return 0.0


class Mixin:
    def refresh(self, model, memory, local, words):
        return 0.0 * super().refresh(model, memory, local, words)


class MixedSaga(Mixin, Saga):
    pass


def replaced_in_object():
    update = lw.heavy_ball()
    object.__setattr__(update, "gradient", lambda problem, v, x, word: 0.0 * x + 0.1)
    return update


UPDATES = {
    "gradient of heavy ball": ClippedBall,
    "gradient of Adam": ClippedAdam,
    "direction of heavy ball": ShortBall,
    "refresh of SAGA": HalfSaga,
    "ridge of SAG": WithoutRidge,
    "refresh by a mixin": MixedSaga,
    "gradient of one object": replaced_in_object,
    "averaged gradient": lambda: lw.averaged(ClippedBall()),
    "averaged direction": lambda: lw.averaged(ShortBall()),
    "averaged refresh": lambda: lw.averaged(HalfSaga()),
}


@pytest.mark.parametrize("make", UPDATES.values(), ids=UPDATES)
def test_an_update_that_replaces_a_method_runs_by_its_own_method(make):
    update = make()
    assert samples_update(update, PROBLEM) is None
    assert compiled_update(update) is None
    assert sparse_rule(update) is None
    problem = lw.LeastSquares(*DATA, ridge=0.3)
    with pytest.raises(InvalidParameter, match=r"Update\.compiled"):
        run(problem, update=update, backend="kernel")
    own, plain = (run(problem, update=update, backend=one) for one in ("auto", "reference"))
    np.testing.assert_array_equal(own.model, plain.model)


def run(problem=PROBLEM, walk=None, **given):
    given = {"steps": 60, "step_size": 0.02} | given
    return lw.run(NETWORK, problem, walk or lw.unif_rw(), **given)


class Straight(Mhda):
    def _delayed(self, view, previous, words):
        return view.neighbours[0]


class AsksOne(Oldest):
    def questions(self, view, memory, words):
        return view.live[:1]


@pytest.mark.parametrize("walk", [Straight(), AsksOne()], ids=["helper", "questions"])
def test_a_walk_that_replaces_what_decide_needs_runs_by_its_own_methods(walk):
    assert compiled_walk(walk) is None
    own, plain = (run(walk=walk, backend=one, record_walk=True) for one in ("auto", "reference"))
    np.testing.assert_array_equal(own.walk, plain.walk)
    np.testing.assert_array_equal(own.small_messages, plain.small_messages)


def test_a_subclass_keeps_the_twin_if_it_replaces_nothing_that_the_twin_stands_for():
    class Named(HeavyBall):
        name = "named"
        beta = 0.5

        def default_step_size(self, largest, problem):
            return 0.1

        def check(self, problem):
            pass

    class Weighted(Mhda):
        reweight = False

        def describe(self):
            return {}

    assert compiled_update(Named()) is not None
    assert compiled_walk(Weighted()) is not None


def test_a_subclass_with_a_twin_of_its_own_keeps_that_one():
    class Own(ClippedBall):
        def compiled(self):
            return replaced_in_object

    assert compiled_update(Own()) is replaced_in_object
    assert compiled_update(type("Changed", (Own,), {"direction": ShortBall.direction})()) is None


def test_other_memory_needs_another_twin():
    class More(HeavyBall):
        token_memory = HeavyBall.token_memory | {"extra": lw.Number()}

    assert compiled_update(More()) is None


def test_every_update_and_loss_of_the_package_keeps_its_own_twin():
    for make in names("update").values():
        update = make()
        for name, found in (("compiled", compiled_update), ("compiled_linear", linear_update)):
            assert (getattr(update, name)() is None) == (found(update) is None), update
    for make in (lw.losses.huber, lw.losses.poisson, lw.losses.quantile, lw.losses.squared_hinge):
        assert compiled_slope(make()) is not None
        assert compiled_curvature(make()) is not None


def test_a_loss_with_another_slope_in_one_object_loses_its_twins():
    loss = lw.losses.huber()
    loss.slope = functools.partial(np.multiply, 0.5)
    assert compiled_slope(loss) is None
    assert compiled_curvature(loss) is None
    assert shortcut(lw.losses.huber(), "compiled") is not None


@pytest.mark.parametrize("name", ["node_samples", "sample_count", "_penalty", "sample_losses"])
def test_a_problem_with_samples_of_its_own_has_no_kernel(name):
    def own(self, *given):
        return getattr(lw.LeastSquares, name)(self, *given)

    problem = type("Own", (lw.LeastSquares,), {name: own})(*DATA)
    assert not follows_its_loss(problem)


class Sweep(lw.Walk):
    name = "sweep"

    def decide(self, view, memory, words):
        return lw.Decision((view.node + 1) % 12)

    def chain(self, network, problem):
        return np.roll(np.eye(network.n), 1, axis=1)


def test_a_chain_is_not_that_of_a_subclass_with_other_decisions():
    class Back(Sweep):
        def decide(self, view, memory, words):
            return lw.Decision((view.node - 1) % 12)

    class Printed(PrintedJumps):
        def decide(self, view, memory, words):
            return lw.Decision(view.node)

    assert lw.transition(NETWORK, PROBLEM, Sweep()).toarray()[0, 1] == 1.0
    with pytest.raises(InvalidParameter, match=r"overrides.*chain of its own"):
        lw.transition(NETWORK, PROBLEM, Back())
    with pytest.raises(InvalidParameter, match="has none"):
        lw.transition(NETWORK, PROBLEM, Printed("uniform", lw.JumpLaw(0.3)))


class Centred(lw.LeastSquares):
    """Other local losses, whose minimiser is not the inherited one."""

    def local_loss(self, v, x):
        return 0.5 * float((x - v) @ (x - v))

    def local_gradient(self, v, x, samples=None):
        return x - v


def test_an_inherited_optimum_of_other_losses_is_not_used():
    with pytest.warns(DataWarning, match="losses that its class overrides"):
        trace = run(Centred(*DATA))
    assert np.isnan(trace.distance2).all()
    assert np.isnan(trace.excess_loss).all()
    x = trace.model[0]
    expected = np.mean([0.5 * ((x - v) ** 2).sum() for v in range(12)])
    assert trace.loss[0, -1] == pytest.approx(expected)


def test_an_optimum_that_was_assigned_to_other_losses_is_used_as_it_is():
    """That is the remedy which the warning names; it need not be exact."""
    problem = Centred(*DATA)
    with pytest.warns(DataWarning, match="give it an attribute `optimum`"):
        run(problem)
    problem.optimum = np.full(3, 5.4)  # 5.5 is the minimiser
    trace = run(problem)
    x = trace.model[0]
    assert trace.distance2[0, -1] == pytest.approx(((x - 5.4) ** 2).sum())
    assert trace.excess_loss[0, -1] == pytest.approx(problem.excess_loss(x))


def test_gossip_measures_the_losses_that_a_class_overrides():
    trace = lw.gossip(NETWORK, Centred(*DATA), "dsgd", iterations=20, step_size=0.1)
    x = trace.model[0]
    assert np.isnan(trace.excess_loss).all()
    assert trace.loss[0, -1] == pytest.approx(
        np.mean([0.5 * ((x - v) ** 2).sum() for v in range(12)])
    )


def test_an_inherited_optimum_that_still_minimises_is_used():
    class Doubled(lw.LeastSquares):
        def local_loss(self, v, x):
            return 2.0 * super().local_loss(v, x)

        def local_gradient(self, v, x, samples=None):
            return 2.0 * super().local_gradient(v, x, samples)

    problem = Doubled(*DATA)
    trace = run(problem)
    x = trace.model[0]
    plain = lw.LeastSquares(*DATA)
    expected = 2.0 * plain.excess_loss(x)
    assert problem.loss(x) == pytest.approx(2.0 * plain.loss(x))
    assert problem.excess_loss(x) == pytest.approx(expected)
    assert trace.excess_loss[0, -1] == pytest.approx(expected)


def test_the_excess_over_an_optimum_that_was_set_is_a_difference_of_losses():
    problem = lw.LeastSquares(*DATA)
    problem.optimum = np.zeros(3)
    trace = run(problem)
    expected = problem.loss(trace.model[0]) - problem.loss(np.zeros(3))
    assert trace.excess_loss[0, -1] == pytest.approx(expected)
    assert problem.excess_loss(trace.model[0]) == pytest.approx(expected)
    assert expected < 0.0


CLASSES = DATA[0], (DATA[1] > DATA[1].mean()).astype(int)


@pytest.mark.parametrize(("kind", "data"), [(lw.LeastSquares, DATA), (lw.Logistic, CLASSES)])
def test_the_excess_loss_by_hand_is_that_of_the_losses_and_the_optimum(kind, data):
    class Shifted(kind):
        def loss(self, x):
            return 3.0 * super().loss(x)

    x, least = np.full(3, 0.5), kind(*data).optimum
    plain, own = kind(*data, ridge=0.1), Shifted(*data, ridge=0.1)
    assert plain.excess_loss(plain.optimum) == 0.0
    assert own.excess_loss(x) == pytest.approx(own.loss(x) - own.loss(own.optimum))
    plain.optimum = least  # another one, after closed forms were used for the first
    assert plain.excess_loss(x) == pytest.approx(plain.loss(x) - plain.loss(least))
