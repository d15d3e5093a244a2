"""The paper's data laws: shapes, seeds and arguments (their moments are in tests/statistical)."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter, TooLarge
from levywalk.problem import LeastSquares, heterogeneous, homogeneous


def test_same_seed_same_data_other_seed_other_data():
    first, again, other = homogeneous(50, seed=3), homogeneous(50, seed=3), homogeneous(50, seed=4)
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != other.fingerprint()
    assert isinstance(first, LeastSquares)
    assert first.truth.shape == (10,)
    assert first.important_nodes.size == 0


def test_heterogeneous_differs_from_homogeneous_at_important_nodes_alone():
    plain, spiked = homogeneous(200, seed=5), heterogeneous(200, important=3, seed=5)
    np.testing.assert_array_equal(plain.truth, spiked.truth)
    changed = np.flatnonzero((plain.features != spiked.features).any(axis=1))
    np.testing.assert_array_equal(changed, spiked.important_nodes)
    np.testing.assert_allclose(spiked.features[changed], 10 * plain.features[changed], rtol=1e-15)


@pytest.mark.parametrize("important", [0, 1, 7, 50])
def test_important_fixes_the_number_of_important_nodes(important):
    nodes = heterogeneous(50, important=important, seed=2).important_nodes
    assert len(np.unique(nodes)) == important
    assert (np.sort(nodes) == nodes).all()


def test_without_noise_the_truth_is_the_optimum():
    problem = heterogeneous(100, dim=4, noise=0.0, important=2)
    np.testing.assert_allclose(problem.optimum, problem.truth, rtol=1e-12)
    assert problem.sigma_max2 < 1e-20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: homogeneous(1), "n must be an integer of at least 2"),
        (lambda: homogeneous(5, dim=0), "dim"),
        (lambda: homogeneous(5, sigma2=0), "sigma2 must be a number above 0, got 0"),
        (lambda: homogeneous(5, noise=-1), "noise must be a number at least 0"),
        (lambda: homogeneous(5, seed=-1), "seed"),
        (lambda: heterogeneous(5, sigma2_high=np.inf), "sigma2_high"),
        (lambda: heterogeneous(5, p_high=1.5), r"p_high must be a number in \[0, 1\]"),
        (lambda: heterogeneous(5, important=6), r"important must be an integer in \[0, 5\], got 6"),
        (lambda: heterogeneous(5, important=2.5), "important"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_a_data_set_beyond_any_memory_is_refused():
    with pytest.raises(TooLarge, match="draw fewer nodes"):
        homogeneous(10**15)


@pytest.mark.parametrize("make", [lw.homogeneous, lw.heterogeneous], ids=["homo", "hetero"])
def test_snr_fixes_the_noise_of_the_instance(make):
    plain = make(50, dim=4, seed=3)
    for snr in (10.0, 115, 33_000.0):
        problem = make(50, dim=4, seed=3, snr=snr)
        np.testing.assert_array_equal(problem.truth, plain.truth)
        np.testing.assert_array_equal(problem.features, plain.features)
        unit = plain.targets - plain.features @ plain.truth
        noise = problem.targets - problem.features @ problem.truth
        np.testing.assert_allclose(problem.truth @ problem.truth / (noise / unit) ** 2, snr)
    exact = make(50, dim=4, seed=3, snr=np.inf)
    np.testing.assert_allclose(exact.targets, exact.features @ exact.truth)
    for wrong in (0, -1.0, "much", float("nan")):
        with pytest.raises(lw.InvalidParameter, match="snr"):
            make(50, snr=wrong)
    with pytest.raises(lw.InvalidParameter, match="one of them"):
        make(50, noise=1.0, snr=10)


def test_relative_errors_depend_on_truth_and_noise_only_through_the_ratio():
    """Truth and noise times ten: the walk is the same, and so is the relative error."""
    network, base = lw.ring(30), lw.heterogeneous(30, dim=3, important=1, seed=2, snr=50.0)
    larger = lw.LeastSquares(base.features, 10.0 * base.targets)
    options = {"steps": 400, "step_size": 1e-3, "seed": 1, "backend": "reference"}
    one = lw.run(network, base, lw.mhlj(), **options)
    ten = lw.run(network, larger, lw.mhlj(), **options)
    np.testing.assert_allclose(ten.error, one.error, rtol=1e-9)
