"""Their figures from their settings: the settings are those that the sources state."""

from __future__ import annotations

import math

import numpy as np
import pytest

import levywalk as lw
from levywalk.reproduction import published
from levywalk.reproduction.published import (
    GRAPHS,
    METHODS,
    POINTS,
    SOURCES,
    instance,
    measure_published,
    misfit,
)
from levywalk.sweeps.store import Result

SHORT = {"steps": 60, "paths": 3, "seed": 5}


def asked(source, graph, method):
    return SHORT | {"source": source, "graph": graph, "method": method}


def test_the_notebook_has_no_noise_and_one_feature_that_is_one():
    network, problem = instance("notebook", "grid", 5)
    assert network.n == 1000
    assert (problem.features[:, 0] == 1.0).all()
    assert problem.loss(problem.optimum) < 1e-20


def test_the_text_has_the_noise_of_its_figures():
    for graph, snr in (("ring", 33_000.0), ("ws", 115.0)):
        _, problem = instance("text", graph, 5)
        residual = problem.targets - problem.features @ problem.truth
        found = (problem.truth @ problem.truth) / residual.var()
        assert found == pytest.approx(snr, rel=0.15)


def test_the_notebook_steps_by_half_of_its_gamma_because_its_loss_is_halved():
    arrays, numbers = measure_published(asked("notebook", "ring", "WeightRW"))
    assert numbers["gamma"] == 0.005
    network, problem = instance("notebook", "ring", 5)
    x = published.generator(5, published.Domain.DATA, 77).standard_normal(10)
    v = network.n - 1  # the first update is at the last node, by their gradient a(aᵀx - y)
    a, y = problem.features[v], problem.targets[v]
    weight = np.mean(problem.smoothness) / problem.smoothness[v]
    after = x - 0.01 * weight * a * (a @ x - y)
    assert arrays["mse"][0] == pytest.approx(problem.loss(x))
    assert arrays["mse"][1] == pytest.approx(problem.loss(after))


def test_jumps_are_printed_where_degrees_differ_and_the_algorithms_on_the_ring():
    assert isinstance(published._design("grid", "MHLJ(0.9)"), lw.walks.PrintedJumps)
    assert published._design("ring", "MHLJ(0.9)") == lw.mhlj(0.9)


def test_by_their_rule_mhlj_has_the_step_size_of_weight_rw():
    gammas = {
        method: measure_published(asked("text", "ring", method))[1]["gamma"]
        for method in ("UnifRW", "WeightRW", "MHLJ(0.1)")
    }
    assert gammas["WeightRW"] == gammas["MHLJ(0.1)"]
    assert gammas["UnifRW"] > 0.0


def test_a_perfect_fit_has_a_misfit_of_one_in_any_unit():
    points = next(p for p in POINTS if p.graph == "ring" and p.method == "MHLJ")
    assert points.steps[2:5] == pytest.approx((361, 641, 992), abs=2)  # as others read them
    step = np.array([0, *points.steps, 9000])
    for unit in (1.0, 100.0):
        below = 0.999 * np.array(points.errors)  # so that rounding does not matter
        curve = unit * np.array([[points.first, *below, 1e-9]])
        found = misfit(points, step, curve)
        assert (found.factor, found.slope_factor) == (1.0, 1.0)
    assert math.isinf(misfit(points, step, np.ones((1, len(step)))).factor)
    assert "read by us" in points.source


def test_the_figure_overlays_the_published_points_and_the_table_has_a_row_for_each_reading():
    step = np.arange(0, 20_000, 20)
    result = Result({}, {"step": step, "mse": 10.0 ** (-step / 400.0)}, {})
    tasks = published.descriptions([1])
    results = published.grouped(tasks, [result] * len(tasks))
    assert len(results) == len(SOURCES) * len(GRAPHS) * len(METHODS)
    data = published.figure(results)
    names = [line.name for line in data.rows[0][0].lines]
    assert names == [*METHODS, *(f"published: {m}" for m in ("UnifRW", "WeightRW", "MHLJ"))]
    assert len(published.table(results)) == 2 + 3 * 2 * 4
