"""Sparse features: checked arrays in scipy's CSR form, and what dense operations need of them.

scipy is imported only where it is used, as in `levywalk.problem.linear`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidData
from levywalk.remedy import python_or_command
from levywalk.room import require_room

_MOST_COLUMNS = 2**31 - 1  # columns are numbered by 32 bits


def is_sparse(features: Any) -> bool:
    """Return whether features are a sparse matrix or array of scipy.

    Examples
    --------
    >>> import scipy.sparse
    >>> is_sparse(scipy.sparse.eye_array(2)), is_sparse(np.eye(2))
    (True, False)
    """
    return hasattr(features, "tocsr") and hasattr(features, "nnz")


def clean_sparse(features: Any) -> Any:
    """Return sparse features as a checked CSR array of float64 that cannot be written to.

    Columns of a row are sorted and occur once, and zeros are left out. Every array is checked,
    since the kernels trust them.

    Examples
    --------
    >>> import scipy.sparse
    >>> twice = scipy.sparse.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    >>> clean_sparse(twice).toarray()
    array([[0., 3., 0.],
           [5., 0., 0.]])
    """
    from scipy.sparse import csr_array

    shape = tuple(features.shape)
    if len(shape) != 2 or 0 in shape or shape[1] > _MOST_COLUMNS:
        raise InvalidData(
            f"features must have two dimensions (samples, dim) and at most {_MOST_COLUMNS} "
            f"columns, got shape {shape}"
        )
    if np.dtype(features.dtype).kind not in "biuf":
        raise InvalidData(f"features must hold real numbers, got dtype {features.dtype}")
    try:
        if hasattr(features, "check_format"):
            features.check_format(full_check=True)
        made = csr_array(features, dtype=np.float64, copy=True)
        _check_structure(made.indptr, made.indices, made.data, shape)
        made.sum_duplicates()
        made.eliminate_zeros()
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidData(f"features are no valid sparse matrix: {error}") from None
    finite = np.isfinite(made.data)
    if not finite.all():
        at = int(np.argmin(finite))
        row = int(np.searchsorted(made.indptr, at, side="right")) - 1
        raise InvalidData(
            f"features must be finite, got {float(made.data[at])!r} in row {row}, column "
            f"{int(made.indices[at])}; drop or replace it"
        )
    return read_only_features(made)


def _check_structure(indptr: Any, indices: Any, data: Any, shape: tuple[int, ...]) -> None:
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError("the row pointers must begin with 0 and not fall")
    if int(indptr[-1]) != len(indices) or len(indices) != len(data):
        raise ValueError("the arrays of columns and values must have the length that rows say")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= shape[1]):
        raise ValueError(f"column numbers must lie in [0, {shape[1] - 1}]")


def read_only_features(features: Any) -> Any:
    """Return features, dense or sparse, that cannot be written to."""
    if not is_sparse(features):
        view = features.view()
        view.setflags(write=False)
        return view
    for array in (features.indptr, features.indices, features.data):
        array.setflags(write=False)
    return features


def dense_features(features: Any, what: str = "the dense matrix of features") -> Floats:
    """Return features as a dense matrix; sparse ones only if there is room for it.

    Examples
    --------
    >>> import scipy.sparse
    >>> dense_features(scipy.sparse.eye_array(2))
    array([[1., 0.],
           [0., 1.]])
    """
    if not is_sparse(features):
        return np.asarray(features)
    require_room(
        what,
        features.shape,
        8,
        f"it is needed in full here; select features{python_or_command('', ' with --features')}",
    )
    return np.asarray(features.toarray(), dtype=np.float64)


def with_ones(features: Any) -> Any:
    """Return features, dense or sparse, with a column of ones at the end."""
    ones = np.ones((features.shape[0], 1))
    if not is_sparse(features):
        return np.hstack([features, ones])
    from scipy.sparse import csr_array, hstack

    return clean_sparse(hstack([features, csr_array(ones)], format="csr"))


def combine_rows(features: Any, slopes: Floats) -> Floats:
    """Return Σ slope a over the samples, for dense or sparse features."""
    found: Floats = features.T @ slopes if is_sparse(features) else slopes @ features
    return found


def sparse_row_squares(features: Any) -> Floats:
    """Return ‖a‖² of every row of sparse features."""
    squares = np.square(features.data)
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    found: Floats = np.bincount(rows, squares, minlength=features.shape[0]).astype(np.float64)
    return found


def sparse_gram_extremes(features: Any, offsets: Ints) -> tuple[Floats, Floats]:
    """Return the largest and the smallest eigenvalue of every node's mean of a aᵀ.

    The smaller of the two Gram matrices of a node's samples is made, never one of dim x dim numbers
    for a node with fewer samples. For a node with more than `_LARGE_GRAM` samples and features, the
    largest is found by Lanczos' method, and the smallest is given as 0, which it is at least.
    """
    n, dim = len(offsets) - 1, features.shape[1]
    squares = sparse_row_squares(features)
    largest, smallest = np.zeros(n), np.zeros(n)
    for v in range(n):
        start, stop = int(offsets[v]), int(offsets[v + 1])
        count = stop - start
        if count == 1:
            largest[v] = squares[start]
            smallest[v] = squares[start] if dim == 1 else 0.0
            continue
        rows = features[start:stop]
        if min(count, dim) > _LARGE_GRAM:
            from scipy.sparse.linalg import svds

            top = svds(rows, k=1, return_singular_vectors=False, rng=np.random.default_rng(0))
            largest[v] = float(top[0]) ** 2 / count
            continue
        gram = (rows @ rows.T if count < dim else rows.T @ rows).toarray() / count
        values = np.linalg.eigvalsh(gram)
        largest[v] = values[-1]
        if count >= dim and values[0] > _ROUNDING * dim * values[-1]:
            smallest[v] = values[0]
    return largest, smallest


_LARGE_GRAM = 2_048
_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # times dim: relative rounding error
