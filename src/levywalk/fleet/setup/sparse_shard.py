"""Sparse samples of one node on its disk: the rows of scipy's CSR form, as plain arrays of an npz
file.

::

    feature_starts    where each sample's entries begin, and where the last one's end
    feature_columns   the feature of each entry
    feature_values    the number of each entry
    targets           one per sample, or one row per sample

The number of features is the manifest's. The file is a node's own, and hostile until checked: kinds
and lengths here, and every pointer and column by scipy and `clean_sparse`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from levywalk.archives import Archive
from levywalk.arrays import AnyArray
from levywalk.errors import InvalidData, LevywalkError
from levywalk.problem.sparse_features import clean_sparse, is_sparse

STARTS, COLUMNS, VALUES = "feature_starts", "feature_columns", "feature_values"


def sparse_arrays(features: Any) -> dict[str, AnyArray]:
    """Return the arrays of sparse features, as they are written.

    Examples
    --------
    >>> import scipy.sparse
    >>> rows = scipy.sparse.csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    >>> {name: array.tolist() for name, array in sparse_arrays(rows).items()}
    {'feature_starts': [0, 1, 3], 'feature_columns': [1, 0, 2], 'feature_values': [2.0, 1.0, 3.0]}
    """
    return {
        STARTS: np.asarray(features.indptr, dtype=np.int64),
        COLUMNS: np.asarray(features.indices, dtype=np.int32),
        VALUES: np.asarray(features.data, dtype=np.float64),
    }


def has_sparse(archive: Archive) -> bool:
    """Return whether an archive has sparse features."""
    return any(name in archive.names for name in (STARTS, COLUMNS, VALUES))


def read_sparse(archive: Archive, n_features: int) -> tuple[Any, AnyArray]:
    """Return the features, as a checked CSR array, and the targets as they are."""
    if "features" in archive.names:
        raise InvalidData(
            f"{archive.where}: has features and also {STARTS}; leave one of the two out"
        )
    starts = _whole("feature_starts", archive.array(STARTS, kinds="iu", dims=1))
    columns = _whole("feature_columns", archive.array(COLUMNS, kinds="iu", dims=1))
    values = archive.array(VALUES, kinds="f", dims=1).astype(np.float64)
    if len(starts) < 2:
        raise InvalidData(f"{archive.where}: no sample in the file")
    if int(starts[-1]) != len(columns):  # scipy would leave out what is too much
        raise InvalidData(
            f"{archive.where}: the last of {STARTS} must be the number of entries, {len(columns)}, "
            f"got {int(starts[-1])}; copy the file again from the fleet's folder"
        )
    shape = (len(starts) - 1, n_features)
    from scipy.sparse import csr_array  # only a node with sparse data loads it

    try:
        features = clean_sparse(csr_array((values, columns, starts), shape=shape))
    except (ValueError, LevywalkError) as error:
        raise InvalidData(
            f"{archive.where}: {STARTS}, {COLUMNS} and {VALUES} are no sparse rows of "
            f"{n_features} features: {error}; copy the file again from the fleet's folder"
        ) from None
    return features, archive.array("targets")


def stack_features(parts: Sequence[Any]) -> Any:
    """Return the rows of several features, one after the other; sparse if one of them is.

    Examples
    --------
    >>> import scipy.sparse
    >>> is_sparse(stack_features([np.eye(2), scipy.sparse.eye_array(2)]))
    True
    >>> stack_features([np.eye(2)] * 2).shape
    (4, 2)
    """
    if not any(is_sparse(part) for part in parts):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(part) for part in parts], format="csr")


def _whole(name: str, array: AnyArray) -> AnyArray:
    """Return whole numbers as int64; larger ones are refused, because they would wrap around."""
    if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidData(f"{name} must be whole numbers below 2^63, got {int(array.max())}")
    return array.astype(np.int64)
