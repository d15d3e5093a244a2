"""The accountant against the privacy loss distribution, integrated, and a numerical accountant."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import levywalk as lw
from levywalk.privacy import (
    as_privacy,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_epsilon,
)


def integrated_delta(mu: float, epsilon: float) -> float:
    """∫ max(0, p - e^ε q) for p = N(μ, 1) and q = N(0, 1), over the set where it is positive."""
    edge = epsilon / mu + mu / 2
    value, _ = quad(
        lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), edge, edge + 40, epsabs=1e-14
    )
    return value


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_is_the_integral_of_the_privacy_loss(mu, epsilon):
    assert gaussian_delta(mu, epsilon) == pytest.approx(integrated_delta(mu, epsilon), abs=1e-12)


@pytest.mark.parametrize("mu", [0.02, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_epsilon_and_mu_are_inverse_and_never_too_small(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-9)


def test_zcdp_is_an_upper_bound_that_is_close():
    for mu in (0.1, 1.0, 4.0):
        exact, bound = gaussian_epsilon(mu, 1e-5), zcdp_epsilon(mu**2 / 2, 1e-5)
        assert exact < bound < exact * 1.15
        classic = mu**2 / 2 + mu * math.sqrt(2 * math.log(1e5))  # Bun and Steinke 2016
        assert bound < classic


def test_zcdp_is_the_best_order_of_a_grid():
    rho, delta = 0.3, 1e-6
    orders = 1 + np.logspace(-3, 4, 20001)
    values = orders * rho + np.log(1 / (orders * delta)) / (orders - 1) + np.log1p(-1 / orders)
    assert zcdp_epsilon(rho, delta) == pytest.approx(values.min(), rel=1e-7)


def test_composition_is_that_of_a_numerical_accountant():
    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed; the integral above is checked"
    )
    try:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    except ImportError:  # before version 0.1
        from dp_accounting.privacy_loss_distribution import PrivacyLossDistribution

        from_gaussian_mechanism = PrivacyLossDistribution.from_gaussian_mechanism
    for noise, updates in ((1.0, 1), (5.0, 20), (10.0, 400)):
        ours = lw.Privacy(clip=1.0, noise=noise).epsilon(updates)
        release = from_gaussian_mechanism(noise, value_discretization_interval=1e-3)
        theirs = release.self_compose(updates).get_epsilon_for_delta(1e-5)
        assert ours <= theirs * (1 + 1e-9)  # theirs is rounded up
        assert ours == pytest.approx(theirs, rel=0.02)


@pytest.mark.parametrize("budget", [0.2, 1.0, 8.0])
def test_the_cap_is_the_last_update_within_the_budget(budget):
    privacy = lw.Privacy(clip=1.0, noise=30.0, budget=budget)
    cap = privacy.updates_within()
    assert privacy.epsilon(cap) <= budget < privacy.epsilon(cap + 1)


def test_released_scores_are_added():
    plain = lw.Privacy(clip=1.0, noise=10.0)
    released = lw.Privacy(
        clip=1.0, noise=10.0, scores="released", score_low=1.0, score_high=9.0, score_noise=5.0
    )
    assert released.epsilon(0) == pytest.approx(gaussian_epsilon(1 / 5, 1e-5))
    assert released.epsilon(96) == pytest.approx(plain.epsilon(100))  # 4/10² = 1/5²


def test_calibrated_noise_allows_exactly_so_many_updates():
    for updates in (1, 17, 1000):
        assert lw.Privacy.calibrated(clip=2.0, budget=3.0, updates=updates).updates_within() == (
            updates
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clip": 0.0, "noise": 1.0}, "clip must be a number above 0"),
        ({"clip": 1.0, "noise": -1.0}, "noise must be a number of at least 0"),
        ({"clip": 1.0, "noise": 1.0, "budget": 0.0}, "budget must be"),
        ({"clip": 1.0, "noise": 1.0, "delta": 1.0}, "delta must be"),
        ({"clip": 1.0, "noise": 1.0, "adjacency": "row"}, "adjacency must be one of"),
        ({"clip": 1.0, "noise": 1.0, "adversary": "mallory"}, "adversary must be one of"),
        ({"clip": 1.0, "noise": 1.0, "scores": "secret"}, "scores must be one of"),
        ({"clip": 1.0, "noise": 1.0, "score_low": 1.0}, "score_low belongs to"),
        ({"clip": 1.0, "noise": 1.0, "scores": "released"}, "needs score_low"),
    ],
)
def test_wrong_settings_are_refused(given, said):
    with pytest.raises(lw.InvalidParameter, match=said):
        lw.Privacy(**given)


def test_a_budget_for_less_than_an_update_says_which_noise_suffices():
    with pytest.raises(lw.InvalidParameter, match="does not suffice for one update") as error:
        lw.Privacy(clip=1.0, noise=1.0, budget=0.5)
    noise = float(str(error.value).partition("such as noise=")[2].partition(",")[0])
    assert lw.Privacy(clip=1.0, noise=noise, budget=0.5).updates_within() >= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("noise=2", "must have a number for clip"),
        ("clip=1,noise=x", "must have a number for noise, got 'noise=x'"),
        ("clip=1,noise=2,salt=3", "must be made of clip=…"),
        ("clip=1,noise=2,noise=3", "noise twice"),
        ("", "must be made of"),
    ],
)
def test_wrong_texts_are_refused(text, said):
    with pytest.raises(lw.InvalidParameter, match=said):
        as_privacy(text)


def test_texts_dicts_and_objects_mean_the_same():
    made = lw.Privacy(clip=1.0, noise=20.0, budget=2.0, adjacency="node")
    assert as_privacy("clip=1, noise=20, budget=2, adjacency=node") == made
    assert as_privacy({"clip": 1, "noise": 20, "budget": 2, "adjacency": "node"}) == made
    assert as_privacy(made) is made
    assert as_privacy(None) is None
    assert as_privacy(made.record()) == made
    with pytest.raises(lw.InvalidParameter, match=r"privacy must be lw\.Privacy"):
        as_privacy(3)
