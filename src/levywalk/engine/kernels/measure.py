"""Errors of many models at once, each model's number independent of how many there are."""

from __future__ import annotations

from math import exp, log1p

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def distances2(models, optimum, out):  # type: ignore[no-untyped-def]
    """Fill ‖x - x*‖² of each row."""
    for r in range(models.shape[0]):
        total = 0.0
        for j in range(models.shape[1]):
            gap = models[r, j] - optimum[j]
            total += gap * gap
        out[r] = total


@njit(cache=True, nogil=True, error_model="numpy")
def quadratic_excess(models, optimum, hessian, out):  # type: ignore[no-untyped-def]
    """Fill ½(x - x*)ᵀH(x - x*) of each row: the excess loss of least squares, whatever the number of samples."""
    dim = models.shape[1]
    for r in range(models.shape[0]):
        total = 0.0
        for i in range(dim):
            inner = 0.0
            for j in range(dim):
                inner += hessian[i, j] * (models[r, j] - optimum[j])
            total += inner * (models[r, i] - optimum[i])
        out[r] = 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_loss(models, features, targets, offsets, ridge, out):  # type: ignore[no-untyped-def]
    """Fill f(x) of each row: the mean over nodes of the mean over the node's samples, plus the ridge."""
    nodes, dim = len(offsets) - 1, models.shape[1]
    for r in range(models.shape[0]):
        total = 0.0
        for v in range(nodes):
            local = 0.0
            for i in range(offsets[v], offsets[v + 1]):
                z = 0.0
                for j in range(dim):
                    z += features[i, j] * models[r, j]
                soft = z + log1p(exp(-z)) if z > 0.0 else log1p(exp(z))
                local += soft - targets[i] * z
            total += local / (offsets[v + 1] - offsets[v])
        square = 0.0
        for j in range(dim):
            square += models[r, j] * models[r, j]
        out[r] = total / nodes + 0.5 * ridge * square
