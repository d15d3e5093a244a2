"""Read a data frame: pandas, polars, or any object with the data frame interchange protocol.

No data frame library is imported, unless a frame can be read only through the protocol: pandas then
does it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidData
from levywalk.extras import needs
from levywalk.problem.columns import Column, choose_columns
from levywalk.problem.raw_data import RawData


def is_frame(source: Any) -> bool:
    """Whether an object is a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame("a.csv")
    (True, False)
    """
    return hasattr(source, "__dataframe__") or (
        hasattr(source, "columns") and hasattr(source, "__getitem__") and hasattr(source, "shape")
    )


def read_frame(
    frame: Any,
    *,
    target: Column | None,
    node: Column | None,
    features: str | Iterable[Column] | None,
    missing: str,
) -> RawData:
    """Return the chosen columns of a data frame; see `levywalk.read_data` for the arguments."""
    columns = _columns_of(frame)
    names = [str(name) for name, _ in columns]
    if len(names) < 2:
        raise InvalidData(
            f"the data frame must have a feature and a target, got {len(names)} columns"
        )
    chosen = choose_columns(
        "data frame", len(names), names, target=target, node=node, features=features
    )
    used = [*chosen.features, chosen.target] + ([] if chosen.node is None else [chosen.node])
    absent = {i: _missing(columns[i][1]) for i in used}
    gone = np.logical_or.reduce(list(absent.values()))
    if gone.any() and missing == "refuse":
        i = next(i for i in used if absent[i].any())
        row = int(np.argmax(absent[i]))
        raise InvalidData(
            f"the data frame has no value in column {names[i]!r}, row {row} ({int(gone.sum())} "
            "such rows); missing='drop' leaves them out"
        )
    keep = ~gone
    if not keep.any():
        raise InvalidData("the data frame has no row without missing values")
    goal = columns[chosen.target][1][keep]
    numeric = goal.dtype.kind in "biuf"
    return RawData(
        features=np.column_stack(
            [_numbers(names[i], columns[i][1][keep]) for i in chosen.features]
        ),
        targets=goal.astype(np.float64) if numeric else np.array([str(one) for one in goal]),
        node=None
        if chosen.node is None
        else np.array([str(one) for one in columns[chosen.node][1][keep]]),
        feature_names=[names[i] for i in chosen.features],
        target_name=names[chosen.target],
        node_name=None if chosen.node is None else names[chosen.node],
        dropped=int(gone.sum()),
    )


def _columns_of(frame: Any) -> list[tuple[Any, AnyArray]]:
    """Return the name and the values of each column."""
    if not (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        with needs("frames", f"a data frame of type {type(frame).__name__}", "pandas"):
            from pandas.api.interchange import from_dataframe

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas announces that it will drop the protocol
            frame = from_dataframe(frame)
    names = list(frame.columns)
    if len(set(names)) != len(names):
        raise InvalidData("the data frame has two columns with the same name; rename one")
    return [(name, np.asarray(frame[name])) for name in names]


def _missing(values: AnyArray) -> AnyArray:
    """Whether each value is missing: NaN, None or another object that is not equal to itself."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=np.bool_)
    return np.array([_is_missing(value) for value in values.tolist()], dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def _numbers(name: str, values: AnyArray) -> AnyArray:
    """Return a column of numbers as float64."""
    if values.dtype.kind not in "biufO":
        raise InvalidData(_not_numbers(name, values[0]))
    try:
        return np.array([float(value) for value in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        strange = next(value for value in values.tolist() if isinstance(value, str) or not value)
        raise InvalidData(_not_numbers(name, strange)) from None


def _not_numbers(name: str, value: Any) -> str:
    return (
        f"the column {name!r} of the data frame holds {value!r}, not numbers; choose columns of "
        "numbers with features=, or name it as node= or target="
    )
