"""What was taken as what in a data file, in words."""

from __future__ import annotations

from levywalk.problem.raw_data import RawData
from levywalk.problem.sparse_features import is_sparse
from levywalk.remedy import python_or_command

_NAMED = 6  # features that a description names


def description_of(raw: RawData, name: str, kind: str, names: list[str], standardise: bool) -> str:
    """Return the number of samples, the target, the node column, the features and the form."""
    count = len(raw.targets)
    parts = [f"{count} sample{'s' if count > 1 else ''}"]
    if raw.dropped:
        parts.append(f"{raw.dropped} with missing values left out")
    if kind == "csv":
        no = python_or_command("header=False", "--no-header")
        parts.append(
            "no header"
            if raw.header is None
            else "line 1 counts the columns and was taken as the header (a sample: " + no + ")"
            if raw.header_counts_columns
            else "line 1 is the header"
        )
    if kind == "libsvm":
        parts.append("the label is the target")
    elif kind == "csv" and raw.header is None:
        parts.append(f"target column {raw.target_name}")
    else:
        parts.append(f"target {raw.target_name!r}")
    if raw.node_name is not None:
        parts.append(f"node {raw.node_name!r}")
    if raw.left_out:
        parts.append(
            f"{raw.left_out} column{'s' if raw.left_out > 1 else ''} without a name left out"
        )
    shown = names if kind != "libsvm" or names[-1] == "intercept" else []
    listed = ", ".join(map(repr, shown[:_NAMED])) + (", …" if len(shown) > _NAMED else "")
    parts.append(
        f"{len(names)} {'standardised ' if standardise else ''}feature"
        f"{'s' if len(names) > 1 else ''}" + (f": {listed}" if listed and kind != "libsvm" else "")
    )
    if is_sparse(raw.features):
        share = raw.features.nnz / (raw.features.shape[0] * raw.features.shape[1])
        dense = python_or_command("dense=True", "--dense")
        parts.append(f"kept sparse, with {share:.2%} of all entries (a dense matrix: {dense})")
    return f"{name}: {'; '.join(parts)}"
