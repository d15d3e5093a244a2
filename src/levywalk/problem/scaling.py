"""Features of one scale: divided by their standard deviations, and centred if they are dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.problem.sparse_features import is_sparse

_FLAT = 1e-12  # a constant feature has a spread of rounding errors, relative to its size


def standardised(features: Floats) -> Floats:
    """Return features with mean 0 and standard deviation 1; constant ones stay as they are.

    Examples
    --------
    >>> standardised(np.array([[1.0, 1.0], [3.0, 1.0]]))
    array([[-1.,  1.],
           [ 1.,  1.]])
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    constant = np.ptp(features, axis=0) == 0
    return (features - np.where(constant, 0.0, mean)) / np.where(constant, 1.0, scale)


def spreads(features: Any) -> Floats:
    """Return the standard deviation of each feature, and 1 for constant ones; sparse features stay
    sparse.

    Examples
    --------
    >>> import scipy.sparse
    >>> rows = np.array([[0.0, 5.0, 0.0], [2.0, 5.0, 0.0]])
    >>> spreads(rows), spreads(scipy.sparse.csr_array(rows))
    (array([1., 1., 1.]), array([1., 1., 1.]))
    """
    if is_sparse(features):
        count, width = features.shape
        columns = features.indices
        mean = np.bincount(columns, features.data, minlength=width) / count
        squares = np.square(features.data - mean[columns])
        zeros = count - np.bincount(columns, minlength=width)
        total = np.bincount(columns, squares, minlength=width) + zeros * np.square(mean)
        spread, largest = np.sqrt(total / count), np.zeros(width)
        np.maximum.at(largest, columns, np.abs(features.data))
    else:
        spread, largest = features.std(axis=0), np.abs(features).max(axis=0)
    found: Floats = np.where(spread <= _FLAT * largest, 1.0, spread)
    return found


def divided(features: Any, scale: Floats) -> Any:
    """Return features whose columns are divided by numbers; sparse ones as a CSR array.

    Examples
    --------
    >>> import scipy.sparse
    >>> divided(scipy.sparse.csr_array([[4.0, 0.0], [0.0, 9.0]]), np.array([2.0, 3.0])).toarray()
    array([[2., 0.],
           [0., 3.]])
    """
    if not is_sparse(features):
        return features / scale
    from scipy.sparse import csr_array

    made = csr_array(features, dtype=np.float64, copy=True)
    made.data /= scale[made.indices]
    return made
