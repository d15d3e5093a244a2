"""Gaps, period, mixing, Kemeny constant and hitting times: by hand, by dense algebra, and where
entrapment is worst.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import levywalk as lw
from levywalk.theory import detailed_balance_violation
from levywalk.theory.chain import spectrum, times
from levywalk.theory.chain.davidson import Eigenpair
from tests.limits import mostly_more

KINDS = ("right", "absolute", "singular")


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness, dtype=float) / 2.0)[:, None], np.zeros(len(smoothness))
    )


def trap(n, factor=100.0):
    smoothness = np.ones(n)
    smoothness[n // 3] = factor
    return lw.ring(n), problem_with(smoothness)


def dense_gaps(P):
    """All three gaps from full decompositions, with the Perron root removed by projection."""
    P = P.toarray() if sparse.issparse(P) else np.asarray(P)
    root = np.sqrt(lw.stationary(P))
    complement = scipy.linalg.null_space(root[None, :])
    S = complement.T @ (root[:, None] * P / root) @ complement
    values = scipy.linalg.eigvals(S)
    return {
        "right": 1.0 - values.real.max(),
        "absolute": 1.0 - np.abs(values).max(),
        "singular": 1.0 - scipy.linalg.svdvals(S)[0],
    }


def biased_ring(n, forth, back):
    """Stay, forth and back around a ring: the roots are known, and they are complex."""
    eye = np.arange(n)
    rows, columns = np.tile(eye, 3), np.concatenate([eye, (eye + 1) % n, (eye - 1) % n])
    data = np.repeat([1.0 - forth - back, forth, back], n)
    P = sparse.csr_array((data, (rows, columns)), shape=(n, n))
    angle = 2.0 * np.pi * np.arange(1, n) / n
    return P, 1.0 - forth - back + forth * np.exp(1j * angle) + back * np.exp(-1j * angle)


@pytest.fixture
def iterate(monkeypatch):
    """Make small chains take the way of large ones."""
    monkeypatch.setattr(spectrum, "SMALL", 10)
    monkeypatch.setattr(spectrum, "_SMALL_EIG", 10)


# ---- by hand -----------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.3), (0.9, 0.8), (1e-9, 1e-9)])
def test_two_states_by_hand(a, b):
    P = [[1 - a, a], [b, 1 - b]]
    assert lw.spectral_gap(P).value == pytest.approx(a + b, rel=1e-6)
    assert lw.spectral_gap(P, "absolute").value == pytest.approx(1 - abs(1 - a - b), rel=1e-6)
    assert lw.kemeny_constant(P) == pytest.approx(1 / (a + b), rel=1e-6)
    assert lw.hitting_times(P, 1).tolist() == pytest.approx([1 / a, 0.0], rel=1e-6)
    assert lw.is_reversible(P)
    assert lw.period(P) == 1


def test_complete_graph_by_hand():
    n = 7
    P = lw.transition(lw.complete(n), lw.homogeneous(n), lw.simple_rw())
    assert lw.spectral_gap(P).value == pytest.approx(n / (n - 1))
    assert lw.spectral_gap(P, "absolute").value == pytest.approx(1 - 1 / (n - 1))
    assert lw.kemeny_constant(P) == pytest.approx((n - 1) ** 2 / n)
    assert lw.hitting_times(P, 2)[0] == pytest.approx(n - 1)
    assert lw.mixing_time(P).lower == 1


def test_star_by_hand():
    n = 9
    P = lw.transition(lw.star(n), lw.homogeneous(n), lw.simple_rw())
    assert lw.period(P) == 2
    assert lw.spectral_gap(P).value == pytest.approx(1.0)
    assert lw.hitting_times(P, 3)[0] == pytest.approx(2 * (n - 1) - 1)
    for kind in ("absolute", "singular"):
        gap = lw.spectral_gap(P, kind)
        assert (gap.value, gap.method, gap.trusted) == (0.0, "period", True)
    assert lw.mixing_time(P).lower == math.inf


def test_five_ring_of_the_paper_by_hand():
    """[fivring]: the antisymmetric modes of the four light nodes and the symmetric ones with the
    heavy node.
    """
    P = lw.transition(lw.ring(5), problem_with([100, 1, 1, 1, 1]), lw.weight_rw())
    symmetric = np.linalg.eigvals([[0.99, 0.01, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    roots = np.concatenate([np.sort(symmetric)[:2], np.linalg.eigvals([[0.0, 0.5], [0.5, -0.5]])])
    assert lw.spectral_gap(P).value == pytest.approx(1 - roots.max(), rel=1e-12)
    assert lw.spectral_gap(P, "absolute").value == pytest.approx(1 - np.abs(roots).max(), rel=1e-12)
    assert lw.kemeny_constant(P) == pytest.approx((1 / (1 - roots)).sum(), rel=1e-12)


def test_even_ring_has_period_two_and_odd_ring_one():
    """Ruling 4: UnifRW on Ring(1000) has the absolute gap 0, and the right gap is reported beside
    it.
    """
    P = lw.transition(lw.ring(1000), lw.homogeneous(1000), lw.unif_rw())
    assert lw.period(P) == 2
    assert lw.spectral_gap(P, "absolute").value == 0.0
    assert lw.spectral_gap(P).value == pytest.approx(1 - math.cos(2 * math.pi / 1000), rel=1e-8)
    assert lw.period(lw.transition(lw.ring(999), lw.homogeneous(999), lw.unif_rw())) == 1
    looped = lw.transition(lw.ring(1000, self_loops="counted"), lw.homogeneous(1000), lw.unif_rw())
    assert lw.period(looped) == 1


@pytest.mark.parametrize("n", [2, 3, 12])
def test_directed_cycle_has_the_period_of_its_length(n):
    cycle = np.roll(np.eye(n), 1, axis=1)
    assert lw.period(cycle) == n
    assert lw.spectral_gap(cycle, "absolute").value == 0.0
    assert lw.spectral_gap(cycle).value == pytest.approx(1 - math.cos(2 * math.pi / n))
    assert detailed_balance_violation(cycle) == pytest.approx(0.0 if n == 2 else 1.0)
    assert lw.is_reversible(cycle) == (n == 2)


@pytest.mark.parametrize("n", [40, 3_000])
def test_complex_roots_of_a_biased_ring(n):
    P, roots = biased_ring(n, 0.5, 0.2)
    right = lw.spectral_gap(P)
    assert right.trusted
    assert right.value == pytest.approx(1 - roots.real.max(), rel=1e-5)
    absolute = lw.spectral_gap(P, "absolute")  # a normal matrix: singular values are the moduli
    assert absolute.trusted
    assert absolute.value == pytest.approx(1 - np.abs(roots).max(), rel=1e-5)
    assert lw.spectral_gap(P, "singular").value == pytest.approx(absolute.value, rel=1e-5)


# ---- where entrapment is worst -------------------------------------------------


@pytest.mark.more
def test_trapped_ring_of_twenty_thousand_nodes():
    """Lanczos does not converge here and LOBPCG is wrong: a right gap of 4.9e-8, an absolute gap of
    1.2e-8.
    """
    n = 20_000
    P = lw.transition(*trap(n), lw.weight_rw())
    right, absolute = lw.spectral_gap(P), lw.spectral_gap(P, "absolute")
    assert right.method == absolute.method == "shift-invert"
    assert right.trusted
    assert absolute.trusted
    assert right.value == pytest.approx(trapped_ring_gap(n, 100.0), rel=1e-6)
    assert right.value == pytest.approx(4.886e-8, rel=1e-3)
    assert absolute.value == pytest.approx(1.2337e-8, rel=1e-3)
    jumping = lw.transition(*trap(n), lw.mhlj())
    for kind in KINDS:
        gap = lw.spectral_gap(jumping, kind)
        assert gap.trusted
        assert gap.value == pytest.approx(5.213e-8, rel=1e-3)


def trapped_ring_gap(n, factor):
    """The symmetric mode cos(kx + c) around the light nodes meets the heavy node's equation; solved
    by bisection.

    With 1-λ = 1-cos θ and the mode cos(θ(j - n/2)) at distance j, node 0 asks (1-cos θ) f(0) =
    (f(0) - f(1)) / factor. The antisymmetric mode sin(θj), θ = 2π/n, has the gap 1 - cos(2π/n),
    which is larger.
    """
    from scipy.optimize import brentq

    def equation(angle):
        # f(0) - f(1) without cancellation
        step = -2.0 * math.sin(angle * (n - 1) / 2.0) * math.sin(angle / 2.0)
        return 2.0 * math.sin(angle / 2.0) ** 2 * math.cos(angle * n / 2.0) - step / factor

    angle = brentq(equation, 1.1 * math.pi / n, 2.0 * math.pi / n, xtol=1e-18, rtol=1e-14)
    return 2.0 * math.sin(angle / 2.0) ** 2


@pytest.mark.parametrize("design", [lw.weight_rw(), lw.mhlj()], ids=["WeightRW", "MHLJ"])
@pytest.mark.parametrize(
    "network",
    mostly_more(
        [
            lw.ring(401),
            lw.grid(12, 25),
            lw.watts_strogatz(400, 4, 0.1),
            lw.barabasi_albert(300, 1),
            lw.barbell(30, 5),
        ],
        lambda network: network.n < 300,
    ),
    ids=lambda network: network.name,
)
@pytest.mark.parametrize("fill", [True, False], ids=["factors", "diagonal"])
def test_iterations_equal_dense_algebra(network, design, fill, iterate, monkeypatch):
    monkeypatch.setattr("levywalk.theory.chain.symmetrised.low_fill", lambda P: fill)
    P = lw.transition(network, lw.heterogeneous(network.n, important=3), design)
    expected = dense_gaps(P)
    for kind in KINDS:
        gap = lw.spectral_gap(P, kind)
        assert gap.method in ("shift-invert", "davidson")
        if gap.trusted:
            assert gap.value == pytest.approx(expected[kind], rel=2e-3, abs=1e-13)
        else:
            assert gap.is_bound
            assert gap.value >= expected[kind] * (1 - 1e-9)
    assert lw.spectral_gap(P).trusted


def test_dense_gaps_equal_full_decompositions():
    for design in (lw.weight_rw(), lw.mhlj(), lw.mhlj(p_jump=0.9), lw.simple_rw()):
        P = lw.transition(
            lw.watts_strogatz(150, 4, 0.1), lw.heterogeneous(150, important=3), design
        )
        expected = dense_gaps(P)
        for kind in KINDS:
            gap = lw.spectral_gap(P, kind)
            assert gap.trusted
            assert gap.value == pytest.approx(expected[kind], rel=1e-8)


@pytest.mark.more
def test_operator_has_the_gaps_of_its_matrix():
    n = 2_500
    network, problem = lw.watts_strogatz(n, 4, 0.1), lw.heterogeneous(n, important=3)
    for design in (lw.weight_rw(), lw.mhlj()):
        P = lw.transition(network, problem, design)
        operator = lw.transition(network, problem, design, form="operator")
        for kind in KINDS:
            expected, gap = lw.spectral_gap(P, kind), lw.spectral_gap(operator, kind)
            assert gap.trusted
            assert gap.value == pytest.approx(expected.value, rel=1e-5)
    foreign = aslinearoperator(lw.transition(network, problem, lw.weight_rw()))
    assert lw.spectral_gap(foreign).value == pytest.approx(
        lw.spectral_gap(lw.transition(network, problem, lw.weight_rw())).value, rel=1e-3
    )


def test_independent_sampling_has_gap_one():
    for n in (50, 2_500):
        problem = lw.heterogeneous(n, important=1)
        for kind in KINDS:
            gap = lw.spectral_gap(
                lw.transition(lw.ring(n), problem, lw.iid_weighted(), form="operator"), kind
            )
            assert gap.trusted
            assert gap.value == pytest.approx(1.0, abs=1e-9)


# ---- what cannot be trusted ---------------------------------------------------


@pytest.mark.more
def test_untrusted_answer_is_a_rigorous_bound_and_says_so(monkeypatch):
    n = 2_500
    network, problem = lw.watts_strogatz(n, 4, 0.1), lw.heterogeneous(n, important=3)
    monkeypatch.setattr("levywalk.theory.chain.symmetrised.low_fill", lambda P: False)
    for design in (lw.weight_rw(), lw.mhlj()):
        P = lw.transition(network, problem, design)
        for kind in KINDS:
            with monkeypatch.context() as patch:
                truth = lw.spectral_gap(P, kind)
                patch.setattr(spectrum, "_ITERATIONS", {"shift-invert": 1, "davidson": 2})
                gap = lw.spectral_gap(P, kind)
            assert not gap.trusted
            assert gap.is_bound
            assert gap.value >= truth.value
            assert "≤" in str(gap)
            assert "not trusted" in str(gap)


def test_missed_eigenvalue_is_found_out_by_counting(monkeypatch):
    """A converged pair that is not the smallest has a perfect residual; only the inertia tells."""
    P = lw.transition(*trap(3_000), lw.weight_rw())
    truth = lw.spectral_gap(P)
    assert truth.trusted

    def second(*args, **kwargs):
        return Eigenpair(4.0 * truth.value + 0j, np.zeros(3_000), 0.0, 1)

    monkeypatch.setattr(spectrum, "_smallest", second)
    gap = lw.spectral_gap(P)
    assert not gap.trusted
    assert gap.is_bound


def test_gap_below_rounding_is_not_trusted():
    tiny = 1e-17
    gap = lw.spectral_gap([[1 - tiny, tiny, 0], [0.5, 0, 0.5], [0, tiny, 1 - tiny]])
    assert gap.trusted is False or gap.value == pytest.approx(tiny, rel=1e-3)


# ---- reversibility, mixing, Kemeny, hitting -----------------------------------


def test_mhlj_is_not_reversible_and_metropolis_hastings_is():
    network, problem = lw.watts_strogatz(100, 4, 0.1), lw.heterogeneous(100, important=2)
    weighted, jumping = (
        lw.transition(network, problem, design) for design in (lw.weight_rw(), lw.mhlj())
    )
    assert lw.is_reversible(weighted)
    assert detailed_balance_violation(weighted) < 1e-14
    assert not lw.is_reversible(jumping)
    assert detailed_balance_violation(jumping) > 1e-4
    assert lw.is_reversible(jumping, tol=1.0)


def test_exact_mixing_time_is_the_first_step_that_is_close():
    P = lw.transition(lw.watts_strogatz(60, 4, 0.1), lw.heterogeneous(60, important=1), lw.mhlj())
    dense, law = P.toarray(), lw.stationary(P)
    for epsilon in (0.25, 0.01):
        result = lw.mixing_time(P, epsilon)
        assert result.exact
        distance = [
            np.abs(np.linalg.matrix_power(dense, int(t)) - law).sum(axis=1).max() / 2
            for t in (result.lower - 1, result.lower)
        ]
        assert distance[0] > epsilon >= distance[1]


@pytest.mark.parametrize("design", [lw.weight_rw(), lw.mhlj()], ids=["WeightRW", "MHLJ"])
def test_mixing_bounds_hold_the_exact_time(design, monkeypatch):
    P = lw.transition(lw.ring(101), lw.heterogeneous(101, important=1), design)
    exact = lw.mixing_time(P)
    monkeypatch.setattr(times, "_EXACT_LIMIT", 10)
    bounds = lw.mixing_time(P)
    assert not bounds.exact
    assert bounds.lower <= exact.lower <= bounds.upper < math.inf
    assert "between" in str(bounds)


def test_hitting_times_and_kemeny_agree_with_each_other_and_with_the_eigenvalues():
    P = lw.transition(lw.watts_strogatz(80, 4, 0.1), lw.heterogeneous(80, important=2), lw.mhlj())
    law = lw.stationary(P)
    hitting = np.array([lw.hitting_times(P, u) for u in range(80)])
    kemeny = lw.kemeny_constant(P)
    np.testing.assert_allclose(law @ hitting, kemeny, rtol=1e-9)  # the same from every start
    values = np.sort_complex(np.linalg.eigvals(P.toarray()))[:-1]
    assert (1 / (1 - values)).sum().real == pytest.approx(kemeny, rel=1e-9)


def test_hitting_times_of_a_ring_by_hand_and_by_iterations(monkeypatch):
    n = 1001
    P = lw.transition(lw.ring(n), lw.homogeneous(n), lw.simple_rw())
    distance = np.arange(n)
    np.testing.assert_allclose(lw.hitting_times(P, 0), distance * (n - distance), rtol=1e-8)
    assert lw.hitting_times(P, [0, 2])[1] == pytest.approx(1.0)
    monkeypatch.setattr(times, "low_fill", lambda P: False)
    world = lw.transition(lw.watts_strogatz(2_000, 4, 0.1), lw.heterogeneous(2_000), lw.mhlj())
    iterated = lw.hitting_times(world, 7)
    monkeypatch.undo()
    np.testing.assert_allclose(iterated, lw.hitting_times(world, 7), rtol=1e-7)


@pytest.mark.more
def test_quantecon_agrees_on_period_and_law():
    from quantecon.markov import MarkovChain  # importing it takes a second

    for network in (lw.ring(8), lw.ring(9), lw.grid(3, 4), lw.star(5)):
        P = lw.transition(network, lw.homogeneous(network.n), lw.simple_rw())
        independent = MarkovChain(P.toarray())
        assert lw.period(P) == independent.period
        np.testing.assert_allclose(
            lw.stationary(P), independent.stationary_distributions[0], rtol=1e-12
        )


def test_total_variation_by_hand():
    assert lw.total_variation([1, 0, 0], [0, 0.5, 0.5]) == 1.0
    assert lw.total_variation([0.2, 0.8], [0.2, 0.8]) == 0.0
    for p, q in (
        ([1.0], [0.5, 0.5]),
        ([0.5, 0.6], [0.5, 0.5]),
        ("p", [1.0]),
        ([[1.0]], [1.0]),
        ([-1, 2], [0, 1]),
    ):
        with pytest.raises(lw.InvalidParameter):
            lw.total_variation(p, q)


@pytest.mark.parametrize(
    "call",
    [
        lambda P: lw.spectral_gap(P, "left"),
        lambda P: lw.spectral_gap(P, stationary=[0.5, 0.5]),
        lambda P: lw.spectral_gap(P, stationary=[1.0]),
        lambda P: lw.mixing_time(P, 0.0),
        lambda P: lw.mixing_time(P, 1.5),
        lambda P: lw.hitting_times(P, 2),
        lambda P: lw.hitting_times(P, []),
        lambda P: lw.hitting_times(P, 0.5),
        lambda P: lw.is_reversible(P, tol=0.0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(lw.InvalidParameter):
        call(np.array([[0.9, 0.1], [0.3, 0.7]]))


def test_what_needs_entries_or_a_dense_inverse_says_so():
    n = 5_000
    operator = lw.transition(lw.ring(n), lw.homogeneous(n, dim=1), lw.mhlj(), form="operator")
    assert lw.period(operator) == 1  # the design gives it
    with pytest.raises(lw.InvalidParameter, match="form='matrix'"):
        lw.period(aslinearoperator(sparse.eye_array(n, format="csr")))
    with pytest.raises(lw.InvalidParameter, match="form='matrix'"):
        detailed_balance_violation(operator)
    with pytest.raises(lw.TooLarge, match="form='matrix'"):
        lw.hitting_times(operator, 0)
    with pytest.raises(lw.TooLarge, match="4000"):
        lw.kemeny_constant(operator)
