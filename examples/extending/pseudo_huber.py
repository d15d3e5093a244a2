"""A loss of your own: pseudo-Huber, quadratic near the target and linear far from it."""

import numpy as np

import levywalk as lw


class PseudoHuber(lw.Loss):
    """φ(z, y) = √(1 + (z - y)²) - 1."""

    name = "pseudo_huber_example"
    curvature_max = 1.0  # of φ'' = (1 + (z - y)²)^(-3/2)

    def value(self, z, y):
        return np.sqrt(1.0 + (z - y) ** 2) - 1.0

    def slope(self, z, y):
        return (z - y) / np.sqrt(1.0 + (z - y) ** 2)

    def compiled(self):
        from numba import njit

        @njit
        def slope(z, y):
            return (z - y) / np.sqrt(1.0 + (z - y) ** 2)

        return slope


lw.register("loss", PseudoHuber.name, PseudoHuber)
