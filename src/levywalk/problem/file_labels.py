"""The targets of a data file as numbers: labels that are text, or two of them, become 0 and 1;
more than two become 0, 1, 2, … for softmax regression.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem.columns import names_text, split_list
from levywalk.problem.raw_data import RawData
from levywalk.remedy import python_or_command

_FEW = 20  # classes that an error lists


def targets_of(raw: RawData, labels: str | Iterable[Any] | None) -> Floats:
    """Return the targets as numbers, with labels mapped to 0 and 1."""
    if labels is None:
        if raw.targets.dtype.kind in "biuf":
            return raw.targets.astype(np.float64)
        found = list(dict.fromkeys(map(str, raw.targets.tolist())))
        few = sorted(found) if 2 <= len(found) <= _FEW else ["no", "yes"]
        remedy = python_or_command(
            f"labels=({', '.join(map(repr, few))})", f"--labels {','.join(few)}"
        )
        which = "which is 0 and which is 1" if len(few) == 2 else "which are 0, 1, 2, …"
        raise InvalidData(
            f"the target {raw.target_name!r} holds text ({names_text(found)}), not numbers; "
            f"if it is the label of a class, say {which}, such as {remedy}"
        )
    wanted = [_label(label) for label in split_list(labels)]
    if not wanted or len(set(wanted)) != len(wanted):
        raise InvalidParameter(f"labels must be different labels, got {labels!r}")
    values = np.array([_label(value) for value in raw.targets.tolist()])
    found = sorted(set(values.tolist()))
    absent = [label for label in wanted if label not in found]
    if absent:
        raise InvalidData(
            f"no sample has the label {names_text(absent)}; the target {raw.target_name!r} has "
            f"{names_text(found)}"
        )
    if len(wanted) == 1:
        return np.asarray(values == wanted[0], dtype=np.float64)
    others = [label for label in found if label not in wanted]
    if others and len(wanted) > 2:
        raise InvalidData(
            f"the target {raw.target_name!r} also has the labels {names_text(others)}; name them, "
            "too, or remove these samples"
        )
    if others:
        remedy = python_or_command(f"labels=[{wanted[1]!r}]", f"--labels {wanted[1]}")
        raise InvalidData(
            f"the target {raw.target_name!r} also has the labels {names_text(others)}; take one "
            f"class against all others with {remedy}"
        )
    if len(wanted) > 2:
        return np.array([wanted.index(value) for value in values.tolist()], dtype=np.float64)
    return np.asarray(values == wanted[1], dtype=np.float64)


def _label(value: Any) -> str:
    """Return a label as text, in which 1, 1.0 and "1" are equal."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)
