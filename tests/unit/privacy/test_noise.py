from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import kstest

from levywalk.draws import Domain, Key, keys
from levywalk.privacy import SeededNoise, SystemNoise, noise_keys


def test_seeded_noise_is_the_inverse_normal_of_the_words():
    key = Key(12345, 678)
    for release in (0, 2):
        words = [key.word(7, 1 + (release << 32) + j) for j in range(20)]
        plain = [ndtri(((word >> 12) + 0.5) / 2**52) for word in words]
        assert SeededNoise(key, 7)(release, 20).tolist() == plain


def test_noise_has_the_normal_law():
    key = Key.of(seed=1, domain=Domain.PRIVACY)
    seeded = np.concatenate([SeededNoise(key, t)(0, 50) for t in range(400)])
    assert kstest(seeded, "norm").pvalue > 1e-6
    assert kstest(SystemNoise()(0, 20_000), "norm").pvalue > 1e-9
    assert kstest(seeded * 1.2, "norm").pvalue < 1e-6  # a mutant


def test_noise_has_keys_of_its_own():
    walks = {tuple(row) for d in Domain for row in keys(3, d, range(5)).tolist()}
    runs = {tuple(row) for row in noise_keys(3, Domain.WALK, range(5), tokens=2).tolist()}
    tunings = {tuple(row) for row in noise_keys(3, Domain.TUNING, range(5), tokens=2).tolist()}
    assert len(runs) == len(tunings) == 10
    assert not runs & tunings
    assert not walks & (runs | tunings)
    assert noise_keys(3, Domain.WALK, range(5))[2:].tolist() == (
        noise_keys(3, Domain.WALK, range(2, 5)).tolist()
    )
