"""The alias table holds its law exactly; the detector is the ruling's recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levywalk.draws import stratified_words
from levywalk.walks import AliasTable, BoundDetector, Detector, DetectorState


def law_of(table):
    """The law that the table gives, summed over its columns."""
    law = np.zeros(len(table.keep))
    for i, keep in enumerate(table.keep):
        law[i] += keep / len(law)
        law[table.other[i]] += (1.0 - keep) / len(law)
    return law


@given(weights=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60).filter(lambda w: sum(w) > 0))
def test_the_alias_table_gives_its_law(weights):
    law = np.array(weights) / sum(weights)
    table = AliasTable.of(law)
    assert ((table.keep >= 0) & (table.keep <= 1)).all()
    assert law_of(table) == pytest.approx(law, abs=1e-12)


@pytest.mark.parametrize(
    "law", [[1.0], [0.5, 0.5], [0.9, 0.1], [0.0, 1.0], [1e-12, 1 - 1e-12], np.full(7, 1 / 7)]
)
def test_picks_follow_the_table(law):
    law = np.array(law)
    table = AliasTable.of(law)
    count = 1000 * len(law)
    found = (
        np.bincount([table.pick(word) for word in stratified_words(count)], minlength=len(law))
        / count
    )
    assert np.abs(found - law).max() <= len(law) / count


def test_a_law_need_not_be_normalised():
    assert law_of(AliasTable.of(np.array([2.0, 6.0]))) == pytest.approx([0.25, 0.75])


def observed(detector, gradients):
    dim = np.shape(gradients)[1]
    state, bound = DetectorState.new(dim), detector.bind(dim, mean_smoothness=1.0)
    return [bound.observe(state, np.asarray(g), step_size=0.1) for g in gradients]


@given(
    data=st.data(),
    threshold=st.floats(0.05, 0.95),
    window=st.floats(1.0, 30.0),
    patience=st.integers(1, 6),
)
def test_the_detector_compares_the_exponential_averages_of_the_ruling(
    data, threshold, window, patience
):
    numbers = st.floats(-10, 10).map(lambda x: round(x, 3))
    gradients = np.array(data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40)))
    beta = 1 - 1 / window
    quiet = []
    for t in range(len(gradients)):
        powers = (1 - beta) * beta ** np.arange(t, -1, -1.0)
        mean, power = powers @ gradients[: t + 1], powers @ (gradients[: t + 1] ** 2).sum(axis=1)
        gap = (mean @ mean) / powers.sum() ** 2 - threshold * power / powers.sum()
        if abs(gap) <= 1e-9 * max(power, 1e-30):
            return  # a near-tie is nobody's fault
        quiet.append(gap < 0)
    expected = [
        t + 1 >= patience and all(quiet[t + 1 - patience : t + 1]) for t in range(len(quiet))
    ]
    assert observed(Detector(threshold, window, patience), gradients) == expected


def test_agreeing_gradients_never_switch_and_cancelling_ones_do():
    detector = Detector(0.2, window=10, patience=3)
    assert not any(observed(detector, [[1.0, 2.0]] * 200))
    assert any(observed(detector, [[1.0, 2.0], [-1.0, -2.0]] * 50))


def test_auto_is_numbers_from_the_dimension_and_the_mean_smoothness():
    bound = Detector().bind(dim=4, mean_smoothness=2.0)
    assert (bound.threshold, bound.steady, bound.rate, bound.patience) == (0.025, 0.0, 0.1, 0)
    given_numbers = Detector(0.2, window=8, patience=3).bind(dim=4, mean_smoothness=2.0)
    assert given_numbers == BoundDetector(0.2, 0.125, 0.0, 3)


@pytest.mark.parametrize("step_size", [1.0, 0.1, 0.03, 0.007])
def test_the_window_and_the_patience_of_auto_are_five_relaxation_times(step_size):
    # Gradients that cancel from the first pair on: quiet from the second update, for one window of
    # 5·dim/(γL̄).
    bound, state = Detector(threshold=0.5).bind(dim=1, mean_smoothness=0.5), DetectorState.new(1)
    signs = np.resize([1.0, -1.0], 3000)
    switched = next(
        t for t, g in enumerate(signs) if bound.observe(state, np.array([g]), step_size)
    )
    assert switched == int(np.ceil(10 / step_size - 1e-6))


def test_patience_of_auto_is_one_window_of_a_given_length():
    assert observed(Detector(0.5, window=7), [[1.0], [-1.0]] * 10).index(True) == 7


def test_updates_with_step_size_zero_teach_the_detector_nothing():
    bound, state = Detector().bind(dim=1, mean_smoothness=1.0), DetectorState.new(1)
    assert not any(bound.observe(state, np.array([g]), step_size=0.0) for g in [1.0, -1.0] * 1000)
    assert state.mass == 0.0


def test_vanished_gradients_do_not_switch():
    # 0 < 0 is false: a model at rest has nothing to say about noise.
    assert not any(observed(Detector(0.2, window=10, patience=1), [[0.0]] * 20))


def test_the_bias_of_the_start_at_zero_is_corrected():
    # Without the mass c the first comparison would be (1-β)²g² against (1-β)τg², and would switch
    # at once.
    assert not any(observed(Detector(0.5, window=1000, patience=1), [[3.0]] * 5))
