"""Errors of many models at once; the result of a model does not depend on the other models.

``models[r, m]`` is replica r's model at mark m, and ``errors[r, :, column + m]`` are its distance2,
excess_loss and loss. The errors are infinite, and not NaN, for a model that has overflowed or is so
large that sums of products are inf - inf.
"""

from __future__ import annotations

from math import exp, isfinite, log

import numpy as np

from levywalk.engine.kernels.compiling import kernel

# Sums may be reordered and fused; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}
_FACTORS = 32  # factors in [1, 2] per product, which is then at most 2^32


@kernel(fastmath=_REORDER)
def distances2(models, active, optimum, errors, column):  # type: ignore[no-untyped-def]
    """Write only ‖x - x*‖²."""
    for r in range(models.shape[0]):
        for m in range(models.shape[1]):
            total = 0.0
            for j in range(models.shape[2]):
                gap = models[r, m, j] - optimum[j]
                total += gap * gap
            errors[r, 0, column + m] = total if active[r, m] and isfinite(total) else np.inf


@kernel(fastmath=_REORDER)
def quadratic_excess(models, active, optimum, hessian, least, errors, column):  # type: ignore[no-untyped-def]
    """Write all errors of least squares, where f(x) - f(x*) is ½(x - x*)ᵀH(x - x*).

    The cost does not depend on the number of samples.
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


@kernel(fastmath=_REORDER)
def logistic_loss(models, features, targets, offsets, ridge, out):  # type: ignore[no-untyped-def]
    """Write f(x) of each row: the mean over nodes of the node's mean, plus the ridge term.

    Samples are read once for all models. With log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), one
    logarithm is taken of the product of the terms of `_FACTORS` samples.
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
