"""Errors of many models at once, each model's number independent of how many there are.

``models[r, m]`` is replica r's at mark m, and ``errors[r, :, column + m]`` are its distance2,
excess_loss and loss. A model that has overflowed, or is so far out that sums of products are inf -
inf, has infinite errors, not unknown ones.
"""

from __future__ import annotations

from math import exp, isfinite, log

import numpy as np
from numba import njit

# Sums may be reordered and fused; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}
_FACTORS = 32  # of numbers in [1, 2]: their product is below 2^32


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def distances2(models, active, optimum, errors, column):  # type: ignore[no-untyped-def]
    """Fill ‖x - x*‖² alone."""
    for r in range(models.shape[0]):
        for m in range(models.shape[1]):
            total = 0.0
            for j in range(models.shape[2]):
                gap = models[r, m, j] - optimum[j]
                total += gap * gap
            errors[r, 0, column + m] = total if active[r, m] and isfinite(total) else np.inf


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def quadratic_excess(models, active, optimum, hessian, least, errors, column):  # type: ignore[no-untyped-def]
    """Fill all errors of least squares: f(x) - f(x*) is ½(x - x*)ᵀH(x - x*), whatever the number of
    samples.
    """
    dim = models.shape[2]
    gap = np.empty(dim)
    for r in range(models.shape[0]):
        for m in range(models.shape[1]):
            square = 0.0
            for j in range(dim):
                gap[j] = models[r, m, j] - optimum[j]
                square += gap[j] * gap[j]
            total = 0.0
            for i in range(dim):
                inner = 0.5 * hessian[i, i] * gap[i]
                for j in range(i):
                    inner += hessian[i, j] * gap[j]
                total += inner * gap[i]
            excess = max(total, 0.0) if isfinite(total) else np.inf
            known = active[r, m]
            errors[r, 0, column + m] = square if known and isfinite(square) else np.inf
            errors[r, 1, column + m] = excess if known else np.inf
            errors[r, 2, column + m] = excess + least if known else np.inf


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def logistic_loss(models, features, targets, offsets, ridge, out):  # type: ignore[no-untyped-def]
    """Fill f(x) of each row: the mean over nodes of the mean over the node's samples, plus the
    ridge.

    Samples are read once for all models. The logarithms of log(1 + e^z) = max(z, 0) + log(1 +
    e^-|z|) are taken of products: one for `_FACTORS` samples.
    """
    nodes, dim = len(offsets) - 1, models.shape[1]
    for r in range(models.shape[0]):
        square = 0.0
        for j in range(dim):
            square += models[r, j] * models[r, j]
        out[r] = 0.5 * ridge * square
    for v in range(nodes):
        share = 1.0 / (nodes * (offsets[v + 1] - offsets[v]))
        for start in range(offsets[v], offsets[v + 1], _FACTORS):
            stop = min(start + _FACTORS, offsets[v + 1])
            for r in range(models.shape[0]):
                total, product = 0.0, 1.0
                for i in range(start, stop):
                    z = 0.0
                    for j in range(dim):
                        z += features[i, j] * models[r, j]
                    product *= 1.0 + exp(-abs(z))
                    total += max(z, 0.0) - targets[i] * z
                out[r] += share * (total + log(product))
