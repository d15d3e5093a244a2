"""Random families against exact laws and against networkx: chi-square tests over labelled graphs.

Seeds are fixed, so a test passes or fails for good; the level says how unlikely a false alarm was
when they were chosen. Every test is shown to have teeth: a mutant of the generator must fail it.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from levywalk import network as lw
from levywalk.errors import InvalidNetwork
from levywalk.network.edge_sets import distinct_pairs
from tests.limits import mostly_more, soak

LEVEL = 1e-8  # far below the share of one test in the suite's false-alarm budget of 1e-6
DRAWS = 8_000 if soak() else 3_000


def edges_of(network):
    """A labelled graph as a hashable value."""
    return frozenset(zip(*(side.tolist() for side in network._upper()), strict=True))


def graph_edges(graph):
    return frozenset((min(u, v), max(u, v)) for u, v in graph.edges)


def fit(sample, law):
    """The p-value of a sample under an exact law;
    rare outcomes are pooled, impossible ones give 0.
    """
    counts = Counter(sample)
    if any(law.get(outcome, 0.0) == 0.0 for outcome in counts):
        return 0.0
    size = len(sample)
    common = [outcome for outcome, p in law.items() if p * size >= 5]
    observed = [counts[outcome] for outcome in common]
    expected = [law[outcome] * size for outcome in common]
    if sum(expected) < size - 5:
        observed.append(size - sum(observed))
        expected.append(size - sum(expected))
    total = sum(observed) / sum(expected)
    return stats.chisquare(observed, [e * total for e in expected]).pvalue


def agree(first, second):
    """The p-value of two samples having one law."""
    a, b = Counter(first), Counter(second)
    common = [outcome for outcome in a | b if a[outcome] + b[outcome] >= 10]
    table = np.array([[a[o] for o in common], [b[o] for o in common]])
    rest = np.array([[len(first)], [len(second)]]) - table.sum(axis=1, keepdims=True)
    if rest.sum() >= 10:
        table = np.hstack([table, rest])
    return stats.chi2_contingency(table).pvalue


# ---- Erdős–Rényi: p^m (1-p)^(pairs-m), and a uniform set of pairs given their number ----------


def er_law(n, p):
    pairs = list(combinations(range(n), 2))
    sets = (frozenset(s) for m in range(len(pairs) + 1) for s in combinations(pairs, m))
    return {s: p ** len(s) * (1 - p) ** (len(pairs) - len(s)) for s in sets}


@cache
def er_sample(n, p):
    def one(seed):
        try:
            return edges_of(lw.erdos_renyi(n, p, seed=seed))
        except InvalidNetwork:  # the graph without edges is no network
            return frozenset()

    return [one(seed) for seed in range(DRAWS)]


# The first draws pairs, the others one coin per pair.
@pytest.mark.more
@pytest.mark.parametrize("p", mostly_more([0.1, 0.3, 0.7], lambda p: p == 0.1))
def test_erdos_renyi_has_the_exact_law(p):
    assert fit(er_sample(4, p), er_law(4, p)) > LEVEL


@pytest.mark.more
def test_a_slightly_different_density_is_noticed():
    assert fit(er_sample(4, 0.3), er_law(4, 0.35)) < LEVEL


def first_sorted(rng, n, count):
    """The mutant: too many pairs drawn, and the smallest kept instead of the first."""
    keys = np.unique(distinct_pairs(rng, n, count + 2))
    return keys[:count]


def pair_sets(sampler):
    rng = np.random.default_rng(5)
    return [tuple(sampler(rng, 4, 3).tolist()) for _ in range(DRAWS)]


@pytest.mark.more
def test_a_fixed_number_of_pairs_is_a_uniform_set():
    keys = [u << 32 | v for u, v in combinations(range(4), 2)]
    law = dict.fromkeys(combinations(keys, 3), 1 / 20)
    assert fit(pair_sets(distinct_pairs), law) > LEVEL
    assert fit(pair_sets(first_sorted), law) < LEVEL


# ---- Watts–Strogatz: the exact law of networkx's rewiring, edge after edge ----------


def ws_law(n, k, p, forbid_existing=True):
    """Enumerate every coin and new end; ``forbid_existing`` False is the mutant that forgets new
    edges.
    """
    lattice = [tuple(sorted((u, (u + j) % n))) for j in range(1, k // 2 + 1) for u in range(n)]
    starts = [u for _ in range(1, k // 2 + 1) for u in range(n)]
    law = {frozenset(lattice): 1.0}
    for u, edge in zip(starts, lattice, strict=True):
        after: Counter = Counter()
        for graph, mass in law.items():
            known = graph if forbid_existing else frozenset(lattice)
            free = [w for w in range(n) if w != u and tuple(sorted((u, w))) not in known]
            after[graph] += mass * (1 - p if free else 1.0)
            for w in free:
                after[graph - {edge} | {tuple(sorted((u, w)))}] += mass * p / len(free)
        law = dict(after)
    return law


@cache
def ws_sample(n, k, p):
    return [edges_of(lw.watts_strogatz(n, k, p, seed=seed)) for seed in range(DRAWS)]


MORE = pytest.mark.more


# in the last, some nodes come to know all others and keep their edges
@pytest.mark.more
@pytest.mark.parametrize(
    ("n", "k", "p"),
    [pytest.param(5, 2, 0.5, marks=MORE), pytest.param(5, 3, 1.0, marks=MORE), (6, 4, 0.6)],
)
def test_watts_strogatz_has_the_exact_law_of_networkx_rewiring(n, k, p):
    assert fit(ws_sample(n, k, p), ws_law(n, k, p)) > LEVEL


@pytest.mark.more
@pytest.mark.parametrize(("n", "k", "p"), [pytest.param(5, 2, 0.5, marks=MORE), (6, 4, 0.6)])
def test_a_rewiring_that_ignores_existing_edges_is_noticed(n, k, p):
    assert fit(ws_sample(n, k, p), ws_law(n, k, p, forbid_existing=False)) < LEVEL


def test_the_enumerated_law_is_that_of_networkx():
    sample = [graph_edges(nx.watts_strogatz_graph(6, 4, 0.6, seed=seed)) for seed in range(DRAWS)]
    assert fit(sample, ws_law(6, 4, 0.6)) > LEVEL


# ---- Barabási–Albert: successive draws without replacement, in proportion to degree ----------


def ba_law(n, power=1):
    """The exact law for m = 2; ``power`` 0 is the mutant that attaches uniformly."""
    law = {frozenset({(0, 1), (0, 2)}): 1.0}
    for newcomer in range(3, n):
        after: Counter = Counter()
        for graph, mass in law.items():
            degree = Counter(v for edge in graph for v in edge)
            weight = {v: degree[v] ** power for v in range(newcomer)}
            total = sum(weight.values())
            for a, b in combinations(range(newcomer), 2):
                both = (
                    weight[a]
                    * weight[b]
                    / total
                    * (1 / (total - weight[a]) + 1 / (total - weight[b]))
                )
                after[graph | {(a, newcomer), (b, newcomer)}] += mass * both
        law = dict(after)
    return law


@pytest.mark.more
def test_barabasi_albert_has_the_exact_law():
    sample = [edges_of(lw.barabasi_albert(6, 2, seed=seed)) for seed in range(DRAWS)]
    assert fit(sample, ba_law(6)) > LEVEL
    assert fit(sample, ba_law(6, power=0)) < LEVEL


def test_the_law_of_attachment_is_that_of_networkx():
    sample = [graph_edges(nx.barabasi_albert_graph(6, 2, seed=seed)) for seed in range(DRAWS)]
    assert fit(sample, ba_law(6)) > LEVEL


# ---- random regular: networkx's own law, which is not quite uniform ----------


@cache
def regular_sample(n, degree):
    return [edges_of(lw.random_regular(n, degree, seed=seed)) for seed in range(DRAWS)]


@pytest.mark.more
def test_random_regular_has_the_law_of_networkx():
    ours = regular_sample(6, 3)
    theirs = [graph_edges(nx.random_regular_graph(3, 6, seed=seed)) for seed in range(DRAWS)]
    assert len(set(ours)) == 70  # all labelled cubic graphs on six nodes
    assert agree(ours, theirs) > LEVEL


@pytest.mark.more
def test_a_regular_graph_made_by_shuffling_one_graph_is_noticed():
    rng = np.random.default_rng(1)
    prism = nx.circular_ladder_graph(3)
    orders = [dict(enumerate(rng.permutation(6).tolist())) for _ in range(DRAWS)]
    shuffled = [graph_edges(nx.relabel_nodes(prism, order)) for order in orders]
    assert agree(regular_sample(6, 3), shuffled) < LEVEL


@pytest.mark.more
def test_networks_too_large_to_enumerate_have_the_degrees_of_networkx():
    # degrees of one graph depend on each other a little; the level leaves room for that
    def degrees(draw):
        return [int(d) for seed in range(60) for d in draw(seed)]

    for ours, theirs in [
        (lambda s: lw.watts_strogatz(300, 6, 0.4, seed=s).degree,
         lambda s: [d for _, d in nx.watts_strogatz_graph(300, 6, 0.4, seed=s).degree]),
        (lambda s: lw.erdos_renyi(300, 0.03, seed=s).degree,
         lambda s: [d for _, d in nx.gnp_random_graph(300, 0.03, seed=s).degree]),
    ]:  # fmt: skip
        assert agree(degrees(ours), degrees(theirs)) > LEVEL
    more = degrees(lambda s: lw.watts_strogatz(300, 6, 0.5, seed=s).degree)
    assert agree(more, degrees(lambda s: lw.watts_strogatz(300, 6, 0.4, seed=s).degree)) < LEVEL
