"""The errors of models at a checkpoint, computed with numpy if numba is not installed.

The compiled functions of `levywalk.engine.kernels.measure` are used wherever numba can be imported;
the functions here give the same results up to rounding.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Bools, Floats, Ints


def distances2(models: Floats, active: Bools, optimum: Floats, errors: Floats, column: int) -> None:
    """Write only ‖x - x*‖²."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.square(models - optimum).sum(axis=2)
    here = slice(column, column + models.shape[1])
    errors[:, 0, here] = np.where(active & np.isfinite(found), found, np.inf)


def quadratic_excess(
    models: Floats,
    active: Bools,
    optimum: Floats,
    hessian: Floats,
    least: float,
    errors: Floats,
    column: int,
) -> None:
    """Write all errors of least squares, where f(x) - f(x*) is ½(x - x*)ᵀH(x - x*)."""
    distances2(models, active, optimum, errors, column)
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = models - optimum
        found = 0.5 * np.einsum("rmi,ij,rmj->rm", gaps, hessian, gaps)
    found = np.where(np.isfinite(found), np.maximum(found, 0.0), np.inf)
    here = slice(column, column + models.shape[1])
    errors[:, 1, here] = np.where(active, found, np.inf)
    errors[:, 2, here] = np.where(active, found + least, np.inf)


def logistic_loss(
    models: Floats, features: Floats, targets: Floats, offsets: Ints, ridge: float, out: Floats
) -> None:
    """Write f(x) of each row: the mean over nodes of the node's mean, plus the ridge term."""
    counts = np.diff(offsets)
    for r, x in enumerate(models):
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.logaddexp(0.0, (1.0 - 2.0 * targets) * (features @ x))
            means = np.add.reduceat(losses, offsets[:-1]) / counts
            out[r] = means.mean() + 0.5 * ridge * float(x @ x)
