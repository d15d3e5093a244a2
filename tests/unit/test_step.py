"""The one step says what is wrong with what a method of a user's own returns."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw

NETWORK, PROBLEM = lw.ring(6), lw.homogeneous(6, dim=4, seed=1)


def own_walk(decision: object) -> lw.Walk:
    class Own(lw.Walk):
        name = "own"

        def decide(self, view, memory, words):
            return decision

    return Own()


def own_update(method: str, returned: object) -> lw.Update:
    def own(self, *_):
        return returned

    return type("Own", (lw.Update,), {"name": "own", method: own})()


def go(walk: lw.Walk, update: object = None) -> lw.Trace:
    return lw.run(NETWORK, PROBLEM, walk, steps=3, step_size=0.1, update=update)


@pytest.mark.parametrize("decision", [3, None, (1, 2, 3)])
def test_a_walk_that_returns_no_decision_is_told_what_to_return(decision):
    with pytest.raises(lw.InvalidParameter, match=r"walk own: .* must return lw.Decision\(node\)"):
        go(own_walk(decision))


@pytest.mark.parametrize("returned", [None, 3.0, np.float64(3.0), np.zeros(7), np.zeros((4, 1))])
@pytest.mark.parametrize(("method", "what"), [("direction", "direction"), ("apply", "model")])
def test_an_update_that_returns_another_shape_is_told_which(method, what, returned):
    said = rf"update own must return a {what} of shape \(4,\), got"
    with pytest.raises(lw.InvalidParameter, match=said):
        go(lw.unif_rw(), own_update(method, returned))


@pytest.mark.parametrize("kind", [np.complex128, np.bool_, "<U1"])
def test_an_update_must_return_real_numbers(kind):
    class Odd(lw.Update):
        name = "odd"

        def apply(self, model, memory, local, weight, step_size, words):
            return np.zeros(len(model), kind)

    with pytest.raises(lw.InvalidParameter, match="odd must return a model of real numbers"):
        lw.run(NETWORK, PROBLEM, lw.unif_rw(), update=Odd(), steps=2, step_size=0.1)


class Plain(lw.Update):
    name = "plain"

    def apply(self, model, memory, local, weight, step_size, words):
        return model - step_size * weight * local.gradient(model)


class InPlace(Plain):
    def apply(self, model, memory, local, weight, step_size, words):
        model -= step_size * weight * local.gradient(model)
        return model


class DirectionInPlace(lw.Update):
    name = "direction"

    def direction(self, model, memory, local, weight, words):
        gradient = local.gradient(model)
        model += 1.0
        return weight * gradient


@pytest.mark.filterwarnings("ignore::levywalk.errors.DivergedWarning")
@pytest.mark.parametrize("made", [InPlace, DirectionInPlace])
def test_an_update_that_changes_the_model_in_place_gives_what_the_other_gives(made):
    walk = lw.switching(lw.unif_rw(), lw.simple_rw(), step_size=0.05)
    for design, step_size in ((walk, 0.05), (lw.unif_rw(), 50.0)):  # that diverges
        found, expected = (
            lw.run(NETWORK, PROBLEM, design, update=update, steps=400, step_size=step_size)
            for update in (made(), Plain())
        )
        assert np.array_equal(found.switched_at, expected.switched_at)
        assert np.array_equal(found.diverged_at, expected.diverged_at)
        assert np.isfinite(found.model).all()
        assert found.model == pytest.approx(expected.model, rel=1e-9)


def test_a_single_name_to_ask_for_is_told_to_be_a_tuple():
    class Asks(lw.Walk):
        name = "asks"
        node_memory = {"count": lw.Number()}
        asks_neighbours = "count"

        def decide(self, view, memory, words):
            return lw.Decision(view.node)

    with pytest.raises(lw.InvalidParameter, match=r"a tuple of names, such as \('count',\)"):
        lw.run(NETWORK, PROBLEM, Asks(), steps=2, step_size=0.1)
