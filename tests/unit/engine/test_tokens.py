"""Several models at once, against loops that are written anew here."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, Domain, Key, split
from tests.limits import mostly_more

N, DIM, TOKENS, STEPS, GAMMA = 9, 3, 3, 60, 0.05
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=2)
PROBLEM = lw.homogeneous(N, dim=DIM, seed=1)


def run(update=None, meeting="pass", backend="auto", **options):
    return lw.run(
        NETWORK, PROBLEM, options.pop("walk", lw.unif_rw()), steps=STEPS, step_size=GAMMA,
        update=update, tokens=TOKENS, meeting=meeting, backend=backend, seed=7, replicas=2,
        record_memory=True, **options,
    )  # fmt: skip


def key_of(domain, replica, token):
    if token == 0:
        return Key.of(7, domain, replica)
    spawned = np.random.SeedSequence(7, spawn_key=(int(domain), replica, token))
    return Key(*(int(half) for half in spawned.generate_state(2, np.uint64)))


def by_hand(replica, method, meeting):
    """All tokens of one replica, step by step: means of the models, tables, nodes and transfers."""
    keys = [key_of(Domain.WALK, replica, m) for m in range(TOKENS)]
    at = [split(key_of(Domain.START, replica, m).word(0, 0), N)[0] for m in range(TOKENS)]
    models, tables = np.zeros((TOKENS, DIM)), np.zeros((TOKENS, N, DIM))
    visits, transfers, means = np.zeros(N, int), 0, [np.zeros(DIM)]
    met = 0
    for t in range(STEPS):
        for m in range(TOKENS):
            v, x = at[m], models[m]
            visits[v] += 1
            fresh = 2 * (PROBLEM.features[v] @ x - PROBLEM.targets[v]) * PROBLEM.features[v]
            if method == "sgd":
                models[m] = x - GAMMA * fresh
            else:
                models[m] = x - GAMMA * (fresh - tables[m, v] + tables[m].mean(axis=0))
                tables[m, v] = fresh
            neighbours = NETWORK.indices[NETWORK.indptr[v] : NETWORK.indptr[v + 1]]
            index, uniform = split(keys[m].word(t, HOP), len(neighbours))
            u = int(neighbours[index])
            if uniform * NETWORK.degree[u] < NETWORK.degree[v]:
                at[m] = u
                transfers += 1
        if meeting == "average":
            for v in set(at):
                here = [m for m in range(TOKENS) if at[m] == v]
                met += len(here) > 1
                models[here] = models[here].mean(axis=0)
        means.append(models.mean(axis=0))
    return means, tables, visits, transfers, met


@pytest.mark.parametrize("meeting", ["pass", "average"])
@pytest.mark.parametrize("method", mostly_more(["sgd", "saga"], lambda name: name == "sgd"))
def test_tokens_walk_at_the_same_time_each_with_its_own_memory(method, meeting):
    trace = run(getattr(lw, method)(), meeting, record_every=1)
    for r in range(2):
        means, tables, visits, transfers, met = by_hand(r, method, meeting)
        assert (met > 0) == (meeting == "average")
        np.testing.assert_allclose(trace.model[r], means[-1], rtol=1e-9)
        gaps = np.array(means) - PROBLEM.optimum
        np.testing.assert_allclose(trace.distance2[r], np.square(gaps).sum(axis=1), rtol=1e-9)
        np.testing.assert_array_equal(trace.visits[r], visits)
        assert trace.transfers[r, -1] == transfers
        if method == "saga":
            total = trace.memory["update.sum"][r]
            np.testing.assert_allclose(total, tables.sum(axis=1), rtol=1e-9, atol=1e-12)
            slopes = trace.memory["update.slopes"][r]
            stored = slopes @ PROBLEM.sorted_features  # of each token: Σ of what its nodes keep
            np.testing.assert_allclose(total, stored, rtol=1e-9, atol=1e-12)
    numbers = 2 if method == "saga" else 1  # vectors that a token carries
    np.testing.assert_array_equal(trace.bytes, trace.transfers * 8 * DIM * numbers)
    assert trace.provenance["tokens"] == TOKENS


@pytest.mark.parametrize("walk", [lw.mhlj(), lw.oldest_neighbour()], ids=repr)
def test_kernels_and_threads_make_no_difference(walk):
    fast, plain = run(walk=walk, backend="kernel", threads=2), run(walk=walk, backend="reference")
    for name in ("visits", "hops", "transfers", "small_messages", "final_node"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), err_msg=name)
    np.testing.assert_allclose(fast.model, plain.model, rtol=1e-9)
    alone = run(walk=walk, backend="kernel", threads=1)
    np.testing.assert_array_equal(fast.model, alone.model)


def test_the_first_token_is_that_of_a_run_with_one():
    several = run(walk=lw.mhlj())
    one = lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=STEPS, step_size=GAMMA, seed=7, replicas=2)
    np.testing.assert_array_equal(several.final_node, one.final_node)


@pytest.mark.more
def test_a_replica_diverges_with_its_first_token():
    with pytest.warns(lw.errors.DivergedWarning, match="2 of 2 replicas"):
        trace = lw.run(
            NETWORK, PROBLEM, lw.unif_rw(), steps=4000, step_size=5.0, tokens=2, replicas=2, seed=7,
            meeting="average", backend="reference",
        )  # fmt: skip
    assert (trace.diverged_at > 0).all()
    assert np.isinf(trace.distance2[:, -1]).all()
    assert np.isfinite(trace.model).all()


def test_starts_and_first_models_of_tokens():
    first = np.arange(2 * DIM, dtype=float).reshape(2, DIM)
    nodes = np.array([[0, 1, 2], [3, 4, 5]])
    trace = run(start=nodes, x0=first)
    assert np.allclose(trace.distance2[:, 0], np.square(first - PROBLEM.optimum).sum(axis=1))
    same = run(start=[0, 3], x0=first)
    assert not np.array_equal(same.visits, trace.visits)
    with pytest.raises(lw.InvalidParameter, match=r"one per replica and token \(2, 3\)"):
        run(start=[[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"walk": lw.switching(lw.unif_rw(), lw.mhlj())}, "tokens must be 1 for a switching"),
        ({"resume": "state.npz"}, "resume must be None"),
        ({"record_walk": True}, "record_walk must be False"),
        ({"meeting": "merge"}, "meeting must be"),
        ({"meeting": "average", "backend": "kernel"}, "averaged when they meet have no kernel"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_not_possible_is_refused(options, said):
    with pytest.raises(lw.InvalidParameter, match=said):
        run(**options)


def test_bad_numbers_of_tokens_are_refused():
    for tokens in (0, 1.5, "two"):
        with pytest.raises(lw.InvalidParameter, match="tokens"):
            lw.run(NETWORK, PROBLEM, lw.unif_rw(), steps=5, step_size=0.1, tokens=tokens)
    with pytest.raises(lw.InvalidParameter, match="tokens=2"):
        lw.run(NETWORK, PROBLEM, lw.unif_rw(), steps=5, step_size=0.1, meeting="average")
