"""Where the noise comes from.

A simulation draws its noise from a domain of its own of the seeded words, so that a run reproduces
and resumes bit by bit. Whoever knows the seed can take this noise off again: simulated noise
protects nobody. A real node must draw with `SystemNoise`.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from levywalk.arrays import Floats, Words64
from levywalk.draws import MIX_1, MIX_2, SLOT, Domain, Key

_CALL = 1 << 32  # slots between two releases of one visit
_ONE, _TWO, _SLOT = np.uint64(MIX_1), np.uint64(MIX_2), np.uint64(SLOT)


class NoiseSource(Protocol):
    """Anything that draws standard normal numbers for the releases of one visit."""

    def __call__(self, release: int, size: int) -> Floats:
        """Return the numbers of a release of this visit, 0 being the first."""


class SeededNoise:
    """The noise of one step of a simulation, as a function of (key, step, release).

    Examples
    --------
    >>> noise = SeededNoise(Key.of(seed=0, domain=Domain.PRIVACY), step=3)
    >>> bool((noise(0, 5) == noise(0, 9)[:5]).all()), bool((noise(0, 5) == noise(1, 5)).any())
    (True, False)
    """

    __slots__ = ("_hash",)

    def __init__(self, key: Key, step: int) -> None:
        self._hash = np.uint64(key.step_hash(step))

    def __call__(self, release: int, size: int) -> Floats:
        """Return the standard normal numbers of a release."""
        slots = np.arange(1 + release * _CALL, 1 + release * _CALL + size, dtype=np.uint64)
        z: Words64 = self._hash + slots * _SLOT  # `levywalk.draws.slot_word`, for many slots
        z = (z ^ (z >> np.uint64(30))) * _ONE
        z = (z ^ (z >> np.uint64(27))) * _TWO
        return normals(z ^ (z >> np.uint64(31)))


class SystemNoise:
    """Noise of the operating system's generator: nobody can compute it again.

    Examples
    --------
    >>> noise = SystemNoise()
    >>> bool((noise(0, 5) == noise(0, 5)).any())
    False
    """

    def __call__(self, release: int, size: int) -> Floats:
        """Return fresh standard normal numbers."""
        return normals(np.frombuffer(os.urandom(8 * size), dtype=np.uint64))


def no_noise(release: int, size: int) -> Floats:
    """Return zeros: the source of a fleet that clips and hides nothing (`Privacy.hides`).

    Examples
    --------
    >>> no_noise(0, 2)
    array([0., 0.])
    """
    return np.zeros(size)


def normals(words: Words64) -> Floats:
    """Return a standard normal number for each 64 random bits, by the inverse of its law.

    The upper 52 bits choose the middle of one of 2^52 intervals of equal probability, so that no
    number is beyond 8.3 standard deviations. (With 53 bits the last middle would round to 1.)

    Examples
    --------
    >>> normals(np.array([0, 2**64 - 1], dtype=np.uint64)).round(3)
    array([-8.21,  8.21])
    """
    found: Floats = ndtri(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)
    return found


def noise_keys(seed: int, purpose: Domain, replicas: range, tokens: int = 1) -> Words64:
    """Return the keys of the noise of each token of each replica, as rows (k0, k1).

    Runs and tunings (their ``purpose``) have different noise.

    Examples
    --------
    >>> noise_keys(0, Domain.WALK, range(3)).shape
    (3, 2)
    """
    rows = [
        np.random.SeedSequence(
            seed, spawn_key=(int(Domain.PRIVACY), int(purpose), replica, token)
        ).generate_state(2, np.uint64)
        for replica in replicas
        for token in range(tokens)
    ]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), 2)
