"""Checks of a data set.

Each check returns a clean array, or raises an error that names the bad entry and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.errors import InvalidData
from levywalk.remedy import python_or_command

_BLOCK = (
    1 << 19
)  # entries of a temporary: 4 MiB of float64 stay within the cache and far below any data set
_Array = TypeVar("_Array", bound=AnyArray)
_MOST_NODES = 2**31 - 1  # of a network
_SHOWN = 5  # offending values listed in a message


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices over ``rows`` rows of ``width`` entries, small enough for temporary arrays.

    Examples
    --------
    >>> list(row_blocks(3, 10))
    [slice(0, 3, None)]
    """
    # A factorisation needs blocks with at least as many rows as columns, or it would repeat its
    # work for every row.
    step = max(_BLOCK // max(width, 1), 2 * width, 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def read_only(array: _Array) -> _Array:
    """Return a view of ``array`` that cannot be written to; the caller's own array stays writable.

    Examples
    --------
    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    view = array.view()
    view.setflags(write=False)
    return view


def clean_features(features: Any) -> Floats:
    """Return ``features`` as a finite C-ordered float64 matrix, one row per sample.

    Examples
    --------
    >>> clean_features([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    array = _real_array("features", features)
    if array.ndim == 1:
        raise InvalidData(
            f"features must have two dimensions (samples, dim), got shape {array.shape}; "
            "one feature per sample is features.reshape(-1, 1)"
        )
    if array.ndim != 2:
        raise InvalidData(
            f"features must have two dimensions (samples, dim), got shape {array.shape}"
        )
    if 0 in array.shape:
        raise InvalidData(
            f"features must have at least one row and one column, got shape {array.shape}"
        )
    clean: Floats = np.ascontiguousarray(array, dtype=np.float64)
    for rows in row_blocks(*clean.shape):
        bad = ~np.isfinite(clean[rows])
        if bad.any():
            row, column = np.argwhere(bad)[0] + (rows.start, 0)
            raise InvalidData(
                f"features must be finite, got {float(clean[row, column])!r} at row {row}, column "
                f"{column}; "
                "drop or impute such rows"
            )
    return clean


def clean_targets(targets: Any, samples: int, several: bool = False) -> Floats:
    """Return ``targets`` as a finite float64 vector, one entry per sample, or one row of
    ``several``.

    Examples
    --------
    >>> clean_targets([1, 2, 3], 3)
    array([1., 2., 3.])
    """
    array = _real_array("targets", targets)
    if array.ndim != 1 and not (several and array.ndim == 2):
        remedy = "; pass targets.ravel()" if array.size == samples else ""
        raise InvalidData(f"targets must have one dimension, got shape {array.shape}{remedy}")
    if len(array) != samples:
        raise InvalidData(
            f"targets must have one entry per row of features ({samples}), got {len(array)}"
        )
    clean: Floats = np.ascontiguousarray(array, dtype=np.float64)
    finite = np.isfinite(clean)
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        bad = float(clean[~finite].flat[0])
        raise InvalidData(f"targets must be finite, got {bad!r} at position {row}; drop it")
    return clean


def clean_labels(targets: Floats) -> Floats:
    """Return labels {0, 1} or {-1, 1} as {0, 1}.

    Examples
    --------
    >>> clean_labels(np.array([-1.0, 1.0]))
    array([0., 1.])
    """
    positive = targets == 1.0
    if (positive | (targets == 0.0)).all():
        return targets
    if (positive | (targets == -1.0)).all():
        return np.asarray(positive, dtype=np.float64)
    found = np.unique(targets)
    shown = ", ".join(f"{label:g}" for label in found[:_SHOWN]) + (
        ", …" if len(found) > _SHOWN else ""
    )
    pair = ",".join(f"{label:g}" for label in found[: 2 if len(found) == 2 else 1])
    remedy = python_or_command("targets == value", f"--labels {pair}")
    squares = python_or_command("use lw.LeastSquares for", "use --loss least_squares for")
    other = f"; {squares} targets that are quantities" if len(found) > 2 else ""
    raise InvalidData(
        f"targets must be labels in {{0, 1}} or {{-1, 1}}, got {len(found)} distinct values "
        f"({shown}); choose one class against the rest, for example {remedy}{other}"
    )


def two_classes(targets: Any) -> tuple[AnyArray, Any]:
    """Return the two classes of a problem, the second the positive one, and targets as numbers.

    Two strings are sorted, and become 0 and 1; numbers are left to `clean_labels`.

    Examples
    --------
    >>> two_classes(["yes", "no", "yes"])
    (array(['no', 'yes'], dtype='<U3'), array([1., 0., 1.]))
    >>> two_classes([-1, 1])[0]
    array([-1,  1])
    """
    try:
        found = np.asarray(targets)
        names = found.dtype.kind in "US" or (
            found.dtype.kind == "O" and all(isinstance(one, str) for one in found.ravel().tolist())
        )
    except ValueError:  # rows of different lengths, refused with the other checks
        return np.array([0, 1]), targets
    if not names or found.ndim != 1:
        numbers = found.dtype.kind in "if" and bool((found == -1).any())
        return np.array([-1, 1] if numbers else [0, 1]), targets
    classes, codes = np.unique(found.astype(np.str_), return_inverse=True)
    if len(classes) != 2:
        shown = ", ".join(repr(str(one)) for one in classes[:_SHOWN])
        raise InvalidData(
            f"targets must have two classes, got {len(classes)} ({shown}); use "
            f"{python_or_command('lw.Softmax', '--loss softmax')} for more classes"
        )
    return read_only(classes), codes.reshape(-1).astype(np.float64)


def clean_nodes(node: Any, samples: int, holes: bool = False) -> Ints:
    """Return the node of each sample as int64.

    Every node from 0 to the largest must have a sample, unless ``holes`` are allowed.

    Examples
    --------
    >>> clean_nodes([0, 1, 1, 3], 4)
    Traceback (most recent call last):
    levywalk.errors.InvalidData: node 2 has no sample; number the nodes 0 to 2 without holes, ...
    >>> clean_nodes([0, 1, 1, 3], 4, holes=True)
    array([0, 1, 1, 3])
    """
    array = _real_array("node", node)
    if array.shape != (samples,):
        raise InvalidData(
            f"node must have an entry per row of features ({samples}), got shape {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise InvalidData(
            f"node must hold integers, got {array.dtype} (first value {array[0]!s}); pass "
            "node.astype(int)"
        )
    if int(array.min()) < 0:
        position = int(np.argmax(array < 0))
        raise InvalidData(
            f"node must be at least 0, got {int(array[position])} at position {position}"
        )
    largest = int(array.max())
    if holes:
        if largest >= _MOST_NODES:
            position = int(np.argmax(array))
            raise InvalidData(
                f"node must be below {_MOST_NODES}, got {largest} at position {position}"
            )
        return np.ascontiguousarray(array, dtype=np.int64)
    # This is decided before counting, so that one very large id does not allocate a huge array.
    present = (
        np.unique(array)
        if largest >= samples
        else np.flatnonzero(np.bincount(array.astype(np.int64)))
    )
    if len(present) <= largest:
        hole = int(np.argmax(present != np.arange(len(present), dtype=present.dtype)))
        if present[hole] == hole:
            hole = len(present)
        raise InvalidData(
            f"node {hole} has no sample; number the nodes 0 to {len(present) - 1} without holes, "
            "for example node = np.unique(node, return_inverse=True)[1], or let nodes without data "
            "pass the model on with idle='pass'"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _real_array(name: str, value: Any) -> AnyArray:
    if hasattr(value, "toarray"):
        raise InvalidData(
            f"{name} must be a dense array, got {type(value).__name__}; pass {name}.toarray()"
        )
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise InvalidData(f"{name} must have no masked entries; drop or fill them")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidData(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InvalidData(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert it, say "
            f"{name}.astype(float)"
        )
    return array
