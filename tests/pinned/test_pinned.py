"""What levywalk computes is what is pinned; the docstring of `cases` says when that may change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.limits import mostly_more
from tests.pinned.cases import CASES
from tests.pinned.pins import FILE, first_difference, pin, read

PINS = read(FILE)


# Each of these needs one or two compiled loops of its own; `make test-more` has them compiled.
OWN_LOOPS = (
    "compare_logistic_minibatch_theory_step_size",
    "run_logistic",
    "run_logistic_many_samples_minibatch",
    "run_many_features",
    "run_many_samples",
    "run_many_samples_minibatch_ridge",
    "run_switching_logistic_theory_step_size",
    "walk_by_smoothness_with_an_observable",
    "walk_of_named_designs",
)

LONG = (  # more than a second
    "theory_predict",
    "theory_tune",
    "fleet_minibatch_logistic",
    "fleet_counted_self_loops_and_schedules",
)


@pytest.mark.parametrize("name", mostly_more(CASES, lambda name: name not in (*OWN_LOOPS, *LONG)))
def test_the_results_are_the_pinned_ones(name):
    difference = first_difference(CASES[name](), PINS[name])
    assert difference is None, f"{name}: {difference}"


def test_every_pin_has_a_case():
    assert sorted(PINS) == sorted(CASES)


@pytest.mark.parametrize(
    ("value", "other", "named"),
    [
        (np.arange(50), np.arange(50) + (np.arange(50) == 49), "digest"),
        (np.arange(4), np.arange(4).reshape(2, 2), "shape"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 4e-9]), "2.000000004"),
        (np.linspace(1, 2, 99), np.linspace(1, 2, 99) + 1e-6 * (np.arange(99) == 1), "norm"),
        (np.full(99, np.inf), np.where(np.arange(99) == 1, 1.0, np.inf), "finite"),
        (np.array([1, 2]), np.array([1.0, 2.0]), "digest"),
    ],
)
def test_a_difference_is_found_and_named(value, other, named):
    assert first_difference({"a": value}, {"a": pin(value)}) is None
    assert named in first_difference({"a": other}, {"a": pin(value)})
    assert "missing" in first_difference({}, {"a": pin(value)})


def test_rounding_is_forgiven():
    value = np.array([1.0, 1e-8, -1.0])
    assert first_difference({"a": value * (1 + 1e-13) + 1e-16}, {"a": pin(value)}) is None
