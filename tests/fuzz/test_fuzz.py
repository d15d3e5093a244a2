"""Mutated files and options are read or refused; nothing else happens."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzz import fuzz
from tests.limits import mostly_soak


@pytest.mark.more
def test_some_mutated_inputs_are_read_or_refused():
    found = fuzz(seed=0, inputs=15)
    assert not found.failures, "\n".join(found.failures)
    assert found.tried == 15
    assert {outcome for _, outcome in found.counts} == {"read", "refused"}


@pytest.mark.more
@pytest.mark.parametrize("inputs", mostly_soak([1_000, 4_000], lambda inputs: inputs == 1_000))
def test_many_mutated_inputs_are_read_or_refused(inputs):
    found = fuzz(seed=1, inputs=inputs)
    assert not found.failures, "\n".join(found.failures)
    assert found.tried == inputs
