"""The exact law of each rule, enumerated from the rule itself, is the matrix that linear algebra
gives.

A rule maps words to nodes. Evenly spaced words, as many as a multiple of the degree, measure each
outcome to within one word per boundary between outcomes; nothing is drawn at random but the
networks. The matrices are computed here, by dense products.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levywalk as lw
from levywalk.draws import stratified_words, unit
from levywalk.walks import hop, jump_distance, metropolis_hastings
from tests.limits import examples

PER_NEIGHBOUR = 400
JUMP_WORDS = 20_000


@st.composite
def networks(draw, largest=7):
    """A random spanning tree plus random edges: connected, irregular, under either policy."""
    n = draw(st.integers(2, largest))
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, n)}
    extra = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    edges |= draw(st.sets(extra, max_size=6))
    return lw.Network.from_edges(
        sorted(edges), n=n, self_loops=draw(st.sampled_from(["none", "counted"]))
    )


def problem_with(smoothness):
    """A least-squares problem in one dimension with the given L_v = 2a²."""
    features = np.sqrt(np.asarray(smoothness) / 2.0)[:, None]
    return lw.LeastSquares(features, np.zeros(len(features)))


@st.composite
def cases(draw):
    network = draw(networks())
    n = network.n
    numbers = st.lists(st.floats(0.05, 20.0), min_size=n, max_size=n)
    smoothness = np.array(draw(numbers))
    kind = draw(st.sampled_from(["uniform", "importance", "mixed", "degree", "scores"]))
    target, law = {
        "uniform": lambda: ("uniform", np.full(n, 1.0 / n)),
        "importance": lambda: ("importance", smoothness / smoothness.sum()),
        "mixed": lambda: mixed(draw(st.floats(0.0, 1.0)), smoothness),
        "degree": lambda: ("degree", adjacency(network).sum(axis=1) / adjacency(network).sum()),
        "scores": lambda: own(np.array(draw(numbers))),
    }[kind]()
    return network, problem_with(smoothness), target, law


def mixed(mix, smoothness):
    return lw.Mixed(mix), mix / len(smoothness) + (1 - mix) * smoothness / smoothness.sum()


def own(scores):
    return lw.Scores(scores), scores / scores.sum()


@st.composite
def jumps(draw):
    """A jump law and its distance probabilities, written out here."""
    p_jump = draw(st.floats(0.0, 1.0))
    r = draw(st.integers(1, 4))
    i = np.arange(1, r + 1)
    kind = draw(st.sampled_from(["geometric", "fixed", "power"]))
    if kind == "geometric":
        p = draw(st.floats(0.05, 1.0))
        q, distance = p * (1 - p) ** (i - 1), lw.TruncatedGeometric(p, r)
    elif kind == "fixed":
        q, distance = np.where(i == r, 1.0, 0.0), lw.FixedDistance(r)
    else:
        exponent = draw(st.floats(0.0, 3.0))
        q, distance = 1.0 / i**exponent, lw.PowerLaw(exponent, r)
    return lw.JumpLaw(p_jump, distance), p_jump, q / q.sum()


def adjacency(network):
    """A_G under the policy, from the edges: the loop is an entry if and only if it is counted."""
    A = np.zeros((network.n, network.n))
    for v, u in network.to_networkx().edges:
        A[v, u] = A[u, v] = 1.0
    assert (np.diag(A) == (1.0 if network.self_loops == "counted" else 0.0)).all()
    return A


def dense_metropolis(network, law):
    """[impmh], entry by entry."""
    A = adjacency(network)
    degree = A.sum(axis=1)
    P = np.zeros_like(A)
    for v in range(network.n):
        for u in range(network.n):
            if u != v and A[v, u]:
                P[v, u] = min(1.0 / degree[v], law[u] / (degree[u] * law[v]))
        P[v, v] = 1.0 - P[v].sum()
    return P


def dense_levy(network, q):
    A = adjacency(network)
    W = A / A.sum(axis=1, keepdims=True)
    return sum(q[i] * np.linalg.matrix_power(W, i + 1) for i in range(len(q)))


def row_of(bound, rule, v, n):
    """The law of the rule at v, counted over stratified words."""
    view = bound.view(v)
    count = view.degree * PER_NEIGHBOUR
    outcomes = [rule(view, word) for word in stratified_words(count)]
    return np.bincount(outcomes, minlength=n) / count


def enumerate_rule(bound, rule):
    n = bound.network.n
    return np.array([row_of(bound, rule, v, n) for v in range(n)])


def test_a_view_holds_what_the_adjacency_says_and_no_more():
    for policy in ("none", "counted"):
        network = lw.star(5).with_self_loops(policy)
        bound = lw.weight_rw().bind(network, problem_with([3.0, 1.0, 2.0, 5.0, 4.0]))
        A = adjacency(network)
        for v in range(5):
            view = bound.view(v)
            near = np.flatnonzero(A[v])
            assert list(view.neighbours) == near.tolist()
            assert view.degree == len(near)
            assert list(view.neighbour_degrees) == A[near].sum(axis=1).tolist()
            assert list(view.neighbour_scores) == pytest.approx(
                np.array([3.0, 1.0, 2.0, 5.0, 4.0])[near]
            )


@examples(60)
@given(case=cases())
def test_the_metropolis_rule_has_the_law_of_its_matrix_for_any_target(case):
    network, problem, target, law = case
    design = lw.Design(target=target)
    bound = design.bind(network, problem)
    assert bound.law == pytest.approx(law, rel=1e-12)
    expected = dense_metropolis(network, law)
    found = enumerate_rule(bound, metropolis_hastings)
    # One boundary per neighbour: at most one word of PER_NEIGHBOUR each, and all of them add to the
    # stay.
    degree = network.degree[:, None]
    slack = np.where(np.eye(network.n, dtype=bool), 1.0, 1.0 / degree) / PER_NEIGHBOUR + 1e-12
    assert (np.abs(found - expected) <= slack).all()
    assert lw.transition(network, problem, design).toarray() == pytest.approx(expected, abs=1e-13)


@examples(40)
@given(network=networks())
def test_a_hop_is_exactly_uniform_over_the_neighbourhood(network):
    bound = lw.unif_rw().bind(network, problem_with(np.ones(network.n)))
    A = adjacency(network)
    # exact: PER_NEIGHBOUR words fall to each neighbour
    assert (enumerate_rule(bound, hop) == A / A.sum(axis=1, keepdims=True)).all()


@examples(30)
@given(jump=jumps())
def test_one_uniform_decides_jump_and_distance_with_their_probabilities(jump):
    law, p_jump, q = jump
    assert law.distance.probabilities() == pytest.approx(q, rel=1e-12)
    cumulative = law.cumulative()
    found = np.zeros(len(q) + 1)
    for word in stratified_words(JUMP_WORDS):
        found[jump_distance(unit(word), p_jump, cumulative)] += 1.0 / JUMP_WORDS
    # each outcome lies between two boundaries
    assert np.abs(found - np.append(1.0 - p_jump, p_jump * q)).max() <= 2.0 / JUMP_WORDS


@examples(40)
@given(case=cases(), jump=jumps())
def test_metropolis_with_jumps_has_the_law_of_the_algorithm(case, jump):
    network, problem, target, law = case
    jump_law, p_jump, q = jump
    design = lw.Design(target=target, jump=jump_law)
    bound = design.bind(network, problem)
    # The rule's own pieces: distances by the JUMP word, hops by hop words, the decision by its
    # word.
    distances = np.zeros(len(q) + 1)
    for word in stratified_words(2000):
        distances[jump_distance(unit(word), p_jump, jump_law.cumulative())] += 1.0 / 2000
    one_hop, decision = enumerate_rule(bound, hop), enumerate_rule(bound, metropolis_hastings)
    found, power = distances[0] * decision, np.eye(network.n)
    for weight in distances[1:]:
        power = power @ one_hop
        found = found + weight * power
    expected = (1 - p_jump) * dense_metropolis(network, law) + p_jump * dense_levy(network, q)
    assert np.abs(found - expected).max() <= 2.0 / PER_NEIGHBOUR
    assert lw.transition(network, problem, design).toarray() == pytest.approx(expected, abs=1e-13)


@examples(30)
@given(case=cases())
def test_iid_sampling_has_the_law_of_its_target_from_every_node(case):
    network, problem, target, law = case
    design = lw.Design(target=target, moves="iid")
    table = design.bind(network, problem).table
    count = network.n * 2000
    found = (
        np.bincount([table.pick(word) for word in stratified_words(count)], minlength=network.n)
        / count
    )
    assert np.abs(found - law).max() <= network.n / count + 1e-12
    assert lw.transition(network, problem, design).toarray() == pytest.approx(
        np.tile(law, (network.n, 1)), abs=1e-13
    )


@pytest.mark.parametrize(
    ("policy", "leave", "stay_far"), [("none", 1 / 200, 0.0), ("counted", 1 / 300, 1 / 3)]
)
def test_the_five_node_ring_of_the_paper_follows_impmh_and_not_its_figure(policy, leave, stay_far):
    network, problem = lw.ring(5).with_self_loops(policy), problem_with([100.0, 1.0, 1.0, 1.0, 1.0])
    bound = lw.weight_rw().bind(network, problem)
    view = bound.view(0)
    outcomes = [metropolis_hastings(view, word) for word in stratified_words(view.degree * 1000)]
    assert outcomes.count(1) / len(outcomes) == pytest.approx(leave, abs=1e-12)
    far = row_of(bound, metropolis_hastings, 2, 5)
    assert far[2] == pytest.approx(stay_far, abs=1e-12)
    P = lw.transition(network, problem, lw.weight_rw()).toarray()
    assert P[0, 1] == P[0, 4] == pytest.approx(leave, rel=1e-12)
    assert P[2, 2] == pytest.approx(stay_far, abs=1e-15)


def test_a_rule_without_the_degree_ratio_would_be_caught():
    network = lw.star(4)
    law = np.full(4, 0.25)
    A = adjacency(network)
    wrong = A / A.sum(axis=1, keepdims=True)  # min(1, π_u/π_v) = 1 accepts all
    right = enumerate_rule(
        lw.unif_rw().bind(network, problem_with(np.ones(4))), metropolis_hastings
    )
    assert np.abs(right - dense_metropolis(network, law)).max() <= 1.0 / PER_NEIGHBOUR
    assert np.abs(right - wrong).max() > 0.5
