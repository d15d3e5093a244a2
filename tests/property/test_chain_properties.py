"""Invariants of every chain that a design induces, over random networks, targets and both self-loop
policies.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import levywalk as lw
from levywalk.theory import detailed_balance_violation


@st.composite
def networks(draw, largest=12):
    """A random tree and random edges more: connected, irregular, under either policy."""
    n = draw(st.integers(2, largest))
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, n)}
    extra = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    edges |= draw(st.sets(extra, max_size=10))
    return lw.Network.from_edges(
        sorted(edges), n=n, self_loops=draw(st.sampled_from(["none", "counted"]))
    )


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness) / 2.0)[:, None], np.zeros(len(smoothness))
    )


@st.composite
def cases(draw, jumps=True):
    network = draw(networks())
    smoothness = np.array(
        draw(st.lists(st.floats(0.01, 100.0), min_size=network.n, max_size=network.n))
    )
    target = draw(st.sampled_from(["uniform", "importance", "degree", lw.Mixed(0.4)]))
    jump = None
    if jumps:
        p_jump = draw(st.floats(0.01, 0.99))
        distance = draw(
            st.sampled_from(
                [lw.TruncatedGeometric(0.5, 3), lw.PowerLaw(1.0, 5), lw.FixedDistance(2)]
            )
        )
        jump = lw.JumpLaw(p_jump, distance)
    return network, problem_with(smoothness), lw.Design(target=target, jump=jump)


def relabelled(network, problem, order):
    """The same network and problem with node order[i] called i."""
    place = np.argsort(order)
    rows = np.repeat(np.arange(network.n), np.diff(network.indptr))
    once = rows < network.indices
    edges = np.column_stack([place[rows[once]], place[network.indices[once]]])
    return (
        lw.Network.from_edges(edges, n=network.n, self_loops=network.self_loops),
        problem_with(np.asarray(problem.smoothness)[order]),
    )


@settings(deadline=None)
@given(cases())
def test_rows_are_probabilities_in_every_form(case):
    for levy in ("algorithm", "printed"):
        P = lw.transition(*case, levy=levy)
        assert (P.data >= 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-14)
        operator = lw.transition(*case, form="operator", levy=levy)
        np.testing.assert_allclose(operator @ np.eye(P.shape[0]), P.toarray(), atol=1e-14)
        np.testing.assert_allclose(operator.H @ np.eye(P.shape[0]), P.toarray().T, atol=1e-14)


@settings(deadline=None)
@given(cases(jumps=False))
def test_metropolis_hastings_is_in_detailed_balance_with_its_target(case):
    network, problem, design = case
    P = lw.transition(network, problem, design)
    law = design.bind(network, problem).law
    flow = law[:, None] * P.toarray()
    np.testing.assert_allclose(flow, flow.T, atol=1e-16)
    np.testing.assert_allclose(lw.stationary(P), law, rtol=1e-10)
    assert lw.is_reversible(P)
    assert detailed_balance_violation(P) < 1e-13


@settings(deadline=None)
@given(cases())
def test_law_is_stationary_and_positive(case):
    P = lw.transition(*case)
    report = lw.stationary_report(P)
    assert np.abs(P.T @ report.law - report.law).sum() < 1e-14
    assert (report.law > 0).all()
    assert abs(report.law.sum() - 1.0) < 1e-14


@pytest.mark.more
@settings(deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_names_of_the_nodes_do_not_matter(case, random):
    network, problem, design = case
    order = list(range(network.n))
    random.shuffle(order)
    P = lw.transition(network, problem, design)
    Q = lw.transition(*relabelled(network, problem, np.array(order)), design)
    np.testing.assert_allclose(Q.toarray(), P.toarray()[np.ix_(order, order)], atol=1e-14)
    np.testing.assert_allclose(lw.stationary(Q), lw.stationary(P)[order], rtol=1e-9)
    for kind in ("right", "absolute", "singular"):
        first, second = lw.spectral_gap(P, kind), lw.spectral_gap(Q, kind)
        if first.trusted and second.trusted:
            assert abs(first.value - second.value) <= 1e-10 + first.residual + second.residual
    assert lw.period(P) == lw.period(Q)


@settings(deadline=None)
@given(cases())
def test_gaps_keep_their_order(case):
    """1 - σ₂ ≤ 1 - max|λ| ≤ 1 - max Re λ, and each is what dense algebra gives."""
    P = lw.transition(*case)
    gaps = {kind: lw.spectral_gap(P, kind) for kind in ("singular", "absolute", "right")}
    slack = 1e-8 + 2.0 * sum(gap.residual for gap in gaps.values())
    if all(gap.trusted for gap in gaps.values()):
        assert gaps["singular"].value <= gaps["absolute"].value + slack
        assert gaps["absolute"].value <= gaps["right"].value + slack


@settings(deadline=None)
@given(cases())
def test_mixing_time_respects_the_bounds_from_the_gaps(case):
    P = lw.transition(*case)
    exact = lw.mixing_time(P)
    singular, law = lw.spectral_gap(P, "singular"), lw.stationary(P)
    if exact.exact and singular.trusted and 0 < singular.value < 1:
        upper = np.ceil(np.log(0.5 * np.sqrt(law.min())) / np.log1p(-singular.value))
        assert exact.lower <= max(upper, 1.0) + 1
