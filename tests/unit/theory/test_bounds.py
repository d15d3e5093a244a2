"""The terms of the bounds against the formulas written out by hand, and the corollaries against the
bounds.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import levywalk as lw
from levywalk.theory.judge import moments
from levywalk.theory.judge.bound_forms import corrected
from levywalk.theory.judge.bounds import _constants
from levywalk.theory.judge.setting import make_setting

BOUNDS = sys.modules["levywalk.theory.judge.bounds"]


def noisy(n: int = 8, dim: int = 2, ridge: float = 0.5, seed: int = 0) -> lw.LeastSquares:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((3 * n, dim))
    features[:3] *= 4.0
    return lw.LeastSquares(
        features, rng.standard_normal(3 * n), node=np.repeat(np.arange(n), 3), ridge=ridge
    )


def test_terms_are_the_papers_formulas_with_jumps() -> None:
    network, problem, design, T = lw.ring(8), noisy(), lw.mhlj(p_jump=0.2), 500
    result = lw.bounds(network, problem, design, steps=T, step_size=0.01, x0=[1.0, 2.0])
    L, mu_v, c = problem.smoothness, problem.local_strong_convexity, result.constants
    mean, low, mu = L.mean(), L.min(), mu_v.min()
    P = lw.transition(network, problem, design).toarray()
    nu = lw.stationary(P)
    root = np.sqrt(nu)
    eta = 1.0 - np.linalg.svd(root[:, None] * P / root[None, :], compute_uv=False)[1]
    pi = L / L.sum()
    tv = 0.5 * np.abs(pi - nu).sum()
    e0 = np.sum((np.array([1.0, 2.0]) - problem.optimum) ** 2)
    assert c.spectral_gap == pytest.approx(eta, rel=1e-6)
    assert c.gap_kind == "singular"
    printed = result.forms["printed"]
    assert printed.label == "thmhlj"
    assert printed.transient == pytest.approx(2 * (1 - 0.01 * mu) ** T * e0)
    assert printed.variance == pytest.approx(
        0.01 * mean * problem.sigma_max2 / (eta * mu**2), rel=1e-6
    )
    third = mean**3 * tv**2 * problem.sigma_max2 / (mu**3 * low**2)
    assert printed.bias == pytest.approx(0.2**2 * third)
    proof = result.forms["printed-proof"]
    assert proof.variance == pytest.approx(printed.variance * mean / low)
    assert result.forms["printed-lemmas"].variance == pytest.approx(6 * proof.variance)
    assert result.forms["printed-lemmas"].bias == pytest.approx(12 * third)
    w = mean / L
    h = w[:, None] * problem.local_gradients(problem.optimum)
    m = nu @ h
    V = nu @ np.square(h - m).sum(axis=1)
    mu_w, L_star = (w * mu_v).min(), (w * L).max()
    q = 1 - 0.01 * mu_w
    ours = result.forms["corrected"]
    assert ours.transient == pytest.approx(2 * q**T * e0)
    assert ours.variance == pytest.approx(2 * 0.01 * L_star * V / (eta * mu_w**2), rel=1e-6)
    assert ours.bias == pytest.approx(2 * L_star * (m @ m) / mu_w**3)
    assert ours.remainder == pytest.approx(
        2 * 0.01**2 * q**T * (2 * V * T / eta + T**2 * (m @ m)), rel=1e-6
    )
    assert ours.total == pytest.approx(ours.transient + ours.variance + ours.bias + ours.remainder)


def test_terms_are_the_papers_formulas_without_jumps() -> None:
    network, problem, design = lw.star(8), noisy(), lw.weight_rw()
    result = lw.bounds(network, problem, design, steps=500, step_size=0.01)
    L, mu, c = problem.smoothness, problem.local_strong_convexity.min(), result.constants
    P = lw.transition(network, problem, design).toarray()
    eta = 1.0 - np.sort(np.linalg.eigvals(P).real)[-2]
    assert c.gap_kind == "right"
    assert c.spectral_gap == pytest.approx(eta, rel=1e-6)
    printed = result.forms["printed"]
    assert printed.label == "thmnojump"
    assert printed.variance == pytest.approx(
        0.01 * L.mean() ** 2 * problem.sigma_star2 / (L.min() * eta * mu**2)
    )
    assert printed.bias == 0.0
    assert result.forms["corrected"].bias == pytest.approx(0.0, abs=1e-20)
    assert c.total_variation == 0.0


def test_form_chooses_what_is_computed() -> None:
    network, problem = lw.ring(8), noisy()
    assert set(lw.bounds(network, problem, lw.mhlj(), steps=9, form="corrected").forms) == {
        "corrected"
    }
    assert "corrected" not in lw.bounds(network, problem, lw.mhlj(), steps=9, form="printed").forms
    with pytest.raises(lw.InvalidParameter, match="form"):
        lw.bounds(network, problem, lw.mhlj(), steps=9, form="right")


@pytest.mark.parametrize(
    "design", [lw.weight_rw(), lw.mhlj(), lw.unif_rw(), lw.iid_weighted()], ids=lambda d: d.name
)
def test_the_corrected_corollary_reaches_its_accuracy(design: lw.Design) -> None:
    network, problem = lw.ring(8), noisy()
    result = lw.bounds(network, problem, design, steps=10, accuracy=0.1)
    promise = result.complexity["corrected"]
    target = 0.1 * result.constants.initial2
    setting = make_setting(network, problem, design, promise.step_size)
    for later in (1, 2, 10):
        terms = corrected(result.constants, promise.step_size, later * promise.steps)
        assert terms.total <= promise.error * (1 + 1e-12)
    before = corrected(result.constants, promise.step_size, promise.steps - 1)
    slack = before.transient + before.remainder > 0.5 * target
    assert slack or promise.steps == math.ceil(
        2 / (promise.step_size * result.constants.mu_weighted)
    )
    assert promise.step_size <= 1 / setting.bound.largest
    if moments.affordable(setting, int(promise.steps)):
        truth = moments.recur(
            setting, np.array([int(promise.steps)]), np.zeros(2), setting.law
        ).error2[0]
        assert truth <= promise.error


def test_printed_corollaries_and_the_centralised_comparison_are_as_printed() -> None:
    network, problem = lw.ring(8), noisy()
    for design, label, factor in (
        (lw.weight_rw(), "coro:ratenojump", 2.0),
        (lw.mhlj(), "CompMHLJ", 1.0),
    ):
        result = lw.bounds(network, problem, design, steps=10, accuracy=0.1)
        c, found = result.constants, result.complexity["printed"]
        eps = 0.1 * c.initial2
        noise = c.L_mean**2 * c.sigma_star2 / (c.spectral_gap * c.L_min)
        assert found.label == label
        assert found.step_size == pytest.approx(min(1 / c.L_mean, eps * c.mu**2 / (2 * noise)))
        assert found.steps == math.ceil(math.log(4 / 0.1) * factor * noise / (eps * c.mu**3))
        extra = (
            c.L_mean**3 * c.p_jump**2 * c.total_variation**2 * c.sigma_max2 / (c.L_min**2 * c.mu**4)
        )
        assert found.error == pytest.approx(eps + extra)
        central = result.complexity["centralised"]
        inner = c.L_mean / c.mu_global + c.L_mean / c.L_min * c.sigma_star2 / (c.mu_global**2 * eps)
        assert central.steps == math.ceil(2 * math.log(2 / 0.1) * inner)


def test_hops_per_update_and_the_papers_bound_of_them() -> None:
    network, problem = lw.ring(8), noisy()
    result = lw.bounds(network, problem, lw.mhlj(0.1, 0.5, 3), steps=9)
    assert result.hops_per_update == pytest.approx(1.0571428571)
    assert result.hops_bound == pytest.approx(1.1)
    assert lw.bounds(network, problem, lw.weight_rw(), steps=9).hops_per_update == 1.0
    fixed = lw.Design(target="importance", jump=lw.JumpLaw(0.1, lw.FixedDistance(4)))
    assert lw.bounds(network, problem, fixed, steps=9).hops_per_update == pytest.approx(1.3)
    assert lw.bounds(network, problem, fixed, steps=9).hops_bound is None


def test_without_local_strong_convexity_the_bound_is_infinite_and_says_so() -> None:
    network, problem = lw.ring(20), lw.heterogeneous(20, dim=3, important=1)
    for design in (lw.mhlj(), lw.weight_rw()):
        result = lw.bounds(network, problem, design, steps=100, accuracy=0.1)
        assert all(terms.total == math.inf for terms in result.forms.values())
        assert result.complexity["corrected"].steps == math.inf
        assert result.complexity["printed"].steps == math.inf
        assert result.complexity["centralised"].steps < math.inf
        assert "20 of 20 nodes have μ_v = 0" in result.notes[0]
        assert "ridge" in result.notes[0]
        assert result.ratio() == math.inf


def test_a_step_size_beyond_the_theorems_is_infinite_and_says_so() -> None:
    network, problem = lw.ring(8), noisy()
    largest = lw.weight_rw().bind(network, problem).largest
    result = lw.bounds(network, problem, lw.weight_rw(), steps=10, step_size=1.5 / largest)
    assert result.forms["corrected"].total == math.inf
    assert "exceeds 1/L*" in result.notes[0]


def test_an_untrusted_spectral_gap_makes_the_bounds_untrusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, problem = lw.ring(8), noisy()
    assert lw.bounds(network, problem, lw.mhlj(), steps=9).trusted
    doubtful = SimpleNamespace(value=0.1, trusted=False)
    monkeypatch.setattr(BOUNDS, "spectral_gap", lambda *args, **options: doubtful)
    result = lw.bounds(network, problem, lw.mhlj(), steps=9)
    assert not result.trusted
    assert any("cannot be trusted" in note for note in result.notes)


def test_a_spectral_gap_of_zero_is_infinite_not_an_error() -> None:
    setting = make_setting(lw.ring(8), noisy(), lw.mhlj(), "theory")
    stuck = replace(_constants(setting, np.ones(2)), spectral_gap=0.0)
    assert corrected(stuck, setting.step_size, 100).total == math.inf


def test_a_problem_of_ones_own_gets_bounds_without_a_truth() -> None:
    class Bowls:
        n, dim, smoothness, optimum = 6, 1, np.arange(1.0, 7.0), np.zeros(1)
        local_strong_convexity, strong_convexity = smoothness, 3.5

        def local_loss(self, v: int, x: np.ndarray) -> float:
            return 0.5 * (v + 1) * float(x @ x)

        def local_gradient(self, v: int, x: np.ndarray) -> np.ndarray:
            return (v + 1) * x

    result = lw.bounds(lw.ring(6), Bowls(), lw.mhlj(), steps=50, x0=[1.0])
    assert result.exact is None
    assert result.ratio() is None
    assert result.forms["corrected"].total == pytest.approx(2 * (1 - result.step_size * 3.5) ** 50)


def test_bad_input_is_refused() -> None:
    network, problem = lw.ring(8), noisy()
    with pytest.raises(lw.InvalidParameter, match="steps"):
        lw.bounds(network, problem, lw.mhlj(), steps=0)
    with pytest.raises(lw.InvalidParameter, match="x0"):
        lw.bounds(network, problem, lw.mhlj(), steps=9, x0=[1.0])
    with pytest.raises(lw.InvalidParameter, match="accuracy"):
        lw.bounds(network, problem, lw.mhlj(), steps=9, accuracy=-1.0)
    with pytest.raises(lw.InvalidParameter, match="initial error"):
        lw.bounds(network, problem, lw.mhlj(), steps=9, accuracy=0.1, x0=problem.optimum)
    with pytest.raises(lw.NotConnected):
        lw.bounds(
            lw.Network.from_edges([(0, 1), (2, 3), (4, 5), (6, 7)]), problem, lw.mhlj(), steps=9
        )
