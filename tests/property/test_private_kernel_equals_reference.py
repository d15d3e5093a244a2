"""Compiled private runs are the oracle: the same walks and counters exactly, models to 1e-9."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from tests.limits import examples
from tests.property.test_kernel_equals_reference import networks, walks
from tests.unit.engine.test_private_kernel import assert_private_twins

STEPS = 60


@st.composite
def problems_of_any_loss(draw, n):
    """A linear problem with one or many samples per node, of any loss that has a private loop."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.sampled_from([1, 2, 3, 4, 7, 16, 33]))
    most = draw(st.sampled_from([1, 5]))
    node = rng.permutation(np.repeat(np.arange(n), rng.integers(1, most + 1, size=n)))
    features = rng.normal(size=(len(node), dim)) * rng.lognormal(0, 1, size=n)[node, None]
    ridge = draw(st.sampled_from([0.0, 0.1, 2.0]))
    if ridge > 0.0:  # a sample without a gradient; a node without any needs the ridge
        features[rng.random(len(node)) < 0.1] = 0.0
    loss = draw(st.sampled_from(["squares", "logistic", "softmax", "several"]))
    if loss == "squares":
        return lw.LeastSquares(features, rng.normal(size=len(node)), node, ridge=ridge)
    if loss == "several":
        outputs = draw(st.sampled_from([2, 3, 9]))
        targets = rng.normal(size=(len(node), outputs))
        made = lw.losses.SquaredErrors(outputs)
        return lw.GeneralizedLinear(features, targets, made, node, ridge=ridge)
    classes = 2 if loss == "logistic" else min(len(node), draw(st.sampled_from([2, 3, 5, 10])))
    labels = rng.integers(0, classes, size=len(node))
    labels[:classes] = np.arange(classes)
    ridge = max(ridge, 0.1)
    return (lw.Logistic if loss == "logistic" else lw.Softmax)(features, labels, node, ridge=ridge)


@st.composite
def private_runs(draw):
    network = draw(networks())
    problem = draw(problems_of_any_loss(network.n))
    remembers = st.sampled_from([lw.mhda(), lw.oldest_neighbour(), lw.least_used_edge()])
    design = draw(walks(network.n) | remembers | st.just(lw.iid_uniform()))
    settings = {
        "clip": draw(st.floats(0.01, 20.0)),
        "adjacency": draw(st.sampled_from(["sample", "node"])),
        "adversary": draw(st.sampled_from(["colluding", "neighbour", "final"])),
        "scores": "public",
    }
    if draw(st.booleans()):
        privacy = lw.Privacy(noise=draw(st.floats(0.01, 30.0)), **settings)
    else:  # a budget that some nodes spend, and others do not
        updates = draw(st.integers(1, 2 * STEPS // network.n))
        privacy = lw.Privacy.calibrated(budget=2.0, updates=updates, **settings)
    size = 0.2 / design.bind(network, problem).largest
    arguments = {
        "steps": STEPS,
        "step_size": draw(st.sampled_from([size, lw.Decaying(size, 15)])),
        "replicas": draw(st.sampled_from([1, 3])),
        "seed": draw(st.integers(0, 2**64)),
        "record_walk": True,
        "record_memory": True,
        "record_every": draw(st.sampled_from([None, 7, 1000])),
        "threads": draw(st.sampled_from([1, 2])),
        "privacy": privacy,
    }
    return network, problem, design, arguments


@pytest.mark.more  # tests/unit/engine/test_private_kernel.py has the loop that is compiled anyway
@examples(300, derandomize=True)
@given(case=private_runs())
def test_private_kernel_and_reference_agree(case):
    network, problem, design, arguments = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)
        kernel, reference = (
            lw.run(network, problem, design, backend=backend, **arguments)
            for backend in ("kernel", "reference")
        )
    assert_private_twins(kernel, reference)
